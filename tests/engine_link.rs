//! Links: termini, answers, refusal, stealing, detach, drain, message size.

mod support;

use ringway::engine::{Direction, Event, LinkAnswer, ReceiverSettleMode, SenderSettleMode, Sent, Settings, Terminus};
use ringway::outcome::Fault;
use ringway::payload::{Payload, Range};
use ringway::wire::performative::{self as wire, Attach, Detach, Flow, Performative, Role, Transfer};
use ringway::wire::terminus::{AnyTarget, Coordinator, Source, Target};
use support::client::{first, source, target};
use support::pair::{names, Pair};

#[test]
fn an_attach_is_told_and_answered_with_its_own_ends() {
    let mut pair = Pair::opened(Settings::default());
    let mut source = Vec::new();
    Source {
        address: Some("q"),
        durable: 1,
        distribution_mode: Some("copy"),
        capabilities: ringway::wire::Symbols::names(&["queue", "shared"]),
        ..Source::default()
    }
    .encode(&mut source);
    let target = target(Some("mine"));
    pair.client.attach(
        0,
        Attach {
            name: "r",
            handle: 4,
            role: Role::Receiver,
            snd_settle_mode: wire::SenderSettleMode::Settled,
            rcv_settle_mode: wire::ReceiverSettleMode::Second,
            source: Some(&source),
            target: Some(&target),
            max_message_size: Some(77),
            ..Attach::default()
        },
    );
    pair.pump();
    let Event::Attached { attach, .. } = &pair.events[0] else { panic!() };
    assert_eq!(attach.name, "r");
    assert_eq!(attach.direction, Some(Direction::Outgoing));
    assert_eq!(attach.sender_settle_mode, SenderSettleMode::Settled);
    assert_eq!(attach.receiver_settle_mode, ReceiverSettleMode::Second);
    assert_eq!(attach.max_message_size, 77);
    let expected = Terminus::Node { address: Some("q".to_owned()), dynamic: false };
    assert_eq!(attach.terminus, expected);
    let frame = pair.client.next().unwrap();
    let Performative::Attach(answer) = frame.performative() else { panic!("{frame:?}") };
    assert_eq!((answer.name, answer.handle, answer.role), ("r", 0, Role::Sender));
    assert_eq!((answer.source, answer.target), (Some(&source[..]), Some(&target[..])));
    assert_eq!(answer.initial_delivery_count, Some(0));
    assert_eq!(answer.snd_settle_mode, wire::SenderSettleMode::Settled);
    assert_eq!(answer.rcv_settle_mode, wire::ReceiverSettleMode::Second);
    assert_eq!(answer.max_message_size, None);
}

#[test]
fn case_19_a_refusal_is_an_attach_with_a_null_terminus_then_detach() {
    for (role, channel) in [(Role::Sender, 0), (Role::Receiver, 0)] {
        let mut pair = Pair::opened(Settings::default());
        pair.accepts = false;
        match role {
            Role::Sender => pair.client.attach_sender(channel, 0, "l", "a"),
            Role::Receiver => pair.client.attach_receiver(channel, 0, "l", "a"),
        }
        pair.pump();
        let link = pair.attached();
        pair.events.clear();
        pair.engine.refuse_link(link, &Fault::link("amqp:not-found", "no such address"));
        pair.pump();
        let frames = pair.client.frames();
        let Performative::Attach(attach) = frames[0].performative() else { panic!("{frames:?}") };
        match role {
            Role::Sender => assert_eq!((attach.role, attach.target.is_none()), (Role::Receiver, true)),
            Role::Receiver => assert_eq!((attach.role, attach.source.is_none()), (Role::Sender, true)),
        }
        let Performative::Detach(Detach { closed: true, error: Some(error), .. }) = frames[1].performative() else {
            panic!("{frames:?}")
        };
        assert_eq!((error.condition, error.description), ("amqp:not-found", Some("no such address")));
        assert!(pair.events.is_empty(), "nothing was accepted, nothing ends");
        assert_eq!(pair.engine.link_count(), 0);
        // In flight meanwhile: swallowed; the handle is free after the peer's detach.
        pair.client.credit(0, 0, 0, 10);
        pair.client.detach(0, 0, true);
        pair.client.attach_sender(0, 0, "l", "b");
        pair.pump();
        assert_eq!(names(&pair.events), ["attached"]);
        assert!(pair.client.briefs().is_empty());
    }
}

