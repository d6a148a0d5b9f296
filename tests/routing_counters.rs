//! Every counter and time against a shadow that counts plainly what senders and consumers see.
//!
//! The shadow knows of each message who sent it and when, which consumers have it, and when its sender's side was over. From
//! that it counts anew, each time, what the router keeps.

#[path = "routing_support/mod.rs"]
mod support;

use ringway::ids::{ConnectionId, LinkId};
use ringway::link::Direction;
use ringway::outcome::{State, StateKind};
use ringway::routing::{AddressRow, Counters, LinkRow};
use ringway::time::Time;
use std::collections::BTreeMap;
use std::time::Duration;
use support::{Bench, Out};

/// A small generator, so that a failure's seed is all there is to know.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % bound.max(1)
    }
    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

const ADDRESSES: [&str; 4] = ["closest/a", "balanced/b", "multicast/c", "other"];

/// A message at a consumer.
struct Copy {
    link: LinkId,
    /// When the consumer was done with it, and with what outcome.
    over: Option<(Time, Option<StateKind>)>,
}

struct Message {
    link: LinkId,
    address: usize,
    settled: bool,
    at: Time,
    copies: Vec<Copy>,
    /// When its sender's side was over, and with what outcome.
    over: Option<(Time, Option<StateKind>)>,
    /// Somebody consumed the address when it came.
    entered: bool,
}

#[derive(Default)]
struct Shadow {
    messages: BTreeMap<u32, Message>,
    /// Of consumers: credit that they gave and that wasn't used, and when it was used up.
    room: BTreeMap<LinkId, (u32, Time)>,
    /// The same of senders.
    credit: BTreeMap<LinkId, (u32, Time)>,
    senders: BTreeMap<LinkId, usize>,
    consumers: BTreeMap<LinkId, usize>,
}

struct World {
    bench: Bench,
    random: Random,
    shadow: Shadow,
    connection: ConnectionId,
    next: u32,
    /// Of `bench.sent`: which message, and whether it is settled.
    sent: Vec<(u32, bool)>,
    disposed: usize,
    /// A sender of each address, that stays: so that none is forgotten with what it counted.
    stay: Vec<LinkId>,
}

fn is_multicast(address: usize) -> bool {
    ADDRESSES[address].starts_with("multicast")
}

impl World {
    fn new(seed: u64) -> World {
        let mut bench = Bench::default();
        // Of credit as well, for the shadow's.
        bench.quiet = false;
        bench.straight = seed % 2 == 0;
        let connection = bench.connect(50);
        let shadow = Shadow::default();
        let mut world = World {
            bench,
            random: Random(seed),
            shadow,
            connection,
            next: 0,
            sent: Vec::new(),
            disposed: 0,
            stay: Vec::new(),
        };
        for (address, name) in ADDRESSES.iter().enumerate() {
            let link = world.bench.sender(connection, name);
            world.shadow.senders.insert(link, address);
            world.shadow.credit.insert(link, (0, Time::ZERO));
            world.stay.push(link);
        }
        world
    }

    fn now(&self) -> Time {
        self.bench.now
    }

    /// Takes in what the router said.
    fn look(&mut self) {
        for out in self.bench.take() {
            let now = self.bench.now;
            match out {
                Out::Send(link, body, settled, complete) => {
                    assert!(complete);
                    let number: u32 = body.parse().unwrap();
                    self.sent.push((number, settled));
                    let room = self.shadow.room.get_mut(&link).unwrap();
                    room.0 -= 1;
                    if room.0 == 0 {
                        room.1 = now;
                    }
                    let message = self.shadow.messages.get_mut(&number).unwrap();
                    message.copies.push(Copy { link, over: settled.then_some((now, None)) });
                    if settled && !is_multicast(message.address) {
                        message.over = Some((now, None));
                    }
                }
                Out::Told(number, kind, true) => {
                    self.shadow.messages.get_mut(&number).unwrap().over = Some((now, kind));
                }
                Out::Credit(link, add) => {
                    let credit = self.shadow.credit.entry(link).or_default();
                    credit.0 += add;
                }
                _ => {}
            }
        }
        // A settled multicast message is over at once: whoever has room has it, the others miss it.
        for message in self.shadow.messages.values_mut().filter(|message| message.settled && message.over.is_none()) {
            if is_multicast(message.address) {
                message.over = Some((self.bench.now, None));
            }
        }
    }

