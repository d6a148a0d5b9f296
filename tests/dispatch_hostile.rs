//! Peers that mean harm, at dispatch: what they do costs them, and not the others.

mod support;

use ringway::dispatch::Dispatch;
use ringway::engine::Settings;
use ringway::ids::{ConnectionId, ShardId};
use ringway::payload::Range;
use ringway::routing::{FlowControl, RouterSettings, Treatment};
use ringway::time::Time;
use ringway::wire::performative::{Attach, Disposition, Flow, Performative, Role, Transfer};
use std::sync::Arc;
use std::time::{Duration, Instant};
use support::client::{first, source, target, wide_open, Client};

struct World {
    dispatch: Dispatch,
    settings: Arc<Settings>,
    clients: Vec<(ConnectionId, Client)>,
    now: Time,
}

impl World {
    fn new() -> World {
        World::with(RouterSettings::default())
    }

    fn with(settings: RouterSettings) -> World {
        let dispatch = Dispatch::new(settings, ShardId(0), 1, false, Time::ZERO);
        World { dispatch, settings: Arc::new(Settings::default()), clients: Vec::new(), now: Time::ZERO }
    }

    /// A connection with a session.
    fn connect(&mut self) -> usize {
        let index = self.clients.len();
        let id = ConnectionId { index: index as u32, generation: 0 };
        self.dispatch.accepted(id, &self.settings, 250, self.now);
        let mut client = Client::default();
        client.header_and_open();
        client.begin(0);
        self.clients.push((id, client));
        self.pump();
        self.clients[index].1.frames();
        index
    }

    /// Turns until all that a client wrote is acted on.
    fn turns_until_read(&mut self, index: usize) -> u32 {
        let mut turns = 0;
        loop {
            self.turn();
            turns += 1;
            if self.dispatch.wants_input(self.clients[index].0) {
                return turns;
            }
        }
    }

    fn client(&mut self, index: usize) -> &mut Client {
        &mut self.clients[index].1
    }

    /// One turn: what clients wrote is read, as far as the router wants it, and all output delivered.
    fn turn(&mut self) {
        self.now = self.now + Duration::from_micros(1);
        for (id, client) in &mut self.clients {
            if client.has_output() && self.dispatch.wants_input(*id) {
                let bytes = client.take_output();
                for read in bytes.chunks(64 * 1024) {
                    self.dispatch.received(*id, Range::copied(read), self.now);
                }
            }
        }
        loop {
            let mut touched = Vec::new();
            self.dispatch.run(self.now, &mut touched);
            if touched.is_empty() {
                return;
            }
            for id in touched {
                if let Some(transmit) = self.dispatch.poll_transmit(id) {
                    self.clients[id.index as usize].1.feed(&transmit.to_vec());
                    self.dispatch.transmitted(transmit);
                }
            }
        }
    }

    fn pump(&mut self) {
        for _ in 0..20 {
            self.turn();
        }
    }
}

fn anonymous(handle: u32, name: &str) -> Vec<u8> {
    let mut client = Client::default();
    let (source, target) = (source(Some("client")), target(None));
    let attach = Attach { name, handle, role: Role::Sender, ..Attach::default() };
    client
        .attach(0, Attach { source: Some(&source), target: Some(&target), initial_delivery_count: Some(0), ..attach });
    client.take_output()
}

#[test]
fn a_message_that_can_t_be_decoded_is_rejected_as_such() {
    let mut world = World::new();
    let sender = world.connect();
    world.client(sender).raw(&anonymous(0, "a"));
    world.pump();
    world.client(sender).frames();
    world.client(sender).send(0, 0, 0, b"garbage");
    // A body without properties: nothing is wrong with it, but it names no address.
    world.client(sender).send(0, 0, 1, b"\x00\x53\x75\xa0\x01x");
    world.pump();
    let frames = world.client(sender).frames();
    let told: Vec<String> = frames
        .iter()
        .filter_map(|frame| match frame.performative() {
            Performative::Disposition(said) => said.state.map(|state| String::from_utf8_lossy(state).into_owned()),
            _ => None,
        })
        .collect();
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].contains("amqp:decode-error"), "{told:?}");
    assert!(told[1].contains("amqp:invalid-field"), "{told:?}");
}

