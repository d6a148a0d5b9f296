//! What shards tell, in the words of the log. Tools match these lines: their beginnings are `qdrouterd`'s.

use super::log::Log;
use crate::dispatch;
use crate::engine::RemoteError;
use crate::ids::LinkId;
use crate::link::Direction;
use crate::log::{Level, Module};
use crate::memory::Memory;
use crate::routing::{Edge, Unit};
use crate::shard::Report;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::SocketAddr;

/// Connections whose peer is remembered, from accept to close; beyond it the oldest are forgotten. (A shard drops
/// reports rather than wait, so a close may never be heard of.)
const CONNECTIONS_MAX: usize = 100_000;

pub struct Reporter {
    log: Log,
    /// Where each listener that is open listens, by its number.
    places: BTreeMap<u32, SocketAddr>,
    connections: BTreeMap<u64, Connection>,
}

#[derive(Default)]
struct Connection {
    peer: Option<SocketAddr>,
    mechanism: Option<String>,
    user: Option<String>,
}

/// A value or, where there is none, what stands for it.
struct Or<'a, T>(&'a Option<T>, &'static str);

impl<T: fmt::Display> fmt::Display for Or<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(value) => value.fmt(f),
            None => f.write_str(self.1),
        }
    }
}

/// The peer's product and version, as far as its open has them.
struct Properties<'a>(&'a Option<String>, &'a Option<String>);

impl fmt::Display for Properties<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut map = f.debug_map();
        for (key, value) in [("product", self.0), ("version", self.1)] {
            if let Some(value) = value {
                map.entry(&format_args!(":{key}"), value);
            }
        }
        map.finish()
    }
}

struct Ended<'a>(&'a Option<Box<RemoteError>>);

impl fmt::Display for Ended<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(error) => write!(f, ": {}: {}", error.condition, error.description),
            None => Ok(()),
        }
    }
}

impl Reporter {
    pub fn new(log: Log, places: Vec<SocketAddr>) -> Reporter {
        let places = (0..).zip(places).collect();
        Reporter { log, places, connections: BTreeMap::new() }
    }

    #[track_caller]
    fn line(&mut self, module: Module, level: Level, text: fmt::Arguments<'_>) {
        self.log.write(module, level, text);
    }

    /// A listener that was opened since the start.
    pub fn listens(&mut self, number: u32, place: SocketAddr) {
        self.places.insert(number, place);
        self.line(Module::Server, Level::Notice, format_args!("Listening on {place}"));
    }

    /// A listener that accepts no more.
    pub fn listens_no_more(&mut self, number: u32) {
        self.places.remove(&number);
    }

    pub fn log(&mut self) -> &mut Log {
        &mut self.log
    }

    pub fn report(&mut self, report: Report) {
        match report {
            Report::ConnectionAccepted { connection, listener, peer } => self.accepted(connection, listener, peer),
            Report::Served(report) => self.served(report),
            Report::ThresholdCrossed { address, edge } => self.threshold(&address, &edge),
            Report::AcceptPaused { listener, errno } => self.accept_paused(listener, errno),
            Report::Counters { shard, counters } => {
                self.line(Module::Server, Level::Info, format_args!("Shard {}: {counters:?}", shard.0))
            }
            // Management's, not the log's.
            Report::Request(_) | Report::Done { .. } | Report::Stopped { .. } => {}
        }
    }

    fn served(&mut self, report: dispatch::Report) {
        use dispatch::Report;
        match report {
            Report::Authenticated { connection, mechanism, user, accepted } => {
                self.authenticated(connection, mechanism, user, accepted)
            }
            Report::ConnectionOpened { connection, container_id, hostname, product, version } => {
                self.opened(connection, &container_id, &hostname, Properties(&product, &version))
            }
            Report::ConnectionClosed { connection, error } => {
                self.connections.remove(&connection);
                let level = if error.is_some() { Level::Info } else { Level::Debug };
                self.line(Module::Server, level, format_args!("[C{connection}] Connection Closed{}", Ended(&error)));
            }
            Report::LinkAttached { connection, link, name, address, direction } => {
                self.attached(connection, link, &name, &address, direction)
            }
            Report::LinkRefused { connection, name, address, direction, condition } => self.line(
                Module::RouterCore,
                Level::Info,
                format_args!(
                    "[C{connection}] Link refused: dir={} address={} name={name}: {condition}",
                    direction.word(),
                    Or(&address, "<none>"),
                ),
            ),
            Report::LinkDetached { connection, link, error } => self.line(
                Module::RouterCore,
                Level::Info,
                format_args!("[C{connection}][L{}] Link detached{}", link_number(link), Ended(&error)),
            ),
            Report::LinkBlocked { connection, link, seconds } => self.line(
                Module::RouterCore,
                Level::Info,
                format_args!(
                    "[C{connection}][L{}] Link blocked with zero credit for {seconds} seconds",
                    link_number(link)
                ),
            ),
            Report::LinkStuck { connection, link } => self.line(
                Module::RouterCore,
                Level::Info,
                format_args!(
                    "[C{connection}][L{}] Stuck delivery: At least one delivery on this link has been \
                     undelivered/unsettled for more than 10 seconds",
                    link_number(link)
                ),
            ),
            Report::Trace { connection, line } => {
                // Reported only where it was asked for: of all connections, or of this one.
                self.log.write_always(Module::Protocol, Level::Trace, format_args!("[C{connection}]:{line}"))
            }
        }
    }

