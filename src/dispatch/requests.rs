//! Requests to the router itself, between the router's links and [`super::service`]; rows and changes for control.

use super::proxies::Proxy;
use super::service::{self, Answer, Request, Verdict};
use super::{find, Dispatch, Peer};
use crate::ids::{ConnectionId, DeliveryId, LinkId, Port};
use crate::outcome::{Fault, State};
use crate::payload::Payload;
use crate::routing::{rejected, AddressMatch, AddressRule, Arrival, Marks, Output};
use crate::time::Time;

impl Dispatch {
    /// Serves the addresses of management from now on. To be called before the first connection.
    pub fn serve_management(&mut self, now: Time) {
        for (number, address) in service::ADDRESSES.iter().enumerate() {
            if let Some(link) = self.router.serve(address, service::handle(number)) {
                let window = self.service.serve(link);
                self.router.credit(link, 0, window, false, now);
                self.apply_outputs();
            }
        }
    }

    // ── what the router sends to itself ──

    /// The router itself is sent whole deliveries only.
    #[cold]
    pub(super) fn request_sent(&mut self, port: Port, delivery: DeliveryId, payload: &Payload) {
        let Some(link) = self.router.delivery_origin(delivery) else { return };
        let connection = self.router.port(link).map_or(0, |port| self.number(port.connection));
        self.service.sent(port.link, delivery, self.shard, (link, connection), payload);
    }

    pub(super) fn number(&mut self, id: ConnectionId) -> u64 {
        let here = find(&mut self.peers, id).map(|peer| peer.number);
        here.or_else(|| Some(self.proxies.get(id)?.number())).unwrap_or(0)
    }

    // ── control ──

    /// Whether requests wait to be passed on.
    #[inline]
    pub fn has_requests(&self) -> bool {
        self.service.has_requests()
    }

    /// Whether control had no room for one, so that it is to be offered again in a while.
    #[inline]
    pub fn is_pushed_back(&self) -> bool {
        self.service.is_pushed_back()
    }

    /// Passes requests on; `push` gives one back that it doesn't take. What follows from it is done by `run`.
    pub fn flush_requests(&mut self, mut push: impl FnMut(Request) -> Result<(), Request>, now: Time) {
        let is_full = self.router.settings().memory.is_full();
        while let Some(verdict) = self.service.poll(is_full, |link| self.router.sender_backlog(link).unwrap_or(0)) {
            match verdict {
                Verdict::Ask(delivery, request) => {
                    let connection = request.connection;
                    if let Err(request) = push(request) {
                        return self.service.put_back(delivery, request);
                    }
                    self.service.taken(connection);
                    self.settle_request(delivery, State::ACCEPTED, now);
                }
                Verdict::Reject(delivery, request) => {
                    let text = "answers to earlier requests wait for their receiver, or there is no memory for more";
                    self.settle_request(delivery, rejected("amqp:resource-limit-exceeded", text), now);
                    self.request_over(request.connection, request.address, now);
                }
            }
        }
    }

    fn settle_request(&mut self, delivery: DeliveryId, state: State, now: Time) {
        self.router.receiver_disposition(delivery, service::NO_WIRE, Some(state), true, now);
        self.apply_outputs();
    }

    /// Control's answer to a request: it goes where the request said, and the next one may come.
    pub fn answer(&mut self, answer: Answer, now: Time) {
        let Answer { connection, address, reply } = answer;
        if let Some((to, message)) = reply {
            let router = &mut self.router;
            let attach = |with| router.attach_own_anonymous(with);
            if let Some(from) = self.service.link_for(connection, message.len(), attach) {
                let arrival = Arrival {
                    wire: service::NO_WIRE,
                    message_format: 0,
                    settled: true,
                    complete: true,
                    payload: self.packer.pack_all(&message),
                    to: Some(&to),
                };
                match self.owner_of_address(&to).filter(|owner| *owner != self.shard) {
                    Some(owner) => {
                        self.forward(ConnectionId::ROUTER, from, owner, arrival, now);
                    }
                    None => drop(self.router.delivery(from.1, arrival, now)),
                }
                self.apply_outputs();
            }
        }
        self.request_over(connection, address, now);
    }

    fn request_over(&mut self, connection: u64, address: usize, now: Time) {
        if let Some(from) = self.service.finished(connection) {
            self.own_link_ended(from, now);
        }
        if let Some((link, taken, limit)) = self.service.answered(address) {
            self.router.credit(link, taken, limit, false, now);
        }
        self.apply_outputs();
    }

    /// One more rule for addresses that come from now on.
    pub fn add_rule(&mut self, rule: AddressRule) -> Result<(), String> {
        self.router.add_rule(rule)
    }

    /// Whether there was such a rule.
    pub fn remove_rule(&mut self, matches: &AddressMatch) -> bool {
        self.router.remove_rule(matches)
    }

    /// Marks of an address that is here, for as long as it is; false: it isn't, or the marks can't be.
    pub fn set_alerts(&mut self, address: &str, count: Option<Marks>, size: Option<Marks>) -> bool {
        self.router.set_alerts(address, count, size)
    }

    pub(super) fn of_number(&mut self, number: u64) -> Option<&mut Peer> {
        self.peers.iter_mut().flatten().map(|peer| &mut **peer).find(|peer| peer.number == number)
    }

    /// Closes the connection of this number, as an operator wants it; whether it is here.
    pub fn close_connection(&mut self, number: u64) -> bool {
        let Some(id) = self.of_number(number).filter(|peer| peer.opened).map(|peer| peer.id) else { return false };
        self.void_move(id);
        if let Some(engine) = self.engine(id) {
            engine.close(Some(&Fault::connection("amqp:connection:forced", "closed by management")));
        }
        if let Some(peer) = find(&mut self.peers, id) {
            peer.facts.is_closing = true;
        }
        true
    }

    /// Detaches a peer's link, as an operator wants it; whether it is here.
    pub fn detach_link(&mut self, link: LinkId) -> bool {
        let Some(port) = self.router.port(link) else { return false };
        let is_elsewhere = |proxy: &Proxy| proxy.link_name(port.link).is_some();
        let is_peers =
            self.engine(port.connection).is_some() || self.proxies.get(port.connection).is_some_and(is_elsewhere);
        if is_peers {
            let fault = Fault::link("amqp:detach-forced", "detached by management");
            self.apply(Output::Detach { port, fault });
        }
        is_peers
    }
}