/// Part of a message whose address hasn't come counts in its session's window as long as it is held, not longer.
#[test]
fn a_link_that_ends_in_the_middle_of_an_anonymous_message_gives_the_window_back() {
    let mut world = World::new();
    let sender = world.connect();
    let mut begin = vec![0x00, 0x53, 0x71, 0xd1, 0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 2];
    begin.resize(15_000, 0);
    for round in 0..600 {
        let client = world.client(sender);
        client.raw(&anonymous(0, &format!("a{round}")));
        world.turn();
        world.turn();
        let client = world.client(sender);
        client.transfer(0, Transfer { more: true, ..first(0, round, b"t") }, &begin);
        client.detach(0, 0, true);
        world.turn();
        world.turn();
        let briefs = world.client(sender).briefs();
        assert!(!briefs.iter().any(|brief| brief.starts_with("end")), "round {round}: {briefs:?}");
    }
}

#[test]
fn a_flood_of_dispositions_leaves_others_their_turn() {
    let mut world = World::new();
    let (receiver, sender) = (world.connect(), world.connect());
    world.client(receiver).attach_receiver(0, 0, "r", "q");
    world.client(receiver).credit(0, 0, 0, 10_000);
    world.pump();
    for link in 0..25 {
        world.client(sender).attach_sender(0, link, &format!("s{link}"), "q");
    }
    world.pump();
    for delivery in 0..200 {
        world.client(sender).send(0, delivery / 8, delivery, b"x");
    }
    world.pump();
    let transfers = world.client(receiver).briefs().iter().filter(|brief| *brief == "transfer").count();
    assert_eq!(transfers, 200);
    // 200 deliveries, each named 1,000 times in one read and a bit.
    let state = [0x00, 0x53, 0x23, 0xc0, 0x03, 0x02, 0x43, 0x44];
    for _ in 0..1_000 {
        world.client(receiver).disposition(
            0,
            Disposition {
                role: Role::Receiver,
                first: 0,
                last: Some(1 << 31),
                state: Some(&state),
                ..Disposition::default()
            },
        );
    }
    let id = world.clients[receiver].0;
    world.turn();
    assert!(!world.dispatch.wants_input(id), "it had its share");
    assert_eq!(world.dispatch.next_timeout().map(|at| at > world.now), Some(true));
    // Others are served meanwhile.
    world.client(sender).send(0, 0, 200, b"y");
    let mut turns = 1;
    while !world.dispatch.wants_input(id) {
        world.turn();
        turns += 1;
    }
    assert!((5..100).contains(&turns), "{turns}");
    world.pump();
    // The receiver's own word comes through when its turn is.
    world.client(receiver).accept(0, 0, Some(1 << 31));
    world.pump();
    assert_eq!(world.dispatch.router().deliveries_len(), 0);
}

/// Frames that nothing comes of have their share, too.
#[test]
fn a_flood_of_frames_about_nothing_leaves_others_their_turn() {
    let nothing =
        |settled| Disposition { role: Role::Receiver, last: Some(1 << 31), settled, ..Disposition::default() };
    for (what, frames) in [("settled", 60_000), ("unsettled", 60_000), ("flow", 60_000), ("session", 25_000)] {
        let mut world = World::new();
        let (peer, other) = (world.connect(), world.connect());
        for _ in 0..frames {
            let client = world.client(peer);
            match what {
                "settled" => client.disposition(0, nothing(true)),
                "unsettled" => client.disposition(0, nothing(false)),
                "flow" => client.flow(0, Flow { incoming_window: 10, outgoing_window: 10, ..Flow::default() }),
                _ => {
                    client.begin(1);
                    client.end(1);
                }
            }
        }
        let id = world.clients[peer].0;
        // In one read.
        let bytes = world.client(peer).take_output();
        world.dispatch.received(id, Range::copied(&bytes), world.now);
        assert!(!world.dispatch.wants_input(id), "{what}: it had its share");
        world.client(other).attach_receiver(0, 0, "r", "q");
        world.turn();
        world.turn();
        assert_eq!(world.client(other).briefs()[0], "attach", "{what}");
        assert!(!world.dispatch.wants_input(id), "{what}: and hasn't done with it");
        let mut turns = 0;
        while !world.dispatch.wants_input(id) {
            world.turn();
            turns += 1;
        }
        assert!(turns < 100, "{what}: {turns}");
        world.client(peer).attach_receiver(0, 0, "r", "q");
        world.pump();
        assert!(world.client(peer).briefs().iter().any(|brief| brief == "attach"), "{what}");
    }
}