#[test]
fn the_second_attach_of_a_name_and_role_steals() {
    let (mut pair, old) = Pair::with_sender(Settings::default(), 5);
    pair.client.begin(1);
    // Another role, another link.
    pair.client.attach_receiver(1, 0, "sender", "a");
    pair.pump();
    assert_eq!(pair.client.briefs(), ["begin", "attach"]);
    pair.events.clear();
    pair.client.attach_sender(1, 1, "sender", "a");
    pair.pump();
    let frames = pair.client.frames();
    assert_eq!(frames[0].brief(), "detach amqp:link:stolen");
    assert_eq!((frames[0].channel, frames[1].channel), (0, 1));
    assert_eq!(frames[1].brief(), "attach");
    assert_eq!(names(&pair.events), ["link-ended", "attached"]);
    assert!(matches!(pair.events[0], Event::LinkEnded { link, .. } if link == old));
    // What the old link had under way is swallowed.
    pair.client.send(0, 0, 0, b"late");
    pair.client.detach(0, 0, true);
    pair.pump();
    assert_eq!(pair.events.len(), 2);
    assert!(pair.client.briefs().is_empty());
}

#[test]
fn case_21_absent_termini_are_accepted_and_told() {
    let empty_source = b"\x00\x53\x28\x45";
    let empty_target = b"\x00\x53\x29\x45";
    let mut pair = Pair::opened(Settings::default());
    let (own_source, own_target) = (source(Some("a")), target(Some("a")));
    let base = Attach { initial_delivery_count: Some(0), ..Attach::default() };
    let attaches = [
        Attach { name: "0", handle: 0, role: Role::Sender, target: Some(&own_target), ..base },
        Attach { name: "1", handle: 1, role: Role::Receiver, source: Some(&own_source), ..base },
        Attach {
            name: "2",
            handle: 2,
            role: Role::Sender,
            source: Some(empty_source),
            target: Some(empty_target),
            ..base
        },
        Attach {
            name: "3",
            handle: 3,
            role: Role::Receiver,
            source: Some(empty_source),
            target: Some(empty_target),
            ..base
        },
        Attach { name: "4", handle: 4, role: Role::Sender, ..base },
        Attach { name: "5", handle: 5, role: Role::Receiver, ..base },
    ];
    for attach in attaches {
        pair.client.attach(0, attach);
    }
    pair.pump();
    assert_eq!(pair.client.briefs(), vec!["attach"; 6]);
    let termini: Vec<Terminus> = pair
        .events()
        .into_iter()
        .map(|event| match event {
            Event::Attached { attach, .. } => attach.terminus,
            other => panic!("{other:?}"),
        })
        .collect();
    let node = |address: Option<&str>| Terminus::Node { address: address.map(str::to_owned), dynamic: false };
    let expected = [node(Some("a")), node(Some("a")), node(None), node(None), Terminus::Absent, Terminus::Absent];
    assert_eq!(termini, expected);
}

#[test]
fn case_23_addresses_pass_as_they_are() {
    // What a URL means is routing's; the engine changes no byte of it.
    for address in ["amqp://h/q", "amqps://h:1/q", "/q", "q"] {
        let mut pair = Pair::opened(Settings::default());
        pair.client.attach_sender(0, 0, "l", address);
        pair.pump();
        let Event::Attached { attach, .. } = &pair.events[0] else { panic!() };
        assert!(matches!(&attach.terminus, Terminus::Node { address: Some(a), .. } if a == address));
    }
}

#[test]
fn a_coordinator_is_told() {
    let mut pair = Pair::opened(Settings::default());
    let mut target = Vec::new();
    Coordinator::default().encode(&mut target);
    pair.client.attach(0, Attach { name: "txn", target: Some(&target), ..Attach::default() });
    pair.pump();
    assert!(matches!(&pair.events[0], Event::Attached { attach, .. } if attach.terminus == Terminus::Coordinator));
}

