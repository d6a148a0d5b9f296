//! Facts about connections and links, for whoever logs. Facts, not text.

use super::Dispatch;
use crate::engine::RemoteError;
use crate::ids::LinkId;
use crate::link::Direction;
use crate::routing::Notice;

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

impl Dispatch {
    pub(super) fn report(&mut self, mut report: Report) {
        use Report::{LinkAttached, LinkBlocked, LinkDetached, LinkStuck};
        if let LinkAttached { link, .. }
        | LinkDetached { link, .. }
        | LinkBlocked { link, .. }
        | LinkStuck { link, .. } = &mut report
        {
            // A number that no other shard gives a link.
            let shard = link.shard().unwrap_or(self.shard);
            let number = link.generation.wrapping_mul(u32::from(self.shards)).wrapping_add(u32::from(shard.0));
            *link = LinkId { generation: number, ..*link };
        }
        self.reports.push_back(report);
    }

    /// What is to be said of links that don't go on.
    pub(super) fn report_links(&mut self) {
        while let Some(notice) = self.router.poll_notice() {
            let (Notice::Blocked { link, .. } | Notice::Stuck { link }) = notice;
            let Some(port) = self.router.port(link) else { continue };
            let connection = self.number(port.connection);
            self.report(match notice {
                Notice::Blocked { seconds, .. } => Report::LinkBlocked { connection, link, seconds },
                Notice::Stuck { .. } => Report::LinkStuck { connection, link },
            });
        }
    }
}
