//! Transfer (section 2.7.5). On the hot path both ways.

use super::ReceiverSettleMode;
use crate::wire::fields::{Fields, FieldsWriter};
use crate::wire::frame;
use crate::wire::quick::Quick;
use crate::wire::spare::Spare;
use crate::wire::value::code;
use crate::wire::{descriptor, WireError};

/// A delivery, or a part of one; its payload follows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Transfer<'a> {
    pub handle: u32,
    pub delivery_id: Option<u32>,
    pub delivery_tag: Option<&'a [u8]>,
    pub message_format: Option<u32>,
    pub settled: Option<bool>,
    pub more: bool,
    pub rcv_settle_mode: Option<ReceiverSettleMode>,
    /// A described value, as encoded: see [`crate::wire::state`].
    pub state: Option<&'a [u8]>,
    pub resume: bool,
    pub aborted: bool,
    pub batchable: bool,
}

/// Tag and state up to this many bytes surely fit a list8 with everything else.
const NARROW_BYTES_MAX: usize = 200;
/// More than the fields' longest encodings without tag and state, descriptor and list header included.
const FIXED_BYTES_MAX: usize = 48;

impl<'a> Transfer<'a> {
    /// Reads the usual encodings into a default transfer and gives its length; None for any other.
    #[inline(never)]
    pub(super) fn quick(&mut self, body: &'a [u8]) -> Option<usize> {
        let (mut fields, end) = Quick::open(body)?;
        if fields.has(5) {
            fields.uint(&mut self.handle)?;
            fields.optional_uint(&mut self.delivery_id)?;
            fields.optional_binary(&mut self.delivery_tag)?;
            fields.optional_zero(&mut self.message_format)?;
            fields.optional_boolean(&mut self.settled)?;
            fields.flag(&mut self.more)?;
            if fields.has(6) {
                self.quick_rare(&mut fields)?;
            }
        } else {
            self.quick_short(&mut fields)?;
        }
        fields.finish(11)?;
        Some(end)
    }

    /// Up to five fields.
    #[inline(always)]
    fn quick_short(&mut self, fields: &mut Quick<'a>) -> Option<()> {
        if !fields.has(0) {
            return None;
        }
        fields.uint(&mut self.handle)?;
        if fields.has(1) {
            fields.optional_uint(&mut self.delivery_id)?;
        }
        if fields.has(2) {
            fields.optional_binary(&mut self.delivery_tag)?;
        }
        if fields.has(3) {
            fields.optional_zero(&mut self.message_format)?;
        }
        if fields.has(4) {
            fields.optional_boolean(&mut self.settled)?;
        }
        Some(())
    }

    /// The fields behind `more`.
    #[inline(always)]
    fn quick_rare(&mut self, fields: &mut Quick<'a>) -> Option<()> {
        fields.null()?;
        if fields.has(7) {
            fields.optional_state(&mut self.state)?;
        }
        if fields.has(8) {
            fields.flag(&mut self.resume)?;
        }
        if fields.has(9) {
            fields.flag(&mut self.aborted)?;
        }
        if fields.has(10) {
            fields.flag(&mut self.batchable)?;
        }
        Some(())
    }

    pub(super) fn read(mut fields: Fields<'a>) -> Result<Transfer<'a>, WireError> {
        let transfer = Transfer {
            handle: fields.uint("handle")?.ok_or(WireError::Missing("handle"))?,
            delivery_id: fields.uint("delivery-id")?,
            delivery_tag: fields.binary("delivery-tag")?,
            message_format: fields.uint("message-format")?,
            settled: fields.boolean("settled")?,
            more: fields.boolean("more")?.unwrap_or_default(),
            rcv_settle_mode: ReceiverSettleMode::read(&mut fields)?,
            state: fields.described("state")?,
            resume: fields.boolean("resume")?.unwrap_or_default(),
            aborted: fields.boolean("aborted")?.unwrap_or_default(),
            batchable: fields.boolean("batchable")?.unwrap_or_default(),
        };
        fields.finish("transfer")?;
        Ok(transfer)
    }

    /// Writes the performative alone.
    #[inline]
    pub fn encode(&self, out: &mut Vec<u8>) {
        let variable = self.variable_bytes();
        if variable > NARROW_BYTES_MAX {
            return self.encode_wide(out);
        }
        let mut spare = Spare::new(out, FIXED_BYTES_MAX + variable);
        self.write(&mut spare);
        spare.finish();
    }

    /// Writes a whole frame up to its payload, of which `payload_bytes` follow.
    #[inline(always)]
    pub fn encode_frame(&self, out: &mut Vec<u8>, channel: u16, payload_bytes: usize) {
        let variable = self.variable_bytes();
        if variable > NARROW_BYTES_MAX {
            let start = frame::begin(out, frame::TYPE_AMQP, channel);
            self.encode_wide(out);
            return frame::finish_with_payload(out, start, payload_bytes);
        }
        let mut spare = Spare::new(out, frame::HEADER_BYTES + FIXED_BYTES_MAX + variable);
        let start = spare.here();
        spare.bytes(frame::header(0, frame::TYPE_AMQP, channel));
        self.write(&mut spare);
        spare.patch(start, ((spare.since(start) + payload_bytes) as u32).to_be_bytes());
        spare.finish();
    }

    #[inline(always)]
    fn variable_bytes(&self) -> usize {
        self.delivery_tag.map_or(0, <[u8]>::len) + self.state.map_or(0, <[u8]>::len)
    }

    #[inline(always)]
    fn write(&self, spare: &mut Spare<'_>) {
        let mut list = spare.list(descriptor::TRANSFER as u8);
        list.uint(self.handle);
        list.optional_uint(self.delivery_id);
        match self.delivery_tag {
            None => list.null(),
            Some(tag) => list.binary(tag),
        }
        list.optional_uint(self.message_format);
        list.optional_boolean(self.settled);
        list.flag(self.more);
        let ending = self.rcv_settle_mode.is_some() || self.state.is_some();
        if ending || self.resume || self.aborted || self.batchable {
            match self.rcv_settle_mode {
                None => list.null(),
                Some(mode) => list.value([code::UBYTE, mode as u8]),
            }
            match self.state {
                None => list.null(),
                Some(state) => list.raw(state),
            }
            list.flag(self.resume);
            list.flag(self.aborted);
            list.flag(self.batchable);
        }
        list.finish();
    }

    #[cold]
    fn encode_wide(&self, out: &mut Vec<u8>) {
        let mut fields = FieldsWriter::new(out, descriptor::TRANSFER);
        fields.uint(Some(self.handle));
        fields.uint(self.delivery_id);
        fields.binary(self.delivery_tag);
        fields.uint(self.message_format);
        fields.boolean(self.settled);
        fields.flag(self.more);
        fields.ubyte(self.rcv_settle_mode.map(|mode| mode as u8));
        fields.raw(self.state);
        fields.flag(self.resume);
        fields.flag(self.aborted);
        fields.flag(self.batchable);
        fields.finish();
    }
}
