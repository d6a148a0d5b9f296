//! What rows show: for each attribute of an operational entity its type, and how a row gives its value.
//!
//! Figures of things that this router doesn't have (link routes, other routers, waypoints) are 0, or null.

use super::out::Out;
use super::query::Figures;
use super::schema::{Attribute, Type};
use crate::dispatch::{self, ConnectionRow, LinkRow, RouterRow};
use crate::routing::{self, AddressRow, Treatment};
use crate::wire::value::{Map, Value};

/// An attribute of rows of a kind. `put` writes one value.
pub struct Column<R> {
    pub attribute: Attribute,
    pub put: fn(&R, &mut Out),
}

const fn column<R>(name: &'static str, kind: Type, put: fn(&R, &mut Out), description: &'static str) -> Column<R> {
    Column { attribute: Attribute::told(name, kind, description), put }
}

/// What UPDATE may change.
const fn changed<R>(name: &'static str, kind: Type, put: fn(&R, &mut Out), description: &'static str) -> Column<R> {
    Column { attribute: Attribute::told(name, kind, description).updated(), put }
}

/// A figure that goes up and down, or only up: worth a graph.
const fn figure<R>(name: &'static str, put: fn(&R, &mut Out), description: &'static str) -> Column<R> {
    Column { attribute: Attribute::told(name, Type::Integer, description).graphed(), put }
}

/// What there is none of here.
fn none<R>(_: &R, out: &mut Out) {
    out.ulong(0);
}

fn last_delivery(row: &ConnectionRow, out: &mut Out) {
    out.or_null(row.last_delivery, |out, time| out.uint(time.as_secs() as u32));
}

fn null<R>(_: &R, out: &mut Out) {
    out.null();
}

fn treatment(treatment: Treatment) -> &'static str {
    match treatment {
        Treatment::Closest => "closest",
        Treatment::Balanced => "balanced",
        Treatment::Multicast => "multicast",
        Treatment::Unavailable => "unavailable",
    }
}

const DIRECTIONS: Type = Type::Choice(&["in", "out"]);

use Type::{Boolean, Choice, Integer, List, Text};

#[rustfmt::skip]
pub const ROUTER: &[Column<Figures>] = &[
    column("id", Text, |f, out| out.text(&f.id), "The router's own id"),
    column("mode", Choice(&["standalone", "interior", "edge"]), |f, out| out.text(f.mode), "Alone, a node of a network, or at its edge"),
    column("area", Text, |_, out| out.text("0"), "The area of the network; always 0"),
    column("version", Text, |f, out| out.text(f.version), "The version of the router"),
    column("metadata", Text, |f, out| out.or_null(f.metadata.as_deref(), Out::text), "Words about the router, of its configuration"),
    figure("addrCount", |f, out| out.ulong(f.row.addresses + f.row.served_addresses), "Addresses that somebody uses"),
    figure("linkCount", |f, out| out.ulong(f.row.links), "Attached links"),
    figure("nodeCount", none, "Other routers of the network"),
    figure("linkRouteCount", none, "Link routes"),
    figure("autoLinkCount", none, "Auto links"),
    figure("connectionCount", |f, out| out.ulong(f.row.connections), "Open connections"),
    figure("presettledDeliveries", |f, out| out.ulong(f.row.counters.presettled), "Deliveries that arrived settled"),
    figure("droppedPresettledDeliveries", |f, out| out.ulong(f.row.counters.dropped_presettled), "Of these, the ones that reached nobody"),
    figure("acceptedDeliveries", |f, out| out.ulong(f.row.counters.accepted), "Deliveries with the outcome accepted"),
    figure("rejectedDeliveries", |f, out| out.ulong(f.row.counters.rejected), "Deliveries with the outcome rejected"),
    figure("releasedDeliveries", |f, out| out.ulong(f.row.counters.released), "Deliveries with the outcome released"),
    figure("modifiedDeliveries", |f, out| out.ulong(f.row.counters.modified), "Deliveries with the outcome modified"),
    figure("deliveriesDelayed1Sec", |f, out| out.ulong(f.row.counters.delayed_1s), "Deliveries that were here for more than 1 s"),
    figure("deliveriesDelayed10Sec", |f, out| out.ulong(f.row.counters.delayed_10s), "Deliveries that were here for more than 10 s"),
    figure("deliveriesStuck", |f, out| out.ulong(f.row.counters.stuck), "Deliveries that were here for more than 10 s and not done with"),
    figure("deliveriesIngress", |f, out| out.ulong(f.row.counters.deliveries), "Deliveries from clients"),
    figure("deliveriesEgress", |f, out| out.ulong(f.row.counters.egress), "Deliveries to clients, copies of a multicast each"),
    figure("deliveriesTransit", none, "Deliveries from routers to routers"),
    figure("deliveriesIngressRouteContainer", none, "Deliveries from route containers"),
    figure("deliveriesEgressRouteContainer", none, "Deliveries to route containers"),
    figure("deliveriesRedirectedToFallback", none, "Deliveries to fallback destinations"),
    figure("linksBlocked", |f, out| out.ulong(f.links_blocked), "Links without credit for more than 10 s"),
    figure("uptimeSeconds", |f, out| out.uint(f.uptime_seconds), "Seconds since the start"),
    figure("memoryUsage", |f, out| out.or_null(f.memory_bytes, Out::ulong), "Virtual memory of the process, in bytes"),
    figure("residentMemory", |f, out| out.or_null(f.resident_bytes, Out::ulong), "Memory of the process that is in RAM, in bytes"),
    column("workerThreads", Integer, |f, out| out.int(f.worker_threads as i32), "Threads that carry messages, of its configuration"),
];

