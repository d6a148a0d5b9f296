//! Dispatch behind a shard's sockets: what the turn says goes to it, what it has to report goes to control.

use super::application::Application;
use super::mailbox::{Change, Mailbox, Order, Report};
use super::Listener;
use crate::dispatch::{Dispatch, Moved};
use crate::engine::Transmit;
use crate::ids::{ConnectionId, ShardId};
use crate::mesh::Parcel;
use crate::payload::Range;
use crate::telemetry::Counters;
use crate::time::Time;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

pub struct Serve {
    dispatch: Dispatch,
    mailbox: Arc<Mailbox>,
    reports_missed: u64,
    /// Answers to control that its full queue didn't take.
    answers: VecDeque<Report>,
    /// The latest turn's.
    now: Time,
}

/// When what control's full queue didn't take and mustn't be lost is offered again.
const RETRY: Duration = Duration::from_millis(10);

impl Serve {
    pub fn new(dispatch: Dispatch, mailbox: Arc<Mailbox>) -> Serve {
        Serve { dispatch, mailbox, reports_missed: 0, answers: VecDeque::new(), now: Time::ZERO }
    }

    fn report(&mut self, report: Report) {
        if !self.mailbox.report(report) {
            self.reports_missed += 1;
        }
    }

    #[cold]
    fn pass_requests(&mut self, now: Time) {
        let mailbox = &self.mailbox;
        let push = |request| match mailbox.try_report(Report::Request(request)) {
            Err(Report::Request(request)) => Err(request),
            _ => Ok(()),
        };
        self.dispatch.flush_requests(push, now);
    }

    /// What control waits for: kept until its queue takes it. It has few of them outstanding.
    fn answer(&mut self, report: Report) {
        self.answers.push_back(report);
        self.pass_reports();
    }

    fn change(&mut self, change: Change) -> bool {
        match change {
            Change::AddRule(rule) => self.dispatch.add_rule(*rule).is_ok(),
            Change::RemoveRule(matches) => self.dispatch.remove_rule(&matches),
            Change::SetAlerts { address, count, size } => self.dispatch.set_alerts(&address, count, size),
            Change::CloseConnection(number) => self.dispatch.close_connection(number),
            Change::DetachLink(link) => self.dispatch.detach_link(link),
            Change::TraceConnection { number, on } => self.dispatch.set_connection_trace(number, on),
        }
    }

    #[inline]
    fn pass_reports(&mut self) {
        while let Some(report) = self.dispatch.poll_report() {
            self.report(Report::Served(report));
        }
        // Not dropped when control is behind: what isn't taken is kept.
        while let Some(answer) = self.answers.pop_front() {
            if let Err(answer) = self.mailbox.try_report(answer) {
                self.answers.push_front(answer);
                break;
            }
        }
        let mailbox = &self.mailbox;
        self.dispatch.flush_edges(|address, edge| {
            mailbox.report(Report::ThresholdCrossed { address: address.into(), edge: *edge })
        });
    }
}

impl Application for Serve {
    type Parcel = Parcel;
    type Moved = Moved;

    fn listens(&mut self, listener: &Listener) {
        self.dispatch.listens(&listener.engine);
    }

    fn accepted(&mut self, id: ConnectionId, listener: &Listener, peer: Option<SocketAddr>, now: Time) {
        let connection = self.dispatch.accepted(id, &listener.engine, listener.link_capacity, now);
        self.dispatch.note_peer(id, &peer.map(|peer| peer.to_string()).unwrap_or_default(), listener.number);
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
        if self.dispatch.has_requests() {
            self.pass_requests(now);
            self.dispatch.run(now, touched);
        }
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
        if !self.dispatch.has_edges() && !self.dispatch.is_pushed_back() && self.answers.is_empty() {
            return timeout;
        }
        // Control was behind: look again soon, though nothing else happens.
        let soon = self.now + RETRY;
        Some(timeout.map_or(soon, |timeout| timeout.min(soon)))
    }

    #[inline]
    fn poll_transmit(&mut self, id: ConnectionId, _: Time) -> Option<Transmit> {
        self.dispatch.poll_transmit(id)
    }

    fn lent(&mut self, transmit: &Transmit) {
        self.dispatch.lent(transmit);
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
            Order::Answer(answer) => self.dispatch.answer(answer, now),
            Order::Change { ticket, change } => {
                let done = self.change(change);
                self.answer(Report::Done { ticket, done });
            }
            Order::SetTrace(on) => self.dispatch.set_trace(on),
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
