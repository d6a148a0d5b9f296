//! Whatever a peer writes: no panic, each link ends once, no transfer beyond credit, nothing left at the end.

mod support;

use proptest::prelude::*;
use ringway::engine::{Event, LinkAnswer, Sent, Settings};
use ringway::ids::{DeliveryId, LinkHandle, LinkId, WireDelivery};
use ringway::outcome::{Fault, State};
use ringway::payload::Payload;
use ringway::wire::performative::{Attach, Begin, Disposition, Flow, Open, Performative, Role, Transfer};
use ringway::wire::state;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use support::client::{source, target, Client};
use support::pair::Pair;

/// SplitMix64: scripts from a seed, the same on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: u64) -> u32 {
        (self.next() % bound) as u32
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.next() % 100 < percent
    }

    /// Mostly small, sometimes at an edge.
    fn number(&mut self) -> u32 {
        match self.below(20) {
            0 => u32::MAX,
            1 => 1 << 31,
            2 => (1 << 31) - 1,
            3 => self.next() as u32,
            _ => self.below(8),
        }
    }

    fn maybe_number(&mut self) -> Option<u32> {
        (!self.chance(20)).then(|| self.number())
    }
}

/// A frame of some kind, mostly sensible.
fn write_any_frame(random: &mut Random, client: &mut Client, next_id: &mut u32) {
    let channel = if random.chance(95) { random.below(2) as u16 } else { random.number() as u16 };
    let handle = if random.chance(95) { random.below(4) } else { random.number() };
    let name = format!("n{}", random.below(5));
    match random.below(100) {
        0..=3 => client.begin_with(
            channel,
            Begin {
                next_outgoing_id: *next_id,
                incoming_window: random.number(),
                outgoing_window: random.number(),
                remote_channel: random.chance(3).then_some(0),
                ..Begin::default()
            },
        ),
        4..=15 => {
            let (source, target) = (source(Some("a")), target(Some("b")));
            let role = if random.chance(50) { Role::Sender } else { Role::Receiver };
            client.attach(
                channel,
                Attach {
                    name: &name,
                    handle,
                    role,
                    source: random.chance(80).then_some(&source),
                    target: random.chance(80).then_some(&target),
                    initial_delivery_count: random.maybe_number(),
                    max_message_size: random.chance(10).then_some(10),
                    ..Attach::default()
                },
            );
        }
        16..=45 => {
            let tag = vec![1; random.below(34) as usize];
            let id = if random.chance(90) { *next_id } else { random.number() };
            *next_id = next_id.wrapping_add(1);
            let transfer = Transfer {
                handle,
                delivery_id: random.chance(90).then_some(id),
                delivery_tag: random.chance(90).then_some(&tag),
                message_format: random.chance(50).then_some(0),
                settled: random.chance(50).then_some(random.chance(50)),
                more: random.chance(20),
                aborted: random.chance(5),
                state: random.chance(5).then_some(&state::ACCEPTED),
                ..Transfer::default()
            };
            let len = if random.chance(90) { random.below(50) } else { random.below(9_000) };
            client.transfer(channel, transfer, &vec![3; len as usize]);
        }
        46..=70 => client.flow(
            channel,
            Flow {
                next_incoming_id: random.maybe_number(),
                incoming_window: random.number(),
                next_outgoing_id: random.number(),
                outgoing_window: random.number(),
                handle: random.chance(80).then_some(handle),
                delivery_count: random.maybe_number(),
                link_credit: random.maybe_number(),
                drain: random.chance(20),
                echo: random.chance(20),
                ..Flow::default()
            },
        ),
        71..=90 => client.disposition(
            channel,
            Disposition {
                role: if random.chance(50) { Role::Sender } else { Role::Receiver },
                first: random.number(),
                last: random.maybe_number(),
                settled: random.chance(70),
                state: random.chance(70).then_some(&state::ACCEPTED),
                batchable: false,
            },
        ),
        91..=95 => client.detach(channel, handle, random.chance(50)),
        96 | 97 => client.end(channel),
        98 => client.raw(&[0, 0, 0, 8, 2, 0, 0, 0]),
        _ if random.chance(20) => client.close(),
        _ if random.chance(20) => client.frame_raw(0, channel, &random.next().to_be_bytes()),
        _ => {}
    }
}

/// A peer that keeps to the rules but for what it says in flows, dispositions and tags of deliveries.
#[derive(Default)]
struct Tame {
    /// Its links by handle: whether it is their sender, and how far.
    links: BTreeMap<u32, TameLink>,
    next_id: u32,
    names: u32,
}

#[derive(Default)]
struct TameLink {
    sender: bool,
    router_handle: Option<u32>,
    /// Sender: deliveries begun, and the credit's end. Receiver: deliveries counted.
    count: u32,
    limit: u32,
    in_delivery: bool,
    detached: bool,
}

