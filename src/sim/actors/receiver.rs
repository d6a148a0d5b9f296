//! Receivers: each with a window, a time of service, batches, outcomes, stalls, drains.

use super::{token, Actor, Agent, Alarm, ReceiverAgent};
use crate::link::ReceiverSettleMode;
use crate::outcome::StateKind;
use crate::sim::message::{digest, parse};
use crate::sim::model::Observation;
use crate::sim::plan::{LinkKind, ReceiverPlan, TopUp};
use crate::sim::random::Random;
use crate::sim::simulation::Simulation;
use crate::wire::error::Error;
use crate::wire::state::State;
use crate::wire::{encode, value};
use std::time::Duration;

impl Actor {
    fn receiver(&mut self, link: usize) -> (&mut ReceiverAgent, &ReceiverPlan, &mut Random) {
        let own = &mut self.links[link];
        match (&mut own.agent, &own.plan.kind) {
            (Agent::Receiver(agent), LinkKind::Receiver(plan)) => (agent, plan, &mut own.random),
            _ => unreachable!("asked of a receiver's link only"),
        }
    }
}

/// An outcome by the plan's odds, as it is encoded.
fn draw_outcome(plan: &ReceiverPlan, random: &mut Random) -> (StateKind, Vec<u8>) {
    let mut at = random.below(plan.outcomes.iter().sum());
    let mut choice = 0;
    while at >= plan.outcomes[choice] {
        at -= plan.outcomes[choice];
        choice += 1;
    }
    let mut out = Vec::new();
    let kind = match choice {
        0 => {
            State::Accepted.encode(&mut out);
            StateKind::Accepted
        }
        1 => {
            let error = random.percent(50).then(|| Error::new("amqp:not-allowed", "not to my taste"));
            State::Rejected { error }.encode(&mut out);
            StateKind::Rejected
        }
        2 => {
            State::Released.encode(&mut out);
            StateKind::Released
        }
        _ => {
            let mut map = Vec::new();
            let compound = encode::begin(&mut map);
            encode::symbol(&mut map, "x-opt-reason");
            encode::ulong(&mut map, random.next());
            encode::finish(&mut map, compound, value::code::MAP8, 2);
            State::Modified {
                delivery_failed: random.percent(50),
                undeliverable_here: random.percent(50),
                message_annotations: random.percent(50).then_some(&map),
            }
            .encode(&mut out);
            StateKind::Modified
        }
    };
    (kind, out)
}

impl Simulation {
    pub(super) fn receiver_attached(&mut self, actor: usize, link: usize) {
        let (_, plan, _) = self.actors[actor].receiver(link);
        let (first, stall, drain, change) = (plan.first_credit_after, plan.stall, plan.drain_every, plan.change_every);
        let now = self.world.now;
        self.world.timer(now + first, token(Alarm::FirstCredit, actor, link));
        if let Some((at, long)) = stall {
            self.world.timer(at, token(Alarm::Stall, actor, link));
            self.world.timer(at.max(now) + long, token(Alarm::Unstall, actor, link));
        }
        if let Some(every) = drain {
            self.world.timer(now + every, token(Alarm::Drain, actor, link));
        }
        if let Some(every) = change {
            self.world.timer(now + every, token(Alarm::Change, actor, link));
        }
    }

    pub(super) fn receiver_start(&mut self, actor: usize, link: usize) {
        if self.is_attached(actor, link).is_some() {
            self.actors[actor].receiver(link).0.started = true;
            self.receiver_credit(actor, link);
        }
    }

