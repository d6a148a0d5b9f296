//! Senders: eager or paced, whole or piecemeal, some give up in the middle.

use super::{token, Actor, Agent, Alarm, SenderAgent, Sending};
use crate::outcome::StateKind;
use crate::sim::message::{compose, digest, Properties};
use crate::sim::model::Observation;
use crate::sim::plan::{LinkKind, SenderPlan};
use crate::sim::random::Random;
use crate::sim::simulation::Simulation;
use crate::time::Time;
use std::time::Duration;

impl Actor {
    fn sender(&mut self, link: usize) -> (&mut SenderAgent, &SenderPlan, &mut Random) {
        let own = &mut self.links[link];
        match (&mut own.agent, &own.plan.kind) {
            (Agent::Sender(agent), LinkKind::Sender(plan)) => (agent, plan, &mut own.random),
            _ => unreachable!("asked of a sender's link only"),
        }
    }
}

impl Simulation {
    pub(super) fn sender_tick(&mut self, actor: usize, link: usize) {
        self.actors[actor].sender(link).0.tick_at = None;
        self.sender_pump(actor, link);
    }

    fn sender_wait(&mut self, actor: usize, link: usize, at: Time) {
        let agent = self.actors[actor].sender(link).0;
        if agent.tick_at.is_none_or(|earlier| at < earlier) {
            agent.tick_at = Some(at);
            self.world.timer(at, token(Alarm::Tick, actor, link));
        }
    }

    /// Sends what can be sent now.
    pub(super) fn sender_pump(&mut self, actor: usize, link: usize) {
        while let Some(index) = self.is_attached(actor, link) {
            let now = self.world.now;
            let agent = self.actors[actor].sender(link).0;
            if let Some(current) = &agent.current {
                if current.resume_at > now {
                    let at = current.resume_at;
                    self.sender_wait(actor, link, at);
                    return;
                }
                if !self.sender_continue(actor, link) {
                    return;
                }
                continue;
            }
            let has_more = (agent.left > 0 || !agent.replies.is_empty()) && !self.winding_down;
            let has_more = has_more && self.reply_address(actor, link).is_ok();
            let agent = self.actors[actor].sender(link).0;
            let ready = has_more && agent.next_at <= now;
            if has_more && !ready {
                let at = agent.next_at;
                self.sender_wait(actor, link, at);
            }
            let state = self.client(actor).link(index);
            let (credit, draining) = (state.credit(), state.is_draining());
            if !ready || credit == 0 {
                if draining && (self.actors[actor].sender(link).1.answers_drain || credit == 0) {
                    self.client(actor).return_credit(index);
                }
                return;
            }
            if !self.sender_begin(actor, link) {
                return;
            }
        }
    }

    /// Begins a message; false where the session has no room.
    fn sender_begin(&mut self, actor: usize, link: usize) -> bool {
        let Some(index) = self.is_attached(actor, link) else { return false };
        let session = self.client(actor).link(index).session;
        if self.client(actor).session(session).remote_room() == 0 {
            return false;
        }
        let Ok(reply_to) = self.reply_address(actor, link) else { return false };
        let key = self.model.next_key();
        let now = self.world.now;
        let (agent, plan, random) = self.actors[actor].sender(link);
        let size = random.skewed(0, plan.size_max) as usize;
        let reply = agent.replies.pop_front();
        let (address, correlation_id) = match &reply {
            Some((address, request)) => (address.clone(), Some(*request)),
            None => (random.pick(&plan.addresses).clone(), None),
        };
        let anonymous = plan.node == crate::sim::client::Node::Anonymous;
        let to = anonymous.then(|| address.clone());
        let bytes = compose(key, size, &Properties { to, reply_to, correlation_id });
        let settled = random.percent(plan.settled_percent);
        let piecemeal = random.percent(plan.piecemeal_percent);
        let abort_at = random.percent(plan.abort_percent).then(|| random.below(bytes.len() as u64) as usize);
        let tag = random.next().to_be_bytes();
        let tag = &tag[..random.between(0, 8) as usize];
        agent.left -= u32::from(reply.is_none());
        agent.next_at = plan.interval.map_or(now, |interval| agent.next_at.max(now) + interval);
        let mut sending = Sending { key, bytes, sent: 0, abort_at, piecemeal, resume_at: now };
        let (size, last) = sending.next_piece(random);
        let piece = &sending.bytes[..size];
        let begun = self.client(actor).send_begin(index, settled, tag, piece, last);
        let Some((delivery_id, taken)) = begun else { return false };
        sending.sent = taken;
        let (digest, whole) = (digest(&sending.bytes), sending.bytes.len());
        let number = self.actors[actor].links[link].number.expect("attached");
        self.emit(Observation::Begun { key, link: number, address, settled, digest, size: whole });
        let agent = self.actors[actor].sender(link).0;
        if !settled {
            agent.in_flight.insert(delivery_id, key);
        }
        agent.current = Some(sending);
        self.sender_progress(actor, link, last && taken == size)
    }

