//! The floor: what carrying the same bytes costs a program that routes nothing.
//!
//! usage: floor HOST:PORT
//!
//! One thread, poll(2), read, write. It answers each handshake itself, pairs a sender with a receiver of the same address,
//! and from then on copies whole frames from one connection of a pair to the other: transfers, dispositions and flows
//! alike. So credit and ids are the peers' own, and both have to count from the same number, as `ringway load` does.
//! `perf/flood` compares the router with it.

use ringway::wire::performative::{Attach, Begin, Close, Open, Performative, Role};
use ringway::wire::sasl::Outcome;
use ringway::wire::terminus::{Source, Target};
use ringway::wire::{encode, frame, PROTOCOL_HEADER_AMQP, PROTOCOL_HEADER_SASL};
use std::collections::HashMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;

/// One read; what a socket holds under a flood.
const READ_BYTES: usize = 256 * 1024;
const WINDOW: u32 = i32::MAX as u32;

struct Peer {
    stream: TcpStream,
    input: Vec<u8>,
    output: Vec<u8>,
    /// Who gets its frames, once both ends of the pair are attached.
    other: Option<usize>,
    /// Frames that came before that.
    early: Vec<u8>,
    is_over: bool,
}

fn main() -> io::Result<()> {
    let Some(address) = std::env::args().nth(1) else {
        eprintln!("usage: floor HOST:PORT");
        std::process::exit(1);
    };
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    let mut peers: Vec<Peer> = Vec::new();
    // Who waits at an address for the other end.
    let mut waiting: HashMap<(String, bool), usize> = HashMap::new();
    let mut buffer = vec![0; READ_BYTES];
    let mut polled = Vec::new();
    loop {
        polled.clear();
        polled.push(libc::pollfd { fd: listener.as_raw_fd(), events: libc::POLLIN, revents: 0 });
        polled.extend(peers.iter().map(|peer| libc::pollfd {
            fd: if peer.is_over { -1 } else { peer.stream.as_raw_fd() },
            events: if peer.output.is_empty() { libc::POLLIN } else { libc::POLLIN | libc::POLLOUT },
            revents: 0,
        }));
        // SAFETY: as many entries as the vector has.
        unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, -1) };
        for index in 0..peers.len() {
            if polled[index + 1].revents & !libc::POLLOUT != 0 {
                peers[index].read(&mut buffer);
                serve(&mut peers, index, &mut waiting);
            }
        }
        while let Ok((stream, _)) = listener.accept() {
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)?;
            let (input, output, early) = Default::default();
            peers.push(Peer { stream, input, output, other: None, early, is_over: false });
        }
        peers.iter_mut().for_each(Peer::write);
    }
}

impl Peer {
    fn read(&mut self, buffer: &mut [u8]) {
        loop {
            match self.stream.read(buffer) {
                Ok(count) if count > 0 => {
                    self.input.extend_from_slice(&buffer[..count]);
                    if count < buffer.len() {
                        return;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                _ => {
                    self.is_over = true;
                    return;
                }
            }
        }
    }

    fn write(&mut self) {
        if self.output.is_empty() || self.is_over {
            return;
        }
        match self.stream.write(&self.output) {
            Ok(count) if count == self.output.len() => self.output.clear(),
            Ok(count) => drop(self.output.drain(..count)),
            Err(error) => self.is_over |= error.kind() != ErrorKind::WouldBlock,
        }
    }

    fn send(&mut self, frame_type: u8, body: impl FnOnce(&mut Vec<u8>)) {
        let start = frame::begin(&mut self.output, frame_type, 0);
        body(&mut self.output);
        frame::finish(&mut self.output, start);
    }
}

/// Acts on all whole frames that a peer sent.
fn serve(peers: &mut [Peer], index: usize, waiting: &mut HashMap<(String, bool), usize>) {
    let input = std::mem::take(&mut peers[index].input);
    let mut at = 0;
    while let Some(head) = input.get(at..at + 8) {
        if head == PROTOCOL_HEADER_AMQP || head == PROTOCOL_HEADER_SASL {
            at += 8;
            greet(&mut peers[index], head);
            continue;
        }
        let size = u32::from_be_bytes([head[0], head[1], head[2], head[3]]) as usize;
        let Some(whole) = input.get(at..at + size.max(8)) else { break };
        at += whole.len();
        let descriptor = whole.get(10).copied().unwrap_or(0);
        // Flow, transfer, disposition.
        if matches!(descriptor, 0x13..=0x15) {
            match peers[index].other {
                Some(other) => peers[other].output.extend_from_slice(whole),
                None => peers[index].early.extend_from_slice(whole),
            }
        } else if whole.len() > 8 {
            answer(peers, index, whole, waiting);
        }
    }
    // What is left is part of a frame; its buffer is used again.
    let left = input.len() - at;
    let mut rest = input;
    rest.copy_within(at.., 0);
    rest.truncate(left);
    peers[index].input = rest;
}

fn greet(peer: &mut Peer, header: &[u8]) {
    peer.output.extend_from_slice(header);
    if header == PROTOCOL_HEADER_SASL {
        let mut anonymous = Vec::new();
        encode::symbol(&mut anonymous, "ANONYMOUS");
        peer.send(frame::TYPE_SASL, |out| {
            // A single symbol stands for a list of it (section 5.3.3.1).
            out.extend_from_slice(&[0, 0x53, 0x40, 0xc0, anonymous.len() as u8 + 1, 1]);
            out.extend_from_slice(&anonymous);
        });
    }
}

/// A frame of the handshake.
fn answer(peers: &mut [Peer], index: usize, whole: &[u8], waiting: &mut HashMap<(String, bool), usize>) {
    let peer = &mut peers[index];
    if whole[5] == frame::TYPE_SASL {
        return peer.send(frame::TYPE_SASL, |out| Outcome::default().encode(out));
    }
    match Performative::decode(&whole[8..]) {
        Ok((Performative::Open(_), _)) => peer.send(frame::TYPE_AMQP, |out| {
            Open { container_id: "floor", max_frame_size: 65_536, ..Open::default() }.encode(out)
        }),
        Ok((Performative::Begin(begin), _)) => peer.send(frame::TYPE_AMQP, |out| {
            let answer = Begin { remote_channel: Some(0), incoming_window: WINDOW, outgoing_window: WINDOW, ..begin };
            answer.encode(out)
        }),
        Ok((Performative::Attach(attach), _)) => attached(peers, index, &attach, waiting),
        Ok((Performative::Close(_), _)) => peer.send(frame::TYPE_AMQP, |out| Close::default().encode(out)),
        _ => {}
    }
}

fn attached(peers: &mut [Peer], index: usize, attach: &Attach<'_>, waiting: &mut HashMap<(String, bool), usize>) {
    let receives = attach.role.is_receiver();
    let address = match receives {
        true => attach.source.and_then(|raw| Source::decode(raw).ok()?.address.map(str::to_owned)),
        false => attach.target.and_then(|raw| Target::decode(raw).ok()?.address.map(str::to_owned)),
    };
    peers[index].send(frame::TYPE_AMQP, |out| {
        let role = if receives { Role::Sender } else { Role::Receiver };
        Attach { role, initial_delivery_count: receives.then_some(0), ..*attach }.encode(out)
    });
    let address = address.unwrap_or_default();
    let Some(other) = waiting.remove(&(address.clone(), !receives)) else {
        waiting.insert((address, receives), index);
        return;
    };
    for (one, two) in [(index, other), (other, index)] {
        let early = std::mem::take(&mut peers[one].early);
        peers[one].other = Some(two);
        peers[two].output.extend_from_slice(&early);
    }
}
