//! A client and an engine, pumped against each other in virtual time.

use super::client::{Client, Received};
use ringway::engine::{Engine, Event, LinkAnswer, Settings, Transmit};
use ringway::ids::{DeliveryId, LinkHandle, LinkId, WireDelivery};
use ringway::outcome::{Fault, State};
use ringway::payload::{Chunk, Pool, Range};
use ringway::time::Time;
use ringway::wire::performative::Performative;
use std::sync::Arc;
use std::time::Duration;

pub struct Pair {
    pub client: Client,
    pub engine: Engine,
    pub now: Time,
    /// What the engine told and no test has looked at yet.
    pub events: Vec<Event>,
    /// Attaches are accepted as they come.
    pub accepts: bool,
    /// Each incoming delivery gets a token (its delivery-id as index).
    pub keeps: bool,
    /// Bytes that one read brings.
    pub read_bytes: usize,
    pool: Pool,
    next_token: u32,
    next_delivery: u32,
}

impl Pair {
    pub fn new() -> Pair {
        Pair::with(Settings::default())
    }

    pub fn with(settings: Settings) -> Pair {
        let pool = Pool::counted(64 * 1024, 4, settings.memory.clone());
        Pair {
            client: Client::default(),
            engine: Engine::new(Arc::new(settings), Time::ZERO),
            now: Time::ZERO,
            events: Vec::new(),
            accepts: true,
            keeps: true,
            read_bytes: 64 * 1024,
            pool,
            next_token: 0,
            next_delivery: 0,
        }
    }

    /// Opened, with a session on channel 0, and nothing left to read.
    pub fn opened(settings: Settings) -> Pair {
        let mut pair = Pair::with(settings);
        pair.client.header_and_open();
        pair.client.begin(0);
        pair.pump();
        assert_eq!(pair.client.briefs(), ["open", "begin"]);
        pair.events.clear();
        pair
    }

    /// Opened, with a receiver's link on channel 0 by handle 0 that has this credit.
    pub fn with_receiver(settings: Settings, credit: u32) -> (Pair, LinkHandle) {
        let initial = settings.initial_serial;
        let mut pair = Pair::opened(settings);
        pair.client.attach_receiver(0, 0, "receiver", "a");
        pair.client.credit(0, 0, initial, credit);
        pair.pump();
        let link = pair.attached();
        pair.client.frames();
        pair.events.clear();
        (pair, link)
    }

    /// Opened, with a sender's link on channel 0 by handle 0 that was granted this credit.
    pub fn with_sender(settings: Settings, credit: u32) -> (Pair, LinkHandle) {
        let mut pair = Pair::opened(settings);
        let link = pair.add_sender(0, "sender", credit);
        pair.client.frames();
        pair.events.clear();
        (pair, link)
    }

    /// One more sender's link on channel 0, which is granted this credit.
    pub fn add_sender(&mut self, handle: u32, name: &str, credit: u32) -> LinkHandle {
        self.client.attach_sender(0, handle, name, "a");
        self.pump();
        let link = self.attached();
        if credit > 0 {
            self.engine.grant(link, credit, false);
        }
        self.pump();
        link
    }

    /// The last link that was attached.
    pub fn attached(&self) -> LinkHandle {
        let attached = |event: &Event| match event {
            Event::Attached { link, .. } => Some(*link),
            _ => None,
        };
        self.events.iter().rev().find_map(attached).expect("a link was attached")
    }

    /// One way and back until neither has anything to say.
    pub fn pump(&mut self) {
        loop {
            let bytes = self.client.take_output();
            for read in bytes.chunks(self.read_bytes) {
                self.read(read);
            }
            self.drain_events();
            let sent = self.transmit();
            if bytes.is_empty() && !sent && !self.engine.has_work() {
                return;
            }
        }
    }

    /// One read brings these bytes.
    pub fn read(&mut self, bytes: &[u8]) {
        let range = self.received(bytes);
        self.engine.handle_input(range, self.now);
        self.drain_events();
    }

