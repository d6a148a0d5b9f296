//! A flood: a blocking client that speaks just enough AMQP to send and receive as fast as the router goes.

use ringway::wire::performative::{Attach, Begin, Disposition, Flow, Open, Performative, Role, Transfer};
use ringway::wire::{frame, terminus, PROTOCOL_HEADER_AMQP};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// A blocking client that speaks just enough AMQP, without a SASL layer.
pub struct Client {
    stream: TcpStream,
    input: Vec<u8>,
}

impl Client {
    pub fn connect(address: SocketAddr, name: &str) -> Client {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.set_nodelay(true).unwrap();
        let mut client = Client { stream, input: Vec::new() };
        let mut out = PROTOCOL_HEADER_AMQP.to_vec();
        frame_of(&mut out, |out| Open { container_id: name, ..Open::default() }.encode(out));
        let begin = Begin { incoming_window: 1 << 30, outgoing_window: 1 << 30, ..Begin::default() };
        frame_of(&mut out, |out| begin.encode(out));
        client.stream.write_all(&out).unwrap();
        let mut header = [0; 8];
        client.stream.read_exact(&mut header).unwrap();
        assert_eq!(header, PROTOCOL_HEADER_AMQP);
        client
    }

    pub fn attach(&mut self, role: Role, address: &str) {
        let (mut source, mut target) = (Vec::new(), Vec::new());
        terminus::Source { address: Some(address), ..terminus::Source::default() }.encode(&mut source);
        terminus::Target { address: Some(address), ..terminus::Target::default() }.encode(&mut target);
        let attach = Attach {
            name: "link",
            role,
            source: Some(&source),
            target: Some(&target),
            initial_delivery_count: (role == Role::Sender).then_some(0),
            ..Attach::default()
        };
        self.send(|out| attach.encode(out));
    }

    fn send(&mut self, body: impl FnOnce(&mut Vec<u8>)) {
        let mut out = Vec::new();
        frame_of(&mut out, body);
        self.stream.write_all(&out).unwrap();
    }

    /// Reads once and hands over each whole frame's performative.
    fn read(&mut self, mut each: impl FnMut(Performative<'_>)) {
        let mut chunk = [0; 65536];
        let count = self.stream.read(&mut chunk).unwrap();
        assert!(count > 0, "the router ended the connection");
        self.input.extend_from_slice(&chunk[..count]);
        let mut at = 0;
        while let Some(header) = self.input.get(at..at + 8) {
            let header = frame::parse_header(header.try_into().unwrap()).unwrap();
            let Some(body) = self.input.get(at + header.body_start()..at + header.size as usize) else { break };
            if !body.is_empty() {
                each(Performative::decode(body).unwrap().0);
            }
            at += header.size as usize;
        }
        self.input.drain(..at);
    }
}

fn frame_of(out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
    let start = frame::begin(out, frame::TYPE_AMQP, 0);
    body(out);
    frame::finish(out, start);
}

/// Sends `count` messages of `body` bytes within the credit it is given; gives up nothing.
pub fn send_all(mut client: Client, count: u32, body: usize) {
    let mut message = vec![0x00, 0x53, 0x75, 0xb0];
    message.extend_from_slice(&(body as u32).to_be_bytes());
    message.resize(8 + body, b'x');
    let (mut sent, mut limit, mut settled) = (0u32, 0u32, 0u32);
    let mut out = Vec::new();
    while settled < count {
        client.read(|performative| match performative {
            Performative::Flow(flow) if flow.handle.is_some() => {
                limit = flow.delivery_count.unwrap_or(0) + flow.link_credit.unwrap_or(0)
            }
            Performative::Disposition(disposition) => {
                assert!(disposition.settled);
                settled += disposition.last.unwrap_or(disposition.first) - disposition.first + 1;
            }
            Performative::Detach(detach) => panic!("{detach:?}"),
            Performative::Close(close) => panic!("{close:?}"),
            _ => {}
        });
        out.clear();
        while sent < limit && sent < count {
            let tag = sent.to_be_bytes();
            let transfer = Transfer {
                delivery_id: Some(sent),
                delivery_tag: Some(&tag),
                message_format: Some(0),
                ..Transfer::default()
            };
            transfer.encode_frame(&mut out, 0, message.len());
            out.extend_from_slice(&message);
            sent += 1;
        }
        client.stream.write_all(&out).unwrap();
    }
}

/// Receives and accepts `count` messages, with credit topped up by halves; says so at `marks`.
pub fn receive_all(mut client: Client, count: u32, window: u32, mut at: impl FnMut(u32)) {
    let flow = |received: u32| Flow {
        next_incoming_id: Some(received),
        incoming_window: 1 << 30,
        next_outgoing_id: 0,
        outgoing_window: 1 << 30,
        handle: Some(0),
        delivery_count: Some(received),
        link_credit: Some(window),
        ..Flow::default()
    };
    client.send(|out| flow(0).encode(out));
    let (mut received, mut credited) = (0, window);
    while received < count {
        let first = received;
        client.read(|performative| match performative {
            Performative::Transfer(transfer) => {
                assert_eq!(transfer.delivery_id, Some(received));
                received += 1;
            }
            Performative::Detach(detach) => panic!("{detach:?}"),
            Performative::Close(close) => panic!("{close:?}"),
            _ => {}
        });
        if received == first {
            continue;
        }
        let accepted = Disposition {
            role: Role::Receiver,
            first,
            last: Some(received - 1),
            settled: true,
            state: Some(&[0x00, 0x53, 0x24, 0x45]),
            ..Disposition::default()
        };
        client.send(|out| accepted.encode(out));
        if credited - received <= window / 2 {
            credited = received + window;
            client.send(|out| flow(received).encode(out));
        }
        at(received);
    }
}
