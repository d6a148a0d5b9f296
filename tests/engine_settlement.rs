//! Dispositions: single, ranged, wrapping, of what isn't there; states with all their fields; two- and three-ack.

mod support;

use ringway::engine::{Event, Settings};
use ringway::ids::{DeliveryId, LinkHandle, WireDelivery};
use ringway::outcome::{State, StateKind};
use ringway::payload::{Payload, Range};
use ringway::wire::error::Error;
use ringway::wire::performative::{Disposition, Performative, Role, Transfer};
use ringway::wire::state;
use support::client::first;
use support::pair::{delivery_of, names, Pair};

fn send(pair: &mut Pair, link: LinkHandle, count: u32) {
    for _ in 0..count {
        let delivery = pair.next_delivery();
        pair.engine.send(link, delivery, 0, false, true, Payload::copied(b"x"));
    }
    pair.pump();
    pair.client.frames();
}

fn told(pair: &mut Pair) -> Vec<(u32, u32, bool)> {
    pair.events()
        .into_iter()
        .map(|event| match event {
            Event::ReceiverDisposition { delivery, wire, settled, .. } => (wire.delivery_id, delivery.index, settled),
            other => panic!("{other:?}"),
        })
        .collect()
}

#[test]
fn single_ranged_and_repeated() {
    let (mut pair, link) = Pair::with_receiver(Settings::default(), 100);
    send(&mut pair, link, 10);
    pair.client.accept(0, 3, None);
    pair.client.accept(0, 2, Some(5));
    pair.client.accept(0, 3, Some(3));
    pair.client.accept(0, 9, Some(400));
    pair.client.accept(0, 8, Some(7)); // backwards: names nothing
    pair.pump();
    let expected = [(3, 4, true), (2, 3, true), (4, 5, true), (5, 6, true), (9, 10, true)];
    assert_eq!(told(&mut pair), expected);
    assert_eq!(pair.engine.unsettled_count(), (0, 5));
}

#[test]
fn a_range_of_two_billion_ids_costs_what_exists() {
    let (mut pair, link) = Pair::with_receiver(Settings::default(), 1_000);
    send(&mut pair, link, 1_000);
    pair.client.accept(0, 0, Some(1 << 31));
    pair.pump();
    assert_eq!(told(&mut pair).len(), 1_000);
    for _ in 0..10_000 {
        pair.client.accept(0, 0, Some(1 << 31));
    }
    pair.pump();
    assert!(pair.events.is_empty());
}

#[test]
fn a_range_wraps() {
    let settings = Settings { initial_serial: u32::MAX - 2, ..Settings::default() };
    let mut pair = Pair::opened(settings);
    pair.client.attach_receiver(0, 0, "r", "a");
    let flow = support::client::wide_open(u32::MAX - 2, 100);
    let next_incoming_id = Some(u32::MAX - 2);
    pair.client.flow(0, ringway::wire::performative::Flow { handle: Some(0), next_incoming_id, ..flow });
    pair.pump();
    let link = pair.attached();
    pair.events.clear();
    send(&mut pair, link, 6);
    pair.client.accept(0, u32::MAX - 1, Some(1));
    pair.pump();
    let ids: Vec<u32> = told(&mut pair).into_iter().map(|(id, _, _)| id).collect();
    assert_eq!(ids, [u32::MAX - 1, u32::MAX, 0, 1]);
    assert_eq!(pair.engine.unsettled_count(), (0, 2));
}

#[test]
fn three_ack() {
    let (mut pair, link) = Pair::with_receiver(Settings::default(), 100);
    send(&mut pair, link, 2);
    let base = Disposition { role: Role::Receiver, state: Some(&state::ACCEPTED), ..Disposition::default() };
    pair.client.disposition(0, Disposition { first: 0, last: Some(1), ..base });
    pair.pump();
    assert_eq!(pair.engine.unsettled_count(), (0, 2));
    for event in pair.events() {
        let Event::ReceiverDisposition { wire, state, settled: false, .. } = event else { panic!() };
        assert_eq!(state, Some(State::ACCEPTED));
        pair.engine.dispose_outgoing(wire, state, true);
    }
    pair.pump();
    let frames = pair.client.frames();
    assert_eq!(frames.len(), 1);
    let Performative::Disposition(answer) = frames[0].performative() else { panic!() };
    assert_eq!((answer.role, answer.first, answer.last, answer.settled), (Role::Sender, 0, Some(1), true));
    assert_eq!(pair.engine.unsettled_count(), (0, 0));
}

