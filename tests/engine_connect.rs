//! An engine that connects, pumped against one that accepts.

use ringway::client::Client;
use ringway::engine::{Direction, Engine, Event, LinkAnswer, Sent, Settings, Source};
use ringway::ids::{DeliveryId, LinkId, SessionNumber};
use ringway::outcome::{Fault, State, StateKind};
use ringway::payload::{Payload, Range};
use ringway::security::{Exchange, Login, Step};
use ringway::time::Time;
use std::sync::Arc;
use std::time::Duration;

const TOKEN: LinkId = LinkId { index: 7, generation: 3 };

/// A client and a server that accepts all it is asked for.
struct Pair {
    client: Client,
    server: Engine,
    /// What each was told and no test has looked at yet.
    told_client: Vec<Event>,
    told_server: Vec<Event>,
    refuses: bool,
    credit: u32,
    /// All that the server sent.
    said: Vec<u8>,
}

impl Pair {
    fn new(login: Option<Login>, server: Settings) -> Pair {
        let settings = Settings { container_id: "client".into(), hostname: Some("host".into()), ..Settings::default() };
        Pair {
            client: Client::new(settings, login, Time::ZERO),
            server: Engine::new(Arc::new(server), Time::ZERO),
            told_client: Vec::new(),
            told_server: Vec::new(),
            refuses: false,
            credit: 0,
            said: Vec::new(),
        }
    }

    fn opened() -> (Pair, SessionNumber) {
        let mut pair = Pair::new(None, Settings::default());
        pair.pump();
        assert!(pair.client.engine.is_open());
        let session = pair.client.engine.begin_session().unwrap();
        pair.told_client.clear();
        pair.told_server.clear();
        (pair, session)
    }

    /// Until neither has anything to say.
    fn pump(&mut self) {
        loop {
            self.drain();
            let to_server = self.client.engine.poll_transmit().map(|output| output.to_vec());
            let to_client = self.server.poll_transmit().map(|output| output.to_vec());
            if to_server.is_none() && to_client.is_none() {
                return;
            }
            self.said.extend(to_client.iter().flatten());
            // In pieces, as a network has it.
            for piece in to_server.unwrap_or_default().chunks(7) {
                self.server.handle_input(Range::copied(piece), Time::ZERO);
                self.drain();
            }
            for piece in to_client.unwrap_or_default().chunks(7) {
                self.client.engine.handle_input(Range::copied(piece), Time::ZERO);
                self.drain();
            }
        }
    }

    fn drain(&mut self) {
        while let Some(event) = self.server.poll_event() {
            self.serve(event);
        }
        while let Some(event) = self.client.poll_event() {
            self.told_client.push(event);
        }
    }

    fn serve(&mut self, event: Event) {
        match &event {
            Event::SaslInit(init) => {
                let offered = self.server.settings().sasl_mechanisms.clone();
                let response = init.initial_response.as_deref();
                let plain = init.mechanism == "PLAIN" && response == Some(b"\0ann\0secret");
                let (_, step) = Exchange::begin(&init.mechanism, &offered, response);
                self.server.sasl_outcome(plain || matches!(step, Step::Accepted { .. }));
            }
            Event::Attached { link, .. } if self.refuses => {
                self.server.refuse_link(*link, &Fault::link("amqp:not-found", "nothing there"));
            }
            Event::Attached { link, attach } => {
                let answer = LinkAnswer { dynamic_address: Some("made.up"), ..LinkAnswer::default() };
                self.server.accept_link(*link, TOKEN, answer);
                if attach.direction == Some(Direction::Incoming) {
                    self.server.grant(*link, self.credit, false);
                }
            }
            _ => {}
        }
        self.told_server.push(event);
    }
}

fn mechanisms(names: &[&str]) -> Settings {
    let sasl_mechanisms = names.iter().map(|name| name.to_string()).collect();
    Settings { sasl_mechanisms, sasl_required: true, ..Settings::default() }
}

fn ann(password: &str) -> Login {
    Login { mechanisms: None, user: Some("ann".into()), password: Some(password.into()) }
}

#[test]
fn both_sides_open_without_sasl() {
    let mut pair = Pair::new(None, Settings::default());
    pair.pump();
    assert!(pair.client.engine.is_open() && pair.server.is_open());
    let opened = pair.told_server.iter().find_map(|event| match event {
        Event::Opened(open) => Some((open.container_id.clone(), open.hostname.clone())),
        _ => None,
    });
    assert_eq!(opened, Some(("client".into(), Some("host".into()))));
    assert!(matches!(&pair.told_client[..], [Event::Opened(open)] if open.container_id == "router"
        && open.product.as_deref() == Some("qpid-dispatch-router")));
    pair.client.engine.close(None);
    pair.pump();
    assert!(pair.client.engine.is_finished() && pair.server.is_finished());
    assert!(matches!(pair.told_client.last(), Some(Event::Closed { error: None })));
}