    /// Gives credit, as the plan has it.
    pub(super) fn receiver_credit(&mut self, actor: usize, link: usize) {
        let Some(index) = self.is_attached(actor, link) else { return };
        let state = self.client(actor).link(index);
        let (credit, draining) = (state.credit(), state.is_draining());
        let calm = self.calm;
        let (agent, plan, _) = self.actors[actor].receiver(link);
        if !agent.started || draining || (agent.stalled && !calm) {
            self.tell_credit(actor, link, credit);
            return;
        }
        let held = agent.queue.len() + agent.batch.len() + agent.told.len();
        let want = plan.window.saturating_sub(held as u32);
        let gives = match plan.top_up {
            TopUp::Each => want > credit,
            TopUp::Half => want > credit && credit <= plan.window / 2,
            TopUp::Empty => want > 0 && credit == 0,
        };
        let gives = gives || calm && want > credit;
        if gives {
            self.client(actor).set_credit(index, want, false);
        }
        let credit = self.client(actor).link(index).credit();
        self.tell_credit(actor, link, credit);
    }

    /// The model hears of a credit that is another than before.
    fn tell_credit(&mut self, actor: usize, link: usize, credit: u32) {
        let told = self.actors[actor].receiver(link).0.credit_told.replace(credit);
        if let Some(link) = self.actors[actor].links[link].number.filter(|_| told != Some(credit)) {
            self.emit(Observation::Credit { link, credit });
        }
    }

    pub(super) fn receiver_message(
        &mut self,
        actor: usize,
        link: usize,
        delivery_id: u32,
        settled: bool,
        bytes: &[u8],
    ) {
        let Some(number) = self.actors[actor].links[link].number else { return };
        let Some((key, properties)) = parse(bytes) else {
            return self.fail(format!("a message that nobody sent: {} bytes", bytes.len()));
        };
        self.emit(Observation::Received { key, link: number, settled, digest: digest(bytes) });
        let agent = self.actors[actor].receiver(link).0;
        agent.queue.push_back((delivery_id, key, settled));
        if let Some(address) = properties.reply_to {
            agent.reply_to.insert(key, address);
        }
        self.receiver_serve(actor, link);
    }

    /// Begins to serve the next message.
    fn receiver_serve(&mut self, actor: usize, link: usize) {
        loop {
            let (calm, now) = (self.calm, self.world.now);
            let (agent, plan, _) = self.actors[actor].receiver(link);
            if agent.queue.is_empty() || agent.serving || (agent.stalled && !calm) {
                break;
            }
            if !plan.service.is_zero() && !calm {
                agent.serving = true;
                let at = now + plan.service;
                self.world.timer(at, token(Alarm::Served, actor, link));
                return;
            }
            self.receiver_finish_one(actor, link);
        }
        let (agent, plan, _) = self.actors[actor].receiver(link);
        if agent.batch.is_empty() {
            return;
        }
        if agent.batch.len() >= plan.settle_batch as usize || self.calm {
            return self.receiver_flush(actor, link);
        }
        if !std::mem::replace(&mut agent.flush_pending, true) {
            let at = self.world.now + Duration::from_millis(20);
            self.world.timer(at, token(Alarm::FlushBatch, actor, link));
        }
    }

    pub(super) fn receiver_served(&mut self, actor: usize, link: usize) {
        let agent = self.actors[actor].receiver(link).0;
        if !std::mem::replace(&mut agent.serving, false) {
            return;
        }
        self.receiver_finish_one(actor, link);
        self.receiver_serve(actor, link);
        self.receiver_credit(actor, link);
    }

    fn receiver_finish_one(&mut self, actor: usize, link: usize) {
        let (agent, plan, random) = self.actors[actor].receiver(link);
        let Some((delivery_id, key, settled)) = agent.queue.pop_front() else { return };
        let reply = agent.reply_to.remove(&key).zip(plan.reply_through);
        if !settled {
            let (kind, state) = draw_outcome(plan, random);
            agent.batch.push((delivery_id, key, kind, state));
        }
        if let Some((address, through)) = reply {
            self.sender_reply(actor, through, address, key);
        }
    }

    pub(super) fn receiver_flush_due(&mut self, actor: usize, link: usize) {
        self.receiver_flush(actor, link);
        self.receiver_credit(actor, link);
    }

