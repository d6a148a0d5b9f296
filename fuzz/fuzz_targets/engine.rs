//! Any script of a peer's frames and a driver's commands to an engine; see `checks/engine.rs` for what must hold.
#![no_main]

#[path = "../checks/engine.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|data: &[u8]| checks::check(data));
