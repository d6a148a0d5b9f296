//! `ringway stat`, `manage` and `top` against a running router: what they show is what happened, and how they end.

mod support;

use serde_json::{json, Value};
use std::collections::BTreeMap;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Output, Stdio};
use support::amqp::{accepted, data_message, transfer_frame, DISPOSITION, FLOW, TRANSFER};
use support::http;
use support::raw::{Link, Raw};
use support::router::{free_port, Router};

fn tool(router: &Router, line: &[&str]) -> Output {
    tool_with(router, line, "")
}

fn tool_with(router: &Router, line: &[&str], stdin: &str) -> Output {
    let (tool, arguments) = line.split_first().expect("a tool");
    run(&[&[*tool, "-b", &router.address()], arguments].concat(), stdin)
}

fn run(line: &[&str], stdin: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringway"));
    command.args(line).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the tool starts");
    child.stdin.take().expect("its input").write_all(stdin.as_bytes()).expect("it reads");
    child.wait_with_output().expect("it ends")
}

/// What it printed; it ended well.
fn said(output: Output) -> String {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), &*stderr), (Some(0), ""));
    String::from_utf8(output.stdout).expect("text")
}

fn stat(router: &Router, line: &[&str]) -> String {
    said(tool(router, &[&["stat"], line].concat()))
}

fn manage(router: &Router, line: &[&str]) -> Value {
    serde_json::from_str(&said(tool(router, &[&["manage"], line].concat()))).expect("JSON")
}

/// It said why not on standard error, and nothing else.
fn refused(output: Output) -> String {
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "");
    String::from_utf8(output.stderr).expect("text").trim_end().to_owned()
}

/// A sender and a consumer of an address that passed three messages; they stay.
fn three_messages(router: &Router, address: &str) -> (Raw, Raw, Link) {
    let mut consumer = Raw::session(router, "the-consumer");
    let link = consumer.attach_consumer(0, address, 10);
    let mut sender = Raw::session(router, "the-sender");
    let _ = sender.attach_sender(0, address);
    sender.expect(FLOW);
    for id in 0..3 {
        sender.send(&transfer_frame(0, id, &data_message(b"x")));
        let transfer = consumer.expect(TRANSFER);
        consumer.settle(&transfer, accepted());
        sender.expect(DISPOSITION);
    }
    (sender, consumer, link)
}

/// The columns of a table's only row that has a word, by heading.
fn row(table: &str, word: &str) -> Vec<(String, String)> {
    let mut lines = table.lines();
    let heading = lines.by_ref().take_while(|line| !line.trim_start().starts_with("===")).last().expect("headings");
    let rows: Vec<&str> = lines.filter(|line| line.contains(word)).collect();
    assert_eq!(rows.len(), 1, "{table}");
    // A heading starts where its column does, behind two spaces.
    let starts: Vec<usize> =
        (2..heading.len()).filter(|at| heading.as_bytes()[*at] != b' ' && &heading[at - 2..*at] == "  ").collect();
    let ends = starts.iter().skip(1).copied().chain([usize::MAX]);
    let cell = |line: &str, start: usize, end: usize| {
        line.get(start.min(line.len())..end.min(line.len())).unwrap_or_default().trim().to_owned()
    };
    starts.iter().zip(ends).map(|(start, end)| (cell(heading, *start, end), cell(rows[0], *start, end))).collect()
}

fn column(row: &[(String, String)], heading: &str) -> String {
    row.iter().find(|(name, _)| name == heading).map(|(_, cell)| cell.clone()).expect("such a column")
}

