//! The side that connects: a thin core over an engine, for the command line's tools and whatever else dials out.
//!
//! Owns: the SASL exchange, where an address becomes a source or target, URLs, management requests and replies as messages,
//! AMQP values as JSON.
//! Doesn't: read, write, look at a clock, resolve names: a shell around it does. Doesn't hide the engine: links, credit,
//! deliveries and time-outs are the engine's own methods, and what a message costs is what it costs there (nothing is
//! allocated for one here).
//! Driven by: `cli`'s connection and `load`'s peers, one mutation and then drain, as an engine is.

pub mod json;
pub mod management;
pub mod url;

use crate::engine::{Direction, Engine, Event, LinkOffer, Settings, Source, Target};
use crate::ids::{LinkHandle, LinkId, SessionNumber};
use crate::outcome::Fault;
use crate::security::Login;
use crate::time::Time;
use crate::wire::{PROTOCOL_HEADER_AMQP, PROTOCOL_HEADER_SASL};
use std::sync::Arc;

/// What an open of ours says of us.
pub const PRODUCT: &str = "ringway";

/// One connection that we open. Its engine is there for all but logging in.
pub struct Client {
    pub engine: Engine,
    /// None: no SASL layer.
    login: Option<Login>,
    hostname: Option<String>,
}

impl Client {
    /// `login`: None connects without a SASL layer. What `hostname` the settings have is told to SASL as well.
    pub fn new(settings: Settings, login: Option<Login>, now: Time) -> Client {
        let hostname = settings.hostname.clone();
        let engine = Engine::connect(Arc::new(settings), login.is_some(), now);
        Client { engine, login, hostname }
    }

    /// The next event. The SASL exchange is answered here; all others are the caller's.
    pub fn poll_event(&mut self) -> Option<Event> {
        loop {
            match self.engine.poll_event()? {
                Event::SaslMechanisms(offered) => self.log_in(&offered),
                // None of the mechanisms that are chosen here has a second step.
                Event::SaslChallenge(_) => self.give_up("the peer asked more than the SASL mechanism has"),
                event => return Some(event),
            }
        }
    }

    /// The peer turned a connection without a SASL layer down, since it wants one.
    pub fn peer_asks_for_sasl(&self) -> bool {
        self.engine.other_protocol() == Some(PROTOCOL_HEADER_SASL)
    }

    /// The peer turned a connection through a SASL layer down, since it has none.
    pub fn peer_has_no_sasl(&self) -> bool {
        self.engine.other_protocol() == Some(PROTOCOL_HEADER_AMQP)
    }

    fn log_in(&mut self, offered: &[String]) {
        match self.login.clone().unwrap_or_default().begin(offered) {
            Ok(step) => {
                self.engine.sasl_init(step.mechanism, Some(&step.initial_response), self.hostname.as_deref());
            }
            Err(error) => self.give_up(&error.to_string()),
        }
    }

    fn give_up(&mut self, why: &str) {
        self.engine.close(Some(&Fault::connection("amqp:unauthorized-access", why)));
    }

    /// Attaches a link to send on; an anonymous one where there is no address (each message then says where to).
    pub fn sender(
        &mut self,
        session: SessionNumber,
        token: LinkId,
        name: &str,
        address: Option<&str>,
    ) -> Option<LinkHandle> {
        let target = Target { address, ..Target::default() };
        self.engine.attach_link(session, token, &offer(name, Direction::Outgoing, Source::default(), target))
    }

    /// Attaches a link to receive on; from an address that the peer makes up where there is none given.
    pub fn receiver(
        &mut self,
        session: SessionNumber,
        token: LinkId,
        name: &str,
        address: Option<&str>,
    ) -> Option<LinkHandle> {
        let source = Source { address, dynamic: address.is_none(), ..Source::default() };
        self.engine.attach_link(session, token, &offer(name, Direction::Incoming, source, Target::default()))
    }
}

fn offer<'a>(name: &'a str, direction: Direction, source: Source<'a>, target: Target<'a>) -> LinkOffer<'a> {
    LinkOffer {
        name,
        direction,
        source,
        target,
        sender_settle_mode: Default::default(),
        receiver_settle_mode: Default::default(),
    }
}