#[test]
fn a_dynamic_node_gets_its_address() {
    let mut pair = Pair::opened(Settings::default());
    pair.accepts = false;
    let (mut dynamic_source, mut dynamic_target) = (Vec::new(), Vec::new());
    Source { dynamic: true, timeout: 9, ..Source::default() }.encode(&mut dynamic_source);
    Target { dynamic: true, timeout: 9, ..Target::default() }.encode(&mut dynamic_target);
    let receiver = Attach { name: "r", role: Role::Receiver, source: Some(&dynamic_source), ..Attach::default() };
    pair.client.attach(0, receiver);
    let sender = Attach { name: "s", handle: 1, target: Some(&dynamic_target), ..Attach::default() };
    pair.client.attach(0, sender);
    pair.pump();
    for event in pair.events() {
        let Event::Attached { link, attach } = event else { panic!() };
        assert!(matches!(attach.terminus, Terminus::Node { dynamic: true, address: None, .. }));
        let token = pair.token();
        pair.engine.accept_link(link, token, LinkAnswer { dynamic_address: Some("temp.1"), ..Default::default() });
    }
    pair.pump();
    let frames = pair.client.frames();
    let Performative::Attach(answer) = frames[0].performative() else { panic!() };
    let source = Source::decode(answer.source.unwrap()).unwrap();
    assert_eq!((source.address, source.dynamic, source.timeout), (Some("temp.1"), true, 9));
    let Performative::Attach(answer) = frames[1].performative() else { panic!() };
    let AnyTarget::Target(target) = AnyTarget::decode(answer.target.unwrap()).unwrap() else { panic!() };
    assert_eq!((target.address, target.dynamic, target.timeout), (Some("temp.1"), true, 9));
}

#[test]
fn case_22_no_limit_is_left_out_and_a_limit_is_said() {
    for (limit, said) in [(0, None), (100, Some(100))] {
        let mut pair = Pair::opened(Settings { max_message_size: limit, ..Settings::default() });
        pair.client.attach_sender(0, 0, "s", "a");
        pair.client.attach_receiver(0, 1, "r", "a");
        pair.pump();
        let frames = pair.client.frames();
        let Performative::Attach(answer) = frames[0].performative() else { panic!() };
        assert_eq!(answer.max_message_size, said);
        let Performative::Attach(answer) = frames[1].performative() else { panic!() };
        assert_eq!(answer.max_message_size, None);
    }
}

#[test]
fn case_22_a_message_over_the_limit_detaches_its_link() {
    let settings = Settings { max_message_size: 100, ..Settings::default() };
    let (mut pair, _) = Pair::with_sender(settings.clone(), 5);
    pair.client.send(0, 0, 0, &[1; 100]);
    pair.pump();
    assert_eq!(names(&pair.events()), ["transfer"]);
    pair.client.send(0, 0, 1, &[1; 101]);
    pair.pump();
    assert_eq!(names(&pair.events()), ["link-ended"]);
    assert_eq!(pair.client.briefs(), ["detach amqp:link:message-size-exceeded"]);
    assert!(!pair.engine.is_closed());

    // Of unknown size, streamed over it: nobody takes the part for the whole.
    let (mut pair, _) = Pair::with_sender(settings, 5);
    pair.client.transfer(0, Transfer { more: true, ..first(0, 0, b"t") }, &[1; 60]);
    pair.client.transfer(0, Transfer { more: true, ..Transfer::default() }, &[1; 60]);
    pair.client.transfer(0, Transfer { more: false, ..Transfer::default() }, &[1; 60]);
    pair.pump();
    assert_eq!(names(&pair.events), ["transfer", "link-ended"]);
    assert!(matches!(&pair.events[0], Event::Transfer(transfer) if transfer.more));
    assert_eq!(pair.client.briefs(), ["detach amqp:link:message-size-exceeded"]);
}

