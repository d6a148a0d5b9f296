//! A plan that fails, made smaller for as long as it fails in the same way: fewer clients, links, messages and disturbances.
//!
//! Greedy: what is left out stays out where the same checker still finds something; all over again until nothing
//! more can be left out. The same seed shrinks to the same plan.

use super::pipe::Manner;
use super::plan::{rules, LinkKind, PeerPlan, Plan, ReceiverPlan, SenderPlan, TopUp};
use super::simulation::{run_plan, Failure};
use crate::engine;
use crate::link::{ReceiverSettleMode, SenderSettleMode};
use crate::routing::RouterSettings;
use crate::time::Time;
use std::fmt;
use std::time::Duration;

/// A plan takes milliseconds to run, as a rule.
const RUNS_MAX: usize = 2000;
/// Steps of all runs: where each takes its time, there are fewer.
const STEPS_MAX: u64 = 30_000_000;

/// The smallest plan that was found.
pub struct Shrunk {
    pub plan: Plan,
    /// How that one fails.
    pub failure: Failure,
    /// Plans that were tried.
    pub runs: usize,
    steps: u64,
}

impl fmt::Display for Shrunk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure { step, by, what, .. } = &self.failure;
        let (peers, links, messages) = self.size();
        let runs = self.runs;
        writeln!(
            f,
            "shrunk in {runs} runs to {peers} clients, {links} links, {messages} messages: fails at step {step}, "
        )?;
        writeln!(f, "found by {by}: {what}")?;
        let Plan { world, peers, duration, router_stops } = &self.plan;
        write!(f, "{world:?}\n{duration:?}, the router stops: {router_stops}\n{peers:#?}")
    }
}

impl Shrunk {
    /// Clients, links, messages.
    pub fn size(&self) -> (usize, usize, u32) {
        let links = || self.plan.peers.iter().flat_map(|peer| &peer.links);
        let messages = links().map(|link| match &link.kind {
            LinkKind::Sender(sender) => sender.messages,
            LinkKind::Receiver(_) => 0,
        });
        (self.plan.peers.len(), links().count(), messages.sum())
    }
}

/// Shrinks a plan that was seen to fail.
pub fn shrink(plan: Plan, failure: Failure) -> Shrunk {
    let mut smallest = Shrunk { plan, failure, runs: 0, steps: 0 };
    loop {
        let before = smallest.size();
        let mut changed = fewer_peers(&mut smallest);
        changed |= fewer_links(&mut smallest);
        for simplify in WORLD {
            changed |= smallest.takes(simplify);
        }
        // Of all at once, then of each.
        for simplify in PEER {
            changed |= smallest.takes(|plan| plan.peers.iter_mut().for_each(simplify));
            for at in 0..smallest.plan.peers.len() {
                changed |= smallest.takes(|plan| simplify(&mut plan.peers[at]));
            }
        }
        changed |= simpler_links(&mut smallest);
        if !changed && smallest.size() == before || smallest.runs >= RUNS_MAX || smallest.steps >= STEPS_MAX {
            return smallest;
        }
    }
}

impl Shrunk {
    /// Whether the plan still fails with such a change; then it is kept.
    fn takes(&mut self, change: impl FnOnce(&mut Plan)) -> bool {
        let mut plan = self.plan.clone();
        change(&mut plan);
        if self.runs >= RUNS_MAX || self.steps >= STEPS_MAX || format!("{plan:?}") == format!("{:?}", self.plan) {
            return false;
        }
        self.runs += 1;
        let run = run_plan(self.failure.seed, plan.clone(), false);
        self.steps += match &run {
            Ok(summary) => summary.steps,
            Err(failure) => failure.step,
        };
        match run {
            Err(failure) if failure.by == self.failure.by => {
                (self.plan, self.failure) = (plan, failure);
                true
            }
            _ => false,
        }
    }
}

/// Leaves out halves, quarters and so on, down to single ones.
fn fewer(shrunk: &mut Shrunk, count: impl Fn(&Plan) -> usize, remove: impl Fn(&mut Plan, usize)) -> bool {
    let mut changed = false;
    let mut size = count(&shrunk.plan).div_ceil(2);
    while size > 0 {
        let mut at = 0;
        while at < count(&shrunk.plan) {
            let end = (at + size).min(count(&shrunk.plan));
            if shrunk.takes(|plan| (at..end).rev().for_each(|one| remove(plan, one))) {
                changed = true;
            } else {
                at += size;
            }
        }
        size /= 2;
    }
    changed
}

fn fewer_peers(shrunk: &mut Shrunk) -> bool {
    fewer(shrunk, |plan| plan.peers.len(), |plan, at| drop(plan.peers.remove(at)))
}

fn fewer_links(shrunk: &mut Shrunk) -> bool {
    let mut changed = false;
    for peer in 0..shrunk.plan.peers.len() {
        changed |=
            fewer(shrunk, |plan| plan.peers[peer].links.len(), |plan, at| remove_link(&mut plan.peers[peer], at));
    }
    changed
}

