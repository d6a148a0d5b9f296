//! What the router tells of itself: log records, and later counters and histograms a shard.
//!
//! Owns: the queue in which shards hand log records over.
//! Doesn't: write anywhere; format beyond a record's own text.
//! Driven by: shards put in, the control thread takes out. Nobody waits for anybody.

pub mod log;
