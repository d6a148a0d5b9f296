//! One connected socket: what is in flight on it, and how it ends.
//!
//! Life: `Open` → (the application is finished, its output is sent) `Lingering`: our side is shut, what the peer still
//! sends is read and dropped until it ends too, for a bounded time → `Ending`: both sides shut, what is in flight is
//! cancelled → the last completion came: the descriptor is closed, the slot freed. A broken or timed-out
//! connection goes to `Ending` directly.
//!
//! On its way to another shard an open one is `moving`: receive and send in flight are cancelled, what they brought and what is
//! left of them is kept, and at the last completion it leaves as [`Travelling`].
//!
//! Why linger: closing a socket with unread bytes sends a reset, which may overtake our last frames at the peer.
//! Why shut before cancel and close: `close` alone leaves an armed receive holding the socket, and sends no FIN.

use super::ring::{Operation, Ring};
use super::timers;
use crate::engine::Transmit;
use crate::ids::{ConnectionId, ShardId};
use crate::shard::buffers::BUFFER_GROUP;
use crate::time::Time;
use io_uring::{opcode, squeue, types};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// Don't try to receive before the socket polls readable: the last receive took all there was.
const RECVSEND_POLL_FIRST: u16 = 1;
/// Pieces of one SENDMSG at most (the kernel's UIO_MAXIOV is 1024): what is beyond is sent as if the write was short.
const PIECES_MAX: usize = 1000;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    Open,
    Lingering,
    Ending,
}

pub struct Stream {
    fd: OwnedFd,
    pub id: ConnectionId,
    pub phase: Phase,
    pub receiving: bool,
    /// The last receive emptied the socket.
    emptied: bool,
    /// The peer's side has ended (or receiving failed): no receive is armed again.
    pub input_over: bool,
    /// Found broken while it was moving.
    pub broken: bool,
    /// The shard that it is on its way to.
    pub moving: Option<ShardId>,
    sending: Option<Sending>,
    /// What a send that was cancelled left: to be sent before anything else.
    unsent: Vec<u8>,
    pub timer: timers::Entry,
    /// When lingering, or an end that waits for its last output, is over.
    pub deadline: Option<Time>,
    /// In the turn's list of connections to flush.
    pub listed: bool,
    /// To be flushed again once the send in flight is over.
    pub flush_after_send: bool,
}

/// A send in flight: the buffers belong to the kernel.
struct Sending {
    transmit: Transmit,
    total: usize,
    sent: usize,
    message: Option<Box<Message>>,
    /// Done with the enter that submits it, unless a completion says otherwise.
    quiet: bool,
}

impl Sending {
    /// A copy of what wasn't sent.
    fn rest(&self) -> Vec<u8> {
        let mut rest = Vec::with_capacity(self.total - self.sent);
        let mut skip = self.sent;
        for slice in self.transmit.slices() {
            rest.extend_from_slice(&slice[skip.min(slice.len())..]);
            skip = skip.saturating_sub(slice.len());
        }
        rest
    }
}

/// What a SENDMSG points to: boxed, so that it stays in place; pooled, so that no send allocates.
pub struct Message {
    header: libc::msghdr,
    pieces: Vec<libc::iovec>,
}

impl Message {
    pub fn new() -> Box<Message> {
        // SAFETY: a msghdr of zeros is valid: no name, no pieces, no control data.
        Box::new(Message { header: unsafe { std::mem::zeroed() }, pieces: Vec::with_capacity(64) })
    }

    /// Points at the bytes of `transmit` behind the first `skip`.
    fn fill(&mut self, transmit: &Transmit, mut skip: usize) {
        self.pieces.clear();
        for slice in transmit.slices() {
            if skip >= slice.len() {
                skip -= slice.len();
                continue;
            }
            let rest = &slice[skip..];
            skip = 0;
            self.pieces.push(libc::iovec { iov_base: rest.as_ptr() as *mut _, iov_len: rest.len() });
            if self.pieces.len() == PIECES_MAX {
                break;
            }
        }
        self.header.msg_iov = self.pieces.as_mut_ptr();
        self.header.msg_iovlen = self.pieces.len();
    }
}

/// A connection's socket between two shards, and what lives behind it.
pub struct Travelling<M> {
    fd: OwnedFd,
    emptied: bool,
    input_over: bool,
    broken: bool,
    unsent: Vec<u8>,
    pub moved: M,
}