#[test]
fn stat_shows_what_happened() {
    let router = Router::start("");
    let _links = three_messages(&router, "orders/eu");

    let addresses = stat(&router, &["-a"]);
    assert_eq!(addresses.lines().nth(1), Some("router.under.test"));
    assert!(addresses.lines().next().is_some_and(|line| line.ends_with(" UTC")));
    let address = row(&addresses, "orders/eu");
    let cells: Vec<String> =
        ["class", "addr", "phs", "distrib", "pri", "local", "remote", "in", "out", "thru", "fallback"]
            .map(|heading| column(&address, heading))
            .to_vec();
    assert_eq!(cells, ["mobile", "orders/eu", "0", "balanced", "-", "1", "0", "3", "3", "0", "0"]);

    let links = stat(&router, &["-l", "-v"]);
    let sender = row(&links, "sender-0");
    assert_eq!(
        (column(&sender, "dir"), column(&sender, "deliv"), column(&sender, "acc")),
        ("in".into(), "3".into(), "3".into())
    );
    let consumer = row(&links, "receiver-0");
    assert_eq!(
        (column(&consumer, "dir"), column(&consumer, "acc"), column(&consumer, "oper")),
        ("out".into(), "3".into(), "up".into())
    );

    let connection = row(&stat(&router, &["-c"]), "the-sender");
    assert_eq!((column(&connection, "role"), column(&connection, "security")), ("normal".into(), "no-security".into()));

    let general = stat(&router, &["-g"]);
    assert_eq!(stat(&router, &[]).lines().count(), general.lines().count());
    assert!(general.contains("\n  Router Id                        router.under.test\n"), "{general}");
    let accepted = general.lines().find_map(|line| line.trim().strip_prefix("Accepted Count")).expect("such a row");
    assert!(accepted.trim().parse::<u64>().is_ok_and(|count| count >= 3));
}

#[test]
fn stat_has_other_forms() {
    let router = Router::start("");
    let _links = three_messages(&router, "orders/eu");
    let csv = stat(&router, &["--csv", "-a"]);
    assert!(csv.contains("\n\"class\",\"addr\",\"phs\",\"distrib\","), "{csv}");
    assert!(
        csv.contains("\n\"mobile\",\"orders/eu\",\"0\",\"balanced\",\"-\",\"1\",\"0\",\"3\",\"3\",\"0\",\"0\"\n"),
        "{csv}"
    );

    let entities: Value = serde_json::from_str(&stat(&router, &["--json", "-a"])).expect("JSON");
    let of = |name: &str| entities.as_array().unwrap().iter().find(|entity| entity["name"] == name).cloned();
    assert_eq!(of("M0orders/eu").expect("the address")["deliveriesIngress"], json!(3));

    let flow = row(&stat(&router, &["--flow", "-a"]), "orders/eu");
    assert_eq!(
        (column(&flow, "depth"), column(&flow, "senders"), column(&flow, "above")),
        ("0".into(), "1".into(), "no".into())
    );
    let flow = row(&stat(&router, &["--flow", "-v", "-l"]), "sender-0");
    assert!(column(&flow, "window").parse::<u32>().is_ok_and(|window| window > 0));

    assert_eq!(stat(&router, &["-a", "--limit", "1", "--json"]).matches("\"deliveriesIngress\"").count(), 1);
}

#[test]
fn every_display_ends_well() {
    let router = Router::start("");
    for display in [
        "-g",
        "-c",
        "-l",
        "-n",
        "-e",
        "-a",
        "-m",
        "-p",
        "--autolinks",
        "--linkroutes",
        "--vhosts",
        "--vhostgroups",
        "--vhoststats",
        "--log",
        "--all-entities",
    ] {
        stat(&router, &[display]);
        stat(&router, &[display, "-v", "--csv"]);
        let json = stat(&router, &[display, "--json"]);
        assert!(serde_json::from_str::<Value>(&json).is_ok(), "{display}: {json}");
    }
    assert_eq!(stat(&router, &["-n"]).lines().nth(3), Some("Router is Standalone - No Router List"));
    assert!(stat(&router, &["--log"]).contains("SERVER (notice) Operational, "));
    assert!(stat(&router, &["-p"]).contains("Maximum Concurrent Connections"));
    // The router by its id is this router.
    stat(&router, &["-r", "router.under.test", "-g"]);
}

