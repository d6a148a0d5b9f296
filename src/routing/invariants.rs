//! What must hold between two inputs, checked by looking at everything. For tests and the simulator: it costs as
//! much as there is in the router.

use crate::ids::{AddressId, LinkId};
use crate::routing::address::Address;
use crate::routing::delivery::{By, Delivery, Kind, Slot, Stage};
use crate::routing::delivery::{COMPLETE, CREDIT, CUT, DEPTH, OPEN, PASSED, SENDING, SENT};
use crate::routing::link::{Consumer, End, Link, Sender};
use crate::routing::router::Router;
use crate::routing::settings::Treatment;
use std::collections::HashSet;

/// Fails with what doesn't hold, and its figures.
macro_rules! hold {
    ($condition:expr, $($text:tt)+) => {
        if !$condition {
            return Err(format!($($text)+));
        }
    };
}

impl Router {
    /// Says what doesn't hold. To be called when all outputs are drained.
    pub fn check_invariants(&self) -> Result<(), String> {
        hold!(self.outputs.is_empty() && self.work.is_empty(), "outputs are left");
        hold!(self.dirty.is_empty() && self.released.is_none() && self.polled.is_none(), "commands are left");
        let mut listed = HashSet::new();
        for (id, link) in self.links.iter() {
            match &link.end {
                End::Sender(sender) => self.check_sender(id, link, sender, &mut listed)?,
                End::Consumer(consumer) => self.check_consumer(id, link, consumer)?,
            }
        }
        for (id, address) in self.addresses.iter() {
            self.check_address(id, address)?;
        }
        for (slot, record) in self.deliveries.iter() {
            if record.kind != Kind::Copy {
                hold!(listed.contains(&slot), "delivery {slot} is in no sender's list");
            }
            self.check_delivery(slot, &mut listed)?;
        }
        hold!(listed.len() == self.deliveries.len(), "lists hold {} of {}", listed.len(), self.deliveries.len());
        hold!(self.table.len() == self.addresses.len(), "the table and the addresses differ");
        self.check_sessions()
    }

    /// Says what is left in a router that nobody is connected to.
    pub fn check_empty(&self) -> Result<(), String> {
        self.check_invariants()?;
        hold!(self.deliveries.len() == 0, "{} deliveries are left", self.deliveries.len());
        hold!(self.deliveries.outcome_bytes() == 0, "outcomes are left");
        hold!(self.links.is_empty(), "{} links are left", self.links.len());
        hold!(self.addresses.is_empty(), "{} addresses are left", self.addresses.len());
        hold!(self.connections.len() == 0, "{} connections are left", self.connections.len());
        hold!(self.connections.proxies_len() == 0, "{} proxies are left", self.connections.proxies_len());
        hold!(self.connections.sessions.is_empty(), "sessions are left");
        Ok(())
    }

    fn check_sender(&self, id: LinkId, link: &Link, sender: &Sender, listed: &mut HashSet<Slot>) -> Result<(), String> {
        let session = &self.connections.sessions[link.session_slot as usize];
        let place = session.senders.get(link.session_position as usize);
        hold!(place == Some(&id), "{id:?}: not in its session's list");
        let (mut len, mut waiting) = (0, 0);
        for slot in self.deliveries.list(By::Sender, &sender.deliveries) {
            let record = &self.deliveries[slot];
            hold!(record.in_link == id, "delivery {slot} is in the list of another sender");
            hold!(record.kind != Kind::Free && record.kind != Kind::Copy, "delivery {slot} isn't a sender's");
            hold!(listed.insert(slot), "delivery {slot} is listed twice");
            len += 1;
            waiting += u32::from(record.is(CREDIT) && !record.is(PASSED));
        }
        hold!(len == sender.deliveries.len, "{id:?}: {len} deliveries, {} counted", sender.deliveries.len);
        if let Some(fixed) = &sender.fixed {
            hold!(waiting == fixed.waiting(), "{id:?}: {waiting} waiting, {} counted", fixed.waiting());
        }
        hold!(!sender.ended || len > 0, "{id:?}: ended, and nothing keeps it");
        hold!(!sender.dirty, "{id:?}: marked, and in no list");
        if !sender.ended {
            self.check_enlisted(id, link, |address| &address.senders)?;
        }
        Ok(())
    }