#[rustfmt::skip]
pub const ADDRESS: &[Column<AddressRow>] = &[
    column("key", Text, |row, out| out.text(&row.key), "Class and phase, then the address"),
    column("distribution", Choice(&["flood", "multicast", "closest", "balanced", "linkBalanced", "unavailable"]),
        |row, out| out.text(treatment(row.treatment)), "How consumers are chosen"),
    figure("inProcess", |row, out| out.uint(row.in_process), "Consumers in the router itself"),
    figure("subscriberCount", |row, out| out.uint(row.consumers - row.in_process), "Consumers' links"),
    figure("remoteCount", none, "Other routers with consumers"),
    figure("containerCount", none, "Route containers"),
    column("remoteHostRouters", List, |_, out| out.list::<()>([], |_, ()| {}), "Other routers with consumers, by id"),
    figure("deliveriesIngress", |row, out| out.ulong(row.counters.deliveries), "Deliveries from clients"),
    figure("deliveriesEgress", |row, out| out.ulong(row.counters.egress), "Deliveries to clients, copies of a multicast each"),
    figure("deliveriesTransit", none, "Deliveries from routers to routers"),
    figure("deliveriesToContainer", |row, out| out.ulong(if row.in_process > 0 { row.counters.egress } else { 0 }), "Deliveries to the router itself"),
    figure("deliveriesFromContainer", none, "Deliveries from the router itself"),
    figure("deliveriesEgressRouteContainer", none, "Deliveries to route containers"),
    figure("deliveriesIngressRouteContainer", none, "Deliveries from route containers"),
    column("transitOutstanding", List, null, "Outstanding deliveries by router"),
    figure("trackedDeliveries", |row, out| out.long(row.depth_messages as i64), "Deliveries that are in the router"),
    column("priority", Integer, |row, out| out.int(row.attributes.priority.map_or(-1, i32::from)), "Priority of its messages; -1: their own"),
    figure("deliveriesRedirectedToFallback", none, "Deliveries to fallback destinations"),
    figure("ingressRate", |row, out| out.uint(row.ingress_rate), "Deliveries from clients a second, over the last seconds"),
    figure("egressRate", |row, out| out.uint(row.egress_rate), "Deliveries to clients a second, over the last seconds"),
    figure("deliveriesDelayed1Sec", |row, out| out.ulong(row.counters.delayed_1s), "Deliveries that were here for more than 1 s"),
    figure("deliveriesDelayed10Sec", |row, out| out.ulong(row.counters.delayed_10s), "Deliveries that were here for more than 10 s"),
    figure("deliveriesStuck", |row, out| out.ulong(row.counters.stuck), "Deliveries that were here for more than 10 s and not done with"),
    figure("settleMicrosecondsP50", |row, out| out.ulong(row.latency.p50_microseconds), "From arrival to settlement: half of the deliveries took no longer"),
    figure("settleMicrosecondsP99", |row, out| out.ulong(row.latency.p99_microseconds), "The same: 99 % took no longer"),
    figure("settleMicrosecondsP999", |row, out| out.ulong(row.latency.p999_microseconds), "The same: 99.9 % took no longer"),
    figure("settleMicrosecondsMax", |row, out| out.ulong(row.latency.max_microseconds), "The same: the longest"),
    figure("depthMessages", |row, out| out.ulong(row.depth_messages), "Messages waiting and unsettled"),
    figure("depthBytes", |row, out| out.ulong(row.depth_bytes), "Bytes waiting and unsettled"),
    figure("waitingCount", |row, out| out.uint(row.waiting), "Messages that no consumer has room for"),
    changed("alertCountUp", Integer, |row, out| out.or_null(row.attributes.alert_count.map(|marks| marks.up), Out::ulong), "Messages: an event on reaching them"),
    changed("alertCountDown", Integer, |row, out| out.or_null(row.attributes.alert_count.map(|marks| marks.down), Out::ulong), "Messages: an event on coming down to them"),
    changed("alertSizeUp", Integer, |row, out| out.or_null(row.attributes.alert_size.map(|marks| marks.up), Out::ulong), "Bytes: an event on reaching them"),
    changed("alertSizeDown", Integer, |row, out| out.or_null(row.attributes.alert_size.map(|marks| marks.down), Out::ulong), "Bytes: an event on coming down to them"),
    column("aboveCountThreshold", Boolean, |row, out| out.boolean(row.count_alert.is_above), "alertCountUp was reached, and alertCountDown not yet"),
    column("aboveSizeThreshold", Boolean, |row, out| out.boolean(row.size_alert.is_above), "alertSizeUp was reached, and alertSizeDown not yet"),
    figure("alertsIncreasing", |row, out| out.ulong(row.count_alert.increasing + row.size_alert.increasing), "Events on reaching an upper mark"),
    figure("alertsDecreasing", |row, out| out.ulong(row.count_alert.decreasing + row.size_alert.decreasing), "Events on coming down to a lower mark"),
    figure("localInLinks", |row, out| out.uint(row.credit.local_in_links), "Senders' links here"),
    figure("idleInLinks", |row, out| out.uint(row.credit.idle_in_links), "Of these, the ones that don't send"),
    figure("localOutCapacity", |row, out| out.ulong(row.credit.local_out_capacity), "What the consumers here take, in deliveries"),
    figure("remoteInLinks", |row, out| out.uint(row.credit.remote_in_links), "Senders' links at other routers"),
    figure("remoteOutCapacity", |row, out| out.ulong(row.credit.remote_out_capacity), "What consumers at other routers take, in deliveries"),
    figure("targetInCredit", |row, out| out.uint(row.credit.target_in_credit), "What each sender that sends may have in the router"),
    figure("consumersSetAside", |row, out| out.ulong(row.credit.set_aside), "How often a multicast consumer took nothing for too long"),
];