    fn attach(&mut self) {
        let address = self.random.below(ADDRESSES.len());
        let now = self.now();
        if self.random.chance(50) {
            let link = self.bench.sender(self.connection, ADDRESSES[address]);
            self.shadow.senders.insert(link, address);
            self.shadow.credit.insert(link, (0, now));
        } else {
            let credit = self.random.below(12) as u32;
            let link = self.bench.consumer(self.connection, ADDRESSES[address], credit);
            self.shadow.consumers.insert(link, address);
            self.shadow.room.insert(link, (credit, now));
        }
        self.look();
    }

    fn send(&mut self) {
        let able: Vec<LinkId> = self.shadow.senders.keys().copied().collect();
        let Some(&link) = able.get(self.random.below(able.len())) else { return };
        let credit = self.shadow.credit.get_mut(&link).unwrap();
        if credit.0 == 0 {
            return;
        }
        credit.0 -= 1;
        if credit.0 == 0 {
            credit.1 = self.bench.now;
        }
        self.next += 1;
        let (number, settled, at) = (self.next, self.random.chance(30), self.now());
        let address = self.shadow.senders[&link];
        let entered = self.shadow.consumers.values().any(|of| *of == address);
        let message = Message { link, address, settled, at, copies: Vec::new(), over: None, entered };
        self.shadow.messages.insert(number, message);
        self.bench.send(link, number, settled, &number.to_string());
        self.look();
        if settled && !entered {
            self.shadow.messages.get_mut(&number).unwrap().over = Some((at, None));
        }
    }

    fn dispose(&mut self) {
        let at = self.disposed;
        if at >= self.sent.len() {
            return;
        }
        self.disposed += 1;
        let (number, settled) = self.sent[at];
        let link = self.bench.sent[at].0;
        if settled || !self.shadow.consumers.contains_key(&link) {
            return;
        }
        let kinds = [StateKind::Accepted, StateKind::Accepted, StateKind::Rejected, StateKind::Released];
        let kind = *kinds.get(self.random.below(5)).unwrap_or(&StateKind::Modified);
        let message = self.shadow.messages.get_mut(&number).unwrap();
        let copy = message.copies.iter_mut().find(|copy| copy.link == link).unwrap();
        copy.over = Some((self.bench.now, Some(kind)));
        self.bench.dispose(at, Some(State { kind, encoded: None }), true);
        self.look();
    }

    fn more_credit(&mut self) {
        let all: Vec<LinkId> = self.shadow.consumers.keys().copied().collect();
        let Some(&link) = all.get(self.random.below(all.len())) else { return };
        let used = self.bench.sent.iter().filter(|(to, _)| *to == link).count() as u32;
        let add = self.random.below(10) as u32;
        let room = self.shadow.room.get_mut(&link).unwrap();
        if add == 0 && room.0 > 0 {
            room.1 = self.bench.now;
        }
        room.0 = add;
        self.bench.router.credit(link, used, used + add, false, self.bench.now);
        self.look();
    }

    fn end(&mut self) {
        let all: Vec<LinkId> = self.shadow.senders.keys().chain(self.shadow.consumers.keys()).copied().collect();
        let Some(&link) = all.get(self.random.below(all.len())) else { return };
        let now = self.now();
        if self.stay.contains(&link) {
            return;
        }
        // Whose end makes no outcome that anybody sees is left to other tests: only idle senders end.
        if self.shadow.senders.contains_key(&link) {
            if self.shadow.messages.values().any(|message| message.link == link && message.over.is_none()) {
                return;
            }
            self.shadow.senders.remove(&link);
        }
        self.shadow.consumers.remove(&link);
        for message in self.shadow.messages.values_mut() {
            for copy in message.copies.iter_mut().filter(|copy| copy.link == link && copy.over.is_none()) {
                copy.over = Some((now, Some(StateKind::Modified)));
            }
        }
        let consumed = self.shadow.consumers.values().copied().collect::<Vec<_>>();
        self.bench.end(link);
        self.look();
        // Settled ones that waited for the last consumer are gone with it.
        for message in self.shadow.messages.values_mut() {
            if message.settled && message.over.is_none() && !consumed.contains(&message.address) {
                message.over = Some((now, None));
            }
        }
    }

