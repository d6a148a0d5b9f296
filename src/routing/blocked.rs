//! Links that go on without credit, and those with deliveries that stay: noticed for the log, each once for a while.
//!
//! Blocked links are looked for on a round of their own (see `rounds`), which rests while none may be about to become one.

use crate::ids::LinkId;
use crate::routing::rounds::Round;
use crate::routing::router::Router;
use crate::time::Time;
use std::collections::VecDeque;
use std::time::Duration;

/// A link without credit for so long is blocked.
pub const BLOCKED: Duration = Duration::from_secs(10);
/// From one look at all links to the next.
const LOOKING: Duration = Duration::from_secs(5);
/// A link whose deliveries get stuck again is told of again after so long.
const STUCK_AGAIN: Duration = Duration::from_secs(30);
/// Notices that nobody took yet; what comes beyond is not told of.
const NOTICES_MAX: usize = 4096;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Notice {
    /// It has had no credit for so many seconds.
    Blocked { link: LinkId, seconds: u32 },
    /// A delivery on it is stuck.
    Stuck { link: LinkId },
}

/// What a link was told of.
#[derive(Clone, Copy, Default)]
pub struct Told {
    /// Since when it had no credit when it was called blocked.
    dry_since: Option<Time>,
    stuck: Option<Time>,
}

pub struct Watch {
    round: Round,
    /// A link may have run dry, or is dry and not blocked yet.
    restless: bool,
    /// Whether one was dry, in this round so far.
    seen_dry: bool,
    /// How much had moved, in all, when the last round began.
    moved: u64,
    notices: VecDeque<Notice>,
}

impl Watch {
    pub fn new(now: Time) -> Watch {
        let round = Round::new(LOOKING, now);
        Watch { round, restless: false, seen_dry: false, moved: 0, notices: VecDeque::new() }
    }

    /// A link may have run dry without a delivery's doing.
    #[inline]
    pub fn stir(&mut self) {
        self.restless = true;
    }

    /// When to look on, where so much has moved by now.
    pub fn due(&self, moved: u64) -> Option<Time> {
        (self.restless || moved != self.moved).then(|| self.round.at())
    }

    fn notice(&mut self, notice: Notice) {
        if self.notices.len() < NOTICES_MAX {
            self.notices.push_back(notice);
        }
    }
}

impl Router {
    /// What the log is to say of links.
    pub fn poll_notice(&mut self) -> Option<Notice> {
        self.watch.notices.pop_front()
    }

    /// Looks for links that are blocked, as far as it is time to.
    pub(super) fn look_for_blocked(&mut self) {
        let moved = self.moved();
        if self.watch.due(moved).is_none() || self.now < self.watch.round.at() {
            return;
        }
        if self.watch.round.is_complete() {
            (self.watch.restless, self.watch.seen_dry, self.watch.moved) = (false, false, moved);
        }
        let step = self.watch.round.step(self.links.slots_len(), self.now);
        let (page, _) = self.links.page(step.start, step.end - step.start);
        let dry: Vec<(LinkId, Duration)> = page
            .filter(|(_, link)| !link.is_own())
            .filter_map(|(id, _)| Some((id, self.link_view(id)?)))
            .filter(|(_, view)| view.credit_available() == 0 && !view.is_ended())
            .map(|(id, view)| (id, view.zero_credit()))
            .collect();
        for (link, dry) in dry {
            let since = Time(self.now.0.saturating_sub(dry.as_nanos() as u64));
            let Some(told) = self.links.get_mut(link).map(|link| link.told_mut()) else { continue };
            if told.dry_since == Some(since) {
                continue;
            }
            if dry < BLOCKED {
                self.watch.seen_dry = true;
                continue;
            }
            told.dry_since = Some(since);
            self.watch.notice(Notice::Blocked { link, seconds: dry.as_secs() as u32 });
        }
        self.watch.restless |= self.watch.seen_dry;
    }

    /// A delivery on this link is stuck.
    pub(super) fn notice_stuck(&mut self, link: LinkId) {
        let now = self.now;
        let Some(told) = self.links.get_mut(link).filter(|link| !link.is_own()).map(|link| link.told_mut()) else {
            return;
        };
        if told.stuck.is_none_or(|at| now.since(at) >= STUCK_AGAIN) {
            told.stuck = Some(now);
            self.watch.notice(Notice::Stuck { link });
        }
    }
}
