//! The ceiling of what is held for peers, where the configuration doesn't say: half of what this process may use. And giving
//! back what the allocator keeps behind a burst.

use crate::config::RouterConfig;
use crate::limits;
use crate::memory::Memory;
use std::fs;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::Notify;

/// Longer than the allocator keeps freed pages for (`purge_delay`, a second).
const PURGE_AFTER: Duration = Duration::from_secs(2);

/// Gives pages that a burst left free back to the system, once behind each `events` and those that follow it soon. The allocator looks
/// at what it kept long enough only when it is used, which a router whose clients have gone doesn't.
pub async fn purge_behind(events: Rc<Notify>) {
    loop {
        events.notified().await;
        tokio::time::sleep(PURGE_AFTER).await;
        // SAFETY: it may be called at any time, from any thread.
        unsafe { libmimalloc_sys::mi_collect(false) };
    }
}

/// The router's account.
pub fn account(router: &RouterConfig) -> Memory {
    let limit =
        router.memory_limit_bytes.map_or_else(default_limit, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
    Memory::new(limit, router.connections_max as usize)
}

fn default_limit() -> usize {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| total(&text));
    let group = fs::read_to_string("/proc/self/cgroup").ok().and_then(|text| group_limit(&text));
    let available = [machine, group].into_iter().flatten().min().unwrap_or(usize::MAX);
    (available / 2).max(limits::MEMORY_LIMIT_MIN)
}

/// Bytes by `MemTotal` of /proc/meminfo.
fn total(meminfo: &str) -> Option<usize> {
    let line = meminfo.lines().find(|line| line.starts_with("MemTotal:"))?;
    line.split_whitespace().nth(1)?.parse::<usize>().ok()?.checked_mul(1024)
}

/// The least `memory.max` of this process's cgroup (version 2) and those above it.
fn group_limit(cgroup: &str) -> Option<usize> {
    let path = cgroup.lines().find_map(|line| line.strip_prefix("0::"))?;
    let mut at = Some(std::path::Path::new(path));
    let mut least = None;
    while let Some(group) = at {
        let file = format!("/sys/fs/cgroup{}/memory.max", group.display());
        // "max" where there is none.
        let bytes = fs::read_to_string(file).ok().and_then(|text| text.trim().parse::<usize>().ok());
        least = [least, bytes].into_iter().flatten().min();
        at = group.parent();
    }
    least
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machines_memory_is_read() {
        assert_eq!(total("MemTotal:       24000000 kB\nMemFree: 1 kB\n"), Some(24_000_000 * 1024));
        assert_eq!(total("nothing"), None);
        assert!(default_limit() >= limits::MEMORY_LIMIT_MIN);
    }
}
