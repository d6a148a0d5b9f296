//! Flow (section 2.7.4). Warm: one for many transfers, as a rule.

use crate::wire::fields::{Fields, FieldsWriter};
use crate::wire::frame;
use crate::wire::quick::Quick;
use crate::wire::spare::Spare;
use crate::wire::{descriptor, WireError};

/// A session's windows and, with a handle, a link's credit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Flow<'a> {
    pub next_incoming_id: Option<u32>,
    pub incoming_window: u32,
    pub next_outgoing_id: u32,
    pub outgoing_window: u32,
    pub handle: Option<u32>,
    pub delivery_count: Option<u32>,
    pub link_credit: Option<u32>,
    pub available: Option<u32>,
    pub drain: bool,
    pub echo: bool,
    /// A map, as encoded.
    pub properties: Option<&'a [u8]>,
}

/// More than the longest encoding without properties.
const BYTES_MAX: usize = 56;

impl<'a> Flow<'a> {
    /// Reads the usual encodings into a default flow and gives its length; None for any other.
    #[inline(never)]
    pub(super) fn quick(&mut self, body: &'a [u8]) -> Option<usize> {
        let (mut fields, end) = Quick::open(body)?;
        if !fields.has(3) {
            return None;
        }
        fields.optional_uint(&mut self.next_incoming_id)?;
        fields.uint(&mut self.incoming_window)?;
        fields.uint(&mut self.next_outgoing_id)?;
        fields.uint(&mut self.outgoing_window)?;
        if fields.has(6) {
            fields.optional_uint(&mut self.handle)?;
            fields.optional_uint(&mut self.delivery_count)?;
            fields.optional_uint(&mut self.link_credit)?;
            if fields.has(7) {
                fields.optional_uint(&mut self.available)?;
            }
            if fields.has(8) {
                fields.flag(&mut self.drain)?;
            }
            if fields.has(9) {
                fields.flag(&mut self.echo)?;
            }
            if fields.has(10) {
                fields.null()?;
            }
        } else if fields.has(4) {
            return None;
        }
        fields.finish(11)?;
        Some(end)
    }

    pub(super) fn read(mut fields: Fields<'a>) -> Result<Flow<'a>, WireError> {
        let flow = Flow {
            next_incoming_id: fields.uint("next-incoming-id")?,
            incoming_window: fields.uint("incoming-window")?.ok_or(WireError::Missing("incoming-window"))?,
            next_outgoing_id: fields.uint("next-outgoing-id")?.ok_or(WireError::Missing("next-outgoing-id"))?,
            outgoing_window: fields.uint("outgoing-window")?.ok_or(WireError::Missing("outgoing-window"))?,
            handle: fields.uint("handle")?,
            delivery_count: fields.uint("delivery-count")?,
            link_credit: fields.uint("link-credit")?,
            available: fields.uint("available")?,
            drain: fields.boolean("drain")?.unwrap_or_default(),
            echo: fields.boolean("echo")?.unwrap_or_default(),
            properties: fields.map("properties")?,
        };
        fields.finish("flow")?;
        Ok(flow)
    }

    /// Writes the performative alone.
    #[inline]
    pub fn encode(&self, out: &mut Vec<u8>) {
        if self.properties.is_some() {
            return self.encode_wide(out);
        }
        let mut spare = Spare::new(out, BYTES_MAX);
        let mut list = spare.list(descriptor::FLOW as u8);
        list.optional_uint(self.next_incoming_id);
        list.uint(self.incoming_window);
        list.uint(self.next_outgoing_id);
        list.uint(self.outgoing_window);
        list.optional_uint(self.handle);
        list.optional_uint(self.delivery_count);
        list.optional_uint(self.link_credit);
        list.optional_uint(self.available);
        list.flag(self.drain);
        list.flag(self.echo);
        list.finish();
        spare.finish();
    }

    /// Writes a whole frame.
    pub fn encode_frame(&self, out: &mut Vec<u8>, channel: u16) {
        let start = frame::begin(out, frame::TYPE_AMQP, channel);
        self.encode(out);
        frame::finish(out, start);
    }

    #[cold]
    fn encode_wide(&self, out: &mut Vec<u8>) {
        let mut fields = FieldsWriter::new(out, descriptor::FLOW);
        fields.uint(self.next_incoming_id);
        fields.uint(Some(self.incoming_window));
        fields.uint(Some(self.next_outgoing_id));
        fields.uint(Some(self.outgoing_window));
        fields.uint(self.handle);
        fields.uint(self.delivery_count);
        fields.uint(self.link_credit);
        fields.uint(self.available);
        fields.flag(self.drain);
        fields.flag(self.echo);
        fields.raw(self.properties);
        fields.finish();
    }
}
