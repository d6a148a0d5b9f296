//! Cases of links: refusals, anonymous senders, absent termini, forms of an address, dynamic nodes, churn.

mod support;

use std::io::{ErrorKind, Write};
use std::time::{Duration, Instant};
use support::amqp::*;
use support::raw::{Link, Raw};
use support::router::{Router, DISTRIBUTIONS, PLAIN};

/// Ntex-amqp 24, fe2o3-amqp 38, qpid-dispatch 190: the attach of a refusal has no terminus at our end, so that
/// the client knows what the detach behind it means.
#[test]
fn case_19_refusal_is_attach_with_null_terminus_then_detach() {
    let router = Router::start(DISTRIBUTIONS);
    let mut raw = Raw::session(&router, "refused");
    let refused = [
        (sender_attach("sender", 0, "unavailable/x"), attach::TARGET),
        (receiver_attach("receiver", 1, "unavailable/y"), attach::SOURCE),
    ];
    for (frame, terminus) in refused {
        let link = raw.attach(frame);
        assert!(link.attach.field(terminus).is_null(), "the terminus should be null in {}", link.attach);
        let detach = raw.expect_error(DETACH, detach::ERROR, "amqp:not-found");
        assert!(detach.field(detach::CLOSED).is_true(), "{detach}");
        assert_eq!(detach.number(detach::HANDLE), link.peer_handle);
        raw.send(&detach_frame(link.handle));
        // The name and the handle are free again.
        let again = raw.attach(sender_attach("sender", link.handle, "available"));
        assert!(!again.attach.field(attach::TARGET).is_null(), "{}", again.attach);
        raw.detach(&again);
    }
}

/// Qpid-dispatch 187, 293: a transaction coordinator isn't there without a route to one.
#[test]
fn case_27_a_coordinator_without_a_route_is_refused() {
    let router = Router::start(PLAIN);
    let mut raw = Raw::session(&router, "transactional");
    let coordinator = described(COORDINATOR, Vec::new());
    let link = raw.attach(sender_attach("coordinator", 0, "").with(attach::TARGET, coordinator));
    assert!(link.attach.field(attach::TARGET).is_null(), "{}", link.attach);
    raw.expect_error(DETACH, detach::ERROR, "amqp:precondition-failed");
}

fn anonymous_sender(raw: &mut Raw, handle: u32) -> Link {
    let link = raw.attach(sender_attach("anonymous", handle, "").with(attach::TARGET, described(TARGET, Vec::new())));
    raw.wait_for_limit(&link, 5);
    link
}

/// Qpid-dispatch 185, enmasse 4442: a message that can't go costs itself, not the link.
#[test]
fn case_20_bad_destinations_on_an_anonymous_sender() {
    let router = Router::start(DISTRIBUTIONS);
    let mut consumer = Raw::session(&router, "consumer");
    consumer.attach_consumer(0, "good", 10);
    let mut raw = Raw::session(&router, "anonymous");
    anonymous_sender(&mut raw, 0);
    raw.send(&transfer_frame(0, 0, &message_to("unavailable/x", b"forbidden")));
    assert_eq!(raw.expect_outcome(0).code(), Some(REJECTED));
    raw.send(&transfer_frame(0, 1, &data_message(b"without to")));
    let code = raw.expect_outcome(1).code();
    assert!([Some(REJECTED), Some(RELEASED)].contains(&code), "{code:?}");
    raw.send(&transfer_frame(0, 2, &message_to("nobody.consumes.this", b"unknown")));
    assert_eq!(raw.expect_outcome(2).code(), Some(RELEASED));
    let good = message_to("good", b"good");
    raw.send(&transfer_frame(0, 3, &good));
    let (first, payload) = consumer.receive_delivery();
    assert_eq!(payload, good);
    consumer.settle(&first, accepted());
    assert_eq!(raw.expect_outcome(3).code(), Some(ACCEPTED));
}

/// More bad messages than the link's credit: each gives its credit back.
#[test]
fn case_20_credit_comes_back_for_what_cannot_go() {
    let router = Router::start_with("    linkCapacity: 10\n", DISTRIBUTIONS);
    let mut raw = Raw::session(&router, "anonymous");
    let link = anonymous_sender(&mut raw, 0);
    for id in 0..100 {
        raw.wait_for_limit(&link, id + 1);
        raw.send(&transfer_frame(0, id, &message_to("unavailable/x", b"forbidden")));
        assert_eq!(raw.expect_outcome(id).code(), Some(REJECTED));
    }
}

