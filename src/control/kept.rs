//! Rows that requesters were shown the begin of: who reads in parts gets all of them from the same ones.
//!
//! Owns: which they are, until nobody asks for more of them. Bounded in requesters, in bytes but for the latest ones, and in
//! time; they count in the account of memory, rows that several have once.

use crate::dispatch::Table;
use crate::ids::{LinkId, ShardId};
use crate::management::Snapshot;
use crate::memory::Memory;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long rows are kept for a requester that reads them in parts, for how many requesters, and how many bytes of them beside
/// the ones that were kept last.
pub const KEPT: Duration = Duration::from_secs(10);
const KEPT_MAX: usize = 16;
const KEPT_BYTES_MAX: usize = 256 * 1024 * 1024;

/// The requester's shard and link.
pub type Requester = (ShardId, LinkId);

struct One {
    used: Instant,
    tables: Vec<Table>,
    snapshot: Snapshot,
    /// Its tables and their bytes.
    held: [(*const (), usize); 3],
}

pub struct Kept {
    known: HashMap<Requester, One>,
    memory: Arc<Memory>,
    /// As `memory` knows it.
    bytes: usize,
    /// A task lets go of what is old.
    pub is_watched: bool,
}

impl Kept {
    pub fn new(memory: Arc<Memory>) -> Kept {
        Kept { known: HashMap::new(), memory, bytes: 0, is_watched: false }
    }

    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// The rows that this requester was shown the begin of.
    pub fn of(&mut self, requester: Requester, tables: &[Table]) -> Option<Snapshot> {
        let known = self.known.get_mut(&requester)?;
        if known.tables != tables || known.used.elapsed() > KEPT {
            return None;
        }
        known.used = Instant::now();
        Some(known.snapshot.clone())
    }

    /// Where that would leave messages too little memory nothing more is kept: who reads in parts is shown the rows of each part's
    /// time.
    pub fn keep(&mut self, requester: Requester, tables: Vec<Table>, snapshot: Snapshot) {
        self.forget(requester);
        let (held, used) = (snapshot.held(), Instant::now());
        let latest: usize = held.iter().map(|(_, bytes)| bytes).sum();
        if self.memory.used().saturating_add(latest) > self.memory.limit() / 2 {
            return;
        }
        self.known.insert(requester, One { used, tables, snapshot, held });
        while self.known.len() > KEPT_MAX || self.sum() > KEPT_BYTES_MAX + latest {
            let others = self.known.iter().filter(|(other, _)| **other != requester);
            let Some(oldest) = others.min_by_key(|(_, known)| known.used).map(|(other, _)| *other) else { break };
            self.known.remove(&oldest);
        }
        self.count();
    }

    /// It asks for no more of them.
    pub fn forget(&mut self, requester: Requester) {
        if self.known.remove(&requester).is_some() {
            self.count();
        }
    }

    /// Lets go of rows whose requester asks for no more of them, and of all where memory is needed.
    pub fn forget_old(&mut self) {
        let is_needed = self.memory.is_half_used();
        self.known.retain(|_, known| !is_needed && known.used.elapsed() <= KEPT);
        self.count();
    }

    /// Bytes of all of them.
    fn sum(&self) -> usize {
        let mut seen = HashSet::new();
        let tables = self.known.values().flat_map(|known| known.held);
        tables.filter(|(table, _)| seen.insert(*table)).map(|(_, bytes)| bytes).sum()
    }

    fn count(&mut self) {
        let bytes = self.sum();
        self.memory.changed(self.bytes, bytes);
        self.bytes = bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dispatch::ConnectionRow;
    use std::rc::Rc;

    fn requester(index: u32) -> Requester {
        (ShardId(0), LinkId { index, generation: 0 })
    }

    fn snapshot(bytes: usize) -> Snapshot {
        let rows: Vec<ConnectionRow> = Vec::with_capacity(bytes / std::mem::size_of::<ConnectionRow>());
        Snapshot { connections: Rc::new(rows), ..Snapshot::default() }
    }

    const TABLES: [Table; 1] = [Table::Connections];

    #[test]
    fn what_is_kept_is_bounded_in_bytes_and_counts() {
        let memory = Arc::new(Memory::default());
        let mut kept = Kept::new(memory.clone());
        let large = KEPT_BYTES_MAX / 2 - 1024;
        for index in 0..10 {
            kept.keep(requester(index), TABLES.to_vec(), snapshot(large));
            assert!(kept.of(requester(index), &TABLES).is_some());
            assert!(memory.used() <= 3 * large && memory.used() >= large.min(memory.used_max()), "{}", memory.used());
        }
        assert_eq!(kept.known.len(), 3);
        // However large it is, the latest is there.
        kept.keep(requester(10), TABLES.to_vec(), snapshot(3 * KEPT_BYTES_MAX));
        assert!(kept.of(requester(10), &TABLES).is_some());
        assert_eq!(kept.known.len(), 3);
        kept.keep(requester(11), TABLES.to_vec(), snapshot(1024));
        assert_eq!(kept.known.len(), 1);
        kept.forget(requester(11));
        assert_eq!(memory.used(), 0);
    }

    #[test]
    fn nothing_is_kept_where_memory_is_full() {
        let memory = Arc::new(Memory::new(1024 * 1024, 1));
        let mut kept = Kept::new(memory.clone());
        kept.keep(requester(0), TABLES.to_vec(), snapshot(64 * 1024));
        memory.add(1024 * 1024);
        kept.keep(requester(1), TABLES.to_vec(), snapshot(1024));
        kept.keep(requester(0), TABLES.to_vec(), snapshot(1024));
        assert!(kept.is_empty());
        assert_eq!(memory.used(), 1024 * 1024);
    }

    #[test]
    fn rows_that_several_have_are_held_once() {
        let memory = Arc::new(Memory::default());
        let mut kept = Kept::new(memory.clone());
        let shared = snapshot(KEPT_BYTES_MAX / 2);
        (0..20).for_each(|index| kept.keep(requester(index), TABLES.to_vec(), shared.clone()));
        assert_eq!(kept.known.len(), KEPT_MAX);
        assert!(memory.used() <= KEPT_BYTES_MAX / 2);
        assert!(kept.of(requester(19), &[Table::Links]).is_none(), "rows of another table");
    }
}
