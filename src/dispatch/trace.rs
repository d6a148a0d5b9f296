//! The frame trace: of every connection, or of some.

use super::{find, Dispatch, Report};
use crate::ids::ConnectionId;

/// Which connections' frames are reported.
pub(super) struct Trace {
    /// New connections' are.
    pub is_of_all: bool,
    /// Some connection's may be: off, the trace costs this branch.
    pub is_any: bool,
}

impl Trace {
    pub fn new(is_of_all: bool) -> Trace {
        Trace { is_of_all, is_any: is_of_all }
    }
}

impl Dispatch {
    /// Report every frame from now on, or none.
    pub fn set_trace(&mut self, on: bool) {
        self.trace = Trace::new(on);
        for peer in self.peers.iter_mut().flatten() {
            peer.engine.set_trace(on);
        }
    }

    /// Report the frames of one connection from now on, or don't. Gives whether there is one of that number.
    pub fn set_connection_trace(&mut self, number: u64, on: bool) -> bool {
        let Some(peer) = self.of_number(number) else { return false };
        peer.engine.set_trace(on);
        self.trace.is_any |= on;
        true
    }

    #[cold]
    pub(super) fn drain_trace(&mut self, id: ConnectionId) {
        while let Some(peer) = find(&mut self.peers, id) {
            let Some(line) = peer.engine.poll_trace() else { return };
            let connection = peer.number;
            self.report(Report::Trace { connection, line });
        }
    }
}