    fn accepted(&mut self, connection: u64, listener: u32, peer: Option<SocketAddr>) {
        let place = self.places.get(&listener).copied();
        self.line(
            Module::Server,
            Level::Debug,
            format_args!("[C{connection}] Accepted connection to {} from {}", Or(&place, "?"), Or(&peer, "?")),
        );
        if self.connections.len() >= CONNECTIONS_MAX {
            self.connections.pop_first();
        }
        self.connections.insert(connection, Connection { peer, ..Connection::default() });
    }

    fn authenticated(&mut self, connection: u64, mechanism: String, user: Option<String>, accepted: bool) {
        if !accepted {
            let text = format_args!("[C{connection}] Authentication failed: mechanism={mechanism}");
            self.log.write(Module::Server, Level::Info, text);
        } else if let Some(known) = self.connections.get_mut(&connection) {
            (known.mechanism, known.user) = (Some(mechanism), user);
        }
    }

    fn opened(&mut self, connection: u64, container_id: &str, hostname: &Option<String>, properties: Properties<'_>) {
        let unknown = Connection::default();
        let known = self.connections.get(&connection).unwrap_or(&unknown);
        self.log.write(
            Module::RouterCore,
            Level::Info,
            format_args!(
                "[C{connection}] Connection Opened: dir=in host={} vhost={} encrypted=no auth={} user={} \
                 container_id={container_id} props={properties}",
                Or(&known.peer, "?"),
                Or(hostname, ""),
                Or(&known.mechanism, "no"),
                Or(&known.user, "(null)"),
            ),
        );
    }

    fn attached(&mut self, connection: u64, link: LinkId, name: &str, address: &Option<String>, direction: Direction) {
        let link = link_number(link);
        let address = Or(address, "<none>");
        // The router's end of the link has the address: a consumer's source, a sender's target.
        let text = match direction {
            Direction::Incoming => format!("source={{<none>}} target={{{address}}}"),
            Direction::Outgoing => format!("source={{{address}}} target={{<none>}}"),
        };
        self.line(
            Module::RouterCore,
            Level::Info,
            format_args!("[C{connection}][L{link}] Link attached: dir={} {text} name={name}", direction.word()),
        );
    }

    fn threshold(&mut self, address: &str, edge: &Edge) {
        self.line(
            Module::Router,
            Level::Notice,
            format_args!(
                "threshold-crossed-{}: address={address} unit={} threshold={} depthMessages={} depthBytes={} missed={}",
                if edge.increasing { "increasing" } else { "decreasing" },
                if edge.unit == Unit::Messages { "messages" } else { "bytes" },
                edge.threshold,
                edge.depth_messages,
                edge.depth_bytes,
                edge.missed,
            ),
        );
    }

    fn accept_paused(&mut self, listener: u32, errno: i32) {
        let place = self.places.get(&listener).copied();
        let error = io::Error::from_raw_os_error(errno);
        self.line(
            Module::Server,
            Level::Error,
            format_args!("Accepting on {} failed and is tried again in a while: {error}", Or(&place, "?")),
        );
    }

    /// Opens the log's files anew.
    pub fn reopen_log(&mut self) {
        for error in self.log.reopen() {
            self.line(Module::Error, Level::Error, format_args!("{error}"));
        }
    }

    pub fn stopping(&mut self, signal: i32) {
        let name = match signal {
            libc::SIGTERM => "SIGTERM",
            libc::SIGQUIT => "SIGQUIT",
            _ => "SIGINT",
        };
        self.line(Module::Server, Level::Notice, format_args!("Stopping on {name}: connections are closed"));
    }

