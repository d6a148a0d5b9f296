//! Open and close (sections 2.7.1, 2.7.9).

use crate::wire::error::Error;
use crate::wire::fields::{Fields, FieldsWriter, Symbols};
use crate::wire::terminus::unless;
use crate::wire::{descriptor, WireError};

/// What an end of a connection says of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Open<'a> {
    pub container_id: &'a str,
    pub hostname: Option<&'a str>,
    /// Bytes of the largest frame that the sender of this can take.
    pub max_frame_size: u32,
    pub channel_max: u16,
    /// Milliseconds.
    pub idle_time_out: Option<u32>,
    pub outgoing_locales: Symbols<'a>,
    pub incoming_locales: Symbols<'a>,
    pub offered_capabilities: Symbols<'a>,
    pub desired_capabilities: Symbols<'a>,
    /// A map, as encoded.
    pub properties: Option<&'a [u8]>,
}

impl Default for Open<'_> {
    fn default() -> Self {
        Open {
            container_id: "",
            hostname: None,
            max_frame_size: u32::MAX,
            channel_max: u16::MAX,
            idle_time_out: None,
            outgoing_locales: Symbols::NONE,
            incoming_locales: Symbols::NONE,
            offered_capabilities: Symbols::NONE,
            desired_capabilities: Symbols::NONE,
            properties: None,
        }
    }
}

impl<'a> Open<'a> {
    pub(super) fn read(mut fields: Fields<'a>) -> Result<Open<'a>, WireError> {
        let open = Open {
            container_id: fields.string("container-id")?.ok_or(WireError::Missing("container-id"))?,
            hostname: fields.string("hostname")?,
            max_frame_size: fields.uint("max-frame-size")?.unwrap_or(u32::MAX),
            channel_max: fields.ushort("channel-max")?.unwrap_or(u16::MAX),
            idle_time_out: fields.uint("idle-time-out")?,
            outgoing_locales: fields.symbols("outgoing-locales")?,
            incoming_locales: fields.symbols("incoming-locales")?,
            offered_capabilities: fields.symbols("offered-capabilities")?,
            desired_capabilities: fields.symbols("desired-capabilities")?,
            properties: fields.map("properties")?,
        };
        fields.finish("open")?;
        Ok(open)
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut fields = FieldsWriter::new(out, descriptor::OPEN);
        fields.string(Some(self.container_id));
        fields.string(self.hostname);
        fields.uint(unless(self.max_frame_size, u32::MAX));
        fields.ushort(unless(self.channel_max, u16::MAX));
        fields.uint(self.idle_time_out);
        fields.symbols(&self.outgoing_locales);
        fields.symbols(&self.incoming_locales);
        fields.symbols(&self.offered_capabilities);
        fields.symbols(&self.desired_capabilities);
        fields.raw(self.properties);
        fields.finish();
    }
}

/// The end of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Close<'a> {
    pub error: Option<Error<'a>>,
}

impl<'a> Close<'a> {
    pub(super) fn read(mut fields: Fields<'a>) -> Result<Close<'a>, WireError> {
        let close = Close { error: fields.described("error")?.map(Error::decode).transpose()? };
        fields.finish("close")?;
        Ok(close)
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut fields = FieldsWriter::new(out, descriptor::CLOSE);
        fields.error(self.error.as_ref());
        fields.finish();
    }
}
