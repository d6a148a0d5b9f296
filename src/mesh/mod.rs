//! What shards tell each other.
//!
//! Will own: the lanes (`crossbeam_queue::ArrayQueue`, one for each ordered pair of shards, FIFO, bounded; what doesn't
//! fit waits in a FIFO at its sender), the parcels in them (routing's inputs and outputs, moved connections, credit,
//! releases of chunks), and the doorbell's arming.
//! Doesn't: sockets, rings (the shard rings the doorbell), decisions (routing's).
//!
//! One shard serves for now, so nothing is here. The shard's turn has the place where lanes are drained: behind the
//! completions, before routing.
