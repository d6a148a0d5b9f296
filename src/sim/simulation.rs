//! One simulation: a plan drawn from a seed, acted, watched and judged.

use super::actors::{Actor, Agent};
use super::checkers::{self, Checker, Standing};
use super::message::digest;
use super::model::{Model, Observation};
use super::plan::{PeerEnd, Plan};
use super::random::Random;
use super::world::{Happening, World};
use crate::time::Time;
use std::fmt;
use std::time::Duration;

/// After the last planned event: in so long all that can happen has happened.
const QUIET_AFTER: Duration = Duration::from_secs(10);
/// The same after everybody was told to go.
const END_AFTER: Duration = Duration::from_secs(20);
/// A simulation that takes so many steps without a fact or a byte of a message goes round in circles.
const STEPS_IDLE_MAX: u64 = 1_000_000;
/// One that takes so many in all does, too; large messages in small frames through a window of one frame take a tenth of it.
const STEPS_MAX: u64 = 60_000_000;

/// What a run came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Summary {
    pub steps: u64,
    /// Two runs of one seed have the same.
    pub trace_digest: u64,
    pub messages: usize,
    pub received: usize,
    pub outcomes: usize,
    pub links: usize,
}

/// What broke.
pub struct Failure {
    pub seed: u64,
    pub step: u64,
    pub at: Time,
    /// The checker that found it; `actor`: a client was treated as nothing in its plan explains; `panic`: an assertion
    /// of the rooms themselves.
    pub by: &'static str,
    pub what: String,
    /// The run in readable lines, where asked for.
    pub log: Vec<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure { seed, step, by, what, .. } = self;
        writeln!(f, "seed {seed} failed at step {step}, {:?}, found by {by}: {what}", self.at.since(Time::ZERO))?;
        write!(f, "alone: RINGWAY_SEED={} cargo test --features sim --test simulation one_seed", self.seed)
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What a checker has to say, before it is known when.
struct Finding {
    by: &'static str,
    what: String,
}

fn by(by: &'static str) -> impl Fn(String) -> Finding {
    move |what| Finding { by, what }
}

pub struct Simulation {
    pub(super) world: World,
    pub(super) model: Model,
    pub(super) actors: Vec<Actor>,
    checkers: Vec<Box<dyn Checker>>,
    /// Stalls are over, receivers take all at once.
    pub(super) calm: bool,
    /// Nobody begins anything any more.
    pub(super) winding_down: bool,
    /// The router closes its connections.
    pub(super) stopped: bool,
    failure: Option<Finding>,
    /// At the end the router stops, rather than that its clients go.
    stops: bool,
    /// Facts so far.
    observed: u64,
    /// Where it was at a step, so as to notice when it goes round in circles.
    mark: (u64, (u64, usize)),
    traced: bool,
}

/// Runs one seed.
pub fn run(seed: u64) -> Result<Summary, Failure> {
    run_traced(seed, false)
}

/// Runs one seed; a failure brings the whole run in lines.
pub fn run_traced(seed: u64, traced: bool) -> Result<Summary, Failure> {
    run_plan(seed, Plan::of(seed), traced)
}

/// Runs a plan, with the chance of a seed.
pub fn run_plan(seed: u64, mut plan: Plan, traced: bool) -> Result<Summary, Failure> {
    plan.world.trace = traced;
    let world = World::new(plan.world.clone(), Random::new(!seed));
    let actors = plan.peers.iter().map(|peer| Actor::new(peer.clone())).collect();
    let mut simulation = Simulation {
        world,
        model: Model::default(),
        actors,
        checkers: checkers::all(),
        calm: false,
        winding_down: false,
        stopped: false,
        failure: None,
        stops: plan.router_stops,
        observed: 0,
        mark: (0, (0, 0)),
        traced,
    };
    if traced {
        simulation.world.log.push(format!("{plan:#?}"));
    }
    // A panic in a room is a finding like any other, with its seed and step.
    let acted = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| simulation.act(plan.duration)));
    match acted.unwrap_or_else(|panic| Err(by("panic")(words(&*panic).to_owned()))) {
        Ok(()) => Ok(simulation.summary()),
        Err(Finding { by, what }) => {
            let World { steps, now, ref mut log, .. } = simulation.world;
            Err(Failure { seed, step: steps, at: now, by, what, log: std::mem::take(log) })
        }
    }
}

fn words(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("(no words)")
}