fn expect_works(router: &Router, sender: Frame, receiver: Frame) {
    let mut raw = Raw::session(router, "both");
    let receiver = raw.attach(receiver);
    raw.credit(&receiver, 1);
    let sender = raw.attach(sender);
    raw.wait_for_limit(&sender, 1);
    let message = data_message(b"through");
    raw.send(&transfer_frame(sender.handle, 0, &message));
    let (first, payload) = raw.receive_delivery();
    assert_eq!(payload, message);
    raw.settle(&first, accepted());
    raw.expect_outcomes(0, 0, ACCEPTED);
    raw.close();
}

/// Amqpnetlite 110: the far terminus is the client's own business.
#[test]
fn case_21_missing_source_on_a_sender_and_target_on_a_receiver() {
    let router = Router::start(PLAIN);
    let sender = sender_attach("out", 0, "termini");
    let receiver = receiver_attach("in", 1, "termini");
    let forms: [(&str, Value, Value); 2] = [
        ("null", Value::Null, Value::Null),
        ("empty lists", described(SOURCE, Vec::new()), described(TARGET, Vec::new())),
    ];
    for (what, source, target) in forms {
        eprintln!("{what}");
        let sender = sender.clone().with(attach::SOURCE, source);
        expect_works(&router, sender, receiver.clone().with(attach::TARGET, target));
    }
}

/// Azure-uamqp-python 164: whatever form names it, it is one address.
#[test]
fn case_23_a_url_as_address() {
    const FORMS: [&str; 4] = ["amqp://h/q", "amqps://h:1/q", "/q", "q"];
    let router = Router::start(PLAIN);
    for receiver in FORMS {
        for sender in FORMS {
            eprintln!("from {sender} to {receiver}");
            expect_works(&router, sender_attach("out", 0, sender), receiver_attach("in", 1, receiver));
        }
    }
}

#[test]
fn case_23_a_url_in_to() {
    let router = Router::start(PLAIN);
    let mut consumer = Raw::session(&router, "consumer");
    consumer.attach_consumer(0, "amqp://somewhere/q", 10);
    let mut raw = Raw::session(&router, "anonymous");
    anonymous_sender(&mut raw, 0);
    for (id, to) in ["amqp://h/q", "amqps://h:1/q", "/q", "q"].into_iter().enumerate() {
        let message = message_to(to, b"by url");
        raw.send(&transfer_frame(0, id as u32, &message));
        let (first, payload) = consumer.receive_delivery();
        assert_eq!(payload, message, "to {to}");
        consumer.settle(&first, accepted());
        assert_eq!(raw.expect_outcome(id as u32).code(), Some(ACCEPTED), "to {to}");
    }
}

/// Pairs of attach and detach, written without reading an answer, until `pairs` are out or the router takes no
/// more; then the socket is killed.
fn churn(router: &Router, pairs: u32, seed: u32) {
    let mut raw = Raw::session(router, "churn");
    raw.stream.set_write_timeout(Some(Duration::from_millis(300))).expect("a write timeout");
    for number in 0..pairs {
        let address = format!("churn.{}", number.wrapping_mul(seed) % 50);
        let attach = match number % 2 {
            0 => sender_attach("churned", 0, &address),
            _ => receiver_attach("churned", 0, &address),
        };
        let mut bytes = attach.to_bytes();
        bytes.extend(detach_frame(0).to_bytes());
        match raw.stream.write_all(&bytes) {
            Ok(()) => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => return,
            Err(error) => panic!("the router closed after {number} pairs: {error}"),
        }
    }
}

/// Skupper-router 1819.
#[test]
fn case_24_ten_thousand_attaches_without_reading_and_sockets_killed() {
    let router = Router::start(PLAIN);
    let descriptors = router.descriptors_at_rest();
    let round = |seed: u32| {
        // One that does it all, and twenty that are killed somewhere.
        churn(&router, 10_000, seed);
        let mut random = seed;
        for _ in 0..20 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            churn(&router, 1 + random % 1_000, random);
        }
        wait_until_descriptors_are(&router, descriptors);
        router.memory_kib("VmRSS")
    };
    // The first rounds fill pools and tables; 120 000 pairs later there is no more than an allocator's whim.
    round(1);
    let before = round(3);
    for seed in [5, 7, 11] {
        round(seed);
    }
    let after = round(13);
    assert!(after < before + 8 * 1024, "resident memory went from {before} to {after} KiB");
    expect_works(&router, sender_attach("out", 0, "churn.1"), receiver_attach("in", 1, "churn.1"));
}

