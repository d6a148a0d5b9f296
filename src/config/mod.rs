//! Text to checked structs: the configuration, in `qdrouterd`'s syntax or as JSON.
//!
//! Owns: the line-oriented syntax and its JSON form, the schema (entities, attributes, defaults, aliases), the
//! checks across entities, and every message about what is wrong, each with its line.
//! Doesn't: read files, resolve names, open ports, make up a router id. No I/O, no clock, no random.
//! Driven by: the command line, which reads the file and hands the text over.
//!
//! Invariants:
//! - nothing is silently ignored: what this version doesn't serve is an error that says so, what has no effect
//!   here is a warning;
//! - all errors of a file are reported at once, in the order of its lines;
//! - a `Config` that `load` returns needs no further check but those that only the machine can make (a port in
//!   use, a host name that doesn't resolve).

mod across;
mod build;
mod check;
mod conf;
mod create;
mod json;
mod map;
mod problem;
pub mod schema;
mod section;
mod types;
mod value;

pub use create::{create, Created};
pub use problem::{ConfigError, Problem, Unsupported};
pub use section::Raw;
pub use types::*;
pub use value::Value;

/// The configuration that the router starts on when it is given no file.
pub const DEFAULT: &str = include_str!("default.conf");

/// The name that messages about [`DEFAULT`] give it.
pub const DEFAULT_NAME: &str = "(built-in default)";

/// Reads a configuration; what this version doesn't serve is an error. As [`load_with`].
pub fn load(text: &str, name: &str) -> Result<Config, ConfigError> {
    load_with(text, name, Unsupported::Refused)
}

/// Reads a configuration. `name` is the file's name: it stands in messages, and where it ends in `.json` the
/// text is the JSON form.
///
/// # Errors
/// Everything that is wrong with the text, not just the first.
pub fn load_with(text: &str, name: &str, unsupported: Unsupported) -> Result<Config, ConfigError> {
    let mut report = problem::Report::new(name, unsupported);
    let is_json = name.to_ascii_lowercase().ends_with(".json");
    let sections = if is_json { json::parse(text, &mut report) } else { conf::parse(text, &mut report) };
    let config = build::build(&sections, &mut report);
    report.finish(config)
}