#[test]
fn detach_is_answered_in_kind() {
    for closed in [false, true] {
        let (mut pair, link) = Pair::with_receiver(Settings::default(), 5);
        pair.client.frame(
            0,
            Performative::Detach(Detach {
                handle: 0,
                closed,
                error: Some(ringway::wire::error::Error::new("app:bored", "so it is")),
            }),
        );
        pair.pump();
        let frame = pair.client.next().unwrap();
        assert!(
            matches!(frame.performative(), Performative::Detach(Detach { closed: c, error: None, .. }) if c == closed)
        );
        let Event::LinkEnded { link: ended, token, closed: c, error: Some(error) } = &pair.events[0] else { panic!() };
        assert_eq!((*ended, *c, token.is_some()), (link, closed, true));
        assert_eq!((error.condition.as_str(), error.description.as_str()), ("app:bored", "so it is"));
        assert_eq!(pair.engine.link_token(link), None);
    }
}

#[test]
fn credit_that_comes_behind_a_detach_is_ignored() {
    let (mut pair, _) = Pair::with_receiver(Settings::default(), 5);
    pair.client.detach(0, 0, true);
    pair.client.credit(0, 0, 0, 50);
    pair.pump();
    assert_eq!(names(&pair.events()), ["link-ended"]);
    assert_eq!(pair.client.briefs(), ["detach"]);
    // A handle that never was attached is still an error.
    pair.client.credit(0, 1, 0, 50);
    pair.pump();
    assert_eq!(pair.client.briefs(), ["end amqp:session:unattached-handle"]);
}

#[test]
fn our_detach_ends_the_link_once() {
    let (mut pair, link) = Pair::with_receiver(Settings::default(), 5);
    let delivery = pair.next_delivery();
    pair.engine.send(link, delivery, 0, false, true, Payload::copied(b"x"));
    pair.engine.detach(link, &Fault::link("qd:routed-link-lost", ""));
    pair.engine.detach(link, &Fault::link("qd:routed-link-lost", ""));
    pair.pump();
    assert_eq!(names(&pair.events()), ["link-ended"]);
    assert_eq!(pair.client.briefs(), ["transfer", "detach qd:routed-link-lost"]);
    pair.client.accept(0, 0, None);
    pair.client.credit(0, 0, 1, 50);
    pair.client.detach(0, 0, true);
    pair.pump();
    assert!(pair.events.is_empty() && pair.client.briefs().is_empty());
    // Commands for what is gone do nothing.
    let delivery = pair.next_delivery();
    pair.engine.send(link, delivery, 0, false, true, Payload::copied(b"x"));
    pair.engine.grant(link, 5, false);
    pair.engine.drained(link);
    pair.pump();
    assert!(pair.client.briefs().is_empty());
}

#[test]
fn faults_of_wider_scope_end_what_they_say() {
    let (mut pair, link) = Pair::with_receiver(Settings::default(), 5);
    pair.engine.detach(link, &Fault::session("amqp:internal-error", ""));
    pair.pump();
    assert_eq!(pair.client.briefs(), ["end amqp:internal-error"]);
    let (mut pair, link) = Pair::with_receiver(Settings::default(), 5);
    pair.engine.detach(link, &Fault::connection("amqp:internal-error", ""));
    pair.pump();
    assert_eq!(pair.client.briefs(), ["close amqp:internal-error"]);
    assert_eq!(names(&pair.events), ["link-ended", "closed"]);
}

#[test]
fn a_detach_before_the_answer() {
    let mut pair = Pair::opened(Settings::default());
    pair.accepts = false;
    pair.client.attach_sender(0, 0, "l", "a");
    pair.client.detach(0, 0, true);
    pair.pump();
    assert_eq!(pair.client.briefs(), ["attach", "detach"]);
    assert_eq!(names(&pair.events), ["attached", "link-ended"]);
    assert!(matches!(pair.events[1], Event::LinkEnded { token: None, .. }));
}

