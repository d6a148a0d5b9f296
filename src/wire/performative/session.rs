//! Begin and end (sections 2.7.2, 2.7.8).

use crate::wire::error::Error;
use crate::wire::fields::{Fields, FieldsWriter, Symbols};
use crate::wire::terminus::unless;
use crate::wire::{descriptor, WireError};

/// An end of a session begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Begin<'a> {
    /// The channel whose begin this answers.
    pub remote_channel: Option<u16>,
    pub next_outgoing_id: u32,
    pub incoming_window: u32,
    pub outgoing_window: u32,
    pub handle_max: u32,
    pub offered_capabilities: Symbols<'a>,
    pub desired_capabilities: Symbols<'a>,
    /// A map, as encoded.
    pub properties: Option<&'a [u8]>,
}

impl Default for Begin<'_> {
    fn default() -> Self {
        Begin {
            remote_channel: None,
            next_outgoing_id: 0,
            incoming_window: 0,
            outgoing_window: 0,
            handle_max: u32::MAX,
            offered_capabilities: Symbols::NONE,
            desired_capabilities: Symbols::NONE,
            properties: None,
        }
    }
}

impl<'a> Begin<'a> {
    pub(super) fn read(mut fields: Fields<'a>) -> Result<Begin<'a>, WireError> {
        let begin = Begin {
            remote_channel: fields.ushort("remote-channel")?,
            next_outgoing_id: fields.uint("next-outgoing-id")?.ok_or(WireError::Missing("next-outgoing-id"))?,
            incoming_window: fields.uint("incoming-window")?.ok_or(WireError::Missing("incoming-window"))?,
            outgoing_window: fields.uint("outgoing-window")?.ok_or(WireError::Missing("outgoing-window"))?,
            handle_max: fields.uint("handle-max")?.unwrap_or(u32::MAX),
            offered_capabilities: fields.symbols("offered-capabilities")?,
            desired_capabilities: fields.symbols("desired-capabilities")?,
            properties: fields.map("properties")?,
        };
        fields.finish("begin")?;
        Ok(begin)
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut fields = FieldsWriter::new(out, descriptor::BEGIN);
        fields.ushort(self.remote_channel);
        fields.uint(Some(self.next_outgoing_id));
        fields.uint(Some(self.incoming_window));
        fields.uint(Some(self.outgoing_window));
        fields.uint(unless(self.handle_max, u32::MAX));
        fields.symbols(&self.offered_capabilities);
        fields.symbols(&self.desired_capabilities);
        fields.raw(self.properties);
        fields.finish();
    }
}

/// An end of a session ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct End<'a> {
    pub error: Option<Error<'a>>,
}

impl<'a> End<'a> {
    pub(super) fn read(mut fields: Fields<'a>) -> Result<End<'a>, WireError> {
        let end = End { error: fields.described("error")?.map(Error::decode).transpose()? };
        fields.finish("end")?;
        Ok(end)
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut fields = FieldsWriter::new(out, descriptor::END);
        fields.error(self.error.as_ref());
        fields.finish();
    }
}
