//! The straight way: usual deliveries and their outcomes, by runs (see [`crate::run`]).
//!
//! A usual delivery arrives whole at an anycast address where nothing waits and a consumer has room, and is unsettled at both ends or
//! settled at both. It goes straight on, without a wait in the address's FIFO and without a command in the outputs;
//! settled, there never is a record of it. Its usual end is that its consumer settles it while its sender waits for that.
//!
//! What happens to a run here is what `delivery`, `assign_next`, `receiver_disposition` and the like do to one delivery after
//! another, with each link and the address looked up, and each count made, once. The driver asks for the [`Way`], then the
//! consumer's engine how many it takes whole, and has those `pass`. What isn't usual changes nothing here: its way is `delivery`
//! and `receiver_disposition`.

use crate::ids::{AddressId, ConnectionId, LinkId, Port, SessionNumber};
use crate::link::SenderSettleMode;
use crate::outcome::StateKind;
use crate::routing::address::Address;
use crate::routing::connection::SessionSlot;
use crate::routing::credit::SenderSlot;
use crate::routing::delivery::{By, Stage, DEPTH};
use crate::routing::link::{End, Sender};
use crate::routing::router::Router;
use crate::routing::settings::Treatment;
use crate::routing::stuck::SLOW_NANOSECONDS;
use crate::run::{Arrived, Settled};
use crate::time::Time;

/// Where the next deliveries of a link go. It holds until the router is told anything else than what it is for.
#[derive(Clone, Copy, Debug)]
pub struct Way {
    /// The consumer's.
    pub port: Port,
    /// How many go there at most, before another consumer may have its turn.
    pub most: usize,
    pub settled: bool,
    pub message_format: u32,
    pub(super) in_link: LinkId,
    pub(super) out_link: LinkId,
    pub(super) address: AddressId,
    sender: SenderSlot,
    /// Whose session brings them.
    connection: ConnectionId,
    pub(super) session: SessionNumber,
}

/// Whom to tell of deliveries that were settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    pub port: Port,
    pub session: SessionNumber,
    /// So many, from the first on.
    pub count: usize,
}

impl Router {
    /// The way of deliveries that arrived on this session and link. None: they aren't usual.
    #[inline]
    pub fn way(
        &mut self,
        in_link: LinkId,
        session: SessionNumber,
        message_format: u32,
        settled: bool,
        now: Time,
    ) -> Option<Way> {
        self.begin(now);
        if !self.outputs.is_empty() {
            // Something is to be said first.
            return None;
        }
        let link = self.links.get(in_link)?;
        let (connection, address_id) = (link.port.connection, link.address?);
        let End::Sender(Sender { slot: sender, ended: false, .. }) = link.end else { return None };
        let address = self.addresses.get(address_id)?;
        if !address.waiting.is_empty() || address.treatment == Treatment::Multicast {
            return None;
        }
        let turns = address.candidates.turns();
        let out_link = address.candidates.best()?;
        let out = self.links.get(out_link)?;
        if out.is_own() {
            // Each is answered, so each has a record.
            return None;
        }
        let goes_settled = match out.sender_settle_mode {
            SenderSettleMode::Settled => true,
            SenderSettleMode::Unsettled => false,
            SenderSettleMode::Mixed => settled,
        };
        if goes_settled != settled || self.is_session_blocked(out.session_slot) {
            return None;
        }
        let consumer = out.consumer()?;
        // The address's credit hears of room that it doesn't know of in between.
        let most = turns.min(consumer.room()).min(consumer.told_room.max(1)) as usize;
        let (port, address) = (out.port, address_id);
        Some(Way { port, most, settled, message_format, in_link, out_link, address, sender, connection, session })
    }

    #[inline]
    fn is_session_blocked(&self, session: SessionSlot) -> bool {
        self.connections.sessions[session as usize].blocked
    }