#[test]
fn case_29_never_beyond_the_credit_whatever_the_receiver_does() {
    let (mut pair, link) = Pair::with_receiver(Settings::default(), 0);
    let mut seed = 7u32;
    let mut random = move |below: u32| {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (seed >> 8) % below
    };
    let (mut sent, mut received, mut limit, mut busy) = (0u32, 0u32, 0u32, false);
    for _ in 0..5_000 {
        match random(3) {
            0 => {
                // Nothing is under way; the credit may be less than before.
                pair.pump();
                received += pair.client.frames().len() as u32;
                assert!(received <= limit, "{received} of {limit}");
                let credit = random(10);
                pair.client.credit(0, 0, received, credit);
                limit = received + credit;
                pair.pump();
            }
            1 if !busy => {
                // Routing's view may be older than the receiver's word: it sends regardless.
                let delivery = pair.next_delivery();
                busy = pair.engine.send(link, delivery, 0, true, true, Payload::copied(b"x")) == Sent::Partly;
                sent += 1;
            }
            _ => pair.pump(),
        }
        for event in pair.events() {
            if let Event::PayloadSent { complete: true, .. } = event {
                busy = false;
            }
        }
        for frame in pair.client.frames() {
            assert!(matches!(frame.performative(), Performative::Transfer(_)), "{frame:?}");
            received += 1;
            assert!(received <= limit, "{received} of {limit}");
        }
    }
    assert!(sent > 1_000 && sent - received <= 1 + u32::from(busy));
}

#[test]
fn case_31_drain_uses_up_the_credit() {
    let (mut pair, link) = Pair::with_receiver(Settings { initial_serial: u32::MAX - 3, ..Settings::default() }, 0);
    let initial = u32::MAX - 3;
    let flow = support::client::wide_open(initial, 7);
    pair.client.flow(0, Flow { handle: Some(0), drain: true, next_incoming_id: Some(initial), ..flow });
    pair.pump();
    let Some(Event::Credit { delivery_count, limit, drain: true, .. }) = pair.events.last() else { panic!() };
    assert_eq!((*delivery_count, *limit), (initial, initial.wrapping_add(7)));
    pair.engine.drained(link);
    pair.pump();
    let frame = pair.client.next().unwrap();
    let Performative::Flow(flow) = frame.performative() else { panic!("{frame:?}") };
    assert_eq!((flow.delivery_count, flow.link_credit), (Some(initial.wrapping_add(7)), Some(0)));
    assert!(flow.drain);
    // New credit after it.
    pair.events.clear();
    let flow = support::client::wide_open(initial.wrapping_add(7), 3);
    pair.client.flow(0, Flow { handle: Some(0), next_incoming_id: Some(initial), ..flow });
    pair.pump();
    assert!(matches!(pair.events[..], [Event::Credit { drain: false, .. }]));
    let delivery = pair.next_delivery();
    assert_eq!(pair.engine.send(link, delivery, 0, true, true, Payload::copied(b"x")), Sent::Whole { room: true });
}

/// The receiver takes back the credit that a delivery in the engine would have used, and drains: it has its answer, and
/// with new credit the delivery.
#[test]
fn a_drain_does_not_wait_for_a_delivery_without_credit() {
    let (mut pair, link) = Pair::with_receiver(Settings::default(), 1);
    // No room in the session's window.
    pair.client.flow(0, Flow { handle: None, incoming_window: 0, ..support::client::wide_open(0, 0) });
    pair.pump();
    let delivery = pair.next_delivery();
    assert_eq!(pair.engine.send(link, delivery, 0, true, true, Payload::copied(b"x")), Sent::Partly);
    pair.client.flow(0, Flow { handle: Some(0), drain: true, ..support::client::wide_open(0, 0) });
    pair.pump();
    let frame = pair.client.frames().pop().unwrap();
    let Performative::Flow(flow) = frame.performative() else { panic!("{frame:?}") };
    assert_eq!((flow.delivery_count, flow.link_credit, flow.drain), (Some(0), Some(0), true));
    pair.client.credit(0, 0, 0, 1);
    pair.pump();
    assert!(matches!(pair.client.frames().pop().unwrap().performative(), Performative::Transfer(_)));
}

#[test]
fn a_drain_sends_what_is_there_first() {
    let (mut pair, link) = Pair::with_receiver(Settings::default(), 0);
    let flow = support::client::wide_open(0, 7);
    pair.client.flow(0, Flow { handle: Some(0), drain: true, ..flow });
    pair.pump();
    let delivery = pair.next_delivery();
    pair.engine.send(link, delivery, 0, true, true, Payload::copied(b"x"));
    pair.engine.drained(link);
    pair.pump();
    let frames = pair.client.frames();
    assert!(matches!(frames[0].performative(), Performative::Transfer(_)));
    assert!(matches!(frames[1].performative(), Performative::Flow(Flow { delivery_count: Some(7), .. })));
}

