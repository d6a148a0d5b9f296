//! What `ringway stat` shows of each kind of entity: which attributes become which columns.

use super::table::{bytes, clock, commas, days, get, number, plain, text, Table};
use crate::cli::agent::{Entity, Rows};
use serde_json::Value;

/// Columns of ours: credit, depth, alerts, latency. A column is shown where the router has the attribute.
pub type Extra = (&'static str, &'static str);

/// Time until a delivery was settled: half of an address's were faster, 99 of 100, 999 of 1000.
pub const SETTLE_P50: &str = "settleMicrosecondsP50";
pub const SETTLE_P99: &str = "settleMicrosecondsP99";
pub const SETTLE_P999: &str = "settleMicrosecondsP999";

/// Of an address.
pub const ADDRESS_FLOW: &[Extra] = &[
    ("depth", "depthMessages"),
    ("bytes", "depthBytes"),
    ("waiting", "waitingCount"),
    ("senders", "localInLinks"),
    ("idle", "idleInLinks"),
    ("capacity", "localOutCapacity"),
    ("remote-cap", "remoteOutCapacity"),
    ("share", "targetInCredit"),
    ("above", "aboveCountThreshold"),
    ("above-size", "aboveSizeThreshold"),
    ("alerts", "alertsIncreasing"),
    ("p50-us", SETTLE_P50),
    ("p99-us", SETTLE_P99),
    ("p99.9-us", SETTLE_P999),
];
/// Of a link.
pub const LINK_FLOW: &[Extra] = &[("window", "creditWindow")];

fn extras(known: &[String], wanted: bool, flow: &[Extra]) -> Vec<Extra> {
    let is_there = |(_, attribute): &&Extra| wanted && known.iter().any(|name| name == attribute);
    flow.iter().filter(is_there).copied().collect()
}

/// An address's key, taken apart: what kind it is, its text, its phase.
pub fn address_parts(key: &str) -> (String, &str, &str) {
    let mut letters = key.char_indices();
    let Some((_, class)) = letters.next() else { return Default::default() };
    let from = |at: usize| key.get(at..).unwrap_or_default();
    let after = |count: usize| key.char_indices().nth(count).map_or("", |(at, _)| from(at));
    let name = match class {
        'M' => "mobile",
        'R' => "router",
        'A' => "area",
        'L' => "local",
        'T' => "topo",
        'C' | 'E' => "link-in",
        'D' | 'F' => "link-out",
        'H' => "edge",
        other => return (format!("unknown: {other}"), after(1), ""),
    };
    match class {
        'M' => (name.to_owned(), after(2), letters.next().map_or("", |(at, phase)| &key[at..at + phase.len_utf8()])),
        _ => (name.to_owned(), after(1), ""),
    }
}

/// Who the peer of a connection is.
fn authentication(connection: &Entity) -> String {
    if get(connection, "isAuthenticated") != &Value::Bool(true) {
        return "no-auth".to_owned();
    }
    let mechanism = match get(connection, "sasl") {
        Value::String(name) if name == "ANONYMOUS" => return "anonymous-user".to_owned(),
        Value::String(name) if name == "GSSAPI" => "Kerberos".to_owned(),
        Value::String(name) if name == "EXTERNAL" => "x.509".to_owned(),
        other => text(other),
    };
    match text(get(connection, "user")) {
        user if user.is_empty() => mechanism,
        user => format!("{user}({mechanism})"),
    }
}

fn security(connection: &Entity) -> String {
    if get(connection, "isEncrypted") != &Value::Bool(true) {
        return "no-security".to_owned();
    }
    if get(connection, "sasl") == "GSSAPI" {
        return "Kerberos".to_owned();
    }
    format!("{}({})", text(get(connection, "sslProto")), text(get(connection, "sslCipher")))
}

fn tenant(connection: &Entity) -> String {
    let tenant = text(get(connection, "tenant"));
    tenant.strip_suffix('/').unwrap_or(&tenant).to_owned()
}

