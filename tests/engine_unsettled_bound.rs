//! The bound of a session's unsettled deliveries: what counts against it, and what goes on at it.

mod support;

use ringway::engine::{Event, Sent, Settings};
use ringway::ids::{DeliveryId, LinkHandle, SessionNumber, WireDelivery};
use ringway::outcome::State;
use ringway::payload::Payload;
use ringway::wire::performative::{Flow, Performative, Transfer};
use support::client::{first, Received};
use support::pair::{names, transfers, Pair};

fn at_most(unsettled_max: usize) -> Settings {
    Settings { unsettled_max, ..Settings::default() }
}

fn send(pair: &mut Pair, link: LinkHandle, complete: bool) -> (DeliveryId, Sent) {
    let delivery = pair.next_delivery();
    (delivery, pair.engine.send(link, delivery, 0, false, complete, Payload::copied(b"part")))
}

/// The session's incoming window as the client was told last.
fn window_told(pair: &mut Pair) -> Option<u32> {
    let window = |frame: &Received| match frame.performative() {
        Performative::Flow(flow) => Some(flow.incoming_window),
        _ => None,
    };
    pair.client.frames().iter().filter_map(window).last()
}

/// Handles of the transfers that came.
fn handles_sent(pair: &mut Pair) -> Vec<u32> {
    let frames = pair.client.frames();
    let handle = |frame: &&Received| match frame.performative() {
        Performative::Transfer(transfer) => transfer.handle,
        other => panic!("{other:?}"),
    };
    transfers(&frames).iter().map(handle).collect()
}

/// What they were sent and never settled stayed in the session's list, where nobody could settle it any more.
#[test]
fn what_a_detached_receiver_left_counts_no_more() {
    let (mut pair, mut link) = Pair::with_receiver(at_most(5), 100);
    for round in 0..40 {
        let rooms: Vec<Sent> = (0..5).map(|_| send(&mut pair, link, true).1).collect();
        assert_eq!(rooms[3..], [Sent::Whole { room: true }, Sent::Whole { room: false }], "round {round}");
        pair.pump();
        assert!(names(&pair.events()).is_empty());
        pair.client.detach(0, 0, true);
        pair.pump();
        assert_eq!(names(&pair.events()), ["link-ended", "session-writable"], "round {round}");
        pair.client.attach_receiver(0, 0, "receiver", "a");
        pair.client.credit(0, 0, 0, 100);
        pair.pump();
        link = pair.attached();
        pair.events.clear();
        pair.client.frames();
        assert!(pair.engine.unsettled_count().1 < 70);
    }
}

/// One that the others' places are taken by hears of them as they are settled, whatever else was left behind.
#[test]
fn the_bound_is_that_of_the_links_that_are_left() {
    let (mut pair, one) = Pair::with_receiver(at_most(5), 100);
    pair.client.attach_receiver(0, 1, "second", "a");
    pair.client.credit(0, 1, 0, 100);
    pair.pump();
    let two = pair.attached();
    for link in [one, one, one, two] {
        send(&mut pair, link, true);
    }
    pair.client.detach(0, 0, true);
    pair.pump();
    let rooms: Vec<Sent> = (0..4).map(|_| send(&mut pair, two, true).1).collect();
    assert_eq!(rooms[2..], [Sent::Whole { room: true }, Sent::Whole { room: false }]);
    pair.events.clear();
    pair.client.accept(0, 3, None);
    pair.pump();
    assert_eq!(names(&pair.events()), ["receiver-disposition", "session-writable"]);
    assert_eq!(send(&mut pair, two, true).1, Sent::Whole { room: false });
}

#[test]
fn what_a_detached_sender_left_counts_no_more() {
    let (mut pair, _) = Pair::with_sender(at_most(5), 100);
    for round in 0..40 {
        for n in 0..5 {
            pair.client.send(0, 0, round * 5 + n, b"message");
        }
        pair.pump();
        assert_eq!(names(&pair.events()), ["transfer"; 5].into_iter().chain(["session-full"]).collect::<Vec<_>>());
        pair.client.detach(0, 0, true);
        pair.pump();
        assert_eq!(window_told(&mut pair), Some(5), "round {round}");
        pair.add_sender(0, "sender", 100);
        pair.events.clear();
        pair.client.frames();
        assert!(pair.engine.unsettled_count().0 < 70);
    }
}

/// The rest of a delivery takes no place: it has one.
#[test]
fn a_delivery_that_has_its_place_goes_on() {
    let (mut pair, link) = Pair::with_receiver(at_most(1), 100);
    let (stream, sent) = send(&mut pair, link, false);
    assert_eq!(sent, Sent::Partly);
    pair.engine.send_more(link, stream, false, Payload::copied(b"more"));
    pair.engine.send_more(link, stream, true, Payload::copied(b"last"));
    pair.pump();
    assert_eq!(handles_sent(&mut pair), [0, 0, 0]);
    assert_eq!(names(&pair.events()), ["payload-sent"]);
    // The next one has none.
    assert_eq!(send(&mut pair, link, true).1, Sent::Partly);
    pair.pump();
    assert!(handles_sent(&mut pair).is_empty());
    pair.client.accept(0, 0, None);
    pair.pump();
    assert_eq!(handles_sent(&mut pair), [0]);
}

