//! Clients that act: each follows its plan, and tells the model what it did and saw.

mod receiver;
mod sender;

use super::client::{AttachRequest, Client, Event, LinkIndex, LinkState, Node, SessionIndex};
use super::model::{Key, LinkNumber, Observation};
use super::plan::{LinkKind, LinkPlan, PeerEnd, PeerPlan};
use super::random::Random;
use super::simulation::Simulation;
use super::world::PeerIndex;
use crate::outcome::StateKind;
use crate::time::Time;
use crate::wire::performative::Role;
use std::collections::{BTreeMap, VecDeque};

pub struct Actor {
    pub plan: PeerPlan,
    pub peer: Option<PeerIndex>,
    sessions: Vec<SessionIndex>,
    pub links: Vec<ActorLink>,
    pub gone: bool,
}

pub struct ActorLink {
    pub plan: LinkPlan,
    pub link: Option<LinkIndex>,
    pub number: Option<LinkNumber>,
    pub agent: Agent,
    pub random: Random,
    /// Links whose names were taken by a younger one, until the router ends them.
    stolen: Vec<(LinkIndex, LinkNumber)>,
}

pub enum Agent {
    Sender(SenderAgent),
    Receiver(ReceiverAgent),
}

impl Agent {
    /// What a sender has sent of a message that isn't complete.
    pub fn bytes_under_way(&self) -> usize {
        match self {
            Agent::Sender(sender) => sender.current.as_ref().map_or(0, |sending| sending.sent),
            Agent::Receiver(_) => 0,
        }
    }
}

#[derive(Default)]
pub struct SenderAgent {
    pub left: u32,
    pub current: Option<Sending>,
    next_at: Time,
    tick_at: Option<Time>,
    /// Delivery-ids of what waits for its outcome.
    in_flight: BTreeMap<u32, Key>,
    /// Replies to send: where, and to which request.
    replies: VecDeque<(String, Key)>,
}

pub struct Sending {
    key: Key,
    bytes: Vec<u8>,
    sent: usize,
    /// Gives up once so many bytes went.
    abort_at: Option<usize>,
    piecemeal: bool,
    resume_at: Time,
}

#[derive(Default)]
pub struct ReceiverAgent {
    /// Taken and not yet served.
    queue: VecDeque<(u32, Key, bool)>,
    /// Served and not yet told.
    batch: Vec<(u32, Key, StateKind, Vec<u8>)>,
    /// Told, and waiting for the router to settle.
    told: BTreeMap<u32, Key>,
    serving: bool,
    stalled: bool,
    started: bool,
    flush_pending: bool,
    /// Where replies to what it holds go.
    reply_to: BTreeMap<Key, String>,
    /// What the model was told last.
    credit_told: Option<u32>,
}

/// What a timer is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Alarm {
    Join,
    End,
    Deaf,
    Hear,
    Shut,
    Unshut,
    Heartbeat,
    LinkJoin,
    LinkLeave,
    Tick,
    FirstCredit,
    Served,
    FlushBatch,
    Stall,
    Unstall,
    Drain,
    Change,
}

const ALARMS: [Alarm; 17] = [
    Alarm::Join,
    Alarm::End,
    Alarm::Deaf,
    Alarm::Hear,
    Alarm::Shut,
    Alarm::Unshut,
    Alarm::Heartbeat,
    Alarm::LinkJoin,
    Alarm::LinkLeave,
    Alarm::Tick,
    Alarm::FirstCredit,
    Alarm::Served,
    Alarm::FlushBatch,
    Alarm::Stall,
    Alarm::Unstall,
    Alarm::Drain,
    Alarm::Change,
];

pub fn token(alarm: Alarm, actor: usize, link: usize) -> u64 {
    (alarm as u64) << 32 | (actor as u64) << 16 | link as u64
}

impl Actor {
    pub fn new(plan: PeerPlan) -> Actor {
        let links = plan.links.iter().map(|plan| ActorLink::new(plan.clone())).collect();
        Actor { plan, peer: None, sessions: Vec::new(), links, gone: false }
    }