#[test]
fn manage_reads_and_queries() {
    let router = Router::start("");
    let names = manage(&router, &["QUERY", "--type=router.link", "linkDir"]);
    assert!(names.as_array().unwrap().iter().all(|link| link.as_object().unwrap().len() == 1), "{names}");
    let routers = manage(&router, &["query", "--type", "router"]);
    assert_eq!((&routers[0]["id"], &routers[0]["mode"]), (&json!("router.under.test"), &json!("standalone")));
    let listeners = manage(&router, &["query", "--type", "listener"]);
    assert_eq!(listeners[0]["port"], json!(router.port.to_string()));
    assert_eq!(listeners[0]["type"], json!("org.apache.qpid.dispatch.listener"));
    let types = manage(&router, &["get-types", "listener"]);
    assert_eq!(types.as_object().unwrap().keys().next().unwrap(), "org.apache.qpid.dispatch.listener");
    let attributes = manage(&router, &["GET-ATTRIBUTES", "--type=listener"]);
    assert!(attributes["org.apache.qpid.dispatch.listener"].as_array().unwrap().contains(&json!("idleTimeoutSeconds")));
    assert_eq!(manage(&router, &["get-mgmt-nodes"]).as_array().map(Vec::len), Some(0));
    assert!(manage(&router, &["GET-SCHEMA"])["entityTypes"]["listener"].is_object());
    assert!(manage(&router, &["get-log", "limit=2"]).as_array().is_some_and(|lines| lines.len() == 2));
    let one_line = said(tool(&router, &["manage", "--indent=-1", "query", "--type=router", "id", "mode"]));
    assert_eq!(one_line, "[{\"id\": \"router.under.test\", \"mode\": \"standalone\"}]\n");
}

#[test]
fn manage_creates_reads_updates_and_deletes() {
    let router = Router::start("");
    let long_type = "org.apache.qpid.dispatch.router.config.address";
    let line = ["CREATE", "--type=address", "--name=news", "prefix=news", "distribution=multicast"];
    let created = manage(&router, &line);
    let facts = |entity: &Value| ["name", "type", "prefix", "distribution"].map(|name| entity[name].clone());
    assert_eq!(facts(&created), [json!("news"), json!(long_type), json!("news"), json!("multicast")]);
    let read = manage(&router, &["READ", "--type=address", "--name=news"]);
    assert_eq!(facts(&read), facts(&created));
    assert_eq!(manage(&router, &["read", "--type=address", "--identity", read["identity"].as_str().unwrap()]), read);
    assert!(refused(tool(&router, &[&["manage"], &line[..]].concat())).starts_with("BadRequestStatus: "));

    let list = r#"[{"type": "address", "name": "a", "prefix": "a"}, {"type": "address", "name": "b", "prefix": "b"}]"#;
    let answer = said(tool_with(&router, &["manage", "create", "--stdin"], list));
    let answer: Value = serde_json::from_str(&answer).expect("JSON");
    assert_eq!(answer.as_array().unwrap().iter().map(|entity| &entity["name"]).collect::<Vec<_>>(), ["a", "b"]);
    let prefixes = manage(&router, &["QUERY", "--type=address", "prefix"]);
    assert_eq!(prefixes, json!([{"prefix": "news"}, {"prefix": "a"}, {"prefix": "b"}]));

    for _ in 0..2 {
        let deleted = tool(&router, &["manage", "DELETE", "--type=address", "--name=a"]);
        match deleted.status.code() {
            Some(0) => assert_eq!(said(deleted), ""),
            _ => assert!(refused(deleted).starts_with("NotFoundStatus: ")),
        }
    }
    assert_eq!(manage(&router, &["QUERY", "--type=address", "prefix"]).as_array().unwrap().len(), 2);

    let log = manage(&router, &["UPDATE", "--type=log", "--name=log/DEFAULT", "enable=warning+"]);
    assert_eq!(log["enable"], json!("warning+"));
}

