//! Any bytes to every decoder of the wire room; see `checks/wire.rs` for what must hold.
#![no_main]

#[path = "../checks/wire.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|data: &[u8]| checks::check(data));
