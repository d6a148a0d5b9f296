//! One io_uring, made and used on one thread.
//!
//! Owns: the set-up with its flags, entering the kernel, what an operation's `user_data` says, and ringing another ring.
//! Doesn't: know what an operation is for beyond its [`Operation`] kind.
//!
//! Invariant: every operation pushed here completes exactly once (nothing multishot), so that its owner can count; but for the
//! ringing of doorbells, which nobody counts, and quiet sends (`stream.rs`), which say nothing when all went well.

use crate::arena::SlabId;
use crate::ids::{ConnectionId, ShardId};
use io_uring::{opcode, squeue, types, EnterFlags, IoUring};
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// Submission entries: two for each connection that one turn touches, before the kernel is entered early.
const SUBMISSIONS: u32 = 1024;
/// Completion entries: what may complete between two turns; more overflow into the kernel's list (FEAT_NODROP).
const COMPLETIONS: u32 = 8192;

/// Why a shard has no ring.
#[derive(Debug)]
pub enum RingError {
    /// The kernel knows no io_uring at all.
    Missing,
    /// `kernel.io_uring_disabled`, a seccomp filter, or a container's profile forbids it.
    Forbidden,
    /// The kernel knows io_uring but not the flags that the shard is built on.
    TooOld,
    /// Anything else, with what was being done.
    Other(&'static str, io::Error),
}

impl fmt::Display for RingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RingError::Missing => write!(
                f,
                "this kernel has no io_uring: Linux 6.1 or later is needed, built with CONFIG_IO_URING=y \
                 (a container's seccomp profile may also hide it: allow io_uring_setup, io_uring_enter and io_uring_register)"
            ),
            RingError::Forbidden => write!(
                f,
                "io_uring is forbidden here: set `sysctl -w kernel.io_uring_disabled=0` (1 admits only the group of \
                 kernel.io_uring_group and CAP_SYS_ADMIN), and in a container allow io_uring_setup, io_uring_enter and \
                 io_uring_register in its seccomp profile (Docker: --security-opt seccomp=...)"
            ),
            RingError::TooOld => write!(
                f,
                "this kernel's io_uring is too old: Linux 6.1 or later is needed (IORING_SETUP_DEFER_TASKRUN, provided buffer rings)"
            ),
            RingError::Other(what, error) => {
                write!(f, "{what}: {error}")?;
                if error.raw_os_error() == Some(libc::ENOMEM) {
                    write!(f, " (raise the limit of locked memory: `ulimit -l`, LimitMEMLOCK= in systemd)")?;
                }
                Ok(())
            }
        }
    }
}

impl std::error::Error for RingError {}

/// What a completion is about. Packed into an operation's `user_data`: 4 bits of kind, 28 of index, 32 of generation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    Receive(ConnectionId),
    Send(ConnectionId),
    Accept(u32),
    /// The eventfd that control rings.
    Wake,
    /// A cancellation's own completion; what was cancelled has one as well.
    Cancel,
    /// Another shard has put something into its lane: a message from its ring, not an operation of this one.
    Doorbell,
    /// A moment that somebody waits for has come (`alarm.rs`).
    Alarm,
    /// Ringing that shard's doorbell. It completes only where it failed.
    Ring(ShardId),
}

const KIND_RECEIVE: u64 = 1;
const KIND_SEND: u64 = 2;
const KIND_ACCEPT: u64 = 3;
const KIND_WAKE: u64 = 4;
const KIND_CANCEL: u64 = 5;
const KIND_DOORBELL: u64 = 6;
const KIND_RING: u64 = 7;
const KIND_ALARM: u64 = 8;
/// Above any number of descriptors that a process can have in earnest; the shard takes no connection beyond.
pub const INDEX_MAX: u32 = (1 << 28) - 1;

impl Operation {
    #[inline]
    pub fn user_data(self) -> u64 {
        let pack = |kind: u64, id: ConnectionId| {
            kind << 60 | u64::from(id.index() & INDEX_MAX) << 32 | u64::from(id.generation())
        };
        match self {
            Operation::Receive(id) => pack(KIND_RECEIVE, id),
            Operation::Send(id) => pack(KIND_SEND, id),
            Operation::Accept(listener) => KIND_ACCEPT << 60 | u64::from(listener & INDEX_MAX) << 32,
            Operation::Wake => KIND_WAKE << 60,
            Operation::Cancel => KIND_CANCEL << 60,
            Operation::Doorbell => KIND_DOORBELL << 60,
            Operation::Alarm => KIND_ALARM << 60,
            Operation::Ring(shard) => KIND_RING << 60 | u64::from(shard.0) << 32,
        }
    }