    /// What a read would bring: a range of a pooled chunk.
    fn received(&self, bytes: &[u8]) -> Range {
        let chunk: Chunk = self.pool.take();
        assert!(bytes.len() <= chunk.capacity());
        // SAFETY: a fresh chunk with place for the bytes, and no other range on it.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), chunk.data(), bytes.len());
            chunk.range(0, bytes.len())
        }
    }

    /// Chunks of reads that something still holds.
    pub fn chunks_in_use(&self) -> usize {
        self.pool.in_use()
    }

    /// Gives the client all output; whether there was some.
    pub fn transmit(&mut self) -> bool {
        let Some(transmit) = self.engine.poll_transmit() else { return false };
        self.client.feed(&transmit.to_vec());
        true
    }

    pub fn drain_events(&mut self) {
        if self.engine.needs_output() {
            self.engine.give_output(Transmit::with_capacity(4096, 4));
        }
        while let Some(event) = self.engine.poll_event() {
            match &event {
                Event::SaslInit(_) => self.engine.sasl_outcome(true),
                Event::Attached { link, attach } if self.accepts => {
                    let token = self.token();
                    let answer = LinkAnswer {
                        sender_settle_mode: attach.sender_settle_mode,
                        receiver_settle_mode: attach.receiver_settle_mode,
                        ..LinkAnswer::default()
                    };
                    self.engine.accept_link(*link, token, answer);
                }
                Event::Transfer(transfer) if self.keeps => {
                    self.engine.set_incoming_token(transfer.wire, delivery_of(transfer.wire));
                }
                _ => {}
            }
            self.events.push(event);
        }
    }

    pub fn token(&mut self) -> LinkId {
        self.next_token += 1;
        LinkId { index: self.next_token, generation: 0 }
    }

    pub fn next_delivery(&mut self) -> DeliveryId {
        self.next_delivery += 1;
        DeliveryId { index: self.next_delivery, generation: 1 }
    }

    pub fn advance(&mut self, by: Duration) {
        self.now = self.now + by;
    }

    /// Lets time pass in which nothing comes from the client, calling the engine when it asked to be.
    pub fn pass(&mut self, by: Duration) {
        let until = self.now + by;
        while let Some(at) = self.engine.poll_timeout().filter(|at| *at <= until) {
            self.now = at;
            self.engine.handle_timeout(at);
            self.drain_events();
            self.transmit();
        }
        self.now = until;
    }

    pub fn events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// Payloads of all transfers that were told of, put together.
    pub fn received_payload(&self) -> Vec<u8> {
        let mut all = Vec::new();
        for event in &self.events {
            match event {
                Event::Transfer(transfer) => all.extend(transfer.payload.to_vec()),
                Event::TransferMore { payload, .. } => all.extend(payload.to_vec()),
                _ => {}
            }
        }
        all
    }

    pub fn accept_incoming(&mut self, wire: WireDelivery) {
        self.engine.dispose_incoming(wire, Some(State::ACCEPTED), true);
    }

    pub fn close_forced(&mut self) {
        self.engine.close(Some(&Fault::connection("amqp:connection:forced", "stop")));
        self.drain_events();
        self.transmit();
    }
}

/// The token that `keeps` gives.
pub fn delivery_of(wire: WireDelivery) -> DeliveryId {
    DeliveryId { index: wire.delivery_id, generation: u32::from(wire.session.0) }
}

/// The transfers among some frames.
pub fn transfers(frames: &[Received]) -> Vec<&Received> {
    frames.iter().filter(|frame| matches!(frame.performative(), Performative::Transfer(_))).collect()
}

pub fn names(events: &[Event]) -> Vec<&'static str> {
    events
        .iter()
        .map(|event| match event {
            Event::SaslInit(_) => "sasl-init",
            Event::SaslResponse(_) => "sasl-response",
            Event::Opened(_) => "opened",
            Event::Attached { .. } => "attached",
            Event::LinkEnded { .. } => "link-ended",
            Event::Transfer(_) => "transfer",
            Event::TransferMore { .. } => "transfer-more",
            Event::TransferAborted { .. } => "transfer-aborted",
            Event::ReceiverDisposition { .. } => "receiver-disposition",
            Event::SenderDisposition { .. } => "sender-disposition",
            Event::Credit { .. } => "credit",
            Event::SenderDrained { .. } => "sender-drained",
            Event::PayloadSent { .. } => "payload-sent",
            Event::Unsent { .. } => "unsent",
            Event::Refused { .. } => "refused",
            Event::SessionWritable { .. } => "session-writable",
            Event::SessionFull { .. } => "session-full",
            Event::Closed { .. } => "closed",
            Event::SaslMechanisms(_) => "sasl-mechanisms",
            Event::SaslChallenge(_) => "sasl-challenge",
            Event::LinkAnswered { .. } => "link-answered",
        })
        .collect()
}
