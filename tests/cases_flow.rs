//! Cases of flow: credit that is never overdrawn, addresses without consumers, drain.

mod support;

use std::time::Duration;
use support::amqp::*;
use support::raw::{Link, Raw};
use support::router::{Router, DISTRIBUTIONS, PLAIN};

/// A linear congruential generator: the same numbers each time.
struct Random(u32);

impl Random {
    fn below(&mut self, bound: u32) -> u32 {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (self.0 >> 16) % bound
    }
}

/// Sends as much as the router gives credit for.
fn top_up(producer: &mut Raw, sender: &Link, sent: &mut u32) {
    producer.listen(Duration::from_millis(1));
    while producer.may_send(sender, *sent) && producer.has_window(sender) {
        producer.send(&transfer_frame(sender.handle, *sent, &data_message(&sent.to_be_bytes())));
        *sent += 1;
    }
}

/// Rabbitmq-server 2597: credit changes at random, reductions included. The answer to an echo says that the router
/// knows the new credit: from there on it binds. Before, the larger of the old and the new does.
#[test]
fn case_29_credit_at_random_is_never_overdrawn() {
    let router = Router::start(PLAIN);
    let mut consumer = Raw::session(&router, "consumer");
    let link = consumer.attach_receiver(0, "random");
    let mut producer = Raw::session(&router, "producer");
    let sender = producer.attach_sender(0, "random");
    let (mut random, mut sent, mut received, mut limit) = (Random(29), 0, 0u32, 0u32);
    // How much passes in a round is up to the machine's load.
    for round in 0.. {
        if round >= 400 && received > 500 {
            break;
        }
        assert!(round < 4_000, "only {received} messages passed");
        let credit = [0, 1, 2, 5, 20, 100][random.below(6) as usize];
        let new_limit = consumer.delivery_count(&link) + credit;
        consumer.forget_flows();
        let flow = consumer.link_flow(&link, credit).with(flow::ECHO, true);
        consumer.send(&flow);
        top_up(&mut producer, &sender, &mut sent);
        consumer.expect(FLOW);
        let known = consumer.delivery_count(&link);
        assert!(known <= limit.max(new_limit), "round {round}: {known} deliveries, credit up to {limit}, {new_limit}");
        limit = new_limit.max(known);
        consumer.listen(Duration::from_millis(u64::from(random.below(3))));
        let now = consumer.delivery_count(&link);
        assert!(now <= limit, "round {round}: {now} deliveries, credit up to {limit}");
        while received < now {
            let (first, payload) = consumer.receive_delivery();
            assert_eq!(payload, data_message(&received.to_be_bytes()), "order");
            consumer.settle(&first, accepted());
            received += 1;
        }
    }
}

/// Credit 0 stops everything, a later credit goes on where it was.
#[test]
fn case_29_credit_taken_back_to_zero() {
    let router = Router::start(PLAIN);
    let mut consumer = Raw::session(&router, "consumer");
    let link = consumer.attach_consumer(0, "zero", 3);
    let mut producer = Raw::session(&router, "producer");
    let sender = producer.attach_sender(0, "zero");
    producer.wait_for_limit(&sender, 1);
    let flow = consumer.link_flow(&link, 0).with(flow::ECHO, true);
    consumer.forget_flows();
    consumer.send(&flow);
    consumer.expect(FLOW);
    producer.send(&transfer_frame(0, 0, &data_message(b"waits")));
    consumer.expect_silence(Duration::from_millis(200));
    consumer.credit(&link, 1);
    assert_eq!(consumer.receive_delivery().1, data_message(b"waits"));
}

/// Qpid-dispatch 368, 183, 618: no consumer, no credit; with one, credit; without it again, none that lasts, and
/// nothing in the router spins.
fn without_receivers(address: &str) {
    let router = Router::start(DISTRIBUTIONS);
    let mut producer = Raw::session(&router, "producer");
    let sender = producer.attach_sender(0, address);
    producer.listen(Duration::from_millis(300));
    assert!(!producer.may_send(&sender, 0), "credit though nobody consumes");
    let mut consumer = Raw::session(&router, "consumer");
    let link = consumer.attach_consumer(0, address, 10);
    producer.wait_for_limit(&sender, 1);
    producer.send(&transfer_frame(0, 0, &data_message(b"first")));
    let (first, _) = consumer.receive_delivery();
    consumer.settle(&first, accepted());
    producer.expect_outcomes(0, 0, ACCEPTED);

    consumer.detach(&link);
    // The sender is asked to give its credit back (or has none any more), and does.
    let mut drain = producer.expect(FLOW);
    while !drain.field(flow::DRAIN).is_true() && drain.number(flow::LINK_CREDIT) != 0 {
        drain = producer.expect(FLOW);
    }
    let limit = producer.limit(&sender).expect("a limit");
    let mut answer = producer.session_flow(0).with(flow::HANDLE, 0u32).with(flow::DELIVERY_COUNT, limit);
    answer = answer.with(flow::LINK_CREDIT, 0u32).with(flow::DRAIN, true);
    producer.send(&answer);
    producer.listen(Duration::from_millis(200));
    assert!(!producer.may_send(&sender, limit), "credit though nobody consumes any more");
    let before = router.cpu_time();
    std::thread::sleep(Duration::from_millis(500));
    let used = router.cpu_time() - before;
    assert!(used <= Duration::from_millis(50), "{used:?} of CPU in half a second of nothing");

    // A new consumer brings credit again.
    let limit = producer.limit(&sender).expect("a limit");
    consumer.attach_consumer(1, address, 10);
    producer.wait_for_limit(&sender, limit + 1);
}

