//! What the router is told at its start: plain data, made by config.

use crate::limits;
use crate::memory::Memory;
use crate::routing::rules::AddressRules;
use crate::sabotage;
use std::sync::Arc;
use std::time::Duration;

/// How the deliveries of an address are spread over its consumers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub enum Treatment {
    /// One consumer each, the nearest; near ones by turns.
    Closest,
    /// One consumer each, the one with the least outstanding.
    #[default]
    Balanced,
    /// A copy to every consumer.
    Multicast,
    /// Nobody may use the address.
    Unavailable,
}

/// How senders get their credit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub enum FlowControl {
    /// A share of what the address's consumers take.
    #[default]
    Share,
    /// The listener's linkCapacity for each sender, once there is a consumer.
    Capacity,
}

/// Marks on an address's depth: an event when it rises to `up`, one when it has fallen to `down`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Marks {
    pub up: u64,
    pub down: u64,
}

/// What a rule gives to the addresses that it matches. What is None, the router's defaults decide.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AddressAttributes {
    pub treatment: Option<Treatment>,
    pub flow_control: Option<FlowControl>,
    /// What may wait in the router, in percent of the consumers' windows.
    pub credit_slack_percent: Option<u32>,
    /// Messages.
    pub alert_count: Option<Marks>,
    /// Bytes.
    pub alert_size: Option<Marks>,
    /// 0 to 9.
    pub priority: Option<u8>,
}

/// Which addresses a rule is for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AddressMatch {
    /// The address itself and all below it: `a/b` is the pattern `a/b/#`.
    Prefix(String),
    /// Tokens split on `.` or `/`; `*` is one token, `#` any number.
    Pattern(String),
}

/// One `address` section of the configuration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AddressRule {
    pub matches: AddressMatch,
    pub attributes: AddressAttributes,
}

/// What the router is told at its start.
#[derive(Clone, Debug)]
pub struct RouterSettings {
    pub router_id: String,
    pub rules: AddressRules,
    pub default_treatment: Treatment,
    pub flow_control: FlowControl,
    pub credit_slack_percent: u32,
    /// How long a consumer's drain waits for senders.
    pub drain_wait: Duration,
    /// How long a multicast consumer may take nothing before it is set aside.
    pub multicast_stall: Duration,
    /// The router's account.
    pub memory: Arc<Memory>,
    /// Seeds the table's hash and the names of temporary addresses.
    pub seed: u64,
    /// An error made on purpose, in the simulator.
    pub sabotage: sabotage::Switch,
}

impl Default for RouterSettings {
    fn default() -> Self {
        Self {
            router_id: String::from("router"),
            rules: AddressRules::default(),
            default_treatment: Treatment::Balanced,
            flow_control: FlowControl::Share,
            credit_slack_percent: limits::CREDIT_SLACK_PERCENT_DEFAULT,
            drain_wait: limits::DRAIN_WAIT,
            multicast_stall: limits::MULTICAST_STALL,
            memory: Arc::default(),
            seed: 0,
            sabotage: sabotage::Switch::default(),
        }
    }
}