pub fn connections(rows: Rows) -> Table {
    let has = |name: &str| rows.names.iter().any(|known| known == name);
    let (has_last_delivery, has_uptime) = (has("lastDlvSeconds"), has("uptimeSeconds"));
    let mut headings = vec!["id", "host", "container", "role", "proto", "dir", "security", "authentication", "tenant"];
    headings.extend(has_last_delivery.then_some("last dlv"));
    headings.extend(has_uptime.then_some("uptime"));
    let mut table = Table::new("Connections", &headings);
    for connection in rows.entities() {
        let cell = |name| text(get(&connection, name));
        let mut row =
            vec![cell("identity"), cell("host"), cell("container"), cell("role"), cell("protocol"), cell("dir")];
        row.extend([security(&connection), authentication(&connection), tenant(&connection)]);
        if has_last_delivery {
            row.push(match get(&connection, "lastDlvSeconds") {
                Value::Null => "-".to_owned(),
                seconds => days(seconds),
            });
        }
        if has_uptime {
            row.push(days(get(&connection, "uptimeSeconds")));
        }
        table.rows.push(row);
    }
    table
}

/// None: no connection is an edge router's.
pub fn edges(rows: Rows) -> Option<Table> {
    let has_active = rows.names.iter().any(|known| known == "active");
    let mut headings = vec!["id", "host", "container", "role", "dir", "security", "authentication", "tenant"];
    headings.extend(has_active.then_some("active"));
    let mut table = Table::new("Connections", &headings);
    for connection in rows.entities().iter().filter(|connection| get(connection, "role") == "edge") {
        let cell = |name| text(get(connection, name));
        let mut row = vec![cell("identity"), cell("host"), cell("container"), cell("role"), cell("dir")];
        row.extend([security(connection), authentication(connection), tenant(connection)]);
        if has_active {
            let is_active = get(connection, "active") == &Value::Bool(true);
            row.push(if is_active { "yes" } else { "no" }.to_owned());
        }
        table.rows.push(row);
    }
    (!table.rows.is_empty()).then_some(table)
}

pub const LINK_ATTRIBUTES: &[&str] = &[
    "linkType",
    "linkDir",
    "connectionId",
    "identity",
    "peer",
    "owningAddr",
    "capacity",
    "undeliveredCount",
    "unsettledCount",
    "deliveryCount",
    "presettledCount",
    "droppedPresettledCount",
    "acceptedCount",
    "rejectedCount",
    "releasedCount",
    "modifiedCount",
    "deliveriesDelayed1Sec",
    "deliveriesDelayed10Sec",
    "deliveriesStuck",
    "creditAvailable",
    "zeroCreditSeconds",
    "adminStatus",
    "operStatus",
    "linkName",
    "priority",
    "settleRate",
];

/// Columns that say one attribute each, behind a link's first ones.
const LINK_COUNTERS: &[Extra] = &[
    ("undel", "undeliveredCount"),
    ("unsett", "unsettledCount"),
    ("deliv", "deliveryCount"),
    ("presett", "presettledCount"),
    ("psdrop", "droppedPresettledCount"),
    ("acc", "acceptedCount"),
    ("rej", "rejectedCount"),
    ("rel", "releasedCount"),
    ("mod", "modifiedCount"),
];