#[rustfmt::skip]
pub const LINK: &[Column<LinkRow>] = &[
    column("linkName", Text, |row, out| out.text(&row.name), "The link's name, of its peer"),
    column("linkType", Choice(&["endpoint", "router-control", "inter-router", "edge-downlink"]), |_, out| out.text("endpoint"), "What is at the other end"),
    column("linkDir", DIRECTIONS, |row, out| out.text(row.routing.direction.word()), "in from a sender, out to a consumer"),
    column("owningAddr", Text, |row, out| out.or_null(row.routing.address.as_deref(), Out::text), "The address's key; none of an anonymous sender"),
    column("capacity", Integer, |row, out| out.uint(row.routing.capacity), "The listener's linkCapacity"),
    column("peer", Text, null, "Of a routed link: the other half"),
    figure("undeliveredCount", |row, out| out.ulong(row.routing.undelivered.into()), "Deliveries that wait for the link"),
    figure("unsettledCount", |row, out| out.ulong(row.routing.unsettled.into()), "Deliveries that aren't settled"),
    figure("deliveryCount", |row, out| out.ulong(row.routing.counters.deliveries), "Deliveries so far"),
    column("connectionId", Text, |row, out| out.text(&row.connection.to_string()), "Identity of its connection"),
    changed("adminStatus", Choice(&["enabled", "deleted"]), |_, out| out.text("enabled"), "What is wanted of it: deleted detaches it"),
    column("operStatus", Choice(&["up", "down", "quiescing", "idle"]), |_, out| out.text("up"), "What it is doing"),
    figure("presettledCount", |row, out| out.ulong(row.routing.counters.presettled), "Deliveries that were settled from the begin"),
    figure("droppedPresettledCount", |row, out| out.ulong(row.routing.counters.dropped_presettled), "Of these, the ones that reached nobody"),
    figure("acceptedCount", |row, out| out.ulong(row.routing.counters.accepted), "Deliveries with the outcome accepted"),
    figure("rejectedCount", |row, out| out.ulong(row.routing.counters.rejected), "Deliveries with the outcome rejected"),
    figure("releasedCount", |row, out| out.ulong(row.routing.counters.released), "Deliveries with the outcome released"),
    figure("modifiedCount", |row, out| out.ulong(row.routing.counters.modified), "Deliveries with the outcome modified"),
    figure("deliveriesDelayed1Sec", |row, out| out.ulong(row.routing.counters.delayed_1s), "Deliveries that were here for more than 1 s"),
    figure("deliveriesDelayed10Sec", |row, out| out.ulong(row.routing.counters.delayed_10s), "Deliveries that were here for more than 10 s"),
    figure("deliveriesStuck", |row, out| out.ulong(row.routing.counters.stuck), "Deliveries that were here for more than 10 s and not done with"),
    column("ingressHistogram", List, null, "Deliveries by the router that they came from"),
    column("priority", Integer, |_, out| out.uint(4), "Priority of a link between routers"),
    figure("settleRate", |row, out| out.uint(row.routing.settle_rate), "Settled deliveries a second, over the last seconds"),
    figure("creditAvailable", |row, out| out.uint(row.routing.credit_available), "Credit that isn't used"),
    column("zeroCreditSeconds", Integer, |row, out| out.uint(row.routing.zero_credit_seconds), "Seconds without credit"),
    figure("creditWindow", |row, out| out.or_null(row.routing.credit_window, Out::uint), "Of a sender: unused credit, and deliveries that wait or aren't settled"),
];