/// What a send's completion means.
pub enum SendOutcome {
    /// The rest is in flight again.
    Short,
    /// All of it went (or will never): the buffers are back.
    Done { transmit: Transmit, message: Option<Box<Message>>, failed: bool },
    /// There was no send.
    None,
}

impl Stream {
    pub fn new(fd: OwnedFd) -> Stream {
        Stream {
            fd,
            id: ConnectionId { index: 0, generation: 0 },
            phase: Phase::Open,
            receiving: false,
            emptied: true,
            input_over: false,
            broken: false,
            moving: None,
            sending: None,
            unsent: Vec::new(),
            timer: None,
            deadline: None,
            listed: false,
            flush_after_send: false,
        }
    }

    /// Begins to move: nothing new is put in flight, and what is comes back soon.
    pub fn depart(&mut self, to: ShardId, ring: &mut Ring) {
        self.moving = Some(to);
        self.cancel_all(ring);
    }

    /// Leaves, with what lives behind it. Nothing is in flight.
    pub fn travel<M>(self, moved: M) -> Travelling<M> {
        debug_assert!(self.is_idle() && self.phase == Phase::Open);
        let Stream { fd, emptied, input_over, broken, unsent, .. } = self;
        Travelling { fd, emptied, input_over, broken, unsent, moved }
    }

    /// Arrives at its new shard.
    pub fn arrive<M>(travelling: Travelling<M>) -> (Stream, M) {
        let Travelling { fd, emptied, input_over, broken, unsent, moved } = travelling;
        (Stream { emptied, input_over, broken, unsent, ..Stream::new(fd) }, moved)
    }

    /// What a cancelled send left, as a send of its own.
    pub fn take_unsent(&mut self) -> Option<Transmit> {
        if self.unsent.is_empty() {
            return None;
        }
        let mut transmit = Transmit::default();
        transmit.bytes = std::mem::take(&mut self.unsent);
        Some(transmit)
    }

    #[inline]
    pub fn is_sending(&self) -> bool {
        self.sending.is_some()
    }

    /// The send in flight is quiet.
    #[inline]
    pub fn is_sending_quietly(&self) -> bool {
        self.sending.as_ref().is_some_and(|sending| sending.quiet)
    }

    /// Bytes of the send in flight.
    #[inline]
    pub fn sending_bytes(&self) -> usize {
        self.sending.as_ref().map_or(0, |sending| sending.total)
    }

    /// Asks for a flush once the send in flight is over. True: it is a quiet one, so nothing else wakes the shard for it.
    pub fn flush_behind_send(&mut self) -> bool {
        self.flush_after_send = true;
        self.is_sending_quietly()
    }

    /// Nothing is in flight: the slot may be freed.
    #[inline]
    pub fn is_idle(&self) -> bool {
        !self.receiving && self.sending.is_none()
    }

