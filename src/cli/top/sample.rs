//! What is asked of the router for a picture, and what two pictures tell: rates.

use super::View;
use crate::cli::agent::{Agent, Entity};
use crate::cli::failure::Failure;
use crate::cli::stat::table::{get, text};
use crate::config::schema::TYPE_PREFIX;
use std::collections::HashMap;

const ROUTER: &[&str] = &[
    "id",
    "mode",
    "version",
    "uptimeSeconds",
    "memoryUsage",
    "residentMemory",
    "addrCount",
    "connectionCount",
    "linkCount",
    "deliveriesIngress",
    "deliveriesEgress",
    "deliveriesDelayed1Sec",
    "deliveriesStuck",
    "linksBlocked",
];
const ADDRESS: &[&str] = &[
    "name",
    "distribution",
    "subscriberCount",
    "deliveriesIngress",
    "deliveriesEgress",
    "depthMessages",
    "depthBytes",
    "waitingCount",
    "localInLinks",
    "localOutCapacity",
    "targetInCredit",
    "aboveCountThreshold",
    "aboveSizeThreshold",
    super::table::P50,
    super::table::P99,
];
const LINK: &[&str] = &[
    "identity",
    "linkName",
    "linkDir",
    "connectionId",
    "owningAddr",
    "deliveryCount",
    "unsettledCount",
    "undeliveredCount",
    "creditAvailable",
    "creditWindow",
    "zeroCreditSeconds",
    "deliveriesStuck",
    "acceptedCount",
    "releasedCount",
];
/// What a connection's rates need of its links.
const LINK_COUNTS: &[&str] = &["identity", "linkDir", "connectionId", "deliveryCount"];
const CONNECTION: &[&str] =
    &["identity", "container", "host", "role", "dir", "user", "uptimeSeconds", "lastDlvSeconds"];

/// What a router said at one moment.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    pub view: View,
    pub router: Entity,
    /// Entities of the view's type.
    pub entities: Vec<Entity>,
    /// Of the view of connections: their links.
    pub links: Vec<Entity>,
}

impl Sample {
    pub fn take(agent: &mut Agent, view: View) -> Result<Sample, Failure> {
        let mut query = |kind: &str, attributes: &[&str]| {
            agent.query_known(&format!("{TYPE_PREFIX}{kind}"), attributes, 0).map(|rows| rows.entities())
        };
        let router = query("router", ROUTER)?.into_iter().next().unwrap_or_default();
        let (entities, links) = match view {
            View::Addresses => (query("router.address", ADDRESS)?, Vec::new()),
            View::Links => (query("router.link", LINK)?, Vec::new()),
            View::Connections => (query("connection", CONNECTION)?, query("router.link", LINK_COUNTS)?),
        };
        Ok(Sample { view, router, entities, links })
    }
}

/// Counters of the latest sample and of the one before, and so what they grow by.
#[derive(Debug, Default)]
pub struct Rates {
    before: HashMap<String, f64>,
    now: HashMap<String, f64>,
    /// Between the two; 0: there is one sample only.
    seconds: f64,
    /// Links of each connection.
    links: HashMap<String, usize>,
}

impl Rates {
    /// Takes a sample's counters; `seconds`: since the one before.
    pub fn take(&mut self, sample: &Sample, seconds: f64) {
        self.before = std::mem::take(&mut self.now);
        self.seconds = if self.before.is_empty() { 0.0 } else { seconds };
        for name in ["deliveriesIngress", "deliveriesEgress"] {
            self.count(format!("router {name}"), &sample.router, name);
        }
        let names: &[&str] = match sample.view {
            View::Addresses => &["deliveriesIngress", "deliveriesEgress"],
            View::Links => &["deliveryCount"],
            View::Connections => &[],
        };
        for entity in &sample.entities {
            for name in names {
                self.count(key(sample.view, entity, name), entity, name);
            }
        }
        self.links.clear();
        for link in &sample.links {
            let (connection, direction) = (text(get(link, "connectionId")), text(get(link, "linkDir")));
            let count = get(link, "deliveryCount").as_f64().unwrap_or_default();
            *self.now.entry(format!("connection {connection} {direction}")).or_default() += count;
            *self.links.entry(connection).or_default() += 1;
        }
    }

    fn count(&mut self, key: String, entity: &Entity, name: &str) {
        if let Some(count) = get(entity, name).as_f64() {
            self.now.insert(key, count);
        }
    }

    fn of(&self, key: &str) -> Option<f64> {
        let (before, now) = (self.before.get(key)?, self.now.get(key)?);
        // A counter that fell: links went, and their counts with them.
        (self.seconds > 0.0).then(|| (now - before).max(0.0) / self.seconds)
    }

    /// Deliveries a second that come into the router, that leave it.
    pub fn of_router(&self) -> [Option<f64>; 2] {
        ["deliveriesIngress", "deliveriesEgress"].map(|name| self.of(&format!("router {name}")))
    }

    pub fn of_entity(&self, view: View, entity: &Entity, name: &str) -> Option<f64> {
        self.of(&key(view, entity, name))
    }

    /// Deliveries a second on a connection's links. One that has none carries nothing.
    pub fn of_connection(&self, identity: &str, direction: &str) -> Option<f64> {
        let key = format!("connection {identity} {direction}");
        match (self.seconds > 0.0, self.now.contains_key(&key)) {
            (true, false) => Some(0.0),
            _ => self.of(&key),
        }
    }

    pub fn links_of_connection(&self, identity: &str) -> usize {
        self.links.get(identity).copied().unwrap_or_default()
    }
}

fn key(view: View, entity: &Entity, name: &str) -> String {
    let identity = if view == View::Addresses { "name" } else { "identity" };
    format!("{} {name}", text(get(entity, identity)))
}
