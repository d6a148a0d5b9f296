//! Attach and detach (sections 2.7.3, 2.7.7).

use super::Role;
use crate::wire::error::Error;
use crate::wire::fields::{Fields, FieldsWriter, Symbols};
use crate::wire::terminus::unless;
use crate::wire::{descriptor, WireError};

/// How a link's sender settles (section 2.8.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum SenderSettleMode {
    Unsettled = 0,
    Settled = 1,
    #[default]
    Mixed = 2,
}

/// When a link's receiver settles (section 2.8.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum ReceiverSettleMode {
    #[default]
    First = 0,
    Second = 1,
}

impl ReceiverSettleMode {
    pub(super) fn read(fields: &mut Fields<'_>) -> Result<Option<ReceiverSettleMode>, WireError> {
        match fields.ubyte("rcv-settle-mode")? {
            None => Ok(None),
            Some(0) => Ok(Some(ReceiverSettleMode::First)),
            Some(1) => Ok(Some(ReceiverSettleMode::Second)),
            Some(_) => Err(WireError::BadValue("rcv-settle-mode")),
        }
    }
}

impl SenderSettleMode {
    fn read(fields: &mut Fields<'_>) -> Result<SenderSettleMode, WireError> {
        match fields.ubyte("snd-settle-mode")? {
            Some(0) => Ok(SenderSettleMode::Unsettled),
            Some(1) => Ok(SenderSettleMode::Settled),
            None | Some(2) => Ok(SenderSettleMode::Mixed),
            Some(_) => Err(WireError::BadValue("snd-settle-mode")),
        }
    }
}

/// An end of a link attaches.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Attach<'a> {
    pub name: &'a str,
    pub handle: u32,
    pub role: Role,
    pub snd_settle_mode: SenderSettleMode,
    pub rcv_settle_mode: ReceiverSettleMode,
    /// A described value, as encoded: see [`crate::wire::terminus::Source`].
    pub source: Option<&'a [u8]>,
    /// A described value, as encoded: see [`crate::wire::terminus::AnyTarget`].
    pub target: Option<&'a [u8]>,
    /// A map, as encoded.
    pub unsettled: Option<&'a [u8]>,
    pub incomplete_unsettled: bool,
    /// Mandatory from a sender, which is for the engine to hold.
    pub initial_delivery_count: Option<u32>,
    /// Bytes; none or 0: no limit.
    pub max_message_size: Option<u64>,
    pub offered_capabilities: Symbols<'a>,
    pub desired_capabilities: Symbols<'a>,
    /// A map, as encoded.
    pub properties: Option<&'a [u8]>,
}

impl<'a> Attach<'a> {
    pub(super) fn read(mut fields: Fields<'a>) -> Result<Attach<'a>, WireError> {
        let attach = Attach {
            name: fields.string("name")?.ok_or(WireError::Missing("name"))?,
            handle: fields.uint("handle")?.ok_or(WireError::Missing("handle"))?,
            role: Role::from_bool(fields.boolean("role")?.ok_or(WireError::Missing("role"))?),
            snd_settle_mode: SenderSettleMode::read(&mut fields)?,
            rcv_settle_mode: ReceiverSettleMode::read(&mut fields)?.unwrap_or_default(),
            source: fields.described("source")?,
            target: fields.described("target")?,
            unsettled: fields.map("unsettled")?,
            incomplete_unsettled: fields.boolean("incomplete-unsettled")?.unwrap_or_default(),
            initial_delivery_count: fields.uint("initial-delivery-count")?,
            max_message_size: fields.ulong("max-message-size")?,
            offered_capabilities: fields.symbols("offered-capabilities")?,
            desired_capabilities: fields.symbols("desired-capabilities")?,
            properties: fields.map("properties")?,
        };
        fields.finish("attach")?;
        Ok(attach)
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut fields = FieldsWriter::new(out, descriptor::ATTACH);
        fields.string(Some(self.name));
        fields.uint(Some(self.handle));
        fields.boolean(Some(self.role.is_receiver()));
        fields.ubyte(unless(self.snd_settle_mode, SenderSettleMode::Mixed).map(|mode| mode as u8));
        fields.ubyte(unless(self.rcv_settle_mode, ReceiverSettleMode::First).map(|mode| mode as u8));
        fields.raw(self.source);
        fields.raw(self.target);
        fields.raw(self.unsettled);
        fields.flag(self.incomplete_unsettled);
        fields.uint(self.initial_delivery_count);
        fields.ulong(self.max_message_size);
        fields.symbols(&self.offered_capabilities);
        fields.symbols(&self.desired_capabilities);
        fields.raw(self.properties);
        fields.finish();
    }
}

/// An end of a link detaches; `closed`: for good.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Detach<'a> {
    pub handle: u32,
    pub closed: bool,
    pub error: Option<Error<'a>>,
}

impl<'a> Detach<'a> {
    pub(super) fn read(mut fields: Fields<'a>) -> Result<Detach<'a>, WireError> {
        let detach = Detach {
            handle: fields.uint("handle")?.ok_or(WireError::Missing("handle"))?,
            closed: fields.boolean("closed")?.unwrap_or_default(),
            error: fields.described("error")?.map(Error::decode).transpose()?,
        };
        fields.finish("detach")?;
        Ok(detach)
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut fields = FieldsWriter::new(out, descriptor::DETACH);
        fields.uint(Some(self.handle));
        fields.flag(self.closed);
        fields.error(self.error.as_ref());
        fields.finish();
    }
}
