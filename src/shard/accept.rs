//! Listening sockets: one accept in flight on each.
//!
//! When descriptors or memory run out, accepting rests for a moment and the kernel's backlog holds who waits.

use super::ring::{Operation, Ring};
use super::stream::set_no_delay;
use super::timers;
use crate::shard::Listener;
use io_uring::{opcode, types};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// How long accepting rests after it failed for want of something.
pub const PAUSE: Duration = Duration::from_millis(100);

pub struct Accepting {
    pub listener: Listener,
    /// Its place in the turn's table.
    pub index: u32,
    pub in_flight: bool,
    /// No accept is to be armed again.
    pub stopped: bool,
    pub timer: timers::Entry,
    /// Where the kernel writes the peer's address: boxed, so that it stays in place.
    address: Box<(libc::sockaddr_storage, libc::socklen_t)>,
}

pub enum Accepted {
    Connection(OwnedFd, Option<SocketAddr>),
    /// Nothing came of it; accept again at once.
    Again,
    /// Wait a moment first.
    Pause(i32),
    /// Cancelled.
    Over,
}

impl Accepting {
    pub fn new(listener: Listener, index: u32) -> Accepting {
        // SAFETY: a sockaddr_storage of zeros is a valid one of no family.
        let address = Box::new((unsafe { std::mem::zeroed() }, 0));
        Accepting { listener, index, in_flight: false, stopped: false, timer: None, address }
    }

    pub fn arm(&mut self, ring: &mut Ring) {
        if self.in_flight || self.stopped {
            return;
        }
        self.address.1 = std::mem::size_of::<libc::sockaddr_storage>() as libc::socklen_t;
        let (storage, length) = &mut *self.address;
        let entry = opcode::Accept::new(
            types::Fd(self.listener.socket.as_raw_fd()),
            (storage as *mut libc::sockaddr_storage).cast(),
            length,
        )
        .flags(libc::SOCK_CLOEXEC)
        .build()
        .user_data(Operation::Accept(self.index).user_data());
        // SAFETY: the boxed address and the socket stay until the accept completed.
        unsafe { ring.push(entry) };
        self.in_flight = true;
    }

    pub fn stop(&mut self, ring: &mut Ring) {
        self.stopped = true;
        if self.in_flight {
            let entry = opcode::AsyncCancel::new(Operation::Accept(self.index).user_data())
                .build()
                .user_data(Operation::Cancel.user_data());
            // SAFETY: it points to nothing.
            unsafe { ring.push(entry) };
        }
    }

    /// An accept completed with `result`.
    pub fn completed(&mut self, result: i32) -> Accepted {
        self.in_flight = false;
        if result >= 0 {
            // SAFETY: the kernel just made it for us.
            let fd = unsafe { OwnedFd::from_raw_fd(result) };
            set_no_delay(fd.as_raw_fd());
            return Accepted::Connection(fd, peer_address(&self.address.0));
        }
        match -result {
            libc::ECANCELED => Accepted::Over,
            // The peer gave up meanwhile, or a signal came: nobody's loss. The network's own errors that accept(2)
            // passes on are the peer's as well.
            libc::ECONNABORTED | libc::EINTR | libc::EAGAIN | libc::EPROTO => Accepted::Again,
            libc::ENETDOWN | libc::ENOPROTOOPT | libc::EHOSTDOWN | libc::EHOSTUNREACH | libc::ENETUNREACH => {
                Accepted::Again
            }
            errno => Accepted::Pause(errno),
        }
    }
}

fn peer_address(storage: &libc::sockaddr_storage) -> Option<SocketAddr> {
    match i32::from(storage.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family says that it is a sockaddr_in, which fits into a storage.
            let address = unsafe { &*(storage as *const libc::sockaddr_storage).cast::<libc::sockaddr_in>() };
            let ip = Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr));
            Some(SocketAddr::V4(SocketAddrV4::new(ip, u16::from_be(address.sin_port))))
        }
        libc::AF_INET6 => {
            // SAFETY: as above, of a sockaddr_in6.
            let address = unsafe { &*(storage as *const libc::sockaddr_storage).cast::<libc::sockaddr_in6>() };
            let ip = Ipv6Addr::from(address.sin6_addr.s6_addr);
            let port = u16::from_be(address.sin6_port);
            Some(SocketAddr::V6(SocketAddrV6::new(ip, port, address.sin6_flowinfo, address.sin6_scope_id)))
        }
        _ => None,
    }
}
