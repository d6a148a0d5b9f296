//! `ringway stat`: what a router does, in tables.
//!
//! Options, columns and numbers are those of the tool that people and their scripts know (`qdstat`); ours beside them are
//! `--flow` (credit, depth, alerts, latency) and `--json` (the entities themselves).

pub mod policy;
pub mod table;
pub mod views;

use super::agent::{Agent, Entity, Rows, Target};
use super::connect::ConnectOptions;
use super::failure::Failure;
use crate::config::schema::TYPE_PREFIX;
use chrono::{Local, TimeZone, Utc};
use clap::{ArgAction, Args};
use serde_json::{json, Map, Value};
use table::{get, text, Table};

/// Shows statistics of a router
#[derive(Args, Debug)]
#[command(version, disable_version_flag = true, args_override_self = true, infer_long_args = true)]
pub struct StatArguments {
    /// Show every router of the network
    #[arg(long, conflicts_with_all = ["router", "edge_router"])]
    all_routers: bool,
    #[command(flatten)]
    target: Target,
    /// Show so many rows at most; 0: all
    #[arg(long, value_name = "LIMIT", default_value_t = 0, hide_default_value = true)]
    limit: usize,
    /// Tables as CSV
    #[arg(long)]
    csv: bool,
    /// The entities with all their attributes, as JSON
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Columns of addresses and links beside the usual: credit, depth, alerts, latency
    #[arg(long)]
    flow: bool,
    /// More columns
    #[arg(short = 'v', long, action = ArgAction::Count)]
    verbose: u8,
    /// Print the version
    #[arg(long, action = ArgAction::Version)]
    version: Option<bool>,
    #[command(flatten)]
    display: Display,
    #[command(flatten)]
    connect: ConnectOptions,
}

/// What to show; the router's general statistics by default.
#[derive(Args, Debug)]
#[group(multiple = false)]
#[command(next_help_heading = "What to show")]
struct Display {
    /// General statistics of the router (the default)
    #[arg(short = 'g', long)]
    general: bool,
    /// Connections
    #[arg(short = 'c', long)]
    connections: bool,
    /// Links
    #[arg(short = 'l', long)]
    links: bool,
    /// The network's routers
    #[arg(short = 'n', long)]
    nodes: bool,
    /// Connections of edge routers
    #[arg(short = 'e', long)]
    edge: bool,
    /// Addresses
    #[arg(short = 'a', long)]
    address: bool,
    /// Memory
    #[arg(short = 'm', long)]
    memory: bool,
    /// The policy
    #[arg(short = 'p', long)]
    policy: bool,
    /// Autolinks
    #[arg(long)]
    autolinks: bool,
    /// Link routes
    #[arg(long)]
    linkroutes: bool,
    /// Virtual hosts
    #[arg(long)]
    vhosts: bool,
    /// Groups of users of virtual hosts
    #[arg(long)]
    vhostgroups: bool,
    /// Statistics of virtual hosts
    #[arg(long)]
    vhoststats: bool,
    /// The last lines of the log
    #[arg(long)]
    log: bool,
    /// Everything
    #[arg(long)]
    all_entities: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Show {
    General,
    Connections,
    Links,
    Nodes,
    Edge,
    Address,
    Memory,
    Policy,
    Autolinks,
    Linkroutes,
    Vhosts,
    Vhostgroups,
    Vhoststats,
    Log,
}

/// Everything, in the order in which it is shown. (Groups would be long.)
const EVERYTHING: [Show; 10] = [
    Show::Links,
    Show::Address,
    Show::Connections,
    Show::Autolinks,
    Show::Linkroutes,
    Show::General,
    Show::Memory,
    Show::Policy,
    Show::Vhosts,
    Show::Vhoststats,
];

impl Display {
    /// None: everything.
    fn show(&self) -> Option<Show> {
        let options = [
            (self.connections, Show::Connections),
            (self.links, Show::Links),
            (self.nodes, Show::Nodes),
            (self.edge, Show::Edge),
            (self.address, Show::Address),
            (self.memory, Show::Memory),
            (self.policy, Show::Policy),
            (self.autolinks, Show::Autolinks),
            (self.linkroutes, Show::Linkroutes),
            (self.vhosts, Show::Vhosts),
            (self.vhostgroups, Show::Vhostgroups),
            (self.vhoststats, Show::Vhoststats),
            (self.log, Show::Log),
        ];
        if self.all_entities {
            return None;
        }
        Some(options.iter().find(|(given, _)| *given).map_or(Show::General, |(_, show)| *show))
    }
}

impl Show {
    /// The type that is queried; None: another operation.
    fn entity_type(self) -> Option<&'static str> {
        Some(match self {
            Show::General => "router",
            Show::Connections | Show::Edge => "connection",
            Show::Links => "router.link",
            Show::Nodes => "router.node",
            Show::Address => "router.address",
            Show::Memory => "allocator",
            Show::Policy => "policy",
            Show::Autolinks => "router.config.autoLink",
            Show::Linkroutes => "router.config.linkRoute",
            Show::Vhosts | Show::Vhostgroups => "vhost",
            Show::Vhoststats => "vhostStats",
            Show::Log => return None,
        })
    }

