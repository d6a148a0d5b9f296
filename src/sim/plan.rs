//! What happens in a simulation, drawn from its seed before it begins: who comes when, how each behaves, how it goes.

use super::client::{self, Handshake, Node};
use super::pipe::Manner;
use super::random::Random;
use super::world::{LaneSettings, WorldSettings};
use crate::engine;
use crate::link::{ReceiverSettleMode, SenderSettleMode};
use crate::routing::{
    AddressAttributes, AddressMatch, AddressRule, AddressRules, FlowControl, Marks, RouterSettings, Treatment,
};
use crate::sabotage;
use crate::time::Time;
use std::time::Duration;

#[derive(Clone, Debug)]
pub struct Plan {
    pub world: WorldSettings,
    pub peers: Vec<PeerPlan>,
    /// Joins, leaves, stalls happen before it.
    pub duration: Duration,
    /// At the end the router stops in an orderly way; else its clients go.
    pub router_stops: bool,
}

#[derive(Clone, Debug)]
pub struct PeerPlan {
    pub join_at: Time,
    pub client: client::Settings,
    pub to_router: Manner,
    pub to_client: Manner,
    /// A session each, by its incoming window in frames.
    pub sessions: Vec<u32>,
    pub links: Vec<LinkPlan>,
    pub end: Option<(Time, PeerEnd)>,
    /// The client doesn't read its socket.
    pub deaf: Option<(Time, Duration)>,
    /// The client doesn't open its sessions' windows.
    pub shut: Option<(Time, Duration)>,
}

