//! Runs: where they end, and that what goes by them goes as it does one by one.

mod support;

use ringway::engine::{Arrivals, Event, Run, Settings};
use ringway::ids::{DeliveryId, SessionNumber, WireDelivery};
use ringway::limits::COPY_BYTES_MAX;
use ringway::outcome::{State, StateKind};
use ringway::payload::Range;
use ringway::run::{Arrived, Settled, RUN_MAX};
use ringway::wire::performative::{Disposition, Role, Transfer};
use support::client::first;
use support::pair::{names, transfers, Pair};

/// What the engine tells of the client's output, by runs: how long each is, then what else there is.
fn told(pair: &mut Pair) -> (Vec<usize>, Vec<&'static str>) {
    let bytes = pair.client.take_output();
    pair.engine.handle_input(Range::copied(&bytes), pair.now);
    let (mut runs, mut events) = (Vec::new(), Vec::new());
    loop {
        if let Some((_, items)) = next(pair) {
            runs.push(items.len());
        } else if let Some(event) = pair.engine.poll_event() {
            events.push(event);
        } else {
            return (runs, names(&events));
        }
    }
}

/// The next run of deliveries.
fn next(pair: &mut Pair) -> Option<(Arrivals, Vec<Arrived>)> {
    let mut items = Vec::new();
    match pair.engine.poll_run(&mut items, &mut Vec::new())? {
        Run::Arrived(arrivals) => Some((arrivals, items)),
        Run::Settled(_) => panic!("nothing is settled here"),
    }
}

#[test]
fn a_run_is_whole_deliveries_of_one_link_that_are_alike() {
    let (mut pair, link) = Pair::with_sender(Settings::default(), 1000);
    let other = pair.add_sender(1, "other", 10);
    for id in 0..3 {
        pair.client.send(0, 0, id, b"body");
    }
    pair.client.transfer(0, Transfer { settled: Some(true), ..first(0, 3, b"t") }, b"settled");
    pair.client.transfer(0, Transfer { message_format: Some(7), ..first(0, 4, b"t") }, b"of another format");
    pair.client.send(0, 1, 5, b"of another link");
    pair.client.send(0, 0, 6, b"");
    pair.client.send(0, 0, 7, b"behind an empty one");
    pair.client.transfer(0, Transfer { more: true, ..first(0, 8, b"t") }, b"some");
    pair.client.transfer(0, first(0, 8, b"t"), b"more");
    pair.client.send(0, 0, 9, b"last");
    let bytes = pair.client.take_output();
    pair.engine.handle_input(Range::copied(&bytes), pair.now);

    let (run, items) = next(&mut pair).unwrap();
    assert_eq!((run.link, run.settled, run.message_format, items.len()), (link, false, 0, 3));
    for (id, item) in (0..).zip(&items) {
        assert_eq!((item.delivery_id, run.payload_bytes(item)), (id, &b"body"[..]));
    }
    let (run, items) = next(&mut pair).unwrap();
    assert_eq!((run.settled, items.len(), run.payload_bytes(&items[0])), (true, 1, &b"settled"[..]));
    assert_eq!(next(&mut pair).unwrap().0.message_format, 7);
    let (run, items) = next(&mut pair).unwrap();
    assert_eq!((run.link, items.len()), (other, 1));
    assert_eq!(run.transfer(&items[0]).payload.to_vec(), b"of another link");
    let (_, items) = next(&mut pair).unwrap();
    assert_eq!(items.iter().map(|item| item.bytes).collect::<Vec<_>>(), [0, 19]);
    // The one in two frames is told one by one; then there are runs again.
    assert!(next(&mut pair).is_none());
    assert!(matches!(pair.engine.poll_event(), Some(Event::Transfer(_))));
    assert!(next(&mut pair).is_none());
    assert!(matches!(pair.engine.poll_event(), Some(Event::TransferMore { .. })));
    assert_eq!(next(&mut pair).unwrap().1[0].delivery_id, 9);
    assert!(next(&mut pair).is_none() && pair.engine.poll_event().is_none());
    assert_eq!(pair.engine.unsettled_count(), (9, 0));
}

#[test]
fn a_run_takes_so_many_and_leaves_the_rest() {
    let settings = Settings { max_frame_size: 1024, ..Settings::default() };
    let (mut pair, _) = Pair::with_sender(settings, 1000);
    for id in 0..RUN_MAX as u32 + 10 {
        pair.client.send(0, 0, id, b"x");
    }
    assert_eq!(told(&mut pair), (vec![RUN_MAX, 10], vec![]));
}

