//! Rows and columns of the views.

use super::format::{microseconds, seconds, short};
use super::sample::{Rates, Sample};
use super::View;
use crate::cli::agent::Entity;
use crate::cli::stat::table::{get, text};
use crate::cli::stat::views::address_parts;
use serde_json::Value;
use std::cmp::Ordering;

/// Attributes of an address: half of its deliveries, and 99 of 100, were settled within so long.
pub const P50: &str = crate::cli::stat::views::SETTLE_P50;
pub const P99: &str = crate::cli::stat::views::SETTLE_P99;

/// A column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    pub heading: &'static str,
    /// Letters; 0: what the others leave.
    pub width: u16,
    pub is_number: bool,
    /// Terminals of at least so many letters a line show it.
    pub from_width: u16,
}

const fn words(heading: &'static str, width: u16, from_width: u16) -> Column {
    Column { heading, width, is_number: false, from_width }
}

const fn figures(heading: &'static str, width: u16, from_width: u16) -> Column {
    Column { heading, width, is_number: true, from_width }
}

const ADDRESSES: &[Column] = &[
    words("ADDRESS", 0, 0),
    words("DISTRIB", 9, 100),
    figures("IN/S", 5, 0),
    figures("OUT/S", 5, 0),
    figures("SEND", 4, 0),
    figures("RECV", 4, 0),
    figures("DEPTH", 5, 0),
    figures("BYTES", 6, 100),
    figures("WAIT", 5, 0),
    figures("CREDIT", 6, 0),
    figures("SHARE", 5, 110),
    figures("P50", 5, 0),
    figures("P99", 5, 0),
    words("!", 1, 0),
];

const CONNECTIONS: &[Column] = &[
    figures("ID", 5, 0),
    words("CONTAINER", 0, 0),
    words("HOST", 21, 0),
    words("USER", 14, 100),
    words("ROLE", 12, 120),
    words("DIR", 3, 0),
    figures("LINKS", 5, 0),
    figures("IN/S", 5, 0),
    figures("OUT/S", 5, 0),
    figures("IDLE", 5, 100),
    figures("UP", 5, 0),
];

const LINKS: &[Column] = &[
    figures("ID", 5, 0),
    words("DIR", 3, 0),
    figures("CONN", 5, 0),
    words("ADDRESS", 0, 0),
    words("NAME", 24, 120),
    figures("MSG/S", 5, 0),
    figures("UNSETT", 6, 0),
    figures("UNDEL", 5, 0),
    figures("CREDIT", 6, 0),
    figures("WINDOW", 6, 100),
    figures("BLOCKD", 6, 0),
    figures("STUCK", 5, 0),
    figures("ACC", 5, 110),
    figures("REL", 5, 110),
];

pub fn columns(view: View) -> &'static [Column] {
    match view {
        View::Addresses => ADDRESSES,
        View::Connections => CONNECTIONS,
        View::Links => LINKS,
    }
}

/// The column of that heading.
pub fn column(view: View, heading: &str) -> usize {
    columns(view).iter().position(|column| column.heading == heading).unwrap_or_default()
}

/// What stands in a cell, and what it is sorted by.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    Text(String),
    Number(f64, String),
    /// Not known, or the router doesn't say.
    None,
}

impl Cell {
    pub fn shown(&self) -> &str {
        match self {
            Cell::Text(text) | Cell::Number(_, text) => text,
            Cell::None => "-",
        }
    }

    /// What isn't known comes before everything else, so last where the largest comes first.
    fn compare(&self, other: &Cell) -> Ordering {
        let rank = |cell: &Cell| match cell {
            Cell::None => 0,
            Cell::Number(..) => 1,
            Cell::Text(_) => 2,
        };
        match (self, other) {
            (Cell::Number(a, _), Cell::Number(b, _)) => a.total_cmp(b),
            (Cell::Text(a), Cell::Text(b)) => a.cmp(b),
            _ => rank(self).cmp(&rank(other)),
        }
    }
}

/// A row: as many cells as its view has columns.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    pub cells: Vec<Cell>,
    /// Something is wrong there: a threshold is exceeded, a link is blocked, deliveries are stuck.
    pub is_alarming: bool,
    /// The filter that shows its links, in the view of links.
    pub links: String,
}

fn number(value: Option<f64>) -> Cell {
    value.map_or(Cell::None, |number| Cell::Number(number, short(number)))
}

fn figure(entity: &Entity, name: &str) -> Cell {
    number(get(entity, name).as_f64())
}

/// An identity: a number as a rule, written out.
fn identity(entity: &Entity, name: &str) -> Cell {
    let text = text(get(entity, name));
    match text.parse() {
        Ok(number) => Cell::Number(number, text),
        Err(_) => Cell::Text(text),
    }
}

fn word(entity: &Entity, name: &str) -> Cell {
    match text(get(entity, name)) {
        text if text.is_empty() => Cell::None,
        text => Cell::Text(text),
    }
}