/// The answer to a drain says what was given back, not what is left: by the time it is heard there may be a new grant.
#[test]
fn credit_used_up_under_a_drain_is_not_returned() {
    let (mut pair, link) = Pair::with_sender(Settings::default(), 1);
    pair.engine.grant(link, 0, true);
    pair.pump();
    pair.events.clear();
    pair.client.send(0, 0, 0, b"x");
    let answer = Flow { handle: Some(0), drain: true, next_outgoing_id: 1, ..support::client::wide_open(1, 0) };
    pair.client.flow(0, answer);
    pair.pump();
    assert_eq!(names(&pair.events), ["transfer", "sender-drained"]);
    assert!(matches!(pair.events[1], Event::SenderDrained { returned: 0, .. }));
}

#[test]
fn a_drained_sender_is_told() {
    let (mut pair, link) = Pair::with_sender(Settings::default(), 10);
    pair.client.send(0, 0, 0, b"x");
    pair.pump();
    pair.engine.grant(link, 0, true);
    pair.pump();
    let frame = pair.client.frames().pop().unwrap();
    let Performative::Flow(flow) = frame.performative() else { panic!() };
    assert_eq!((flow.delivery_count, flow.link_credit, flow.drain), (Some(1), Some(9), true));
    pair.events.clear();
    pair.client.send(0, 0, 1, b"y");
    let answer = Flow { handle: Some(0), drain: true, next_outgoing_id: 2, ..support::client::wide_open(10, 0) };
    pair.client.flow(0, answer);
    pair.pump();
    assert_eq!(names(&pair.events), ["transfer", "sender-drained"]);
    assert!(matches!(pair.events[1], Event::SenderDrained { returned: 8, .. }));
    // Its credit is gone.
    pair.client.send(0, 0, 2, b"z");
    pair.pump();
    assert_eq!(pair.client.briefs(), ["detach amqp:link:transfer-limit-exceeded"]);
}

#[test]
fn a_drain_that_transfers_used_up_is_told_without_a_flow() {
    let (mut pair, link) = Pair::with_sender(Settings::default(), 2);
    pair.engine.grant(link, 0, true);
    pair.client.send(0, 0, 0, b"x");
    pair.client.send(0, 0, 1, b"x");
    pair.pump();
    assert_eq!(names(&pair.events), ["transfer", "transfer", "sender-drained"]);
    let answer = Flow { handle: Some(0), drain: true, next_outgoing_id: 2, ..support::client::wide_open(2, 0) };
    pair.client.flow(0, answer);
    pair.pump();
    assert_eq!(pair.events.len(), 3, "told once");
}

#[test]
fn credit_is_told_once_a_turn() {
    let (mut pair, link) = Pair::with_sender(Settings::default(), 0);
    for _ in 0..50 {
        pair.engine.grant(link, 1, false);
    }
    pair.pump();
    let frames = pair.client.frames();
    assert_eq!(frames.len(), 1);
    let Performative::Flow(flow) = frames[0].performative() else { panic!() };
    assert_eq!((flow.link_credit, flow.handle, flow.drain), (Some(50), Some(0), false));
}

/// Credit that comes back message by message makes no output of its own while the sender knows of most of it.
#[test]
fn credit_that_does_not_press_goes_with_other_output() {
    let (mut pair, link) = Pair::with_sender(Settings::default(), 8);
    assert!(pair.engine.poll_transmit().is_none(), "all is told");
    let mut received = Vec::new();
    for id in 0..3 {
        pair.client.send(0, 0, id, b"x");
        let bytes = pair.client.take_output();
        pair.engine.handle_input(Range::copied(&bytes), pair.now);
        pair.drain_events();
        received.extend(pair.events().into_iter().filter_map(|event| match event {
            Event::Transfer(transfer) => Some(transfer.wire),
            _ => None,
        }));
        pair.engine.grant(link, 1, false);
        let output = pair.engine.poll_transmit();
        // Two of eight are a quarter; a third one presses.
        assert_eq!(output.is_some(), id == 2, "{id}");
    }
    pair.engine.grant(link, 1, false);
    pair.accept_incoming(received[0]);
    let output = pair.engine.poll_transmit().expect("an outcome").to_vec();
    assert!(output.windows(3).any(|bytes| bytes == [0, 0x53, 0x13]), "the flow goes with it");
    pair.engine.grant(link, 1, false);
    assert!(pair.engine.poll_transmit().is_none());
    pair.engine.grant(link, 0, true);
    assert!(pair.engine.poll_transmit().is_some(), "a drain presses");
}