#[test]
fn a_refusal_is_an_exit_code_and_a_reason() {
    let router = Router::start("");
    let failure = |line: &[&str]| refused(tool(&router, line));
    assert!(failure(&["manage", "query", "--type=nonsense"]).starts_with("BadRequestStatus: No such entity type "));
    assert!(failure(&["manage", "frobnicate"]).starts_with("NotImplementedStatus: "));
    assert_eq!(failure(&["manage", "read", "spare"]), "unexpected arguments: spare");
    let nobody = failure(&["stat", "-r", "nobody", "-t", "0.5"]);
    assert!(nobody.contains("_topo/0/nobody/$management"), "{nobody}");
    assert_eq!(
        failure(&["stat", "--ssl-certificate", "x"]),
        "--ssl-certificate: TLS isn't available yet; connect without it"
    );
    assert_eq!(
        refused(run(&["manage", "create", "--stdin"], "{")).split(':').next(),
        Some("the standard input is no JSON map or list of maps")
    );
    for line in [&["stat", "--nonsense"][..], &["stat", "-a", "-l"], &["manage"], &["top", "-i", "x"]] {
        assert!(refused(run(line, "")).contains("For more information, try '--help'"));
    }
}

#[test]
fn nobody_there_is_told_soon() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = silent.local_addr().expect("its address").to_string();
    let timeout = refused(run(&["stat", "-b", &address, "-t", "0.2"], ""));
    assert_eq!(timeout, format!("amqp://{address}: time-out: the peer didn't send its open"));
    drop(silent);
    assert!(refused(run(&["stat", "-b", &address], "")).contains("Connection refused"));

    let other = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = other.local_addr().expect("its address").to_string();
    let answer = std::thread::spawn(move || {
        let (mut stream, _) = other.accept().expect("a connection");
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").expect("it reads");
        stream
    });
    assert_eq!(refused(run(&["stat", "-b", &address], "")), format!("amqp://{address}: the peer doesn't speak AMQP"));
    let _: TcpStream = answer.join().expect("a stream");
}

#[test]
fn credentials_that_the_router_does_not_take_are_told_so() {
    let router = Router::start("");
    let refused = |line: &[&str]| refused(run(&[&["stat"], line].concat(), ""));
    let why = refused(&["-b", &format!("ann:pw@{}", router.address())]);
    assert!(why.ends_with("the peer offers ANONYMOUS, we can do PLAIN"), "{why}");
    let address = router.address();
    said(run(&["stat", "-b", &address, "--sasl-mechanisms", "ANONYMOUS"], ""));
    let connection = row(&said(run(&["stat", "-b", &address, "--sasl-mechanisms=ANONYMOUS", "-c"], "")), "ringway");
    assert_eq!(column(&connection, "authentication"), "anonymous-user");
}

#[test]
fn a_picture_is_printed_once() {
    let router = Router::start("");
    let _links = three_messages(&router, "orders/eu");
    let picture = said(tool(&router, &["top", "--once", "-i", "0.1"]));
    assert_eq!(picture.lines().count(), 24);
    assert!(picture.starts_with("ringway top  router.under.test  up "), "{picture}");
    let line = picture.lines().find(|line| line.starts_with("orders/eu ")).expect("the address");
    let cells: Vec<&str> = line.split_whitespace().collect();
    // Rates, senders, consumers, depth.
    assert_eq!(cells[1..6], ["0", "0", "1", "1", "0"], "{picture}");
    assert!(refused(tool(&router, &["top"])).starts_with("top needs a terminal"));
}

/// More rows than a page has.
#[test]
fn many_rows_come_in_pages() {
    let router = Router::start("");
    let mut raw = Raw::session(&router, "many");
    for number in 0..620 {
        raw.attach_receiver(number, &format!("many/{number}"));
    }
    let addresses = stat(&router, &["-a"]);
    assert_eq!(addresses.lines().filter(|line| line.contains("many/")).count(), 620);
    assert_eq!(addresses.lines().filter(|line| line.contains("many/617 ")).count(), 1);
    let limited = stat(&router, &["-a", "--limit", "510", "--csv"]);
    // Time, id, an empty line, title, headings.
    assert_eq!(limited.lines().count(), 5 + 510);
}

