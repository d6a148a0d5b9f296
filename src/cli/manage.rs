//! `ringway manage`: one management operation, its answer as JSON.
//!
//! Operations, options and answers are those of the tool that people and their scripts know (`qdmanage`).

use super::agent::{Agent, Entity, Target};
use super::connect::ConnectOptions;
use super::failure::Failure;
use crate::client::management::Request;
use crate::config::schema::{self, TYPE_PREFIX};
use clap::{ArgAction, Args};
use serde::Serialize;
use serde_json::ser::{CompactFormatter, Formatter, PrettyFormatter, Serializer};
use serde_json::Value;
use std::io::{self, Read, Write};

const OK: i64 = 200;
const CREATED: i64 = 201;
const NO_CONTENT: i64 = 204;

/// Does one management operation
///
/// QUERY [ATTRIBUTE...]; CREATE, UPDATE [ATTRIBUTE=VALUE...]; READ; DELETE; GET-TYPES, GET-ATTRIBUTES, GET-OPERATIONS,
/// GET-ANNOTATIONS [TYPE]; GET-MGMT-NODES; GET-SCHEMA; GET-JSON-SCHEMA; GET-LOG [limit=N]; or any other operation that the
/// router knows, with its properties as NAME=VALUE.
#[derive(Args, Debug)]
#[command(version, disable_version_flag = true, args_override_self = true, infer_long_args = true)]
pub struct ManageArguments {
    /// The operation, in upper or lower case
    #[arg(value_name = "OPERATION")]
    operation: String,
    /// What the operation takes: see above
    #[arg(value_name = "ARGUMENT")]
    arguments: Vec<String>,
    /// Type of the entity: `listener`, or a whole name
    #[arg(long = "type", value_name = "TYPE")]
    entity_type: Option<String>,
    /// Name of the entity
    #[arg(long)]
    name: Option<String>,
    /// Identity of the entity; with it the name means nothing
    #[arg(long, value_name = "ID")]
    identity: Option<String>,
    /// Spaces that JSON is indented by; -1: all in one line
    #[arg(long, default_value_t = 2, allow_negative_numbers = true)]
    indent: i32,
    /// Read attributes from the standard input: a JSON map, or a list of maps
    #[arg(long)]
    stdin: bool,
    /// Body of the request, for an operation that isn't listed above: JSON, or text
    #[arg(long)]
    body: Option<String>,
    /// Properties of the request, for an operation that isn't listed above: a JSON map
    #[arg(long)]
    properties: Option<String>,
    #[command(flatten)]
    target: Target,
    /// Accepted for old scripts' sake
    #[arg(short = 'v', long, action = ArgAction::Count, hide = true)]
    verbose: u8,
    /// Print the version
    #[arg(long, action = ArgAction::Version)]
    version: Option<bool>,
    #[command(flatten)]
    connect: ConnectOptions,
}

/// The text to print.
pub fn run(arguments: &ManageArguments) -> Result<String, Failure> {
    // What can be wrong with the arguments is said before anybody is asked.
    let order = Order::read(arguments, &mut io::stdin())?;
    let mut agent = Agent::open(&arguments.connect, &arguments.target)?;
    let answer = order.carry_out(&mut agent);
    agent.close();
    Ok(match answer? {
        // Of operations that answer with a text or with nothing.
        Value::Null => String::new(),
        Value::String(text) => format!("{text}\n"),
        answer => to_json(&answer, arguments.indent),
    })
}

/// What is to be done, with its arguments checked.
#[derive(Debug, PartialEq)]
enum Order {
    Query {
        entity_type: Option<String>,
        attributes: Vec<String>,
    },
    /// Requests of which each has an entity for an answer. `is_list`: the answer is a list.
    Each {
        requests: Vec<Request>,
        expected: i64,
        is_list: bool,
    },
    /// One whose answer is shown as it is.
    One {
        request: Request,
        expected: i64,
    },
}