    pub fn stopped<E: fmt::Display>(&mut self, result: &Result<(), E>) {
        match result {
            Ok(()) => self.line(Module::Server, Level::Notice, format_args!("Stopped")),
            Err(error) => self.line(Module::Server, Level::Critical, format_args!("{error}")),
        }
    }

    /// What was held for peers, told when the router ends.
    pub fn memory(&mut self, memory: &Memory) {
        let (most, limit) = (memory.used_max() / 1024, memory.limit() / 1024);
        let text = format_args!("Memory for peers: at most {most} KiB at a time, of {limit} KiB");
        self.line(Module::Server, Level::Info, text);
    }

    /// Reports can't be heard any more: messages go on, the log doesn't.
    pub fn deaf(&mut self, error: &io::Error) {
        self.line(Module::Error, Level::Error, format_args!("The shards' reports can't be read: {error}"));
    }
}

/// `[Ln]`: counted from 1, and no other link's before four thousand million more.
fn link_number(link: LinkId) -> u32 {
    link.generation.wrapping_add(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines that a reporter writes of connection 7, without their times.
    fn lines(reports: Vec<dispatch::Report>) -> Vec<String> {
        let path = std::env::temp_dir().join(format!(
            "ringway-report-{}-{:?}",
            std::process::id(),
            std::thread::current().id()
        ));
        let text = format!(
            "listener {{\n}}\nlog {{\n module: DEFAULT\n enable: trace+\n timestamp: no\n output: {}\n}}\n",
            path.display()
        );
        let config = crate::config::load(&text, "test.conf").unwrap();
        let mut reporter = Reporter::new(Log::open(&config).unwrap(), vec!["127.0.0.1:5672".parse().unwrap()]);
        let peer = "127.0.0.1:40000".parse().ok();
        reporter.report(Report::ConnectionAccepted { connection: 7, listener: 0, peer });
        for report in reports {
            reporter.report(Report::Served(report));
        }
        assert!(reporter.connections.is_empty());
        reporter.log.flush();
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        text.lines().map(str::to_string).collect()
    }

    #[test]
    fn places_are_those_of_listeners_that_are_open() {
        let text = "listener {\n}\nlog {\n module: DEFAULT\n enable: none\n}\n";
        let config = crate::config::load(text, "test.conf").unwrap();
        let place = "127.0.0.1:5672".parse().unwrap();
        let mut reporter = Reporter::new(Log::open(&config).unwrap(), vec![place]);
        for number in 1..100 {
            reporter.listens(number, place);
            reporter.listens_no_more(number);
        }
        assert_eq!(reporter.places, BTreeMap::from([(0, place)]));
    }

    #[test]
    fn the_lines_that_tools_match() {
        use dispatch::Report;
        let (connection, none) = (7, || None);
        let written = lines(vec![
            Report::Authenticated {
                connection,
                mechanism: "ANONYMOUS".to_string(),
                user: Some("anonymous".to_string()),
                accepted: true,
            },
            Report::ConnectionOpened {
                connection,
                container_id: "c".to_string(),
                hostname: Some("h".to_string()),
                product: Some("p".to_string()),
                version: none(),
            },
            Report::LinkAttached {
                connection,
                link: LinkId { index: 0, generation: 0 },
                name: "l".to_string(),
                address: Some("a".to_string()),
                direction: Direction::Outgoing,
            },
            Report::LinkAttached {
                connection,
                link: LinkId { index: 1, generation: 1 },
                name: "m".to_string(),
                address: None,
                direction: Direction::Incoming,
            },
            Report::LinkDetached { connection, link: LinkId { index: 1, generation: 1 }, error: None },
            Report::ConnectionClosed { connection, error: None },
        ]);
        assert_eq!(
            written,
            [
                "SERVER (debug) [C7] Accepted connection to 127.0.0.1:5672 from 127.0.0.1:40000",
                "ROUTER_CORE (info) [C7] Connection Opened: dir=in host=127.0.0.1:40000 vhost=h encrypted=no \
                 auth=ANONYMOUS user=anonymous container_id=c props={:product: \"p\"}",
                "ROUTER_CORE (info) [C7][L1] Link attached: dir=out source={a} target={<none>} name=l",
                "ROUTER_CORE (info) [C7][L2] Link attached: dir=in source={<none>} target={<none>} name=m",
                "ROUTER_CORE (info) [C7][L2] Link detached",
                "SERVER (debug) [C7] Connection Closed",
            ]
        );
    }
}
