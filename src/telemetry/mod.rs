//! What a shard counts about itself.
//!
//! Owns: the counters of one shard, plain integers that only its thread changes.
//! Doesn't: aggregate or publish; control asks a shard for a copy.

/// Counters of one shard, since its start.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Counters {
    pub connections_opened: u64,
    pub connections_closed: u64,
    /// Accepts that failed for want of file descriptors or memory.
    pub accepts_failed: u64,
    pub bytes_received: u64,
    pub bytes_sent: u64,
    pub receives: u64,
    pub sends: u64,
    /// Sends that the kernel took only a part of.
    pub sends_short: u64,
    /// Receives that found no buffer on offer.
    pub receives_without_buffer: u64,
    pub turns: u64,
    /// Entries of the kernel: one a turn, but for a full submission queue and for looks.
    pub enters: u64,
    /// Looks before a sleep, without a latency mode, and those in which nothing came.
    pub looks: u64,
    pub looks_in_vain: u64,
    pub deliveries_in: u64,
    pub deliveries_out: u64,
    /// Facts for control that its full queue didn't take.
    pub reports_missed: u64,
    /// Connections that left for another shard, and that came from one.
    pub moves_out: u64,
    pub moves_in: u64,
    /// What went through the lanes from and to other shards: parcels (of a turn's work, as a rule) and connections.
    pub parcels_in: u64,
    pub parcels_out: u64,
    /// Parcels that found their lane full.
    pub lanes_full: u64,
    /// Other shards woken.
    pub doorbells: u64,
    /// Times that this shard slept and could be woken by another one. Nobody wakes it twice for one of them.
    pub sleeps: u64,
}