#[rustfmt::skip]
pub const CONNECTION: &[Column<ConnectionRow>] = &[
    column("host", Text, |row, out| out.text(&row.facts.host), "Where the peer is"),
    column("role", Text, |_, out| out.text("normal"), "The listener's role"),
    column("protocol", Text, |_, out| out.text("amqp"), "What is spoken"),
    column("dir", DIRECTIONS, |_, out| out.text("in"), "Who connected: in, the peer"),
    column("container", Text, |row, out| out.or_null(Some(&*row.facts.container), Out::text), "The peer's container id"),
    column("sasl", Text, |row, out| out.or_null(row.facts.mechanism.as_deref(), Out::text), "The SASL mechanism that was used"),
    column("isAuthenticated", Boolean, |row, out| out.boolean(row.facts.mechanism.is_some()), "It came in by SASL"),
    column("user", Text, |row, out| out.or_null(row.facts.user.as_deref(), Out::text), "Who the peer is"),
    column("isEncrypted", Boolean, |_, out| out.boolean(false), "It is over TLS"),
    column("sslProto", Text, null, "TLS version"),
    column("sslCipher", Text, null, "TLS cipher"),
    column("properties", Type::Map, properties, "Properties of the peer's open"),
    column("sslSsf", Integer, |_, out| out.long(0), "Strength of the encryption, in bits"),
    column("tenant", Text, null, "The vhost that its addresses belong to"),
    column("ssl", Boolean, |_, out| out.boolean(false), "It is over TLS"),
    column("opened", Boolean, |_, out| out.boolean(true), "It is open"),
    column("active", Boolean, |_, out| out.boolean(true), "Of an edge router's: it is the one that is used"),
    changed("adminStatus", Choice(&["enabled", "deleted"]), |row, out| out.text(admin_status(row)), "What is wanted of it: deleted closes it"),
    column("operStatus", Choice(&["up", "closing"]), |row, out| out.text(if row.facts.is_closing { "closing" } else { "up" }), "What it is doing"),
    figure("uptimeSeconds", |row, out| out.uint(row.uptime.as_secs() as u32), "Seconds since it was opened"),
    figure("lastDlvSeconds", last_delivery, "Seconds since the last delivery"),
    changed("enableProtocolTrace", Boolean, |row, out| out.boolean(row.is_traced), "Its frames are written to the log"),
];