    /// Deliveries, `most` at most, go that way: their consumer's engine sends all of them at once. Each that is unsettled is
    /// given the router's id.
    #[inline]
    pub fn pass(&mut self, way: &Way, items: &mut [Arrived]) {
        let count = items.len() as u32;
        debug_assert!(items.len() <= way.most);
        if count == 0 {
            return;
        }
        let Some(address) = self.addresses.get_mut(way.address) else { return };
        let Some(out) = self.links.get_mut(way.out_link) else { return };
        let End::Consumer(consumer) = &mut out.end else { return };
        out.counters.arrived_run(count, way.settled);
        address.credit.consumer_assigned_run(consumer.slot, count, way.settled);
        consumer.took(address, count, true, self.now);
        let (candidate, mut by_consumer) = (consumer.candidate, consumer.unsettled);

        let Some(link) = self.links.get_mut(way.in_link) else { return };
        let End::Sender(sender) = &mut link.end else { return };
        link.counters.arrived_run(count, way.settled);
        address.credit.passed(way.sender, count, self.now);
        address.counters.arrived_run(count, way.settled);
        address.counters.egress += u64::from(count);
        self.totals.arrived_run(count, way.settled);
        self.totals.egress += u64::from(count);
        if way.settled {
            // They are over.
            address.candidates.settled(candidate, count);
            address.credit.settled_run(way.sender, count);
            address.latency.record_run(0, count, self.now, &mut self.spread);
            let Address { depth, rest, .. } = &mut *address;
            depth.passed_run(sizes(items), |edge| self.edges.raise(rest.clone(), edge));
        } else {
            self.deliveries.insert_run(way, items, (&mut sender.deliveries, &mut by_consumer), self.now);
            let Address { depth, rest, .. } = &mut *address;
            depth.added_run(sizes(items), |edge| self.edges.raise(rest.clone(), edge));
            if let Some(consumer) = self.links.get_mut(way.out_link).and_then(|link| link.consumer_mut()) {
                consumer.unsettled = by_consumer;
            }
        }
        self.push_work(way.address);
        self.release(way.connection, way.session, sizes(items).sum::<u64>() as usize);
    }

    /// Consumers settled these deliveries. The first of them end at once, as far as they are usual and went from one sender's
    /// session to one consumer: that sender is to hear the same state, settled, of what the items name now. None: the
    /// first isn't usual, and nothing happened.
    #[inline]
    pub fn settle(&mut self, items: &mut [Settled], outcome: StateKind, now: Time) -> Option<Told> {
        self.begin(now);
        if !self.outputs.is_empty() {
            return None;
        }
        let first = &self.deliveries[self.deliveries.slot(items.first()?.delivery)?];
        let (in_link, out_link, address_id) = (first.in_link, first.out_link, first.address);
        let session = first.in_wire.session;
        let mut by_sender = self.links.get(in_link)?.sender()?.deliveries;
        let mut by_consumer = self.links.get(out_link)?.consumer()?.unsettled;
        let (mut count, mut age, mut same_age) = (0, 0, 0);
        for item in &mut *items {
            let Some(slot) = self.deliveries.slot(item.delivery) else { break };
            let record = &self.deliveries[slot];
            let alike = record.in_link == in_link && record.out_link == out_link && record.address == address_id;
            if !alike || record.in_wire.session != session || !record.is_usual() || record.stage != Stage::Assigned {
                break;
            }
            debug_assert!(record.unreleased == 0 && record.is(DEPTH));
            (item.sender_id, item.bytes) = (record.in_wire.delivery_id, record.bytes);
            let its_age = self.deliveries.age(slot, self.now);
            if its_age != age {
                self.count_latencies(address_id, age, std::mem::take(&mut same_age));
                age = its_age;
            }
            same_age += 1;
            if its_age >= SLOW_NANOSECONDS {
                self.count_delayed(slot);
            }
            self.deliveries.unlink(By::Sender, &mut by_sender, slot);
            self.deliveries.unlink(By::Consumer, &mut by_consumer, slot);
            self.deliveries.remove(slot);
            count += 1;
        }
        if count == 0 {
            return None;
        }
        self.count_latencies(address_id, age, same_age);

        let (items, count) = (&items[..count], count as u32);
        self.totals.outcomes(outcome, count);
        let address = self.addresses.get_mut(address_id)?;
        address.counters.outcomes(outcome, count);
        let Address { depth, rest, .. } = &mut *address;
        depth.removed_run(items.iter().map(|item| item.bytes), |edge| self.edges.raise(rest.clone(), edge));
        let out = self.links.get_mut(out_link)?;
        out.counters.outcomes(outcome, count);
        if let End::Consumer(consumer) = &mut out.end {
            consumer.unsettled = by_consumer;
            address.candidates.settled(consumer.candidate, count);
            address.credit.consumer_settled_run(consumer.slot, count);
        }
        let link = self.links.get_mut(in_link)?;
        link.counters.outcomes(outcome, count);
        let port = link.port;
        if let End::Sender(sender) = &mut link.end {
            sender.deliveries = by_sender;
            address.credit.settled_run(sender.slot, count);
            if sender.ended && by_sender.is_empty() {
                self.free_link(in_link);
            }
        }
        self.push_work(address_id);
        Some(Told { port, session, count: items.len() })
    }

    /// So many deliveries of an address took so long.
    #[inline]
    fn count_latencies(&mut self, address: AddressId, age_nanoseconds: u64, count: u32) {
        if let Some(address) = self.addresses.get_mut(address).filter(|_| count > 0) {
            address.latency.record_run(age_nanoseconds, count, self.now, &mut self.spread);
        }
    }
}

fn sizes(items: &[Arrived]) -> impl ExactSizeIterator<Item = u64> + '_ {
    items.iter().map(|item| item.bytes.into())
}