    /// Tells the outcomes of a batch.
    fn receiver_flush(&mut self, actor: usize, link: usize) {
        let index = self.is_attached(actor, link);
        let number = self.actors[actor].links[link].number;
        let (agent, plan, _) = self.actors[actor].receiver(link);
        agent.flush_pending = false;
        let (Some(index), Some(number)) = (index, number) else { return };
        let settles = plan.receiver_mode == ReceiverSettleMode::First;
        let batch = std::mem::take(&mut agent.batch);
        if !settles {
            agent.told.extend(batch.iter().map(|(delivery_id, key, ..)| (*delivery_id, *key)));
        }
        let mut rest = &batch[..];
        while let Some((first, _, _, state)) = rest.first() {
            let alike = rest
                .iter()
                .enumerate()
                .take_while(|(place, (id, _, _, other))| first.wrapping_add(*place as u32) == *id && other == state)
                .count();
            for (_, key, kind, state) in &rest[..alike] {
                self.emit(Observation::Disposed { key: *key, link: number, kind: *kind, state: state.clone() });
            }
            let last = first.wrapping_add(alike as u32 - 1);
            self.client(actor).dispose(index, *first, last, Some(state), settles);
            rest = &rest[alike..];
        }
    }

    /// The router settled what this receiver told.
    pub(super) fn receiver_settled(&mut self, actor: usize, link: usize, delivery_id: u32) {
        let agent = self.actors[actor].receiver(link).0;
        agent.told.remove(&delivery_id);
    }

    pub(super) fn receiver_stall(&mut self, actor: usize, link: usize, stalled: bool) {
        self.actors[actor].receiver(link).0.stalled = stalled;
        if !stalled {
            self.receiver_serve(actor, link);
            self.receiver_credit(actor, link);
        }
    }

    /// All that waits is served and told now.
    pub(super) fn receiver_calm(&mut self, actor: usize, link: usize) {
        if self.is_attached(actor, link).is_none() {
            return;
        }
        let agent = self.actors[actor].receiver(link).0;
        agent.started = true;
        agent.serving = false;
        self.receiver_serve(actor, link);
        self.receiver_credit(actor, link);
    }

    pub(super) fn receiver_drain(&mut self, actor: usize, link: usize) {
        let (calm, now) = (self.calm, self.world.now);
        let Some(index) = self.is_attached(actor, link) else { return };
        let (agent, plan, random) = self.actors[actor].receiver(link);
        let Some(every) = plan.drain_every.filter(|_| !calm) else { return };
        let credit = random.between(0, u64::from(plan.window)) as u32;
        let started = agent.started;
        self.world.timer(now + every, token(Alarm::Drain, actor, link));
        if started && !self.client(actor).link(index).is_draining() {
            self.client(actor).set_credit(index, credit, credit > 0);
            let credit = self.client(actor).link(index).credit();
            self.tell_credit(actor, link, credit);
        }
    }

    pub(super) fn receiver_drained(&mut self, actor: usize, link: usize) {
        if let Some(number) = self.actors[actor].links[link].number {
            self.emit(Observation::Drained { link: number });
        }
    }

    /// Another credit, more or less than before.
    pub(super) fn receiver_change(&mut self, actor: usize, link: usize) {
        let (calm, now) = (self.calm, self.world.now);
        let Some(index) = self.is_attached(actor, link) else { return };
        let (agent, plan, random) = self.actors[actor].receiver(link);
        let Some(every) = plan.change_every.filter(|_| !calm) else { return };
        let credit = random.between(0, u64::from(plan.window)) as u32;
        let started = agent.started;
        self.world.timer(now + every, token(Alarm::Change, actor, link));
        if started && !self.client(actor).link(index).is_draining() {
            self.client(actor).set_credit(index, credit, false);
            self.tell_credit(actor, link, credit);
        }
    }
}