/// Without a link; those that have to do with it do without.
fn remove_link(peer: &mut PeerPlan, at: usize) {
    peer.links.remove(at);
    let moved = |other: usize| (other != at).then_some(if other > at { other - 1 } else { other });
    for link in &mut peer.links {
        match &mut link.kind {
            LinkKind::Sender(sender) => sender.reply_link = sender.reply_link.and_then(moved),
            LinkKind::Receiver(receiver) => receiver.reply_through = receiver.reply_through.and_then(moved),
        }
    }
}

fn fewer_messages(shrunk: &mut Shrunk, peer: usize, link: usize) -> bool {
    let LinkKind::Sender(sender) = &shrunk.plan.peers[peer].links[link].kind else { return false };
    let before = sender.messages;
    let (mut messages, mut less) = (before, before.div_ceil(2));
    while less > 0 && messages > 0 {
        let fewer = messages.saturating_sub(less);
        let taken = shrunk.takes(|plan| match &mut plan.peers[peer].links[link].kind {
            LinkKind::Sender(sender) => sender.messages = fewer,
            LinkKind::Receiver(_) => {}
        });
        if taken {
            messages = fewer;
        }
        less = (less / 2).min(messages);
    }
    messages < before
}

fn simpler_links(shrunk: &mut Shrunk) -> bool {
    let mut changed = false;
    for peer in 0..shrunk.plan.peers.len() {
        for at in 0..shrunk.plan.peers[peer].links.len() {
            changed |= shrunk.takes(|plan| plan.peers[peer].links[at].join_after = Duration::ZERO);
            changed |= shrunk.takes(|plan| plan.peers[peer].links[at].leave = None);
            changed |= shrunk.takes(|plan| plan.peers[peer].links[at].steals = false);
            changed |= fewer_messages(shrunk, peer, at);
            for simplify in SENDER {
                changed |= shrunk.takes(|plan| match &mut plan.peers[peer].links[at].kind {
                    LinkKind::Sender(sender) => simplify(sender),
                    LinkKind::Receiver(_) => {}
                });
            }
            for simplify in RECEIVER {
                changed |= shrunk.takes(|plan| match &mut plan.peers[peer].links[at].kind {
                    LinkKind::Receiver(receiver) => simplify(receiver),
                    LinkKind::Sender(_) => {}
                });
            }
        }
    }
    changed
}

const WORLD: [fn(&mut Plan); 18] = [
    |plan| plan.router_stops = false,
    |plan| plan.world.shards = 1,
    |plan| plan.world.moves = false,
    |plan| plan.world.lanes.delay_max = Duration::from_micros(1),
    |plan| plan.world.lanes.parcels = 64,
    |plan| plan.world.turn_delay = Duration::ZERO,
    |plan| plan.world.edges_refused_percent = 0,
    |plan| plan.world.memory_limit = None,
    |plan| plan.world.chunk_bytes = 65_536,
    |plan| plan.world.link_capacity = 250,
    |plan| plan.world.router.rules = rules(),
    |plan| plan.world.router.credit_slack_percent = RouterSettings::default().credit_slack_percent,
    |plan| plan.world.engine.max_frame_size = 16_384,
    |plan| plan.world.engine.unsettled_max = engine::Settings::default().unsettled_max,
    |plan| plan.world.engine.session_incoming_bytes = 4 << 20,
    |plan| plan.world.engine.max_session_frames = None,
    |plan| plan.world.engine.initial_serial = 0,
    |plan| plan.duration = plan.duration.max(Duration::from_millis(2)) / 2,
];

const PEER: [fn(&mut PeerPlan); 9] = [
    |peer| peer.end = None,
    |peer| peer.deaf = None,
    |peer| peer.shut = None,
    |peer| peer.join_at = Time::ZERO,
    |peer| peer.to_router = Manner { delay: peer.to_router.delay, ..Manner::default() },
    |peer| peer.to_client = Manner { delay: peer.to_client.delay, ..Manner::default() },
    |peer| peer.sessions.fill(2048),
    |peer| peer.client.handshake = Default::default(),
    |peer| (peer.client.idle_time_out, peer.client.initial_serial, peer.client.max_frame_size) = (None, 0, 16_384),
];

const SENDER: [fn(&mut SenderPlan); 7] = [
    |sender| sender.interval = None,
    |sender| sender.size_max = 8,
    |sender| sender.abort_percent = 0,
    |sender| sender.piecemeal_percent = 0,
    |sender| sender.abandon_percent = 0,
    |sender| (sender.sender_mode, sender.settled_percent) = (SenderSettleMode::Mixed, 0),
    |sender| sender.receiver_mode = ReceiverSettleMode::First,
];

const RECEIVER: [fn(&mut ReceiverPlan); 10] = [
    |receiver| receiver.max_message_size = None,
    |receiver| receiver.stall = None,
    |receiver| receiver.drain_every = None,
    |receiver| receiver.change_every = None,
    |receiver| receiver.outcomes = [100, 0, 0, 0],
    |receiver| receiver.service = Duration::ZERO,
    |receiver| receiver.settle_batch = 1,
    |receiver| receiver.top_up = TopUp::Each,
    |receiver| receiver.first_credit_after = Duration::ZERO,
    |receiver| (receiver.sender_mode, receiver.receiver_mode) = (SenderSettleMode::Mixed, ReceiverSettleMode::First),
];