pub fn links(rows: Rows, verbose: bool, flow: bool) -> Table {
    let mut headings = vec!["type", "dir", "conn id", "id", "peer", "class", "addr", "phs", "cap", "pri"];
    headings.extend(LINK_COUNTERS.iter().map(|(heading, _)| *heading));
    headings.extend(["delay", "rate", "stuck", "cred", "blkd"]);
    if verbose {
        headings.extend(["admin", "oper", "name"]);
    }
    let extras = extras(&rows.names, flow, LINK_FLOW);
    headings.extend(extras.iter().map(|(heading, _)| *heading));
    let mut table = Table::new("Router Links", &headings);
    for link in rows.entities() {
        let cell = |name| text(get(&link, name));
        let count = |name| number(get(&link, name));
        let key = cell("owningAddr");
        let (class, address, phase) = address_parts(&key);
        let mut row = vec![cell("linkType"), cell("linkDir"), cell("connectionId"), cell("identity"), cell("peer")];
        row.extend([class, address.to_owned(), phase.to_owned(), count("capacity"), count("priority")]);
        row.extend(LINK_COUNTERS.iter().map(|(_, attribute)| count(attribute)));
        let delayed = |name| get(&link, name).as_u64().unwrap_or_default();
        row.push(delayed("deliveriesDelayed1Sec").saturating_add(delayed("deliveriesDelayed10Sec")).to_string());
        row.extend([count("settleRate"), count("deliveriesStuck"), count("creditAvailable")]);
        row.push(match get(&link, "zeroCreditSeconds").as_u64() {
            None | Some(0) => "-".to_owned(),
            Some(seconds) => clock(seconds),
        });
        if verbose {
            row.extend([cell("adminStatus"), cell("operStatus"), cell("linkName")]);
        }
        row.extend(extras.iter().map(|(_, attribute)| count(attribute)));
        table.rows.push(row);
    }
    table
}

/// None: the router is alone. `topology_changed`: the latest change as seconds since 1970.
pub fn nodes(rows: Rows, verbose: bool) -> (Option<Table>, f64) {
    let mut headings = vec!["router-id", "next-hop", "link"];
    if verbose {
        headings.extend(["ver", "cost", "neighbors", "valid-origins"]);
    }
    let mut table = Table::new("Routers in the Network", &headings);
    let mut topology_changed = 0f64;
    for node in rows.entities() {
        topology_changed = topology_changed.max(get(&node, "lastTopoChange").as_f64().unwrap_or_default());
        let mut row = vec![text(get(&node, "id"))];
        row.extend(match get(&node, "nextHop") {
            Value::Null => ["-".to_owned(), plain(get(&node, "routerLink"))],
            hop => [text(hop), "-".to_owned()],
        });
        if verbose {
            let cost = get(&node, "cost");
            let cost = if cost.is_null() || cost == &Value::from(0) { String::new() } else { plain(cost) };
            row.extend([plain(get(&node, "protocolVersion")), cost]);
            row.extend([list(get(&node, "linkState")), list(get(&node, "validOrigins"))]);
        }
        table.rows.push(row);
    }
    ((!table.rows.is_empty()).then(|| table.sort_by("router-id")), topology_changed)
}

fn list(value: &Value) -> String {
    if value.is_null() {
        "[]".to_owned()
    } else {
        text(value)
    }
}

pub const ADDRESS_ATTRIBUTES: &[&str] = &[
    "distribution",
    "inProcess",
    "subscriberCount",
    "remoteCount",
    "containerCount",
    "deliveriesIngress",
    "deliveriesEgress",
    "deliveriesRedirectedToFallback",
    "deliveriesTransit",
    "deliveriesToContainer",
    "deliveriesFromContainer",
    "name",
    "priority",
];

