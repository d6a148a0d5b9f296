//! Facts about connections and links, for whoever logs. Facts, not text.

use crate::engine::RemoteError;
use crate::ids::LinkId;
use crate::link::Direction;

/// `connection` is what `accepted` gave.
#[derive(Debug)]
pub enum Report {
    ConnectionOpened {
        connection: u64,
        container_id: String,
        hostname: Option<String>,
        product: Option<String>,
        version: Option<String>,
    },
    /// `error`: what the peer said, or what we closed it with.
    ConnectionClosed {
        connection: u64,
        error: Option<Box<RemoteError>>,
    },
    /// The peer chose this mechanism and was let in, or not.
    Authenticated {
        connection: u64,
        mechanism: String,
        user: Option<String>,
        accepted: bool,
    },
    /// `link`: the router's; its generation is never another link's.
    LinkAttached {
        connection: u64,
        link: LinkId,
        name: String,
        address: Option<String>,
        direction: Direction,
    },
    LinkRefused {
        connection: u64,
        name: String,
        address: Option<String>,
        direction: Direction,
        condition: &'static str,
    },
    LinkDetached {
        connection: u64,
        link: LinkId,
        error: Option<Box<RemoteError>>,
    },
    /// It has had no credit for so long.
    LinkBlocked {
        connection: u64,
        link: LinkId,
        seconds: u32,
    },
    /// A delivery on it is in the router for long.
    LinkStuck {
        connection: u64,
        link: LinkId,
    },
    /// A frame, readable. Only when asked for.
    Trace {
        connection: u64,
        line: String,
    },
}