#[test]
fn ten_thousand_attaches_leak_nothing() {
    let mut pair = Pair::opened(Settings::default());
    for n in 0..10_000 {
        pair.client.attach_receiver(0, 0, &format!("l{n}"), "a");
        pair.client.credit(0, 0, 0, 1);
        pair.client.detach(0, 0, true);
    }
    pair.pump();
    assert_eq!(pair.engine.link_count(), 0);
    let frames = pair.client.frames();
    assert_eq!(frames.len(), 20_000);
    assert!(frames.iter().all(|frame| match frame.performative() {
        Performative::Attach(attach) => attach.handle == 0,
        Performative::Detach(detach) => detach.handle == 0,
        _ => false,
    }));
}

#[test]
fn links_and_their_names_are_bounded() {
    let mut pair = Pair::opened(Settings::default());
    pair.client.attach_sender(0, 0, &"n".repeat(2_048), "a");
    pair.client.attach_sender(0, 1, &"n".repeat(2_049), "a");
    pair.pump();
    assert_eq!(pair.client.briefs(), ["attach", "attach", "detach amqp:invalid-field"]);
    pair.events.clear();
    let max = ringway::limits::LINKS_PER_CONNECTION_MAX as u32;
    for n in 1..max {
        let (channel, handle) = ((1 + n / 60_000) as u16, n % 60_000);
        if handle == 0 || n == 1 {
            pair.client.begin(channel);
        }
        let name = n.to_string();
        pair.client.attach(channel, Attach { name: &name, handle, ..Attach::default() });
        if n % 1_000 == 0 {
            pair.pump();
            pair.events.clear();
            pair.client.frames();
        }
    }
    pair.pump();
    pair.client.frames();
    assert_eq!(pair.engine.link_count(), max as usize);
    pair.client.attach(0, Attach { name: "one more", handle: 2, ..Attach::default() });
    pair.pump();
    assert_eq!(pair.client.briefs(), ["attach", "detach amqp:resource-limit-exceeded"]);
    // All of them end in one go.
    pair.client.close();
    pair.events.clear();
    pair.pump();
    assert_eq!(pair.events.len(), max as usize + 1);
}

/// The handle of a link that we detached (here: one that was stolen) is taken until the peer's detach. A peer that never
/// sends one doesn't go on for ever.
#[test]
fn detaches_that_nobody_answers_are_bounded() {
    let mut pair = Pair::opened(Settings::default());
    let mut stolen = 0;
    'sessions: for channel in 1..10 {
        pair.client.begin(channel);
        for handle in 0..60_000 {
            pair.client.attach_receiver(channel, handle, "n", "a");
            if handle % 500 == 499 {
                pair.pump();
                let frames = pair.client.frames();
                stolen += 500;
                if frames.iter().any(|frame| frame.brief() == "close amqp:resource-limit-exceeded") {
                    break 'sessions;
                }
                assert!(!pair.engine.is_closed());
            }
        }
    }
    let max = ringway::limits::LINKS_PER_CONNECTION_MAX;
    assert!((max..=max + 1_000).contains(&stolen), "{stolen}");
}

/// Answered ones don't count, and those of a session go with it.
#[test]
fn answered_detaches_are_forgotten() {
    let mut pair = Pair::opened(Settings::default());
    for round in 0..ringway::limits::LINKS_PER_CONNECTION_MAX / 500 + 3 {
        for handle in 0..500 {
            pair.client.attach_receiver(0, handle, "n", "a");
        }
        if round % 2 == 0 {
            (0..500).for_each(|handle| pair.client.detach(0, handle, true));
        } else {
            pair.client.end(0);
            pair.client.begin(0);
        }
        pair.pump();
        pair.client.frames();
    }
    assert!(!pair.engine.is_closed());
}
