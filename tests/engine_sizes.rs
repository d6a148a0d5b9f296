//! Messages that are larger than their receiver takes, and deliveries that are given up: what the receiver sees, what the
//! driver hears, what is left.

mod support;

use ringway::engine::{Event, Sent, Settings};
use ringway::ids::LinkHandle;
use ringway::payload::Payload;
use ringway::wire::performative::{Attach, Flow, Performative, Role};
use support::client::{source, target, wide_open};
use support::pair::{names, transfers, Pair};

/// A receiver that takes messages of so many bytes.
fn with_small_receiver(most: u64, credit: u32) -> (Pair, LinkHandle) {
    let mut pair = Pair::opened(Settings::default());
    let (from, to) = (source(Some("a")), target(None));
    pair.client.attach(
        0,
        Attach {
            name: "small",
            role: Role::Receiver,
            source: Some(&from),
            target: Some(&to),
            max_message_size: Some(most),
            ..Attach::default()
        },
    );
    pair.client.credit(0, 0, 0, credit);
    pair.pump();
    let link = pair.attached();
    pair.client.frames();
    pair.events.clear();
    (pair, link)
}

fn payload(bytes: usize) -> Payload {
    Payload::copied(&vec![7; bytes])
}

#[test]
fn a_whole_message_beyond_the_receivers_size_is_refused_and_uses_no_credit() {
    let (mut pair, link) = with_small_receiver(100, 1);
    let large = pair.next_delivery();
    assert_eq!(pair.engine.send(link, large, 0, false, true, payload(101)), Sent::Partly);
    pair.pump();
    assert_eq!(names(&pair.events), ["refused", "payload-sent", "credit"]);
    assert!(matches!(pair.events[0], Event::Refused { delivery, settled: false, .. } if delivery == large));
    assert!(matches!(pair.events[1], Event::PayloadSent { bytes: 101, complete: true, .. }));
    assert!(matches!(pair.events[2], Event::Credit { delivery_count: 0, limit: 1, .. }));
    assert!(pair.client.frames().is_empty(), "the receiver sees nothing");
    assert_eq!(pair.engine.unsettled_count(), (0, 0));
    // The credit is still there for one that fits.
    let fits = pair.next_delivery();
    assert_eq!(pair.engine.send(link, fits, 0, false, true, payload(100)), Sent::Whole { room: true });
    pair.pump();
    assert_eq!(transfers(&pair.client.frames()).len(), 1);
}

/// The next one goes out as soon as its link is free: the credit that is told then is less by it.
#[test]
fn credit_that_a_refused_message_leaves_is_told_as_it_is_by_then() {
    let (mut pair, link) = with_small_receiver(100, 2);
    let large = pair.next_delivery();
    assert_eq!(pair.engine.send(link, large, 0, false, true, payload(101)), Sent::Partly);
    assert!(matches!(pair.engine.poll_event(), Some(Event::Refused { .. })));
    assert!(matches!(pair.engine.poll_event(), Some(Event::PayloadSent { complete: true, .. })));
    let next = pair.next_delivery();
    assert_eq!(pair.engine.send(link, next, 0, false, true, payload(100)), Sent::Whole { room: true });
    pair.pump();
    assert!(matches!(pair.events[..], [Event::Credit { delivery_count: 1, limit: 2, .. }]));
}

