//! Our incoming windows: what peers may send, in frames of the largest size, within what the router may hold.
//!
//! A session's window is bounded by what the router holds of the session and by its unsettled deliveries, by what it holds
//! of and promised to the connection, by what it promised to all, and by use: it begins small and doubles each time that half of it was used
//! up, so that sessions which send nothing keep nothing back. Whatever the bounds say, a session of which nothing is held
//! gets one frame: each can go on, one frame at a time, and what it sends has to leave before the next. That frame is in no
//! account until it comes, or until there is room for it: sessions cost a peer little, and must not use up what others are
//! promised.
//!
//! The unsettled deliveries that a session has and those that its window can bring are `unsettled_max` at most, but that one
//! which still arrives counts already: its rest may come whatever else is unsettled, a frame at a time. A peer may begin others
//! with these frames, so they end where there are as many beyond `unsettled_max` as the session has links. Others that wait in
//! the router may be waiting for just this one: then their places are lent (`routing/relief.rs`); credit bounds how many wait.
//!
//! What a window promises is settled with the router's account when a window is told, not with each frame: in between the
//! account has a little too much, never too little.

use super::connection::Engine;
use super::Settings;
use crate::memory::Memory;
use std::sync::Arc;

/// Payload of a connection that is in the router, and what may come.
pub(super) struct Held {
    memory: Arc<Memory>,
    pub bytes: usize,
    promised_bytes: usize,
    /// What its sessions and links count as.
    kept_bytes: usize,
    /// The most links at a time since there was none.
    pub link_places: usize,
}

impl Held {
    pub(super) fn new(memory: Arc<Memory>) -> Held {
        Held { memory, bytes: 0, promised_bytes: 0, kept_bytes: 0, link_places: 0 }
    }

    /// A session or a link is there, or a part of one.
    pub(super) fn keep(&mut self, bytes: usize) {
        self.kept_bytes += bytes;
        self.memory.add(bytes);
    }

    /// It is gone.
    pub(super) fn let_go(&mut self, bytes: usize) {
        self.kept_bytes -= bytes;
        self.memory.remove(bytes);
    }

    /// The connection ends: nothing more comes.
    pub(super) fn break_promises(&mut self) {
        self.memory.redeem(std::mem::take(&mut self.promised_bytes));
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.break_promises();
        self.memory.remove(self.kept_bytes);
    }
}

impl super::session::Session {
    /// Frames that may come by what the router holds of this session, up to `target` bytes.
    fn window_wanted(&self, target: usize, settings: &Settings) -> u32 {
        let frame_bytes = settings.frame_bytes();
        let left = settings.incoming_bytes_full().saturating_sub(self.held_bytes);
        let frames = (left.min(target) / frame_bytes).min(self.window_by_unsettled(settings));
        settings.incoming_window_full().min(frames.min(u32::MAX as usize) as u32)
    }

    /// Frames that may come by its unsettled deliveries.
    fn window_by_unsettled(&self, settings: &Settings) -> usize {
        let count = self.incoming_count();
        let bound = settings.unsettled_max + self.places_lent as usize;
        let goes_on = self.arriving > 0 && count < bound + self.handles.len();
        bound.saturating_sub(count).max(goes_on.into())
    }

    /// Whether it has as many unsettled deliveries as it may, or more.
    pub(super) fn is_at_unsettled_bound(&self, settings: &Settings) -> bool {
        self.incoming_count() >= settings.unsettled_max
    }
}

impl Engine {
    /// Opens a session's window as far as may be, and gives it; the peer is to be told.
    pub(super) fn widen_window(&mut self, channel: u16) -> u32 {
        let frame_bytes = self.settings.frame_bytes();
        let Some(Some(session)) = self.sessions.get_mut(usize::from(channel)) else { return 0 };
        if session.end_sent {
            return 0;
        }
        if session.arriving == 0 || !session.is_at_unsettled_bound(&self.settings) {
            session.places_lent = 0;
        }
        let memory = &self.settings.memory;
        // What came since the last time is held now, or gone.
        let outstanding = session.promised_bytes.min(session.incoming_window as usize * frame_bytes);
        memory.redeem(session.promised_bytes - outstanding);
        self.held.promised_bytes -= session.promised_bytes - outstanding;
        let is_used = session.incoming_window <= session.incoming_window_told / 2 && session.incoming_window_told > 0;
        let target = session.window_bytes.max(frame_bytes).saturating_mul(if is_used { 2 } else { 1 });
        let wanted = (session.window_wanted(target, &self.settings) as usize * frame_bytes).saturating_sub(outstanding);
        let held = self.held.bytes + self.held.promised_bytes;
        let by_connection = self.settings.connection_incoming_bytes.saturating_sub(held);
        let granted = memory.promise(wanted.min(by_connection / frame_bytes * frame_bytes));
        let frames = granted / frame_bytes;
        memory.redeem(granted - frames * frame_bytes);
        session.promised_bytes = outstanding + frames * frame_bytes;
        self.held.promised_bytes += frames * frame_bytes;
        let is_idle = session.held_bytes == 0 && session.window_by_unsettled(&self.settings) > 0;
        let window = (session.promised_bytes / frame_bytes) as u32;
        let window = window.max(u32::from(is_idle)).max(session.incoming_window);
        if window > session.incoming_window {
            session.incoming_window = window;
            session.incoming_window_told = session.incoming_window;
            session.window_bytes = target.min(self.settings.incoming_bytes_full());
            session.incoming_window_low = (session.window_bytes / frame_bytes / 2) as u32;
        }
        session.incoming_window
    }

    /// A session ends: nothing more comes on it.
    pub(super) fn break_promise(&mut self, channel: u16) {
        let Some(session) = self.session_mut(channel) else { return };
        let promised = std::mem::take(&mut session.promised_bytes);
        session.incoming_window = 0;
        self.held.promised_bytes -= promised;
        self.settings.memory.redeem(promised);
    }
}
