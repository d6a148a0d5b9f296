//! Any script of several peers' frames to a whole router; see `checks/router.rs` for what must hold.
#![no_main]

#[path = "../checks/router.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|data: &[u8]| checks::check(data));