#[test]
fn the_sender_settles_last() {
    let (mut pair, _) = Pair::with_sender(Settings::default(), 10);
    pair.client.send(0, 0, 0, b"x");
    pair.pump();
    let Some(Event::Transfer(transfer)) = pair.events.pop() else { panic!() };
    pair.engine.dispose_incoming(transfer.wire, Some(State::ACCEPTED), false);
    pair.pump();
    let frame = pair.client.next().unwrap();
    assert!(matches!(frame.performative(), Performative::Disposition(Disposition { settled: false, .. })));
    assert_eq!(pair.engine.unsettled_count(), (1, 0));
    pair.client.disposition(0, Disposition { role: Role::Sender, first: 0, settled: true, ..Disposition::default() });
    pair.pump();
    let Some(Event::SenderDisposition { wire, token, settled: true, state: None }) = pair.events.pop() else {
        panic!()
    };
    assert_eq!((wire, token), (transfer.wire, Some(delivery_of(wire))));
    assert_eq!(pair.engine.unsettled_count(), (0, 0));
    // Settled: nothing more is said of it.
    pair.accept_incoming(transfer.wire);
    pair.pump();
    assert!(pair.client.frames().is_empty());
}

#[test]
fn the_sender_settles_while_it_sends() {
    let (mut pair, _) = Pair::with_sender(Settings::default(), 10);
    pair.client.transfer(0, Transfer { more: true, ..first(0, 0, b"t") }, b"a");
    pair.client.disposition(0, Disposition { role: Role::Sender, first: 0, settled: true, ..Disposition::default() });
    pair.client.transfer(0, Transfer::default(), b"b");
    pair.client.send(0, 0, 1, b"c");
    pair.pump();
    assert_eq!(names(&pair.events), ["transfer", "sender-disposition", "transfer-more", "transfer"]);
    assert_eq!(pair.engine.unsettled_count(), (1, 0));
}

#[test]
fn what_goes_several_ways_comes_back_in_few_frames() {
    let (mut pair, _) = Pair::with_sender(Settings::default(), 1_000);
    for id in 0..240 {
        pair.client.send(0, 0, id, b"x");
    }
    pair.pump();
    pair.events.clear();
    for way in 0..3 {
        for id in (way..240).step_by(3) {
            pair.accept_incoming(WireDelivery { session: ringway::ids::SessionNumber(0), delivery_id: id });
        }
    }
    pair.pump();
    let frames = pair.client.frames();
    let dispositions: Vec<_> = frames
        .iter()
        .filter_map(|frame| match frame.performative() {
            Performative::Disposition(disposition) => Some((disposition.first, disposition.last)),
            _ => None,
        })
        .collect();
    assert_eq!(dispositions, [(0, Some(239))]);
}

#[test]
fn different_states_keep_their_order() {
    let (mut pair, _) = Pair::with_sender(Settings::default(), 10);
    for id in 0..6 {
        pair.client.send(0, 0, id, b"x");
    }
    pair.pump();
    pair.events.clear();
    let states = [
        State::ACCEPTED,
        State::ACCEPTED,
        State::RELEASED,
        State::delivery_failed(),
        State::delivery_failed(),
        State::ACCEPTED,
    ];
    for (id, state) in states.into_iter().enumerate() {
        let wire = WireDelivery { session: ringway::ids::SessionNumber(0), delivery_id: id as u32 };
        pair.engine.dispose_incoming(wire, Some(state), true);
    }
    pair.pump();
    let frames = pair.client.frames();
    let said: Vec<_> = frames
        .iter()
        .map(|frame| match frame.performative() {
            Performative::Disposition(d) => (d.first, d.last, state::kind(d.state.unwrap())),
            other => panic!("{other:?}"),
        })
        .collect();
    use state::Kind::*;
    let expected = [(0, Some(1), Accepted), (2, None, Released), (3, Some(4), Modified), (5, None, Accepted)];
    assert_eq!(said, expected);
}

