//! The connection's own life: open, close, the idle time-outs (sections 2.4, 2.7.1, 2.7.9).

use super::connection::{Closing, Engine, Phase};
use super::fault::{self, Violation};
use super::link::remote_error;
use super::*;
use crate::limits::{MAX_FRAME_SIZE_MIN, SENT_FRAME_BYTES_MAX};
use crate::outcome::Fault;
use crate::time::{earliest, Time};
use crate::wire::error::Error;
use crate::wire::performative::{self as wire, Performative};
use crate::wire::value::{Map, Value};
use crate::wire::{encode, frame, Symbols};
use std::time::Duration;

/// The shortest idle time-out that a peer may ask for, in milliseconds: shorter ones would have the router do little
/// but send empty frames.
const IDLE_TIME_OUT_MIN: u32 = 50;
/// Properties of a peer's open that are kept for whoever asks; longer ones are not.
const KEPT_PROPERTIES_BYTES_MAX: usize = 4096;

impl Engine {
    pub(super) fn on_open(&mut self, open: &wire::Open<'_>) -> Result<Event, Violation> {
        if let Some(fault) = self.refusal.take() {
            return Err(Violation::connection(fault.condition, fault.description));
        }
        if open.max_frame_size < MAX_FRAME_SIZE_MIN {
            return Err(Violation::connection(fault::INVALID_FIELD, "max-frame-size is less than 512"));
        }
        let idle = open.idle_time_out.unwrap_or(0);
        if (1..IDLE_TIME_OUT_MIN).contains(&idle) {
            // Section 2.4.5: one that can't be supported is refused.
            return Err(Violation::connection(fault::INVALID_FIELD, "idle-time-out is less than 50 ms"));
        }
        // A peer may allow frames of any size; ours stay below the output's mark, which bounds what is released early.
        self.remote.max_frame_size = (open.max_frame_size as usize).min(SENT_FRAME_BYTES_MAX);
        self.remote.channel_max = open.channel_max;
        // Half of what the peer allows, so that a slow network doesn't end the connection (section 2.4.5).
        self.remote.heartbeat = (idle > 0).then(|| Duration::from_micros(u64::from(idle) * 500));
        self.remote.container_id = Some(open.container_id.into());
        self.write_open();
        self.phase = Phase::Open;
        let (product, version) = product_and_version(open.properties);
        let kept = open.properties.filter(|properties| properties.len() <= KEPT_PROPERTIES_BYTES_MAX);
        Ok(Event::Opened(Box::new(RemoteOpen {
            container_id: open.container_id.to_owned(),
            hostname: open.hostname.map(str::to_owned),
            max_frame_size: open.max_frame_size,
            channel_max: open.channel_max,
            idle_timeout_milliseconds: idle,
            product,
            version,
            properties: kept.map(Into::into),
        })))
    }

    /// Our open, where it isn't out yet.
    pub(super) fn write_open(&mut self) {
        if std::mem::replace(&mut self.open_sent, true) {
            return;
        }
        let settings = self.settings.clone();
        let mut properties = Vec::with_capacity(64);
        let map = encode::begin(&mut properties);
        encode::symbol(&mut properties, "product");
        encode::string(&mut properties, settings.product);
        encode::symbol(&mut properties, "version");
        encode::string(&mut properties, &settings.version);
        encode::finish(&mut properties, map, crate::wire::value::code::MAP8, 4);
        let idle = (settings.idle_timeout / 2).as_millis().min(u128::from(u32::MAX)) as u32;
        let open = wire::Open {
            container_id: &settings.container_id,
            hostname: settings.hostname.as_deref(),
            max_frame_size: settings.max_frame_size.max(MAX_FRAME_SIZE_MIN),
            channel_max: settings.channel_max,
            idle_time_out: (idle > 0).then_some(idle),
            offered_capabilities: Symbols::names(settings.capabilities),
            desired_capabilities: Symbols::names(settings.capabilities),
            properties: Some(&properties),
            ..wire::Open::default()
        };
        self.write_frame(0, &Performative::Open(open));
    }

    pub(super) fn on_close(&mut self, close: &wire::Close<'_>) {
        if self.phase == Phase::CloseSent {
            self.phase = Phase::Done;
            self.input.clear();
            return;
        }
        if self.phase == Phase::Opening {
            self.write_open();
        }
        let error = close.error.as_ref().map(remote_error);
        self.write_frame(0, &Performative::Close(wire::Close { error: None }));
        self.finish(Phase::Done, error);
    }