#[test]
fn violations_are_no_part_of_a_run() {
    let beyond_credit = |pair: &mut Pair| (0..4).for_each(|id| pair.client.send(0, 0, id, b"x"));
    let in_use = |pair: &mut Pair| [0, 1, 2, 1].into_iter().for_each(|id| pair.client.send(0, 0, id, b"x"));
    let too_large = |pair: &mut Pair| {
        (0..3).for_each(|id| pair.client.send(0, 0, id, b"x"));
        pair.client.send(0, 0, 3, &[0; 101]);
    };
    let settings = || Settings { max_message_size: 100, ..Settings::default() };
    let cases: [(u32, &dyn Fn(&mut Pair)); 3] = [(3, &beyond_credit), (9, &in_use), (9, &too_large)];
    for (credit, send) in cases {
        let (mut pair, _) = Pair::with_sender(settings(), credit);
        send(&mut pair);
        assert_eq!(told(&mut pair), (vec![3], vec!["link-ended"]));
    }
    let narrow = Settings { max_session_frames: Some(3), ..Settings::default() };
    let (mut pair, _) = Pair::with_sender(narrow, 100);
    beyond_credit(&mut pair);
    assert_eq!(told(&mut pair), (vec![3], vec!["link-ended"]));
}

/// What a client has of items sent, by a run or one by one.
fn sent(initial: u32, settled: bool, by_run: bool) -> Vec<u8> {
    let settings = || Settings { initial_serial: initial, ..Settings::default() };
    let (mut from, _) = Pair::with_sender(settings(), 1000);
    for (id, size) in (0..).zip([0, 1, 100, COPY_BYTES_MAX - 1, COPY_BYTES_MAX, 10_000, 3]) {
        let transfer = Transfer { settled: Some(settled), ..first(0, id, b"t") };
        from.client.transfer(0, transfer, &vec![id as u8; size]);
    }
    let bytes = from.client.take_output();
    from.engine.handle_input(Range::copied(&bytes), from.now);
    let (run, mut items) = next(&mut from).unwrap();
    items.iter_mut().for_each(|item| item.delivery = DeliveryId { index: item.delivery_id, generation: 4 });

    let (mut to, link) = Pair::with_receiver(settings(), 100);
    if by_run {
        assert_eq!(to.engine.room_for(link, &items), items.len());
        assert!(to.engine.send_run(link, &run, &items));
    } else {
        for item in &items {
            to.engine.send(link, item.delivery, 0, settled, true, run.payload(item));
        }
    }
    assert_eq!(to.engine.unsettled_count().1, if settled { 0 } else { items.len() });
    to.engine.poll_transmit().unwrap().to_vec()
}

#[test]
fn a_run_is_sent_as_its_deliveries_one_by_one() {
    for initial in [0, 252, 1000, u32::MAX - 3] {
        for settled in [false, true] {
            assert!(sent(initial, settled, true) == sent(initial, settled, false), "from {initial}, {settled}");
        }
    }
}

fn items(sizes: &[u32]) -> Vec<Arrived> {
    let item = |bytes: &u32| Arrived { delivery_id: 0, start: 0, bytes: *bytes, delivery: DeliveryId::NONE };
    sizes.iter().map(item).collect()
}

#[test]
fn there_is_room_for_what_goes_out_whole() {
    let (pair, link) = Pair::with_receiver(Settings::default(), 3);
    assert_eq!(pair.engine.room_for(link, &items(&[1; 5])), 3, "by credit");
    let (pair, link) = Pair::with_receiver(Settings::default(), 10);
    assert_eq!(pair.engine.room_for(link, &items(&[1, 1, 1_000_000, 1])), 2, "by the frame's size");
    let few = Settings { unsettled_max: 4, ..Settings::default() };
    let (pair, link) = Pair::with_receiver(few, 10);
    assert_eq!(pair.engine.room_for(link, &items(&[1; 9])), 4, "by unsettled ones");
    let (pair, link) = Pair::with_receiver(Settings::default(), 1000);
    let room = pair.engine.room_for(link, &items(&[10_000; 100]));
    assert!((20..30).contains(&room), "by the output: {room}");
    let (pair, link) = Pair::with_sender(Settings::default(), 10);
    assert_eq!(pair.engine.room_for(link, &items(&[1; 5])), 0, "not to a sender");
}