    /// None: not one of ours.
    #[inline]
    pub fn from_user_data(user_data: u64) -> Option<Operation> {
        let index = (user_data >> 32) as u32 & INDEX_MAX;
        let generation = user_data as u32;
        match user_data >> 60 {
            KIND_RECEIVE => Some(Operation::Receive(ConnectionId { index, generation })),
            KIND_SEND => Some(Operation::Send(ConnectionId { index, generation })),
            KIND_ACCEPT => Some(Operation::Accept(index)),
            KIND_WAKE => Some(Operation::Wake),
            KIND_CANCEL => Some(Operation::Cancel),
            KIND_DOORBELL => Some(Operation::Doorbell),
            KIND_ALARM => Some(Operation::Alarm),
            KIND_RING => Some(Operation::Ring(ShardId(index as u16))),
            _ => None,
        }
    }
}

/// A completion, copied out of the queue.
#[derive(Clone, Copy, Debug)]
pub struct Completion {
    pub user_data: u64,
    pub result: i32,
    pub flags: u32,
}

pub struct Ring {
    ring: IoUring,
    /// Of an enter that sleeps.
    sleep_flags: EnterFlags,
    /// Operations that the submission queue had no room for, even after the kernel was entered.
    backlog: VecDeque<squeue::Entry>,
    /// Entries of the kernel, for telemetry.
    pub enters: u64,
}

impl Ring {
    /// To be called on the thread that uses it (SINGLE_ISSUER).
    pub fn new() -> Result<Ring, RingError> {
        let mut builder = IoUring::builder();
        builder
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_coop_taskrun()
            .setup_taskrun_flag()
            .setup_submit_all()
            .setup_clamp()
            .dontfork()
            .setup_cqsize(COMPLETIONS);
        let ring = builder.build(SUBMISSIONS).map_err(|error| match error.raw_os_error() {
            Some(libc::ENOSYS) => RingError::Missing,
            Some(libc::EPERM | libc::EACCES) => RingError::Forbidden,
            Some(libc::EINVAL) => RingError::TooOld,
            _ => RingError::Other("io_uring can't be set up", error),
        })?;
        let features = ring.params();
        let has_waits = features.is_feature_ext_arg() && features.is_feature_fast_poll();
        let has_completions = features.is_feature_nodrop() && features.is_feature_skip_cqe_on_success();
        if !(has_waits && has_completions) {
            return Err(RingError::TooOld);
        }
        // Linux before 6.15 counts a thread that sleeps in its ring as one that waits for a disk.
        let sleep_flags = if features.is_feature_no_iowait() { EnterFlags::NO_IOWAIT } else { EnterFlags::empty() };
        let made = Ring { ring, sleep_flags, backlog: VecDeque::new(), enters: 0 };
        // Saves the kernel a look-up on each enter. Where it fails nothing is lost.
        let _ = made.ring.submitter().register_ring_fd();
        Ok(made)
    }

    pub(super) fn inner(&self) -> &IoUring {
        &self.ring
    }

    /// What other rings ring this one by, as long as it is kept: also when this ring is gone.
    pub fn doorbell(&self) -> io::Result<OwnedFd> {
        // SAFETY: the ring's descriptor, open as long as the ring is.
        unsafe { BorrowedFd::borrow_raw(self.ring.as_raw_fd()) }.try_clone_to_owned()
    }

    /// Rings another shard's doorbell with the next enter.
    pub fn ring(&mut self, doorbell: &OwnedFd, shard: ShardId) {
        let entry = opcode::MsgRingData::new(types::Fd(doorbell.as_raw_fd()), 0, Operation::Doorbell.user_data(), None)
            .build()
            .flags(squeue::Flags::SKIP_SUCCESS)
            .user_data(Operation::Ring(shard).user_data());
        // SAFETY: it points to nothing.
        unsafe { self.push(entry) };
    }

    /// Queues an operation; it starts with the next enter.
    ///
    /// # Safety
    /// What the entry points to stays valid and in place until its completion was taken.
    #[inline]
    pub unsafe fn push(&mut self, entry: squeue::Entry) {
        if !self.backlog.is_empty() || self.ring.submission().push(&entry).is_err() {
            self.push_full(entry);
        }
    }

