//! The usual delivery: it arrives whole at an anycast address where nothing waits and a consumer has room, so it goes
//! straight on, without a wait in the address's FIFO and without a command in the outputs.
//!
//! What [`Router::pass`] does is what `delivery`, `assign_next` and the sending do one after the other, at once, with the address
//! looked up once. It does nothing where any of them would do something else.

use crate::ids::{AddressId, ConnectionId, DeliveryId, LinkId, Port, WireDelivery};
use crate::link::SenderSettleMode;
use crate::outcome::StateKind;
use crate::routing::address::Address;
use crate::routing::credit::SenderSlot;
use crate::routing::delivery::{By, Kind, Stage};
use crate::routing::delivery::{
    COMPLETE, CREDIT, DEPTH, OPEN, OUT_SETTLED, PASSED, PRESETTLED, SENDING, SENT_SETTLED, SETTLED,
};
use crate::routing::link::{End, Sender};
use crate::routing::router::Router;
use crate::routing::settings::Treatment;
use crate::routing::treatment::Candidate;
use crate::time::Time;

/// A whole delivery on its way in, without its payload.
#[derive(Clone, Copy, Debug)]
pub struct Head {
    pub wire: WireDelivery,
    pub message_format: u32,
    pub settled: bool,
    /// Of its payload.
    pub bytes: u32,
}

/// Where a delivery goes. The driver hands it to that port's engine at once, then says how that went: [`Router::passed`] or
/// [`Router::passed_partly`], before anything else.
#[derive(Clone, Copy, Debug)]
pub struct Pass {
    pub port: Port,
    pub delivery: DeliveryId,
    pub settled: bool,
    in_link: LinkId,
    out_link: LinkId,
    address: AddressId,
    sender: SenderSlot,
    candidate: Candidate,
    /// Whose session brought it.
    connection: ConnectionId,
    head: Head,
}

impl Pass {
    /// Settled on both sides: nobody will speak of it again, so there is a record of it only if it isn't sent at once.
    #[inline]
    fn is_forgotten(&self) -> bool {
        self.settled && self.head.settled
    }
}

impl Router {
    /// A delivery arrives. Some: it goes on to this consumer. None: it isn't a usual one, and nothing happened; `delivery`
    /// takes it.
    #[inline]
    pub fn pass(&mut self, in_link: LinkId, head: Head, now: Time) -> Option<Pass> {
        self.begin(now);
        if !self.outputs.is_empty() {
            // Something is to be said first.
            return None;
        }
        let link = self.links.get(in_link)?;
        let (connection, address_id) = (link.port.connection, link.address?);
        let End::Sender(Sender { slot: sender, ended: false, .. }) = link.end else { return None };
        let address = self.addresses.get_mut(address_id)?;
        if !address.waiting.is_empty() || address.treatment == Treatment::Multicast {
            return None;
        }
        let out_link = address.candidates.best()?;
        let out = self.links.get_mut(out_link)?;
        if self.connections.sessions[out.session_slot as usize].blocked {
            return None;
        }
        let settled = match out.sender_settle_mode {
            SenderSettleMode::Settled => true,
            SenderSettleMode::Unsettled => false,
            SenderSettleMode::Mixed => head.settled,
        };
        let port = out.port;
        let End::Consumer(consumer) = &mut out.end else { return None };
        out.counters.arrived(head.settled);
        if settled {
            address.credit.consumer_assigned_settled(consumer.slot);
        } else {
            address.credit.consumer_assigned(consumer.slot);
        }
        let candidate = consumer.candidate;
        consumer.took(address, true, self.now);

        address.credit.passed(sender, self.now);
        let Address { depth, rest, .. } = &mut *address;
        depth.added(1, head.bytes.into(), |edge| self.edges.raise(rest.clone(), edge));
        address.counters.arrived(head.settled);
        address.counters.egress += 1;
        self.totals.arrived(head.settled);
        self.totals.egress += 1;
        if !address.has_work {
            address.has_work = true;
            self.work.push_back(address_id);
        }
        let delivery = self.deliveries.next_id();
        let address = address_id;
        let pass = Pass { port, delivery, settled, in_link, out_link, address, sender, candidate, connection, head };
        if pass.is_forgotten() {
            let link = self.links.get_mut(in_link)?;
            link.counters.arrived(true);
        } else {
            self.keep(&pass);
        }
        Some(pass)
    }