    /// Our close. The driver flushes it; what the peer still sends is swallowed until its close.
    pub(super) fn close_with(&mut self, error: Option<&Error<'_>>) {
        match self.phase {
            Phase::CloseSent | Phase::Done => return,
            // A refusal is an open and then a close (section 2.4.3).
            Phase::Opening => self.write_open(),
            Phase::Open => {
                for channel in 0..self.sessions.len() {
                    self.write_dispositions(channel as u16);
                }
            }
            // Without an open a close has no place: the peer hears the end of the stream.
            _ => return self.finish(Phase::Done, None),
        }
        self.write_frame(0, &Performative::Close(wire::Close { error: error.copied() }));
        self.finish(Phase::CloseSent, None);
    }

    /// Over before it opened, or without a word.
    pub(super) fn break_off(&mut self, reason: Fault) {
        self.close_reason.get_or_insert(reason);
        self.finish(Phase::Done, None);
    }

    /// Ends all links and tells it; nothing but the output at hand is left of the connection.
    pub(super) fn finish(&mut self, phase: Phase, error: Option<Box<RemoteError>>) {
        if matches!(self.phase, Phase::CloseSent | Phase::Done) {
            self.phase = Phase::Done;
            return;
        }
        self.phase = phase;
        self.held.break_promises();
        self.drop_sessions();
        let links: Vec<_> = self.links.iter().map(|(link, _)| link).collect();
        for link in links {
            self.end_link(link, false, None);
        }
        self.cursor = None;
        self.dirty.clear();
        self.flows.clear();
        self.waiting.clear();
        self.reports.clear();
        if phase == Phase::Done {
            self.input.clear();
        }
        self.closing = Closing::Due(error);
    }
}

/// Commands.
impl Engine {
    /// Has the peer's open answered with ours and a close that says why (section 2.4.3).
    pub fn refuse_open(&mut self, fault: Fault) {
        self.refusal = Some(fault);
    }

    /// Ends the connection. `LinkEnded` for each link and `Closed` follow.
    pub fn close(&mut self, fault: Option<&Fault>) {
        if self.is_closed() {
            return;
        }
        if let Some(fault) = fault {
            self.close_reason.get_or_insert(fault.clone());
        }
        let error = fault.map(|fault| Error::new(fault.condition, &fault.description));
        self.close_with(error.as_ref());
    }
}

/// Time.
impl Engine {
    /// The time of `poll_timeout` came.
    pub fn handle_timeout(&mut self, now: Time) {
        self.now = now;
        self.input.shrink();
        if self.is_closed() {
            return;
        }
        if self.handshake_deadline().is_some_and(|deadline| now >= deadline) {
            let time = self.settings.handshake_timeout.as_millis();
            let why = format!("the connection wasn't opened within {time} ms");
            self.close(Some(&Fault::connection(fault::RESOURCE_LIMIT_EXCEEDED, why)));
        } else if self.silence_deadline().is_some_and(|deadline| now >= deadline) {
            let waited = self.settings.idle_timeout.as_millis();
            let why = format!("nothing was received for {waited} ms");
            self.close(Some(&Fault::connection(fault::RESOURCE_LIMIT_EXCEEDED, why)));
        } else if self.heartbeat_deadline().is_some_and(|deadline| now >= deadline) {
            if self.output.is_empty() {
                self.write_bytes(&frame::HEARTBEAT);
            }
            // Output at hand is the sign of life; where the peer doesn't read it, another one wouldn't help.
            self.last_output = now;
        }
    }

    pub fn poll_timeout(&self) -> Option<Time> {
        if self.is_closed() {
            return None;
        }
        earliest([self.handshake_deadline(), self.silence_deadline(), self.heartbeat_deadline()])
    }

    /// When a peer that hasn't opened is closed, however much it says.
    fn handshake_deadline(&self) -> Option<Time> {
        let timeout = self.settings.handshake_timeout;
        (!timeout.is_zero() && self.phase != Phase::Open).then(|| self.began + timeout)
    }

    /// When a peer that says nothing is closed.
    fn silence_deadline(&self) -> Option<Time> {
        let timeout = self.settings.idle_timeout;
        (!timeout.is_zero()).then(|| self.last_input + timeout)
    }

    fn heartbeat_deadline(&self) -> Option<Time> {
        self.remote.heartbeat.map(|interval| self.last_output + interval)
    }
}

impl Engine {
    /// Takes the end of the stream into account once all input before it was.
    pub(super) fn meet_end_of_stream(&mut self) {
        self.end_of_stream = false;
        if !self.is_closed() {
            self.close_reason
                .get_or_insert(Fault::connection(fault::FRAMING_ERROR, "the stream ended without a close"));
        }
        self.finish(Phase::Done, None);
        self.phase = Phase::Done;
        self.input.clear();
    }
}

fn product_and_version(properties: Option<&[u8]>) -> (Option<String>, Option<String>) {
    let Some(Ok(map)) = properties.map(Map::parse) else { return (None, None) };
    let text = |name| match map.get(name) {
        Some(Value::String(text) | Value::Symbol(text)) => Some(text.to_owned()),
        _ => None,
    };
    (text("product"), text("version"))
}
