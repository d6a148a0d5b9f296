//! Words about links that engine and routing share.

/// Which way a link's deliveries go.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Direction {
    /// From the peer to the router: the peer is the sender.
    Incoming,
    /// From the router to the peer: the peer is the receiver.
    Outgoing,
}

impl Direction {
    /// As logs and management say it.
    pub fn word(self) -> &'static str {
        match self {
            Direction::Incoming => "in",
            Direction::Outgoing => "out",
        }
    }
}

/// Settlement mode of a link's sender (AMQP 1.0, section 2.8.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SenderSettleMode {
    Unsettled,
    Settled,
    #[default]
    Mixed,
}

/// Settlement mode of a link's receiver (section 2.8.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ReceiverSettleMode {
    #[default]
    First,
    Second,
}

/// A source or target, as far as routing asks.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub enum Terminus {
    /// Absent, or null. On an incoming link a null target's address: see `Node { address: None }`.
    #[default]
    Absent,
    Node {
        address: Option<String>,
        dynamic: bool,
    },
    /// A transaction coordinator (targets).
    Coordinator,
}
