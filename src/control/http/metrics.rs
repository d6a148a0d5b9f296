//! What `/metrics` says: the shards' figures in Prometheus' text form.
//!
//! However many ask, shards are asked at most once a second, and by pages. The names that begin with `qdr_` are
//! `qdrouterd`'s, for dashboards that know them; the others are this router's own.

use super::process::Process;
use super::text::{self, Kind, Seconds, Text};
use crate::dispatch::RouterRow;
use crate::routing::{AddressRow, Spread, Unit, SPREAD_BOUNDS_MICROSECONDS};
use Kind::{Counter, Gauge, Histogram, Summary, Untyped};

/// Addresses that are shown one by one, and what their names may take in all samples; of more, the first ones by name. A scrape
/// stays below some megabytes so.
const ADDRESSES_MAX: usize = 5000;
const NAMES_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Samples of each unit that has marks, and of an address that had a delivery.
const ALERT_SAMPLES: usize = 3;
const LATENCY_SAMPLES: usize = 5;

/// Everything that is shown.
pub struct Figures<'a> {
    pub router: &'a RouterRow,
    pub links_blocked: u64,
    pub addresses: &'a [AddressRow],
    pub process: Process,
}

/// A family of numbers of addresses: its name behind `ringway_address_`, its kind, its help, the number.
type AddressFamily = (&'static str, Kind, &'static str, fn(&AddressRow) -> u64);

const ADDRESS_FAMILIES: &[AddressFamily] = &[
    ("senders", Gauge, "Links that send to the address.", |row| row.senders.into()),
    ("consumers", Gauge, "Links that receive from the address.", |row| row.consumers.into()),
    ("ingress_total", Counter, "Deliveries that arrived for the address.", |row| row.counters.deliveries),
    ("egress_total", Counter, "Deliveries to consumers, copies of a multicast message each.", |row| {
        row.counters.egress
    }),
    ("accepted_total", Counter, "Deliveries with the outcome accepted.", |row| row.counters.accepted),
    ("rejected_total", Counter, "Deliveries with the outcome rejected.", |row| row.counters.rejected),
    ("released_total", Counter, "Deliveries with the outcome released.", |row| row.counters.released),
    ("modified_total", Counter, "Deliveries with the outcome modified.", |row| row.counters.modified),
    ("dropped_presettled_total", Counter, "Presettled deliveries that reached nobody.", |row| {
        row.counters.dropped_presettled
    }),
    ("missed_total", Counter, "Copies of multicast messages that a consumer had no room for.", |row| {
        row.counters.missed
    }),
    ("delayed_1sec_total", Counter, "Deliveries that took from one second to ten.", |row| row.counters.delayed_1s),
    ("delayed_10sec_total", Counter, "Deliveries that took ten seconds or longer.", |row| row.counters.delayed_10s),
    ("stuck_total", Counter, "Deliveries that were in the router for ten seconds.", |row| row.counters.stuck),
    ("depth_messages", Gauge, "Deliveries in the router, waiting and unsettled.", |row| row.depth_messages),
    ("depth_bytes", Gauge, "Payload bytes of the deliveries in the router.", |row| row.depth_bytes),
    ("waiting_messages", Gauge, "Deliveries that wait for a consumer with credit.", |row| row.waiting.into()),
    ("in_links", Gauge, "Senders that share the consumers' capacity.", |row| row.credit.local_in_links.into()),
    ("idle_in_links", Gauge, "Senders that used no credit lately.", |row| row.credit.idle_in_links.into()),
    ("out_capacity", Gauge, "Deliveries that the consumers take at the same time.", |row| {
        row.credit.local_out_capacity
    }),
    ("target_in_credit", Gauge, "Deliveries that each active sender may have in the router.", |row| {
        row.credit.target_in_credit.into()
    }),
    ("set_aside_total", Counter, "Multicast consumers set aside for want of credit.", |row| row.credit.set_aside),
];

