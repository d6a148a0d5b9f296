//! Any script of a peer's frames and a driver's commands: what the fuzzer holds of an engine, for a while in every test run.

use proptest::prelude::*;

#[path = "../fuzz/checks/engine.rs"]
mod checks;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn any_script(script in proptest::collection::vec(any::<u8>(), 0..600)) {
        checks::check(&script);
    }

    /// More of what goes well: links on both sides, credit, transfers.
    #[test]
    fn busy_script(
        flags in any::<u8>(),
        steps in proptest::collection::vec(
            (prop::sample::select(&[2u8, 3, 4, 12, 13, 16, 22, 21, 20, 18][..]), proptest::collection::vec(any::<u8>(), 4..16)),
            0..80,
        ),
    ) {
        // Two links each way.
        let mut script = vec![flags, 1, 0, 0, 0, 4, 0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 50, 0];
        for (step, bytes) in steps {
            script.push(step);
            script.extend_from_slice(&bytes);
        }
        checks::check(&script);
    }
}
