//! What the kernel says of this process, by the names that dashboards know from other programs.

use super::text::{Kind, Text};
use crate::shard::cpu_time;
use std::fs;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What is unknown isn't shown.
#[derive(Default)]
pub struct Process {
    resident_bytes: Option<u64>,
    virtual_bytes: Option<u64>,
    cpu: Option<Duration>,
    open_descriptors: Option<u64>,
    max_descriptors: Option<u64>,
    started_at: Option<Duration>,
}

impl Process {
    pub fn read(started: SystemTime) -> Process {
        Process {
            virtual_bytes: memory_bytes(0),
            resident_bytes: memory_bytes(1),
            cpu: cpu_time(libc::CLOCK_PROCESS_CPUTIME_ID),
            open_descriptors: fs::read_dir("/proc/self/fd").ok().map(|entries| entries.count() as u64),
            max_descriptors: max_descriptors(),
            started_at: started.duration_since(UNIX_EPOCH).ok(),
        }
    }

    pub fn write(&self, text: &mut Text) {
        let numbers = [
            ("process_resident_memory_bytes", "Memory that is in RAM.", self.resident_bytes),
            ("process_virtual_memory_bytes", "Addresses that are mapped.", self.virtual_bytes),
            ("process_open_fds", "Open file descriptors.", self.open_descriptors),
            ("process_max_fds", "File descriptors that may be open.", self.max_descriptors),
        ];
        for (name, help, number) in numbers {
            if let Some(number) = number {
                text.single(name, Kind::Gauge, help, number);
            }
        }
        if let Some(cpu) = self.cpu {
            text.single("process_cpu_seconds_total", Kind::Counter, "Processor time used.", cpu.as_secs_f64());
        }
        if let Some(at) = self.started_at {
            let help = "When the process started, in seconds since 1970.";
            text.single("process_start_time_seconds", Kind::Gauge, help, at.as_secs_f64());
        }
    }
}

/// The process's memory; `at` 0: what is mapped, 1: what is in RAM.
pub fn memory_bytes(at: usize) -> Option<u64> {
    let pages = fs::read_to_string("/proc/self/statm").ok()?;
    pages.split_whitespace().nth(at)?.parse::<u64>().ok()?.checked_mul(page_bytes())
}

fn page_bytes() -> u64 {
    // SAFETY: no pointers.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(bytes).unwrap_or(4096)
}

fn max_descriptors() -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a valid pointer to an rlimit.
    let result = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) };
    (result == 0).then_some(limit.rlim_cur)
}