    /// Whether the time and the router's id stand above it.
    fn has_heading(self) -> bool {
        !matches!(self, Show::Vhosts | Show::Vhostgroups | Show::Vhoststats | Show::Log)
    }
}

/// The text to print.
pub fn run(arguments: &StatArguments) -> Result<String, Failure> {
    let agent = Agent::open(&arguments.connect, &arguments.target)?;
    let mut stat = Stat { agent, arguments };
    let text = stat.run();
    stat.agent.close();
    text
}

struct Stat<'a> {
    agent: Agent,
    arguments: &'a StatArguments,
}

impl Stat<'_> {
    fn run(&mut self) -> Result<String, Failure> {
        let nodes = if self.arguments.all_routers { self.management_nodes()? } else { Vec::new() };
        if self.arguments.json {
            let value = if nodes.len() > 1 { self.routers_as_json(&nodes)? } else { self.as_json()? };
            return Ok(format!("{value:#}\n"));
        }
        if nodes.len() > 1 {
            return self.routers_as_text(&nodes);
        }
        self.as_text(true)
    }

    fn management_nodes(&mut self) -> Result<Vec<String>, Failure> {
        let request = crate::client::management::Request::to_node("GET-MGMT-NODES");
        let nodes = self.agent.call(&request, 200)?;
        Ok(nodes.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect())
    }

    fn routers_as_text(&mut self, nodes: &[String]) -> Result<String, Failure> {
        let mut text = format!("{}\n", timestamp());
        for node in nodes {
            let (address, id) = address_and_id(node);
            self.agent.turn_to(address)?;
            text.push_str(&format!("Router  {id}\n\n{}\n", self.as_text(false)?));
        }
        Ok(text)
    }

    fn routers_as_json(&mut self, nodes: &[String]) -> Result<Value, Failure> {
        let mut routers = Map::new();
        for node in nodes {
            let (address, id) = address_and_id(node);
            self.agent.turn_to(address)?;
            routers.insert(id.to_owned(), self.as_json()?);
        }
        Ok(Value::Object(routers))
    }

    /// `heading`: the time and the router's id above it.
    fn as_text(&mut self, heading: bool) -> Result<String, Failure> {
        let Some(show) = self.arguments.display.show() else { return self.everything(heading) };
        let body = self.body(show)?;
        let heading = if heading && show.has_heading() { self.heading()? } else { String::new() };
        Ok(heading + &body)
    }

    fn everything(&mut self, heading: bool) -> Result<String, Failure> {
        let mut text = if heading { self.heading()? } else { String::new() };
        for show in EVERYTHING {
            match self.body(show) {
                Ok(body) => text.push_str(&body),
                // A part that this router hasn't is no reason to show nothing.
                Err(failure @ Failure::Status { .. }) => text.push_str(&format!("{show:?}: {failure}\n")),
                Err(failure) => return Err(failure),
            }
            text.push('\n');
        }
        Ok(text)
    }

    fn heading(&mut self) -> Result<String, Failure> {
        let router = self.router(&[])?;
        Ok(format!("{}\n{}\n\n", timestamp(), text(get(&router, "id"))))
    }

    fn router(&mut self, attributes: &[&str]) -> Result<Entity, Failure> {
        let rows = self.query("router", attributes)?;
        rows.entities().into_iter().next().ok_or_else(|| Failure::new("the management node knows no router"))
    }

    fn query(&mut self, entity_type: &str, attributes: &[&str]) -> Result<Rows, Failure> {
        let entity_type = format!("{TYPE_PREFIX}{entity_type}");
        let limit = self.arguments.limit;
        match self.arguments.flow {
            true if !attributes.is_empty() => self.agent.query_known(&entity_type, attributes, limit),
            _ => self.agent.query(Some(&entity_type), attributes, limit),
        }
    }

    /// Attributes that are asked for, of ours too where they are wanted.
    fn attributes(&self, usual: &[&'static str], flow: &[views::Extra]) -> Vec<&'static str> {
        let flow = flow.iter().map(|(_, attribute)| *attribute).filter(|_| self.arguments.flow);
        usual.iter().copied().chain(flow).collect()
    }

    fn body(&mut self, show: Show) -> Result<String, Failure> {
        let (csv, verbose, flow) = (self.arguments.csv, self.arguments.verbose > 0, self.arguments.flow);
        let kind = show.entity_type().unwrap_or_default();
        let or = |tables: Option<Vec<Table>>, otherwise: &str| match tables {
            Some(tables) => tables.iter().map(|table| table.render(csv)).collect(),
            None => format!("{otherwise}\n"),
        };
        let one = |table: Table| table.render(csv);
        Ok(match show {
            Show::General => one(views::general(&self.router(&[])?)),
            Show::Connections => one(views::connections(self.query(kind, &[])?)),
            Show::Edge => {
                let rows = self.query(kind, &[])?;
                let nobody = if rows.rows.is_empty() { "No Edge Router Connections\n" } else { "" };
                views::edges(rows).map_or_else(|| nobody.to_owned(), one)
            }
            Show::Links => {
                let attributes = self.attributes(views::LINK_ATTRIBUTES, views::LINK_FLOW);
                one(views::links(self.query(kind, &attributes)?, verbose, flow))
            }
            Show::Nodes => self.nodes(kind)?,
            Show::Address => {
                let attributes = self.attributes(views::ADDRESS_ATTRIBUTES, views::ADDRESS_FLOW);
                one(views::addresses(self.query(kind, &attributes)?, verbose, flow))
            }
            Show::Memory => {
                let rows = self.query(kind, views::MEMORY_ATTRIBUTES)?;
                let process = self.router(&["memoryUsage"])?;
                let tables = views::memory(rows, get(&process, "memoryUsage")).map(Vec::from);
                or(tables, "No memory statistics available")
            }
            Show::Policy => {
                let policy = self.query(kind, &[])?.entities().into_iter().next();
                or(policy.map(|policy| policy::policy(&policy).to_vec()), "No Policy")
            }
            Show::Autolinks => {
                let rows = self.query(kind, views::AUTOLINK_ATTRIBUTES)?;
                match rows.rows.is_empty() {
                    true => "AutoLinks\nNo AutoLinks found\n".to_owned(),
                    false => one(views::autolinks(rows)),
                }
            }
            Show::Linkroutes => {
                let rows = self.query(kind, views::LINK_ROUTE_ATTRIBUTES)?;
                match rows.rows.is_empty() {
                    true => "Link Routes\nNo Link Routes found\n".to_owned(),
                    false => one(views::link_routes(rows)),
                }
            }
            Show::Vhosts => or(policy::vhosts(self.query(kind, &[])?).map(|table| vec![table]), "No Vhosts"),
            Show::Vhostgroups => {
                let rows = self.query(kind, &[])?;
                let schema = self.group_schema()?;
                or(policy::vhost_groups(rows, &schema), "No Vhosts")
            }
            Show::Vhoststats => or(policy::vhost_stats(self.query(kind, &[])?).map(Vec::from), "No Vhost Stats"),
            Show::Log => self.log()?.iter().map(log_line).collect(),
        })
    }

    fn nodes(&mut self, kind: &str) -> Result<String, Failure> {
        let rows = self.query(kind, &[])?;
        let (table, changed) = views::nodes(rows, self.arguments.verbose > 0);
        let Some(mut table) = table else { return Ok("Router is Standalone - No Router List\n".to_owned()) };
        if let Some(changed) = Utc.timestamp_opt(changed as i64, 0).single().filter(|_| changed > 1.0) {
            let changed = changed.format("%A %b %d %H:%M:%S %Y");
            table.title.push_str(&format!("\nLast Topology Change: {changed} GMT"));
        }
        Ok(table.render(self.arguments.csv))
    }

    /// The attributes of a vhost's groups, as the schema has them.
    fn group_schema(&mut self) -> Result<Value, Failure> {
        let schema = self.agent.call(&crate::client::management::Request::to_node("GET-SCHEMA"), 200)?;
        Ok(schema["entityTypes"]["vhostUserGroupSettings"]["attributes"].clone())
    }

    fn log(&mut self) -> Result<Vec<Value>, Failure> {
        let limit = (self.arguments.limit > 0).then_some(self.arguments.limit);
        let request = crate::client::management::Request::to_node("GET-LOG").with("limit", limit);
        let lines = self.agent.call(&request, 200)?;
        Ok(lines.as_array().cloned().unwrap_or_default())
    }

    /// The entities; of everything a map by type.
    fn as_json(&mut self) -> Result<Value, Failure> {
        if let Some(show) = self.arguments.display.show() {
            return self.entities(show);
        }
        let mut everything = Map::new();
        for show in EVERYTHING {
            match self.entities(show) {
                Ok(entities) => drop(everything.insert(show.entity_type().unwrap_or_default().to_owned(), entities)),
                Err(Failure::Status { .. }) => {}
                Err(failure) => return Err(failure),
            }
        }
        Ok(Value::Object(everything))
    }

    fn entities(&mut self, show: Show) -> Result<Value, Failure> {
        let Some(kind) = show.entity_type() else {
            const NAMES: [&str; 6] = ["module", "level", "text", "file", "line", "time"];
            let named = |line: &Value| {
                let cells = NAMES.iter().zip(line.as_array().into_iter().flatten());
                cells.map(|(name, value)| ((*name).to_owned(), value.clone())).collect::<Entity>()
            };
            return Ok(json!(self.log()?.iter().map(named).collect::<Vec<_>>()));
        };
        let mut entities = self.query(kind, &[])?.entities();
        if show == Show::Edge {
            entities.retain(|connection| get(connection, "role") == "edge");
        }
        Ok(json!(entities))
    }
}

/// `amqp:/_topo/0/ID/$management`: its address and the router's id.
fn address_and_id(node: &str) -> (&str, &str) {
    let address = node.strip_prefix("amqp:/").unwrap_or(node);
    (address, address.split('/').nth(2).unwrap_or(address))
}

fn timestamp() -> String {
    Utc::now().format("%Y-%m-%d %H:%M:%S%.6f UTC").to_string()
}

/// A row of the log: module, level, text, file, line, seconds since 1970.
fn log_line(row: &Value) -> String {
    let cell = |index: usize| text(row.get(index).unwrap_or(&Value::Null));
    let time = row.get(5).and_then(Value::as_f64).unwrap_or_default();
    let time = Local.timestamp_opt(time as i64, 0).single().map(|time| time.format("%a %b %e %H:%M:%S %Y").to_string());
    format!("{} {} ({}) {}\n", time.unwrap_or_default(), cell(0), cell(1), cell(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_names_its_router() {
        assert_eq!(address_and_id("amqp:/_topo/0/QDR.A/$management"), ("_topo/0/QDR.A/$management", "QDR.A"));
        assert_eq!(address_and_id("x"), ("x", "x"));
    }

    #[test]
    fn a_log_row_is_a_line() {
        let line = log_line(&json!(["SERVER", "info", "hello", "file.c", 7, 86_400 * 365]));
        assert!(line.ends_with(" 1971 SERVER (info) hello\n"), "{line}");
    }
}
