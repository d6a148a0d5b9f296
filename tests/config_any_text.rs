//! No text makes the configuration's reader panic, and what it accepts it accepts in both forms.

use proptest::prelude::*;
use ringway::config::load;

const WORDS: [&str; 40] = [
    "router",
    "listener",
    "address",
    "log",
    "connector",
    "container",
    "vhost",
    "{",
    "}",
    "{",
    "}",
    ":",
    "\n",
    "\n",
    "\n",
    "\n",
    " ",
    "#",
    "\"",
    "'",
    "host: a",
    "port: amqp",
    "port: 0",
    "prefix: a",
    "pattern: #",
    "pattern: */x",
    "groups: {",
    "openProperties: {}",
    "module: SERVER",
    "enable: info+",
    "id: x",
    "alertCountUp: 9k",
    "é",
    "\u{feff}",
    "\t",
    ",",
    "[",
    "]",
    "-",
    "null",
];

fn text() -> impl Strategy<Value = String> {
    let words = prop::collection::vec(prop::sample::select(&WORDS[..]), 0..60).prop_map(|words| words.concat());
    prop_oneof![words, any::<String>()]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_text_panics(text in text()) {
        for name in ["a.conf", "a.json", "é"] {
            if let Err(error) = load(&text, name) {
                prop_assert!(!error.problems.is_empty());
                prop_assert!(error.problems.iter().all(|problem| problem.line <= 1 + text.matches('\n').count()));
            }
        }
    }

    #[test]
    fn both_forms_mean_the_same(port in any::<u16>(), capacity in 1u32..100_000, prefix in "[a-z/.]{0,8}[a-z]") {
        let conf = format!("listener {{\n port: {port}\n linkCapacity: {capacity}\n}}\naddress {{\n prefix: {prefix}\n}}\n");
        let json = format!(
            r#"[["listener", {{"port": {port}, "linkCapacity": "{capacity}"}}], ["address", {{"prefix": "{prefix}"}}]]"#
        );
        let (mut conf, mut json) = (load(&conf, "a.conf").unwrap(), load(&json, "a.json").unwrap());
        for config in [&mut conf, &mut json] {
            config.listeners[0].line = 0;
            config.addresses[0].line = 0;
            config.entities.iter_mut().for_each(|entity| entity.line = 0);
        }
        prop_assert_eq!(conf, json);
    }
}
