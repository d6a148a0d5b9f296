//! Figures of links and addresses as rows of their own, to be shown elsewhere: a page at a time, so that reading all
//! of them takes little of any turn.

use crate::ids::{AddressId, LinkId, Port};
use crate::link::Direction;
use crate::routing::blocked::BLOCKED;
use crate::routing::counters::Counters;
use crate::routing::latency::LatencySummary;
use crate::routing::router::Router;
use crate::routing::settings::{AddressAttributes, Treatment};
use crate::routing::threshold::Unit;
use crate::routing::views::{AddressView, LinkView};
use crate::time::Time;

/// An address's figures, copied.
#[derive(Clone, Debug)]
pub struct AddressRow {
    pub id: AddressId,
    /// As management names it: its class, a mobile one's phase, and its name.
    pub key: String,
    /// Known to this router only.
    pub is_local: bool,
    pub treatment: Treatment,
    /// What the configuration says of it.
    pub attributes: AddressAttributes,
    pub senders: u32,
    pub consumers: u32,
    /// Of these, the router itself.
    pub in_process: u32,
    pub counters: Counters,
    /// Deliveries a second, over the last seconds.
    pub ingress_rate: u32,
    pub egress_rate: u32,
    /// From arrival to settlement; a multicast message's until all its copies are settled.
    pub latency: LatencySummary,
    /// Deliveries in the router: waiting and unsettled, a multicast message once a copy.
    pub depth_messages: u64,
    pub depth_bytes: u64,
    /// Of these, the ones that no consumer had room for.
    pub waiting: u32,
    pub count_alert: AlertRow,
    pub size_alert: AlertRow,
    pub credit: CreditRow,
}

/// How a depth stands to its marks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AlertRow {
    pub is_above: bool,
    /// Edges since the address is there.
    pub increasing: u64,
    pub decreasing: u64,
}

/// What an address's consumers take and its senders get.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CreditRow {
    pub local_in_links: u32,
    pub idle_in_links: u32,
    pub local_out_capacity: u64,
    pub remote_in_links: u32,
    pub remote_out_capacity: u64,
    /// What each sender that sends may have in the router.
    pub target_in_credit: u32,
    /// Multicast: how often a consumer was set aside.
    pub set_aside: u64,
}

/// A link's figures, copied.
#[derive(Clone, Debug)]
pub struct LinkRow {
    pub id: LinkId,
    pub port: Port,
    pub direction: Direction,
    /// Its address's key; None: an anonymous sender's.
    pub address: Option<String>,
    /// Detached, and kept for the sake of its last deliveries.
    pub is_ended: bool,
    pub capacity: u32,
    pub counters: Counters,
    pub undelivered: u32,
    /// Without the undelivered ones.
    pub unsettled: u32,
    /// Deliveries that it was done with, a second, over the last seconds.
    pub settle_rate: u32,
    pub credit_available: u32,
    /// How long it has had none; 0 where it has some.
    pub zero_credit_seconds: u32,
    /// Of a sender: unused, waiting and unsettled.
    pub credit_window: Option<u32>,
}

impl AddressRow {
    /// The name that peers use.
    pub fn name(&self) -> &str {
        self.key.get(if self.is_local { 1 } else { 2 }..).unwrap_or_default()
    }

    fn new(id: AddressId, view: &AddressView<'_>, latency: LatencySummary) -> AddressRow {
        let alert = |unit| {
            let (increasing, decreasing) = view.depth().edges_counted(unit);
            AlertRow { is_above: view.depth().is_above(unit), increasing, decreasing }
        };
        let credit = view.credit();
        AddressRow {
            id,
            key: view.key(),
            is_local: view.is_local(),
            treatment: view.treatment(),
            attributes: view.attributes().clone(),
            senders: view.senders() as u32,
            consumers: view.consumers() as u32,
            in_process: 0,
            counters: *view.counters(),
            ingress_rate: view.ingress_rate(),
            egress_rate: view.egress_rate(),
            latency,
            depth_messages: view.depth_messages(),
            depth_bytes: view.depth_bytes(),
            waiting: view.waiting(),
            count_alert: alert(Unit::Messages),
            size_alert: alert(Unit::Bytes),
            credit: CreditRow {
                local_in_links: credit.local_in_links(),
                idle_in_links: credit.idle_in_links(),
                local_out_capacity: credit.local_out_capacity(),
                remote_in_links: credit.remote_in_links(),
                remote_out_capacity: credit.remote_out_capacity(),
                target_in_credit: credit.share(),
                set_aside: credit.set_aside_count(),
            },
        }
    }
}

impl LinkRow {
    /// It has had no credit for long.
    pub fn is_blocked(&self) -> bool {
        u64::from(self.zero_credit_seconds) >= BLOCKED.as_secs()
    }

    fn new(id: LinkId, view: &LinkView<'_>) -> LinkRow {
        let direction = view.direction();
        let undelivered = view.undelivered();
        // A sender's list has those that wait as well.
        let among = if direction == Direction::Incoming { undelivered } else { 0 };
        LinkRow {
            id,
            port: view.port(),
            direction,
            address: view.address().map(|address| address.key()),
            is_ended: view.is_ended(),
            capacity: view.capacity(),
            counters: *view.counters(),
            undelivered,
            unsettled: view.unsettled().saturating_sub(among),
            settle_rate: view.settle_rate(),
            credit_available: view.credit_available(),
            zero_credit_seconds: view.zero_credit().as_secs() as u32,
            credit_window: view.credit_window(),
        }
    }
}

impl Router {
    /// Rows of the addresses in `slots` slots from `from` on, and where the next ones begin; None: there are no more.
    pub fn address_rows(&mut self, from: u32, slots: u32, now: Time) -> (Vec<AddressRow>, Option<u32>) {
        self.begin(now);
        let (page, next) = self.addresses.page(from, slots);
        let ids: Vec<AddressId> = page.map(|(id, _)| id).collect();
        let row = |id| {
            let address = self.addresses.get_mut(id)?;
            address.latency.flush(self.now, &mut self.spread);
            let latency = address.latency.summary();
            let in_process = self.own_consumers(id);
            Some(AddressRow { in_process, ..AddressRow::new(id, &self.address_view(id)?, latency) })
        };
        (ids.into_iter().filter_map(row).collect(), next)
    }

    /// The same of links; the router's own are none that it shows.
    pub fn link_rows(&mut self, from: u32, slots: u32, now: Time) -> (Vec<LinkRow>, Option<u32>) {
        self.begin(now);
        let (page, next) = self.links.page(from, slots);
        let shown = page.filter(|(_, link)| !link.is_own());
        let rows = shown.filter_map(|(id, _)| Some(LinkRow::new(id, &self.link_view(id)?)));
        (rows.collect(), next)
    }
}
