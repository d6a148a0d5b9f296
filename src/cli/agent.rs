//! A management node, asked over one connection: a request, its reply, and queries in pages.

use super::connect::{ConnectOptions, Connection};
use super::failure::Failure;
use crate::client::management::{Reply, Request};
use crate::engine::{Event, Source};
use crate::ids::{DeliveryId, LinkHandle, LinkId, SessionNumber};
use crate::outcome::{State, StateKind};
use crate::payload::Payload;
use serde_json::{json, Map, Value};
use std::collections::HashMap;

/// Rows that are asked for at once.
pub const PAGE_ROWS: usize = 500;
/// Answers that may be under way.
const CREDIT: u32 = 10;
const SENDER: LinkId = LinkId { index: 0, generation: 0 };
const RECEIVER: LinkId = LinkId { index: 1, generation: 0 };

/// Which router's node is asked.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct Target {
    /// The router to be asked, reached through the one that we connect to
    #[arg(short = 'r', long = "router", value_name = "ROUTER-ID", conflicts_with = "edge_router")]
    pub router: Option<String>,
    /// The edge router to be asked, reached through the one that we connect to
    #[arg(short = 'd', long = "edge-router", value_name = "EDGE-ROUTER-ID")]
    pub edge_router: Option<String>,
}

impl Target {
    fn address(&self, options: &ConnectOptions) -> String {
        match (&options.bus.address, &self.router, &self.edge_router) {
            (Some(address), _, _) => address.clone(),
            (None, Some(router), _) => format!("_topo/0/{router}/$management"),
            (None, None, Some(router)) => format!("_edge/{router}/$management"),
            (None, None, None) => "$management".to_owned(),
        }
    }
}

/// What a query gives: attributes' names, and for each entity their values in that order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows {
    pub names: Vec<String>,
    pub rows: Vec<Vec<Value>>,
}

pub type Entity = Map<String, Value>;

impl Rows {
    pub fn entities(self) -> Vec<Entity> {
        let Rows { names, rows } = self;
        rows.into_iter().map(|row| names.iter().cloned().zip(row).collect()).collect()
    }
}

pub struct Agent {
    connection: Connection,
    session: SessionNumber,
    sender: LinkHandle,
    /// The peer attached it.
    has_sender: bool,
    /// The peer gave it credit at some time.
    has_credit: bool,
    address: String,
    reply_to: String,
    receiver: LinkHandle,
    next_id: u64,
    /// Attributes of types, as far as somebody asked.
    known: HashMap<String, Vec<String>>,
}

impl Agent {
    pub fn open(options: &ConnectOptions, target: &Target) -> Result<Agent, Failure> {
        let mut connection = Connection::open(options)?;
        let session = connection.client.engine.begin_session().ok_or_else(no_place)?;
        let receiver = connection.client.receiver(session, RECEIVER, "replies", None).ok_or_else(no_place)?;
        connection.client.engine.grant(receiver, CREDIT, false);
        let address = target.address(options);
        let sender = connection.client.sender(session, SENDER, "requests", Some(&address)).ok_or_else(no_place)?;
        let reply_to = String::new();
        let mut agent = Agent {
            connection,
            session,
            sender,
            has_sender: false,
            has_credit: false,
            address,
            reply_to,
            receiver,
            next_id: 1,
            known: HashMap::new(),
        };
        agent.wait_links()?;
        Ok(agent)
    }

    /// From now on another node is asked.
    pub fn turn_to(&mut self, address: &str) -> Result<(), Failure> {
        let client = &mut self.connection.client;
        client.engine.close_link(self.sender);
        let name = format!("requests-{}", self.next_id);
        self.sender = client.sender(self.session, SENDER, &name, Some(address)).ok_or_else(no_place)?;
        self.has_sender = false;
        self.has_credit = false;
        self.address = address.to_owned();
        self.wait_links()
    }

    pub fn close(self) {
        self.connection.close();
    }

    /// Reads what came and says what is due, without waiting: keeps a connection alive that rests.
    pub fn breathe(&mut self) -> Result<(), Failure> {
        self.connection.breathe()
    }

