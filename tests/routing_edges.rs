//! Threshold edges through the router: events go missing, come twice, come in the wrong order, or cost memory while
//! nobody fetches them.

#[path = "routing_support/mod.rs"]
mod support;

use ringway::ids::{ConnectionId, LinkId};
use ringway::link::Direction;
use ringway::outcome::StateKind;
use ringway::routing::{AddressAttributes, AddressRules, Edge, Marks, RouterSettings, Treatment, Unit};
use support::*;

const MARKS: Marks = Marks { up: 10, down: 5 };
/// What a message of `Line` counts in bytes.
const BODY: &str = "0123456789";

/// An address with marks, a sender, and a consumer that takes all and settles when it is told to.
struct Line {
    bench: Bench,
    connections: [ConnectionId; 2],
    sender: LinkId,
    consumer: LinkId,
    sent: u32,
    accepted: u32,
    /// Below this in `bench.sent` all is settled.
    settled: usize,
}

fn watched(count: Option<Marks>, size: Option<Marks>) -> Bench {
    let mut watched = rule("watched", Treatment::Balanced);
    watched.attributes = AddressAttributes { alert_count: count, alert_size: size, ..watched.attributes };
    let rules = AddressRules::new(vec![watched]).unwrap();
    Bench::new(RouterSettings { rules, ..settings() })
}

impl Line {
    fn new(count: Option<Marks>, size: Option<Marks>) -> Line {
        let mut bench = watched(count, size);
        let connections = [bench.connect(250), bench.connect(250)];
        let consumer = bench.consumer(connections[1], "watched", 100);
        let sender = bench.sender(connections[0], "watched");
        bench.take();
        Line { bench, connections, sender, consumer, sent: 0, accepted: 0, settled: 0 }
    }

    /// Takes the depth there, a message at a time.
    fn go_to(&mut self, depth: u32) {
        while self.sent - self.accepted < depth {
            self.sent += 1;
            self.bench.send(self.sender, self.sent, false, BODY);
            self.bench.take();
        }
        while self.sent - self.accepted > depth {
            self.accepted += 1;
            self.bench.accept(self.settled);
            self.settled += 1;
            self.bench.take();
        }
        if self.settled >= 64 {
            self.bench.sent.drain(..self.settled);
            self.settled = 0;
            self.bench.states.clear();
            self.bench.router.credit(self.consumer, self.sent, self.sent.wrapping_add(100), false, self.bench.now);
            self.bench.take();
        }
    }

    fn depth(&self) -> u64 {
        self.bench.router.address("watched").unwrap().depth_messages()
    }

    fn short(&mut self) -> Vec<(Unit, bool, u64)> {
        short(&mut self.bench)
    }
}

fn fetch(bench: &mut Bench) -> Vec<(String, Edge)> {
    let mut all = Vec::new();
    bench.router.flush_edges(|address, edge| {
        all.push((address.to_string(), *edge));
        true
    });
    all
}

/// What waits, as (unit, increasing, threshold); all of the one address, none missed.
fn short(bench: &mut Bench) -> Vec<(Unit, bool, u64)> {
    let edges = fetch(bench);
    assert!(edges.iter().all(|(address, edge)| address == "watched" && edge.missed == 0), "{edges:?}");
    edges.iter().map(|(_, edge)| (edge.unit, edge.increasing, edge.threshold)).collect()
}

use Unit::{Bytes, Messages};

#[test]
fn the_known_vector_by_messages_bytes_and_both() {
    let bytes = Marks { up: MARKS.up * BODY.len() as u64, down: MARKS.down * BODY.len() as u64 };
    for (count, size) in [(Some(MARKS), None), (None, Some(bytes)), (Some(MARKS), Some(bytes)), (None, None)] {
        let mut line = Line::new(count, size);
        let mut raised = Vec::new();
        for depth in [8, 2, 10, 9, 10, 20, 15, 3, 14, 5, 6, 5, 0] {
            line.go_to(depth);
            assert_eq!(line.depth(), u64::from(depth));
            raised.extend(line.short().into_iter().map(|edge| (edge, depth)));
        }
        for (unit, marks) in [(Messages, count), (Bytes, size)] {
            let of_unit: Vec<_> = raised.iter().filter(|(edge, _)| edge.0 == unit).copied().collect();
            let expected = marks.map_or(Vec::new(), |Marks { up, down }| {
                // At which of the depths; between two of them it passes all that lie between.
                let passed = [(true, up, 10), (false, down, 3), (true, up, 14), (false, down, 5)];
                passed.map(|(increasing, mark, depth)| ((unit, increasing, mark), depth)).to_vec()
            });
            assert_eq!(of_unit, expected);
        }
        line.bench.close_all(&line.connections);
    }
}