    fn find(&self, link: LinkIndex) -> Option<usize> {
        self.links.iter().position(|own| own.link == Some(link))
    }
}

impl ActorLink {
    fn new(plan: LinkPlan) -> ActorLink {
        let random = Random::new(plan.seed);
        let agent = match &plan.kind {
            LinkKind::Sender(sender) => Agent::Sender(SenderAgent { left: sender.messages, ..SenderAgent::default() }),
            LinkKind::Receiver(_) => Agent::Receiver(ReceiverAgent::default()),
        };
        ActorLink { plan, link: None, number: None, agent, random, stolen: Vec::new() }
    }
}

impl Simulation {
    pub(super) fn start_actors(&mut self) {
        for actor in 0..self.actors.len() {
            let plan = &self.actors[actor].plan;
            let (join, end, deaf, shut) = (plan.join_at, plan.end, plan.deaf, plan.shut);
            self.world.timer(join, token(Alarm::Join, actor, 0));
            if let Some((at, _)) = end {
                self.world.timer(at, token(Alarm::End, actor, 0));
            }
            if let Some((at, long)) = deaf {
                self.world.timer(at, token(Alarm::Deaf, actor, 0));
                self.world.timer(at + long, token(Alarm::Hear, actor, 0));
            }
            if let Some((at, long)) = shut {
                self.world.timer(at, token(Alarm::Shut, actor, 0));
                self.world.timer(at + long, token(Alarm::Unshut, actor, 0));
            }
        }
    }

    pub(super) fn alarm(&mut self, token: u64) {
        let alarm = ALARMS[(token >> 32) as usize];
        let (actor, link) = ((token >> 16 & 0xffff) as usize, (token & 0xffff) as usize);
        if self.actors[actor].gone {
            return;
        }
        match alarm {
            Alarm::Join => self.join(actor),
            Alarm::End => self.end_by_plan(actor),
            Alarm::Deaf | Alarm::Hear => {
                if let Some(peer) = self.actors[actor].peer {
                    self.world.set_reading(peer, alarm == Alarm::Hear);
                }
            }
            Alarm::Shut | Alarm::Unshut => self.hold_windows(actor, alarm == Alarm::Shut),
            Alarm::Heartbeat => self.heartbeat(actor),
            Alarm::LinkJoin => self.link_join(actor, link),
            Alarm::LinkLeave => self.link_leave(actor, link),
            Alarm::Tick => self.sender_tick(actor, link),
            Alarm::FirstCredit => self.receiver_start(actor, link),
            Alarm::Served => self.receiver_served(actor, link),
            Alarm::FlushBatch => self.receiver_flush_due(actor, link),
            Alarm::Stall => self.receiver_stall(actor, link, true),
            Alarm::Unstall => self.receiver_stall(actor, link, false),
            Alarm::Drain => self.receiver_drain(actor, link),
            Alarm::Change => self.receiver_change(actor, link),
        }
    }

    pub(super) fn client(&mut self, actor: usize) -> &mut Client {
        let peer = self.actors[actor].peer.expect("joined");
        self.world.client_mut(peer)
    }

    fn join(&mut self, actor: usize) {
        let plan = &self.actors[actor].plan;
        let client = Client::new(plan.client.clone());
        let (to_router, to_client) = (plan.to_router.clone(), plan.to_client.clone());
        let peer = self.world.connect(client, to_router, to_client);
        self.actors[actor].peer = Some(peer);
        self.begin_sessions(actor);
    }

    fn begin_sessions(&mut self, actor: usize) {
        if !self.actors[actor].sessions.is_empty() || !self.client(actor).may_begin() {
            return;
        }
        for window in self.actors[actor].plan.sessions.clone() {
            let session = self.client(actor).begin(window);
            self.actors[actor].sessions.push(session);
        }
        for link in 0..self.actors[actor].links.len() {
            let plan = &self.actors[actor].links[link].plan;
            let (join, leave) = (self.world.now + plan.join_after, plan.leave);
            self.world.timer(join, token(Alarm::LinkJoin, actor, link));
            if let Some((at, ..)) = leave {
                self.world.timer(at, token(Alarm::LinkLeave, actor, link));
            }
        }
    }

