//! A configuration in the words of engine and routing.

use super::ControlError;
use crate::config::{self, Config, ListenerConfig, StripAnnotations};
use crate::engine;
use crate::limits;
use crate::management::Figures;
use crate::memory::Memory;
use crate::routing::{
    AddressAttributes, AddressMatch, AddressRule, AddressRules, FlowControl, Marks, RouterSettings, Treatment,
};
use std::sync::Arc;
use std::time::Duration;

/// What only the other rooms can say of a configuration's being right. The line and what is wrong there.
pub fn check(config: &Config) -> Result<(), (usize, String)> {
    match router(config, "check", &Arc::default()) {
        Err(ControlError::Configuration(line, text)) => Err((line, text)),
        _ => Ok(()),
    }
}

/// The configured id, or a random one.
pub fn router_id(config: &Config) -> String {
    config.router.id.clone().unwrap_or_else(|| format!("Standalone_{:016x}", random()))
}

/// The machine's.
fn host_name() -> String {
    let mut bytes = [0u8; 256];
    // SAFETY: so many writable bytes; the last one stays 0.
    unsafe { libc::gethostname(bytes.as_mut_ptr().cast(), bytes.len() - 1) };
    let name = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(name).into_owned()
}

fn random() -> u64 {
    let mut bytes = [0u8; 8];
    // SAFETY: eight writable bytes. So few can't be had short, and it fails only where the kernel has no such call.
    unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    u64::from_ne_bytes(bytes)
}

/// What management shows of the router that stays as it is.
pub fn figures(config: &Config, router_id: &str, shards: usize) -> Figures {
    Figures {
        id: router_id.to_owned(),
        host_name: host_name(),
        mode: "standalone",
        version: env!("CARGO_PKG_VERSION"),
        metadata: config.router.metadata.clone(),
        worker_threads: config.router.worker_threads.map_or(shards as u32, u32::from),
        ..Figures::default()
    }
}

pub fn engine(listener: &ListenerConfig, router_id: &str, memory: &Arc<Memory>) -> engine::Settings {
    engine::Settings {
        container_id: router_id.to_string(),
        max_frame_size: listener.max_frame_size,
        channel_max: (listener.max_sessions.clamp(1, limits::MAX_SESSIONS_DEFAULT) - 1) as u16,
        idle_timeout: Duration::from_secs(u64::from(listener.idle_timeout_seconds)),
        sasl_mechanisms: listener.sasl_mechanisms.clone(),
        sasl_required: listener.authenticate_peer,
        max_session_frames: listener.max_session_frames,
        handshake_timeout: Duration::from_secs(u64::from(listener.handshake_timeout_seconds)),
        max_message_size: listener.message_size_max,
        links_max: listener.links_max as usize,
        unsettled_max: listener.unsettled_max as usize,
        memory: memory.clone(),
        strip_incoming: matches!(listener.strip_annotations, StripAnnotations::In | StripAnnotations::Both),
        strip_outgoing: matches!(listener.strip_annotations, StripAnnotations::Out | StripAnnotations::Both),
        ..engine::Settings::default()
    }
}

pub fn rules(config: &Config) -> Result<AddressRules, ControlError> {
    AddressRules::new(config.addresses.iter().map(rule).collect()).map_err(|error| {
        let line = config.addresses.get(error.rule).map_or(0, |address| address.line);
        ControlError::Configuration(line, format!("address: {error}"))
    })
}

pub fn router(config: &Config, router_id: &str, memory: &Arc<Memory>) -> Result<RouterSettings, ControlError> {
    let rules = rules(config)?;
    let flow = &config.router.flow;
    Ok(RouterSettings {
        router_id: router_id.to_string(),
        rules,
        default_treatment: treatment(config.router.default_distribution),
        flow_control: flow_control(flow.flow_control),
        credit_slack_percent: flow.credit_slack_percent,
        drain_wait: Duration::from_millis(u64::from(config.router.drain_wait_milliseconds)),
        multicast_stall: Duration::from_secs(u64::from(config.router.multicast_stall_seconds)),
        memory: memory.clone(),
        seed: random(),
        sabotage: Default::default(),
    })
}

pub fn rule(address: &config::AddressConfig) -> AddressRule {
    let marks = |marks: config::AlertMarks| Marks { up: marks.up, down: marks.down };
    AddressRule {
        matches: matches(&address.matches),
        attributes: AddressAttributes {
            treatment: Some(treatment(address.distribution)),
            flow_control: Some(flow_control(address.flow.flow_control)),
            credit_slack_percent: Some(address.flow.credit_slack_percent),
            alert_count: address.alert_count.map(marks),
            alert_size: address.alert_size.map(marks),
            priority: address.priority,
        },
    }
}

pub fn matches(matches: &config::AddressMatch) -> AddressMatch {
    match matches {
        config::AddressMatch::Prefix(prefix) => AddressMatch::Prefix(prefix.clone()),
        config::AddressMatch::Pattern(pattern) => AddressMatch::Pattern(pattern.clone()),
    }
}

fn treatment(distribution: config::Distribution) -> Treatment {
    match distribution {
        config::Distribution::Multicast => Treatment::Multicast,
        config::Distribution::Closest => Treatment::Closest,
        config::Distribution::Balanced => Treatment::Balanced,
        config::Distribution::Unavailable => Treatment::Unavailable,
    }
}

fn flow_control(flow_control: config::FlowControl) -> FlowControl {
    match flow_control {
        config::FlowControl::Share => FlowControl::Share,
        config::FlowControl::Capacity => FlowControl::Capacity,
    }
}