/// Two links of receivers with three deliveries each, in turns.
fn with_unsettled() -> Pair {
    let (mut pair, link) = Pair::with_receiver(Settings::default(), 100);
    pair.client.attach_receiver(0, 1, "other", "b");
    pair.client.credit(0, 1, 0, 100);
    pair.pump();
    let links = [link, pair.attached()];
    for number in 0..6 {
        let delivery = DeliveryId { index: number, generation: 0 };
        pair.engine.send(links[number as usize % 2], delivery, 0, false, true, Default::default());
    }
    pair.pump();
    assert_eq!(transfers(&pair.client.frames()).len(), 6);
    pair.events();
    pair
}

fn settled(pair: &mut Pair) -> Option<(Option<State>, Vec<u32>)> {
    let mut items = Vec::new();
    match pair.engine.poll_run(&mut Vec::new(), &mut items)? {
        Run::Settled(state) => Some((state, items.iter().map(|item| item.delivery.index).collect())),
        Run::Arrived(_) => panic!("nothing arrives here"),
    }
}

#[test]
fn what_a_disposition_settles_is_a_run() {
    let mut pair = with_unsettled();
    pair.client.accept(0, 1, Some(3));
    pair.client.detach(0, 1, true);
    pair.client.accept(0, 0, Some(4_000_000));
    let bytes = pair.client.take_output();
    pair.engine.handle_input(Range::copied(&bytes), pair.now);
    assert_eq!(settled(&mut pair), Some((Some(State::ACCEPTED), vec![1, 2, 3])));
    // A link that ends is told apart; what it leaves isn't told at all.
    assert_eq!(settled(&mut pair), None);
    assert!(matches!(pair.engine.poll_event(), Some(Event::LinkEnded { .. })));
    assert_eq!(settled(&mut pair), Some((Some(State::ACCEPTED), vec![0, 4])));
    assert_eq!(settled(&mut pair), None);
    assert_eq!(pair.engine.unsettled_count(), (0, 0));
}

#[test]
fn states_on_the_way_are_no_run() {
    let mut pair = with_unsettled();
    let state = Some(&ringway::wire::state::ACCEPTED[..]);
    let disposition = Disposition { role: Role::Receiver, first: 0, last: Some(1), state, ..Disposition::default() };
    pair.client.disposition(0, disposition);
    let bytes = pair.client.take_output();
    pair.engine.handle_input(Range::copied(&bytes), pair.now);
    assert_eq!(settled(&mut pair), None);
    pair.drain_events();
    assert_eq!(names(&pair.events()), ["receiver-disposition"; 2]);
}

/// The dispositions that a sender hears of these deliveries, told by a run or one by one.
fn dispositions(ids: &[u32], by_run: bool) -> Vec<String> {
    let (mut pair, _) = Pair::with_sender(Settings::default(), 1000);
    (0..8).for_each(|id| pair.client.send(0, 0, id, b"x"));
    // This one settles itself, and this one still arrives.
    let sender = Disposition { role: Role::Sender, first: 3, settled: true, ..Disposition::default() };
    pair.client.disposition(0, sender);
    pair.client.transfer(0, Transfer { more: true, ..first(0, 8, b"t") }, b"some");
    pair.pump();
    pair.client.frames();
    let wire = |delivery_id| WireDelivery { session: SessionNumber(0), delivery_id };
    pair.engine.dispose_incoming(wire(7), Some(State::RELEASED), true);
    let state = Some(State { kind: StateKind::Accepted, encoded: None });
    if by_run {
        let item = |id: &u32| Settled { delivery: DeliveryId::NONE, wire: wire(0), sender_id: *id, bytes: 0 };
        let items: Vec<Settled> = ids.iter().map(item).collect();
        pair.engine.dispose_incoming_run(SessionNumber(0), &items, &state);
    } else {
        ids.iter().for_each(|id| pair.engine.dispose_incoming(wire(*id), state.clone(), true));
    }
    pair.pump();
    pair.client.briefs()
}

#[test]
fn outcomes_of_a_run_are_told_as_one_by_one() {
    for ids in [&[0, 1, 2, 4, 5][..], &[4, 2, 0, 1], &[0, 3, 8, 1, 6], &[0, 0, 99, 5, 7], &[8, 8], &[]] {
        let told = dispositions(ids, true);
        assert_eq!(told, dispositions(ids, false));
        assert!(ids.is_empty() || ids == [8, 8] || told.len() > 1, "{told:?}");
    }
}