impl PeerPlan {
    /// What the router writes is read soon, and the windows are wide.
    pub fn is_prompt(&self) -> bool {
        let quick = |manner: &Manner| manner.capacity >= 65_536 && manner.delay < Duration::from_millis(5);
        let wide = self.sessions.iter().all(|window| *window >= 2048);
        quick(&self.to_client) && quick(&self.to_router) && wide && self.deaf.is_none() && self.shut.is_none()
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PeerEnd {
    Close,
    /// The socket ends without a close.
    HangUp,
    Cut {
        reset: bool,
    },
    EndSessions,
}

#[derive(Clone, Debug)]
pub struct LinkPlan {
    pub session: usize,
    pub join_after: Duration,
    /// Detach at this time (closed or not), and attach again after a while, or never.
    pub leave: Option<(Time, bool, Option<Duration>)>,
    /// At the time of `leave` attach once more under the same name instead: the router ends the older link.
    pub steals: bool,
    /// Of what it leaves to chance: its own, so that it does the same whoever else is there.
    pub seed: u64,
    pub kind: LinkKind,
}

#[derive(Clone, Debug)]
pub enum LinkKind {
    Sender(SenderPlan),
    Receiver(ReceiverPlan),
}

#[derive(Clone, Debug)]
pub struct SenderPlan {
    pub node: Node,
    /// Where messages go: the node's address, or each one's own choice.
    pub addresses: Vec<String>,
    pub sender_mode: SenderSettleMode,
    pub receiver_mode: ReceiverSettleMode,
    /// How many of a hundred messages are sent settled.
    pub settled_percent: u64,
    pub messages: u32,
    /// None: as fast as credit allows.
    pub interval: Option<Duration>,
    /// Body bytes, at most.
    pub size_max: u64,
    pub abort_percent: u64,
    /// A message is sent in pieces with pauses.
    pub piecemeal_percent: u64,
    /// When asked to drain with nothing to send, answers.
    pub answers_drain: bool,
    /// Of a hundred unsettled messages, those that the sender settles before it hears what became of them.
    pub abandon_percent: u64,
    /// Each message asks for a reply to the address of this (dynamic) receiver of the same client.
    pub reply_link: Option<usize>,
}

#[derive(Clone, Debug)]
pub struct ReceiverPlan {
    pub node: Node,
    pub sender_mode: SenderSettleMode,
    pub receiver_mode: ReceiverSettleMode,
    pub window: u32,
    pub top_up: TopUp,
    /// Before the first credit.
    pub first_credit_after: Duration,
    pub service: Duration,
    pub settle_batch: u32,
    /// Of a hundred: accepted, rejected, released, modified.
    pub outcomes: [u64; 4],
    /// Takes nothing for a while.
    pub stall: Option<(Time, Duration)>,
    /// Drains so often.
    pub drain_every: Option<Duration>,
    /// Changes its credit to something random so often.
    pub change_every: Option<Duration>,
    /// What asks for a reply gets one through this (anonymous) sender of the same client.
    pub reply_through: Option<usize>,
    /// Bytes of the largest message that it takes; None: any.
    pub max_message_size: Option<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TopUp {
    Each,
    Half,
    Empty,
}

/// The prefixes that the simulated router is configured with.
pub fn rules() -> AddressRules {
    rules_with_marks(|| (None, None))
}

/// The same with marks on the depths, in messages and in bytes.
fn rules_with_marks(mut marks: impl FnMut() -> (Option<Marks>, Option<Marks>)) -> AddressRules {
    let mut rule = |prefix: &str, treatment| {
        let (alert_count, alert_size) = marks();
        AddressRule {
            matches: AddressMatch::Prefix(prefix.to_owned()),
            attributes: AddressAttributes {
                treatment: Some(treatment),
                alert_count,
                alert_size,
                ..AddressAttributes::default()
            },
        }
    };
    AddressRules::new(vec![
        rule("closest", Treatment::Closest),
        rule("balanced", Treatment::Balanced),
        rule("multicast", Treatment::Multicast),
        rule("unavailable", Treatment::Unavailable),
    ])
    .expect("four different prefixes")
}

fn marks(random: &mut Random, up_max: u64) -> Option<Marks> {
    random.percent(60).then(|| {
        let up = random.skewed(1, up_max);
        Marks { up, down: random.below(up) }
    })
}

fn milliseconds(random: &mut Random, low: u64, high: u64) -> Duration {
    Duration::from_micros(random.between(low * 1000, high * 1000))
}

impl Plan {
    /// A seed's.
    pub fn of(seed: u64) -> Plan {
        Plan::draw(&mut Random::new(seed))
    }

    pub fn draw(random: &mut Random) -> Plan {
        let duration = milliseconds(random, 500, 5000);
        let addresses = addresses(random);
        let mut peers: Vec<PeerPlan> =
            (0..random.between(2, 7)).map(|number| peer(random, number, duration, &addresses)).collect();
        if random.percent(25) {
            request_and_response(random, duration, &mut peers);
        }
        // Drawn apart: what the number of shards is changes nothing else of a plan.
        let shards = random.clone().fork();
        Plan { world: world(random, shards), peers, duration, router_stops: random.percent(20) }
    }
}

/// Some clients ask, others answer, over dynamic addresses.
fn request_and_response(random: &mut Random, duration: Duration, peers: &mut Vec<PeerPlan>) {
    let service = vec!["balanced/service".to_owned()];
    for number in 0..random.between(2, 4) {
        let mut peer = peer(random, 100 + number, duration, &service);
        let session = peer.links[0].session;
        let calm = |kind| LinkPlan { session, join_after: Duration::ZERO, leave: None, steals: false, seed: 0, kind };
        let mut receiver = receiver(random, duration, &service);
        let mut sender = sender(random, duration, &service);
        if number == 0 || random.percent(30) {
            receiver.reply_through = Some(1);
            (sender.node, sender.addresses, sender.messages) = (Node::Anonymous, Vec::new(), 0);
        } else {
            receiver.node = Node::Dynamic;
            (sender.node, sender.addresses) = (Node::Address(service[0].clone()), service.clone());
            sender.reply_link = Some(0);
        }
        peer.links = vec![calm(LinkKind::Receiver(receiver)), calm(LinkKind::Sender(sender))];
        peer.links.iter_mut().for_each(|link| link.seed = random.next());
        peers.push(peer);
    }
}

/// Few, so that clients meet.
fn addresses(random: &mut Random) -> Vec<String> {
    let names = ["balanced/a", "closest/b", "multicast/c", "plain", "balanced/d", "multicast/e"];
    (0..random.between(1, 3)).map(|_| (*random.pick(&names)).to_owned()).collect()
}

fn world(random: &mut Random, mut shards: Random) -> WorldSettings {
    let router = RouterSettings {
        rules: rules_with_marks(|| (marks(random, 50), marks(random, 20_000))),
        flow_control: if random.percent(75) { FlowControl::Share } else { FlowControl::Capacity },
        credit_slack_percent: *random.pick(&[0, 100, 100, 50]),
        seed: random.next(),
        ..RouterSettings::default()
    };
    let max_frame_size = *random.pick(&[512, 600, 4096, 16_384]);
    let engine = engine::Settings {
        max_frame_size,
        idle_timeout: if random.percent(80) { Duration::from_secs(16) } else { Duration::ZERO },
        session_incoming_bytes: *random.pick(&[2048, 64 * 1024, 4 * 1024 * 1024]),
        max_session_frames: random.percent(30).then(|| random.between(1, 20) as u32),
        initial_serial: *random.pick(&[0, 0, 1, u32::MAX, u32::MAX - 30, 0x7fff_fff0]),
        ..engine::Settings::default()
    };
    let mut world = WorldSettings {
        router,
        engine,
        link_capacity: *random.pick(&[250, 250, 1, 10, 1000]),
        chunk_bytes: *random.pick(&[512, 4096, 65_536]),
        turn_delay: Duration::from_micros(*random.pick(&[0, 10, 500])),
        edges_refused_percent: *random.pick(&[0, 0, 30, 90]),
        shards: *shards.pick(&[1, 1, 2, 2, 2, 3, 3, 4]),
        moves: shards.percent(70),
        lanes: LaneSettings {
            delay_max: Duration::from_micros(shards.skewed(1, 20_000)),
            parcels: shards.skewed(1, 64) as usize,
        },
        // Now and then so little that windows stay small and output short; seldom so little that nothing new is taken.
        memory_limit: shards.percent(20).then(|| shards.between(1, 16) as usize * (256 << 10)),
        sabotage: sabotage::Switch::default(),
        trace: false,
    };
    // Now and then so few that deliveries wait for each other's places. (A session has fewer links: one place for each stream.)
    if shards.percent(20) {
        world.engine.unsettled_max = shards.between(16, 64) as usize;
    }
    world
}

fn manner(random: &mut Random) -> Manner {
    Manner {
        delay: Duration::from_micros(random.skewed(1, 20_000)),
        jitter: Duration::from_micros(random.skewed(0, 2000)),
        capacity: *random.pick(&[300, 4096, 65_536, 1 << 20]),
        piece_max: match random.below(4) {
            0 => None,
            1 => Some(random.between(1, 40) as usize),
            _ => Some(random.between(100, 8000) as usize),
        },
    }
}

fn moment(random: &mut Random, duration: Duration) -> Time {
    Time::ZERO + Duration::from_nanos(random.below(duration.as_nanos() as u64))
}

fn span(random: &mut Random, duration: Duration) -> (Time, Duration) {
    (moment(random, duration), Duration::from_nanos(random.below(duration.as_nanos() as u64 / 2)))
}

fn peer(random: &mut Random, number: u64, duration: Duration, addresses: &[String]) -> PeerPlan {
    let sessions: Vec<u32> =
        (0..random.between(1, 3)).map(|_| *random.pick(&[1, 2, 10, 100, 2048, 2048, u32::MAX])).collect();
    let end = random.percent(35).then(|| {
        let how = match random.below(5) {
            0 => PeerEnd::Close,
            1 => PeerEnd::HangUp,
            2 => PeerEnd::Cut { reset: false },
            3 => PeerEnd::Cut { reset: true },
            _ => PeerEnd::EndSessions,
        };
        (moment(random, duration), how)
    });
    // What a stayer waits with is resolved before all is quiet.
    PeerPlan {
        join_at: if random.percent(60) { Time::ZERO } else { moment(random, duration / 2) },
        client: client::Settings {
            container_id: format!("client-{number}"),
            handshake: *random.pick(&[Handshake::Bare, Handshake::Sasl, Handshake::Pipelined]),
            max_frame_size: *random.pick(&[512, 1000, 16_384, u32::MAX]),
            frame_payload_max: *random.pick(&[100, 1000, 16_000]),
            idle_time_out: random.percent(20).then_some(2000),
            initial_serial: *random.pick(&[0, 0, 1, u32::MAX - 3, 0x8000_0000]),
        },
        to_router: manner(random),
        to_client: manner(random),
        links: (0..random.between(1, 4)).map(|_| link(random, sessions.len(), duration, addresses)).collect(),
        sessions,
        end,
        deaf: random.percent(15).then(|| span(random, duration)),
        shut: random.percent(15).then(|| span(random, duration)),
    }
}

fn link(random: &mut Random, sessions: usize, duration: Duration, addresses: &[String]) -> LinkPlan {
    let leave = random.percent(30).then(|| {
        let again = random.percent(50).then(|| milliseconds(random, 0, 300));
        (moment(random, duration), random.percent(70), again)
    });
    let sends = random.percent(50);
    LinkPlan {
        session: random.below(sessions as u64) as usize,
        join_after: if random.percent(50) { Duration::ZERO } else { milliseconds(random, 0, 200) },
        leave,
        steals: random.percent(15),
        seed: random.next(),
        kind: match sends {
            true => LinkKind::Sender(sender(random, duration, addresses)),
            false => LinkKind::Receiver(receiver(random, duration, addresses)),
        },
    }
}

fn sender(random: &mut Random, duration: Duration, addresses: &[String]) -> SenderPlan {
    let anonymous = random.percent(15);
    let (sender_mode, settled_percent) = match random.below(5) {
        0 => (SenderSettleMode::Settled, 100),
        1 => (SenderSettleMode::Mixed, random.below(101)),
        2 => (SenderSettleMode::Mixed, 0),
        _ => (SenderSettleMode::Unsettled, 0),
    };
    let huge = random.percent(1);
    let messages = random.skewed(1, if huge { 4 } else { 300 }) as u32;
    let mut addresses = addresses.to_vec();
    if anonymous {
        if random.percent(20) {
            addresses.push("unavailable/x".to_owned());
        }
        addresses.push("nobody/here".to_owned());
    } else {
        addresses = vec![random.pick(&addresses).clone()];
    }
    SenderPlan {
        node: if anonymous { Node::Anonymous } else { Node::Address(addresses[0].clone()) },
        addresses,
        sender_mode,
        receiver_mode: if random.percent(20) { ReceiverSettleMode::Second } else { ReceiverSettleMode::First },
        settled_percent,
        messages,
        interval: random.percent(40).then(|| duration / (messages + 1)),
        size_max: if huge { 1_000_000 } else { *random.pick(&[8, 200, 2000, 5000, 70_000]) },
        abort_percent: *random.pick(&[0, 0, 0, 10, 50]),
        piecemeal_percent: *random.pick(&[0, 0, 20]),
        answers_drain: random.percent(90),
        abandon_percent: *random.pick(&[0, 0, 0, 5]),
        reply_link: None,
    }
}

fn receiver(random: &mut Random, duration: Duration, addresses: &[String]) -> ReceiverPlan {
    ReceiverPlan {
        node: Node::Address(random.pick(addresses).clone()),
        sender_mode: *random.pick(&[
            SenderSettleMode::Mixed,
            SenderSettleMode::Mixed,
            SenderSettleMode::Mixed,
            SenderSettleMode::Settled,
        ]),
        receiver_mode: if random.percent(20) { ReceiverSettleMode::Second } else { ReceiverSettleMode::First },
        window: random.skewed(1, 300) as u32,
        top_up: *random.pick(&[TopUp::Each, TopUp::Half, TopUp::Empty]),
        first_credit_after: if random.percent(70) { Duration::ZERO } else { milliseconds(random, 0, 300) },
        service: if random.percent(60) { Duration::ZERO } else { Duration::from_micros(random.skewed(1, 10_000)) },
        settle_batch: random.skewed(1, 50) as u32,
        outcomes: *random.pick(&[[100, 0, 0, 0], [100, 0, 0, 0], [70, 10, 10, 10], [0, 0, 100, 0], [0, 0, 0, 100]]),
        stall: random.percent(20).then(|| span(random, duration)),
        drain_every: random.percent(15).then(|| milliseconds(random, 5, 300)),
        change_every: random.percent(10).then(|| milliseconds(random, 5, 300)),
        reply_through: None,
        max_message_size: random.percent(10).then(|| random.skewed(100, 10_000)),
    }
}
