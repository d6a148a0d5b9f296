//! The bounds that several rooms share, one line each, and where they come from. What a peer can grow has its bound here, or, where one
//! file alone is concerned, at that file's head (`…_MAX`).

/// Bytes of a chunk that waiting payload is packed into, and of a receive chunk on kernels before 6.12. What a peer may make wait is
/// counted in such.
pub const CHUNK_BYTES: usize = 64 * 1024;

/// Bytes of a receive chunk: what one read can bring at most. Measured with bodies of 10 kB: 64 KiB cost 1.4 times as much CPU a
/// message, since turns were small; twice as much gains nothing.
pub const RECEIVE_CHUNK_BYTES: usize = 256 * 1024;

/// A payload shorter than this is copied once into the output; a longer one is sent from the chunk that
/// received it. By `cargo bench --bench copy` both cost the same at 1 KiB; at 256 bytes laying ranges costs 1.8 times
/// as much, at 4 KiB copying 1.2 times.
pub const COPY_BYTES_MAX: usize = 2048;

/// Output bytes of one connection, not yet handed to the kernel, above which its links have no room.
pub const OUTPUT_MARK_BYTES: usize = 256 * 1024;

/// The same while memory is tight.
pub const OUTPUT_MARK_TIGHT_BYTES: usize = OUTPUT_MARK_BYTES / 16;

/// Longest frame that we send, whatever the peer allows: a quarter of the output's mark, so that one frame of a large
/// message neither overshoots it by much nor holds up the other links.
pub const SENT_FRAME_BYTES_MAX: usize = OUTPUT_MARK_BYTES / 4;

/// Default of a listener's `linkCapacity`: deliveries that a sender's link may have granted.
pub const LINK_CAPACITY_DEFAULT: u32 = 250;

/// Default and floor of a listener's `maxFrameSize` (floor: AMQP 1.0, section 2.4.1).
pub const MAX_FRAME_SIZE_DEFAULT: u32 = 16_384;
pub const MAX_FRAME_SIZE_MIN: u32 = 512;

/// Default of a listener's `maxSessions`; channel-max is one less.
pub const MAX_SESSIONS_DEFAULT: u32 = 32_768;

/// Payload bytes that one session may have in the router; our incoming window is what is left of it, in frames.
pub const SESSION_INCOMING_BYTES: usize = 4 * 1024 * 1024;

/// Payload bytes that all sessions of a connection may have in the router. Beyond it each of them still gets a frame while
/// it has none there.
pub const CONNECTION_INCOMING_BYTES: usize = 4 * SESSION_INCOMING_BYTES;

/// A session's first window is this part of what is spare of the memory (an eighth of the limit, less what was promised or is
/// used): the first ones' are full, and 700 later they are down to `SESSIONS_UNUSED`.
pub const SESSIONS_FIRST: usize = 256;

/// At least, its first window is this part of the memory limit. It doubles each time that half of it was used. A quarter of the
/// limit may be promised: 5000 sessions that use theirs never have one each.
pub const SESSIONS_UNUSED: usize = 32 * 1024;

/// Entities of a type that are kept at the same time, configured or made over management: listeners, each of which has
/// sockets of its own; rules for addresses and whatever else takes memory alone.
pub const LISTENERS_MAX: usize = 1024;
pub const ENTITIES_MAX: usize = 100_000;

/// Least `memoryLimit`: receive chunks, packing chunks and a few outputs of a full mark.
pub const MEMORY_LIMIT_MIN: usize = 16 * 1024 * 1024;

/// What a link counts as against the memory limit, beside its name and addresses; and a session.
pub const LINK_BYTES: usize = 1024;
pub const SESSION_BYTES: usize = 1024;

/// What of a link's bytes counts on when it is gone, for the place that it had, until its connection has no link.
pub const LINK_PLACE_BYTES: usize = LINK_BYTES / 2;

/// How long a peer may take to open its connection, where the listener's `initialHandshakeTimeoutSeconds` is 0. qdrouterd
/// waits for ever then; who sends a byte now and then would hold a connection for ever.
pub const HANDSHAKE_SECONDS: u32 = 60;

/// Responses of a peer in one SASL exchange; no mechanism that is served needs half of it.
pub const SASL_STEPS_MAX: u8 = 8;

/// Default of a listener's `maxUnsettled`.
pub const UNSETTLED_PER_SESSION_MAX: usize = 128 * 1024;

/// Links of one session: our handle-max is one less.
pub const LINKS_PER_SESSION_MAX: u32 = 65_536;

/// Default of a listener's `maxLinks`: links of one connection, whatever its sessions.
pub const LINKS_PER_CONNECTION_MAX: usize = 65_536;

/// A link's name, of which each link keeps a copy.
pub const LINK_NAME_BYTES_MAX: usize = 2_048;

/// A delivery tag's longest form (AMQP 1.0, section 2.8.7).
pub const DELIVERY_TAG_BYTES_MAX: usize = 32;

/// An incomplete message is buffered up to this many bytes, then it streams.
pub const STREAM_BYTES_MIN: usize = 64 * 1024;

/// A request's bytes; a longer one isn't taken in.
pub const REQUEST_BYTES_MAX: usize = 256 * 1024;

/// A consumer's window as the credit rule counts it, whatever credit it gives.
pub const CONSUMER_WINDOW_MAX: u32 = 100_000;

/// Longest address that an attach or a message may name.
pub const ADDRESS_BYTES_MAX: usize = 2_048;

/// Default of `creditSlack`: what may wait in the router, in percent of the consumers' windows.
pub const CREDIT_SLACK_PERCENT_DEFAULT: u32 = 100;

/// How long a consumer's drain waits for the senders to use or return their credit.
pub const DRAIN_WAIT: std::time::Duration = std::time::Duration::from_millis(50);

/// How long a multicast consumer may take nothing before it is set aside.
pub const MULTICAST_STALL: std::time::Duration = std::time::Duration::from_secs(2);

/// Parcels that a lane from one shard to another takes. A shard sends another one at most one a turn, so this is how many turns
/// the receiver may be behind; what is beyond waits at its sender, which bounds it.
pub const LANE_PARCELS: usize = 64;
