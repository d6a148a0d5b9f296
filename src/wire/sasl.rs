//! SASL frames (section 5.3.3).

use super::fields::{read_descriptor, Fields, FieldsWriter, Symbols};
use super::value::Reader;
use super::{descriptor, WireError};

/// The server's mechanisms.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Mechanisms<'a> {
    pub sasl_server_mechanisms: Symbols<'a>,
}

/// The client's choice.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Init<'a> {
    pub mechanism: &'a str,
    pub initial_response: Option<&'a [u8]>,
    pub hostname: Option<&'a str>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Challenge<'a> {
    pub challenge: &'a [u8],
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Response<'a> {
    pub response: &'a [u8],
}

/// How it ended. `code`: one of the `CODE_` constants, or one that the specification doesn't have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Outcome<'a> {
    pub code: u8,
    pub additional_data: Option<&'a [u8]>,
}

pub const CODE_OK: u8 = 0;
/// The credentials were refused.
pub const CODE_AUTH: u8 = 1;
pub const CODE_SYS: u8 = 2;
pub const CODE_SYS_PERM: u8 = 3;
pub const CODE_SYS_TEMP: u8 = 4;

/// A SASL frame's body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SaslFrame<'a> {
    Mechanisms(Mechanisms<'a>),
    Init(Init<'a>),
    Challenge(Challenge<'a>),
    Response(Response<'a>),
    Outcome(Outcome<'a>),
}

impl<'a> SaslFrame<'a> {
    /// Reads a whole frame body; nothing may follow.
    pub fn decode(body: &'a [u8]) -> Result<SaslFrame<'a>, WireError> {
        let mut reader = Reader::new(body);
        let descriptor = read_descriptor(&mut reader)?;
        let mut fields = Fields::open(&mut reader, "SASL frame")?;
        let frame = match descriptor {
            Some(descriptor::SASL_MECHANISMS) => {
                let sasl_server_mechanisms = fields.symbols("sasl-server-mechanisms")?;
                if sasl_server_mechanisms.is_empty() {
                    return Err(WireError::Missing("sasl-server-mechanisms"));
                }
                SaslFrame::Mechanisms(Mechanisms { sasl_server_mechanisms })
            }
            Some(descriptor::SASL_INIT) => SaslFrame::Init(Init {
                mechanism: fields.symbol("mechanism")?.ok_or(WireError::Missing("mechanism"))?,
                initial_response: fields.binary("initial-response")?,
                hostname: fields.string("hostname")?,
            }),
            Some(descriptor::SASL_CHALLENGE) => SaslFrame::Challenge(Challenge {
                challenge: fields.binary("challenge")?.ok_or(WireError::Missing("challenge"))?,
            }),
            Some(descriptor::SASL_RESPONSE) => SaslFrame::Response(Response {
                response: fields.binary("response")?.ok_or(WireError::Missing("response"))?,
            }),
            Some(descriptor::SASL_OUTCOME) => SaslFrame::Outcome(Outcome {
                code: fields.ubyte("code")?.ok_or(WireError::Missing("code"))?,
                additional_data: fields.binary("additional-data")?,
            }),
            _ => return Err(WireError::WrongDescriptor("SASL frame")),
        };
        fields.finish("SASL frame")?;
        if !reader.is_empty() {
            return Err(WireError::BadSize);
        }
        Ok(frame)
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            SaslFrame::Mechanisms(frame) => frame.encode(out),
            SaslFrame::Init(frame) => frame.encode(out),
            SaslFrame::Challenge(frame) => frame.encode(out),
            SaslFrame::Response(frame) => frame.encode(out),
            SaslFrame::Outcome(frame) => frame.encode(out),
        }
    }
}

impl Mechanisms<'_> {
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut fields = FieldsWriter::new(out, descriptor::SASL_MECHANISMS);
        fields.symbols(&self.sasl_server_mechanisms);
        fields.finish();
    }
}

impl Init<'_> {
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut fields = FieldsWriter::new(out, descriptor::SASL_INIT);
        fields.symbol(Some(self.mechanism));
        fields.binary(self.initial_response);
        fields.string(self.hostname);
        fields.finish();
    }
}

impl Challenge<'_> {
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut fields = FieldsWriter::new(out, descriptor::SASL_CHALLENGE);
        fields.binary(Some(self.challenge));
        fields.finish();
    }
}

impl Response<'_> {
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut fields = FieldsWriter::new(out, descriptor::SASL_RESPONSE);
        fields.binary(Some(self.response));
        fields.finish();
    }
}

impl Outcome<'_> {
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut fields = FieldsWriter::new(out, descriptor::SASL_OUTCOME);
        fields.ubyte(Some(self.code));
        fields.binary(self.additional_data);
        fields.finish();
    }
}
