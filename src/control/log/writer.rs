//! An output's thread: it writes, and waits for whoever takes what is written, so that nobody else has to.
//!
//! Lines wait for it in their order, up to a bound. One that finds no room is left out, and so are those behind it until the
//! thread has written what waited; in their place it writes how many they were.

use super::sink::Sink;
use crate::log::{Level, Module};
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// What waits for one output at most, in bytes.
const WAITING_BYTES_MAX: usize = 4 << 20;

/// The way to an output's thread. Dropped, it lets the thread write what waits, and end.
pub(super) struct Writer {
    shared: Arc<Shared>,
}

struct Shared {
    /// Locked for moments, never while something is written.
    queue: Mutex<Queue>,
    changed: Condvar,
}

struct Queue {
    items: VecDeque<Item>,
    /// What the items cost.
    bytes: usize,
    /// Behind all items.
    left_out: Option<LeftOut>,
    /// The thread is at something: its begin, or what it took last.
    is_busy: bool,
    /// Nothing comes any more.
    is_over: bool,
}

enum Item {
    Line(Level, Box<str>),
    /// Where lines go from here on.
    Sink(Sink),
}

struct LeftOut {
    /// The first one's time, as its line has it.
    stamp: Box<str>,
    lines: u64,
}

impl Writer {
    /// Starts the thread. None may be there when the process forks: it would be in one of the two only.
    pub fn start(sink: Sink) -> io::Result<Writer> {
        let queue = Queue { items: VecDeque::new(), bytes: 0, left_out: None, is_busy: true, is_over: false };
        let shared = Arc::new(Shared { queue: Mutex::new(queue), changed: Condvar::new() });
        let of_thread = shared.clone();
        std::thread::Builder::new().name("log".to_string()).spawn(move || of_thread.write_all(sink))?;
        Ok(Writer { shared })
    }

    /// Hands over a whole line, its end included, without waiting. `stamp`: what it begins with, if that is its time.
    pub fn write(&self, level: Level, line: &str, stamp: &str) {
        let mut queue = self.shared.lock();
        if let Some(left_out) = &mut queue.left_out {
            left_out.lines += 1;
            return;
        }
        let item = Item::Line(level, line.into());
        let bytes = queue.bytes + item.cost();
        if bytes > WAITING_BYTES_MAX && !queue.items.is_empty() {
            queue.left_out = Some(LeftOut { stamp: stamp.into(), lines: 1 });
            return;
        }
        queue.bytes = bytes;
        queue.items.push_back(item);
        self.shared.changed.notify_all();
    }

    /// What is handed over from now on goes there.
    pub fn turn_to(&self, sink: Sink) {
        self.shared.lock().items.push_back(Item::Sink(sink));
        self.shared.changed.notify_all();
    }

    /// Waits until all is written, until `deadline` at most.
    pub fn flush(&self, deadline: Instant) {
        let patience = deadline.saturating_duration_since(Instant::now());
        let _ = self.shared.changed.wait_timeout_while(self.shared.lock(), patience, |queue| !queue.is_done());
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.shared.lock().is_over = true;
        self.shared.changed.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The thread.
    fn write_all(&self, mut sink: Sink) {
        sink.begin();
        while let Some(item) = self.next() {
            match item {
                Item::Line(level, line) => sink.write(level, &line),
                Item::Sink(other) => sink = other,
            }
        }
    }

    /// What is to be done next, once there is something. None: nothing ever.
    fn next(&self) -> Option<Item> {
        let mut queue = self.lock();
        queue.is_busy = false;
        loop {
            let item = queue.take();
            queue.is_busy = item.is_some();
            if item.is_some() || queue.is_over {
                return item;
            }
            // Somebody may be waiting for just that.
            self.changed.notify_all();
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Queue {
    fn is_done(&self) -> bool {
        self.items.is_empty() && self.left_out.is_none() && !self.is_busy
    }

    fn take(&mut self) -> Option<Item> {
        let Some(item) = self.items.pop_front() else { return self.left_out.take().map(LeftOut::line) };
        self.bytes -= item.cost();
        Some(item)
    }
}

impl Item {
    /// Bytes that it takes while it waits.
    fn cost(&self) -> usize {
        match self {
            Item::Line(_, line) => line.len() + std::mem::size_of::<Item>(),
            Item::Sink(_) => 0,
        }
    }
}

impl LeftOut {
    fn line(self) -> Item {
        let (module, level) = (Module::Error, Level::Warning);
        let LeftOut { stamp, lines } = self;
        let text = format!("{stamp}{} ({}) Lines left out here: {lines}\n", module.name(), level.name());
        Item::Line(level, text.into())
    }
}