    /// Waits for the peer's ends of both links.
    fn wait_links(&mut self) -> Result<(), Failure> {
        let deadline = self.connection.deadline();
        while self.reply_to.is_empty() || !self.has_sender {
            let event = self.connection.wait_event(deadline, &format!("its end of the link to {}", self.address))?;
            self.note_credit(&event);
            if let Event::LinkAnswered { link, ref attach, .. } = event {
                self.has_sender |= link == self.sender;
                let raw = attach.source_encoded.as_deref().filter(|_| link == self.receiver);
                let source = raw.and_then(|raw| Source::decode(raw).ok());
                if let Some(address) = source.and_then(|source| source.address.map(str::to_owned)) {
                    self.reply_to = address;
                }
            }
            self.link_trouble(&event)?;
        }
        Ok(())
    }

    /// The end of a link that is still needed.
    fn link_trouble(&self, event: &Event) -> Result<(), Failure> {
        let Event::LinkEnded { link, error, .. } = event else { return Ok(()) };
        if *link != self.sender && *link != self.receiver {
            return Ok(());
        }
        let what = if *link == self.sender { self.address.as_str() } else { "replies" };
        Err(Failure::new(match error {
            Some(error) => format!("{what}: {}: {}", error.condition, error.description),
            None => format!("{what}: the peer ended the link"),
        }))
    }

    /// Sends a request and waits for its reply, whatever that says.
    pub fn ask(&mut self, request: &Request) -> Result<Reply, Failure> {
        let id = self.next_id;
        self.next_id += 1;
        let message = request.encode(&self.address, &self.reply_to, id);
        let delivery = DeliveryId { index: id as u32, generation: 0 };
        self.connection.client.engine.send(self.sender, delivery, 0, false, true, Payload::copied(&message));
        let deadline = self.connection.deadline();
        let mut arriving = Vec::new();
        loop {
            let event = self.connection.wait_event(deadline, "a reply").map_err(|failure| self.in_words(failure))?;
            self.note_credit(&event);
            self.link_trouble(&event)?;
            match event {
                Event::ReceiverDisposition { delivery: told, state, .. } if told == delivery => self.taken(state)?,
                event => {
                    let Some(message) = self.arrived(event, &mut arriving) else { continue };
                    let reply = Reply::decode(&message)
                        .map_err(|error| Failure::new(format!("the reply can't be read: {error}")))?;
                    if reply.correlation_id == Some(id) {
                        return Ok(reply);
                    }
                }
            }
        }
    }

    fn note_credit(&mut self, event: &Event) {
        if let Event::Credit { link, delivery_count, limit, .. } = event {
            self.has_credit |= *link == self.sender && limit != delivery_count;
        }
    }

    /// Without credit the request was never sent.
    fn in_words(&self, failure: Failure) -> Failure {
        let address = &self.address;
        match failure {
            Failure::Timeout(_) if !self.has_credit => {
                Failure::Timeout(format!("time-out: nobody takes requests for {address}; is there such a router?"))
            }
            Failure::Timeout(text) => Failure::Timeout(format!("{text} from {address}")),
            other => other,
        }
    }

    /// What became of the request itself.
    fn taken(&self, state: Option<State>) -> Result<(), Failure> {
        let why = match state.map(|state| state.kind) {
            Some(StateKind::Rejected) => "rejected",
            Some(StateKind::Released) => "released",
            Some(StateKind::Modified) => "undeliverable",
            _ => return Ok(()),
        };
        Err(Failure::new(format!("{}: the request was {why}; is there such a router?", self.address)))
    }

    /// Gathers a reply's frames; gives the message when it is whole.
    fn arrived(&mut self, event: Event, arriving: &mut Vec<u8>) -> Option<Vec<u8>> {
        let (wire, payload, more, settled) = match event {
            Event::Transfer(transfer) => (transfer.wire, transfer.payload, transfer.more, transfer.settled),
            Event::TransferMore { wire, payload, more, settled, .. } => (wire, payload, more, settled),
            Event::TransferAborted { .. } => {
                arriving.clear();
                return None;
            }
            _ => return None,
        };
        let engine = &mut self.connection.client.engine;
        for range in payload.ranges() {
            arriving.extend_from_slice(range.as_slice());
        }
        engine.payload_released(wire.session, payload.len());
        if more {
            return None;
        }
        if !settled {
            engine.dispose_incoming(wire, Some(State::ACCEPTED), true);
        }
        engine.grant(self.receiver, 1, false);
        Some(std::mem::take(arriving))
    }

