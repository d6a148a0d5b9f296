//! Attaching links: what an address is, who may use it, and what is refused.

use crate::arena::Arena;
use crate::ids::{AddressId, LinkId};
use crate::limits;
use crate::link::{Direction, Terminus};
use crate::outcome::Fault;
use crate::routing::address::Address;
use crate::routing::counters::Counters;
use crate::routing::credit::CreditSettings;
use crate::routing::link::{Consumer, End, Link, Sender};
use crate::routing::name::{self, Class, Name};
use crate::routing::own::own_handle;
use crate::routing::rate::Rate;
use crate::routing::router::{Attach, Attached, Router};
use crate::routing::settings::{AddressAttributes, RouterSettings, Treatment};
use crate::routing::table::AddressTable;
use crate::routing::threshold::EdgeOutbox;
use crate::time::Time;

/// What `qdrouterd` says, since clients compare it.
const NO_COORDINATOR: &str =
    "The router can't coordinate transactions by itself, a linkRoute to a coordinator must be \
                              configured to use transactions.";

impl Router {
    /// A peer attaches a link: accepted with a token for it, or refused.
    pub fn attach(&mut self, attach: Attach<'_>, now: Time) -> Result<Attached, Fault> {
        self.begin(now);
        let Some(capacity) = self.connections.link_capacity(attach.port.connection) else {
            return Err(Fault::link("amqp:internal-error", "the link's connection is unknown"));
        };
        let (address, dynamic_address) = self.terminus_address(attach.direction, attach.terminus)?;
        let subscribes = self.is_subscription(attach.direction, attach.terminus);
        // The subscriber's address is its own; it goes by the common one.
        let dynamic_address = dynamic_address.filter(|_| !subscribes);
        let id = self.links.insert(Link {
            port: attach.port,
            session_slot: 0,
            session_position: 0,
            connection_position: 0,
            address,
            address_position: 0,
            sender_settle_mode: attach.sender_settle_mode,
            receiver_settle_mode: attach.receiver_settle_mode,
            counters: Counters::default(),
            end: End::Sender(Sender::anonymous(capacity)),
        });
        self.enlist(id, &attach, capacity);
        let subscription = address.filter(|_| subscribes);
        let events_from = subscription.map(|address| self.attach_own_sender(own_handle(id), Some(address)));
        Ok(Attached {
            link: id,
            dynamic_address,
            events_from,
            sender_settle_mode: attach.sender_settle_mode,
            receiver_settle_mode: attach.receiver_settle_mode,
        })
    }

    /// Whether who attaches so is to receive threshold events.
    pub fn is_subscription(&self, direction: Direction, terminus: &Terminus) -> bool {
        if direction != Direction::Outgoing {
            return false;
        }
        let Terminus::Node { address: Some(text), dynamic: false, .. } = terminus else { return false };
        name::parse(text, &self.settings.router_id).is_some_and(is_events)
    }

    /// Puts a new link into the lists of its connection and its address; a sender may get credit.
    pub(super) fn enlist(&mut self, id: LinkId, attach: &Attach<'_>, capacity: u32) {
        self.watch.stir();
        let is_sender = attach.direction == Direction::Incoming;
        let place = self.connections.add_link(attach.port.connection, attach.session, id, is_sender);
        let Some(link) = self.links.get_mut(id) else { return };
        if let Some(place) = place {
            link.connection_position = place.position;
            (link.session_slot, link.session_position) = (place.session, place.session_position);
        }
        let now = self.now;
        let Some(address_id) = link.address else {
            link.begin(now);
            self.mark_dirty(id);
            return;
        };
        let Some(address) = self.addresses.get_mut(address_id) else { return };
        if address.senders.is_empty() && address.consumers.is_empty() {
            (address.ingress_rate, address.egress_rate) = (Rate::since(now), Rate::since(now));
        }
        let list = match attach.direction {
            Direction::Incoming => {
                link.end = End::Sender(Sender::new(address.join_sender(id, capacity)));
                &mut address.senders
            }
            Direction::Outgoing => {
                let (slot, candidate) = address.join_consumer(id, capacity);
                link.end = End::Consumer(Consumer::new(slot, candidate));
                &mut address.consumers
            }
        };
        link.begin(now);
        link.address_position = list.len() as u32;
        list.push(id);
        self.push_work(address_id);
    }

