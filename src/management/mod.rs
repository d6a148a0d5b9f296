//! Management: requests to the router itself, and what it answers (the AMQP management working draft, as qdrouterd speaks
//! it: the same entity types, attributes, identities, status codes and words).
//!
//! Owns: the schema of what is managed, the entities that were configured, reading requests, encoding answers.
//! Doesn't: know where rows of addresses, links and connections come from, do what a request wants done (it says what, its
//! driver does it), hold anything between two requests but entities.
//! Driven by: control, in steps: [`Agent::begin`] says what a request needs, the answer is made of that.
//!
//! Invariants:
//! - Whatever bytes a request has, it gets an answer with a status, unless it names nobody to answer.
//! - An answer's values have the types that the schema says.
//! - A request that is refused changes nothing.
//!
//! Files: `message` (requests and answers on the wire), `datum` (values), `schema` (types and attributes), `columns`
//! (how a row shows each attribute), `query`, `store` (entities that are kept), `agent` (operations), `change` (what is
//! changed).

mod agent;
mod change;
mod columns;
mod datum;
mod message;
mod out;
mod query;
mod schema;
mod store;

pub use agent::{Agent, Step};
pub use change::{Change, Deleted, Made, RowChange, RowUpdate};
pub use datum::Datum;
pub use message::{Envelope, Received, Request, Response, Status};
pub use query::{log_lines, Figures, LogLine, Query, RowRead, Snapshot, Wanted, Writer};
pub use schema::Schema;

/// What all entity types' names begin with but for the management node's own.
pub const PREFIX: &str = crate::config::schema::TYPE_PREFIX;