    /// As `ask`; a status other than `expected` is a failure.
    pub fn call(&mut self, request: &Request, expected: i64) -> Result<Value, Failure> {
        let Reply { status, description, body, .. } = self.ask(request)?;
        match status {
            _ if status == expected => Ok(body),
            200..=299 => {
                Err(Failure::new(format!("the reply's status is {status}, expected was {expected}: {description}")))
            }
            _ => Err(Failure::Status { status, description }),
        }
    }

    /// As `query`, for those of the attributes that the router has: of what it doesn't know it says nothing at all.
    pub fn query_known(&mut self, entity_type: &str, attributes: &[&str], limit: usize) -> Result<Rows, Failure> {
        if !self.known.contains_key(entity_type) {
            let names = self.attributes(entity_type)?;
            self.known.insert(entity_type.to_owned(), names);
        }
        let known = &self.known[entity_type];
        let is_known = |name: &&str| known.is_empty() || known.iter().any(|known| known == name);
        let attributes: Vec<&str> = attributes.iter().copied().filter(is_known).collect();
        self.query(Some(entity_type), &attributes, limit)
    }

    /// The names of a type's attributes; none where the router has no such operation.
    fn attributes(&mut self, entity_type: &str) -> Result<Vec<String>, Failure> {
        let request = Request::to_node("GET-ATTRIBUTES").with("entityType", entity_type);
        let answer = match self.call(&request, 200) {
            Err(Failure::Status { .. }) => return Ok(Vec::new()),
            answer => answer?,
        };
        let names = answer.get(entity_type).and_then(Value::as_array);
        Ok(names.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect())
    }

    /// All entities of a type (or a limited number: 0 is no limit), in pages. Without `attributes` all that they have.
    pub fn query(&mut self, entity_type: Option<&str>, attributes: &[&str], limit: usize) -> Result<Rows, Failure> {
        let mut all = Rows::default();
        let limit = if limit == 0 { usize::MAX } else { limit };
        loop {
            let count = PAGE_ROWS.min(limit - all.rows.len());
            let mut request = Request::to_node("QUERY")
                .with("entityType", entity_type)
                .with("offset", all.rows.len())
                .with("count", count);
            request.body = json!({ "attributeNames": attributes });
            let page = page(self.call(&request, 200)?)?;
            let rows = page.rows.len();
            if all.names.is_empty() {
                all.names = page.names;
            }
            all.rows.extend(page.rows);
            if rows < count || all.rows.len() >= limit {
                return Ok(all);
            }
        }
    }
}

fn no_place() -> Failure {
    Failure::new("the peer takes no session or link of ours")
}

fn page(body: Value) -> Result<Rows, Failure> {
    let parts = || {
        let names = body.get("attributeNames")?.as_array()?;
        let names = names.iter().map(|name| name.as_str().map(str::to_owned)).collect::<Option<_>>()?;
        let rows = body.get("results")?.as_array()?;
        let rows = rows.iter().map(|row| row.as_array().cloned()).collect::<Option<_>>()?;
        Some(Rows { names, rows })
    };
    parts().ok_or_else(|| Failure::new("the reply to a query has no attributeNames and results"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_becomes_entities() {
        let rows = page(json!({"attributeNames": ["name", "n"], "results": [["a", 1], ["b", null]]})).unwrap();
        let entities = rows.entities();
        assert_eq!(Value::Object(entities[1].clone()), json!({"name": "b", "n": null}));
        for body in [json!(null), json!({"attributeNames": []}), json!({"attributeNames": [1], "results": []})] {
            assert!(page(body).is_err());
        }
    }

    #[test]
    fn a_target_has_an_address() {
        use clap::Parser;
        #[derive(Parser)]
        struct Options {
            #[command(flatten)]
            connect: ConnectOptions,
            #[command(flatten)]
            target: Target,
        }
        for (line, expected) in [
            (&[][..], "$management"),
            (&["-r", "A"], "_topo/0/A/$management"),
            (&["-d", "E"], "_edge/E/$management"),
            (&["-b", "h:1/x/y", "-r", "A"], "x/y"),
        ] {
            let options = Options::parse_from(["tool"].iter().chain(line));
            assert_eq!(options.target.address(&options.connect), expected);
        }
    }
}
