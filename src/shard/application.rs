//! What lives behind a shard's sockets, as the sockets see it.
//!
//! The turn (`turn.rs`) moves bytes and knows nothing of AMQP; the application ([`super::serve::Serve`], or an
//! echo in the tests) makes output of input and knows nothing of rings.

use crate::engine::Transmit;
use crate::ids::{ConnectionId, ShardId};
use crate::payload::Range;
use crate::shard::mailbox::Order;
use crate::shard::Listener;
use crate::telemetry::Counters;
use crate::time::Time;
use std::net::SocketAddr;

pub trait Application {
    /// What it tells itself on other shards.
    type Parcel: Send;
    /// A connection on its way to another shard.
    type Moved: Send;

    /// From now on connections of this listener may come, here or on another shard.
    fn listens(&mut self, _listener: &Listener) {}

    /// A connection was accepted. Its id stays until `closed`.
    fn accepted(&mut self, id: ConnectionId, listener: &Listener, peer: Option<SocketAddr>, now: Time);

    /// Bytes came.
    fn received(&mut self, id: ConnectionId, bytes: Range, now: Time);

    /// The peer sends no more, or the connection broke.
    fn end_of_stream(&mut self, id: ConnectionId, now: Time);

    /// The moment that `connection_timeout` named has come (or an earlier one).
    fn handle_timeout(&mut self, id: ConnectionId, now: Time);

    /// Whether bytes are to be read at all now.
    fn wants_input(&mut self, id: ConnectionId) -> bool;

    fn connection_timeout(&mut self, id: ConnectionId) -> Option<Time>;

    /// All that completed since the last turn was told. Do what follows from it and put each connection that may have
    /// output, an end or another time-out into `touched` (more than once does no harm).
    fn run(&mut self, now: Time, touched: &mut Vec<ConnectionId>);

    /// What it has for itself on other shards goes to `push`, which gives it back where there is no room now.
    fn flush_parcels(&mut self, push: impl FnMut(ShardId, Self::Parcel) -> Result<(), Self::Parcel>);

    /// Something of its own came from another shard.
    fn handle_parcel(&mut self, from: ShardId, parcel: Self::Parcel, now: Time);

    /// A connection that should live on another shard. From now on it is told of nothing but `received` and `transmitted`, until
    /// `take` or `closed`.
    fn poll_move(&mut self) -> Option<(ConnectionId, ShardId)>;

    /// Takes a connection out that is to move. None: it stays after all.
    fn take(&mut self, id: ConnectionId, now: Time) -> Option<Self::Moved>;

    /// A connection came from another shard. Its id stays until `closed`, or until it moves again.
    fn adopt(&mut self, id: ConnectionId, moved: Self::Moved, now: Time);

    /// When to call `run` though nothing happens.
    fn next_timeout(&mut self) -> Option<Time>;

    /// What there is to send. Its buffers are the kernel's until `transmitted` gives them back.
    fn poll_transmit(&mut self, id: ConnectionId, now: Time) -> Option<Transmit>;

    /// The shard made a buffer of its own, which comes back by `transmitted` like those of `poll_transmit`.
    fn lent(&mut self, _transmit: &Transmit) {}

    /// A send is over; `transmit` may be used again once cleared.
    fn transmitted(&mut self, transmit: Transmit);

    /// Nothing more will come out, and nothing more is wanted: the socket may end once its output is sent.
    fn is_finished(&mut self, id: ConnectionId) -> bool;

    /// The socket is gone.
    fn closed(&mut self, id: ConnectionId, now: Time);

    /// An order that isn't the turn's own.
    fn order(&mut self, order: Order, now: Time);

    /// End every connection in an orderly way; their ends show in `is_finished`.
    fn stop(&mut self, now: Time);

    /// Adds what it counted itself.
    fn count(&self, counters: &mut Counters);

    /// Accepting on this listener failed and rests.
    fn accept_failed(&mut self, listener: u32, errno: i32);
}