    fn heartbeat(&mut self, actor: usize) {
        if let Some(milliseconds) = self.client(actor).remote_idle_time_out() {
            self.client(actor).heartbeat();
            let at = self.world.now + std::time::Duration::from_millis(u64::from(milliseconds) / 2);
            self.world.timer(at, token(Alarm::Heartbeat, actor, 0));
        }
    }

    fn hold_windows(&mut self, actor: usize, hold: bool) {
        if self.actors[actor].peer.is_some() {
            for session in self.actors[actor].sessions.clone() {
                self.client(actor).hold_window(session, hold);
            }
        }
    }

    /// What the plans held back is over: stalls, deaf ears, shut windows.
    pub(super) fn calm_actors(&mut self) {
        for actor in 0..self.actors.len() {
            let Some(peer) = self.actors[actor].peer.filter(|_| !self.actors[actor].gone) else { continue };
            self.world.set_reading(peer, true);
            self.hold_windows(actor, false);
            for link in 0..self.actors[actor].links.len() {
                if let Agent::Receiver(_) = self.actors[actor].links[link].agent {
                    self.receiver_calm(actor, link);
                }
            }
        }
    }

    // ── ends ──

    fn end_by_plan(&mut self, actor: usize) {
        let Some((_, end)) = self.actors[actor].plan.end else { return };
        self.end_actor(actor, end);
    }

    pub(super) fn end_actor(&mut self, actor: usize, end: PeerEnd) {
        let Some(peer) = self.actors[actor].peer else {
            self.actors[actor].gone = true;
            return;
        };
        match end {
            PeerEnd::Close => self.client(actor).close(None),
            PeerEnd::EndSessions => {
                for session in self.actors[actor].sessions.clone() {
                    self.client(actor).end(session);
                }
                for number in self.actors[actor].links.iter().filter_map(|own| own.number).collect::<Vec<_>>() {
                    self.emit(Observation::Leaving { link: number });
                }
                // Links are over once the router ends its side; until then nothing more is said of them.
                return;
            }
            PeerEnd::HangUp => self.world.hang_up(peer),
            PeerEnd::Cut { reset } => self.world.cut(peer, reset),
        }
        self.actors[actor].gone = true;
        self.links_gone(actor);
    }

    /// All links of an actor end with its connection.
    fn links_gone(&mut self, actor: usize) {
        for link in 0..self.actors[actor].links.len() {
            self.link_over(actor, link);
        }
    }

    /// A link is over: the model hears it, the agent forgets what was under way.
    fn link_over(&mut self, actor: usize, link: usize) {
        let own = &mut self.actors[actor].links[link];
        own.link = None;
        match &mut own.agent {
            Agent::Sender(sender) => {
                sender.current = None;
                sender.in_flight.clear();
            }
            Agent::Receiver(receiver) => *receiver = ReceiverAgent::default(),
        }
        let stolen = std::mem::take(&mut own.stolen);
        let number = own.number.take();
        for link in stolen.into_iter().map(|(_, number)| number).chain(number) {
            self.emit(Observation::Ended { link });
        }
    }

    /// Another link takes the name of this one.
    fn link_steal(&mut self, actor: usize, link: usize, index: LinkIndex) {
        let own = &mut self.actors[actor].links[link];
        let Some(number) = own.number.take() else { return };
        own.link = None;
        own.stolen.push((index, number));
        own.agent = match &own.plan.kind {
            LinkKind::Sender(_) => match std::mem::replace(&mut own.agent, Agent::Sender(SenderAgent::default())) {
                Agent::Sender(sender) => Agent::Sender(SenderAgent { left: sender.left, ..SenderAgent::default() }),
                other => other,
            },
            LinkKind::Receiver(_) => Agent::Receiver(ReceiverAgent::default()),
        };
        self.emit(Observation::Leaving { link: number });
        self.link_join(actor, link);
    }

