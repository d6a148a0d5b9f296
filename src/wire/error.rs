//! The `error` type (section 2.8.14): what ends a link, session or connection, and why a delivery was rejected.

use super::fields::{Fields, FieldsWriter};
use super::{descriptor, WireError};

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Error<'a> {
    pub condition: &'a str,
    pub description: Option<&'a str>,
    /// A map, as encoded.
    pub info: Option<&'a [u8]>,
}

impl<'a> Error<'a> {
    pub fn new(condition: &'a str, description: &'a str) -> Error<'a> {
        Error { condition, description: (!description.is_empty()).then_some(description), info: None }
    }

    /// Reads a whole described value.
    pub fn decode(raw: &'a [u8]) -> Result<Error<'a>, WireError> {
        let mut fields = Fields::of(raw, descriptor::ERROR, "error")?;
        let error = Error {
            condition: fields.symbol("condition")?.ok_or(WireError::Missing("condition"))?,
            description: fields.string("description")?,
            info: fields.map("info")?,
        };
        fields.finish("error")?;
        Ok(error)
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut fields = FieldsWriter::new(out, descriptor::ERROR);
        fields.symbol(Some(self.condition));
        fields.string(self.description);
        fields.raw(self.info);
        fields.finish();
    }

    pub fn to_vec(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(64);
        self.encode(&mut out);
        out
    }
}
