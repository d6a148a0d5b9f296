//! A session at the client: both windows and what is unsettled.

use super::promise::{ahead, Promises};
use super::{Client, LinkIndex, SessionIndex};
use crate::wire::performative::{Begin, Flow};
use std::collections::{BTreeMap, BTreeSet};

pub struct Session {
    pub channel: u16,
    /// The router's channel, from its begin to its end.
    pub remote_channel: Option<u16>,
    pub end_sent: bool,
    pub end_received: bool,
    pub(super) next_outgoing_id: u32,
    pub(super) next_delivery_id: u32,
    /// The transfer-id that the router doesn't take yet; None: it said nothing so far.
    remote_limit: Option<u32>,
    /// The router's next transfer-id, once it began.
    next_incoming_id: Option<u32>,
    incoming_window_full: u32,
    /// Frames that came and are not given back to the window yet.
    used: u32,
    /// Frames are counted but the window isn't opened again.
    hold_window: bool,
    limits: Promises,
    /// The delivery-id that the router uses next, once it sent one.
    pub(super) next_remote_delivery_id: Option<u32>,
    pub(super) unsettled_outgoing: BTreeMap<u32, LinkIndex>,
    pub(super) unsettled_incoming: BTreeMap<u32, LinkIndex>,
    /// What the router settled of our deliveries: it says so once.
    pub(super) settled_by_router: BTreeSet<u32>,
}

impl Session {
    pub(super) fn new(channel: u16, initial_serial: u32, incoming_window: u32) -> Session {
        Session {
            channel,
            remote_channel: None,
            end_sent: false,
            end_received: false,
            next_outgoing_id: initial_serial,
            next_delivery_id: initial_serial,
            remote_limit: None,
            next_incoming_id: None,
            incoming_window_full: incoming_window,
            used: 0,
            hold_window: false,
            limits: Promises::default(),
            next_remote_delivery_id: None,
            unsettled_outgoing: BTreeMap::new(),
            unsettled_incoming: BTreeMap::new(),
            settled_by_router: BTreeSet::new(),
        }
    }

    pub(super) fn begun(&mut self, channel: u16, begin: &Begin<'_>) {
        self.remote_channel = Some(channel);
        self.next_incoming_id = Some(begin.next_outgoing_id);
        self.remote_limit = Some(self.next_outgoing_id.wrapping_add(span(begin.incoming_window)));
        self.limits = Promises::new(begin.next_outgoing_id.wrapping_add(span(self.incoming_window_full)));
    }

    /// A link is over: nothing of it is unsettled any more.
    pub(super) fn forget(&mut self, link: LinkIndex) {
        self.unsettled_outgoing.retain(|_, other| *other != link);
        self.unsettled_incoming.retain(|_, other| *other != link);
    }

    pub fn is_over(&self) -> bool {
        self.end_sent && self.end_received
    }

    /// Frames that the router takes now.
    pub fn remote_room(&self) -> u32 {
        match self.remote_limit {
            Some(limit) if self.remote_channel.is_some() && !self.end_sent => {
                ahead(limit, self.next_outgoing_id).max(0) as u32
            }
            _ => 0,
        }
    }

    pub fn unsettled_outgoing(&self) -> usize {
        self.unsettled_outgoing.len()
    }

    pub fn unsettled_incoming(&self) -> usize {
        self.unsettled_incoming.len()
    }

    pub(super) fn next_incoming_id(&self) -> Option<u32> {
        self.next_incoming_id
    }

    pub(super) fn incoming_window(&self) -> u32 {
        self.incoming_window_full - self.used
    }

    /// Those of our unsettled deliveries that lie in a range; taken out when `settled`.
    pub(super) fn outgoing_between(&mut self, first: u32, last: u32, settled: bool) -> Vec<(u32, LinkIndex)> {
        between(&mut self.unsettled_outgoing, first, last, settled)
    }

    /// The first delivery of a range that the router settled before, if there is one.
    pub(super) fn settled_again(&self, first: u32, last: u32) -> Option<u32> {
        let settled = &self.settled_by_router;
        let mut found = if first <= last { settled.range(first..=last) } else { settled.range(first..) };
        found.next().or_else(|| settled.range(..=last).next().filter(|_| first > last)).copied()
    }