impl Order {
    fn read(arguments: &ManageArguments, stdin: &mut impl Read) -> Result<Order, Failure> {
        let operation = arguments.operation.to_uppercase();
        let entity_type = arguments.entity_type.as_deref().map(long_type);
        let rest = &arguments.arguments;
        let about = |request: Request| {
            let name = arguments.name.clone().filter(|_| arguments.identity.is_none());
            request.with("type", entity_type.clone()).with("name", name).with("identity", arguments.identity.clone())
        };
        Ok(match operation.as_str() {
            "QUERY" => Order::Query { entity_type, attributes: rest.clone() },
            "CREATE" | "UPDATE" => {
                let (list, is_list) = attributes(arguments, entity_type.as_deref(), stdin)?;
                let is_create = operation == "CREATE";
                let requests = list.into_iter().map(|attributes| {
                    let request = about(Request::new(&operation));
                    if is_create {
                        created(request, attributes)
                    } else {
                        updated(request, attributes)
                    }
                });
                let expected = if is_create { CREATED } else { OK };
                Order::Each { requests: requests.collect(), expected, is_list }
            }
            "READ" => {
                at_most(rest, 0)?;
                Order::One { request: about(Request::new("READ")), expected: OK }
            }
            "DELETE" => {
                at_most(rest, 0)?;
                Order::One { request: about(Request::new("DELETE")), expected: NO_CONTENT }
            }
            "GET-TYPES" | "GET-ATTRIBUTES" | "GET-OPERATIONS" | "GET-ANNOTATIONS" => {
                at_most(rest, 1)?;
                let entity_type = entity_type.or_else(|| rest.first().map(|name| long_type(name)));
                Order::One { request: Request::to_node(&operation).with("entityType", entity_type), expected: OK }
            }
            "GET-MGMT-NODES" => {
                at_most(rest, 0)?;
                Order::One { request: Request::to_node(&operation), expected: OK }
            }
            _ => Order::One { request: other(arguments, entity_type.as_deref(), about)?, expected: OK },
        })
    }

    fn carry_out(self, agent: &mut Agent) -> Result<Value, Failure> {
        match self {
            Order::Query { entity_type, attributes } => {
                let attributes: Vec<&str> = attributes.iter().map(String::as_str).collect();
                let mut entities = agent.query(entity_type.as_deref(), &attributes, 0)?.entities();
                entities.iter_mut().for_each(|entity| entity.retain(|_, value| !value.is_null()));
                Ok(entities.into_iter().map(Value::Object).collect())
            }
            Order::Each { requests, expected, is_list } => {
                let mut answers = Vec::with_capacity(requests.len());
                for request in &requests {
                    answers.push(agent.call(request, expected)?);
                }
                Ok(if is_list { Value::Array(answers) } else { answers.pop().unwrap_or_default() })
            }
            Order::One { request, expected } => match agent.call(&request, expected)? {
                _ if expected == NO_CONTENT => Ok(Value::Null),
                answer => Ok(answer),
            },
        }
    }
}

/// An operation that has no form of its own here: the arguments become its properties.
fn other(
    arguments: &ManageArguments,
    entity_type: Option<&str>,
    about: impl Fn(Request) -> Request,
) -> Result<Request, Failure> {
    // As it is written: what it means is the router's to say.
    let operation = &arguments.operation;
    let named = entity_type.is_some() || arguments.name.is_some() || arguments.identity.is_some();
    let mut request = if named { about(Request::new(operation)) } else { Request::to_node(operation) };
    for argument in &arguments.arguments {
        let (name, value) = attribute(argument, entity_type);
        request = request.with(&name, value);
    }
    if let Some(text) = &arguments.properties {
        match json_or_text(text)? {
            Value::Object(map) => request.properties.extend(map),
            _ => return Err(Failure::new(format!("--properties: '{text}' is no JSON map"))),
        }
    }
    if let Some(text) = &arguments.body {
        request.body = json_or_text(text)?;
    }
    Ok(request)
}

fn at_most(arguments: &[String], count: usize) -> Result<(), Failure> {
    match arguments.get(count..) {
        None | Some([]) => Ok(()),
        Some(spare) => Err(Failure::new(format!("unexpected arguments: {}", spare.join(" ")))),
    }
}

/// A type as the router names it: `listener` is short for `org.apache.qpid.dispatch.listener`.
fn long_type(name: &str) -> String {
    match name {
        "" => String::new(),
        name if name.contains('.') => name.to_owned(),
        "link" | "node" => format!("{TYPE_PREFIX}router.{name}"),
        "linkRoute" | "address" | "autoLink" => format!("{TYPE_PREFIX}router.config.{name}"),
        name => format!("{TYPE_PREFIX}{name}"),
    }
}

