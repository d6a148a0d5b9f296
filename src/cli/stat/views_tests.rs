//! Tables of entities as a router gives them.

use super::*;
use serde_json::json;

fn rows(names: &[&str], rows: Value) -> Rows {
    let rows = rows.as_array().unwrap().iter().map(|row| row.as_array().unwrap().clone()).collect();
    Rows { names: names.iter().map(|name| name.to_string()).collect(), rows }
}

#[test]
fn an_address_key_has_three_parts() {
    for (key, expected) in [
        ("M0orders", ("mobile", "orders", "0")),
        ("Ltemp.x", ("local", "temp.x", "")),
        ("RQDR.A", ("router", "QDR.A", "")),
        ("Tall", ("topo", "all", "")),
        ("Cprefix", ("link-in", "prefix", "")),
        ("Fprefix", ("link-out", "prefix", "")),
        ("", ("", "", "")),
        ("M", ("mobile", "", "")),
        ("Mü", ("mobile", "", "ü")),
        ("?x", ("unknown: ?", "x", "")),
    ] {
        let (class, text, phase) = address_parts(key);
        assert_eq!((class.as_str(), text, phase), expected, "{key}");
    }
}

/// Laid out letter for letter as the tool before did.
#[test]
fn addresses_are_laid_out() {
    let given = json!([
        ["balanced", 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, "Ltemp.T0jpk_8V69TVJiUx", -1],
        ["closest", 1, 0, 0, 0, 1234567, 12, 0, 3, 4, 5, "M0$management", 4],
    ]);
    let table = addresses(rows(ADDRESS_ATTRIBUTES, given.clone()), false, false).render(false);
    let expected = "\
Router Addresses
  class   addr                   phs  distrib   pri  local  remote  in         out  thru  fallback
  ==================================================================================================
  mobile  $management            0    closest   4    0      0       1,234,567  12   3     0
  local   temp.T0jpk_8V69TVJiUx       balanced  -    1      0       0          0    0     0
";
    assert_eq!(table, expected);
    let verbose = addresses(rows(ADDRESS_ATTRIBUTES, given), true, false);
    assert_eq!(
        verbose.headings[5..],
        ["in-proc", "local", "remote", "in", "out", "thru", "fallback", "to-proc", "from-proc"]
    );
    assert_eq!(verbose.rows[0][5], "1");
    assert_eq!(verbose.rows[0][12..], ["4", "5"]);
}

#[test]
fn flow_columns_are_those_that_the_router_has() {
    let mut names = ADDRESS_ATTRIBUTES.to_vec();
    names.extend(["localInLinks", "aboveCountThreshold"]);
    let given = json!([["closest", 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, "M0a", 0, 1200, true]]);
    let table = addresses(rows(&names, given), false, true);
    assert_eq!(table.headings[11..], ["senders", "above"]);
    assert_eq!(table.rows[0][11..], ["1,200", "yes"]);
}

#[test]
fn connections_say_who_and_how_safe() {
    let names = [
        "identity",
        "host",
        "container",
        "role",
        "protocol",
        "dir",
        "sasl",
        "isAuthenticated",
        "user",
        "isEncrypted",
        "sslProto",
        "sslCipher",
        "tenant",
        "lastDlvSeconds",
        "uptimeSeconds",
        "active",
    ];
    let given = json!([
        ["1", "h", "c", "normal", "amqp", "in", "ANONYMOUS", true, "anonymous", false, null, null, "", null, 61, true],
        ["2", "h", "c", "edge", "amqp", "in", "PLAIN", true, "ann", true, "TLSv1.3", "AES", "t/", 5, 61, false],
        ["3", "h", "c", "normal", "amqp", "in", null, false, null, false, null, null, null, 5, 61, true],
        ["4", "h", "c", "normal", "amqp", "in", "EXTERNAL", true, null, false, null, null, null, 5, 61, true],
    ]);
    let table = connections(rows(&names, given.clone()));
    let cells: Vec<&[String]> = table.rows.iter().map(|row| &row[6..]).collect();
    assert_eq!(cells[0], ["no-security", "anonymous-user", "", "-", "000:00:01:01"]);
    assert_eq!(cells[1], ["TLSv1.3(AES)", "ann(PLAIN)", "t", "000:00:00:05", "000:00:01:01"]);
    assert_eq!(cells[2][1], "no-auth");
    assert_eq!(cells[3][1], "x.509");
    let edges = edges(rows(&names, given)).unwrap();
    assert_eq!(edges.rows, [["2", "h", "c", "edge", "in", "TLSv1.3(AES)", "ann(PLAIN)", "t", "no"]]);
}

#[test]
fn links_show_their_counters() {
    let given = json!([[
        "endpoint", "in", "5", "9", null, "M0a", 250, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 90, "enabled", "up",
        "name", 4, 14
    ]]);
    let table = links(rows(LINK_ATTRIBUTES, given), true, false);
    assert_eq!(
        table.headings.join(" "),
        "type dir conn id id peer class addr phs cap pri undel unsett deliv presett psdrop acc rej rel mod delay rate stuck \
         cred blkd admin oper name"
    );
    assert_eq!(
        table.rows[0].join(" "),
        "endpoint in 5 9  mobile a 0 250 4 1 2 3 4 5 6 7 8 9 21 14 12 13 00:01:30 enabled up name"
    );
}

#[test]
fn nodes_are_sorted_and_say_their_way() {
    let names =
        ["id", "nextHop", "routerLink", "cost", "linkState", "validOrigins", "protocolVersion", "lastTopoChange"];
    let given = json!([["B", null, 3, 1, ["A"], [], 1, 0], ["A", "(self)", null, null, ["B"], null, 1, 77]]);
    let (table, changed) = nodes(rows(&names, given), true);
    assert_eq!(changed, 77.0);
    let table = table.unwrap();
    assert_eq!(table.rows[0], ["A", "(self)", "-", "1", "", "['B']", "[]"]);
    assert_eq!(table.rows[1], ["B", "-", "3", "1", "1", "['A']", "[]"]);
    assert!(nodes(Rows::default(), false).0.is_none());
}

#[test]
fn a_router_shows_what_it_has() {
    let router = json!({"version": "1", "mode": "standalone", "id": "R", "area": "0", "linkCount": 2, "memoryUsage": 332398592,
        "uptimeSeconds": 3, "acceptedDeliveries": 1});
    let table = general(router.as_object().unwrap());
    let find = |name: &str| table.rows.iter().find(|row| row[0] == name).map(|row| row[1].as_str());
    assert_eq!(
        (find("VmSize"), find("Uptime"), find("Accepted Count")),
        (Some("317 MiB"), Some("000:00:00:03"), Some("1"))
    );
    assert_eq!((find("Worker Threads"), find("Links Blocked")), (None, None));
}

#[test]
fn memory_is_summed_up() {
    let names = MEMORY_ATTRIBUTES;
    let given = json!([["allocator/b", 1024, 64, 128, 2048, 9, 1, 2], ["allocator/a", 10, 64, 128, 1, 9, 1, 2]]);
    let [pools, summary] = memory(rows(names, given), &json!(1 << 20)).unwrap();
    assert_eq!(pools.rows[0], ["a", "10", "64", "128", "1", "9", "1", "2"]);
    assert_eq!(summary.rows, [["1.00 MiB", "2.00 MiB"]]);
    assert!(memory(rows(names, json!([["x", 1, 1, 1, null, 1, 1, 1]])), &json!(null)).is_none());
    assert!(memory(Rows::default(), &json!(null)).is_none());
}