/// A table's rows as cells by heading, of a display in CSV.
fn csv_rows(text: &str) -> Vec<BTreeMap<String, String>> {
    // Cells with something in them are in quotes, and none here has a quote itself.
    let cells = |line: &str| -> Vec<String> {
        let mut inside = false;
        let is_between = |letter: char| {
            inside ^= letter == '"';
            letter == ',' && !inside
        };
        line.split(is_between).map(|cell| cell.trim_matches('"').to_owned()).collect()
    };
    // Time, router, an empty line and the title are before the headings.
    let mut lines = text.lines().skip(4).filter(|line| !line.is_empty());
    let headings = cells(lines.next().expect("headings"));
    lines.map(|line| headings.iter().cloned().zip(cells(line)).collect()).collect()
}

/// Heading in `stat`, attribute in management.
type Shown = [(&'static str, &'static str)];

/// Asks `stat` in between two queries of management: what only grows lies between what they say.
fn is_in_between(router: &Router, display: &[&str], entity: &str, shown: &Shown, key: fn(&Value) -> Value) -> usize {
    let query = || -> BTreeMap<String, Value> {
        let all = manage(router, &["QUERY", &format!("--type={entity}")]);
        all.as_array().expect("entities").iter().map(|one| (key(one).to_string(), one.clone())).collect()
    };
    let before = query();
    let rows = csv_rows(&stat(router, display));
    let after = query();
    let mut compared = 0;
    for row in rows.iter().filter(|row| row["class"] == "mobile") {
        // Found by what both show: an address's name, a link's number.
        let name = row.get("addr").filter(|_| entity == "router.address").or(row.get("id")).expect("a name");
        let found = |all: &BTreeMap<String, Value>| {
            all.get(&json!(name).to_string()).or_else(|| all.get(&json!(format!("M0{name}")).to_string())).cloned()
        };
        let (Some(low), Some(high)) = (found(&before), found(&after)) else { continue };
        for (heading, attribute) in shown {
            let number = |value: &Value| value[*attribute].as_u64().expect("a number");
            let cell: u64 = row[*heading].replace(',', "").parse().expect("a number");
            assert!(
                (number(&low)..=number(&high)).contains(&cell),
                "{name}: {heading} {cell}, {attribute} {low} {high}"
            );
            compared += 1;
        }
    }
    compared
}

/// `stat` shows management's numbers: while messages flow, between one look and the next; at rest, just these.
#[test]
fn stat_shows_the_numbers_of_management() {
    let router = Router::start_shards(2, "");
    let address: &Shown = &[("in", "deliveriesIngress"), ("out", "deliveriesEgress")];
    let links: &Shown = &[
        ("deliv", "deliveryCount"),
        ("acc", "acceptedCount"),
        ("rej", "rejectedCount"),
        ("presett", "presettledCount"),
    ];
    let mut load = Command::new(env!("CARGO_BIN_EXE_ringway"))
        .args(["load", "--bus", &router.address(), "--pairs", "4", "--rate", "4000", "--duration", "60", "--quiet"])
        .stdout(Stdio::null())
        .spawn()
        .expect("the load starts");
    let mut compared = [0; 2];
    while compared.iter().any(|compared| *compared <= 20) {
        assert!(load.try_wait().expect("it can be waited for").is_none(), "{compared:?} before the load ended");
        compared[0] += is_in_between(&router, &["-a", "--csv"], "router.address", address, |one| one["name"].clone());
        compared[1] +=
            is_in_between(&router, &["-l", "-v", "--csv"], "router.link", links, |one| one["identity"].clone());
    }
    load.kill().expect("the load runs");
    load.wait().expect("it ends");

    // At rest: the router's own numbers move with each question, by what it takes to ask.
    let _links = three_messages(&router, "orders/eu");
    let queried = manage(&router, &["QUERY", "--type=router.address"]);
    let of_address = |all: &Value| all.as_array().unwrap().iter().find(|one| one["name"] == "M0orders/eu").cloned();
    let one = of_address(&queried).expect("the address");
    let row = csv_rows(&stat(&router, &["-a", "--csv"])).into_iter().find(|row| row["addr"] == "orders/eu").unwrap();
    let shown =
        address.iter().chain(&[("local", "subscriberCount"), ("remote", "remoteCount"), ("thru", "deliveriesTransit")]);
    for (heading, attribute) in shown {
        assert_eq!(row[*heading], one[*attribute].to_string(), "{heading}");
    }
    let general = |text: &str| -> BTreeMap<String, String> {
        csv_rows(text).into_iter().map(|row| (row["attr"].clone(), row["value"].clone())).collect()
    };
    let before = &manage(&router, &["QUERY", "--type=router"])[0];
    let said = general(&stat(&router, &["-g", "--csv"]));
    let after = &manage(&router, &["QUERY", "--type=router"])[0];
    for (heading, attribute) in [
        ("Accepted Count", "acceptedDeliveries"),
        ("Presettled Count", "presettledDeliveries"),
        ("Ingress Count", "deliveriesIngress"),
        ("Egress Count", "deliveriesEgress"),
        ("Addresses", "addrCount"),
        ("Connections", "connectionCount"),
        ("Links", "linkCount"),
    ] {
        let cell: u64 = said[heading].replace(',', "").parse().expect("a number");
        let (before, after) = (before[attribute].as_u64().unwrap(), after[attribute].as_u64().unwrap());
        // What the load had may still be on its way out.
        let bounds = before.min(after)..=before.max(after);
        assert!(bounds.contains(&cell), "{heading}: {cell} of {bounds:?}");
    }
}

