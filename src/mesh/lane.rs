//! Lanes between shards: a bounded lock-free queue for each ordered pair of them, and each shard's end of its lanes.
//!
//! Invariants:
//! - Parcels of a lane arrive in the order in which they were sent, and none is lost: what a full lane has no room for
//!   waits at its sender, and what is sent later waits behind it.
//! - A shard never waits for another one: a full lane takes what is sent later, or says no to what is offered.
//! - What one round of receiving takes is bounded, and every lane has its share of it.
//! - Nobody sleeps on something to do: see [`super::doorbell`].

use super::doorbell::Doorbell;
use crate::ids::ShardId;
use crate::limits;
use crossbeam_queue::ArrayQueue;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

/// All lanes of a router, shared by its shards. `P`: what travels in them.
pub struct Lanes<P> {
    shards: usize,
    /// By sender, then receiver; none from a shard to itself.
    queues: Vec<Option<ArrayQueue<P>>>,
    bells: Vec<Doorbell>,
    /// Shards that have nothing of their own left to send, at the router's stop.
    retired: AtomicUsize,
}

impl<P> Lanes<P> {
    pub fn new(shards: u16) -> Arc<Lanes<P>> {
        Lanes::with_capacity(shards, limits::LANE_PARCELS)
    }

    /// `parcels`: what each lane takes.
    pub fn with_capacity(shards: u16, parcels: usize) -> Arc<Lanes<P>> {
        let shards = usize::from(shards);
        let queues = (0..shards * shards).map(|lane| {
            let is_own = lane / shards == lane % shards;
            (!is_own).then(|| ArrayQueue::new(parcels))
        });
        Arc::new(Lanes {
            shards,
            queues: queues.collect(),
            bells: (0..shards).map(|_| Doorbell::new()).collect(),
            retired: AtomicUsize::new(0),
        })
    }

    #[inline]
    fn queue(&self, from: usize, to: usize) -> Option<&ArrayQueue<P>> {
        self.queues.get(from * self.shards + to)?.as_ref()
    }
}

/// What a round of receiving takes from one lane.
const PARCELS_A_ROUND: usize = limits::LANE_PARCELS;

/// What went through a shard's end of the lanes.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Traffic {
    pub parcels_in: u64,
    pub parcels_out: u64,
    /// Times that a lane was full for what was sent or offered.
    pub lanes_full: u64,
    /// Other shards woken.
    pub doorbells: u64,
    /// Times that this shard slept, or was rung when it was about to.
    pub sleeps: u64,
}

/// One shard's end of all its lanes.
pub struct Post<P> {
    lanes: Arc<Lanes<P>>,
    shard: usize,
    /// What a full lane had no room for, by receiver.
    waiting: Vec<VecDeque<P>>,
    /// Whose lane didn't take what was last offered.
    refused: Vec<bool>,
    /// To be asked whether they want a ring: sent to, or taken from.
    sent_to: Vec<bool>,
    taken_from: Vec<bool>,
    /// Where the round of receiving is, and what it may still take there.
    from: usize,
    left: usize,
    is_retiring: bool,
    is_retired: bool,
    pub traffic: Traffic,
}

impl<P> Post<P> {
    pub fn new(lanes: Arc<Lanes<P>>, shard: ShardId) -> Post<P> {
        let shards = lanes.shards;
        Post {
            lanes,
            shard: usize::from(shard.0),
            waiting: (0..shards).map(|_| VecDeque::new()).collect(),
            refused: vec![false; shards],
            sent_to: vec![false; shards],
            taken_from: vec![false; shards],
            from: 0,
            left: PARCELS_A_ROUND,
            is_retiring: false,
            is_retired: false,
            traffic: Traffic::default(),
        }
    }

    /// Whether there is anybody else.
    #[inline]
    pub fn has_peers(&self) -> bool {
        self.lanes.shards > 1
    }

    /// Offers a parcel for another shard; gives it back where the lane is full. Who gets one back offers it again, behind
    /// each `move_on`, until it is taken.
    pub fn offer(&mut self, to: ShardId, parcel: P) -> Result<(), P> {
        let to = usize::from(to.0);
        let Some(queue) = self.lanes.queue(self.shard, to) else { return Err(parcel) };
        let result = if self.waiting[to].is_empty() { queue.push(parcel) } else { Err(parcel) };
        if result.is_ok() {
            self.traffic.parcels_out += 1;
            self.sent_to[to] = true;
        } else {
            self.traffic.lanes_full += 1;
            self.refused[to] = true;
        }
        result
    }

    /// Sends a parcel to another shard: at once, or as soon as its lane has room.
    pub fn send(&mut self, to: ShardId, parcel: P) {
        if let Err(parcel) = self.offer(to, parcel) {
            self.waiting[usize::from(to.0)].push_back(parcel);
        }
    }