#[test]
fn both_sides_open_through_sasl() {
    for (login, offered) in
        [(Login::anonymous(), &["PLAIN", "ANONYMOUS"][..]), (ann("secret"), &["ANONYMOUS", "PLAIN"][..])]
    {
        let mut pair = Pair::new(Some(login), mechanisms(offered));
        pair.pump();
        assert!(pair.client.engine.is_open() && pair.server.is_open());
    }
}

#[test]
fn who_is_not_let_in_hears_why() {
    let why = |pair: &Pair| pair.client.engine.close_reason().unwrap().description.clone();
    for (login, offered, reason) in [
        (ann("wrong"), &["PLAIN"][..], "authentication failed"),
        (Login::default(), &["PLAIN"][..], "no SASL mechanism in common: the peer offers PLAIN"),
    ] {
        let mut pair = Pair::new(Some(login), mechanisms(offered));
        pair.pump();
        assert!(pair.client.engine.is_finished() && why(&pair).starts_with(reason), "{}", why(&pair));
        assert!(matches!(&pair.told_client[..], [Event::Closed { .. }]));
    }
    let mut pair = Pair::new(None, mechanisms(&["ANONYMOUS"]));
    pair.pump();
    assert_eq!(why(&pair), "the peer asks for authentication (SASL)");
    assert_eq!(pair.client.engine.other_protocol(), Some(*b"AMQP\x03\x01\x00\x00"));
}

#[test]
fn a_peer_of_another_protocol_is_left() {
    let mut client = Client::new(Settings::default(), None, Time::ZERO);
    client.engine.handle_input(Range::copied(b"HTTP/1.1 400 Bad Request"), Time::ZERO);
    assert!(matches!(client.poll_event(), Some(Event::Closed { .. })));
    assert_eq!(client.engine.close_reason().unwrap().description, "the peer doesn't speak AMQP");
}

#[test]
fn a_delivery_goes_each_way() {
    let (mut pair, session) = Pair::opened();
    pair.credit = 5;
    let sender = pair.client.sender(session, LinkId { index: 1, generation: 0 }, "out", Some("a")).unwrap();
    let receiver = pair.client.receiver(session, LinkId { index: 2, generation: 0 }, "in", None).unwrap();
    pair.client.engine.grant(receiver, 10, false);
    pair.pump();
    let answered: Vec<_> = pair
        .told_client
        .iter()
        .filter_map(|event| match event {
            Event::LinkAnswered { link, token, attach } => Some((*link, token.index, attach)),
            _ => None,
        })
        .collect();
    assert_eq!(
        answered.iter().map(|(link, token, _)| (*link, *token)).collect::<Vec<_>>(),
        [(sender, 1), (receiver, 2)]
    );
    let source = Source::decode(answered[1].2.source_encoded.as_deref().unwrap()).unwrap();
    assert_eq!(source.address, Some("made.up"));
    assert!(pair
        .told_client
        .iter()
        .any(|event| matches!(event, Event::Credit { link, limit: 5, .. } if *link == sender)));
    assert!(pair.told_server.iter().any(|event| matches!(event, Event::Credit { limit: 10, .. })));

    let delivery = DeliveryId { index: 9, generation: 0 };
    assert_eq!(
        pair.client.engine.send(sender, delivery, 0, false, true, Payload::copied(b"hello")),
        Sent::Whole { room: true }
    );
    pair.pump();
    let arrived = pair.told_server.iter().find_map(|event| match event {
        Event::Transfer(transfer) => Some((transfer.wire, transfer.payload.to_vec())),
        _ => None,
    });
    let (wire, body) = arrived.unwrap();
    assert_eq!(body, b"hello");
    pair.server.dispose_incoming(wire, Some(State::ACCEPTED), true);
    pair.pump();
    assert!(pair.told_client.iter().any(
        |event| matches!(event, Event::ReceiverDisposition { delivery: told, state: Some(state), settled: true, .. }
        if *told == delivery && state.kind == StateKind::Accepted)
    ));

    let outgoing = pair.told_server.iter().find_map(|event| match event {
        Event::Attached { link, attach } if attach.direction == Some(Direction::Outgoing) => Some(*link),
        _ => None,
    });
    pair.server.send(outgoing.unwrap(), delivery, 0, true, true, Payload::copied(b"back"));
    pair.pump();
    assert!(pair
        .told_client
        .iter()
        .any(|event| matches!(event, Event::Transfer(transfer) if transfer.payload.to_vec() == b"back")));
    assert_eq!(pair.client.engine.unsettled_count(), (0, 0));
}

#[test]
fn a_refused_link_ends_with_the_reason() {
    let (mut pair, session) = Pair::opened();
    pair.refuses = true;
    let link = pair.client.sender(session, TOKEN, "out", Some("a")).unwrap();
    pair.pump();
    let ended = pair.told_client.iter().find_map(|event| match event {
        Event::LinkEnded { link: ended, token, closed: true, error: Some(error) } if *ended == link => {
            Some((*token, error))
        }
        _ => None,
    });
    let (token, error) = ended.unwrap();
    assert_eq!(
        (token, error.condition.as_str(), error.description.as_str()),
        (Some(TOKEN), "amqp:not-found", "nothing there")
    );
    assert_eq!(pair.client.engine.link_count(), 0);
    // Its name is free again.
    pair.refuses = false;
    assert!(pair.client.sender(session, TOKEN, "out", Some("a")).is_some());
    pair.pump();
    assert_eq!((pair.client.engine.link_count(), pair.server.link_count()), (1, 1));
}