impl Simulation {
    fn act(&mut self, duration: Duration) -> Result<(), Finding> {
        self.start_actors();
        self.run_until(Time::ZERO + duration)?;
        self.calm_down();
        // What is large and has to go through small windows takes its time.
        loop {
            let before = self.progress();
            self.run_until(self.world.now + QUIET_AFTER)?;
            if self.progress() == before {
                break;
            }
        }
        let standings = self.standings();
        for checker in &mut self.checkers {
            checker.quiet(&self.model, &self.world, &standings).map_err(by(checker.name()))?;
        }
        self.wind_down();
        self.run_until(self.world.now + END_AFTER)?;
        for checker in &mut self.checkers {
            checker.end(&self.model, &self.world).map_err(by(checker.name()))?;
        }
        Ok(())
    }

    fn run_until(&mut self, until: Time) -> Result<(), Finding> {
        while self.world.next_time().is_some_and(|at| at <= until) {
            let happening = self.world.step();
            self.model.now = self.world.now;
            match happening {
                Some(Happening::Timer(token)) => self.alarm(token),
                Some(Happening::Client(peer)) => self.client_events(peer),
                Some(Happening::Internal) | None => {}
            }
            for checker in &mut self.checkers {
                checker.stepped(&self.world).map_err(by(checker.name()))?;
            }
            if let Some(failure) = self.failure.take() {
                return Err(failure);
            }
            if self.is_circling() {
                return Err(by("progress")("it never ends".to_owned()));
            }
        }
        self.world.now = self.world.now.max(until);
        self.model.now = self.world.now;
        Ok(())
    }

    fn is_circling(&mut self) -> bool {
        let steps = self.world.steps;
        if steps < self.mark.0 + STEPS_IDLE_MAX {
            return false;
        }
        let mark = (steps, self.progress());
        let before = std::mem::replace(&mut self.mark, mark);
        before.1 == mark.1 || steps > STEPS_MAX
    }

    /// Facts so far, and bytes of the messages that are not whole yet.
    fn progress(&self) -> (u64, usize) {
        let links = self.actors.iter().flat_map(|actor| &actor.links);
        (self.observed, links.map(|link| link.agent.bytes_under_way()).sum())
    }

    /// Stalls end; what receivers hold they serve.
    fn calm_down(&mut self) {
        self.calm = true;
        self.world.ease();
        self.calm_actors();
    }

    /// Everybody goes: each in its own way, at its own time.
    fn wind_down(&mut self) {
        self.winding_down = true;
        self.stopped = self.stops;
        if self.stopped {
            return self.world.stop_router();
        }
        for actor in 0..self.actors.len() {
            if self.actors[actor].gone {
                continue;
            }
            let end = match self.actors[actor].links.first_mut().map_or(0, |link| link.random.below(4)) {
                0 => PeerEnd::HangUp,
                1 => PeerEnd::Cut { reset: true },
                _ => PeerEnd::Close,
            };
            self.end_actor(actor, end);
        }
    }

    fn standings(&mut self) -> Vec<Standing> {
        let mut standings = Vec::new();
        for actor in &self.actors {
            let Some(peer) = actor.peer.filter(|_| !actor.gone) else { continue };
            for own in &actor.links {
                let (Some(link), Some(number)) = (own.link, own.number) else { continue };
                let state = self.world.client(peer).link(link);
                if !state.is_attached() {
                    continue;
                }
                let address = self.model.link(number).address.clone();
                standings.push(match &own.agent {
                    Agent::Sender(sender) => Standing::Sender {
                        link: number,
                        address,
                        left: sender.left,
                        unfinished: sender.current.is_some(),
                        credit: state.credit(),
                    },
                    Agent::Receiver(_) => Standing::Receiver {
                        link: number,
                        address: address.unwrap_or_default(),
                        credit: state.credit(),
                        draining: state.is_draining(),
                    },
                });
            }
        }
        standings
    }

    fn summary(&self) -> Summary {
        let messages = self.model.messages.values();
        Summary {
            steps: self.world.steps,
            trace_digest: self.world.trace_digest,
            messages: self.model.messages.len(),
            received: messages.clone().map(|message| message.copies.len()).sum(),
            outcomes: messages.filter(|message| message.outcome_settled).count(),
            links: self.model.links.len(),
        }
    }

    /// A fact: to the checkers, to the model, into the trace.
    pub(super) fn emit(&mut self, observation: Observation) {
        if self.failure.is_some() {
            return;
        }
        self.observed += 1;
        for checker in &mut self.checkers {
            if let Err(what) = checker.observe(&self.model, &observation) {
                self.failure.get_or_insert(Finding { by: checker.name(), what });
            }
        }
        if self.traced {
            self.world.log.push(format!("{:>12} {observation:?}", self.world.now.0));
        }
        self.world.note(digest(format!("{observation:?}").as_bytes()));
        self.model.apply(&observation);
    }

    pub(super) fn fail(&mut self, what: impl Into<String>) {
        self.failure.get_or_insert(Finding { by: "actor", what: what.into() });
    }
}