/// What there is of one kind.
pub struct Allocated {
    /// As tools know it.
    pub kind: &'static str,
    bytes: usize,
    held: u64,
}

/// What shards have allocated of the kinds that grow with use.
pub fn allocated(row: &RouterRow) -> Vec<Allocated> {
    let of = |kind, bytes, held| Allocated { kind, bytes, held };
    vec![
        of("qdr_address_t", routing::ADDRESS_BYTES, row.addresses + row.served_addresses),
        of("qdr_link_t", routing::LINK_BYTES, row.links),
        of("qdr_delivery_t", routing::DELIVERY_BYTES, row.deliveries),
        of("qdr_connection_t", dispatch::CONNECTION_BYTES, row.connections),
    ]
}

#[rustfmt::skip]
pub const ALLOCATOR: &[Column<Allocated>] = &[
    column("typeName", Text, |row, out| out.text(row.kind), "What is allocated"),
    column("typeSize", Integer, |row, out| out.ulong(row.bytes as u64), "Bytes of one, but for what it holds in turn"),
    column("transferBatchSize", Integer, none, "How many go from and to the free ones at once; 0: there are no batches"),
    figure("localFreeListMax", none, "Free ones that a thread keeps"),
    figure("globalFreeListMax", none, "Free ones that are kept in all"),
    figure("totalAllocFromHeap", |row, out| out.ulong(row.held), "Allocated and not freed"),
    figure("totalFreeToHeap", none, "Freed so far"),
    figure("heldByThreads", |row, out| out.ulong(row.held), "In use"),
    figure("batchesRebalancedToThreads", none, "Batches to threads"),
    figure("batchesRebalancedToGlobal", none, "Batches from threads"),
];

fn admin_status(row: &ConnectionRow) -> &'static str {
    if row.facts.is_closing {
        "deleted"
    } else {
        "enabled"
    }
}

/// Keys are text here, as tools want them; values are the peer's.
fn properties(row: &ConnectionRow, out: &mut Out) {
    let map = row.facts.properties.as_deref().and_then(|raw| Map::parse(raw).ok()).unwrap_or_default();
    let mut open = out.begin();
    for (key, value) in map.iter().map_while(Result::ok) {
        let (Value::String(key) | Value::Symbol(key)) = key else { continue };
        out.text(key);
        match value {
            Value::Symbol(text) => out.text(text),
            value => out.value(&value),
        }
        open.count += 2;
    }
    out.end_map(open);
}
