//! Whether a connection that begins is let in.

use crate::engine::Engine;
use crate::memory::Admission;
use crate::outcome::Fault;

/// Counts a connection; where there are too many it hears so when it opens, or its end where there are far too many.
pub fn admit(engine: &mut Engine) {
    let too_many = || Fault::connection("amqp:resource-limit-exceeded", "the router has too many connections");
    match engine.settings().memory.join() {
        Admission::Welcome => {}
        Admission::Refused => engine.refuse_open(too_many()),
        Admission::Dropped => engine.close(Some(&too_many())),
    }
}
