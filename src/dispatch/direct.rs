//! The straight way: usual deliveries and their outcomes go from engine to engine by runs, as soon as the router has said
//! where to. What isn't usual goes on one by one, as if it had been told so.

use super::anonymous::Held;
use super::{find, Dispatch};
use crate::engine::{Arrivals, Run, Sent};
use crate::ids::{ConnectionId, DeliveryId, LinkId, WireDelivery};
use crate::outcome::{State, StateKind};
use crate::routing::{Output, Told};
use crate::run::{Arrived, Settled};
use crate::time::Time;
use crate::wire;

/// What runs are put into on their way through the rooms.
#[derive(Default)]
pub(super) struct Runs {
    pub arrived: Vec<Arrived>,
    pub settled: Vec<Settled>,
}

impl Dispatch {
    /// Passes a run of a connection's on, with the items that it was polled with. What it counts as.
    #[inline]
    pub(super) fn pass_run(&mut self, id: ConnectionId, run: Run, now: Time) -> u64 {
        let mut runs = std::mem::take(&mut self.runs);
        let cost = match run {
            Run::Arrived(run) => self.arrivals(id, &run, &mut runs.arrived, now),
            Run::Settled(state) => self.settled(id, state, &mut runs.settled, now),
        };
        runs.arrived.clear();
        runs.settled.clear();
        self.runs = runs;
        cost
    }

    fn arrivals(&mut self, id: ConnectionId, run: &Arrivals, items: &mut [Arrived], now: Time) -> u64 {
        let (mut left, mut cost) = (items, 0u64);
        while !left.is_empty() {
            let passed = run.token.map_or(0, |link| self.pass(link, run, left, now));
            let (passed, others) = std::mem::take(&mut left).split_at_mut(passed);
            self.deliveries_in += passed.len() as u64;
            cost = cost.saturating_add(passed.len() as u64);
            if !run.settled {
                if let Some(peer) = find(&mut self.peers, id) {
                    peer.engine.set_incoming_tokens(run.session, passed);
                }
            }
            if let Some((unusual, others)) = others.split_first_mut() {
                cost = cost.saturating_add(self.transfer(id, run.transfer(unusual), true, now));
                left = others;
            }
        }
        cost
    }

    /// Passes deliveries of one link on to consumers, as far as they are usual. How many those are.
    fn pass(&mut self, link: LinkId, run: &Arrivals, items: &mut [Arrived], now: Time) -> usize {
        let mut passed = 0;
        while passed < items.len() && !self.annotations.are_used {
            let left = &mut items[passed..];
            let Some(way) = self.router.way(link, run.session, run.message_format, run.settled, now) else { break };
            let most = way.most.min(left.len());
            let room = match self.engine(way.port.connection) {
                Some(engine) => engine.room_for(way.port.link, &left[..most]),
                // A consumer of another shard, or the router's own: one at a time, as its home or the router may say no.
                None => 1,
            };
            let plain = |item: &&Arrived| wire::annotations::are_absent_in(run.payload_bytes(item));
            let count = left[..room].iter().take_while(plain).count();
            if count == 0 {
                break;
            }
            passed += count;
            self.router.pass(&way, &mut left[..count]);
            match find(&mut self.peers, way.port.connection) {
                Some(peer) => {
                    self.deliveries_out += count as u64;
                    if !peer.engine.send_run(way.port.link, run, &left[..count]) {
                        self.session_blocked(way.port);
                    }
                }
                None => {
                    let (port, settled, message_format) = (way.port, way.settled, way.message_format);
                    let (delivery, payload) = (left[0].delivery, run.payload(&left[0]));
                    self.tell(Output::Send { port, delivery, message_format, settled, complete: true, payload });
                }
            }
        }
        passed
    }

    /// As `pass`, of a whole delivery whose frame lay in several reads. Gives it back where it isn't usual.
    pub(super) fn pass_alone(&mut self, id: ConnectionId, link: LinkId, held: Held, now: Time) -> Option<Held> {
        let Held { wire, message_format, settled, .. } = held;
        let Some(way) = self.router.way(link, wire.session, message_format, settled, now) else { return Some(held) };
        let bytes = held.payload.len() as u32;
        let mut item = [Arrived { delivery_id: wire.delivery_id, start: 0, bytes, delivery: DeliveryId::NONE }];
        let room = self.engine(way.port.connection).map_or(1, |engine| engine.room_for(way.port.link, &item));
        if room == 0 {
            return Some(held);
        }
        self.router.pass(&way, &mut item);
        let delivery = item[0].delivery;
        if !settled {
            self.keep(id, wire, delivery);
        }
        let (port, payload) = (way.port, held.payload);
        let Some(peer) = find(&mut self.peers, port.connection) else {
            self.tell(Output::Send { port, delivery, message_format, settled, complete: true, payload });
            return None;
        };
        self.deliveries_out += 1;
        let sent = peer.engine.send(port.link, delivery, message_format, settled, true, payload);
        debug_assert!(sent != Sent::Partly, "there was room");
        if sent == (Sent::Whole { room: false }) {
            self.session_blocked(port);
        }
        None
    }

    /// Consumers settled deliveries: the usual ones go straight to their senders.
    fn settled(&mut self, id: ConnectionId, state: Option<State>, items: &mut [Settled], now: Time) -> u64 {
        let outcome = state.as_ref().map_or(StateKind::Other, |state| state.kind);
        let (mut at, mut cost) = (0, 0u64);
        while let Some(&Settled { delivery, wire, .. }) = items.get(at) {
            let left = &mut items[at..];
            if let Some(told) = self.router.settle(left, outcome, now) {
                self.tell_settled(told, &left[..told.count], &state);
                at += told.count;
                cost = cost.saturating_add(told.count as u64);
                continue;
            }
            cost = cost.saturating_add(self.receiver_disposition(id, delivery, wire, state.clone(), true, now));
            at += 1;
        }
        cost
    }

    /// A consumer's word on one delivery.
    pub(super) fn receiver_disposition(
        &mut self,
        id: ConnectionId,
        delivery: DeliveryId,
        wire: WireDelivery,
        state: Option<State>,
        settled: bool,
        now: Time,
    ) -> u64 {
        if delivery.is_elsewhere() {
            return self.receiver_disposition_elsewhere(id, delivery, wire, state, settled);
        }
        self.router.receiver_disposition(delivery, wire, state, settled, now);
        1
    }

    fn tell_settled(&mut self, told: Told, items: &[Settled], state: &Option<State>) {
        let Told { port, session, .. } = told;
        if let Some(engine) = self.engine(port.connection) {
            return engine.dispose_incoming_run(session, items, state);
        }
        for item in items {
            let wire = WireDelivery { session, delivery_id: item.sender_id };
            self.tell(Output::DisposeIncoming { port, wire, state: state.clone(), settled: true });
        }
    }
}