    pub(super) fn incoming_between(&mut self, first: u32, last: u32, settled: bool) -> Vec<(u32, LinkIndex)> {
        between(&mut self.unsettled_incoming, first, last, settled)
    }
}

/// A window as a distance of serial numbers: beyond half of their circle they can't be compared.
fn span(window: u32) -> u32 {
    window.min(i32::MAX as u32)
}

fn between(unsettled: &mut BTreeMap<u32, LinkIndex>, first: u32, last: u32, settled: bool) -> Vec<(u32, LinkIndex)> {
    // In the order of the serial numbers, though the map's is that of plain ones.
    let found: Vec<(u32, LinkIndex)> = if first <= last {
        unsettled.range(first..=last).map(|(id, link)| (*id, *link)).collect()
    } else {
        let low = unsettled.range(first..).map(|(id, link)| (*id, *link));
        low.chain(unsettled.range(..=last).map(|(id, link)| (*id, *link))).collect()
    };
    if settled {
        for (delivery_id, _) in &found {
            unsettled.remove(delivery_id);
        }
    }
    found
}

impl Client {
    /// A transfer frame came: it must lie inside the window.
    pub(super) fn count_incoming_frame(&mut self, index: SessionIndex) {
        let stamp = self.stamp;
        let session = &mut self.sessions[index.0];
        let Some(next) = session.next_incoming_id else { return };
        let limit = session.limits.limit(stamp);
        if ahead(limit, next) <= 0 {
            self.violate(format!("transfer {next} on a session whose window ends at {limit}"));
        }
        let session = &mut self.sessions[index.0];
        session.next_incoming_id = Some(next.wrapping_add(1));
        session.used = (session.used + 1).min(session.incoming_window_full);
        self.reopen_window(index);
    }

    /// Gives the window back once half of it was used.
    fn reopen_window(&mut self, index: SessionIndex) {
        let closing = self.close_sent;
        let session = &mut self.sessions[index.0];
        if session.hold_window || session.used < session.incoming_window_full.div_ceil(2) || session.end_sent || closing
        {
            return;
        }
        session.used = 0;
        self.write_session_flow(index);
    }

    fn write_session_flow(&mut self, index: SessionIndex) {
        self.write_flow(index, None);
        self.window_told(index);
    }

    /// A flow of this session was written: its window is a promise.
    pub(super) fn window_told(&mut self, index: SessionIndex) {
        let written = self.written;
        let session = &mut self.sessions[index.0];
        if let Some(next) = session.next_incoming_id {
            session.limits.add(written, next.wrapping_add(span(session.incoming_window())));
        }
    }

    /// Stops giving the window back, or begins again.
    pub fn hold_window(&mut self, index: SessionIndex, hold: bool) {
        self.sessions[index.0].hold_window = hold;
        if !hold {
            self.reopen_window(index);
        }
    }

    pub(super) fn on_flow(&mut self, index: SessionIndex, flow: &Flow<'_>) {
        let session = &mut self.sessions[index.0];
        if session.end_sent {
            return;
        }
        match flow.next_incoming_id {
            None => return self.violate("a flow without next-incoming-id though our begin was answered"),
            Some(next) => {
                if ahead(next, session.next_outgoing_id) > 0 {
                    let ours = session.next_outgoing_id;
                    return self.violate(format!("a flow says next-incoming-id {next}, we are at {ours}"));
                }
                let limit = next.wrapping_add(span(flow.incoming_window));
                let before = session.remote_limit.replace(limit);
                let grew = before.is_none_or(|before| ahead(limit, before) > 0);
                if grew {
                    self.events.push_back(super::Event::Window { session: index });
                }
            }
        }
        if self.sessions[index.0].next_incoming_id != Some(flow.next_outgoing_id) {
            let ours = self.sessions[index.0].next_incoming_id;
            self.violate(format!("a flow says next-outgoing-id {}, we count {ours:?}", flow.next_outgoing_id));
        }
        if let Some(handle) = flow.handle {
            self.on_link_flow(index, handle, flow);
        } else if flow.echo {
            self.write_session_flow(index);
        }
    }
}
