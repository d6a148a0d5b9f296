//! Disposition (section 2.7.6). On the hot path both ways.

use super::Role;
use crate::wire::fields::{Fields, FieldsWriter};
use crate::wire::frame;
use crate::wire::quick::Quick;
use crate::wire::spare::Spare;
use crate::wire::{descriptor, WireError};

/// A new state of one delivery, or of a row of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Disposition<'a> {
    pub role: Role,
    pub first: u32,
    /// None: `first` alone.
    pub last: Option<u32>,
    pub settled: bool,
    /// A described value, as encoded: see [`crate::wire::state`].
    pub state: Option<&'a [u8]>,
    pub batchable: bool,
}

/// A state up to this many bytes surely fits a list8 with everything else.
const NARROW_BYTES_MAX: usize = 200;
/// More than the fields' longest encodings without the state, descriptor and list header included.
const FIXED_BYTES_MAX: usize = 24;

impl<'a> Disposition<'a> {
    /// Reads the usual encodings into a default disposition and gives its length; None for any other.
    #[inline(never)]
    pub(super) fn quick(&mut self, body: &'a [u8]) -> Option<usize> {
        let (mut fields, end) = Quick::open(body)?;
        self.role = Role::from_bool(fields.boolean()?);
        fields.uint(&mut self.first)?;
        if fields.has(2) {
            fields.optional_uint(&mut self.last)?;
        }
        if fields.has(3) {
            fields.flag(&mut self.settled)?;
        }
        if fields.has(4) {
            fields.optional_state(&mut self.state)?;
        }
        if fields.has(5) {
            fields.flag(&mut self.batchable)?;
        }
        // Of fewer than two fields the bytes would not have sufficed; their count has to say so as well.
        if !fields.has(1) {
            return None;
        }
        fields.finish(6)?;
        Some(end)
    }

    pub(super) fn read(mut fields: Fields<'a>) -> Result<Disposition<'a>, WireError> {
        let disposition = Disposition {
            role: Role::from_bool(fields.boolean("role")?.ok_or(WireError::Missing("role"))?),
            first: fields.uint("first")?.ok_or(WireError::Missing("first"))?,
            last: fields.uint("last")?,
            settled: fields.boolean("settled")?.unwrap_or_default(),
            state: fields.described("state")?,
            batchable: fields.boolean("batchable")?.unwrap_or_default(),
        };
        fields.finish("disposition")?;
        Ok(disposition)
    }

    /// Writes the performative alone.
    #[inline]
    pub fn encode(&self, out: &mut Vec<u8>) {
        let variable = self.state.map_or(0, <[u8]>::len);
        if variable > NARROW_BYTES_MAX {
            return self.encode_wide(out);
        }
        let mut spare = Spare::new(out, FIXED_BYTES_MAX + variable);
        self.write(&mut spare);
        spare.finish();
    }

    /// Writes a whole frame.
    #[inline]
    pub fn encode_frame(&self, out: &mut Vec<u8>, channel: u16) {
        let variable = self.state.map_or(0, <[u8]>::len);
        if variable > NARROW_BYTES_MAX {
            let start = frame::begin(out, frame::TYPE_AMQP, channel);
            self.encode_wide(out);
            return frame::finish(out, start);
        }
        let mut spare = Spare::new(out, frame::HEADER_BYTES + FIXED_BYTES_MAX + variable);
        let start = spare.here();
        spare.bytes(frame::header(0, frame::TYPE_AMQP, channel));
        self.write(&mut spare);
        spare.patch(start, (spare.since(start) as u32).to_be_bytes());
        spare.finish();
    }

    #[inline(always)]
    fn write(&self, spare: &mut Spare<'_>) {
        let mut list = spare.list(descriptor::DISPOSITION as u8);
        list.boolean(self.role.is_receiver());
        list.uint(self.first);
        list.optional_uint(self.last);
        list.flag(self.settled);
        match self.state {
            None => list.null(),
            Some(state) => list.raw(state),
        }
        list.flag(self.batchable);
        list.finish();
    }

    #[cold]
    fn encode_wide(&self, out: &mut Vec<u8>) {
        let mut fields = FieldsWriter::new(out, descriptor::DISPOSITION);
        fields.boolean(Some(self.role.is_receiver()));
        fields.uint(Some(self.first));
        fields.uint(self.last);
        fields.flag(self.settled);
        fields.raw(self.state);
        fields.flag(self.batchable);
        fields.finish();
    }
}