impl Tame {
    fn write(&mut self, random: &mut Random, client: &mut Client) {
        let handle = random.below(4);
        let Some(link) = self.links.get_mut(&handle) else {
            self.names += 1;
            let (name, sender) = (format!("n{}", self.names), random.chance(50));
            match sender {
                true => client.attach_sender(0, handle, &name, "a"),
                false => client.attach_receiver(0, handle, &name, "a"),
            }
            self.links.insert(handle, TameLink { sender, ..TameLink::default() });
            return;
        };
        if link.detached {
            return;
        }
        match random.below(20) {
            0 => {
                client.detach(0, handle, random.chance(50));
                link.detached = true;
            }
            1..=8 if link.sender && (link.in_delivery || link.count < link.limit) => {
                let tag = vec![1; random.below(33) as usize];
                let mut transfer = Transfer { handle, more: random.chance(40), ..Transfer::default() };
                if !link.in_delivery {
                    transfer.delivery_id = Some(self.next_id);
                    transfer.delivery_tag = Some(&tag);
                    transfer.settled = random.chance(50).then_some(random.chance(50));
                    self.next_id = self.next_id.wrapping_add(1);
                    link.count += 1;
                }
                transfer.aborted = random.chance(5);
                link.in_delivery = transfer.more && !transfer.aborted;
                client.transfer(0, transfer, &vec![3; random.below(400) as usize]);
            }
            9..=12 if !link.sender => {
                link.count += random.below(2);
                let flow = support::client::wide_open(link.count, random.below(20));
                let (drain, echo) = (random.chance(20), random.chance(20));
                let window = if random.chance(80) { 3_000 } else { random.below(5) };
                client.flow(0, Flow { handle: Some(handle), drain, echo, incoming_window: window, ..flow });
            }
            13..=17 => client.disposition(
                0,
                Disposition {
                    role: if random.chance(70) { Role::Receiver } else { Role::Sender },
                    first: random.number(),
                    last: random.maybe_number(),
                    settled: random.chance(70),
                    state: random.chance(70).then_some(&state::ACCEPTED),
                    batchable: false,
                },
            ),
            _ => {}
        }
    }

    fn read(&mut self, client: &mut Client) {
        for frame in client.frames() {
            if frame.frame_type != 0 || frame.is_heartbeat() {
                continue;
            }
            let by_router = |links: &BTreeMap<u32, TameLink>, handle| {
                links.iter().find(|(_, link)| link.router_handle == Some(handle)).map(|(handle, _)| *handle)
            };
            match frame.performative() {
                Performative::Attach(attach) => {
                    let waits = |link: &&mut TameLink| link.router_handle.is_none();
                    // Answers come in the order of attaches; names tell them apart enough here.
                    let sender = attach.role.is_receiver();
                    let link = self.links.values_mut().filter(waits).find(|link| link.sender == sender);
                    link.expect("an attach of ours").router_handle = Some(attach.handle);
                }
                Performative::Flow(flow) => {
                    let Some(handle) = flow.handle.and_then(|handle| by_router(&self.links, handle)) else { continue };
                    let link = self.links.get_mut(&handle).unwrap();
                    link.limit = flow.delivery_count.unwrap().wrapping_add(flow.link_credit.unwrap());
                }
                Performative::Detach(detach) => {
                    let Some(handle) = by_router(&self.links, detach.handle) else { continue };
                    if !self.links.remove(&handle).unwrap().detached {
                        client.detach(0, handle, true);
                    }
                }
                Performative::End(end) => panic!("{:?}", end.error),
                Performative::Close(close) => panic!("{:?}", close.error),
                _ => {}
            }
        }
    }
}

/// A router of a kind behind an engine, which holds what it is told against what it did.
struct Router {
    pair: Pair,
    random: Random,
    links: BTreeMap<LinkHandle, (LinkId, bool)>,
    busy: BTreeMap<LinkHandle, DeliveryId>,
    arrived: Vec<WireDelivery>,
    held: BTreeMap<u16, usize>,
    accepted: u32,
    ended: BTreeSet<LinkId>,
    next_delivery: u32,
    closed: bool,
}