/// A message to many consumers counts as many times.
#[test]
fn messages_to_many_consumers_leave_others_their_turn() {
    let mut world =
        World::with(RouterSettings { default_treatment: Treatment::Multicast, ..RouterSettings::default() });
    let (receiver, sender) = (world.connect(), world.connect());
    for link in 0..500 {
        world.client(receiver).attach_receiver(0, link, &format!("r{link}"), "m");
        world.client(receiver).credit(0, link, 0, 1_000);
    }
    for link in 0..25 {
        world.client(sender).attach_sender(0, link, &format!("s{link}"), "m");
    }
    world.pump();
    // By turns, so that each is told alone.
    for delivery in 0..200 {
        world.client(sender).send(0, delivery % 25, delivery, b"x");
    }
    let turns = world.turns_until_read(sender);
    assert_eq!(world.dispatch.router().deliveries_len(), 200 * 501);
    assert!((5..100).contains(&turns), "{turns}");
}

/// A session that takes deliveries again has all its consumers back, until the next delivery finds it full.
#[test]
fn a_session_opened_again_and_again_leaves_others_their_turn() {
    const LINKS: u32 = 2_000;
    let settings = RouterSettings { flow_control: FlowControl::Capacity, ..RouterSettings::default() };
    let mut world = World::with(settings);
    let (receiver, sender) = (world.connect(), world.connect());
    let flow = |frames| Flow { incoming_window: frames, next_incoming_id: Some(0), ..wide_open(0, 10) };
    for link in 0..LINKS {
        world.client(receiver).attach_receiver(0, link, &format!("r{link}"), "q");
        world.client(receiver).flow(0, Flow { handle: Some(link), ..flow(1) });
    }
    world.client(sender).attach_sender(0, 0, "s", "q");
    world.pump();
    for delivery in 0..100 {
        world.client(sender).transfer(0, Transfer { settled: Some(true), ..first(0, delivery, b"t") }, b"x");
    }
    world.pump();
    for frames in 2..=51 {
        world.client(receiver).flow(0, Flow { handle: None, delivery_count: None, link_credit: None, ..flow(frames) });
        // It ends a batch.
        world.client(receiver).begin(1);
        world.client(receiver).end(1);
    }
    let turns = world.turns_until_read(receiver);
    assert!((3..100).contains(&turns), "{turns}");
    world.pump();
    let transfers = world.client(receiver).briefs().iter().filter(|brief| *brief == "transfer").count();
    assert_eq!(transfers, 51);
}

/// Each time a session's window is opened all that waits of it is looked at: where that is much it is a share by itself.
#[test]
fn opening_a_window_again_and_again_leaves_others_their_turn() {
    // Small deliveries on each link.
    const LINKS: u32 = 800;
    const EACH: u32 = 200;
    let mut world = World::new();
    let settings = RouterSettings { flow_control: FlowControl::Capacity, ..RouterSettings::default() };
    world.dispatch = Dispatch::new(settings, ShardId(0), 1, false, Time::ZERO);
    let (receiver, sender) = (world.connect(), world.connect());
    for link in 0..LINKS {
        let address = format!("q{link}");
        world.client(receiver).attach_receiver(0, link, &address, &address);
        world.client(receiver).credit(0, link, 0, 1);
        world.client(sender).attach_sender(0, link, &format!("s{link}"), &address);
    }
    world.pump();
    let whole = |link, number| Transfer { settled: Some(true), ..first(link, number, b"t") };
    // It is under way, and has nothing left to send.
    let begin = Transfer { more: true, ..whole(0, 0) };
    world.client(sender).transfer(0, begin, &[0; 15_000]);
    for _ in 0..4 {
        world.client(sender).transfer(0, Transfer { handle: 0, more: true, ..Transfer::default() }, &[0; 15_000]);
    }
    let mut number = 0;
    for _ in 0..EACH {
        for link in 1..LINKS {
            number += 1;
            world.client(sender).transfer(0, whole(link, number), b"x");
            if number % 64 == 0 {
                world.pump();
            }
        }
    }
    world.pump();
    let id = world.clients[sender].0;
    // Each consumer took the first.
    assert_eq!(world.dispatch.router().deliveries_len() as u32, number + 2 - LINKS);
    assert!(world.dispatch.wants_input(id));
    let mut shares = 0;
    for _ in 0..320 {
        number += 1;
        world.client(sender).transfer(0, whole(number % (LINKS - 1) + 1, number), &[0; 15_000]);
        world.turn();
        shares += u32::from(!world.dispatch.wants_input(id));
        world.pump();
    }
    let briefs = world.client(sender).briefs();
    assert!(!briefs.iter().any(|brief| brief.starts_with("end") || brief.starts_with("close")), "{briefs:?}");
    assert!((1..320).contains(&shares), "{shares}");
}

