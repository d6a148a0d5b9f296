//! Links of the router's own ([`ConnectionId::ROUTER`]): on them it sends what it has to say itself, and consumes from
//! addresses that it serves. Credit, waiting, settlement and loss are those of any other link.

use crate::ids::{AddressId, ConnectionId, DeliveryId, LinkHandle, LinkId, Port, SessionNumber};
use crate::limits;
use crate::link::{Direction, ReceiverSettleMode, SenderSettleMode, Terminus};
use crate::routing::attach::make;
use crate::routing::counters::Counters;
use crate::routing::link::{End, Link, Sender};
use crate::routing::name::{self, Name};
use crate::routing::router::{Attach, Router};
use crate::routing::settings::{AddressAttributes, Treatment};

/// The handle of the router's own link that goes with a peer's.
pub fn own_handle(link: LinkId) -> LinkHandle {
    LinkHandle { index: link.index, generation: link.generation }
}

impl Router {
    /// The router consumes from an address itself, in place of everybody else: each delivery comes as an `Output::Send` to
    /// [`ConnectionId::ROUTER`] and `handle`, as far as `credit` allows. Whatever the rules say, the address is
    /// available. To be called before any peer's link is attached. None: it names nothing that could be served.
    pub fn serve(&mut self, address: &str, handle: LinkHandle) -> Option<LinkId> {
        let name = name::parse(address, &self.settings.router_id)?;
        if self.table.find(name).is_some() {
            return None;
        }
        let attributes = AddressAttributes { treatment: Some(Treatment::Closest), ..AddressAttributes::default() };
        let id = make(
            &mut self.addresses,
            &mut self.table,
            &self.settings,
            &mut self.edges,
            name,
            Treatment::Closest,
            attributes,
        );
        Some(self.attach_own(handle, Some(id), Direction::Outgoing, SenderSettleMode::Mixed))
    }

    /// A link on which the router sends settled messages to whatever address each names, for the peer's link `with`.
    pub fn attach_own_anonymous(&mut self, with: LinkId) -> LinkId {
        self.attach_own_sender(own_handle(with), None)
    }

    /// Whose delivery this is: the link that it came in on.
    pub fn delivery_origin(&self, id: DeliveryId) -> Option<LinkId> {
        self.deliveries.slot(id).map(|slot| self.deliveries[slot].in_link)
    }

    /// Consumers of an address that are the router's own.
    pub fn own_consumers(&self, id: AddressId) -> u32 {
        u32::from(self.addresses.get(id).is_some_and(|address| self.is_own(address.consumers.first())))
    }

    fn is_own(&self, link: Option<&LinkId>) -> bool {
        link.and_then(|link| self.port(*link)).is_some_and(|port| port.connection == ConnectionId::ROUTER)
    }

    /// Deliveries of a sender's link that are in the router, waiting ones on other shards included. None: there is no such link, or it is detached.
    pub fn sender_backlog(&self, link: LinkId) -> Option<u32> {
        let sender = self.links.get(link)?.sender()?;
        let elsewhere = sender.fixed.as_ref().map_or(0, |fixed| fixed.waiting_elsewhere());
        (!sender.ended).then_some(sender.deliveries.len + elsewhere)
    }

    /// Whether the router itself consumes from this address.
    pub(super) fn is_served(&self, name: Name<'_>) -> bool {
        let address = self.table.find(name).and_then(|id| self.addresses.get(id));
        // Nobody else may consume there, so its own link is the only one.
        address.is_some_and(|address| self.is_own(address.consumers.first()))
    }

    pub(super) fn attach_own_sender(&mut self, handle: LinkHandle, address: Option<AddressId>) -> LinkId {
        self.attach_own(handle, address, Direction::Incoming, SenderSettleMode::Settled)
    }

    fn attach_own(
        &mut self,
        handle: LinkHandle,
        address: Option<AddressId>,
        direction: Direction,
        sender_settle_mode: SenderSettleMode,
    ) -> LinkId {
        let capacity = limits::LINK_CAPACITY_DEFAULT;
        self.connections.open_own(capacity);
        let port = Port { connection: ConnectionId::ROUTER, link: handle };
        let id = self.links.insert(Link {
            port,
            session_slot: 0,
            session_position: 0,
            connection_position: 0,
            address,
            address_position: 0,
            sender_settle_mode,
            receiver_settle_mode: ReceiverSettleMode::First,
            counters: Counters::default(),
            end: End::Sender(Sender::anonymous(capacity)),
        });
        let attach = Attach {
            port,
            session: SessionNumber(0),
            direction,
            terminus: &Terminus::Absent,
            name: "",
            sender_settle_mode,
            receiver_settle_mode: ReceiverSettleMode::First,
        };
        self.enlist(id, &attach, capacity);
        id
    }
}