    /// The router ended a link whose name was taken.
    fn stolen_over(&mut self, actor: usize, index: LinkIndex, condition: Option<&str>) {
        let stolen = self.actors[actor].links.iter_mut().find_map(|own| {
            let at = own.stolen.iter().position(|(link, _)| *link == index)?;
            Some(own.stolen.remove(at).1)
        });
        if let Some(link) = stolen {
            self.emit(Observation::Ended { link });
            // Or its session has ended meanwhile.
            if condition.is_some_and(|condition| !condition.contains("amqp:link:stolen")) && !self.winding_down {
                self.fail(format!("a stolen link ended with {condition:?}"));
            }
        }
    }

    // ── links ──

    fn link_join(&mut self, actor: usize, link: usize) {
        let own = &self.actors[actor].links[link];
        let session = self.actors[actor].sessions[own.plan.session];
        let prompt = self.actors[actor].plan.is_prompt();
        let over = {
            let session = self.client(actor).session(session);
            session.end_sent || session.end_received
        };
        let own = &mut self.actors[actor].links[link];
        if over || own.link.is_some() || self.winding_down {
            return;
        }
        let (node, role, sender_settle_mode, receiver_settle_mode) = match &own.plan.kind {
            LinkKind::Sender(plan) => (plan.node.clone(), Role::Sender, plan.sender_mode, plan.receiver_mode),
            LinkKind::Receiver(plan) => (plan.node.clone(), Role::Receiver, plan.sender_mode, plan.receiver_mode),
        };
        let max_message_size = match &own.plan.kind {
            LinkKind::Sender(_) => None,
            LinkKind::Receiver(plan) => plan.max_message_size,
        };
        let address = match &node {
            Node::Address(address) => Some(address.clone()),
            _ => None,
        };
        let settled_mode = sender_settle_mode == crate::link::SenderSettleMode::Settled;
        let settled_mode = settled_mode && role == Role::Receiver;
        let number = self.model.add_link(role == Role::Sender, address, settled_mode, prompt, max_message_size);
        own.number = Some(number);
        let name = format!("link-{link}");
        let request = AttachRequest { name, node, role, sender_settle_mode, receiver_settle_mode, max_message_size };
        let index = self.client(actor).attach(session, request);
        self.actors[actor].links[link].link = Some(index);
    }

    fn link_leave(&mut self, actor: usize, link: usize) {
        let Some(index) = self.actors[actor].links[link].link else { return };
        if self.actors[actor].links[link].plan.steals {
            self.actors[actor].links[link].plan.leave = None;
            return self.link_steal(actor, link, index);
        }
        let closed = self.actors[actor].links[link].plan.leave.is_none_or(|(_, closed, _)| closed);
        let number = self.actors[actor].links[link].number;
        self.client(actor).detach(index, closed);
        if let Some(link) = number {
            self.emit(Observation::Leaving { link });
        }
        // What the router says of its deliveries until its own detach still counts.
    }

    // ── what clients hear ──

    pub(super) fn client_events(&mut self, peer: PeerIndex) {
        let Some(actor) = self.actors.iter().position(|actor| actor.peer == Some(peer)) else { return };
        if self.actors[actor].gone {
            // After our own close: the router's answer is waited for, then the socket is closed.
            let closed = self.world.client(peer).is_closed();
            if closed && !self.world.is_over(peer) {
                self.world.hang_up(peer);
            }
            return;
        }
        self.begin_sessions(actor);
        while let Some(event) = self.world.client_mut(peer).poll_event() {
            self.client_event(actor, event);
            if self.actors[actor].gone {
                return;
            }
        }
        // Once all that came is counted as held: the client's own credit is ahead of the events that are left.
        for link in 0..self.actors[actor].links.len() {
            if let Agent::Receiver(_) = self.actors[actor].links[link].agent {
                self.receiver_credit(actor, link);
            }
        }
        if self.world.is_over(peer) {
            self.fail("the router ended a connection without a close");
        }
    }

