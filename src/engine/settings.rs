//! What an engine is told once, when it is made: one [`Settings`] a listener, shared by its connections.

use crate::limits;
use crate::memory::Memory;
use crate::sabotage;
use std::sync::Arc;
use std::time::Duration;

/// More frames than a peer can have under way.
const INCOMING_WINDOW_MAX: u32 = 1 << 20;

/// Clients recognise the router by it.
pub const PRODUCT: &str = "qpid-dispatch-router";
/// What routers of this protocol family look for in an open.
pub const CAPABILITIES: &[&str] = &["ANONYMOUS-RELAY", "qd.streaming-links"];

/// Settings of a connection; shared by all of a listener's.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Our container-id: the router's id.
    pub container_id: String,
    /// `hostname` of our open; a router leaves it out.
    pub hostname: Option<String>,
    /// `product` and `version` of our open's properties.
    pub product: &'static str,
    pub version: String,
    /// Capabilities that our open offers and desires.
    pub capabilities: &'static [&'static str],
    /// Bytes of the largest frame that we take; at least 512.
    pub max_frame_size: u32,
    /// The highest channel that the peer may use.
    pub channel_max: u16,
    /// The highest handle that the peer may use in a session.
    pub handle_max: u32,
    /// A peer that is silent for so long is closed; zero: never. Our open says half of it.
    pub idle_timeout: Duration,
    /// The mechanisms that are offered, in order. Empty: no SASL layer is served.
    pub sasl_mechanisms: Vec<String>,
    /// Whether a connection without a SASL layer is turned away.
    pub sasl_required: bool,
    /// A peer that hasn't opened by then is closed; zero: never.
    pub handshake_timeout: Duration,
    /// Links of the connection.
    pub links_max: usize,
    /// Unsettled deliveries of a session's links, each way. From the peer, its window opens no further; to the peer none
    /// is sent beyond it.
    pub unsettled_max: usize,
    /// Payload bytes that one session may have in the router, and all sessions of a connection together.
    pub session_incoming_bytes: usize,
    pub connection_incoming_bytes: usize,
    /// The router's account: windows are opened as it allows.
    pub memory: Arc<Memory>,
    /// A listener's `maxSessionFrames`: a session's incoming window in frames. None: as the bytes allow.
    pub max_session_frames: Option<u32>,
    /// Bytes of the largest message that a sender may send; 0: any size.
    pub max_message_size: u64,
    /// Whether routers' annotations are taken off messages that come in, and off those that go out. Dispatch does it.
    pub strip_incoming: bool,
    pub strip_outgoing: bool,
    /// Where our serial numbers start: a session's next-outgoing-id and delivery-ids, a link's delivery-count.
    /// Zero but in tests of their wrapping.
    pub initial_serial: u32,
    /// An error made on purpose, in the simulator.
    pub sabotage: sabotage::Switch,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            container_id: "router".to_owned(),
            hostname: None,
            product: PRODUCT,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            capabilities: CAPABILITIES,
            max_frame_size: limits::MAX_FRAME_SIZE_DEFAULT,
            channel_max: (limits::MAX_SESSIONS_DEFAULT - 1) as u16,
            handle_max: limits::LINKS_PER_SESSION_MAX - 1,
            idle_timeout: Duration::from_secs(16),
            sasl_mechanisms: vec!["ANONYMOUS".to_owned()],
            sasl_required: false,
            handshake_timeout: Duration::from_secs(limits::HANDSHAKE_SECONDS as u64),
            links_max: limits::LINKS_PER_CONNECTION_MAX,
            unsettled_max: limits::UNSETTLED_PER_SESSION_MAX,
            session_incoming_bytes: limits::SESSION_INCOMING_BYTES,
            connection_incoming_bytes: limits::CONNECTION_INCOMING_BYTES,
            memory: Arc::default(),
            max_session_frames: None,
            max_message_size: 0,
            strip_incoming: true,
            strip_outgoing: true,
            initial_serial: 0,
            sabotage: sabotage::Switch::default(),
        }
    }
}

impl Settings {
    /// A session's full incoming window, in frames.
    #[inline]
    pub(super) fn incoming_window_full(&self) -> u32 {
        let by_bytes = self.session_incoming_bytes / self.max_frame_size.max(1) as usize;
        let by_bytes = by_bytes.clamp(1, INCOMING_WINDOW_MAX as usize) as u32;
        self.max_session_frames.map_or(by_bytes, |frames| frames.clamp(1, by_bytes))
    }

    /// Payload bytes that a session may have in the router: what its full window can bring.
    pub(super) fn incoming_bytes_full(&self) -> usize {
        self.incoming_window_full() as usize * self.frame_bytes()
    }

    /// What a frame of the window counts as.
    pub(super) fn frame_bytes(&self) -> usize {
        self.max_frame_size.max(1) as usize
    }

    /// A session's first window, in bytes: wide while little was promised, since there are clients that send a large message
    /// and close at once, which cuts off what the window didn't take. Thousands of sessions that never use theirs leave room
    /// for those that do.
    pub(super) fn incoming_bytes_first(&self) -> usize {
        let least = self.memory.limit() / limits::SESSIONS_UNUSED;
        (self.memory.spare() / limits::SESSIONS_FIRST).max(least)
    }
}