/// A receiver's links beside the first, as many as that.
fn add_receivers(pair: &mut Pair, count: u32) -> Vec<LinkHandle> {
    let add = |handle| {
        pair.client.attach_receiver(0, handle, &format!("receiver-{handle}"), "a");
        pair.client.credit(0, handle, 0, 100);
        pair.pump();
        pair.attached()
    };
    let links = (1..=count).map(add).collect();
    pair.client.frames();
    pair.events.clear();
    links
}

/// Each place is one's of which a part went out, and others wait for a place before them.
#[test]
fn streams_go_on_past_those_that_wait_for_a_place() {
    let (mut pair, one) = Pair::with_receiver(at_most(2), 100);
    let others = add_receivers(&mut pair, 201);
    let (two, waiting) = (others[0], &others[1..]);
    let streams = [one, two].map(|link| (link, send(&mut pair, link, false).0));
    for link in waiting {
        assert_eq!(send(&mut pair, *link, true).1, Sent::Partly);
    }
    pair.pump();
    assert_eq!(handles_sent(&mut pair), [0, 1]);
    for _ in 0..3 {
        // What comes while the client takes nothing waits behind them.
        pair.client.flow(0, window(0));
        pair.pump();
        for (link, stream) in streams {
            pair.engine.send_more(link, stream, false, Payload::copied(b"more"));
        }
        pair.client.flow(0, window(1_000));
        pair.pump();
        assert_eq!(handles_sent(&mut pair), [0, 1]);
    }
    for (link, stream) in streams {
        pair.engine.send_more(link, stream, true, Payload::copied(b"last"));
    }
    pair.pump();
    assert_eq!(handles_sent(&mut pair), [0, 1]);
    // They take their places in the order in which they came.
    for n in 0..200 {
        pair.client.accept(0, n, None);
        pair.pump();
        assert_eq!(handles_sent(&mut pair), [n + 2]);
    }
}

/// Takes so many frames of the session in all.
fn window(frames: u32) -> Flow<'static> {
    let rest = support::client::wide_open(0, 0);
    Flow { incoming_window: frames, next_incoming_id: Some(0), delivery_count: None, link_credit: None, ..rest }
}

/// Its abort needs no place, and leaves one to whoever waits.
#[test]
fn a_stream_that_is_given_up_leaves_its_place() {
    let (mut pair, one) = Pair::with_receiver(at_most(1), 100);
    let two = add_receivers(&mut pair, 1)[0];
    let (stream, _) = send(&mut pair, one, false);
    let (_, held) = send(&mut pair, two, true);
    assert_eq!(held, Sent::Partly);
    pair.pump();
    assert_eq!(handles_sent(&mut pair), [0]);
    pair.engine.send_abort(one, stream);
    pair.pump();
    assert_eq!(handles_sent(&mut pair), [0, 1]);
    assert_eq!(pair.engine.unsettled_count(), (0, 1));
}

/// One that waited for a place is given up, and there is one: what follows it on the link has its turn, and goes on.
#[test]
fn who_waited_for_a_place_with_another_delivery_goes_on() {
    let (mut pair, one) = Pair::with_receiver(at_most(1), 100);
    let two = add_receivers(&mut pair, 1)[0];
    send(&mut pair, one, true);
    let (held, _) = send(&mut pair, two, true);
    pair.client.flow(0, window(2));
    pair.pump();
    assert_eq!(handles_sent(&mut pair), [0]);
    assert!(matches!(pair.engine.send_abort(two, held), Sent::Whole { .. }));
    pair.engine.dispose_outgoing(wire(0), Some(State::ACCEPTED), true);
    let (stream, sent) = send(&mut pair, two, false);
    assert_eq!(sent, Sent::Partly);
    pair.engine.send_more(two, stream, false, Payload::copied(b"more"));
    pair.pump();
    assert_eq!(handles_sent(&mut pair), [1]);
    pair.engine.send_more(two, stream, true, Payload::copied(b"last"));
    pair.client.flow(0, window(1_000));
    pair.pump();
    assert_eq!(handles_sent(&mut pair), [1]);
}

fn wire(delivery_id: u32) -> WireDelivery {
    WireDelivery { session: SessionNumber(0), delivery_id }
}

/// Sends a frame of a delivery from the client; gives the window that it is told.
fn part(pair: &mut Pair, handle: u32, id: u32, more: bool) -> Option<u32> {
    let tag = id.to_be_bytes();
    pair.client.transfer(0, Transfer { more, ..first(handle, id, &tag) }, b"part");
    pair.pump();
    for event in std::mem::take(&mut pair.events) {
        let (session, bytes) = match event {
            Event::Transfer(transfer) => (transfer.wire.session, transfer.payload.len()),
            Event::TransferMore { wire, payload, .. } => (wire.session, payload.len()),
            _ => continue,
        };
        pair.engine.payload_released(session, bytes);
    }
    pair.pump();
    window_told(pair)
}

