//! Delivery states and outcomes (section 3.4; transactional ones 4.5.8): what `state` of transfer and disposition, and
//! a source's `default-outcome`, hold.

use super::error::Error;
use super::fields::{read_descriptor, Fields, FieldsWriter};
use super::value::{code, Reader};
use super::{descriptor, WireError};

/// Accepted and released without fields, as they are encoded.
pub const ACCEPTED: [u8; 4] = [code::DESCRIBED, code::SMALL_ULONG, descriptor::ACCEPTED as u8, code::LIST0];
pub const RELEASED: [u8; 4] = [code::DESCRIBED, code::SMALL_ULONG, descriptor::RELEASED as u8, code::LIST0];

/// Which state it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Received,
    Accepted,
    Rejected,
    Released,
    Modified,
    Declared,
    Transactional,
    /// None of the specification's.
    Other,
}

/// The kind of a state kept as raw bytes (checked when it was decoded).
#[inline]
pub fn kind(raw: &[u8]) -> Kind {
    if raw == ACCEPTED {
        return Kind::Accepted;
    }
    match read_descriptor(&mut Reader::new(raw)).ok().flatten() {
        Some(descriptor::RECEIVED) => Kind::Received,
        Some(descriptor::ACCEPTED) => Kind::Accepted,
        Some(descriptor::REJECTED) => Kind::Rejected,
        Some(descriptor::RELEASED) => Kind::Released,
        Some(descriptor::MODIFIED) => Kind::Modified,
        Some(descriptor::DECLARED) => Kind::Declared,
        Some(descriptor::TRANSACTIONAL_STATE) => Kind::Transactional,
        _ => Kind::Other,
    }
}

/// Whether the kind says everything: the state is one of the specification's, with no field in it.
#[inline]
pub fn is_plain(raw: &[u8]) -> bool {
    if raw.len() == 4 && raw[3] == code::LIST0 {
        return true;
    }
    let mut reader = Reader::new(raw);
    matches!(read_descriptor(&mut reader), Ok(Some(_)))
        && Fields::open(&mut reader, "state").is_ok_and(|fields| fields.at_end())
}

/// A delivery state with its fields.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State<'a> {
    Received {
        section_number: u32,
        section_offset: u64,
    },
    Accepted,
    Rejected {
        error: Option<Error<'a>>,
    },
    Released,
    /// `message_annotations` is a map, as encoded.
    Modified {
        delivery_failed: bool,
        undeliverable_here: bool,
        message_annotations: Option<&'a [u8]>,
    },
    Declared {
        txn_id: &'a [u8],
    },
    /// `outcome` is a described value, as encoded.
    Transactional {
        txn_id: &'a [u8],
        outcome: Option<&'a [u8]>,
    },
    /// Any other described value, as encoded.
    Other(&'a [u8]),
}

impl<'a> State<'a> {
    /// Reads a whole described value.
    pub fn decode(raw: &'a [u8]) -> Result<State<'a>, WireError> {
        let kind = kind(raw);
        if kind == Kind::Other {
            return Ok(State::Other(raw));
        }
        let mut reader = Reader::new(raw);
        read_descriptor(&mut reader)?;
        let mut fields = Fields::open(&mut reader, "state")?;
        let state = match kind {
            Kind::Received => State::Received {
                section_number: fields.uint("section-number")?.ok_or(WireError::Missing("section-number"))?,
                section_offset: fields.ulong("section-offset")?.ok_or(WireError::Missing("section-offset"))?,
            },
            Kind::Accepted => State::Accepted,
            Kind::Rejected => State::Rejected { error: fields.described("error")?.map(Error::decode).transpose()? },
            Kind::Released => State::Released,
            Kind::Modified => State::Modified {
                delivery_failed: fields.boolean("delivery-failed")?.unwrap_or_default(),
                undeliverable_here: fields.boolean("undeliverable-here")?.unwrap_or_default(),
                message_annotations: fields.map("message-annotations")?,
            },
            Kind::Declared => State::Declared { txn_id: fields.binary("txn-id")?.ok_or(WireError::Missing("txn-id"))? },
            Kind::Transactional => State::Transactional {
                txn_id: fields.binary("txn-id")?.ok_or(WireError::Missing("txn-id"))?,
                outcome: fields.described("outcome")?,
            },
            Kind::Other => State::Other(raw),
        };
        fields.finish("state")?;
        if !reader.is_empty() {
            return Err(WireError::BadSize);
        }
        Ok(state)
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut fields = match *self {
            State::Other(raw) => return out.extend_from_slice(raw),
            State::Received { .. } => FieldsWriter::new(out, descriptor::RECEIVED),
            State::Accepted => FieldsWriter::new(out, descriptor::ACCEPTED),
            State::Rejected { .. } => FieldsWriter::new(out, descriptor::REJECTED),
            State::Released => FieldsWriter::new(out, descriptor::RELEASED),
            State::Modified { .. } => FieldsWriter::new(out, descriptor::MODIFIED),
            State::Declared { .. } => FieldsWriter::new(out, descriptor::DECLARED),
            State::Transactional { .. } => FieldsWriter::new(out, descriptor::TRANSACTIONAL_STATE),
        };
        match *self {
            State::Received { section_number, section_offset } => {
                fields.uint(Some(section_number));
                fields.ulong(Some(section_offset));
            }
            State::Rejected { error } => fields.error(error.as_ref()),
            State::Modified { delivery_failed, undeliverable_here, message_annotations } => {
                fields.flag(delivery_failed);
                fields.flag(undeliverable_here);
                fields.raw(message_annotations);
            }
            State::Declared { txn_id } => fields.binary(Some(txn_id)),
            State::Transactional { txn_id, outcome } => {
                fields.binary(Some(txn_id));
                fields.raw(outcome);
            }
            State::Accepted | State::Released | State::Other(_) => {}
        }
        fields.finish();
    }
}
