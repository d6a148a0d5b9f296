//! What requests change at run time: listeners, address rules, the log; in control and in every shard.

use super::http::{Bound, Site};
use super::management::Management;
use super::{listen, settings};
use crate::config::{AddressConfig, AddressMatch, Config, ListenerConfig, LogConfig};
use crate::dispatch::Table;
use crate::management::{Change, Deleted, Made, Response, RowChange, RowUpdate, Snapshot, Status};
use crate::memory::Memory;
use crate::routing::{AddressAttributes, AddressRule};
use crate::shard::{self, Order};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

/// Listeners that are open.
pub struct Listeners {
    router_id: String,
    memory: Arc<Memory>,
    /// Numbers of their sockets, by their identities in management; None: for HTTP, in no shard.
    numbers: HashMap<String, Option<Vec<u32>>>,
    next_number: u32,
}

impl Listeners {
    /// `sockets`: the shards', those of a listener one behind another, with the engine's settings in common.
    /// `next_number`: the first that no socket has.
    pub fn new(
        config: &Config,
        sockets: &[shard::Listener],
        next_number: u32,
        router_id: &str,
        memory: &Arc<Memory>,
    ) -> Listeners {
        let groups = sockets.chunk_by(|one, other| Arc::ptr_eq(&one.engine, &other.engine));
        let mut numbers = groups.map(|group| group.iter().map(|socket| socket.number).collect());
        // One for HTTP has none in a shard.
        let of = |listener: &ListenerConfig| match listener.http {
            true => (listener.identity(), None),
            false => (listener.identity(), numbers.next()),
        };
        Listeners {
            router_id: router_id.to_owned(),
            memory: memory.clone(),
            numbers: config.listeners.iter().map(of).collect(),
            next_number,
        }
    }
}

impl Listeners {
    /// The router's account.
    pub fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }
}

type Failure = Response;

fn failure(status: Status, text: impl std::fmt::Display) -> Failure {
    Response::error(status, text.to_string())
}

/// Whether it gives addresses marks.
pub fn has_marks(rule: &AddressRule) -> bool {
    rule.attributes.alert_count.is_some() || rule.attributes.alert_size.is_some()
}

impl Management {
    /// Makes a change; what is answered.
    pub(super) async fn change(&self, change: Change) -> Response {
        let result = match &change {
            Change::Create { entity, made: Made::Listener(listener) } => {
                self.open_listener(&entity.identity, listener).await
            }
            Change::Create { made: Made::Address(address), .. } => self.add_address(address).await,
            Change::Delete { deleted: Deleted::Listener(identity), .. } => self.close_listener(identity).await,
            Change::Delete { deleted: Deleted::Address(matches), .. } => self.remove_address(matches).await,
            Change::UpdateLog { config, .. } => self.update_log(config).await,
        };
        match result {
            Ok(()) => self.agent.borrow_mut().done(change),
            Err(failure) => failure,
        }
    }

    async fn open_listener(&self, identity: &str, listener: &ListenerConfig) -> Result<(), Failure> {
        let bad = |error: &dyn std::fmt::Display| failure(Status::BadRequest, error);
        // Looking up a host's name may take long.
        let wanted = listener.clone();
        let bound = tokio::task::spawn_blocking(move || listen::bind(&wanted)).await.map_err(|error| bad(&error))?;
        if self.listeners.borrow().numbers.contains_key(identity) {
            return Err(failure(Status::BadRequest, format!("there is a listener {identity} already")));
        }
        let sockets = bound.map_err(|error| bad(&error))?;
        if listener.http {
            let site = Rc::new(Site::new(listener));
            for socket in sockets {
                self.http.listen(Bound { socket, site: site.clone() }).map_err(|error| bad(&error))?;
            }
            self.listeners.borrow_mut().numbers.insert(identity.to_owned(), None);
            return Ok(());
        }
        let engine = {
            let listeners = self.listeners.borrow();
            Arc::new(settings::engine(listener, &listeners.router_id, &listeners.memory))
        };
        let mut numbers = Vec::new();
        for socket in sockets {
            let number = self.listeners.borrow().next_number;
            self.listeners.borrow_mut().next_number += 1;
            if let Ok(place) = socket.local_addr() {
                self.reporter.borrow_mut().listens(number, place);
            }
            numbers.push(number);
            let socket = Arc::new(socket);
            let (link_capacity, engine) = (listener.link_capacity, &engine);
            let order = || {
                let (socket, engine) = (socket.clone(), engine.clone());
                Order::AddListener(shard::Listener { number, socket, link_capacity, engine })
            };
            self.shards.order_all(order).await;
        }
        self.listeners.borrow_mut().numbers.insert(identity.to_owned(), Some(numbers));
        Ok(())
    }