    fn check_enlisted(&self, id: LinkId, link: &Link, list: fn(&Address) -> &Vec<LinkId>) -> Result<(), String> {
        let links = self.connections.links(link.port.connection);
        hold!(links.get(link.connection_position as usize) == Some(&id), "{id:?}: not in its connection's list");
        if let Some(address) = link.address {
            let Some(address) = self.addresses.get(address) else { return Err(format!("{id:?}: address is gone")) };
            hold!(list(address).get(link.address_position as usize) == Some(&id), "{id:?}: not in its address's list");
        }
        Ok(())
    }

    fn check_consumer(&self, id: LinkId, link: &Link, consumer: &Consumer) -> Result<(), String> {
        let unsettled: Vec<Slot> = self.deliveries.list(By::Consumer, &consumer.unsettled).collect();
        hold!(unsettled.len() == consumer.unsettled.len as usize, "{id:?}: unsettled miscounted");
        for slot in unsettled {
            let record = &self.deliveries[slot];
            hold!(record.out_link == id && record.stage == Stage::Assigned, "delivery {slot} isn't {id:?}'s");
            hold!(record.is(SENDING) == (consumer.busy == Some(slot)), "delivery {slot} occupies {id:?}, or not");
        }
        let queue: Vec<Slot> = self.deliveries.list(By::Consumer, &consumer.queue).collect();
        hold!(queue.len() == consumer.queue.len as usize, "{id:?}: queue miscounted");
        for slot in &queue {
            let record = &self.deliveries[*slot];
            hold!(record.kind == Kind::Copy && record.stage == Stage::Waiting, "delivery {slot} isn't a waiting copy");
        }
        self.check_enlisted(id, link, |address| &address.consumers)?;
        let Some(address) = link.address.and_then(|id| self.addresses.get(id)) else {
            return Err(format!("{id:?}: a consumer without an address"));
        };
        let has_use = address.treatment != Treatment::Multicast || !queue.is_empty();
        let can = has_use && consumer.room() > 0 && consumer.busy.is_none() && !consumer.parked;
        hold!(can == consumer.ready, "{id:?}: a candidate, or not");
        let session = &self.connections.sessions[link.session_slot as usize];
        hold!(consumer.parked == session.parked.contains(&id), "{id:?}: parked, or not");
        // Whatever could move has moved.
        let waits =
            if address.treatment == Treatment::Multicast { !queue.is_empty() } else { !address.waiting.is_empty() };
        hold!(!(waits && can), "{id:?}: has room, and something waits");
        hold!(consumer.blocked == (consumer.parked || consumer.busy.is_some()), "{id:?}: blocked, or not");
        hold!(!consumer.drained_due || consumer.busy.is_some(), "{id:?}: its drain is forgotten");
        let room = address.credit.consumer_room(consumer.slot);
        let told = if consumer.blocked { 0 } else { consumer.told_room };
        hold!(room == told, "{id:?}: room {told}, {room} known");
        hold!((consumer.told_room == 0) == (consumer.room() == 0 || consumer.drained_due), "{id:?}: room not told");
        Ok(())
    }

