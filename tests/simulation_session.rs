//! One session's window, shared by deliveries that would shut each other out: none is stuck for another's sake.

#![cfg(feature = "sim")]

use ringway::link::{ReceiverSettleMode, SenderSettleMode};
use ringway::outcome::StateKind;
use ringway::routing::RouterSettings;
use ringway::sim::client::{AttachRequest, Client, Event, LinkIndex, Node, SessionIndex, Settings};
use ringway::sim::message::{compose, Properties};
use ringway::sim::pipe::Manner;
use ringway::sim::plan::rules;
use ringway::sim::random::Random;
use ringway::sim::world::{Happening, PeerIndex, World, WorldSettings};
use ringway::time::Time;
use ringway::wire::performative::Role;
use ringway::wire::state;
use std::time::Duration;

struct Setting {
    world: World,
    producer: PeerIndex,
    links: Vec<LinkIndex>,
    consumer: PeerIndex,
}

fn attach(client: &mut Client, session: SessionIndex, name: &str, address: &str, role: Role) -> LinkIndex {
    client.attach(
        session,
        AttachRequest {
            name: name.to_owned(),
            node: Node::Address(address.to_owned()),
            role,
            sender_settle_mode: SenderSettleMode::Mixed,
            receiver_settle_mode: ReceiverSettleMode::First,
            max_message_size: None,
        },
    )
}

/// `senders` links on one session, and a consumer that takes one message after the other.
fn setting(senders: usize, address: &str, frames: Option<u32>, session_bytes: usize) -> Setting {
    let mut settings = WorldSettings {
        router: RouterSettings { rules: rules(), ..RouterSettings::default() },
        ..WorldSettings::default()
    };
    settings.engine.max_session_frames = frames;
    settings.engine.session_incoming_bytes = session_bytes;
    settings.engine.max_frame_size = 4096;
    let mut world = World::new(settings, Random::new(3));
    let manner = Manner { delay: Duration::from_micros(100), ..Manner::default() };
    let consumer = world.connect(Client::new(Settings::default()), manner.clone(), manner.clone());
    let producer = world.connect(Client::new(Settings::default()), manner.clone(), manner);
    let mut links = Vec::new();
    let (mut consuming, mut producing) = (false, false);
    while !(consuming && producing) {
        let Some(happening) = world.step() else { panic!("nothing happens") };
        let Happening::Client(peer) = happening else { continue };
        let client = world.client_mut(peer);
        while client.poll_event().is_some() {}
        if peer == consumer && !consuming && client.may_begin() {
            let session = client.begin(2048);
            attach(client, session, "consumer", address, Role::Receiver);
            consuming = true;
        } else if peer == producer && !producing && client.may_begin() {
            let session = client.begin(2048);
            links = (0..senders)
                .map(|number| attach(client, session, &format!("sender-{number}"), address, Role::Sender))
                .collect();
            producing = true;
        }
    }
    Setting { world, producer, links, consumer }
}

/// Each link sends a message of so many bytes, all at once, a piece each in turn. Gives the outcomes.
fn send_all(setting: &mut Setting, size: usize) -> Vec<Option<StateKind>> {
    let Setting { world, producer, links, consumer } = setting;
    let bodies: Vec<Vec<u8>> =
        (0..links.len()).map(|number| compose(number as u64, size, &Properties::default())).collect();
    let (mut sent, mut begun) = (vec![0; links.len()], vec![false; links.len()]);
    let mut outcomes = vec![None; links.len()];
    let end = world.now + Duration::from_secs(60);
    while outcomes.iter().any(Option::is_none) && world.now < end {
        let Some(happening) = world.step() else { break };
        let Happening::Client(peer) = happening else { continue };
        while let Some(event) = world.client_mut(peer).poll_event() {
            match event {
                Event::Attached { link, .. } if peer == *consumer => {
                    world.client_mut(peer).set_credit(link, 100, false);
                }
                Event::Message { link, delivery_id, bytes, .. } => {
                    assert!(bodies.contains(&bytes), "a message arrived changed");
                    let accepted = Some(&state::ACCEPTED[..]);
                    world.client_mut(peer).dispose(link, delivery_id, delivery_id, accepted, true);
                }
                Event::Outcome { link, kind, .. } => {
                    let number = links.iter().position(|own| *own == link).unwrap();
                    outcomes[number] = kind;
                }
                Event::Detached { condition, .. } => panic!("detached: {condition:?}"),
                Event::SessionEnded { condition, .. } => panic!("ended: {condition:?}"),
                _ => {}
            }
        }
        // Pieces by turns, as far as the window goes.
        let mut moved = peer == *producer;
        while std::mem::take(&mut moved) {
            for (number, link) in links.iter().enumerate() {
                let (body, at) = (&bodies[number], sent[number]);
                let piece = &body[at..(at + 3000).min(body.len())];
                let last = at + piece.len() == body.len();
                if at == body.len() {
                    continue;
                }
                let client = world.client_mut(*producer);
                let taken = if begun[number] {
                    client.send_part(*link, piece, last)
                } else {
                    let sending = client.send_begin(*link, false, &[number as u8], piece, last);
                    begun[number] = sending.is_some();
                    sending.map_or(0, |(_, taken)| taken)
                };
                sent[number] += taken;
                moved |= taken > 0;
            }
        }
        assert!(world.violation().is_none(), "{:?}", world.violation());
    }
    assert!(world.now >= Time::ZERO);
    outcomes
}