    #[cold]
    fn push_full(&mut self, entry: squeue::Entry) {
        self.backlog.push_back(entry);
        self.enters += 1;
        // What fails here (EBUSY, EAGAIN) is tried again by the turn's own enter.
        let _ = self.ring.submit();
        self.drain_backlog();
    }

    fn drain_backlog(&mut self) {
        let mut submission = self.ring.submission();
        while let Some(entry) = self.backlog.front() {
            // SAFETY: the one that pushed it answers for what it points to.
            if unsafe { submission.push(entry) }.is_err() {
                return;
            }
            self.backlog.pop_front();
        }
    }

    /// Whether the kernel has started everything that was pushed, and told everything that it had to tell at once.
    #[inline]
    pub fn is_submitted(&mut self) -> bool {
        let submission = self.ring.submission();
        self.backlog.is_empty() && submission.is_empty() && !submission.cq_overflow()
    }

    /// Submits what was queued and sleeps until something completed or `timeout` passed; `None`: no limit. A zero
    /// timeout looks without sleeping.
    pub fn submit_and_wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        if !self.backlog.is_empty() {
            self.drain_backlog();
        }
        // With a backlog the queue is full of entries; don't sleep on half of the work.
        if !self.backlog.is_empty() {
            return self.enter(0, EnterFlags::empty());
        }
        let Some(timeout) = timeout else { return self.enter(1, self.sleep_flags) };
        self.enters += 1;
        let timespec = types::Timespec::from(timeout);
        let args = types::SubmitArgs::new().timespec(&timespec);
        entered(self.ring.submitter().submit_with_args_and_flags(1, &args, self.sleep_flags))
    }

    /// Enters for so many completions at least.
    fn enter(&mut self, completions: u32, flags: EnterFlags) -> io::Result<()> {
        self.enters += 1;
        let submissions = self.ring.submission().len() as u32;
        // Completions that wait for this thread are made in any case.
        let flags = flags | EnterFlags::GETEVENTS;
        // SAFETY: as many as there are; without an argument.
        entered(unsafe { self.ring.submitter().enter::<libc::sigset_t>(submissions, completions, flags.bits(), None) })
    }

    /// Submits what was queued and looks at what has completed, without sleeping.
    pub fn submit_and_look(&mut self) -> io::Result<()> {
        if !self.backlog.is_empty() {
            self.drain_backlog();
        }
        self.enter(0, EnterFlags::empty())
    }

    /// Whether something has completed. Costs a look at memory.
    #[inline]
    pub fn has_completions(&mut self) -> bool {
        !self.ring.completion().is_empty()
    }

    /// Whether something has completed, or may with the next enter. Costs a look at memory.
    #[inline]
    pub fn has_news(&mut self) -> bool {
        self.ring.submission().taskrun() || self.has_completions()
    }

    /// Copies out what has completed. `into` is empty before.
    #[inline]
    pub fn completions(&mut self, into: &mut Vec<Completion>) {
        let queue = self.ring.completion();
        into.extend(queue.map(|entry| Completion {
            user_data: entry.user_data(),
            result: entry.result(),
            flags: entry.flags(),
        }));
    }
}

/// Time passed, a signal came, or completions must be drained first: all normal.
fn entered(result: io::Result<usize>) -> io::Result<()> {
    match result {
        Err(error) => match error.raw_os_error() {
            Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN) => Ok(()),
            _ => Err(error),
        },
        Ok(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_survive_their_packing() {
        let id = ConnectionId { index: INDEX_MAX - 3, generation: u32::MAX };
        for operation in [
            Operation::Receive(id),
            Operation::Send(id),
            Operation::Accept(7),
            Operation::Wake,
            Operation::Cancel,
            Operation::Doorbell,
            Operation::Alarm,
            Operation::Ring(ShardId(u16::MAX)),
        ] {
            assert_eq!(Operation::from_user_data(operation.user_data()), Some(operation));
        }
        assert_eq!(Operation::from_user_data(0), None);
    }

    #[test]
    fn errors_say_what_to_enable() {
        assert!(RingError::Forbidden.to_string().contains("kernel.io_uring_disabled=0"));
        assert!(RingError::Missing.to_string().contains("CONFIG_IO_URING"));
        assert!(RingError::TooOld.to_string().contains("6.1"));
    }
}