#[test]
fn a_stream_that_grows_beyond_the_receivers_size_is_aborted() {
    let (mut pair, link) = with_small_receiver(1000, 2);
    let large = pair.next_delivery();
    assert_eq!(pair.engine.send(link, large, 0, false, false, payload(600)), Sent::Partly);
    assert_eq!(pair.engine.send_more(link, large, false, payload(401)), Sent::Partly);
    pair.pump();
    assert_eq!(names(&pair.events), ["refused", "payload-sent"]);
    let frames = pair.client.frames();
    let aborted = |frame: &&support::client::Received| match frame.performative() {
        Performative::Transfer(transfer) => transfer.aborted,
        _ => false,
    };
    assert_eq!(transfers(&frames).len(), 2);
    assert!(aborted(&transfers(&frames)[1]));
    assert_eq!(pair.engine.unsettled_count(), (0, 0), "an aborted delivery is settled");
    // What still comes of it is let go of, and told as sent; then the link is free.
    pair.events.clear();
    pair.engine.send_more(link, large, false, payload(5000));
    pair.engine.send_more(link, large, true, payload(3));
    pair.pump();
    let told: usize =
        pair.events.iter().map(|event| if let Event::PayloadSent { bytes, .. } = event { *bytes } else { 0 }).sum();
    assert_eq!(told, 5003);
    assert!(matches!(pair.events.last(), Some(Event::PayloadSent { complete: true, .. })));
    assert!(pair.client.frames().is_empty());
    let next = pair.next_delivery();
    assert_eq!(pair.engine.send(link, next, 0, false, true, payload(10)), Sent::Whole { room: true });
}

/// The driver gives a refused one up, too: its sender is gone.
#[test]
fn a_refused_stream_that_is_given_up_leaves_the_link_free() {
    for begun in [0, 600] {
        let (mut pair, link) = with_small_receiver(1000, 1);
        let large = pair.next_delivery();
        pair.engine.send(link, large, 0, false, false, payload(begun));
        pair.engine.send_more(link, large, false, payload(2000));
        assert!(matches!(pair.engine.send_abort(link, large), Sent::Whole { .. }), "{begun} bytes before");
        pair.pump();
        assert_eq!(pair.engine.unsettled_count(), (0, 0));
        pair.client.flow(0, wide_open(0, 1));
        pair.client.credit(0, 0, 1, 1);
        pair.pump();
        let next = pair.next_delivery();
        assert_eq!(pair.engine.send(link, next, 0, false, true, payload(10)), Sent::Whole { room: true });
    }
}

/// Each left an entry in the session's unsettled deliveries, and when these were as many as may be, nothing was sent any more.
#[test]
fn deliveries_that_are_given_up_leave_nothing_unsettled() {
    let (mut pair, link) = Pair::with_receiver(Settings { unsettled_max: 3, ..Settings::default() }, 100);
    for _ in 0..20 {
        let delivery = pair.next_delivery();
        assert_eq!(pair.engine.send(link, delivery, 0, false, false, payload(10)), Sent::Partly);
        pair.pump();
        assert!(matches!(pair.engine.send_abort(link, delivery), Sent::Whole { .. }));
        pair.pump();
        assert_eq!(pair.engine.unsettled_count(), (0, 0));
    }
    let delivery = pair.next_delivery();
    assert_eq!(pair.engine.send(link, delivery, 0, false, true, payload(10)), Sent::Whole { room: true });
}

/// The receiver's session takes no frames meanwhile: the sender hears at once all the same, as often as it tries.
#[test]
fn a_refusal_waits_for_no_window() {
    let (mut pair, link) = with_small_receiver(1000, 10);
    let window = |frames| Flow { next_incoming_id: Some(0), incoming_window: frames, ..Flow::default() };
    pair.client.flow(0, window(0));
    pair.pump();
    for _ in 0..3 {
        let large = pair.next_delivery();
        assert_eq!(pair.engine.send(link, large, 0, false, false, payload(600)), Sent::Partly);
        pair.pump();
        pair.events.clear();
        assert_eq!(pair.engine.send_more(link, large, true, payload(401)), Sent::Partly);
        pair.pump();
        assert_eq!(names(&pair.events), ["refused", "payload-sent", "credit"]);
        assert!(matches!(pair.events[1], Event::PayloadSent { bytes: 1001, complete: true, .. }));
    }
    // One that fits goes when there is a window.
    let fits = pair.next_delivery();
    pair.engine.send(link, fits, 0, false, true, payload(10));
    pair.pump();
    assert!(transfers(&pair.client.frames()).is_empty());
    pair.client.flow(0, window(10));
    pair.pump();
    assert_eq!(transfers(&pair.client.frames()).len(), 1);
}