    fn pass(&mut self) {
        let milliseconds = [0, 1, 20, 400, 3000, 12_000][self.random.below(6)];
        let end = self.now() + Duration::from_millis(milliseconds);
        while let Some(due) = self.bench.router.poll_timeout().filter(|due| *due <= end) {
            self.bench.now = self.bench.now.max(due);
            self.bench.router.handle_timeout(self.bench.now);
            self.look();
        }
        self.bench.now = end;
        self.bench.router.handle_timeout(end);
        self.look();
    }

    fn rows(&mut self) -> (Vec<AddressRow>, Vec<LinkRow>) {
        let now = self.now();
        let (addresses, _) = self.bench.router.address_rows(0, 1000, now);
        let (links, _) = self.bench.router.link_rows(0, 1000, now);
        (addresses, links)
    }

    fn check(&mut self) {
        let (addresses, links) = self.rows();
        for row in &links {
            self.check_link(row);
        }
        let all: Vec<&Message> = self.shadow.messages.values().collect();
        self.check_counters("all", &all, self.bench.router.totals());
        for (address, name) in ADDRESSES.iter().enumerate() {
            let row = addresses.iter().find(|row| row.name() == *name).unwrap();
            self.check_address(
                row,
                &all.iter().filter(|message| message.address == address).copied().collect::<Vec<_>>(),
            );
        }
        let taken: Vec<Duration> = all.iter().filter(|message| message.took_part()).filter_map(|m| m.age()).collect();
        let spread = self.bench.router.spread();
        // A multicast message that nobody was sent may have waited for somebody, or never had copies.
        let doubtful = |message: &&&Message| message.entered && !message.took_part() && message.over.is_some();
        let most = taken.len() + all.iter().filter(doubtful).count();
        let counted = spread.counts.iter().sum::<u64>() as usize;
        assert!((taken.len()..=most).contains(&counted), "times to settle: {counted} of {} to {most}", taken.len());
        assert_eq!(spread.sum_nanoseconds, taken.iter().map(|age| age.as_nanos() as u64).sum::<u64>());
    }

    fn check_address(&self, row: &AddressRow, own: &[&Message]) {
        self.check_counters(&row.key, own, &row.counters);
        assert_eq!(row.counters.egress, own.iter().flat_map(|message| &message.copies).count() as u64);
        let of = |attached: &BTreeMap<LinkId, usize>| {
            attached.values().filter(|address| ADDRESSES[**address] == row.name()).count() as u32
        };
        assert_eq!((row.senders, row.consumers), (of(&self.shadow.senders), of(&self.shadow.consumers)));
        if !is_multicast(own.first().map_or(0, |message| message.address)) {
            let here = own.iter().filter(|message| message.over.is_none()).count() as u64;
            assert_eq!(row.depth_messages, here, "{}", row.key);
            let taken = own.iter().filter(|message| message.took_part()).filter_map(|message| message.age());
            let sum: Duration = taken.clone().sum();
            let latency = (row.latency.count, u128::from(row.latency.sum_nanoseconds));
            assert_eq!(latency, (taken.clone().count() as u64, sum.as_nanos()), "{}", row.key);
            let longest = taken.max().unwrap_or_default().as_micros() as f64;
            assert!(row.latency.max_microseconds as f64 <= longest * 17.0 / 16.0 + 1.0, "{}", row.key);
        }
    }

