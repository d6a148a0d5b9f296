//! One direction of a connection: bytes that take time, arrive in other pieces than they were written in, and find only
//! so much room.
//!
//! Invariant: bytes come out in the order in which they went in, each exactly once, until the pipe is cut.

use super::random::Random;
use crate::time::Time;
use std::collections::VecDeque;
use std::time::Duration;

/// How a pipe treats bytes.
#[derive(Clone, Debug)]
pub struct Manner {
    pub delay: Duration,
    /// Added to the delay of each piece, at random up to this.
    pub jitter: Duration,
    /// Bytes under way and not yet read, at most.
    pub capacity: usize,
    /// Pieces are cut at random, up to so many bytes; None: a write arrives whole.
    pub piece_max: Option<usize>,
}

impl Default for Manner {
    fn default() -> Manner {
        Manner { delay: Duration::ZERO, jitter: Duration::ZERO, capacity: 1 << 20, piece_max: None }
    }
}

struct Piece {
    at: Time,
    bytes: Vec<u8>,
    read: usize,
    stamp: u64,
}

#[derive(Default)]
pub struct Pipe {
    manner: Manner,
    pieces: VecDeque<Piece>,
    queued: usize,
    last_arrival: Time,
    /// The writer has ended: when the end arrives.
    end: Option<Time>,
}

impl Pipe {
    pub fn new(manner: Manner) -> Pipe {
        Pipe { manner, ..Pipe::default() }
    }

    pub fn room(&self) -> usize {
        if self.end.is_some() {
            return 0;
        }
        self.manner.capacity.saturating_sub(self.queued)
    }

    /// From now on it has room and takes a millisecond at most: what is stuck now isn't for the pipe's sake.
    pub fn ease(&mut self) {
        self.manner.capacity = self.manner.capacity.max(1 << 20);
        self.manner.delay = self.manner.delay.min(Duration::from_millis(1));
        self.manner.piece_max = self.manner.piece_max.map(|max| max.max(512));
    }

    /// Takes what it has room for, and says how many bytes that were. `stamp` comes out with the bytes.
    pub fn write(&mut self, bytes: &[u8], stamp: u64, now: Time, random: &mut Random) -> usize {
        let taken = bytes.len().min(self.room());
        let mut rest = &bytes[..taken];
        while !rest.is_empty() {
            let size = match self.manner.piece_max {
                None => rest.len(),
                // Not so small that a large write comes to thousands of pieces.
                Some(max) => (random.skewed(1, max as u64) as usize).max(rest.len() / 64).min(rest.len()),
            };
            let (piece, behind) = rest.split_at(size);
            rest = behind;
            let jitter = Duration::from_nanos(random.below(self.manner.jitter.as_nanos() as u64 + 1));
            self.last_arrival = self.last_arrival.max(now + self.manner.delay + jitter);
            self.pieces.push_back(Piece { at: self.last_arrival, bytes: piece.to_vec(), read: 0, stamp });
        }
        self.queued += taken;
        taken
    }

    /// No more bytes will come; what is under way still arrives.
    pub fn finish(&mut self, now: Time) {
        if self.end.is_none() {
            self.last_arrival = self.last_arrival.max(now + self.manner.delay);
            self.end = Some(self.last_arrival);
        }
    }

    /// The pipe breaks: all but the first `kept` bytes under way are lost.
    pub fn cut(&mut self, kept: usize, now: Time) {
        let mut left = kept;
        for piece in &mut self.pieces {
            let len = (piece.bytes.len() - piece.read).min(left);
            piece.bytes.truncate(piece.read + len);
            left -= len;
        }
        self.pieces.retain(|piece| piece.bytes.len() > piece.read);
        self.queued = self.pieces.iter().map(|piece| piece.bytes.len() - piece.read).sum();
        self.end = None;
        self.last_arrival = self.pieces.back().map_or(now, |piece| piece.at);
        self.finish(now);
    }

    /// Bytes under way.
    pub fn queued(&self) -> usize {
        self.queued
    }

    /// When there is something to read, or the end.
    pub fn next_arrival(&self) -> Option<Time> {
        self.pieces.front().map(|piece| piece.at).or(self.end)
    }

    /// Whether the end has arrived and nothing is left before it.
    pub fn is_over(&self, now: Time) -> bool {
        self.pieces.is_empty() && self.end.is_some_and(|at| at <= now)
    }

    /// What has arrived, up to `max` bytes, into `into`. Gives the stamp of the first of them.
    pub fn read(&mut self, max: usize, now: Time, into: &mut Vec<u8>) -> Option<u64> {
        let stamp = self.pieces.front().filter(|piece| piece.at <= now)?.stamp;
        while into.len() < max {
            let Some(piece) = self.pieces.front_mut().filter(|piece| piece.at <= now && piece.stamp == stamp) else {
                break;
            };
            let size = (max - into.len()).min(piece.bytes.len() - piece.read);
            into.extend_from_slice(&piece.bytes[piece.read..piece.read + size]);
            piece.read += size;
            self.queued -= size;
            if piece.read == piece.bytes.len() {
                self.pieces.pop_front();
            }
        }
        Some(stamp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_arrive_late_in_order_and_bounded() {
        let manner = Manner {
            delay: Duration::from_millis(3),
            jitter: Duration::from_millis(2),
            capacity: 100,
            piece_max: Some(7),
        };
        let (mut pipe, mut random) = (Pipe::new(manner), Random::new(1));
        let sent: Vec<u8> = (0..150).collect();
        assert_eq!(pipe.write(&sent, 1, Time::ZERO, &mut random), 100);
        assert!(pipe.next_arrival().unwrap() >= Time::from_millis(3));
        let mut all = Vec::new();
        assert_eq!(pipe.read(10, Time::from_millis(2), &mut all), None);
        assert_eq!(pipe.read(200, Time::from_millis(5), &mut all), Some(1));
        assert_eq!(all, sent[..100]);
        assert_eq!(pipe.room(), 100);
        pipe.write(&sent[100..], 2, Time::from_millis(5), &mut random);
        pipe.cut(20, Time::from_millis(5));
        assert!(!pipe.is_over(Time::from_millis(50)));
        pipe.read(200, Time::from_millis(50), &mut all);
        assert_eq!(all, sent[..120]);
        assert!(pipe.is_over(Time::from_millis(50)));
    }
}
