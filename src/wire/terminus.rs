//! Sources and targets (section 3.5), and the coordinator that stands for a target (section 4.5.1).

use super::fields::{read_descriptor, Fields, FieldsWriter, Symbols};
use super::value::Reader;
use super::{descriptor, WireError};

/// `expiry-policy` where none is said.
pub const EXPIRY_POLICY_DEFAULT: &str = "session-end";

/// Where a link's messages come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Source<'a> {
    /// An address string, the only address type there is.
    pub address: Option<&'a str>,
    /// 0 none, 1 configuration, 2 unsettled state.
    pub durable: u32,
    /// None: [`EXPIRY_POLICY_DEFAULT`].
    pub expiry_policy: Option<&'a str>,
    /// Seconds.
    pub timeout: u32,
    pub dynamic: bool,
    /// A map, as encoded.
    pub dynamic_node_properties: Option<&'a [u8]>,
    pub distribution_mode: Option<&'a str>,
    /// A map, as encoded.
    pub filter: Option<&'a [u8]>,
    /// A described outcome, as encoded.
    pub default_outcome: Option<&'a [u8]>,
    pub outcomes: Symbols<'a>,
    pub capabilities: Symbols<'a>,
}

/// Where a link's messages go.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Target<'a> {
    /// As a source's.
    pub address: Option<&'a str>,
    pub durable: u32,
    pub expiry_policy: Option<&'a str>,
    pub timeout: u32,
    pub dynamic: bool,
    pub dynamic_node_properties: Option<&'a [u8]>,
    pub capabilities: Symbols<'a>,
}

/// A transaction coordinator in a target's place.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Coordinator<'a> {
    pub capabilities: Symbols<'a>,
}

/// What an attach's `target` may hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AnyTarget<'a> {
    Target(Target<'a>),
    Coordinator(Coordinator<'a>),
}

impl<'a> Source<'a> {
    /// Reads a whole described value.
    pub fn decode(raw: &'a [u8]) -> Result<Source<'a>, WireError> {
        let mut fields = Fields::of(raw, descriptor::SOURCE, "source")?;
        let source = Source {
            address: fields.string("address")?,
            durable: durability(&mut fields)?,
            expiry_policy: fields.symbol("expiry-policy")?,
            timeout: fields.uint("timeout")?.unwrap_or_default(),
            dynamic: fields.boolean("dynamic")?.unwrap_or_default(),
            dynamic_node_properties: fields.map("dynamic-node-properties")?,
            distribution_mode: fields.symbol("distribution-mode")?,
            filter: fields.map("filter")?,
            default_outcome: fields.described("default-outcome")?,
            outcomes: fields.symbols("outcomes")?,
            capabilities: fields.symbols("capabilities")?,
        };
        fields.finish("source")?;
        Ok(source)
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut fields = FieldsWriter::new(out, descriptor::SOURCE);
        fields.string(self.address);
        fields.uint(unless(self.durable, 0));
        fields.symbol(self.expiry_policy);
        fields.uint(unless(self.timeout, 0));
        fields.flag(self.dynamic);
        fields.raw(self.dynamic_node_properties);
        fields.symbol(self.distribution_mode);
        fields.raw(self.filter);
        fields.raw(self.default_outcome);
        fields.symbols(&self.outcomes);
        fields.symbols(&self.capabilities);
        fields.finish();
    }
}

impl<'a> Target<'a> {
    /// Reads a whole described value.
    pub fn decode(raw: &'a [u8]) -> Result<Target<'a>, WireError> {
        let mut fields = Fields::of(raw, descriptor::TARGET, "target")?;
        let target = Target {
            address: fields.string("address")?,
            durable: durability(&mut fields)?,
            expiry_policy: fields.symbol("expiry-policy")?,
            timeout: fields.uint("timeout")?.unwrap_or_default(),
            dynamic: fields.boolean("dynamic")?.unwrap_or_default(),
            dynamic_node_properties: fields.map("dynamic-node-properties")?,
            capabilities: fields.symbols("capabilities")?,
        };
        fields.finish("target")?;
        Ok(target)
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut fields = FieldsWriter::new(out, descriptor::TARGET);
        fields.string(self.address);
        fields.uint(unless(self.durable, 0));
        fields.symbol(self.expiry_policy);
        fields.uint(unless(self.timeout, 0));
        fields.flag(self.dynamic);
        fields.raw(self.dynamic_node_properties);
        fields.symbols(&self.capabilities);
        fields.finish();
    }
}

impl<'a> Coordinator<'a> {
    /// Reads a whole described value.
    pub fn decode(raw: &'a [u8]) -> Result<Coordinator<'a>, WireError> {
        let mut fields = Fields::of(raw, descriptor::COORDINATOR, "coordinator")?;
        let coordinator = Coordinator { capabilities: fields.symbols("capabilities")? };
        fields.finish("coordinator")?;
        Ok(coordinator)
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut fields = FieldsWriter::new(out, descriptor::COORDINATOR);
        fields.symbols(&self.capabilities);
        fields.finish();
    }
}

impl<'a> AnyTarget<'a> {
    /// Reads a whole described value.
    pub fn decode(raw: &'a [u8]) -> Result<AnyTarget<'a>, WireError> {
        match read_descriptor(&mut Reader::new(raw))? {
            Some(descriptor::COORDINATOR) => Coordinator::decode(raw).map(AnyTarget::Coordinator),
            _ => Target::decode(raw).map(AnyTarget::Target),
        }
    }
}

fn durability(fields: &mut Fields<'_>) -> Result<u32, WireError> {
    match fields.uint("durable")?.unwrap_or_default() {
        durable @ 0..=2 => Ok(durable),
        _ => Err(WireError::BadValue("durable")),
    }
}

/// A value that is not the default.
pub(super) fn unless<T: PartialEq>(value: T, default: T) -> Option<T> {
    (value != default).then_some(value)
}