    /// At a turn's end, before offers: what waits goes into its lane as far as that has room.
    pub fn move_on(&mut self) {
        for to in 0..self.lanes.shards {
            self.refused[to] = false;
            let Some(queue) = self.lanes.queue(self.shard, to) else { continue };
            let waiting = &mut self.waiting[to];
            while let Some(parcel) = waiting.pop_front() {
                if let Err(parcel) = queue.push(parcel) {
                    waiting.push_front(parcel);
                    break;
                }
                self.traffic.parcels_out += 1;
                self.sent_to[to] = true;
            }
        }
    }

    /// The next parcel of this round, and who sent it. None: the round is over, the next call begins another one.
    #[inline]
    pub fn receive(&mut self) -> Option<(ShardId, P)> {
        while self.from < self.lanes.shards {
            let queue = self.lanes.queue(self.from, self.shard).filter(|_| self.left > 0);
            if let Some(parcel) = queue.and_then(ArrayQueue::pop) {
                self.left -= 1;
                self.traffic.parcels_in += 1;
                self.taken_from[self.from] = true;
                return Some((ShardId(self.from as u16), parcel));
            }
            self.from += 1;
            self.left = PARCELS_A_ROUND;
        }
        self.from = 0;
        None
    }

    /// At a turn's end, behind offers: says through `ring` who is to be woken.
    pub fn settle(&mut self, mut ring: impl FnMut(ShardId)) {
        self.try_to_retire();
        for (peer, bell) in self.lanes.bells.iter().enumerate() {
            let sent = std::mem::take(&mut self.sent_to[peer]);
            let taken = std::mem::take(&mut self.taken_from[peer]);
            if (sent && bell.claim()) || (taken && bell.claim_for_room()) {
                self.traffic.doorbells += 1;
                ring(ShardId(peer as u16));
            }
        }
    }

    /// Before the thread sleeps, behind `settle`. False: there is something to do, don't sleep. After a true, call `disarm`
    /// once awake.
    pub fn arm(&mut self) -> bool {
        let bell = &self.lanes.bells[self.shard];
        bell.arm((0..self.lanes.shards).any(|to| self.wants_room(to)));
        let sleeps = !self.has_something_to_do();
        // One that was rung meanwhile is counted: there is never more than one ring a sleep.
        if sleeps || bell.disarm() {
            self.traffic.sleeps += 1;
        }
        sleeps
    }

    pub fn disarm(&mut self) {
        self.lanes.bells[self.shard].disarm();
    }

    fn wants_room(&self, to: usize) -> bool {
        self.refused[to] || !self.waiting[to].is_empty()
    }

    /// Whether another shard has sent something, or has made room for what waits.
    pub fn has_something_to_do(&self) -> bool {
        let lanes = &self.lanes;
        (0..lanes.shards).any(|peer| {
            let inbound = lanes.queue(peer, self.shard).is_some_and(|queue| !queue.is_empty());
            let outbound = lanes.queue(self.shard, peer).is_some_and(|queue| !queue.is_full());
            inbound || (outbound && self.wants_room(peer))
        }) || self.is_over()
    }

    /// At the stop: this shard has nothing left that others must wait for, once what waits for room is on its way.
    pub fn retire(&mut self) {
        self.is_retiring = true;
        self.try_to_retire();
    }

    fn try_to_retire(&mut self) {
        let is_empty = self.waiting.iter().all(VecDeque::is_empty);
        if is_empty && self.is_retiring && !std::mem::replace(&mut self.is_retired, true) {
            self.lanes.retired.fetch_add(1, Ordering::SeqCst);
            // Whoever sleeps looks again.
            self.sent_to.fill(true);
            self.sent_to[self.shard] = false;
        }
    }