#[test]
fn a_link_closed_before_it_was_answered_leaves_nothing() {
    let (mut pair, session) = Pair::opened();
    for _ in 0..3 {
        let link = pair.client.receiver(session, TOKEN, "in", Some("a")).unwrap();
        assert!(pair.client.receiver(session, TOKEN, "in", Some("a")).is_none(), "one link has the name");
        pair.client.engine.close_link(link);
    }
    pair.pump();
    assert_eq!((pair.client.engine.link_count(), pair.server.link_count()), (0, 0));
    let link = pair.client.receiver(session, TOKEN, "in", Some("a")).unwrap();
    pair.pump();
    pair.client.engine.close_link(link);
    pair.pump();
    assert_eq!((pair.client.engine.link_count(), pair.server.link_count()), (0, 0));
    assert!(matches!(pair.told_server.last(), Some(Event::LinkEnded { closed: true, error: None, .. })));
}

#[test]
fn links_end_with_their_connection_and_nothing_begins_on_it() {
    let (mut pair, session) = Pair::opened();
    pair.client.sender(session, TOKEN, "answered", Some("a")).unwrap();
    pair.pump();
    pair.client.sender(session, TOKEN, "pending", Some("a")).unwrap();
    pair.server.close(Some(&Fault::connection("amqp:connection:forced", "stop")));
    pair.pump();
    let ended = pair.told_client.iter().filter(|event| matches!(event, Event::LinkEnded { .. })).count();
    assert_eq!(ended, 2);
    assert!(
        matches!(pair.told_client.last(), Some(Event::Closed { error: Some(error) }) if error.description == "stop")
    );
    assert!(pair.client.engine.begin_session().is_none());
    assert!(pair.client.sender(session, TOKEN, "late", Some("a")).is_none());
}

#[test]
fn a_begin_that_answers_nothing_ends_the_connection() {
    let (mut pair, _) = Pair::opened();
    pair.pump();
    // A second answer for channel 0: remote-channel 0, next-outgoing-id 0, windows of 9 frames.
    let begin = [0, 0, 0, 22, 2, 0, 0, 5, 0x00, 0x53, 0x11, 0xc0, 0x09, 4, 0x60, 0, 0, 0x43, 0x52, 9, 0x52, 9];
    pair.client.engine.handle_input(Range::copied(&begin), Time::ZERO);
    pair.pump();
    assert!(pair.client.engine.is_closed());
    assert!(pair.client.engine.close_reason().unwrap().description.contains("did not begin"));
}

#[test]
fn a_silent_server_is_given_up() {
    let mut client =
        Client::new(Settings { idle_timeout: Duration::from_secs(2), ..Settings::default() }, None, Time::ZERO);
    assert_eq!(client.engine.poll_timeout(), Some(Time::ZERO + Duration::from_secs(2)));
    client.engine.handle_timeout(Time::ZERO + Duration::from_secs(2));
    assert!(matches!(client.poll_event(), Some(Event::Closed { .. })));
}

/// Whatever a server says, the client doesn't panic, and its connection ends or goes on.
#[test]
fn any_byte_of_a_server_may_be_wrong() {
    let (mut pair, session) = Pair::opened();
    pair.credit = 5;
    let script = |client: &mut Client, session| {
        let sender = client.sender(session, TOKEN, "out", Some("a"));
        let receiver = client.receiver(session, TOKEN, "in", None);
        if let (Some(sender), Some(receiver)) = (sender, receiver) {
            client.engine.grant(receiver, 10, false);
            client.engine.close_link(sender);
        }
    };
    script(&mut pair.client, session);
    pair.pump();
    pair.server.close(Some(&Fault::connection("amqp:connection:forced", "stop")));
    pair.pump();
    for at in 0..pair.said.len() {
        for change in [0x01, 0x10, 0x80, 0xff] {
            let mut said = pair.said.clone();
            said[at] ^= change;
            let mut client = Client::new(Settings::default(), None, Time::ZERO);
            let mut session = None;
            for piece in said.chunks(64) {
                client.engine.handle_input(Range::copied(piece), Time::ZERO);
                while client.poll_event().is_some() {}
                client.engine.poll_transmit();
                if session.is_none() {
                    session = client.engine.begin_session();
                    session.inspect(|session| script(&mut client, *session));
                }
            }
            client.engine.handle_end_of_stream(Time::ZERO);
            while client.poll_event().is_some() {}
            assert!(client.engine.is_finished());
            assert_eq!(client.engine.link_count(), 0);
        }
    }
}