fn while_since(entity: &Entity, name: &str) -> Cell {
    get(entity, name).as_u64().map_or(Cell::None, |number| Cell::Number(number as f64, seconds(number)))
}

fn time(entity: &Entity, name: &str) -> Cell {
    get(entity, name).as_f64().map_or(Cell::None, |number| Cell::Number(number, microseconds(number)))
}

/// An address's key as people write it: class and phase only where they aren't the usual ones.
fn address_name(key: &str) -> String {
    let (class, name, phase) = address_parts(key);
    match (class.as_str(), phase) {
        ("mobile", "0") => name.to_owned(),
        ("mobile", phase) => format!("{name} :{phase}"),
        _ if name.is_empty() => "-".to_owned(),
        (class, _) => format!("{name} ({class})"),
    }
}

/// All rows of a sample, in no order.
pub fn rows(sample: &Sample, rates: &Rates) -> Vec<Row> {
    let row = |entity: &Entity| match sample.view {
        View::Addresses => address(entity, rates),
        View::Links => link(entity, rates),
        View::Connections => connection(entity, rates),
    };
    sample.entities.iter().map(row).collect()
}

fn address(address: &Entity, rates: &Rates) -> Row {
    let rate = |name| number(rates.of_entity(View::Addresses, address, name));
    let name = address_name(&text(get(address, "name")));
    let is_above = |name| get(address, name) == &Value::Bool(true);
    let is_alarming = is_above("aboveCountThreshold") || is_above("aboveSizeThreshold");
    let cells = vec![
        Cell::Text(name.clone()),
        word(address, "distribution"),
        rate("deliveriesIngress"),
        rate("deliveriesEgress"),
        figure(address, "localInLinks"),
        figure(address, "subscriberCount"),
        figure(address, "depthMessages"),
        figure(address, "depthBytes"),
        figure(address, "waitingCount"),
        figure(address, "localOutCapacity"),
        figure(address, "targetInCredit"),
        time(address, P50),
        time(address, P99),
        Cell::Text(if is_alarming { "!" } else { "" }.to_owned()),
    ];
    Row { cells, is_alarming, links: name }
}

fn link(link: &Entity, rates: &Rates) -> Row {
    let stuck = get(link, "deliveriesStuck").as_u64().unwrap_or_default();
    let blocked = get(link, "zeroCreditSeconds").as_u64().filter(|seconds| *seconds > 0);
    let address = address_name(&text(get(link, "owningAddr")));
    let cells = vec![
        identity(link, "identity"),
        word(link, "linkDir"),
        identity(link, "connectionId"),
        if address.is_empty() { Cell::None } else { Cell::Text(address.clone()) },
        word(link, "linkName"),
        number(rates.of_entity(View::Links, link, "deliveryCount")),
        figure(link, "unsettledCount"),
        figure(link, "undeliveredCount"),
        figure(link, "creditAvailable"),
        figure(link, "creditWindow"),
        blocked.map_or(Cell::None, |number| Cell::Number(number as f64, seconds(number))),
        figure(link, "deliveriesStuck"),
        figure(link, "acceptedCount"),
        figure(link, "releasedCount"),
    ];
    Row { cells, is_alarming: stuck > 0 || blocked.is_some_and(|seconds| seconds > 10), links: address }
}

fn connection(connection: &Entity, rates: &Rates) -> Row {
    let id = text(get(connection, "identity"));
    let rate = |direction| number(rates.of_connection(&id, direction));
    let cells = vec![
        identity(connection, "identity"),
        word(connection, "container"),
        word(connection, "host"),
        word(connection, "user"),
        word(connection, "role"),
        word(connection, "dir"),
        number(Some(rates.links_of_connection(&id) as f64)),
        rate("in"),
        rate("out"),
        while_since(connection, "lastDlvSeconds"),
        while_since(connection, "uptimeSeconds"),
    ];
    Row { cells, is_alarming: false, links: format!("conn={id}") }
}

/// Sorts by a column; rows that are equal there by the first one.
pub fn sort(rows: &mut [Row], column: usize, is_descending: bool) {
    rows.sort_by(|a, b| {
        let order = a.cells[column].compare(&b.cells[column]);
        let order = if is_descending { order.reverse() } else { order };
        order.then_with(|| a.cells[0].compare(&b.cells[0]))
    });
}

/// Whether a filter lets a row through: all its words are in the row's texts, whatever their case; `conn=N`: a link of
/// that connection.
pub fn passes(row: &Row, filter: &str, view: View) -> bool {
    filter.split_whitespace().all(|word| match word.strip_prefix("conn=") {
        Some(id) if view == View::Links => row.cells[column(View::Links, "CONN")].shown() == id,
        _ => {
            let word = word.to_lowercase();
            let mut texts = row.cells.iter().filter(|cell| matches!(cell, Cell::Text(_)));
            texts.any(|cell| cell.shown().to_lowercase().contains(&word))
        }
    })
}