    /// Keeps a record of what is on its way.
    #[inline]
    fn keep(&mut self, pass: &Pass) {
        let slot = self.deliveries.insert(Kind::Single, Stage::Assigned, self.now);
        debug_assert!(self.deliveries.id(slot) == pass.delivery);
        let head = &pass.head;
        let record = &mut self.deliveries[slot];
        (record.in_link, record.out_link, record.address) = (pass.in_link, pass.out_link, pass.address);
        (record.in_wire, record.message_format) = (head.wire, head.message_format);
        record.bytes = head.bytes.into();
        record.flags = (COMPLETE | CREDIT | PASSED | DEPTH)
            | if head.settled { SETTLED | PRESETTLED } else { OPEN }
            | if pass.settled { OUT_SETTLED | SENT_SETTLED } else { 0 };
        if let Some(consumer) = self.links.get_mut(pass.out_link).and_then(|link| link.consumer_mut()) {
            self.deliveries.push_back(By::Consumer, &mut consumer.unsettled, slot);
        }
        let Some(link) = self.links.get_mut(pass.in_link) else { return };
        if !pass.is_forgotten() {
            link.counters.arrived(head.settled);
        }
        if let Some(sender) = link.sender_mut() {
            self.deliveries.push_back(By::Sender, &mut sender.deliveries, slot);
        }
    }

    /// All of it is in its engine's output.
    #[inline]
    pub fn passed(&mut self, pass: &Pass) {
        self.release(pass.connection, pass.head.wire.session, pass.head.bytes as usize);
        if pass.is_forgotten() {
            self.forget(pass);
        } else if pass.settled {
            // The consumer asked for settled deliveries, so nobody else will say it.
            self.end_accepted(pass.delivery.index);
        } else if pass.head.settled {
            self.review(pass.delivery.index);
        }
    }

    /// One that nobody has a record of is over.
    #[inline]
    fn forget(&mut self, pass: &Pass) {
        let Some(address) = self.addresses.get_mut(pass.address) else { return };
        address.candidates.settled(pass.candidate);
        address.credit.settled(pass.sender);
        address.latency.record(0, self.now, &mut self.spread);
        let Address { depth, rest, .. } = address;
        depth.removed(1, pass.head.bytes.into(), |edge| self.edges.raise(rest.clone(), edge));
    }

    /// Some of it is still to go out; `payload_sent` tells when.
    #[cold]
    pub fn passed_partly(&mut self, pass: &Pass) {
        if pass.is_forgotten() {
            self.keep(pass);
        }
        let slot = pass.delivery.index;
        let record = &mut self.deliveries[slot];
        record.unreleased = pass.head.bytes;
        record.set(SENDING);
        if let Some(consumer) = self.links.get_mut(pass.out_link).and_then(|link| link.consumer_mut()) {
            consumer.busy = Some(slot);
            self.refresh(pass.out_link);
        }
    }

    /// A consumer settled a delivery. Some: its sender, at this port, is to hear the same state at once, settled; that
    /// is all. None: it isn't a usual one, and nothing happened; `receiver_disposition` takes it.
    #[inline]
    pub fn settle(&mut self, id: DeliveryId, outcome: StateKind, now: Time) -> Option<(Port, WireDelivery)> {
        self.begin(now);
        let slot = self.deliveries.slot(id)?;
        let record = &self.deliveries[slot];
        (self.outputs.is_empty() && record.stage == Stage::Assigned && record.is_usual()).then_some(())?;
        self.end_whole(slot, outcome)
    }
}