#[test]
fn an_http_listener_is_made_and_deleted() {
    let router = Router::start("");
    let port = free_port();
    let made = |name: &str| {
        let (name, port) = (format!("--name={name}"), format!("port={port}"));
        manage(&router, &["CREATE", "--type=listener", &name, "host=127.0.0.1", &port, "http=yes"])
    };
    for name in ["web", "again"] {
        assert_eq!(made(name)["http"], json!(true));
        assert_eq!(http::get(port, "/healthz").text(), "OK\n");
        said(tool(&router, &["manage", "DELETE", "--type=listener", &format!("--name={name}")]));
        assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
    }
}

#[test]
fn a_connection_says_when_it_had_a_delivery() {
    let router = Router::start_shards(2, "");
    let _idle = Raw::session(&router, "the-idle");
    let _links = three_messages(&router, "orders/eu");
    let connections = manage(&router, &["QUERY", "--type=connection", "container", "lastDlvSeconds"]);
    let of = |name: &str| {
        let all = connections.as_array().unwrap();
        all.iter().find(|one| one["container"] == name).expect("the connection")["lastDlvSeconds"].clone()
    };
    for name in ["the-sender", "the-consumer"] {
        assert!(of(name).as_u64().is_some_and(|seconds| seconds < 60), "{connections}");
    }
    assert_eq!(of("the-idle"), Value::Null);
}

/// A link that goes on without credit is said so in the log, once, and one whose deliveries stay.
#[test]
fn links_that_do_not_go_on_are_logged() {
    // Clients that say nothing stay.
    let router = Router::start_with("idleTimeoutSeconds: 0", "");
    let mut sender = Raw::session(&router, "the-sender");
    let _ = sender.attach_sender(0, "nobody");
    let mut consumer = Raw::session(&router, "the-consumer");
    let _link = consumer.attach_consumer(0, "stays", 10);
    let mut other = Raw::session(&router, "the-other");
    let _ = other.attach_sender(0, "stays");
    other.expect(FLOW);
    other.send(&transfer_frame(0, 0, &data_message(b"x")));
    consumer.expect(TRANSFER);
    let (blocked, stuck) = ("Link blocked with zero credit for 1", "Stuck delivery: ");
    let count = |text: &str| router.log().matches(text).count();
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(40);
    while (count(blocked), count(stuck)) != (1, 2) {
        assert!(std::time::Instant::now() < deadline, "{}", router.log());
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    std::thread::sleep(std::time::Duration::from_secs(6));
    assert_eq!((count(blocked), count(stuck)), (1, 2));
}