    /// `counters` are those of these messages, as their senders see them.
    fn check_counters(&self, what: &str, messages: &[&Message], counters: &Counters) {
        let count = |is: &dyn Fn(&Message) -> bool| messages.iter().filter(|message| is(message)).count() as u64;
        assert_eq!(counters.deliveries, messages.len() as u64, "{what}");
        assert_eq!(counters.presettled, count(&|message| message.settled), "{what}");
        let outcome = |kind| count(&|message: &Message| message.over.is_some_and(|(_, outcome)| outcome == Some(kind)));
        let outcomes =
            [StateKind::Accepted, StateKind::Rejected, StateKind::Released, StateKind::Modified].map(outcome);
        let counted = [counters.accepted, counters.rejected, counters.released, counters.modified];
        assert_eq!(counted, outcomes, "{what}: outcomes");
        let dropped = |message: &Message| message.settled && message.over.is_some() && message.copies.is_empty();
        assert_eq!(counters.dropped_presettled, count(&dropped), "{what}: dropped");
        self.check_ages(what, messages.iter().map(|message| (message.at, message.over.map(|over| over.0))), counters);
    }

    fn check_ages(&self, what: &str, spans: impl Iterator<Item = (Time, Option<Time>)> + Clone, counters: &Counters) {
        let now = self.now();
        let over = spans.clone().filter_map(|(from, to)| Some(to?.since(from).as_millis()));
        let delayed = |from, to| over.clone().filter(|age| (from..to).contains(age)).count() as u64;
        assert_eq!(counters.delayed_1s, delayed(1000, 10_000), "{what}: delayed for 1 s");
        assert_eq!(counters.delayed_10s, delayed(10_000, u128::MAX), "{what}: delayed for 10 s");
        // Those that are still here may have become it since the last sweep.
        let here = |age: u128| {
            spans.clone().filter(|(from, to)| to.is_none() && now.since(*from).as_millis() >= age).count() as u64
        };
        let (least, most) = (counters.delayed_10s + here(11_100), counters.delayed_10s + here(10_000));
        assert!((least..=most).contains(&counters.stuck), "{what}: {} stuck of {least} to {most}", counters.stuck);
    }

    fn check_link(&self, row: &LinkRow) {
        let what = format!("{:?} {:?}", row.direction, row.id);
        let now = self.now();
        let dry = |(room, since): (u32, Time)| if room == 0 { now.since(since).as_secs() as u32 } else { 0 };
        if row.direction == Direction::Incoming {
            let own: Vec<&Message> = self.shadow.messages.values().filter(|message| message.link == row.id).collect();
            self.check_counters(&what, &own, &row.counters);
            let here = own.iter().filter(|message| message.over.is_none()).count() as u32;
            assert_eq!(row.undelivered + row.unsettled, here, "{what}: unsettled");
            let credit = self.shadow.credit[&row.id];
            assert_eq!((row.credit_available, row.zero_credit_seconds), (credit.0, dry(credit)), "{what}: credit");
            return;
        }
        let own: Vec<(&Message, &Copy)> = (self.shadow.messages.values())
            .flat_map(|message| message.copies.iter().map(move |copy| (message, copy)))
            .filter(|(_, copy)| copy.link == row.id)
            .collect();
        assert_eq!(row.counters.deliveries, own.len() as u64, "{what}");
        assert_eq!(row.counters.presettled, own.iter().filter(|(message, _)| message.settled).count() as u64, "{what}");
        let outcome =
            |kind| own.iter().filter(|(_, copy)| copy.over.is_some_and(|over| over.1 == Some(kind))).count() as u64;
        let outcomes =
            [StateKind::Accepted, StateKind::Rejected, StateKind::Released, StateKind::Modified].map(outcome);
        let counted = [row.counters.accepted, row.counters.rejected, row.counters.released, row.counters.modified];
        assert_eq!(counted, outcomes, "{what}: outcomes");
        assert_eq!(row.unsettled as usize, own.iter().filter(|(_, copy)| copy.over.is_none()).count(), "{what}");
        let room = self.shadow.room[&row.id];
        assert_eq!((row.credit_available, row.zero_credit_seconds), (room.0, dry(room)), "{what}: credit");
    }
}

