//! Why a tool ends without an answer, in the words that it prints.

use std::fmt;

#[derive(Debug, PartialEq, Eq)]
pub enum Failure {
    /// The management node refused.
    Status {
        status: i64,
        description: String,
    },
    /// Nothing came within the time that there was.
    Timeout(String),
    Said(String),
}

impl Failure {
    pub fn new(what: impl Into<String>) -> Failure {
        Failure::Said(what.into())
    }

    /// `what` was waited for.
    pub fn timeout(what: &str) -> Failure {
        Failure::Timeout(format!("time-out: the peer didn't send {what}"))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Status { status, description } => write!(f, "{}: {description}", status_name(*status)),
            Failure::Timeout(text) | Failure::Said(text) => f.write_str(text),
        }
    }
}

/// A status as scripts know it from the tools before: HTTP's name for it in one word.
fn status_name(status: i64) -> String {
    let name = match status {
        400 => "BadRequest",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "NotFound",
        409 => "Conflict",
        500 => "InternalServerError",
        501 => "NotImplemented",
        503 => "ServiceUnavailable",
        _ => return format!("status {status}"),
    };
    format!("{name}Status")
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Failure {
        Failure::Said(error.to_string())
    }
}

impl std::error::Error for Failure {}