#[test]
fn between_the_marks_a_million_moves_raise_nothing() {
    let mut line = Line::new(Some(Marks { up: 4, down: 1 }), None);
    for _ in 0..125_000 {
        line.go_to(3);
        line.go_to(1);
    }
    assert!(!line.bench.router.has_edges());
    line.go_to(4);
    assert_eq!(line.short(), [(Messages, true, 4)]);
    for _ in 0..125_000 {
        line.go_to(4);
        line.go_to(2);
    }
    assert!(!line.bench.router.has_edges());
    assert!(line.sent + line.accepted >= 1_000_000);
    line.bench.close_all(&line.connections);
}

#[test]
fn ten_thousand_swings_are_all_accounted_for() {
    let mut line = Line::new(Some(MARKS), None);
    let mut heard: Vec<Edge> = Vec::new();
    // What the control side's queue takes; it is stopped for a while.
    let mut room = 16;
    for swing in 0..10_000 {
        let stopped = (4_000..6_000).contains(&swing);
        for depth in [10, 5] {
            line.go_to(depth);
            room = if stopped { room } else { 16 };
            let mut offered = 0;
            line.bench.router.flush_edges(|address, edge| {
                assert_eq!(address, "watched");
                offered += 1;
                if room == 0 {
                    return false;
                }
                room -= 1;
                heard.push(*edge);
                true
            });
            // However long it is stopped, what waits is the latest state, in two events at most.
            assert!(offered <= 2, "{offered} edges wait");
        }
    }
    assert!(!line.bench.router.has_edges());
    assert!(heard.iter().enumerate().all(|(at, edge)| edge.increasing == (at % 2 == 0)), "they alternate");
    assert!(heard.iter().all(|edge| edge.depth_messages == if edge.increasing { 10 } else { 5 }));
    let missed: u64 = heard.iter().map(|edge| edge.missed).sum();
    assert!(missed > 3_900 && heard.len() > 16_000, "{missed} missed, {} heard", heard.len());
    assert_eq!(heard.len() as u64 + missed, 20_000);
    assert_eq!(line.bench.router.edges_counted(), 20_000);
    let counted = line.bench.router.address("watched").unwrap().depth().edges_counted(Messages);
    assert_eq!(counted, (10_000, 10_000));
    line.bench.close_all(&line.connections);
    assert_eq!(line.bench.router.edges_counted(), 20_000);
}

/// Its deliveries fail one by one, which is one edge; the others' stay.
#[test]
fn a_consumer_that_dies_above_the_mark_is_one_edge() {
    for by_connection in [false, true] {
        let bytes = Marks { up: 50, down: 20 };
        let mut line = Line::new(Some(MARKS), Some(bytes));
        line.go_to(40);
        assert_eq!(line.short(), [(Bytes, true, 50), (Messages, true, 10)]);
        let bench = &mut line.bench;
        if by_connection {
            bench.router.connection_closed(line.connections[1], bench.now);
        } else {
            bench.end(line.consumer);
        }
        bench.take();
        let edges = fetch(bench);
        let told: Vec<_> = edges.iter().map(|(_, edge)| (edge.unit, edge.increasing, edge.threshold)).collect();
        assert_eq!(told, [(Messages, false, 5), (Bytes, false, 20)]);
        // Its sender is there, so the address is.
        let address = bench.router.address("watched").unwrap();
        assert!(!address.depth().is_above(Messages) && !address.depth().is_above(Bytes));
        assert_eq!(address.depth_messages(), 0);
        bench.close_all(&line.connections[..if by_connection { 1 } else { 2 }]);
        assert!(!bench.router.has_edges());
    }
}

#[test]
fn an_address_that_goes_away_above_the_mark_has_recovered() {
    let mut line = Line::new(Some(MARKS), Some(Marks { up: 100, down: 0 }));
    line.go_to(12);
    assert_eq!(line.short(), [(Messages, true, 10), (Bytes, true, 100)]);
    // Sender and consumer go, and with them all that there was.
    line.bench.end(line.sender);
    line.bench.end(line.consumer);
    line.bench.take();
    assert!(line.bench.router.address("watched").is_none());
    let mut edges = line.short();
    edges.sort();
    assert_eq!(edges, [(Messages, false, 5), (Bytes, false, 0)]);
    // A new one of that name begins below.
    let consumer = line.bench.consumer(line.connections[0], "watched", 1);
    line.bench.take();
    assert!(!line.bench.router.address("watched").unwrap().depth().is_above(Messages));
    line.bench.end(consumer);
    line.bench.close_all(&line.connections);
    assert!(!line.bench.router.has_edges());
}