#[test]
fn case_37_every_field_of_an_outcome_passes() {
    let mut map = Vec::new();
    let compound = ringway::wire::encode::begin(&mut map);
    ringway::wire::encode::symbol(&mut map, "x-opt-why");
    ringway::wire::encode::string(&mut map, "because");
    ringway::wire::encode::finish(&mut map, compound, 0xc1, 2);
    let error = Error { condition: "app:no", description: Some("not today"), info: Some(&map) };
    let states = [
        (state::State::Rejected { error: Some(error) }, StateKind::Rejected),
        (state::State::Rejected { error: None }, StateKind::Rejected),
        (
            state::State::Modified { delivery_failed: true, undeliverable_here: true, message_annotations: Some(&map) },
            StateKind::Modified,
        ),
        (state::State::Received { section_number: 3, section_offset: 1 << 40 }, StateKind::Received),
        (state::State::Transactional { txn_id: b"t1", outcome: Some(&state::ACCEPTED) }, StateKind::Other),
        (state::State::Declared { txn_id: b"t1" }, StateKind::Other),
        (state::State::Released, StateKind::Released),
    ];
    for (said, kind) in states {
        let mut encoded = Vec::new();
        said.encode(&mut encoded);
        let (mut pair, link) = Pair::with_receiver(Settings::default(), 10);
        send(&mut pair, link, 1);
        let disposition =
            Disposition { role: Role::Receiver, settled: true, state: Some(&encoded), ..Disposition::default() };
        pair.client.disposition(0, disposition);
        pair.pump();
        let Some(Event::ReceiverDisposition { state: Some(state), .. }) = pair.events.pop() else { panic!() };
        assert_eq!(state.kind, kind);
        // To the sender, on another connection.
        let (mut pair, _) = Pair::with_sender(Settings::default(), 10);
        pair.client.send(0, 0, 0, b"x");
        pair.pump();
        let Some(Event::Transfer(transfer)) = pair.events.pop() else { panic!() };
        pair.engine.dispose_incoming(transfer.wire, Some(state), true);
        pair.pump();
        let frame = pair.client.next().unwrap();
        let Performative::Disposition(heard) = frame.performative() else { panic!() };
        assert_eq!(state::State::decode(heard.state.unwrap()).unwrap(), said);
    }
}

#[test]
fn a_settlement_in_mid_delivery_is_told() {
    let (mut pair, link) = Pair::with_receiver(Settings::default(), 10);
    let delivery = pair.next_delivery();
    pair.engine.send(link, delivery, 0, false, false, Payload::copied(b"one"));
    pair.pump();
    pair.events.clear();
    pair.client.accept(0, 0, None);
    pair.pump();
    assert!(matches!(pair.events[..], [Event::ReceiverDisposition { settled: true, .. }]));
    pair.engine.send_more(link, delivery, true, Payload::copied(b"two"));
    pair.pump();
    assert!(matches!(pair.events[1], Event::PayloadSent { complete: true, .. }));
    assert_eq!(pair.engine.unsettled_count(), (0, 0));
}

#[test]
fn a_stuck_first_delivery_costs_no_memory() {
    let (mut pair, _) = Pair::with_sender(Settings::default(), 0);
    let link = pair.engine_link();
    pair.engine.grant(link, 1_000_000, false);
    pair.pump();
    pair.client.frames();
    for id in 0..100_000u32 {
        pair.client.send(0, 0, id, b"x");
        if id % 100 == 99 {
            pair.pump();
            for event in pair.events() {
                let Event::Transfer(transfer) = event else { panic!() };
                pair.engine.payload_released(transfer.wire.session, 1);
                if transfer.wire.delivery_id > 0 {
                    pair.accept_incoming(transfer.wire);
                }
            }
            pair.pump();
            pair.client.frames();
        }
    }
    assert_eq!(pair.engine.unsettled_count(), (1, 0));
}