    fn client_event(&mut self, actor: usize, event: Event) {
        match event {
            Event::Opened => self.heartbeat(actor),
            Event::Closed { condition } => {
                self.actors[actor].gone = true;
                self.links_gone(actor);
                if let Some(peer) = self.actors[actor].peer {
                    self.world.hang_up(peer);
                }
                let forced = condition.as_ref().is_some_and(|text| text.contains("amqp:connection:forced"));
                if !self.winding_down || forced != self.stopped {
                    self.fail(format!("the router closed client {actor}'s connection: {condition:?}"));
                }
            }
            Event::SessionEnded { condition, .. } => {
                let is_refused =
                    |why: &String| why.starts_with("amqp:resource-limit-exceeded") && self.world.was_full();
                if condition.as_ref().is_some_and(|why| !is_refused(why)) {
                    self.fail(format!("the router ended a session of client {actor}: {condition:?}"));
                }
            }
            Event::Attached { link, address } => {
                let Some(own) = self.actors[actor].find(link) else { return };
                let Some(number) = self.actors[actor].links[own].number else { return };
                self.emit(Observation::Attached { link: number, address });
                match self.actors[actor].links[own].agent {
                    Agent::Sender(_) => self.sender_pump(actor, own),
                    Agent::Receiver(_) => self.receiver_attached(actor, own),
                }
            }
            Event::Detached { link, refused, condition, .. } => {
                let Some(own) = self.actors[actor].find(link) else {
                    return self.stolen_over(actor, link, condition.as_deref().filter(|_| !refused));
                };
                self.link_over(actor, own);
                let leave = self.actors[actor].links[own].plan.leave;
                if condition.is_some() && !refused && !self.winding_down {
                    self.fail(format!("the router detached link {own} of client {actor}: {condition:?}"));
                }
                if let Some((_, _, Some(again))) = leave {
                    // Once only.
                    self.actors[actor].links[own].plan.leave = None;
                    self.world.timer(self.world.now + again, token(Alarm::LinkJoin, actor, own));
                }
            }
            Event::Credit { link } => {
                if let Some(own) = self.actors[actor].find(link) {
                    self.sender_pump(actor, own);
                }
            }
            Event::Window { session } => {
                for own in 0..self.actors[actor].links.len() {
                    let link = self.actors[actor].links[own].link;
                    let here = link.is_some_and(|link| self.client(actor).link(link).session == session);
                    if here && matches!(self.actors[actor].links[own].agent, Agent::Sender(_)) {
                        self.sender_pump(actor, own);
                    }
                }
            }
            Event::Outcome { link, delivery_id, kind, state, settled } => {
                if let Some(own) = self.actors[actor].find(link) {
                    self.sender_outcome(actor, own, delivery_id, kind, state, settled);
                }
            }
            Event::Message { link, delivery_id, settled, bytes } => {
                if let Some(own) = self.actors[actor].find(link) {
                    self.receiver_message(actor, own, delivery_id, settled, &bytes);
                }
            }
            Event::MessageAborted { .. } => {}
            Event::PeerSettled { link, delivery_id } => {
                if let Some(own) = self.actors[actor].find(link) {
                    self.receiver_settled(actor, own, delivery_id);
                }
            }
            Event::Drained { link, .. } => {
                if let Some(own) = self.actors[actor].find(link) {
                    self.receiver_drained(actor, own);
                }
            }
        }
    }

    /// Whether a link of an actor's is attached.
    fn is_attached(&mut self, actor: usize, link: usize) -> Option<LinkIndex> {
        let index = self.actors[actor].links[link].link?;
        (self.client(actor).link(index).state == LinkState::Attached).then_some(index)
    }
}