fn wait_until_descriptors_are(router: &Router, count: usize) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while router.descriptors() > count {
        assert!(Instant::now() < deadline, "{} descriptors are open, {count} were", router.descriptors());
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Rabbitmq-server 13231.
#[test]
fn case_25_dynamic_nodes() {
    let router = Router::start(PLAIN);
    let mut raw = Raw::session(&router, "dynamic");
    let dynamic = |name: &str, handle: u32| receiver_attach(name, handle, "").with(attach::SOURCE, dynamic_source());
    let first = raw.attach(dynamic("first", 0));
    let second = raw.attach(dynamic("second", 1));
    let address = first.source_address();
    assert_ne!(address, second.source_address(), "two dynamic nodes need two addresses");
    assert!(first.attach.field(attach::SOURCE).field(4).is_true(), "the source says that it is dynamic");
    raw.credit(&first, 10);
    raw.credit(&second, 10);

    // By an anonymous sender, and by one that names the address, as reply-to is used.
    let mut peer = Raw::session(&router, "peer");
    anonymous_sender(&mut peer, 0);
    let named = peer.attach_sender(1, &address);
    peer.wait_for_limit(&named, 1);
    let by_to = message_to(&address, b"by to");
    for (id, (handle, message)) in [(0, by_to), (1, data_message(b"by name"))].into_iter().enumerate() {
        peer.send(&transfer_frame(handle, id as u32, &message));
        let (transfer, payload) = raw.receive_delivery();
        assert_eq!((transfer.number(transfer::HANDLE), payload), (first.peer_handle, message));
        raw.settle(&transfer, accepted());
        assert_eq!(peer.expect_outcome(id as u32).code(), Some(ACCEPTED));
    }
    raw.detach(&first);

    // It is gone: what is sent to it comes back, and a new sender gets no credit.
    peer.send(&transfer_frame(0, 2, &message_to(&address, b"too late")));
    assert_eq!(peer.expect_outcome(2).code(), Some(RELEASED));
    let late = peer.attach_sender(2, &address);
    peer.listen(Duration::from_millis(300));
    assert!(!peer.may_send(&late, 0), "credit for a node that is gone");
}

/// A second attach of the same name and role takes the link over.
#[test]
fn a_second_attach_of_a_name_steals_the_link() {
    let router = Router::start(PLAIN);
    let mut raw = Raw::session(&router, "stolen");
    let first = raw.attach(receiver_attach("same", 0, "stolen"));
    raw.credit(&first, 10);
    raw.send(&receiver_attach("same", 1, "stolen"));
    let mut is_detached = false;
    let mut is_attached = false;
    while !(is_detached && is_attached) {
        let frame = raw.receive();
        match frame.code {
            DETACH => {
                assert_eq!(frame.condition(detach::ERROR), Some("amqp:link:stolen"), "{frame}");
                assert_eq!(frame.number(detach::HANDLE), first.peer_handle);
                raw.send(&detach_frame(0));
                is_detached = true;
            }
            ATTACH => is_attached = true,
            _ => panic!("a detach or an attach was expected, got {frame}"),
        }
    }
    raw.expect_alive(1);
}

/// A sender and a receiver may have one name: the role belongs to it.
#[test]
fn a_sender_and_a_receiver_of_one_name_are_two_links() {
    let router = Router::start(PLAIN);
    expect_works(&router, sender_attach("same", 0, "names"), receiver_attach("same", 1, "names"));
}

#[test]
fn settle_modes_are_answered_as_asked() {
    let router = Router::start(PLAIN);
    let mut raw = Raw::session(&router, "modes");
    let mut handle = 0;
    for sender_mode in 0..3u8 {
        for receiver_mode in 0..2u8 {
            for attach in [sender_attach, receiver_attach] {
                let frame = attach(&format!("modes {handle}"), handle, "modes");
                let frame = frame.with(attach::SENDER_SETTLE_MODE, sender_mode);
                let link = raw.attach(frame.with(attach::RECEIVER_SETTLE_MODE, receiver_mode));
                // Absent is the default: mixed, first.
                let answer = |field: usize, default: u64| link.attach.field(field).number().unwrap_or(default);
                assert_eq!(answer(attach::SENDER_SETTLE_MODE, 2), u64::from(sender_mode), "{}", link.attach);
                assert_eq!(answer(attach::RECEIVER_SETTLE_MODE, 0), u64::from(receiver_mode), "{}", link.attach);
                handle += 1;
            }
        }
    }
}