/// Of a delivery that counts already the rest may come, a frame at a time.
#[test]
fn a_delivery_from_the_peer_comes_whole_at_the_bound() {
    let (mut pair, _) = Pair::with_sender(at_most(1), 100);
    for _ in 0..5 {
        assert_eq!(part(&mut pair, 0, 0, true), Some(1));
    }
    assert_eq!(part(&mut pair, 0, 0, false), None, "nothing of it is to come");
    assert_eq!(pair.engine.unsettled_count(), (1, 0));
    pair.accept_incoming(wire(0));
    pair.pump();
    assert_eq!(window_told(&mut pair), Some(1));
}

#[test]
fn a_stream_comes_in_past_those_that_wait_behind_it() {
    let (mut pair, _) = Pair::with_sender(at_most(3), 100);
    pair.add_sender(1, "second", 100);
    pair.client.frames();
    part(&mut pair, 0, 0, true);
    part(&mut pair, 1, 1, false);
    assert_eq!(part(&mut pair, 1, 2, false), Some(1));
    for _ in 0..5 {
        assert_eq!(part(&mut pair, 0, 0, true), Some(1));
    }
    assert_eq!(part(&mut pair, 0, 0, false), None);
}

/// Whole deliveries on a link, until the window is shut; gives the id behind the last.
fn fill(pair: &mut Pair, handle: u32, mut id: u32, mut window: u32) -> u32 {
    while window > 0 {
        window = part(pair, handle, id, false).unwrap_or(window - 1);
        id += 1;
        assert!(id < 100, "there is no end of them");
    }
    id
}

/// What waits in the router for the rest of a delivery isn't to keep that out: as many places as that takes are lent, once.
#[test]
fn places_of_what_waits_for_a_delivery_are_lent_to_it() {
    let (mut pair, _) = Pair::with_sender(at_most(4), 100);
    pair.add_sender(1, "second", 100);
    pair.client.frames();
    part(&mut pair, 0, 0, true);
    let next = fill(&mut pair, 1, 1, 3);
    assert_eq!(pair.engine.unsettled_count().0, 4 + 2, "as many beyond the bound as there are links");
    // Routing says that all but the one that arrives wait.
    pair.engine.places_lent(SessionNumber(0), 5);
    pair.pump();
    let mut window = window_told(&mut pair).expect("it is told of a larger window");
    assert_eq!(window, 4 + 5 - 6);
    for _ in 0..20 {
        window = part(&mut pair, 0, 0, true).unwrap_or(window - 1);
        assert!(window > 0, "the delivery goes on");
    }
    // They are lent until the window is shut again, and bounded as they were.
    let next = fill(&mut pair, 1, next, window);
    assert_eq!(pair.engine.unsettled_count().0, 4 + 5 + 2);
    pair.engine.places_lent(SessionNumber(0), 1);
    pair.pump();
    assert_eq!(window_told(&mut pair), None, "there are more than that");
    // Below the bound nothing is lent.
    for id in 1..next {
        pair.accept_incoming(wire(id));
    }
    pair.engine.places_lent(SessionNumber(0), 100);
    pair.pump();
    let window = window_told(&mut pair).expect("there is room again");
    assert_eq!(window, 3);
    let window = part(&mut pair, 0, 0, false).unwrap_or(window - 1);
    fill(&mut pair, 1, next, window);
    assert_eq!(pair.engine.unsettled_count().0, 4);
}

/// Without one that still arrives nobody waits for what the window brings.
#[test]
fn places_are_lent_to_what_still_arrives() {
    let (mut pair, _) = Pair::with_sender(at_most(4), 100);
    fill(&mut pair, 0, 0, 4);
    assert_eq!(pair.engine.unsettled_count().0, 4);
    pair.engine.places_lent(SessionNumber(0), 4);
    pair.pump();
    assert_eq!(window_told(&mut pair), None);
}

/// What lets an incomplete delivery go on is no way to begin ever more: one a link, at most.
#[test]
fn deliveries_beyond_the_bound_are_bounded_by_links() {
    for comes_in_parts in [false, true] {
        let (mut pair, _) = Pair::with_sender(at_most(4), 10_000);
        for handle in 1..4 {
            pair.add_sender(handle, &format!("sender-{handle}"), 10_000);
        }
        pair.client.frames();
        part(&mut pair, 0, 0, true);
        let whole = (0..).flat_map(|round| (1..4).map(move |handle| (handle, round * 3 + handle, false)));
        let parts = (0..).flat_map(|round| {
            let of = move |more| (1..4).map(move |handle| (handle, round * 3 + handle, more));
            of(true).chain(of(false))
        });
        let (mut whole, mut parts) = (whole, parts);
        let mut window = 3;
        while window > 0 {
            let next = if comes_in_parts { parts.next() } else { whole.next() };
            let (handle, id, more) = next.expect("there is always one");
            window = part(&mut pair, handle, id, more).unwrap_or(window - 1);
            assert!(id < 100, "there is no end of them");
        }
        assert_eq!(pair.engine.unsettled_count().0, 4 + 4);
    }
}