    /// The address that a terminus names, made where it is new. None: an anonymous sender's. With the text of a
    /// dynamic one.
    fn terminus_address(
        &mut self,
        direction: Direction,
        terminus: &Terminus,
    ) -> Result<(Option<AddressId>, Option<String>), Fault> {
        let (text, dynamic) = match terminus {
            Terminus::Coordinator => {
                return Err(Fault::link("amqp:precondition-failed", NO_COORDINATOR));
            }
            Terminus::Absent => (None, false),
            Terminus::Node { address, dynamic, .. } => (address.as_deref(), *dynamic),
        };
        if dynamic {
            return self.dynamic_address(direction).map(|(id, text)| (Some(id), Some(text)));
        }
        if text.is_some_and(|text| text.len() > limits::ADDRESS_BYTES_MAX) {
            return Err(Fault::link("amqp:invalid-field", "the address is too long"));
        }
        let router_id = self.settings.router_id.as_str();
        let name = text.and_then(|text| name::parse(text, router_id));
        match (direction, name) {
            (Direction::Incoming, None) => Ok((None, None)),
            (Direction::Outgoing, None) => {
                Err(Fault::link("qd:no-route-to-dest", "no route to the destination node: it has no address"))
            }
            (Direction::Outgoing, Some(name)) if self.is_served(name) => {
                Err(Fault::link("amqp:unauthorized-access", "only the router consumes from this address"))
            }
            (Direction::Outgoing, Some(Name { class: Class::Local | Class::Router, .. })) => {
                Err(Fault::link("amqp:not-found", "the address belongs to the router"))
            }
            (Direction::Incoming, Some(Name { class: Class::Router, .. })) => {
                Err(Fault::link("qd:no-route-to-dest", "no route to the destination node"))
            }
            (Direction::Outgoing, Some(name)) if is_events(name) => {
                self.dynamic_address(direction).map(|(id, text)| (Some(id), Some(text)))
            }
            (Direction::Incoming, Some(name)) if is_events(name) => {
                Err(Fault::link("amqp:unauthorized-access", "only the router sends to this address"))
            }
            (_, Some(name)) => {
                let id = find_or_make(&mut self.addresses, &mut self.table, &self.settings, &mut self.edges, name)?;
                Ok((Some(id), None))
            }
        }
    }

    fn dynamic_address(&mut self, direction: Direction) -> Result<(AddressId, String), Fault> {
        let text = match direction {
            Direction::Outgoing => self.temporary_names.local(&self.settings.router_id),
            Direction::Incoming => self.temporary_names.mobile(),
        };
        let Some(name) = name::parse(&text, &self.settings.router_id) else {
            return Err(Fault::link("amqp:internal-error", "no name for a dynamic node"));
        };
        let id = find_or_make(&mut self.addresses, &mut self.table, &self.settings, &mut self.edges, name)?;
        Ok((id, text))
    }
}

/// Whether this is the address of threshold events.
pub(super) fn is_events(name: Name<'_>) -> bool {
    name.class == Class::Mobile && name.rest == name::EVENTS_ADDRESS
}

fn find_or_make(
    addresses: &mut Arena<AddressId, Address>,
    table: &mut AddressTable,
    settings: &RouterSettings,
    edges: &mut EdgeOutbox<Box<str>>,
    name: Name<'_>,
) -> Result<AddressId, Fault> {
    if let Some(id) = table.find(name) {
        return Ok(id);
    }
    let attributes = match name.class {
        Class::Mobile => settings.rules.find(name.rest).cloned().unwrap_or_default(),
        // One consumer, and no rule is for it.
        Class::Local | Class::Router => {
            AddressAttributes { treatment: Some(Treatment::Closest), ..AddressAttributes::default() }
        }
    };
    let treatment = attributes.treatment.unwrap_or(settings.default_treatment);
    if treatment == Treatment::Unavailable {
        return Err(Fault::link("amqp:not-found", "Node not found"));
    }
    Ok(make(addresses, table, settings, edges, name, treatment, attributes))
}

/// A new address.
pub(super) fn make(
    addresses: &mut Arena<AddressId, Address>,
    table: &mut AddressTable,
    settings: &RouterSettings,
    edges: &mut EdgeOutbox<Box<str>>,
    name: Name<'_>,
    treatment: Treatment,
    attributes: AddressAttributes,
) -> AddressId {
    let credit = CreditSettings {
        flow_control: attributes.flow_control.unwrap_or(settings.flow_control),
        slack_percent: attributes.credit_slack_percent.unwrap_or(settings.credit_slack_percent),
        multicast: treatment == Treatment::Multicast,
        multicast_stall: settings.multicast_stall,
        drain_wait: settings.drain_wait,
        sabotage: settings.sabotage,
    };
    let (count, size) = (attributes.alert_count, attributes.alert_size);
    let mut address = Address::new(name, treatment, attributes, credit);
    address.depth.set_marks(count, size, |edge| edges.raise(name.rest.into(), edge));
    let id = addresses.insert(address);
    table.insert(name, id);
    id
}
