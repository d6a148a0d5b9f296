//! Parcels: in, note by note, and out.

use super::proxies::Cargo;
use super::Dispatch;
use crate::ids::ShardId;
use crate::mesh::parcel::{Decided, Happened};
use crate::mesh::{Note, Parcel};
use crate::payload::{Packer, Payload};
use crate::time::Time;

/// A parcel's bytes, taken in the order of its notes.
struct Bytes<'p> {
    left: &'p [u8],
}

impl Bytes<'_> {
    fn take(&mut self, count: u32) -> &[u8] {
        let (taken, left) = self.left.split_at((count as usize).min(self.left.len()));
        self.left = left;
        taken
    }

    /// A copy in this shard's memory.
    fn payload(&mut self, count: u32, packer: &mut Packer) -> Payload {
        packer.pack_all(self.take(count))
    }
}

impl Dispatch {
    /// What another shard said. `run` does what follows.
    pub fn handle_parcel(&mut self, from: ShardId, mut parcel: Parcel, now: Time) {
        let mut notes = parcel.take_notes();
        self.outbox.notes_received += notes.len() as u64;
        let mut bytes = Bytes { left: parcel.bytes() };
        for note in notes.drain(..) {
            self.handle_note(from, note, &mut bytes, now);
        }
        self.apply_outputs();
        self.outbox.recycle(from, parcel, notes);
    }

    fn handle_note(&mut self, from: ShardId, note: Note, bytes: &mut Bytes<'_>, now: Time) {
        match note {
            Note::FromHome(port, what) => {
                let cargo = self.cargo_from_home(&what, bytes);
                self.happened(from, port, what, cargo, now);
            }
            Note::FromOwner(port, what) => {
                let payload = match what {
                    Decided::Send { bytes: count, .. } | Decided::SendMore { bytes: count, .. } => {
                        bytes.payload(count, &mut self.packer)
                    }
                    _ => Payload::new(),
                };
                self.decided(from, port, what, payload, now);
            }
            Note::Arrived { proxy, connection } => self.proxy_arrived(from, proxy, connection, now),
            Note::SessionFull { connection, session } => self.session_full_there(from, connection, session, now),
            Note::SessionSent { connection, session, bytes } => {
                self.session_sent(from, connection, session, bytes, now);
            }
            Note::ConnectionOver { connection } => self.connection_over_there(from, connection, now),
            Note::ReceiverDisposition { delivery, wire, state, settled } => {
                if let Some(delivery) = self.router.known_elsewhere(delivery) {
                    self.router.receiver_disposition(delivery, wire, state, settled, now);
                }
            }
            Note::PayloadSent { delivery, bytes, complete } => {
                if let Some(delivery) = self.router.known_elsewhere(delivery) {
                    self.router.payload_sent(delivery, bytes, complete, now);
                }
            }
            Note::Unsent { delivery } => {
                if let Some(delivery) = self.router.known_elsewhere(delivery) {
                    self.router.delivery_unsent(delivery, now);
                }
            }
            Note::Refused { delivery } => {
                if let Some(delivery) = self.router.known_elsewhere(delivery) {
                    self.router.delivery_too_large(delivery, now);
                }
            }
            Note::PayloadReleased { connection, session, bytes } => {
                if let Some(engine) = self.engine(connection) {
                    engine.payload_released(session, bytes);
                }
            }
            Note::PlacesLent { connection, session, places } => {
                if let Some(engine) = self.engine(connection) {
                    engine.places_lent(session, places);
                }
            }
        }
    }

    fn cargo_from_home(&mut self, what: &Happened, bytes: &mut Bytes<'_>) -> Cargo {
        match *what {
            Happened::Delivery { to_bytes, bytes: count, .. } => {
                let to = std::str::from_utf8(bytes.take(u32::from(to_bytes))).ok();
                let to = to.filter(|to| !to.is_empty()).map(str::to_owned);
                Cargo { to, payload: bytes.payload(count, &mut self.packer) }
            }
            Happened::DeliveryMore { bytes: count, .. } => {
                Cargo { to: None, payload: bytes.payload(count, &mut self.packer) }
            }
            _ => Cargo::default(),
        }
    }

    /// What this shard has to tell others, after a `run`: `push` gives a parcel back that it has no room for.
    #[inline]
    pub fn flush_parcels(&mut self, push: impl FnMut(ShardId, Parcel) -> Result<(), Parcel>) {
        self.outbox.flush(push);
    }

    /// Whether parcels wait for `flush_parcels`.
    #[inline]
    pub fn has_parcels(&self) -> bool {
        self.outbox.has_parcels()
    }

    /// Notes that this shard sent to others, and got from them.
    pub fn notes(&self) -> (u64, u64) {
        (self.outbox.notes_sent, self.outbox.notes_received)
    }
}