    fn check_address(&self, id: AddressId, address: &Address) -> Result<(), String> {
        hold!(self.table.find(address.name()) == Some(id), "{}: not in the table", address.rest);
        hold!(!address.is_unused(), "{}: unused, and kept", address.rest);
        hold!(!address.has_work, "{}: work is left", address.rest);
        let waiting: Vec<Slot> = self.deliveries.list(By::Consumer, &address.waiting).collect();
        hold!(waiting.len() == address.waiting.len as usize, "{}: waiting miscounted", address.rest);
        for slot in &waiting {
            let record = &self.deliveries[*slot];
            hold!(record.address == id && record.stage == Stage::Waiting, "delivery {slot} doesn't wait here");
        }
        hold!(waiting.is_empty() || !address.consumers.is_empty(), "{}: waiting for nobody", address.rest);
        let draining = address.consumers.iter().filter_map(|id| self.links.get(*id)?.consumer()).filter(|c| c.drain);
        hold!(draining.count() == address.drains as usize, "{}: drains miscounted", address.rest);
        address.credit.check_invariants();
        let held = |record: &Delivery| record.address == id && record.is(CREDIT) && !record.is(PASSED);
        let waiting = self.deliveries.iter().filter(|(_, record)| held(record)).count() as u64;
        hold!(waiting == address.credit.waiting(), "{}: waiting {waiting}, {}", address.rest, address.credit.waiting());
        let here = self.deliveries.iter().filter(|(_, record)| record.address == id && record.is(DEPTH));
        let (messages, bytes) = here.fold((0, 0), |(n, bytes), (_, record)| (n + 1, bytes + record.bytes));
        hold!(messages == address.depth.messages(), "{}: depth {messages}, {}", address.rest, address.depth.messages());
        hold!(bytes == address.depth.bytes(), "{}: bytes {bytes}, {}", address.rest, address.depth.bytes());
        Ok(())
    }

    fn check_delivery(&self, slot: Slot, listed: &mut HashSet<Slot>) -> Result<(), String> {
        let record = &self.deliveries[slot];
        match record.kind {
            Kind::Free => return Err(format!("delivery {slot} is free and live")),
            Kind::Copy => {
                hold!(record.stage != Stage::Done, "copy {slot} is done, and kept");
                let parent = &self.deliveries[record.parent()];
                hold!(parent.kind == Kind::Message, "copy {slot} is of no message");
                hold!(parent.is(COMPLETE) == record.is(COMPLETE), "copy {slot} and its message differ");
            }
            Kind::Single | Kind::Message => {
                let over = record.stage == Stage::Done && !record.is(OPEN) && record.is(COMPLETE | CUT);
                hold!(!over, "delivery {slot} is over, and kept");
                hold!(
                    record.stage == Stage::Buffering || record.stage == Stage::Waiting || record.payload.is_empty(),
                    "delivery {slot} holds payload that it has handed on"
                );
            }
        }
        if record.kind == Kind::Message {
            let copies: Vec<Slot> = self.deliveries.list(By::Sender, &record.copies).collect();
            hold!(copies.len() == record.copies.len as usize, "message {slot}: copies miscounted");
            hold!(self.deliveries.is_in_order(slot), "message {slot}: copies out of order");
            let unsent = copies.iter().filter(|copy| !self.deliveries[**copy].is(SENT)).count();
            hold!(unsent == record.unsent as usize, "message {slot}: unsent miscounted");
            for copy in copies {
                hold!(self.deliveries[copy].parent() == slot, "copy {copy} has another message");
                hold!(listed.insert(copy), "copy {copy} is listed twice");
            }
        }
        Ok(())
    }

    fn check_sessions(&self) -> Result<(), String> {
        for (slot, session) in self.connections.sessions.iter() {
            let links = self.links.iter().filter(|(_, link)| link.session_slot as usize == slot).count();
            hold!(links > 0 && links == session.links_len(), "session {slot}: links miscounted");
            let senders = self.links.iter().filter(|(_, link)| link.session_slot as usize == slot);
            let senders = senders.filter(|(_, link)| link.sender().is_some()).count();
            hold!(senders == session.senders.len(), "session {slot}: senders miscounted");
            let buffered: u64 = self
                .deliveries
                .iter()
                .filter(|(_, record)| record.is(super::delivery::BUFFERED))
                .filter(|(_, record)| self.links.get(record.in_link).is_some_and(|l| l.session_slot as usize == slot))
                .map(|(_, record)| record.bytes)
                .sum();
            hold!(buffered == session.buffered_bytes as u64, "session {slot}: buffered bytes miscounted");
        }
        Ok(())
    }
}