pub fn addresses(rows: Rows, verbose: bool, flow: bool) -> Table {
    let has_priority = rows.names.iter().any(|known| known == "priority");
    let mut headings = vec!["class", "addr", "phs", "distrib"];
    headings.extend(has_priority.then_some("pri"));
    headings.extend(verbose.then_some("in-proc"));
    headings.extend(["local", "remote", "in", "out", "thru", "fallback"]);
    if verbose {
        headings.extend(["to-proc", "from-proc"]);
    }
    let extras = extras(&rows.names, flow, ADDRESS_FLOW);
    headings.extend(extras.iter().map(|(heading, _)| *heading));
    let mut table = Table::new("Router Addresses", &headings);
    for address in rows.entities() {
        let count = |name| commas(get(&address, name));
        let key = text(get(&address, "name"));
        let (class, name, phase) = address_parts(&key);
        let mut row = vec![class, name.to_owned(), phase.to_owned(), text(get(&address, "distribution"))];
        if has_priority {
            let priority = get(&address, "priority").as_i64().filter(|priority| *priority >= 0);
            row.push(priority.map_or("-".to_owned(), |priority| priority.to_string()));
        }
        row.extend(verbose.then(|| count("inProcess")));
        let is_link_route = key.starts_with(['C', 'D', 'E', 'F']);
        row.push(count(if is_link_route { "containerCount" } else { "subscriberCount" }));
        row.extend(["remoteCount", "deliveriesIngress", "deliveriesEgress", "deliveriesTransit"].map(count));
        row.push(match get(&address, "deliveriesRedirectedToFallback") {
            Value::Null => "-".to_owned(),
            number => commas(number),
        });
        if verbose {
            row.extend(["deliveriesToContainer", "deliveriesFromContainer"].map(count));
        }
        row.extend(extras.iter().map(|(_, attribute)| flow_cell(get(&address, attribute))));
        table.rows.push(row);
    }
    table.sort_by("addr")
}

fn flow_cell(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::Number(_) => commas(value),
        Value::Bool(is_set) => if *is_set { "yes" } else { "no" }.to_owned(),
        other => text(other),
    }
}

pub const AUTOLINK_ATTRIBUTES: &[&str] =
    &["address", "direction", "phase", "externalAddress", "linkRef", "operStatus", "lastError"];

pub fn autolinks(rows: Rows) -> Table {
    let mut table = Table::new("AutoLinks", &["addr", "dir", "phs", "extAddr", "link", "status", "lastErr"]);
    for link in rows.entities() {
        let cell = |name| text(get(&link, name));
        let mut row = vec![cell("address"), cell("direction"), plain(get(&link, "phase"))];
        row.extend(["externalAddress", "linkRef", "operStatus", "lastError"].map(cell));
        table.rows.push(row);
    }
    table.sort_by("addr")
}

pub const LINK_ROUTE_ATTRIBUTES: &[&str] =
    &["prefix", "direction", "distribution", "operStatus", "pattern", "addExternalPrefix", "delExternalPrefix"];

pub fn link_routes(rows: Rows) -> Table {
    let mut table = Table::new("Link Routes", &["address", "dir", "distrib", "status"]);
    let routes = rows.entities();
    let is_set = |route: &Entity, name| !text(get(route, name)).is_empty();
    let renames = |route: &Entity| is_set(route, "addExternalPrefix") || is_set(route, "delExternalPrefix");
    if routes.iter().any(renames) {
        table.headings.extend(["add-ext-prefix", "del-ext-prefix"]);
    }
    for route in routes {
        let address = if is_set(&route, "prefix") { "prefix" } else { "pattern" };
        let names = [address, "direction", "distribution", "operStatus", "addExternalPrefix", "delExternalPrefix"];
        let cells = names.map(|name| text(get(&route, name)));
        table.rows.push(cells.into_iter().take(table.headings.len()).collect());
    }
    table.sort_by("address")
}