    /// Its connections live on.
    async fn close_listener(&self, identity: &str) -> Result<(), Failure> {
        let numbers = self.listeners.borrow_mut().numbers.remove(identity);
        self.http.close(identity).await;
        for number in numbers.into_iter().flatten().flatten() {
            self.shards.order_all(|| Order::RemoveListener { number }).await;
            self.reporter.borrow_mut().listens_no_more(number);
        }
        Ok(())
    }

    async fn add_address(&self, address: &AddressConfig) -> Result<(), Failure> {
        let rule = settings::rule(address);
        self.rules.borrow_mut().insert(rule.clone()).map_err(|text| failure(Status::BadRequest, text))?;
        self.shards.change_all(|| shard::Change::AddRule(Box::new(rule.clone()))).await;
        if has_marks(&rule) {
            self.uses_marks.set(true);
        }
        if self.uses_marks.get() {
            self.alert_addresses(&rule).await;
        }
        Ok(())
    }

    /// Addresses that are there already keep what they had but for marks: those that this rule is for now have at once what
    /// new ones would.
    async fn alert_addresses(&self, rule: &AddressRule) {
        let snapshot = self.snapshot(&[Table::Addresses]).await;
        let marks = |attributes: &AddressAttributes| (attributes.alert_count, attributes.alert_size);
        let (count, size) = marks(&rule.attributes);
        let is_for =
            |name: &str| self.rules.borrow().find_rule(name).is_some_and(|found| found.matches == rule.matches);
        for row in snapshot.addresses.iter().filter(|row| !row.is_local && row.in_process == 0) {
            if marks(&row.attributes) != (count, size) && is_for(row.name()) {
                self.shards.change_all(|| shard::Change::SetAlerts { address: row.name().into(), count, size }).await;
            }
        }
    }

    async fn remove_address(&self, matches: &AddressMatch) -> Result<(), Failure> {
        let matches = settings::matches(matches);
        self.rules.borrow_mut().remove(&matches);
        self.shards.change_all(|| shard::Change::RemoveRule(matches.clone())).await;
        Ok(())
    }

    async fn update_log(&self, config: &LogConfig) -> Result<(), Failure> {
        let updated = self.reporter.borrow_mut().log().update(config);
        let trace = updated.map_err(|error| failure(Status::InternalError, error))?;
        if let Some(on) = trace {
            self.shards.order_all(|| Order::SetTrace(on)).await;
        }
        Ok(())
    }

    /// Changes what a row shows; the answer is the row as it is then.
    pub(super) async fn change_row(&self, change: RowChange) -> Response {
        let RowChange { read, what } = change;
        let tables = read.tables(&self.agent.borrow());
        let mut snapshot = self.snapshot(tables).await;
        if !read.narrow(&mut snapshot) {
            return match what {
                RowUpdate::Connection { .. } => failure(Status::BadRequest, Status::BadRequest.text()),
                _ => read.not_found(),
            };
        }
        let done = match what {
            RowUpdate::Connection { close, trace } => self.change_connection(&mut snapshot, close, trace).await,
            RowUpdate::Link { detach } => match snapshot.links.first() {
                Some(row) if detach => self.detach(row.number, row.routing.id).await,
                _ => true,
            },
            RowUpdate::Alerts(alerts) => match snapshot.addresses.first() {
                Some(row) => {
                    let (count, size) = alerts.of(row);
                    let address: Box<str> = row.name().into();
                    let change = || shard::Change::SetAlerts { address: address.clone(), count, size };
                    let done = self.shards.change_all(change).await;
                    if !done {
                        return failure(
                            Status::BadRequest,
                            "the lower mark isn't below the upper one, or no marks here",
                        );
                    }
                    self.uses_marks.set(true);
                    snapshot = self.snapshot(tables).await;
                    read.narrow(&mut snapshot)
                }
                None => false,
            },
        };
        match done {
            true => read.answer(&self.agent.borrow(), &snapshot),
            false => read.not_found(),
        }
    }

    async fn change_connection(&self, snapshot: &mut Snapshot, close: bool, trace: Option<bool>) -> bool {
        let Some(mut row) = snapshot.connections.first().cloned() else { return false };
        let number = row.number;
        if let Some(on) = trace {
            self.shards.change_all(|| shard::Change::TraceConnection { number, on }).await;
            row.is_traced = on;
        }
        if close {
            self.shards.change_all(|| shard::Change::CloseConnection(number)).await;
            row.facts.is_closing = true;
        }
        snapshot.connections = vec![row].into();
        true
    }

    /// A link's number says which shard has it.
    async fn detach(&self, number: u64, link: crate::ids::LinkId) -> bool {
        let shard = (number - 1) % self.shards.len() as u64;
        self.shards.change(shard as usize, shard::Change::DetachLink(link)).await
    }
}