    /// Every shard has retired, and all that was sent here was received.
    pub fn is_over(&self) -> bool {
        let lanes = &self.lanes;
        self.is_retired
            && lanes.retired.load(Ordering::SeqCst) == lanes.shards
            && (0..lanes.shards).all(|from| lanes.queue(from, self.shard).is_none_or(ArrayQueue::is_empty))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn posts<P>(shards: u16, parcels: usize) -> Vec<Post<P>> {
        let lanes = Lanes::with_capacity(shards, parcels);
        (0..shards).map(|shard| Post::new(lanes.clone(), ShardId(shard))).collect()
    }

    fn received<P>(post: &mut Post<P>) -> Vec<(u16, P)> {
        std::iter::from_fn(|| post.receive()).map(|(from, parcel)| (from.0, parcel)).collect()
    }

    /// Settles, and gives who was rung.
    fn rung<P>(post: &mut Post<P>) -> Vec<u16> {
        let mut rung = Vec::new();
        post.settle(|shard| rung.push(shard.0));
        rung
    }

    #[test]
    fn what_a_full_lane_has_no_room_for_waits_in_order() {
        let mut posts = posts(2, 2);
        for parcel in 0..5 {
            posts[0].send(ShardId(1), parcel);
        }
        assert_eq!(posts[0].traffic.lanes_full, 3);
        assert_eq!(received(&mut posts[1]), [(0, 0), (0, 1)]);
        // Room, but others wait: behind them.
        posts[0].send(ShardId(1), 5);
        assert_eq!(posts[0].offer(ShardId(1), 6), Err(6));
        assert!(received(&mut posts[1]).is_empty());
        posts[0].move_on();
        assert_eq!(received(&mut posts[1]), [(0, 2), (0, 3)]);
        posts[0].move_on();
        assert_eq!(received(&mut posts[1]), [(0, 4), (0, 5)]);
        assert_eq!((posts[0].traffic.parcels_out, posts[1].traffic.parcels_in), (6, 6));
    }

    #[test]
    fn a_bell_is_rung_once_a_sleep_and_only_for_who_sleeps() {
        let mut posts = posts(3, 8);
        posts[0].send(ShardId(1), 'a');
        assert!(rung(&mut posts[0]).is_empty());
        // There is something in its lane: it doesn't sleep.
        assert!(!posts[1].arm());
        assert_eq!(received(&mut posts[1]), [(0, 'a')]);
        assert!(posts[1].arm());
        posts[0].send(ShardId(1), 'b');
        posts[0].send(ShardId(1), 'c');
        posts[2].send(ShardId(1), 'd');
        assert_eq!((rung(&mut posts[0]), rung(&mut posts[2])), (vec![1], vec![]));
        posts[1].disarm();
        assert_eq!(received(&mut posts[1]), [(0, 'b'), (0, 'c'), (2, 'd')]);
        assert_eq!((posts[0].traffic.doorbells, posts[1].traffic.sleeps), (1, 1));
    }

    #[test]
    fn who_sleeps_with_parcels_waiting_is_woken_by_room() {
        let mut posts = posts(3, 1);
        posts[0].send(ShardId(1), 1);
        posts[0].send(ShardId(1), 2);
        assert!(rung(&mut posts[0]).is_empty());
        assert!(posts[0].arm());
        // Nothing was taken out yet: no reason to wake it.
        assert!(rung(&mut posts[1]).is_empty());
        assert_eq!(received(&mut posts[1]), [(0, 1)]);
        assert_eq!(rung(&mut posts[1]), [0]);
        posts[0].disarm();
        posts[0].move_on();
        assert!(rung(&mut posts[0]).is_empty());
        // Full again, by one that was offered and comes again.
        assert_eq!(posts[0].offer(ShardId(1), 3), Err(3));
        assert!(posts[0].arm());
        assert_eq!(received(&mut posts[1]), [(0, 2)]);
        assert_eq!(rung(&mut posts[1]), [0]);
        posts[0].disarm();
        // Room, and something to offer: no sleep before that.
        assert!(!posts[0].arm());
        posts[0].move_on();
        assert_eq!(posts[0].offer(ShardId(1), 3), Ok(()));
        assert!(rung(&mut posts[0]).is_empty() && posts[0].arm());
        assert_eq!(received(&mut posts[1]), [(0, 3)]);
        assert!(rung(&mut posts[1]).is_empty());
    }

    #[test]
    fn a_round_is_bounded_and_every_lane_has_its_share() {
        let mut posts = posts(3, 4 * PARCELS_A_ROUND);
        for _ in 0..2 * PARCELS_A_ROUND {
            posts[0].send(ShardId(2), ());
        }
        posts[1].send(ShardId(2), ());
        let round = received(&mut posts[2]);
        assert_eq!(round.len(), PARCELS_A_ROUND + 1);
        assert_eq!(round.last(), Some(&(1, ())));
        assert_eq!(received(&mut posts[2]).len(), PARCELS_A_ROUND);
    }

    #[test]
    fn it_is_over_when_all_have_retired_and_all_is_received() {
        let mut posts = posts(2, 8);
        posts[1].retire();
        assert!(!posts[1].is_over());
        rung(&mut posts[1]);
        assert!(posts[1].arm());
        posts[0].send(ShardId(1), 'x');
        posts[0].retire();
        assert_eq!(rung(&mut posts[0]), [1]);
        posts[1].disarm();
        assert!(posts[0].is_over() && !posts[1].is_over());
        assert_eq!(received(&mut posts[1]), [(0, 'x')]);
        assert!(posts[1].is_over());
        assert!(!posts[1].arm());
    }

    #[test]
    fn a_shard_alone_has_no_lanes() {
        let mut posts: Vec<Post<()>> = posts(1, 8);
        assert!(!posts[0].has_peers());
        assert!(received(&mut posts[0]).is_empty() && rung(&mut posts[0]).is_empty());
        posts[0].retire();
        assert!(posts[0].is_over());
    }
}
