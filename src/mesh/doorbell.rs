//! Whether a shard has to be woken: the word that a shard about to sleep and whoever has something for it agree on.
//!
//! To sleep: [`Doorbell::arm`], look at the lanes once more, sleep in the ring, [`Doorbell::disarm`]. To send: push, then
//! [`Doorbell::claim`]; who gets a yes rings, with a message from ring to ring, which is the shard's business.
//! A shard also sleeps while a full lane keeps its parcels waiting: then whoever took something out of that lane claims
//! with [`Doorbell::claim_for_room`].
//!
//! Invariants:
//! - No wake-up is lost. Both sides write, pass a SeqCst fence, then read what the other one writes: so the sleeper
//!   sees the parcel or the sender sees the armed bell, whatever the memory's order.
//! - At most one ring a sleep: a claim disarms the bell, and one claim alone finds it armed.
//!
//! It publishes nothing else: what was pushed is published by the lane itself. The protocol is model-checked, which is
//! why the atomics come from the room's head.

use super::atomic::{fence, AtomicU8, Ordering};

const AWAKE: u8 = 0;
const ASLEEP: u8 = 1;
/// Asleep, with parcels that a full lane had no room for.
const ASLEEP_FOR_ROOM: u8 = 2;

/// One shard's. On a cache line pair of its own: it is written with each sleep and read with each turn of the others.
#[repr(align(128))]
pub struct Doorbell {
    state: AtomicU8,
}

impl Doorbell {
    pub fn new() -> Doorbell {
        Doorbell { state: AtomicU8::new(AWAKE) }
    }

    /// The sleeper's side: from now on it has to be woken. It looks at its lanes after this, and sleeps only if there is
    /// nothing to do. `for_room`: it has parcels waiting, too.
    pub fn arm(&self, for_room: bool) {
        self.state.store(if for_room { ASLEEP_FOR_ROOM } else { ASLEEP }, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// The sleeper's side: awake, whoever woke it. True: somebody claimed it, a ring has come or will.
    pub fn disarm(&self) -> bool {
        self.state.swap(AWAKE, Ordering::Relaxed) == AWAKE
    }

    /// The other side, behind its push: whether to ring.
    pub fn claim(&self) -> bool {
        fence(Ordering::SeqCst);
        self.disarm_if(|state| state != AWAKE)
    }

    /// The other side, behind its pop: whether to ring.
    pub fn claim_for_room(&self) -> bool {
        fence(Ordering::SeqCst);
        self.disarm_if(|state| state == ASLEEP_FOR_ROOM)
    }

    /// Several may see it armed; one of them disarms it. Who fails was forestalled, or saw an arming that is over: behind
    /// that one the sleeper has looked at its lanes.
    fn disarm_if(&self, is_armed: impl Fn(u8) -> bool) -> bool {
        let state = self.state.load(Ordering::Relaxed);
        is_armed(state) && self.state.compare_exchange(state, AWAKE, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

impl Default for Doorbell {
    fn default() -> Doorbell {
        Doorbell::new()
    }
}
