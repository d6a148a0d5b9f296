//! Who a peer is.
//!
//! Owns: the SASL mechanisms as step functions, for both sides: what the peer sent in, a challenge or an outcome (as a
//! server), an initial response or a response (as a client, [`Login`]) out.
//! Doesn't: frame anything (the engine does), look passwords up (they will be given to it), log.
//! Driven by: dispatch (as a server) and client, with an engine's SASL events.
//!
//! Invariant: an exchange always ends: each step is a challenge or an outcome, and a mechanism has a bounded number of
//! challenges. A mechanism that wasn't offered is a failed outcome (AMQP 1.0, section 5.3.3.2), never silence.

mod login;
pub use login::{Login, LoginError, LoginStep};

/// What to answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    Challenge(Vec<u8>),
    /// The exchange is over. `user`: who the peer is from now on.
    Accepted {
        user: String,
    },
    Refused,
}

/// An exchange under way: a mechanism and what it remembers between steps.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Exchange {
    /// RFC 4505: whoever asks is let in; the trace information in the response is not looked at.
    Anonymous,
    /// A mechanism that isn't served.
    Unknown,
}

impl Exchange {
    /// The peer chose `mechanism`, out of `offered` or not, with an initial response or none.
    pub fn begin(mechanism: &str, offered: &[String], initial_response: Option<&[u8]>) -> (Exchange, Step) {
        if !offered.iter().any(|known| known == mechanism) {
            return (Exchange::Unknown, Step::Refused);
        }
        let mut exchange = match mechanism {
            "ANONYMOUS" => Exchange::Anonymous,
            _ => Exchange::Unknown,
        };
        let step = exchange.respond(initial_response);
        (exchange, step)
    }

    /// The peer's (first or next) response; None: it sent none.
    pub fn respond(&mut self, _response: Option<&[u8]>) -> Step {
        match self {
            // Without an initial response ANONYMOUS would be owed a challenge by the letter of RFC 4505; clients that
            // send none mean an empty one, and routers before took it so.
            Exchange::Anonymous => Step::Accepted { user: "anonymous".to_owned() },
            Exchange::Unknown => Step::Refused,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anonymous_is_let_in_where_it_is_offered() {
        let offered = ["ANONYMOUS".to_owned()];
        for initial in [None, Some(&b""[..]), Some(&b"guest@here"[..])] {
            let (_, step) = Exchange::begin("ANONYMOUS", &offered, initial);
            assert_eq!(step, Step::Accepted { user: "anonymous".to_owned() });
        }
        assert_eq!(Exchange::begin("ANONYMOUS", &[], None).1, Step::Refused);
        assert_eq!(Exchange::begin("PLAIN", &offered, None).1, Step::Refused);
        assert_eq!(Exchange::begin("SCRAM-SHA-1", &["SCRAM-SHA-1".to_owned()], None).1, Step::Refused);
    }
}
