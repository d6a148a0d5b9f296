//! Balancing end to end through the router: a message waits behind a stuck consumer, is refused though somebody
//! consumes, or loses its place when a consumer dies.

#[path = "routing_support/mod.rs"]
mod support;

use ringway::ids::LinkId;
use ringway::outcome::StateKind;
use support::*;

fn received(bench: &Bench, link: LinkId) -> usize {
    bench.sent.iter().filter(|(to, _)| *to == link).count()
}

fn bodies(outs: &[Out]) -> Vec<(LinkId, u32)> {
    let of = |out: &Out| match out {
        Out::Send(link, body, ..) => Some((*link, body.parse().expect("a number"))),
        _ => None,
    };
    outs.iter().filter_map(of).collect()
}

#[test]
fn four_idle_consumers_are_served_evenly() {
    let mut bench = Bench::default();
    let connection = bench.connect(250);
    let consumers = [(); 4].map(|()| bench.consumer(connection, "balanced/q", 1_000));
    let sender = bench.sender(connection, "balanced/q");
    bench.take();
    for number in 0..1_001 {
        bench.send(sender, number, false, "x");
        bench.take();
        bench.accept(number as usize);
        bench.take();
        let counts = consumers.map(|link| received(&bench, link));
        assert!(counts.iter().max().unwrap() - counts.iter().min().unwrap() <= 1, "{counts:?}");
    }
    bench.close_all(&[connection]);
}

/// It has its credit and no more; back, it takes part; killed, what it has fails and what waits goes on in order.
#[test]
fn a_consumer_stops_settling_comes_back_and_is_killed() {
    let mut bench = Bench::default();
    let connection = bench.connect(2_000);
    let (stuck, live) = (bench.consumer(connection, "balanced/q", 20), bench.consumer(connection, "balanced/q", 500));
    let sender = bench.sender(connection, "balanced/q");
    bench.take();
    let mut number = 0;
    let mut settled = 0;
    let mut pass = |bench: &mut Bench, count: u32, both: bool| {
        for _ in 0..count {
            bench.send(sender, number, false, &number.to_string());
            bench.take();
            number += 1;
            while settled < bench.sent.len() {
                if both || bench.sent[settled].0 == live {
                    bench.accept(settled);
                }
                settled += 1;
            }
            bench.take();
        }
    };
    pass(&mut bench, 200, false);
    // The live one has none outstanding, so it has taken all but the first that met a tie.
    assert_eq!(received(&bench, stuck) + received(&bench, live), 200);
    assert!(received(&bench, stuck) <= 20 && received(&bench, live) >= 180);
    assert_eq!(bench.router.address("balanced/q").unwrap().waiting(), 0, "none waits behind it");

    // Back: it settles what it has and gives credit again.
    let before = received(&bench, stuck);
    for at in 0..bench.sent.len() {
        if bench.sent[at].0 == stuck {
            bench.accept(at);
        }
    }
    bench.router.credit(stuck, before as u32, before as u32 + 60, false, bench.now);
    pass(&mut bench, 100, true);
    let shares = (received(&bench, stuck) - before, received(&bench, live) + before - 200);
    assert_eq!((shares.0 + shares.1, shares.0.abs_diff(shares.1) <= 1), (100, true), "{shares:?}");
    bench.end(stuck);
    bench.end(live);
    bench.take();

    // Killed: two consumers hold five each, ten wait.
    let doomed = bench.consumer(connection, "balanced/q", 5);
    let other = bench.consumer(connection, "balanced/q", 5);
    bench.take();
    bench.sent.clear();
    for number in 1_000..1_020 {
        bench.send(sender, number, false, &number.to_string());
    }
    let held = bodies(&bench.take());
    let of = |link| held.iter().filter(|(to, _)| *to == link).map(|(_, number)| *number).collect::<Vec<_>>();
    assert_eq!((of(doomed).len(), of(other).len()), (5, 5));
    bench.end(doomed);
    let failed: Vec<_> = of(doomed).into_iter().map(|number| told(number, StateKind::Modified)).collect();
    assert_eq!(bench.take(), failed);
    bench.router.credit(other, 5, 100, false, bench.now);
    let rest = bodies(&bench.take());
    assert_eq!(rest, (1_010..1_020).map(|number| (other, number)).collect::<Vec<_>>());
    bench.close_all(&[connection]);
}

/// They wait as long as any consumer is there, with credit or without, and go to the first that has room.
#[test]
fn none_is_refused_while_any_consumer_exists() {
    let mut bench = Bench::default();
    let connection = bench.connect(50);
    let consumers = [(); 3].map(|()| bench.consumer(connection, "balanced/q", 1));
    let sender = bench.sender(connection, "balanced/q");
    bench.take();
    for number in 0..20 {
        bench.send(sender, number, false, &number.to_string());
    }
    assert_eq!(bodies(&bench.take()).len(), 3);
    // Two of the three go: what they had fails, nothing else has an end.
    for link in &consumers[..2] {
        bench.end(*link);
        let outs = bench.take();
        assert!(matches!(outs[..], [Out::Told(_, Some(StateKind::Modified), true)]), "{outs:?}");
    }
    // One that never gave credit is a consumer as well.
    let idle = bench.consumer(connection, "balanced/q", 0);
    bench.end(consumers[2]);
    assert_eq!(bench.take().len(), 1);
    for number in 20..30 {
        bench.send(sender, number, false, &number.to_string());
    }
    assert_eq!(bench.take(), []);
    // The first with room has them in the order of their arrival.
    let fresh = bench.consumer(connection, "balanced/q", 4);
    assert_eq!(bodies(&bench.take()), (3..7).map(|number| (fresh, number)).collect::<Vec<_>>());
    bench.router.credit(idle, 0, 100, false, bench.now);
    assert_eq!(bodies(&bench.take()), (7..30).map(|number| (idle, number)).collect::<Vec<_>>());
    assert_eq!(bench.router.totals().released, 0);
    bench.close_all(&[connection]);
}