    fn raw(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Whether a receive could be armed.
    #[inline]
    pub fn wants_receive(&self) -> bool {
        !self.receiving && !self.input_over && self.phase != Phase::Ending && self.moving.is_none()
    }

    #[inline]
    pub fn arm_receive(&mut self, ring: &mut Ring) {
        if !self.wants_receive() {
            return;
        }
        let ioprio = if self.emptied { RECVSEND_POLL_FIRST } else { 0 };
        let entry = opcode::Recv::new(types::Fd(self.raw()), std::ptr::null_mut(), 0)
            .buf_group(BUFFER_GROUP)
            .ioprio(ioprio)
            .build()
            .flags(squeue::Flags::BUFFER_SELECT)
            .user_data(Operation::Receive(self.id).user_data());
        // SAFETY: the buffer is the kernel's choice of those on offer; the descriptor stays open until the completion.
        unsafe { ring.push(entry) };
        self.receiving = true;
    }

    /// A receive completed. `more`: the socket has bytes left.
    #[inline]
    pub fn received(&mut self, more: bool) {
        self.receiving = false;
        self.emptied = !more;
    }

    /// Starts a quiet send. None is in flight, and there is something in it.
    ///
    /// The kernel takes it inside the enter that submits it, or at once says (by a completion) what it didn't take;
    /// the rest is then sent in the usual way, which waits for room. So a send costs no completion as a rule, and no
    /// turn of its own.
    #[inline]
    pub fn send(&mut self, transmit: Transmit, ring: &mut Ring, messages: &mut Vec<Box<Message>>) {
        debug_assert!(self.sending.is_none());
        let total = transmit.len();
        let message =
            if transmit.ranges().is_empty() { None } else { Some(messages.pop().unwrap_or_else(Message::new)) };
        // One that doesn't fit into a message has to be told, since its rest is sent then.
        let quiet = transmit.ranges().len() < PIECES_MAX / 2;
        self.sending = Some(Sending { transmit, total, sent: 0, message, quiet });
        self.push_send(ring);
    }

    fn push_send(&mut self, ring: &mut Ring) {
        let fd = types::Fd(self.fd.as_raw_fd());
        let Some(sending) = &mut self.sending else { return };
        // WAITALL: the kernel itself goes on after a short write, which saves a turn each time; of a quiet send it
        // makes a short write a failure, which is told.
        let mut flags = libc::MSG_NOSIGNAL | libc::MSG_WAITALL;
        let mut entry_flags = squeue::Flags::empty();
        if sending.quiet {
            flags |= libc::MSG_DONTWAIT;
            entry_flags = squeue::Flags::SKIP_SUCCESS;
        }
        let entry = match &mut sending.message {
            None => {
                let rest = &sending.transmit.bytes[sending.sent..];
                opcode::Send::new(fd, rest.as_ptr(), rest.len() as u32).flags(flags).build()
            }
            Some(message) => {
                message.fill(&sending.transmit, sending.sent);
                opcode::SendMsg::new(fd, &message.header).flags(flags as u32).build()
            }
        };
        // SAFETY: the bytes, ranges and message stay untouched and in place in `sending` until the completion.
        unsafe { ring.push(entry.flags(entry_flags).user_data(Operation::Send(self.id).user_data())) };
    }

    /// The enter that submitted a quiet send is over, and nothing was said of it: all of it went.
    #[inline]
    pub fn sent_quietly(&mut self) -> SendOutcome {
        match self.sending.take() {
            Some(Sending { transmit, message, .. }) => SendOutcome::Done { transmit, message, failed: false },
            None => SendOutcome::None,
        }
    }

    /// A send completed with `result`.
    pub fn sent(&mut self, result: i32, ring: &mut Ring) -> SendOutcome {
        let Some(sending) = &mut self.sending else { return SendOutcome::None };
        sending.quiet = false;
        if result >= 0 {
            sending.sent += result as usize;
        }
        // An open connection's is cancelled for a move, and for nothing else.
        let again = result > 0 || matches!(-result, libc::EINTR | libc::EAGAIN | libc::ECANCELED);
        let mut failed = sending.sent < sending.total;
        if failed && again && self.phase == Phase::Open {
            if self.moving.is_none() {
                self.push_send(ring);
                return SendOutcome::Short;
            }
            self.unsent = sending.rest();
            failed = false;
        }
        match self.sending.take() {
            Some(Sending { transmit, message, .. }) => SendOutcome::Done { transmit, message, failed },
            None => SendOutcome::None,
        }
    }

    /// Our side has said all it has to.
    pub fn shut_output(&mut self) {
        // SAFETY: no pointers. Fails where the peer is gone, which is no news.
        unsafe { libc::shutdown(self.raw(), libc::SHUT_WR) };
        self.phase = Phase::Lingering;
    }

    /// Both sides end; what is in flight completes soon.
    pub fn end(&mut self, ring: &mut Ring) {
        if self.phase == Phase::Ending {
            return;
        }
        self.phase = Phase::Ending;
        // SAFETY: no pointers.
        unsafe { libc::shutdown(self.raw(), libc::SHUT_RDWR) };
        self.cancel_all(ring);
    }

    fn cancel_all(&self, ring: &mut Ring) {
        if self.receiving {
            self.cancel(Operation::Receive(self.id), ring);
        }
        if self.is_sending() {
            self.cancel(Operation::Send(self.id), ring);
        }
    }

    fn cancel(&self, operation: Operation, ring: &mut Ring) {
        let entry = opcode::AsyncCancel::new(operation.user_data()).build().user_data(Operation::Cancel.user_data());
        // SAFETY: it points to nothing.
        unsafe { ring.push(entry) };
    }
}

/// Small writes go out at once.
pub fn set_no_delay(fd: RawFd) {
    let one: libc::c_int = 1;
    // SAFETY: a valid int of the given size. A failure costs latency only.
    unsafe {
        libc::setsockopt(
            fd,
            libc::IPPROTO_TCP,
            libc::TCP_NODELAY,
            (&one as *const libc::c_int).cast(),
            std::mem::size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
}