impl Message {
    fn age(&self) -> Option<Duration> {
        Some(self.over?.0.since(self.at))
    }

    /// Somebody consumed its address when it came; of a multicast message, somebody got it, or it waited for somebody.
    fn took_part(&self) -> bool {
        let waited = self.age().is_some_and(|age| age > Duration::ZERO);
        self.entered && (!is_multicast(self.address) || !self.copies.is_empty() || waited)
    }
}

fn life(seed: u64) {
    let mut world = World::new(seed);
    for step in 0..600 {
        match world.random.below(20) {
            0 => world.attach(),
            1 if step > 100 => world.end(),
            2..=9 => world.send(),
            10..=14 => world.dispose(),
            15..=16 => world.more_credit(),
            17 => world.pass(),
            _ => {}
        }
        if step % 7 == 0 {
            world.check();
        }
    }
    world.check();
    let connection = world.connection;
    world.bench.close_all(&[connection]);
}

#[test]
fn counters_are_those_of_a_plain_shadow() {
    let seeds = std::env::var("RINGWAY_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(60);
    for seed in 1..=seeds {
        let result = std::panic::catch_unwind(|| life(seed));
        if let Err(panic) = result {
            println!("seed {seed}");
            std::panic::resume_unwind(panic);
        }
    }
}

/// So many messages a second go through, for so many seconds.
fn flow(bench: &mut Bench, sender: LinkId, per_second: u64, seconds: u64) {
    for at in 0..per_second * seconds {
        let end = bench.now + Duration::from_nanos(1_000_000_000 / per_second);
        while let Some(due) = bench.router.poll_timeout().filter(|due| *due <= end) {
            bench.now = bench.now.max(due);
            bench.router.handle_timeout(bench.now);
        }
        bench.now = end;
        let sent = bench.sent.len();
        bench.send(sender, at as u32, false, "m");
        bench.take();
        bench.accept(sent);
        bench.take();
        let used = bench.sent.len() as u32;
        bench.router.credit(bench.sent[sent].0, used, used + 10, false, bench.now);
        bench.take();
    }
}

#[test]
fn rates_are_those_of_the_last_seconds() {
    let mut bench = Bench::default();
    bench.now = Time::from_millis(100_000);
    let connection = bench.connect(50);
    bench.consumer(connection, "closest/a", 10);
    let sender = bench.sender(connection, "closest/a");
    bench.take();
    let rates = |bench: &mut Bench| {
        let (addresses, links) =
            (bench.router.address_rows(0, 100, bench.now).0, bench.router.link_rows(0, 100, bench.now).0);
        let links: Vec<u32> = links.iter().map(|row| row.settle_rate).collect();
        (addresses[0].ingress_rate, addresses[0].egress_rate, links)
    };
    for (per_second, seconds) in [(100, 1), (100, 7), (400, 6), (10, 6)] {
        flow(&mut bench, sender, per_second, seconds);
        let (ingress, egress, links) = rates(&mut bench);
        for rate in links.into_iter().chain([ingress, egress]) {
            let wanted = per_second as u32;
            assert!(rate.abs_diff(wanted) <= wanted / 20 + 1, "{rate} for {wanted}");
        }
    }
    bench.now = bench.now + Duration::from_secs(60);
    bench.router.handle_timeout(bench.now);
    let (ingress, egress, links) = rates(&mut bench);
    assert!(links.into_iter().chain([ingress, egress]).all(|rate| rate <= 1));
    for _ in 0..2 {
        bench.now = bench.now + Duration::from_secs(5);
        bench.router.handle_timeout(bench.now);
    }
    assert_eq!(rates(&mut bench), (0, 0, vec![0, 0]));
    // Then nothing wakes anybody for their sake.
    bench.close_all(&[connection]);
    for _ in 0..3 {
        bench.now = bench.now + Duration::from_secs(5);
        bench.router.handle_timeout(bench.now);
    }
    assert_eq!(bench.router.poll_timeout(), None);
}