trait EngineLink {
    fn engine_link(&mut self) -> LinkHandle;
}

impl EngineLink for Pair {
    /// A second sender's link, on which this test counts.
    fn engine_link(&mut self) -> LinkHandle {
        self.client.detach(0, 0, true);
        self.client.attach_sender(0, 0, "again", "a");
        self.pump();
        let link = self.attached();
        self.events.clear();
        link
    }
}

/// A receiver may tell any number of states on the way. A sender that reads none of them doesn't have them piled up; an
/// outcome reaches it.
#[test]
fn states_on_the_way_don_t_pile_up_for_a_peer_that_does_not_read() {
    let (mut pair, _) = Pair::with_sender(Settings::default(), 10);
    pair.client.send(0, 0, 0, b"x");
    pair.client.send(0, 0, 1, b"x");
    pair.pump();
    pair.client.frames();
    let wire = |delivery_id| WireDelivery { session: ringway::ids::SessionNumber(0), delivery_id };
    pair.drain_events();
    for n in 0..1_000_000u32 {
        let encoded = [&[0x00, 0x53, 0x23, 0xc0, 0x0b, 0x02, 0x43, 0x80, 0, 0, 0, 0][..], &n.to_be_bytes()].concat();
        let state = State { kind: StateKind::Received, encoded: Some(encoded.into()) };
        pair.engine.dispose_incoming(wire(n & 1), Some(state), false);
    }
    assert!(pair.engine.output_len() < 2 << 20, "{}", pair.engine.output_len());
    pair.engine.dispose_incoming(wire(0), Some(State::ACCEPTED), true);
    pair.engine.dispose_incoming(wire(1), Some(State::ACCEPTED), true);
    pair.pump();
    let last = pair.client.frames().pop().expect("frames");
    let Performative::Disposition(said) = last.performative() else { panic!("{last:?}") };
    assert_eq!((said.first, said.last, said.settled), (0, Some(1), true));
}

/// Who names what a link left behind, or nothing, again and again: the driver hears after a while that it may look at others.
#[test]
fn a_flood_that_nothing_is_told_of_is_told_by_parts() {
    let (mut pair, link) = Pair::with_receiver(Settings::default(), 1000);
    pair.client.attach_receiver(0, 1, "other", "b");
    pair.client.credit(0, 1, 0, 1000);
    pair.pump();
    let links = [link, pair.attached()];
    for (number, link) in [vec![links[0]; 400], vec![links[1]; 500]].concat().into_iter().enumerate() {
        let delivery = DeliveryId { index: number as u32, generation: 0 };
        pair.engine.send(link, delivery, 0, false, true, Default::default());
    }
    pair.client.detach(0, 0, true);
    pair.pump();
    pair.events();
    let named = Disposition { role: Role::Receiver, first: 0, last: Some(399), ..Disposition::default() };
    let absent = Disposition { first: 1_000, last: Some(5_000), ..named };
    for (disposition, frames, costs) in [(named, 100, 35_000..45_000), (absent, 20_000, 15_000..25_000)] {
        (0..frames).for_each(|_| pair.client.disposition(0, disposition));
        for read in pair.client.take_output().chunks(64 * 1024) {
            pair.engine.handle_input(Range::copied(read), pair.now);
        }
        let (mut parts, mut cost) = (0, 0);
        loop {
            assert!(pair.engine.poll_batch().is_none());
            let Some(quiet) = pair.engine.next_batch() else { break };
            parts += 1;
            cost += quiet;
        }
        assert!(parts >= 10 && costs.contains(&cost), "{parts} parts, {cost}");
    }
    pair.client.accept(0, 0, Some(1_000));
    pair.pump();
    assert_eq!(pair.events().len(), 500);
    assert_eq!(pair.engine.unsettled_count(), (0, 0));
}