#[test]
fn case_30_no_receivers_balanced() {
    without_receivers("balanced/30");
}

#[test]
fn case_30_no_receivers_closest() {
    without_receivers("closest/30");
}

#[test]
fn case_30_no_receivers_multicast() {
    without_receivers("multicast/30");
}

/// A message that was on its way when the last consumer left comes back.
#[test]
fn case_30_a_message_that_crosses_the_last_receivers_leave() {
    let router = Router::start(DISTRIBUTIONS);
    let mut consumer = Raw::session(&router, "consumer");
    let link = consumer.attach_consumer(0, "balanced/crossing", 10);
    let mut producer = Raw::session(&router, "producer");
    let sender = producer.attach_sender(0, "balanced/crossing");
    producer.wait_for_limit(&sender, 1);
    consumer.detach(&link);
    producer.send(&transfer_frame(0, 0, &data_message(b"too late")));
    producer.expect_outcomes(0, 0, RELEASED);
}

#[test]
fn case_31_drain_with_nothing_queued() {
    let router = Router::start(PLAIN);
    let mut raw = Raw::session(&router, "drained");
    let link = raw.attach_receiver(0, "drain");
    raw.forget_flows();
    raw.drain(&link, 7);
    let flow = raw.expect(FLOW);
    assert_eq!(flow.number(flow::HANDLE), link.peer_handle);
    assert_eq!(flow.number(flow::DELIVERY_COUNT), 7);
    assert_eq!(flow.number(flow::LINK_CREDIT), 0);
    assert!(flow.field(flow::DRAIN).is_true(), "{flow}");
}

/// What is there is sent before the rest of the credit comes back.
#[test]
fn case_31_drain_with_a_message_there() {
    let router = Router::start(PLAIN);
    let mut consumer = Raw::session(&router, "consumer");
    let link = consumer.attach_consumer(0, "drain", 1);
    let mut producer = Raw::session(&router, "producer");
    let sender = producer.attach_sender(0, "drain");
    // The first goes through on the single credit and is settled behind the second, which therefore waits in the router.
    for id in 0..2 {
        producer.wait_for_limit(&sender, id + 1);
        producer.send(&transfer_frame(0, id, &data_message(&[id as u8])));
    }
    let (first, _) = consumer.receive_delivery();
    consumer.settle(&first, accepted());
    producer.expect_outcomes(0, 0, ACCEPTED);
    consumer.forget_flows();
    consumer.drain(&link, 10);
    let flow = consumer.expect(FLOW);
    assert_eq!((flow.number(flow::DELIVERY_COUNT), flow.number(flow::LINK_CREDIT)), (11, 0), "{flow}");
    assert_eq!(consumer.receive_delivery().1, data_message(&[1]));
}

/// A drain is passed on to the senders: what they have comes before the rest of the credit goes back, and the answer is
/// exact.
#[test]
fn case_31_a_drain_asks_the_senders() {
    let router = Router::start(PLAIN);
    let mut consumer = Raw::session(&router, "consumer");
    let link = consumer.attach_consumer(0, "drain", 1);
    let mut producer = Raw::session(&router, "producer");
    let sender = producer.attach_sender(0, "drain");
    producer.wait_for_limit(&sender, 1);
    producer.listen(Duration::from_millis(50));
    producer.forget_flows();
    consumer.forget_flows();
    consumer.drain(&link, 10);
    // The sender is asked, sends two and returns the rest.
    let mut asked = producer.expect(FLOW);
    while !asked.field(flow::DRAIN).is_true() {
        asked = producer.expect(FLOW);
    }
    let limit = asked.number(flow::DELIVERY_COUNT) + asked.number(flow::LINK_CREDIT);
    for id in 0..2 {
        producer.send(&transfer_frame(0, id, &data_message(&[id as u8])));
    }
    let answer = producer.session_flow(0).with(flow::HANDLE, 0u32).with(flow::DELIVERY_COUNT, limit);
    producer.send(&answer.with(flow::LINK_CREDIT, 0u32).with(flow::DRAIN, true));
    for id in 0..2 {
        assert_eq!(consumer.receive_delivery().1, data_message(&[id]));
    }
    let flow = consumer.expect(FLOW);
    assert_eq!((flow.number(flow::DELIVERY_COUNT), flow.number(flow::LINK_CREDIT)), (10, 0), "{flow}");
}

/// A flow with echo gets a flow, for a link and for a session.
#[test]
fn echo_is_answered() {
    let router = Router::start(PLAIN);
    let mut raw = Raw::session(&router, "echo");
    let link = raw.attach_receiver(0, "echo");
    raw.forget_flows();
    let flow = raw.link_flow(&link, 3).with(flow::ECHO, true);
    raw.send(&flow);
    let answer = raw.expect(FLOW);
    assert_eq!((answer.number(flow::HANDLE), answer.number(flow::LINK_CREDIT)), (link.peer_handle, 3), "{answer}");
    let flow = raw.session_flow(0).with(flow::ECHO, true);
    raw.send(&flow);
    assert!(raw.expect(FLOW).field(flow::HANDLE).is_null());
}
