//! The cases that clients and routers were seen to fail at are 37, by number: each is a test, `case_NN_…`, or is about
//! something that doesn't exist here. Nothing falls between.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

const CASES: u32 = 37;

/// What isn't there can't fail. Who builds it makes its case a test.
const NOT_APPLICABLE: [(u32, &str); 3] = [
    (9, "SASL outcomes 2 to 4 at a connector of ours: connectors aren't served"),
    (11, "AMQP over WebSocket: not served"),
    (26, "a client that vanishes from a link route: links aren't routed"),
];

/// Numbers of the tests of a file.
fn cases(text: &str) -> BTreeSet<u32> {
    let after = text.split("fn case_").skip(1);
    after.filter_map(|rest| rest.split('_').next().and_then(|number| number.parse().ok())).collect()
}

#[test]
fn every_case_is_a_test_or_not_applicable() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let mut found: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    for file in std::fs::read_dir(tests).unwrap().map(|entry| entry.unwrap().path()) {
        if file.extension().is_some_and(|extension| extension == "rs") {
            for number in cases(&std::fs::read_to_string(&file).unwrap()) {
                found.entry(number).or_default().push(file.file_name().unwrap().to_string_lossy().into_owned());
            }
        }
    }
    for number in 1..=CASES {
        let not_applicable = NOT_APPLICABLE.iter().find(|(other, _)| *other == number);
        let tests = found.remove(&number);
        assert!(tests.is_some() != not_applicable.is_some(), "case {number}: {tests:?}, {not_applicable:?}");
    }
    assert!(found.is_empty(), "there are {CASES} cases: {found:?}");
}