/// However many links and sessions a peer has, what is held of messages whose address hasn't come is bounded.
#[test]
fn messages_without_an_address_yet_are_held_up_to_a_bound() {
    let mut world = World::new();
    let sender = world.connect();
    let mut begin = vec![0x00, 0x53, 0x71, 0xd1, 0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 2];
    begin.resize(15_000, 0);
    for link in 0..200 {
        world.client(sender).raw(&anonymous(link, &format!("a{link}")));
    }
    world.pump();
    let mut rejected = 0;
    for frame in 0..4 {
        for link in 0..200 {
            let transfer = if frame == 0 {
                Transfer { more: true, ..first(link, link, b"t") }
            } else {
                Transfer { handle: link, more: true, ..Transfer::default() }
            };
            world.client(sender).transfer(0, transfer, &begin);
            world.turn();
            world.turn();
        }
        world.pump();
        rejected += world.client(sender).briefs().iter().filter(|brief| *brief == "disposition").count();
    }
    // 12 MB in all, of which 4 are held; the session lives.
    assert!(rejected > 0);
    world.client(sender).attach_receiver(0, 300, "alive", "q");
    world.pump();
    assert!(world.client(sender).briefs().iter().any(|brief| brief == "attach"));
}

/// A world in which a sender has begun a message on two anonymous links, with annotations that are not all there yet.
fn begun() -> (World, usize) {
    let mut world = World::new();
    let sender = world.connect();
    for link in 0..2 {
        world.client(sender).raw(&anonymous(link, &format!("a{link}")));
    }
    world.pump();
    for link in 0..2 {
        let begin = b"\x00\x53\x72\xd1\x00\x00\xff\xf0\x00\x00\x00\x02";
        world.client(sender).transfer(0, Transfer { more: true, ..first(link, link, b"t") }, begin);
    }
    world.pump();
    (world, sender)
}

/// Brings so many later frames of these messages, by turns; gives how long that took.
fn go_on(world: &mut World, sender: usize, frames: u32, payload: &[u8]) -> Duration {
    let mut took = Duration::ZERO;
    for round in 0..frames / 100 {
        for frame in 0..100 {
            let transfer = Transfer { handle: frame % 2, more: true, ..Transfer::default() };
            world.client(sender).transfer(0, transfer, payload);
        }
        let start = Instant::now();
        world.turn();
        took += start.elapsed();
        let ended = world.client(sender).briefs().iter().any(|brief| brief.starts_with("end"));
        assert!(!ended, "round {round}");
    }
    took
}

/// What a frame costs doesn't grow with what is held already.
#[test]
fn a_held_message_in_tiny_pieces_costs_what_comes() {
    let measured = |pieces| {
        let (mut world, sender) = begun();
        go_on(&mut world, sender, pieces, b"x");
        let tiny = go_on(&mut world, sender, 2_000, b"x");
        let empty = go_on(&mut world, sender, 2_000, b"");
        (tiny, empty)
    };
    let least = |pieces| {
        let runs: Vec<_> = (0..3).map(|_| measured(pieces)).collect();
        (runs.iter().map(|run| run.0).min().unwrap(), runs.iter().map(|run| run.1).min().unwrap())
    };
    let (short, long) = (least(500), least(16_000));
    assert!(long.0 < 8 * short.0, "a tiny frame: {short:?}, {long:?}");
    assert!(long.1 < 8 * short.1, "an empty frame: {short:?}, {long:?}");
}
