//! What is shown of links and addresses: rows by pages, each once, with the figures that hold.

#[path = "routing_support/mod.rs"]
mod support;

use ringway::link::Direction;
use ringway::routing::{AddressRow, LinkRow, Notice, Treatment};
use std::time::Duration;
use support::Bench;

fn addresses(bench: &mut Bench, slots: u32) -> Vec<AddressRow> {
    let (mut all, mut next) = (Vec::new(), Some(0));
    while let Some(from) = next {
        let (rows, behind) = bench.router.address_rows(from, slots, bench.now);
        assert!(rows.len() <= slots as usize);
        all.extend(rows);
        next = behind;
    }
    all
}

fn links(bench: &mut Bench, slots: u32) -> Vec<LinkRow> {
    let (mut all, mut next) = (Vec::new(), Some(0));
    while let Some(from) = next {
        let (rows, behind) = bench.router.link_rows(from, slots, bench.now);
        all.extend(rows);
        next = behind;
    }
    all
}

#[test]
fn pages_show_every_link_and_address_once() {
    let mut bench = Bench::default();
    let connection = bench.connect(10);
    for at in 0..25 {
        bench.consumer(connection, &format!("closest/{at}"), 1);
        bench.sender(connection, &format!("closest/{at}"));
    }
    bench.take();
    for slots in [1, 7, 1000] {
        let mut keys: Vec<String> = addresses(&mut bench, slots).into_iter().map(|row| row.key).collect();
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), 25);
        let rows = links(&mut bench, slots);
        assert_eq!(rows.iter().filter(|row| row.direction == Direction::Incoming).count(), 25);
        assert_eq!(rows.len(), 50);
    }
    bench.close_all(&[connection]);
}

#[test]
fn rows_have_the_figures_of_now() {
    let mut bench = Bench::default();
    let connection = bench.connect(10);
    let consumer = bench.consumer(connection, "closest/a", 2);
    let sender = bench.sender(connection, "closest/a");
    bench.take();
    for number in 0..5 {
        bench.send(sender, number, false, "four");
        bench.take();
    }
    bench.accept(0);
    bench.take();
    let address = addresses(&mut bench, 100).remove(0);
    assert_eq!((address.key.as_str(), address.name(), address.is_local), ("M0closest/a", "closest/a", false));
    assert_eq!((address.treatment, address.senders, address.consumers), (Treatment::Closest, 1, 1));
    assert_eq!((address.counters.deliveries, address.counters.egress, address.counters.accepted), (5, 2, 1));
    assert_eq!((address.depth_messages, address.depth_bytes, address.waiting), (4, 16, 3));
    assert_eq!(address.credit.local_in_links, 1);
    let rows = links(&mut bench, 100);
    let of = |id| rows.iter().find(|row| row.id == id).unwrap();
    let (consumer, sender) = (of(consumer), of(sender));
    assert_eq!((consumer.counters.deliveries, consumer.unsettled, consumer.undelivered), (2, 1, 0));
    assert_eq!((consumer.credit_available, consumer.capacity), (0, 10));
    assert_eq!((sender.counters.deliveries, sender.unsettled, sender.undelivered), (5, 1, 3));
    assert_eq!(sender.credit_window, Some(sender.credit_available + 4));
    assert_eq!(sender.address.as_deref(), Some("M0closest/a"));
    bench.close_all(&[connection]);
}

#[test]
fn a_receivers_own_address_is_local() {
    let mut bench = Bench::default();
    let connection = bench.connect(10);
    let events = bench.consumer(connection, "$events.threshold", 1);
    let rows = addresses(&mut bench, 100);
    assert!(rows[0].is_local && rows[0].key.starts_with("Ltemp."), "{rows:?}");
    // The router's own link to it is none that is shown.
    assert_eq!(links(&mut bench, 100).iter().map(|row| row.id).collect::<Vec<_>>(), [events]);
}

/// Links without credit are told of once, again when they had some in between; then nobody wakes for them.
#[test]
fn blocked_links_are_noticed_once() {
    let mut bench = Bench::default();
    let connection = bench.connect(10);
    let senders = [bench.sender(connection, "closest/a"), bench.sender(connection, "closest/b")];
    bench.take();
    let noticed = |bench: &mut Bench, seconds: u64| {
        let (mut notices, end, mut wakes) = (Vec::new(), bench.now + Duration::from_secs(seconds), 0);
        while let Some(at) = bench.router.poll_timeout().filter(|at| *at <= end) {
            bench.now = at.max(bench.now);
            bench.router.handle_timeout(bench.now);
            wakes += 1;
            while let Some(notice) = bench.router.poll_notice() {
                match notice {
                    Notice::Blocked { link, seconds } => {
                        assert!((10..=15).contains(&seconds), "{seconds}");
                        notices.push(link);
                    }
                    Notice::Stuck { .. } => panic!("nothing is stuck"),
                }
            }
        }
        bench.now = end;
        bench.take();
        (notices, wakes)
    };
    assert_eq!(noticed(&mut bench, 9).0, []);
    let (mut notices, _) = noticed(&mut bench, 16);
    notices.sort_by_key(|link| link.index);
    assert_eq!(notices, senders);
    let (notices, wakes) = noticed(&mut bench, 1000);
    assert!(notices.is_empty() && wakes <= 1, "{wakes}");
    // One gets credit, and loses it.
    let consumer = bench.consumer(connection, "closest/a", 1);
    bench.take();
    assert_eq!(noticed(&mut bench, 20).0, []);
    bench.end(consumer);
    bench.take();
    bench.router.sender_drained(senders[0], u32::MAX, bench.now);
    assert_eq!(noticed(&mut bench, 20).0, [senders[0]]);
    bench.close_all(&[connection]);
}