#[test]
fn marks_changed_at_run_time_are_compared_at_once() {
    let mut line = Line::new(None, None);
    let marks = |up, down| Some(Marks { up, down });
    line.go_to(20);
    assert_eq!(line.short(), []);
    let set = |line: &mut Line, count, size| {
        assert!(line.bench.router.set_alerts("watched", count, size));
        line.short()
    };
    assert_eq!(set(&mut line, marks(21, 10), None), []);
    assert_eq!(set(&mut line, marks(20, 10), None), [(Messages, true, 20)]);
    // Above stays above between the marks; bytes are apart.
    assert_eq!(set(&mut line, marks(40, 19), marks(200, 100)), [(Bytes, true, 200)]);
    let address = line.bench.router.address("watched").unwrap();
    assert_eq!(address.depth().replay(Messages).map(|edge| edge.threshold), Some(40));
    assert_eq!(address.attributes().alert_size, marks(200, 100));
    // They hold for what comes then.
    line.go_to(19);
    assert_eq!(line.short(), [(Messages, false, 19)]);
    line.go_to(40);
    assert_eq!(line.short(), [(Messages, true, 40)]);
    assert_eq!(set(&mut line, marks(50, 40), marks(200, 100)), [(Messages, false, 40)]);
    assert_eq!(set(&mut line, marks(5, 1), marks(200, 100)), [(Messages, true, 5)]);
    // Without marks nothing is above.
    let mut removed = set(&mut line, None, None);
    removed.sort();
    assert_eq!(removed, [(Messages, false, 1), (Bytes, false, 100)]);
    line.go_to(60);
    line.go_to(0);
    assert_eq!(line.short(), []);
    assert_eq!(line.bench.router.edges_counted(), 8);
    line.bench.close_all(&line.connections);
}

#[test]
fn marks_are_refused_where_none_can_be() {
    let mut line = Line::new(Some(MARKS), None);
    line.go_to(12);
    assert_eq!(line.short(), [(Messages, true, 10)]);
    let (connection, events) = (line.connections[0], node("$events.threshold"));
    let subscriber = line.bench.attach(connection, Direction::Outgoing, &events, MIXED).expect("a subscription");
    line.bench.take();
    let router = &mut line.bench.router;
    let marks = |up, down| Some(Marks { up, down });
    for (address, count) in [
        ("unknown", marks(1, 0)),
        ("$events.threshold", marks(1, 0)),
        ("_local/x", marks(1, 0)),
        ("watched", marks(5, 5)),
        ("watched", marks(0, 0)),
    ] {
        assert!(!router.set_alerts(address, count, None), "{address}");
        assert!(!router.set_alerts(address, None, count), "{address}");
    }
    assert!(router.address("watched").unwrap().depth().is_above(Messages));
    assert!(!router.has_edges());
    line.bench.end(subscriber.events_from.expect("the router's own link"));
    line.bench.end(subscriber.link);
    line.bench.take();
    line.go_to(0);
    assert_eq!(line.short(), [(Messages, false, 5)]);
    line.bench.close_all(&line.connections);
}

/// Nobody consumes: a delivery goes back at once, and so does one whose consumer left while it was coming.
#[test]
fn what_is_turned_away_is_no_backlog() {
    let mut bench = watched(Some(Marks { up: 1, down: 0 }), Some(Marks { up: 100, down: 0 }));
    let connection = bench.connect(250);
    let consumer = bench.consumer(connection, "watched", 10);
    let sender = bench.sender(connection, "watched");
    bench.take();
    let begun = bench.begin(sender, 1, false, "begun");
    bench.take();
    assert_eq!(short(&mut bench), [(Messages, true, 1)]);
    bench.end(consumer);
    assert_eq!(bench.take(), []);
    bench.more(begun, &"more".repeat(100), false);
    assert_eq!(bench.take(), [told(1, StateKind::Released)]);
    assert_eq!(short(&mut bench), [(Messages, false, 0)]);
    bench.more(begun, &"more".repeat(100), true);
    // It had credit for more.
    for number in 2..10 {
        bench.send(sender, number, false, &"x".repeat(200));
        assert_eq!(bench.take(), [told(number, StateKind::Released)]);
    }
    assert!(!bench.router.has_edges());
    bench.close_all(&[connection]);
}

/// A rule for every address is none for the one of the events.
#[test]
fn the_events_address_has_no_marks() {
    let mut every = rule("#", Treatment::Balanced);
    every.attributes = AddressAttributes { alert_count: Some(Marks { up: 1, down: 0 }), ..every.attributes };
    let rules = AddressRules::new(vec![every]).unwrap();
    let mut bench = Bench::new(RouterSettings { rules, ..settings() });
    let connection = bench.connect(250);
    let attached = bench.attach(connection, Direction::Outgoing, &node("$events.threshold"), MIXED);
    let attached = attached.expect("a subscription");
    let own = attached.events_from.expect("the router's own link");
    bench.router.credit(attached.link, 0, 20, false, bench.now);
    bench.take();
    // What the router sends to it is in the router until it settles.
    assert_eq!(bench.flood(own, false, 10), 10);
    bench.take();
    assert_eq!(bench.router.deliveries_len(), 10);
    bench.end(attached.link);
    bench.end(own);
    bench.take();
    assert!(!bench.router.has_edges());
    bench.close_all(&[connection]);
}