impl Router {
    fn events(&mut self) {
        let pair = &mut self.pair;
        while let Some(event) = pair.engine.poll_event() {
            assert!(!self.closed, "no event follows closed");
            match event {
                Event::Attached { link, attach } => {
                    if self.random.chance(10) {
                        pair.engine.refuse_link(link, &Fault::link("amqp:not-found", "no"));
                    } else {
                        self.accepted += 1;
                        let token = LinkId { index: self.accepted, generation: 1 };
                        let incoming = attach.direction == Some(ringway::engine::Direction::Incoming);
                        assert!(self.links.insert(link, (token, incoming)).is_none());
                        pair.engine.accept_link(link, token, LinkAnswer::default());
                        assert_eq!(pair.engine.link_token(link), Some(token));
                        if incoming {
                            pair.engine.grant(link, 20, false);
                        }
                    }
                }
                Event::LinkEnded { link, token, .. } => {
                    let (expected, _) = self.links.remove(&link).expect("a link that was accepted");
                    assert_eq!(token, Some(expected));
                    assert!(self.ended.insert(expected), "ended twice");
                    self.busy.remove(&link);
                    assert_eq!(pair.engine.link_token(link), None);
                }
                Event::Transfer(transfer) => {
                    assert!(self.links.contains_key(&transfer.link));
                    if self.random.chance(80) {
                        let token = DeliveryId { index: transfer.wire.delivery_id, generation: 5 };
                        pair.engine.set_incoming_token(transfer.wire, token);
                    }
                    *self.held.entry(transfer.wire.session.0).or_default() += transfer.payload.len();
                    self.arrived.push(transfer.wire);
                }
                Event::TransferMore { link, wire, payload, .. } => {
                    assert!(self.links.contains_key(&link));
                    *self.held.entry(wire.session.0).or_default() += payload.len();
                }
                Event::PayloadSent { delivery, link, complete, .. } => {
                    assert_eq!(self.busy.get(&link), Some(&delivery));
                    if complete {
                        self.busy.remove(&link);
                    }
                }
                Event::ReceiverDisposition { wire, state, settled: false, .. } if self.random.chance(50) => {
                    pair.engine.dispose_outgoing(wire, state, true);
                }
                Event::Credit { link, .. } | Event::SenderDrained { link, .. } => {
                    assert!(self.links.contains_key(&link));
                }
                Event::Closed { .. } => {
                    self.closed = true;
                    assert!(self.links.is_empty(), "links end before the connection");
                }
                Event::SaslInit(_) => pair.engine.sasl_outcome(true),
                _ => {}
            }
        }
    }

    /// Something that routing might do.
    fn act(&mut self) {
        let count = self.links.len() as u64;
        let chosen = (count > 0).then(|| self.random.below(count) as usize);
        let link = chosen.and_then(|n| self.links.iter().nth(n)).map(|(link, (_, incoming))| (*link, *incoming));
        let engine = &mut self.pair.engine;
        match (self.random.below(12), link) {
            (0..=3, Some((link, false))) => {
                if let Some(delivery) = self.busy.get(&link).copied() {
                    if self.random.chance(20) {
                        if let Sent::Whole { .. } = engine.send_abort(link, delivery) {
                            self.busy.remove(&link);
                        }
                    } else {
                        let payload = Payload::copied(&vec![1; self.random.below(3_000) as usize]);
                        engine.send_more(link, delivery, self.random.chance(50), payload);
                    }
                } else {
                    self.next_delivery += 1;
                    let delivery = DeliveryId { index: self.next_delivery, generation: 0 };
                    let payload = Payload::copied(&vec![1; self.random.below(3_000) as usize]);
                    let (settled, complete) = (self.random.chance(30), self.random.chance(80));
                    if engine.send(link, delivery, 0, settled, complete, payload) == Sent::Partly {
                        self.busy.insert(link, delivery);
                    }
                }
            }
            (4 | 5, Some((link, true))) => engine.grant(link, self.random.below(10), self.random.chance(10)),
            (6, Some((link, false))) if !self.busy.contains_key(&link) => engine.drained(link),
            (7, Some((link, _))) if self.random.chance(10) => {
                engine.detach(link, &Fault::link("amqp:internal-error", "no reason"));
                // Whoever ends a link hears of its end before it does anything else on it.
                self.events();
            }
            (8, _) => {
                for (session, bytes) in std::mem::take(&mut self.held) {
                    engine.payload_released(ringway::ids::SessionNumber(session), bytes);
                }
            }
            (9 | 10, _) if !self.arrived.is_empty() => {
                let n = self.random.below(self.arrived.len() as u64) as usize;
                let wire = self.arrived.swap_remove(n);
                let settled = self.random.chance(70);
                if !settled {
                    self.arrived.push(wire);
                }
                engine.dispose_incoming(wire, Some(State::ACCEPTED), settled);
            }
            _ => {}
        }
    }
}

