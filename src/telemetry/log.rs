//! The way of a log line from the thread where it happened to the one that writes it.
//!
//! A shard never writes a log itself: a slow terminal or disk would stop its messages. It asks whether anybody
//! wants the line (one relaxed load), and if so puts a record into a bounded queue. What doesn't fit is
//! counted, and the count is logged.

use crate::log::{Level, Levels, Module};
use crossbeam_queue::ArrayQueue;
use std::sync::atomic::{fence, AtomicBool, AtomicU64, AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

/// One line to be.
#[derive(Debug)]
pub struct Record {
    pub at: SystemTime,
    pub module: Module,
    pub level: Level,
    pub text: String,
    pub file: &'static str,
    pub line: u32,
}

struct Shared {
    /// Levels that anybody wants, a module.
    enabled: [AtomicU8; Module::ALL.len()],
    queue: ArrayQueue<Record>,
    dropped: AtomicU64,
    /// The reader is about to sleep, or does: the next record has to wake it.
    armed: AtomicBool,
    wake: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

/// A handle to the log; clones are the same log.
#[derive(Clone)]
pub struct Logger(Arc<Shared>);

impl Logger {
    /// A log whose queue holds `capacity` records, at least 1. Nothing is enabled yet.
    pub fn new(capacity: usize) -> Logger {
        Logger(Arc::new(Shared {
            enabled: Default::default(),
            queue: ArrayQueue::new(capacity.max(1)),
            dropped: AtomicU64::new(0),
            armed: AtomicBool::new(false),
            wake: OnceLock::new(),
        }))
    }

    /// Whether a line of this module and level would be written. Cheap: a relaxed load.
    #[inline]
    pub fn is_enabled(&self, module: Module, level: Level) -> bool {
        Levels(self.0.enabled[module as usize].load(Ordering::Relaxed)).contains(level)
    }

    /// Hands a line over. Never blocks; use [`crate::log_line`], which asks first.
    pub fn push(&self, module: Module, level: Level, text: String, file: &'static str, line: u32) {
        let record = Record { at: SystemTime::now(), module, level, text, file, line };
        if self.0.queue.push(record).is_err() {
            self.0.dropped.fetch_add(1, Ordering::Relaxed);
        }
        // Push, fence, look; the reader arms, fences, looks: one of the two sees the other.
        fence(Ordering::SeqCst);
        if self.0.armed.load(Ordering::Relaxed) && self.0.armed.swap(false, Ordering::Relaxed) {
            if let Some(wake) = self.0.wake.get() {
                wake();
            }
        }
    }

    /// The reader's: which levels of a module are wanted from now on.
    pub fn enable(&self, module: Module, levels: Levels) {
        self.0.enabled[module as usize].store(levels.0, Ordering::Relaxed);
    }

    /// The reader's, once: how a thread that logs wakes it.
    pub fn set_wake(&self, wake: impl Fn() + Send + Sync + 'static) {
        let _ = self.0.wake.set(Box::new(wake));
    }

    /// The reader's: the oldest record.
    pub fn pop(&self) -> Option<Record> {
        self.0.queue.pop()
    }

    /// The reader's: how many records didn't fit since it last asked.
    pub fn take_dropped(&self) -> u64 {
        self.0.dropped.swap(0, Ordering::Relaxed)
    }

    /// The reader's, before it sleeps: true if it may, false if there is something to pop.
    pub fn arm(&self) -> bool {
        self.0.armed.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.0.queue.is_empty()
    }
}

/// Logs a line if its module and level are enabled: `log_line!(logger, Server, Info, "[C{}] …", number)`. The
/// arguments are evaluated only then.
#[macro_export]
macro_rules! log_line {
    ($logger:expr, $module:ident, $level:ident, $($text:tt)+) => {
        if $logger.is_enabled($crate::log::Module::$module, $crate::log::Level::$level) {
            $logger.push(
                $crate::log::Module::$module,
                $crate::log::Level::$level,
                format!($($text)+),
                file!(),
                line!(),
            );
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    #[test]
    fn only_what_is_enabled_is_evaluated() {
        let logger = Logger::new(8);
        logger.enable(Module::Server, Levels::from(Level::Info));
        log_line!(logger, Server, Debug, "{}", unreachable!() as u32);
        log_line!(logger, Policy, Critical, "{}", unreachable!() as u32);
        log_line!(logger, Server, Notice, "[C{}] up", 7);
        let record = logger.pop().unwrap();
        assert_eq!((record.module, record.level, record.text.as_str()), (Module::Server, Level::Notice, "[C7] up"));
        assert!(logger.pop().is_none());
    }

    #[test]
    fn a_full_queue_counts() {
        let logger = Logger::new(2);
        logger.enable(Module::Server, Levels::from(Level::Info));
        for number in 0..5 {
            log_line!(logger, Server, Info, "{number}");
        }
        assert_eq!(logger.pop().unwrap().text, "0");
        assert_eq!(logger.take_dropped(), 3);
        assert_eq!(logger.take_dropped(), 0);
    }

    #[test]
    fn a_sleeping_reader_is_woken_once() {
        let logger = Logger::new(8);
        logger.enable(Module::Server, Levels::from(Level::Info));
        let woken = Arc::new(AtomicUsize::new(0));
        let count = woken.clone();
        logger.set_wake(move || {
            count.fetch_add(1, Ordering::Relaxed);
        });
        log_line!(logger, Server, Info, "nobody sleeps");
        assert!(!logger.arm());
        logger.pop().unwrap();
        assert!(logger.arm());
        log_line!(logger, Server, Info, "one");
        log_line!(logger, Server, Info, "two");
        assert_eq!(woken.load(Ordering::Relaxed), 1);
    }
}
