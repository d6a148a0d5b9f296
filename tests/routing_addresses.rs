//! Attaching, addresses, treatments, and who gets credit.

#[path = "routing_support/mod.rs"]
mod support;

use ringway::link::{Direction, Terminus};
use ringway::outcome::StateKind;
use support::*;

fn condition(bench: &mut Bench, direction: Direction, terminus: &Terminus) -> &'static str {
    let connection = bench.connect(10);
    bench.attach(connection, direction, terminus, MIXED).map_or_else(|fault| fault.condition, |_| "accepted")
}

#[test]
fn what_is_refused_and_why() {
    use Direction::{Incoming, Outgoing};
    let mut bench = Bench::default();
    let cases: [(Direction, Terminus, &str); 13] = [
        (Incoming, Terminus::Coordinator, "amqp:precondition-failed"),
        (Incoming, node("unavailable/x"), "amqp:not-found"),
        (Outgoing, node("unavailable/x"), "amqp:not-found"),
        (Outgoing, Terminus::Absent, "qd:no-route-to-dest"),
        (Outgoing, terminus(None, false), "qd:no-route-to-dest"),
        (Outgoing, node(""), "qd:no-route-to-dest"),
        (Outgoing, node("_topo/0/R/temp.x"), "amqp:not-found"),
        (Outgoing, node("_local/x"), "amqp:not-found"),
        (Incoming, node("_topo/0/other/x"), "qd:no-route-to-dest"),
        (Incoming, node(&"x".repeat(5000)), "amqp:invalid-field"),
        (Incoming, Terminus::Absent, "accepted"),
        (Incoming, terminus(None, false), "accepted"),
        (Incoming, node("_topo/0/R/temp.gone"), "accepted"),
    ];
    for (direction, terminus, expected) in cases {
        assert_eq!(condition(&mut bench, direction, &terminus), expected, "{direction:?} {terminus:?}");
    }
}

#[test]
fn urls_name_the_same_address() {
    let mut bench = Bench::default();
    let connection = bench.connect(10);
    bench.consumer(connection, "amqp://h/q", 10);
    for name in ["q", "/q", "amqps://h:1/q"] {
        let sender = bench.sender(connection, name);
        bench.send(sender, 0, true, name);
        assert_eq!(bench.take().len(), 1, "{name}");
    }
    assert_eq!(bench.router.addresses_len(), 1);
    bench.close_all(&[connection]);
}

#[test]
fn credit_only_while_somebody_takes_messages() {
    let mut bench = Bench::default();
    bench.quiet = false;
    let (one, two) = (bench.connect(10), bench.connect(250));
    let (a, b) = (bench.sender(one, "q"), bench.sender(two, "q"));
    let consumer = bench.consumer(one, "q", 0);
    assert_eq!(bench.take(), []);
    bench.router.credit(consumer, 0, 5, false, bench.now);
    let mut outs = bench.take();
    outs.sort_by_key(|out| format!("{out:?}"));
    assert_eq!(outs, [Out::Credit(a, 10), Out::Credit(b, 250)]);
    bench.end(consumer);
    let mut outs = bench.take();
    outs.sort_by_key(|out| format!("{out:?}"));
    assert_eq!(outs, [Out::Drain(a), Out::Drain(b)]);
    bench.router.sender_drained(a, u32::MAX, bench.now);
    assert_eq!(bench.take(), []);
    // The next consumer opens both; the one that hasn't answered keeps what it has.
    bench.consumer(two, "q", 5);
    let mut outs = bench.take();
    outs.sort_by_key(|out| format!("{out:?}"));
    assert_eq!(outs[0], Out::Credit(a, 10));
    bench.close_all(&[one, two]);
}