fn run(seed: u64, tame: bool) {
    let mut random = Random(seed);
    let mut tame = tame.then(Tame::default);
    let settings = Settings {
        channel_max: 3,
        handle_max: 5,
        max_message_size: if tame.is_none() && random.chance(30) { 5_000 } else { 0 },
        max_session_frames: (tame.is_none() && random.chance(50)).then_some(20),
        max_frame_size: [512, 4_096, 16_384][random.below(3) as usize],
        initial_serial: if tame.is_some() { 0 } else { random.number() },
        ..Settings::default()
    };
    let mut router = Router {
        pair: Pair::with(settings),
        random,
        links: BTreeMap::new(),
        busy: BTreeMap::new(),
        arrived: Vec::new(),
        held: BTreeMap::new(),
        accepted: 0,
        ended: BTreeSet::new(),
        next_delivery: 0,
        closed: false,
    };
    let mut next_id = if tame.is_some() { 0 } else { router.random.number() };
    let client = &mut router.pair.client;
    if router.random.chance(50) {
        client.sasl_anonymous();
    }
    client.header();
    client.open(Open { container_id: "c", max_frame_size: 512 + router.random.below(2_000), ..Open::default() });
    client.begin_with(0, Begin { next_outgoing_id: next_id, incoming_window: 1_000, ..Begin::default() });
    for _ in 0..200 {
        for _ in 0..router.random.below(6) {
            match &mut tame {
                None => write_any_frame(&mut router.random, &mut router.pair.client, &mut next_id),
                Some(tame) => tame.write(&mut router.random, &mut router.pair.client),
            }
        }
        let bytes = router.pair.client.take_output();
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let count = (1 + router.random.below(400) as usize).min(rest.len());
            let range = ringway::payload::Range::copied(&rest[..count]);
            router.pair.engine.handle_input(range, router.pair.now);
            router.events();
            rest = &rest[count..];
        }
        for _ in 0..router.random.below(8) {
            router.act();
        }
        router.events();
        if router.random.chance(70) {
            router.pair.transmit();
            router.events();
        }
        if let Some(tame) = &mut tame {
            tame.read(&mut router.pair.client);
        }
        for frame in router.pair.client.frames().iter().filter(|frame| frame.frame_type == 0 && !frame.is_heartbeat()) {
            if let Performative::Transfer(_) = frame.performative() {
                assert!(frame.size <= router.pair.engine.remote_max_frame_size() as usize);
            }
        }
        router.pair.advance(Duration::from_millis(1));
    }
    router.pair.engine.handle_end_of_stream(router.pair.now);
    router.events();
    assert!(router.closed);
    assert_eq!(router.ended.len(), router.accepted as usize);
    assert_eq!(router.pair.engine.link_count(), 0);
    assert_eq!(router.pair.engine.session_count(), 0);
    assert_eq!(router.pair.engine.unsettled_count(), (0, 0));
    router.pair.transmit();
    assert!(router.pair.client.is_between_frames());
}

#[test]
fn any_frames_in_any_order() {
    for seed in 0..600 {
        let result = std::panic::catch_unwind(|| run(seed, false));
        assert!(result.is_ok(), "seed {seed}");
    }
}

#[test]
fn a_peer_that_keeps_to_the_rules_is_never_ended() {
    for seed in 0..300 {
        let result = std::panic::catch_unwind(|| run(seed, true));
        assert!(result.is_ok(), "seed {seed}");
    }
}

fn feed(bytes: &[u8], read_bytes: usize) {
    let mut pair = Pair::new();
    pair.read_bytes = read_bytes.max(1);
    pair.client.raw(bytes);
    pair.pump();
    pair.engine.handle_end_of_stream(pair.now);
    pair.drain_events();
    assert!(matches!(pair.events.last(), Some(Event::Closed { .. })));
    assert_eq!(pair.engine.link_count(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..600), read_bytes in 1usize..100) {
        feed(&bytes, read_bytes);
    }

    #[test]
    fn any_bytes_behind_an_open(bytes in proptest::collection::vec(any::<u8>(), 0..600), read_bytes in 1usize..100) {
        let mut client = Client::default();
        client.header_and_open();
        client.begin(0);
        let mut all = client.take_output();
        all.extend(bytes);
        feed(&all, read_bytes);
    }

    /// A good script with some of its bytes changed.
    #[test]
    fn a_script_with_flipped_bytes(
        flips in proptest::collection::vec((0usize..4_000, any::<u8>()), 1..8),
        read_bytes in 1usize..3_000,
    ) {
        let mut client = Client::default();
        client.sasl_anonymous();
        client.header_and_open();
        client.begin(0);
        client.attach_sender(0, 0, "s", "a");
        client.attach_receiver(0, 1, "r", "a");
        client.credit(0, 1, 0, 10);
        for id in 0..4 {
            client.transfer(0, Transfer { more: true, ..support::client::first(0, id, b"tag") }, &[5; 200]);
            client.transfer(0, Transfer::default(), &[5; 200]);
        }
        client.accept(0, 0, Some(9));
        client.detach(0, 0, true);
        client.end(0);
        client.close();
        let mut bytes = client.take_output();
        for (at, value) in flips {
            let at = at % bytes.len();
            bytes[at] = value;
        }
        feed(&bytes, read_bytes);
    }
}