/// `name=value`, or `name` for a null.
fn attribute(argument: &str, entity_type: Option<&str>) -> (String, Value) {
    let Some((name, text)) = argument.split_once('=') else { return (argument.to_owned(), Value::Null) };
    let value = match text {
        "true" => true.into(),
        "false" => false.into(),
        text => match text.parse::<i64>() {
            Ok(number) if is_integer(entity_type, name) => number.into(),
            _ => text.into(),
        },
    };
    (name.to_owned(), value)
}

fn is_integer(entity_type: Option<&str>, name: &str) -> bool {
    let attribute = entity_type.and_then(schema::find).and_then(|entity| entity.attribute(name));
    attribute.is_some_and(|attribute| attribute.kind.type_name() == Some("integer"))
}

/// Attributes of one entity or of several, and whether they came as a list.
fn attributes(
    arguments: &ManageArguments,
    entity_type: Option<&str>,
    stdin: &mut impl Read,
) -> Result<(Vec<Entity>, bool), Failure> {
    if !arguments.stdin {
        let pairs = arguments.arguments.iter().map(|argument| attribute(argument, entity_type));
        return Ok((vec![pairs.collect()], false));
    }
    let unusable = |what: &str| Failure::new(format!("the standard input is no JSON map or list of maps{what}"));
    match serde_json::from_reader(stdin).map_err(|error| unusable(&format!(": {error}")))? {
        Value::Object(map) => Ok((vec![map], false)),
        Value::Array(list) => {
            let maps = list.into_iter().map(|element| match element {
                Value::Object(map) => Ok(map),
                _ => Err(unusable("")),
            });
            Ok((maps.collect::<Result<_, _>>()?, true))
        }
        _ => Err(unusable("")),
    }
}

/// Type and name may be among the attributes.
fn created(mut request: Request, mut attributes: Entity) -> Request {
    request.properties.shift_remove("identity");
    widen_type(&mut attributes);
    for name in ["type", "name"] {
        request = fill(request, &attributes, name);
    }
    request.body = Value::Object(attributes);
    request
}

/// Type, name and identity may be among the attributes; words for yes and no become booleans.
fn updated(mut request: Request, mut attributes: Entity) -> Request {
    widen_type(&mut attributes);
    for name in ["type", "identity"] {
        request = fill(request, &attributes, name);
    }
    if !request.properties.contains_key("identity") {
        request = fill(request, &attributes, "name");
    }
    for value in attributes.values_mut() {
        match value.as_str() {
            Some("yes" | "true" | "on") => *value = true.into(),
            Some("no" | "false" | "off") => *value = false.into(),
            _ => {}
        }
    }
    request.body = Value::Object(attributes);
    request
}

fn widen_type(attributes: &mut Entity) {
    if let Some(Value::String(name)) = attributes.get_mut("type") {
        *name = long_type(name);
    }
}

fn fill(request: Request, attributes: &Entity, name: &str) -> Request {
    match attributes.get(name) {
        Some(value) if !request.properties.contains_key(name) => request.with(name, value.clone()),
        _ => request,
    }
}

/// JSON, or a text that doesn't look as if it were meant to be JSON.
fn json_or_text(text: &str) -> Result<Value, Failure> {
    match serde_json::from_str(text) {
        Ok(value) => Ok(value),
        Err(_) if !text.contains(['"', '{', '}', '[', ']']) => Ok(text.into()),
        Err(error) => Err(Failure::new(format!("'{text}' is no JSON: {error}"))),
    }
}

/// JSON in one line, with spaces between.
struct OneLine;

impl Formatter for OneLine {
    fn begin_array_value<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first {
            Ok(())
        } else {
            writer.write_all(b", ")
        }
    }
    fn begin_object_key<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first {
            Ok(())
        } else {
            writer.write_all(b", ")
        }
    }
    fn begin_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        CompactFormatter.begin_object_value(writer)?;
        writer.write_all(b" ")
    }
}

fn to_json(value: &Value, indent: i32) -> String {
    let mut text = Vec::new();
    // A vector takes all that is written to it.
    let _ = match usize::try_from(indent) {
        Ok(indent) => {
            let spaces = " ".repeat(indent);
            value.serialize(&mut Serializer::with_formatter(&mut text, PrettyFormatter::with_indent(spaces.as_bytes())))
        }
        Err(_) => value.serialize(&mut Serializer::with_formatter(&mut text, OneLine)),
    };
    text.push(b'\n');
    String::from_utf8_lossy(&text).into_owned()
}

#[cfg(test)]
#[path = "manage_tests.rs"]
mod tests;
