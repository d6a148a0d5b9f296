//! Any script of several peers' frames to a whole router: what the fuzzer holds of it, for a while in every test run.

use proptest::prelude::*;

#[path = "../fuzz/checks/router.rs"]
mod checks;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn any_script(script in proptest::collection::vec(any::<u8>(), 0..3000)) {
        checks::check(&script);
    }

    /// Little goes wrong: most numbers are small, so links live long and messages pass.
    #[test]
    fn calm_script(script in proptest::collection::vec(prop_oneof![9 => 0u8..200, 1 => any::<u8>()], 0..6000)) {
        checks::check(&script);
    }
}
