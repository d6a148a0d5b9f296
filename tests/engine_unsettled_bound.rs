//! The bound of a session's unsettled deliveries: what counts against it, and what goes on at it.

mod support;

use ringway::engine::{Sent, Settings};
use ringway::ids::LinkHandle;
use ringway::payload::Payload;
use ringway::wire::performative::Performative;
use support::client::Received;
use support::pair::{names, Pair};

fn at_most(unsettled_max: usize) -> Settings {
    Settings { unsettled_max, ..Settings::default() }
}

fn send(pair: &mut Pair, link: LinkHandle) -> Sent {
    let delivery = pair.next_delivery();
    pair.engine.send(link, delivery, 0, false, true, Payload::copied(b"message"))
}

/// The session's incoming window as the client was told last.
fn window_told(pair: &mut Pair) -> Option<u32> {
    let window = |frame: &Received| match frame.performative() {
        Performative::Flow(flow) => Some(flow.incoming_window),
        _ => None,
    };
    pair.client.frames().iter().filter_map(window).last()
}

/// What they were sent and never settled stayed in the session's list, where nobody could settle it any more.
#[test]
fn what_a_detached_receiver_left_counts_no_more() {
    let (mut pair, mut link) = Pair::with_receiver(at_most(5), 100);
    for round in 0..40 {
        let rooms: Vec<Sent> = (0..5).map(|_| send(&mut pair, link)).collect();
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
        send(&mut pair, link);
    }
    pair.client.detach(0, 0, true);
    pair.pump();
    let rooms: Vec<Sent> = (0..4).map(|_| send(&mut pair, two)).collect();
    assert_eq!(rooms[2..], [Sent::Whole { room: true }, Sent::Whole { room: false }]);
    pair.events.clear();
    pair.client.accept(0, 3, None);
    pair.pump();
    assert_eq!(names(&pair.events()), ["receiver-disposition", "session-writable"]);
    assert_eq!(send(&mut pair, two), Sent::Whole { room: false });
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