/// All of it, as text.
pub fn text(figures: &Figures<'_>) -> String {
    let mut text = Text::default();
    peers_names(&mut text, figures);
    own_names(&mut text, figures.router);
    figures.process.write(&mut text);
    addresses(&mut text, figures.addresses);
    text.finish()
}

/// `qdrouterd`'s names. There are no links to other routers or route containers, no fallback and no other routers yet, so
/// what counts these is 0.
fn peers_names(text: &mut Text, figures: &Figures<'_>) {
    let (router, counters) = (figures.router, &figures.router.counters);
    // They may fall, whatever their names say.
    let states: [(&str, &str, u64); 8] = [
        ("connections", "Open connections.", router.connections),
        ("links", "Attached links.", router.links),
        ("addresses", "Addresses in use.", router.addresses),
        ("routers", "Other routers in the network.", 0),
        ("link_routes", "Active link routes.", 0),
        ("auto_links", "Active autolinks.", 0),
        ("deliveries_stuck", "Deliveries that were in the router for ten seconds.", counters.stuck),
        ("links_blocked", "Links without credit for ten seconds or longer.", figures.links_blocked),
    ];
    for (name, help, value) in states {
        text.single(&format!("qdr_{name}_total"), Untyped, help, value);
    }
    let counts: [(&str, &str, u64); 14] = [
        ("presettled_deliveries", "Deliveries that arrived settled.", counters.presettled),
        ("dropped_presettled_deliveries", "Presettled deliveries that reached nobody.", counters.dropped_presettled),
        ("accepted_deliveries", "Deliveries with the outcome accepted.", counters.accepted),
        ("released_deliveries", "Deliveries with the outcome released.", counters.released),
        ("rejected_deliveries", "Deliveries with the outcome rejected.", counters.rejected),
        ("modified_deliveries", "Deliveries with the outcome modified.", counters.modified),
        ("deliveries_ingress", "Deliveries from clients.", counters.deliveries),
        ("deliveries_egress", "Deliveries to clients.", counters.egress),
        ("deliveries_transit", "Deliveries to other routers.", 0),
        ("deliveries_ingress_route_container", "Deliveries from route containers.", 0),
        ("deliveries_egress_route_container", "Deliveries to route containers.", 0),
        ("deliveries_delayed_1sec", "Deliveries that took from one second to ten.", counters.delayed_1s),
        ("deliveries_delayed_10sec", "Deliveries that took ten seconds or longer.", counters.delayed_10s),
        ("deliveries_redirected_to_fallback", "Deliveries that went to a fallback address.", 0),
    ];
    for (name, help, value) in counts {
        text.single(&format!("qdr_{name}_total"), Counter, help, value);
    }
}

fn own_names(text: &mut Text, router: &RouterRow) {
    text.family("ringway_build_info", Gauge, "Always 1; the labels say what runs.");
    text.sample("ringway_build_info", &[("version", env!("CARGO_PKG_VERSION"))], 1);
    text.single("ringway_deliveries", Gauge, "Deliveries in the router, copies each.", router.deliveries);
    text.single("ringway_threshold_edges_total", Counter, "Threshold events of all addresses.", router.edges);
    text.single(
        "ringway_missed_deliveries_total",
        Counter,
        "Copies of multicast messages that a consumer had no room for.",
        router.counters.missed,
    );
    spread(text, &router.spread);
}

fn spread(text: &mut Text, spread: &Spread) {
    let name = "ringway_settle_seconds";
    text.family(name, Histogram, "Time from a delivery's arrival to its settlement, of all addresses.");
    let bucket = format!("{name}_bucket");
    let mut sum = 0;
    for (bound, count) in SPREAD_BOUNDS_MICROSECONDS.iter().zip(spread.counts) {
        sum += count;
        text.sample(&bucket, &[("le", &Seconds(bound * 1000).to_string())], sum);
    }
    let count: u64 = spread.counts.iter().sum();
    text.sample(&bucket, &[("le", "+Inf")], count);
    text.sample(&format!("{name}_sum"), &[], Seconds(spread.sum_nanoseconds));
    text.sample(&format!("{name}_count"), &[], count);
}