#[test]
fn closest_goes_round_and_balanced_to_the_least_outstanding() {
    let mut bench = Bench::default();
    let connection = bench.connect(100);
    for (address, settle_first, expected) in [("closest.q", false, [3, 3, 3]), ("balanced.q", true, [1, 4, 4])] {
        let consumers: Vec<_> = (0..3).map(|_| bench.consumer(connection, address, 100)).collect();
        let sender = bench.sender(connection, address);
        bench.take();
        let from = bench.sent.len();
        let mut counts = [0; 3];
        for number in 0..9 {
            bench.send(sender, number, false, "x");
            bench.take();
            let (link, _) = *bench.sent.last().unwrap();
            let at = consumers.iter().position(|consumer| *consumer == link).unwrap();
            counts[at] += 1;
            // All but the first settle at once.
            if settle_first && at != 0 {
                bench.accept(bench.sent.len() - 1);
                bench.take();
            }
        }
        assert_eq!(counts, expected, "{address}");
        assert_eq!(bench.sent.len() - from, 9);
    }
    bench.close_all(&[connection]);
}

#[test]
fn a_message_waits_for_the_first_that_has_room() {
    let mut bench = Bench::default();
    let connection = bench.connect(100);
    let (stuck, fresh) = (bench.consumer(connection, "q", 1), bench.consumer(connection, "q", 0));
    let sender = bench.sender(connection, "q");
    bench.take();
    for number in 0..4 {
        bench.send(sender, number, false, &number.to_string());
    }
    assert_eq!(bench.take(), [sent(stuck, "0")]);
    assert_eq!(bench.router.address("q").unwrap().waiting(), 3);
    bench.router.credit(fresh, 0, 2, false, bench.now);
    assert_eq!(bench.take(), [sent(fresh, "1"), sent(fresh, "2")]);
    bench.accept(0);
    bench.router.credit(stuck, 1, 2, false, bench.now);
    assert_eq!(bench.take(), [told(0, StateKind::Accepted), sent(stuck, "3")]);
}

#[test]
fn an_anonymous_sender_names_the_address_in_each_message() {
    let mut bench = Bench::default();
    bench.quiet = false;
    let connection = bench.connect(3);
    let relay = bench.anonymous(connection);
    assert_eq!(bench.take(), [Out::Credit(relay, 3)]);
    assert!(bench.router.is_anonymous(relay));
    let consumer = bench.consumer(connection, "q", 1);
    bench.take();
    bench.quiet = true;
    bench.send_to(relay, 0, false, Some("amqp:/q"));
    assert_eq!(bench.take(), [sent(consumer, "body")]);
    // No room: it waits within the link's credit.
    bench.send_to(relay, 1, false, Some("q"));
    assert_eq!(bench.take(), []);
    bench.send_to(relay, 2, false, Some("nobody"));
    assert_eq!(bench.take(), [told(2, StateKind::Released)]);
    bench.send_to(relay, 3, false, None);
    assert_eq!(bench.take(), [told(3, StateKind::Rejected)]);
    bench.send_to(relay, 4, false, Some("unavailable.x"));
    assert_eq!(bench.take(), [told(4, StateKind::Rejected)]);
    bench.send_to(relay, 5, true, Some("nobody"));
    assert_eq!(bench.take(), []);
    assert_eq!(bench.router.totals().dropped_presettled, 1);
    bench.end(consumer);
    assert_eq!(bench.take(), [told(0, StateKind::Modified), told(1, StateKind::Released)]);
    bench.close_all(&[connection]);
}

#[test]
fn request_and_response_over_a_dynamic_address() {
    let mut bench = Bench::default();
    let (client, server) = (bench.connect(10), bench.connect(10));
    let dynamic = terminus(None, true);
    let reply = bench.attach(client, Direction::Outgoing, &dynamic, MIXED).unwrap();
    let other = bench.attach(client, Direction::Outgoing, &dynamic, MIXED).unwrap();
    let address = reply.dynamic_address.clone().unwrap();
    assert!(address.starts_with("amqp:/_topo/0/R/temp."), "{address}");
    assert_ne!(reply.dynamic_address, other.dynamic_address);
    bench.router.credit(reply.link, 0, 10, false, bench.now);
    let relay = bench.anonymous(server);
    bench.take();
    bench.send_to(relay, 0, false, Some(&address));
    assert_eq!(bench.take(), [sent(reply.link, "body")]);
    let named = bench.sender(server, &address);
    bench.send(named, 1, false, "named");
    assert_eq!(bench.take(), [sent(reply.link, "named")]);
    bench.end(reply.link);
    bench.take();
    bench.send_to(relay, 2, false, Some(&address));
    assert_eq!(bench.take(), [told(2, StateKind::Released)]);
    bench.close_all(&[client, server]);
}

