//! Dispatch behind a shard's sockets: what the turn says goes to it, what it has to report goes to control.

use super::application::Application;
use super::mailbox::{Mailbox, Order, Report};
use super::Listener;
use crate::dispatch::{Dispatch, Moved};
use crate::engine::Transmit;
use crate::ids::{ConnectionId, ShardId};
use crate::mesh::Parcel;
use crate::payload::Range;
use crate::telemetry::Counters;
use crate::time::Time;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

pub struct Serve {
    dispatch: Dispatch,
    mailbox: Arc<Mailbox>,
    reports_missed: u64,
    /// The latest turn's.
    now: Time,
}

/// When edges that control's full queue didn't take are offered again.
const EDGES_RETRY: Duration = Duration::from_millis(10);

impl Serve {
    pub fn new(dispatch: Dispatch, mailbox: Arc<Mailbox>) -> Serve {
        Serve { dispatch, mailbox, reports_missed: 0, now: Time::ZERO }
    }

    fn report(&mut self, report: Report) {
        if !self.mailbox.report(report) {
            self.reports_missed += 1;
        }
    }

    #[inline]
    fn pass_reports(&mut self) {
        while let Some(report) = self.dispatch.poll_report() {
            self.report(Report::Served(report));
        }
        // Not dropped when control is behind: the router keeps what isn't taken.
        let mailbox = &self.mailbox;
        self.dispatch.flush_edges(|address, edge| {
            mailbox.report(Report::ThresholdCrossed { address: address.into(), edge: *edge })
        });
    }
}

impl Application for Serve {
    type Parcel = Parcel;
    type Moved = Moved;

    fn accepted(&mut self, id: ConnectionId, listener: &Listener, peer: Option<SocketAddr>, now: Time) {
        let connection = self.dispatch.accepted(id, &listener.engine, listener.link_capacity, now);
        self.report(Report::ConnectionAccepted { connection, listener: listener.number, peer });
    }

    #[inline]
    fn received(&mut self, id: ConnectionId, bytes: Range, now: Time) {
        self.dispatch.received(id, bytes, now);
    }

    fn end_of_stream(&mut self, id: ConnectionId, now: Time) {
        self.dispatch.end_of_stream(id, now);
    }

    fn handle_timeout(&mut self, id: ConnectionId, now: Time) {
        self.dispatch.handle_timeout(id, now);
    }

    #[inline]
    fn wants_input(&mut self, id: ConnectionId) -> bool {
        self.dispatch.wants_input(id)
    }

    #[inline]
    fn connection_timeout(&mut self, id: ConnectionId) -> Option<Time> {
        self.dispatch.connection_timeout(id)
    }

    #[inline]
    fn run(&mut self, now: Time, touched: &mut Vec<ConnectionId>) {
        self.now = now;
        self.dispatch.run(now, touched);
        self.pass_reports();
    }

    fn flush_parcels(&mut self, push: impl FnMut(ShardId, Parcel) -> Result<(), Parcel>) {
        self.dispatch.flush_parcels(push);
    }

    fn handle_parcel(&mut self, from: ShardId, parcel: Parcel, now: Time) {
        self.dispatch.handle_parcel(from, parcel, now);
    }

    #[inline]
    fn poll_move(&mut self) -> Option<(ConnectionId, ShardId)> {
        self.dispatch.poll_move()
    }

    fn take(&mut self, id: ConnectionId, now: Time) -> Option<Moved> {
        self.dispatch.take(id, now)
    }

    fn adopt(&mut self, id: ConnectionId, moved: Moved, now: Time) {
        self.dispatch.adopt(id, moved, now);
    }

    fn next_timeout(&mut self) -> Option<Time> {
        let timeout = self.dispatch.next_timeout();
        if !self.dispatch.has_edges() {
            return timeout;
        }
        // Control was behind: look again soon, though nothing else happens.
        let soon = self.now + EDGES_RETRY;
        Some(timeout.map_or(soon, |timeout| timeout.min(soon)))
    }

    #[inline]
    fn poll_transmit(&mut self, id: ConnectionId, _: Time) -> Option<Transmit> {
        self.dispatch.poll_transmit(id)
    }

    #[inline]
    fn transmitted(&mut self, transmit: Transmit) {
        self.dispatch.transmitted(transmit);
    }

    #[inline]
    fn is_finished(&mut self, id: ConnectionId) -> bool {
        self.dispatch.is_finished(id)
    }

    fn closed(&mut self, id: ConnectionId, now: Time) {
        self.dispatch.closed(id, now);
        self.pass_reports();
    }

    fn order(&mut self, order: Order, now: Time) {
        match order {
            Order::SetTrace(on) => self.dispatch.set_trace(on),
            Order::SetConnectionTrace { connection, on } => {
                self.dispatch.set_connection_trace(connection, on);
            }
            Order::Page { table, from } => self.mailbox.answer(self.dispatch.page(table, from, now)),
            Order::Publish { address, edge, timestamp } => self.dispatch.publish(&address, edge, timestamp),
            _ => {}
        }
    }

    fn stop(&mut self, _: Time) {
        self.dispatch.stop();
    }

    fn count(&self, counters: &mut Counters) {
        counters.deliveries_in = self.dispatch.deliveries_in;
        counters.deliveries_out = self.dispatch.deliveries_out;
        counters.reports_missed += self.reports_missed;
    }

    fn accept_failed(&mut self, listener: u32, errno: i32) {
        self.report(Report::AcceptPaused { listener, errno });
    }
}