/// Rows of the general statistics: their names, their attributes.
const GENERAL_COUNTS: &[Extra] = &[
    ("Link Routes", "linkRouteCount"),
    ("Auto Links", "autoLinkCount"),
    ("Links", "linkCount"),
    ("Nodes", "nodeCount"),
    ("Addresses", "addrCount"),
    ("Connections", "connectionCount"),
];
/// As above; of those a router may lack.
const GENERAL_DELIVERIES: &[Extra] = &[
    ("Presettled Count", "presettledDeliveries"),
    ("Dropped Presettled Count", "droppedPresettledDeliveries"),
    ("Accepted Count", "acceptedDeliveries"),
    ("Rejected Count", "rejectedDeliveries"),
    ("Released Count", "releasedDeliveries"),
    ("Modified Count", "modifiedDeliveries"),
    ("Deliveries Delayed > 1sec", "deliveriesDelayed1Sec"),
    ("Deliveries Delayed > 10sec", "deliveriesDelayed10Sec"),
    ("Deliveries Stuck > 10sec", "deliveriesStuck"),
    ("Deliveries to Fallback", "deliveriesRedirectedToFallback"),
    ("Links Blocked", "linksBlocked"),
    ("Ingress Count", "deliveriesIngress"),
    ("Egress Count", "deliveriesEgress"),
    ("Transit Count", "deliveriesTransit"),
    ("Deliveries from Route Container", "deliveriesIngressRouteContainer"),
    ("Deliveries to Route Container", "deliveriesEgressRouteContainer"),
];

pub fn general(router: &Entity) -> Table {
    let mut table = Table::new("Router Statistics", &["attr", "value"]);
    let mut add = |name: &str, value: String| table.rows.push(vec![name.to_owned(), value]);
    add("Version", text(get(router, "version")));
    add("Mode", text(get(router, "mode")));
    add("Router Id", text(get(router, "id")));
    if router.contains_key("workerThreads") {
        add("Worker Threads", plain(get(router, "workerThreads")));
    }
    if router.contains_key("uptimeSeconds") {
        add("Uptime", days(get(router, "uptimeSeconds")));
    }
    if get(router, "memoryUsage").as_u64().is_some_and(|bytes| bytes > 0) {
        add("VmSize", bytes(get(router, "memoryUsage")));
    }
    add("Area", text(get(router, "area")));
    for (name, attribute) in GENERAL_COUNTS {
        add(name, plain(get(router, attribute)));
    }
    for (name, attribute) in GENERAL_DELIVERIES.iter().filter(|(_, attribute)| router.contains_key(*attribute)) {
        add(name, plain(get(router, attribute)));
    }
    table
}

pub const MEMORY_ATTRIBUTES: &[&str] = &[
    "identity",
    "typeSize",
    "transferBatchSize",
    "localFreeListMax",
    "totalAllocFromHeap",
    "heldByThreads",
    "batchesRebalancedToThreads",
    "batchesRebalancedToGlobal",
];

/// None: the router has no pools, or doesn't count them. `process_bytes`: the router's memoryUsage.
pub fn memory(rows: Rows, process_bytes: &Value) -> Option<[Table; 2]> {
    let headings = ["type", "size", "batch", "thread-max", "total", "in-threads", "rebal-in", "rebal-out"];
    let mut table = Table::new("Memory Pools", &headings);
    let mut pooled = 0u64;
    for pool in rows.entities() {
        let total = get(&pool, "totalAllocFromHeap").as_u64()?;
        let size = get(&pool, "typeSize").as_u64().unwrap_or_default();
        pooled = pooled.saturating_add(size.saturating_mul(total));
        let identity = text(get(&pool, "identity"));
        let name = identity.split_once('/').map_or(identity.as_str(), |(_, name)| name);
        let mut row = vec![if name.is_empty() { "-" } else { name }.to_owned()];
        row.push(commas(get(&pool, "typeSize")));
        row.push(plain(get(&pool, "transferBatchSize")));
        row.extend(MEMORY_ATTRIBUTES[3..].iter().map(|name| commas(get(&pool, name))));
        table.rows.push(row);
    }
    if table.rows.is_empty() {
        return None;
    }
    let mut summary = Table::new("\nMemory Summary", &["VmSize", "Pooled"]);
    let process = if process_bytes.is_null() { "-".to_owned() } else { bytes(process_bytes) };
    summary.rows.push(vec![process, bytes(&pooled.into())]);
    Some([table.sort_by("type"), summary])
}

#[cfg(test)]
#[path = "views_tests.rs"]
mod tests;