/// Addresses that clients share, in the order of their names.
fn addresses(text: &mut Text, rows: &[AddressRow]) {
    let mut rows: Vec<&AddressRow> = rows.iter().filter(|row| !row.is_local).collect();
    rows.sort_unstable_by(|one, other| one.name().cmp(other.name()));
    let shown = shown(&rows);
    let left_out = rows.len() - shown;
    rows.truncate(shown);
    text.single("ringway_addresses_left_out", Gauge, "Addresses that are too many to be shown below.", left_out);
    for (name, kind, help, number) in ADDRESS_FAMILIES {
        let name = format!("ringway_address_{name}");
        text.family(&name, *kind, help);
        for row in &rows {
            text.sample(&name, &[("address", row.name())], number(row));
        }
    }
    alerts(text, &rows);
    latencies(text, &rows);
}

/// How many of these there is room for.
fn shown(rows: &[&AddressRow]) -> usize {
    let mut room = NAMES_BYTES_MAX;
    let has_room = |row: &&&AddressRow| {
        let left = room.checked_sub(names_bytes(row));
        room = left.unwrap_or(0);
        left.is_some()
    };
    rows.iter().take(ADDRESSES_MAX).take_while(has_room).count()
}

/// What an address's name takes in its samples.
fn names_bytes(row: &AddressRow) -> usize {
    let marks = usize::from(row.attributes.alert_count.is_some()) + usize::from(row.attributes.alert_size.is_some());
    let latencies = if row.latency.count > 0 { LATENCY_SAMPLES } else { 0 };
    (ADDRESS_FAMILIES.len() + ALERT_SAMPLES * marks + latencies) * text::escaped_bytes(row.name())
}

/// Of the addresses that have marks.
fn alerts(text: &mut Text, rows: &[&AddressRow]) {
    let units = [Unit::Messages, Unit::Bytes];
    let of = |row: &AddressRow, unit| match unit {
        Unit::Messages => ("messages", row.count_alert, row.attributes.alert_count),
        Unit::Bytes => ("bytes", row.size_alert, row.attributes.alert_size),
    };
    let name = "ringway_address_above_threshold";
    text.family(name, Gauge, "1 from the increasing threshold event to the decreasing one.");
    for row in rows {
        for (unit, alert, marks) in units.map(|unit| of(row, unit)) {
            if marks.is_some() {
                text.sample(name, &[("address", row.name()), ("unit", unit)], u8::from(alert.is_above));
            }
        }
    }
    let name = "ringway_address_threshold_edges_total";
    text.family(name, Counter, "Threshold events of the address.");
    for row in rows {
        for (unit, alert, marks) in units.map(|unit| of(row, unit)) {
            if marks.is_some() {
                for (edge, count) in [("increasing", alert.increasing), ("decreasing", alert.decreasing)] {
                    text.sample(name, &[("address", row.name()), ("unit", unit), ("edge", edge)], count);
                }
            }
        }
    }
}

/// Of the addresses that had a delivery.
fn latencies(text: &mut Text, rows: &[&AddressRow]) {
    let name = "ringway_address_settle_seconds";
    text.family(name, Summary, "Time from a delivery's arrival to its settlement; quantiles of the last minutes.");
    let (sum, count) = (format!("{name}_sum"), format!("{name}_count"));
    for row in rows.iter().filter(|row| row.latency.count > 0) {
        let (address, latency) = (("address", row.name()), &row.latency);
        let quantiles = [
            ("0.5", latency.p50_microseconds),
            ("0.99", latency.p99_microseconds),
            ("0.999", latency.p999_microseconds),
        ];
        for (quantile, microseconds) in quantiles {
            let value = Seconds(microseconds.saturating_mul(1000));
            text.sample(name, &[address, ("quantile", quantile)], value);
        }
        text.sample(&sum, &[address], Seconds(latency.sum_nanoseconds));
        text.sample(&count, &[address], latency.count);
    }
}
