//! routing: one operation is one message, from its arrival to its outcome at the sender, with the outputs drained and
//! the consumer's credit topped up.

use std::collections::VecDeque;
use std::hint::black_box;

use ringway::ids::{ConnectionId, DeliveryId, LinkHandle, LinkId, Port, SessionNumber, WireDelivery};
use ringway::link::{Direction, ReceiverSettleMode, SenderSettleMode, Terminus};
use ringway::outcome::State;
use ringway::payload::Payload;
use ringway::routing::{
    AddressAttributes, AddressMatch, AddressRule, AddressRules, Arrival, Attach, FlowControl, Marks, Output, Router,
    RouterSettings, Treatment,
};
use ringway::time::Time;

use crate::Scenario;

pub const SCENARIOS: &[Scenario] = &[
    ("routing/unsettled", |count| run(Case::default(), count)),
    ("routing/unsettled-capacity", |count| run(Case { flow_control: FlowControl::Capacity, ..Case::default() }, count)),
    ("routing/unsettled-marks", |count| run(Case { marks: true, ..Case::default() }, count)),
    ("routing/settled", |count| run(Case { settled: true, ..Case::default() }, count)),
    ("routing/closest", |count| run(Case { treatment: Treatment::Closest, ..Case::default() }, count)),
    ("routing/multicast-3", |count| {
        run(Case { treatment: Treatment::Multicast, consumers: 3, ..Case::default() }, count)
    }),
    ("routing/consumers-10", |count| run(Case { consumers: 10, ..Case::default() }, count)),
    ("routing/consumers-2000", |count| run(Case { consumers: 2_000, ..Case::default() }, count)),
    ("routing/senders-10", |count| run(Case { senders: 10, ..Case::default() }, count)),
    ("routing/senders-10000", |count| run(Case { senders: 10_000, ..Case::default() }, count)),
];

struct Case {
    treatment: Treatment,
    flow_control: FlowControl,
    senders: usize,
    consumers: usize,
    settled: bool,
    marks: bool,
}

impl Default for Case {
    fn default() -> Self {
        Case {
            treatment: Treatment::Balanced,
            flow_control: FlowControl::Share,
            senders: 1,
            consumers: 1,
            settled: false,
            marks: false,
        }
    }
}

const CONNECTION: ConnectionId = ConnectionId { index: 0, generation: 0 };
const CREDIT: u32 = 250;
/// A consumer tops its credit up when it has used so much.
const TOP_UP: u32 = 50;

struct Consumer {
    link: LinkId,
    count: u32,
    limit: u32,
}

struct World {
    router: Router,
    senders: Vec<LinkId>,
    /// Senders, once for each credit that they have, in the order in which they were granted.
    granted: VecDeque<usize>,
    consumers: Vec<Consumer>,
    sent: Vec<(usize, DeliveryId)>,
    payload: Payload,
    next: u32,
}

fn attach(router: &mut Router, index: u32, direction: Direction) -> LinkId {
    let address = Some("address".to_string());
    let terminus = Terminus::Node { address, dynamic: false };
    let attach = Attach {
        port: Port { connection: CONNECTION, link: LinkHandle { index, generation: 0 } },
        session: SessionNumber(0),
        direction,
        terminus: &terminus,
        name: "link",
        sender_settle_mode: SenderSettleMode::Mixed,
        receiver_settle_mode: ReceiverSettleMode::First,
    };
    router.attach(attach, Time::ZERO).expect("attached").link
}

fn world(case: &Case) -> World {
    let attributes = AddressAttributes {
        treatment: Some(case.treatment),
        alert_count: case.marks.then_some(Marks { up: 10_000, down: 5_000 }),
        ..AddressAttributes::default()
    };
    let rule = AddressRule { matches: AddressMatch::Pattern("#".into()), attributes };
    let rules = AddressRules::new(vec![rule]).expect("rules");
    let settings = RouterSettings { rules, flow_control: case.flow_control, ..RouterSettings::default() };
    let mut router = Router::new(settings, Time::ZERO);
    router.connection_opened(CONNECTION, CREDIT);
    let consumers = (0..case.consumers as u32)
        .map(|index| Consumer { link: attach(&mut router, index, Direction::Outgoing), count: 0, limit: CREDIT })
        .collect();
    let first = case.consumers as u32;
    let senders: Vec<_> =
        (0..case.senders as u32).map(|index| attach(&mut router, first + index, Direction::Incoming)).collect();
    let granted = VecDeque::with_capacity(senders.len() + case.consumers * 2 * CREDIT as usize);
    let payload = Payload::copied(&[7; 100]);
    let mut world = World { router, senders, granted, consumers, sent: Vec::with_capacity(16), payload, next: 0 };
    for at in 0..world.consumers.len() {
        // They don't all top up at the same message.
        world.consumers[at].limit = CREDIT - at as u32 % TOP_UP;
        world.router.credit(world.consumers[at].link, 0, world.consumers[at].limit, false, Time::ZERO);
        world.drain();
    }
    world
}

impl World {
    fn drain(&mut self) {
        while let Some(output) = self.router.poll_output() {
            match black_box(output) {
                Output::Send { port, delivery, .. } => {
                    let at = port.link.index as usize;
                    self.consumers[at].count += 1;
                    self.sent.push((at, delivery));
                }
                Output::Credit { port, add, .. } => {
                    let at = port.link.index as usize - self.consumers.len();
                    self.granted.extend((0..add).map(|_| at));
                }
                _ => {}
            }
        }
    }

    fn message(&mut self, settled: bool) {
        let sender = self.granted.pop_front().map(|at| self.senders[at]).expect("a sender that has credit");
        self.next = self.next.wrapping_add(1);
        let arrival = Arrival {
            wire: WireDelivery { session: SessionNumber(0), delivery_id: self.next },
            message_format: 0,
            settled,
            complete: true,
            payload: self.payload.clone(),
            to: None,
        };
        black_box(self.router.delivery(sender, arrival, Time::ZERO));
        self.drain();
        while let Some((at, delivery)) = self.sent.pop() {
            if !settled {
                let wire = WireDelivery { session: SessionNumber(0), delivery_id: 0 };
                self.router.receiver_disposition(delivery, wire, Some(State::ACCEPTED), true, Time::ZERO);
                self.drain();
            }
            let consumer = &mut self.consumers[at];
            if consumer.limit - consumer.count <= CREDIT - TOP_UP {
                consumer.limit = consumer.count + CREDIT;
                self.router.credit(consumer.link, consumer.count, consumer.limit, false, Time::ZERO);
                self.drain();
            }
        }
    }
}

fn run(case: Case, count: u64) {
    let mut world = world(&case);
    // The credit that opens each sender is used up: what follows is as it goes on.
    for _ in 0..2 * case.senders {
        world.message(case.settled);
    }
    for _ in 0..count {
        world.message(case.settled);
    }
}