#[test]
fn a_window_of_one_frame_lets_large_messages_through() {
    for frames in [1, 2, 10] {
        let mut setting = setting(1, "balanced/q", Some(frames), 4 << 20);
        assert_eq!(send_all(&mut setting, 200_000), [Some(StateKind::Accepted)], "{frames} frames");
    }
}

#[test]
fn small_messages_of_many_frames_pass_a_small_window() {
    let mut setting = setting(8, "balanced/q", Some(4), 4 << 20);
    assert_eq!(send_all(&mut setting, 30_000), [Some(StateKind::Accepted); 8]);
}

#[test]
fn messages_for_one_consumer_do_not_shut_each_other_out() {
    for address in ["balanced/q", "multicast/q"] {
        for senders in [2, 10] {
            let mut setting = setting(senders, address, None, 64 * 1024);
            let outcomes = send_all(&mut setting, 300_000);
            assert_eq!(outcomes, vec![Some(StateKind::Accepted); senders], "{senders} senders to {address}");
        }
    }
}

/// What is longer than the router may hold beside a delivery under way goes back; nobody is stuck.
#[test]
fn huge_messages_for_one_consumer_end_one_way_or_another() {
    let mut setting = setting(2, "balanced/q", None, 4 << 20);
    let outcomes = send_all(&mut setting, 20_000_000);
    assert_eq!(outcomes[0], Some(StateKind::Accepted));
    assert!(matches!(outcomes[1], Some(StateKind::Accepted | StateKind::Released)), "{outcomes:?}");
}

/// A sender that takes its time over a large message holds the consumers' links, but it isn't they who stand still: what
/// others send meanwhile waits, and none of it is released for a consumer set aside.
#[test]
fn a_slow_sender_gets_no_multicast_consumer_set_aside() {
    let Setting { mut world, producer, links, consumer } = setting(2, "multicast/q", None, 4 << 20);
    let large = compose(1, 200_000, &Properties::default());
    let small = compose(2, 100, &Properties::default());
    let begin = world.now;
    for (token, at) in [(0, 100), (1, 500), (2, 5000)] {
        world.timer(begin + Duration::from_millis(at), token);
    }
    let (mut outcomes, mut sent) = (Vec::new(), 0);
    while outcomes.len() < 2 && world.now < begin + Duration::from_secs(20) {
        match world.step() {
            Some(Happening::Timer(0)) => {
                let (_, taken) =
                    world.client_mut(producer).send_begin(links[0], false, b"a", &large[..150_000], false).unwrap();
                sent = taken;
            }
            Some(Happening::Timer(1)) => {
                assert!(world.client_mut(producer).send_begin(links[1], false, b"b", &small, true).is_some());
            }
            Some(Happening::Timer(_)) => {
                world.client_mut(producer).send_part(links[0], &large[sent..], true);
            }
            Some(Happening::Client(peer)) => {
                while let Some(event) = world.client_mut(peer).poll_event() {
                    match event {
                        Event::Attached { link, .. } if peer == consumer => {
                            world.client_mut(peer).set_credit(link, 10, false);
                        }
                        Event::Message { link, delivery_id, .. } => {
                            let accepted = Some(&state::ACCEPTED[..]);
                            world.client_mut(peer).dispose(link, delivery_id, delivery_id, accepted, true);
                        }
                        Event::Outcome { kind, .. } => outcomes.push(kind),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    assert_eq!(outcomes, [Some(StateKind::Accepted); 2]);
}