#[test]
fn a_dynamic_target_is_an_address_that_others_can_consume() {
    let mut bench = Bench::default();
    let connection = bench.connect(10);
    let sender = bench.attach(connection, Direction::Incoming, &terminus(None, true), MIXED).unwrap();
    let address = sender.dynamic_address.unwrap();
    assert!(address.starts_with("amqp:/_$temp."), "{address}");
    let consumer = bench.consumer(connection, &address, 10);
    bench.send(sender.link, 0, true, "x");
    assert_eq!(bench.take(), [Out::Send(consumer, "x".into(), true, true)]);
    bench.close_all(&[connection]);
}

#[test]
fn a_drain_asks_the_senders_and_is_answered_when_they_have_nothing() {
    let mut bench = Bench::default();
    let connection = bench.connect(10);
    let consumer = bench.consumer(connection, "q", 0);
    bench.router.credit(consumer, 0, 7, true, bench.now);
    assert_eq!(bench.take(), [Out::Drained(consumer)]);
    bench.quiet = false;
    let sender = bench.sender(connection, "q");
    assert_eq!(bench.take(), []);
    bench.router.credit(consumer, 7, 9, true, bench.now);
    assert_eq!(bench.take(), [Out::Drain(sender)]);
    bench.send(sender, 0, true, "a");
    assert_eq!(bench.take(), [Out::Send(consumer, "a".into(), true, true), Out::Released(1)]);
    bench.router.sender_drained(sender, u32::MAX, bench.now);
    assert_eq!(bench.take(), [Out::Drained(consumer)]);
    // One that doesn't answer is waited for a while.
    bench.router.credit(consumer, 9, 10, true, bench.now);
    assert_eq!(bench.take(), [Out::Drain(sender)]);
    let deadline = bench.router.poll_timeout().expect("a deadline");
    assert!(deadline <= bench.now + bench.router.settings().drain_wait);
    bench.now = deadline;
    bench.router.handle_timeout(deadline);
    assert_eq!(bench.take(), [Out::Drained(consumer)]);
    bench.close_all(&[connection]);
}

#[test]
fn attach_and_detach_leave_nothing() {
    let mut bench = Bench::default();
    let connection = bench.connect(10);
    for _ in 0..10_000 {
        let consumer = bench.consumer(connection, "q", 5);
        let sender = bench.sender(connection, "q");
        bench.end(consumer);
        bench.end(sender);
        while bench.router.poll_output().is_some() {}
    }
    assert_eq!((bench.router.links_len(), bench.router.addresses_len()), (0, 0));
    bench.close_all(&[connection]);
}

#[test]
fn figures_of_addresses_and_links_are_there_to_look_at() {
    let mut bench = Bench::default();
    let connection = bench.connect(10);
    let consumer = bench.consumer(connection, "q", 1);
    let sender = bench.sender(connection, "q");
    bench.take();
    bench.send(sender, 0, false, "abc");
    bench.send(sender, 1, false, "de");
    bench.take();
    let (_, address) = bench.router.address_views().next().expect("an address");
    assert_eq!((address.name(), address.senders(), address.consumers()), ("q", 1, 1));
    assert_eq!((address.depth_messages(), address.depth_bytes(), address.waiting()), (2, 5, 1));
    assert_eq!(bench.router.link_views().count(), 2);
    let view = bench.router.link_view(sender).expect("the sender");
    assert_eq!((view.direction(), view.unsettled(), view.credit_available()), (Direction::Incoming, 2, 8));
    assert_eq!((view.credit_window(), view.address().map(|address| address.name())), (Some(10), Some("q")));
    let view = bench.router.link_view(consumer).expect("the consumer");
    assert_eq!((view.unsettled(), view.credit_available(), view.credit_window()), (1, 0, None));
    assert_eq!((view.counters().deliveries, bench.router.totals().deliveries), (1, 2));
    bench.close_all(&[connection]);
}
