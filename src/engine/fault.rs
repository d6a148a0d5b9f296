//! What a peer did wrong, with the scope that it takes down, and the specification's condition for it. The one place
//! where errors of decoding become conditions.

use super::input::CutError;
use crate::ids::LinkHandle;
use crate::wire::WireError;
use std::borrow::Cow;

pub(super) const DECODE_ERROR: &str = "amqp:decode-error";
pub(super) const NOT_ALLOWED: &str = "amqp:not-allowed";
pub(super) const NOT_IMPLEMENTED: &str = "amqp:not-implemented";
pub(super) const INVALID_FIELD: &str = "amqp:invalid-field";
pub(super) const RESOURCE_LIMIT_EXCEEDED: &str = "amqp:resource-limit-exceeded";
pub(super) const FRAMING_ERROR: &str = "amqp:connection:framing-error";
pub(super) const WINDOW_VIOLATION: &str = "amqp:session:window-violation";
pub(super) const HANDLE_IN_USE: &str = "amqp:session:handle-in-use";
pub(super) const UNATTACHED_HANDLE: &str = "amqp:session:unattached-handle";
pub(super) const TRANSFER_LIMIT_EXCEEDED: &str = "amqp:link:transfer-limit-exceeded";
pub(super) const MESSAGE_SIZE_EXCEEDED: &str = "amqp:link:message-size-exceeded";
pub(super) const STOLEN: &str = "amqp:link:stolen";

/// What a violation ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Where {
    Link(LinkHandle),
    /// Our channel of the session.
    Session(u16),
    Connection,
}

/// One pointer, since the hot path carries the place for it along with each event.
#[derive(Debug)]
pub(super) struct Violation(Box<Wrong>);

#[derive(Debug)]
pub(super) struct Wrong {
    pub at: Where,
    pub condition: &'static str,
    pub description: Cow<'static, str>,
}

impl std::ops::Deref for Violation {
    type Target = Wrong;
    fn deref(&self) -> &Wrong {
        &self.0
    }
}

impl Violation {
    fn new(at: Where, condition: &'static str, description: Cow<'static, str>) -> Violation {
        Violation(Box::new(Wrong { at, condition, description }))
    }

    #[cold]
    #[inline(never)]
    pub(super) fn link(link: LinkHandle, condition: &'static str, why: impl Into<Cow<'static, str>>) -> Violation {
        Violation::new(Where::Link(link), condition, why.into())
    }

    #[cold]
    #[inline(never)]
    pub(super) fn session(channel: u16, condition: &'static str, why: impl Into<Cow<'static, str>>) -> Violation {
        Violation::new(Where::Session(channel), condition, why.into())
    }

    #[cold]
    #[inline(never)]
    pub(super) fn connection(condition: &'static str, why: impl Into<Cow<'static, str>>) -> Violation {
        Violation::new(Where::Connection, condition, why.into())
    }
}

impl From<WireError> for Violation {
    #[cold]
    #[inline(never)]
    fn from(error: WireError) -> Violation {
        let condition = match error {
            WireError::BadFrame => FRAMING_ERROR,
            _ => DECODE_ERROR,
        };
        Violation::connection(condition, error.to_string())
    }
}

impl From<CutError> for Violation {
    #[cold]
    #[inline(never)]
    fn from(error: CutError) -> Violation {
        match error {
            CutError::Malformed(error) => error.into(),
            CutError::TooLarge(size) => {
                Violation::connection(FRAMING_ERROR, format!("a frame of {size} bytes exceeds max-frame-size"))
            }
        }
    }
}