    /// Goes on with the message under way; false where it has to wait.
    fn sender_continue(&mut self, actor: usize, link: usize) -> bool {
        let Some(index) = self.is_attached(actor, link) else { return false };
        let (agent, _, random) = self.actors[actor].sender(link);
        let Some(sending) = &mut agent.current else { return false };
        if sending.abort_at.is_some_and(|at| sending.sent >= at) {
            let key = sending.key;
            if !self.client(actor).send_abort(index) {
                return false;
            }
            let agent = self.actors[actor].sender(link).0;
            agent.current = None;
            agent.in_flight.retain(|_, other| *other != key);
            self.emit(Observation::Aborted { key });
            return true;
        }
        let (size, last) = sending.next_piece(random);
        let piece = sending.bytes[sending.sent..sending.sent + size].to_vec();
        let taken = self.client(actor).send_part(index, &piece, last);
        let agent = self.actors[actor].sender(link).0;
        if let Some(sending) = &mut agent.current {
            sending.sent += taken;
        }
        let complete = last && taken == size && !self.client(actor).link(index).is_sending();
        self.sender_progress(actor, link, complete) && (taken > 0 || complete)
    }

    /// After some of a message went out.
    fn sender_progress(&mut self, actor: usize, link: usize, complete: bool) -> bool {
        let Some(index) = self.is_attached(actor, link) else { return false };
        let complete = complete && !self.client(actor).link(index).is_sending();
        let now = self.world.now;
        let (agent, _, random) = self.actors[actor].sender(link);
        let Some(sending) = &mut agent.current else { return false };
        if complete {
            let key = sending.key;
            agent.current = None;
            self.emit(Observation::Completed { key });
            self.sender_abandon(actor, link, key);
        } else if sending.piecemeal {
            sending.resume_at = now + Duration::from_micros(random.skewed(1, 50_000));
        }
        true
    }

    /// Where replies to this sender's messages go: nowhere, or to a receiver's dynamic address, once that is known.
    fn reply_address(&mut self, actor: usize, link: usize) -> Result<Option<String>, ()> {
        let Some(receiver) = self.actors[actor].sender(link).1.reply_link else { return Ok(None) };
        let number = self.actors[actor].links[receiver].number.ok_or(())?;
        self.model.link(number).address.clone().map(Some).ok_or(())
    }

    /// A reply is due, through this sender.
    pub(super) fn sender_reply(&mut self, actor: usize, link: usize, address: String, request: u64) {
        self.actors[actor].sender(link).0.replies.push_back((address, request));
        self.sender_pump(actor, link);
    }

    /// Some messages are settled by their sender before it hears of them.
    fn sender_abandon(&mut self, actor: usize, link: usize, key: u64) {
        let (agent, plan, random) = self.actors[actor].sender(link);
        let in_flight = agent.in_flight.iter().find(|(_, other)| **other == key).map(|(delivery_id, _)| *delivery_id);
        let Some(delivery_id) = in_flight.filter(|_| random.percent(plan.abandon_percent)) else { return };
        let Some(index) = self.is_attached(actor, link) else { return };
        self.actors[actor].sender(link).0.in_flight.remove(&delivery_id);
        self.client(actor).dispose(index, delivery_id, delivery_id, None, true);
        self.emit(Observation::Abandoned { key });
    }

    pub(super) fn sender_outcome(
        &mut self,
        actor: usize,
        link: usize,
        delivery_id: u32,
        kind: Option<StateKind>,
        state: Vec<u8>,
        settled: bool,
    ) {
        let agent = self.actors[actor].sender(link).0;
        let Some(&key) = agent.in_flight.get(&delivery_id) else { return };
        let sending = agent.current.as_ref().is_some_and(|current| current.key == key);
        if settled && !sending {
            agent.in_flight.remove(&delivery_id);
        }
        self.emit(Observation::Outcome { key, kind, state: state.clone(), settled });
        let terminal = kind.is_some_and(|kind| kind != StateKind::Received);
        if !settled && terminal {
            // Three acknowledgements: this side settles last.
            let Some(index) = self.actors[actor].links[link].link else { return };
            self.actors[actor].sender(link).0.in_flight.remove(&delivery_id);
            self.client(actor).dispose(index, delivery_id, delivery_id, Some(&state), true);
            self.emit(Observation::Outcome { key, kind, state, settled: true });
        }
    }
}

impl Sending {
    /// How many bytes to send next, and whether they are the last.
    fn next_piece(&self, random: &mut Random) -> (usize, bool) {
        let mut left = self.bytes.len() - self.sent;
        if self.piecemeal {
            left = left.min(random.between(1, 3000) as usize);
        }
        match self.abort_at {
            Some(at) => (left.min(at.saturating_sub(self.sent)), false),
            None => (left, self.sent + left == self.bytes.len()),
        }
    }
}
