//! A connection's begin: who the peer is, and that it is open.

use super::{find, Dispatch, Report};
use crate::engine::{RemoteOpen, SaslInit};
use crate::ids::ConnectionId;
use crate::security::{Exchange, Step};
use crate::time::Time;

impl Dispatch {
    pub(super) fn sasl_init(&mut self, id: ConnectionId, init: SaslInit) {
        let Some(engine) = self.engine(id) else { return };
        let offered = engine.settings().clone();
        let (exchange, step) =
            Exchange::begin(&init.mechanism, &offered.sasl_mechanisms, init.initial_response.as_deref());
        if let Some(peer) = find(&mut self.peers, id) {
            peer.exchange = Some((exchange, init.mechanism));
        }
        self.sasl_step(id, step);
    }

    pub(super) fn sasl_response(&mut self, id: ConnectionId, response: &[u8]) {
        let Some(peer) = find(&mut self.peers, id) else { return };
        let step = match &mut peer.exchange {
            Some((exchange, _)) => exchange.respond(Some(response)),
            None => Step::Refused,
        };
        self.sasl_step(id, step);
    }

    fn sasl_step(&mut self, id: ConnectionId, step: Step) {
        let Some(engine) = self.engine(id) else { return };
        let (accepted, user) = match step {
            Step::Challenge(challenge) => return engine.sasl_challenge(&challenge),
            Step::Accepted { user } => (true, Some(user)),
            Step::Refused => (false, None),
        };
        engine.sasl_outcome(accepted);
        let Some(peer) = find(&mut self.peers, id) else { return };
        let mechanism = peer.exchange.take().map(|(_, mechanism)| mechanism).unwrap_or_default();
        if accepted {
            peer.facts.mechanism = Some(mechanism.as_str().into());
            peer.facts.user = user.as_deref().map(Into::into);
        }
        let connection = peer.number;
        self.report(Report::Authenticated { connection, mechanism, user, accepted });
    }

    pub(super) fn opened(&mut self, id: ConnectionId, open: RemoteOpen, now: Time) {
        let Some(peer) = find(&mut self.peers, id) else { return };
        peer.opened = true;
        peer.facts.opened_at = now;
        peer.facts.container = open.container_id.as_str().into();
        peer.facts.properties = open.properties;
        let (connection, link_capacity) = (peer.number, peer.link_capacity);
        self.router.connection_opened(id, link_capacity);
        self.report(Report::ConnectionOpened {
            connection,
            container_id: open.container_id,
            hostname: open.hostname,
            product: open.product,
            version: open.version,
        });
    }
}
