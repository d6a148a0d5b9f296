//! Requests of management to the agent: what each kind of wrong one is answered, and that any bytes do no harm.

use proptest::prelude::*;
use ringway::config;
use ringway::limits::LISTENERS_MAX;
use ringway::management::{Agent, Change, Datum, Figures, Received, Request, Response, Snapshot, Status, Step, Writer};
use ringway::wire::value::{Map, Reader, Value};

const CONFIGURATION: &str =
    "router {\n id: R\n metadata: words\n}\nlistener {\n host: 0.0.0.0\n port: 5672\n name: l0\n}\n\
                             address {\n name: known\n prefix: k\n}\nlinkRoute {\n prefix: lr\n direction: in\n}\n\
                             autoLink {\n addr: q\n dir: in\n}\nconnector {\n name: c\n port: 1\n}\n";
const PREFIX: &str = "org.apache.qpid.dispatch.";

fn agent() -> Agent {
    let config = config::load_with(CONFIGURATION, "test.conf", config::Unsupported::Allowed).expect("a configuration");
    Agent::new(&config, &Figures { id: "R".to_owned(), mode: "standalone", ..Figures::default() })
}

fn request(properties: &[(&str, &str)], body: Option<&[(&str, Datum)]>) -> Request {
    let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), Datum::text(value));
    let body = body.map(|body| body.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect());
    Request { properties: properties.iter().map(pair).collect(), attributes: body }
}

/// What is answered at once; a query is answered from an empty snapshot, a change as if it were made.
fn answer(agent: &mut Agent, request: &Request) -> Response {
    match agent.begin(request) {
        Step::Answer(response) => response,
        Step::Query(query) => {
            let mut writer = Writer::new(query);
            while writer.go_on(agent, &Snapshot::default()) {}
            writer.finish()
        }
        Step::Change(change) => agent.done(change),
        Step::Read(read) => read.not_found(),
        Step::ChangeRow(change) => change.read.not_found(),
        Step::Log(_) => Response::error(Status::Ok, "lines"),
    }
}

/// The answer to operation and properties with an empty map.
fn ask(agent: &mut Agent, properties: &[(&str, &str)]) -> Response {
    answer(agent, &request(properties, Some(&[])))
}

fn attribute(response: &Response, name: &str) -> Option<String> {
    let Ok(Value::Map(map)) = Reader::new(&response.body).value() else { panic!("not a map: {response:?}") };
    match map.get(name)? {
        Value::String(text) => Some(text.to_owned()),
        Value::Null => Some("null".to_owned()),
        other => Some(format!("{other:?}")),
    }
}

/// Rows of a typed query, a map each.
fn rows(agent: &mut Agent, entity_type: &str) -> Vec<Vec<(String, String)>> {
    let response = ask(agent, &[("operation", "QUERY"), ("entityType", entity_type)]);
    assert_eq!(response.status, Status::Ok, "{response:?}");
    let map = Map::parse(&response.body).expect("a map");
    let (Some(Value::List(names)), Some(Value::List(results))) = (map.get("attributeNames"), map.get("results")) else {
        panic!("{response:?}")
    };
    let text = |value| match value {
        Value::String(text) => text.to_owned(),
        other => format!("{other:?}"),
    };
    let row = |row| {
        let Ok(Value::List(row)) = row else { panic!("not a row") };
        names.iter().zip(row.iter()).map(|(name, value)| (text(name.unwrap()), text(value.unwrap()))).collect()
    };
    results.iter().map(row).collect()
}

#[test]
fn each_kind_of_bad_request_has_its_status() {
    use Status::*;
    let mut agent = agent();
    let listener = &format!("{PREFIX}listener");
    let address = &format!("{PREFIX}router.config.address");
    for (properties, status, text) in [
        (&[][..], BadRequest, "No 'operation' property"),
        (
            &[("operation", "nosuch"), ("type", "org.amqp.management")],
            NotImplemented,
            "Operation 'NOSUCH' not implemented",
        ),
        (&[("operation", "PROFILE")], NotImplemented, "Operation 'PROFILE' not implemented"),
        (&[("operation", "QUERY"), ("entityType", "nosuch")], BadRequest, "No such entity type 'nosuch'"),
        (&[("operation", "QUERY"), ("offset", "x")], BadRequest, "'offset' is not a number"),
        (&[("operation", "GET-JSON-SCHEMA"), ("indent", "99")], BadRequest, "'indent'"),
        (&[("operation", "READ"), ("type", "nosuch"), ("name", "x")], BadRequest, "No such entity type 'nosuch'"),
        (&[("operation", "READ"), ("type", listener)], BadRequest, "No name or identity provided"),
        (&[("operation", "READ"), ("type", listener), ("name", "nosuch")], NotFound, "No entity with name=nosuch"),
        (&[("operation", "READ"), ("identity", "nosuch/1")], NotFound, "No entity with identity=nosuch/1"),
        (&[("operation", "READ"), ("type", "connector"), ("name", "l0")], BadRequest, "does not extend requested type"),
        (&[("operation", "READ"), ("name", "l0"), ("identity", "log/SERVER")], BadRequest, "Conflicting"),
        (&[("operation", "READ"), ("type", address), ("name", "nosuch")], NotFound, "No entity with name=nosuch"),
        (&[("operation", "READ"), ("type", "connection"), ("name", "x")], BadRequest, "Identity required"),
        (
            &[("operation", "UPDATE"), ("type", listener), ("name", "l0")],
            NotImplemented,
            "Operation 'UPDATE' not implemented",
        ),
        (&[("operation", "nosuchop"), ("type", listener), ("name", "l0")], NotImplemented, "not implemented"),
        (&[("operation", "DELETE"), ("type", "connection"), ("identity", "1")], Forbidden, "Forbidden"),
        (&[("operation", "CREATE"), ("type", "router"), ("name", "x")], Forbidden, "Forbidden"),
        (&[("operation", "CREATE"), ("type", "router.link"), ("name", "x")], NotImplemented, "not implemented"),
        (&[("operation", "CREATE"), ("type", "nosuch"), ("name", "x")], BadRequest, "No such entity type 'nosuch'"),
        (&[("operation", "CREATE"), ("name", "x")], BadRequest, "No 'type' attribute"),
        (&[("operation", "CREATE"), ("type", address)], BadRequest, "prefix"),
        (&[("operation", "CREATE"), ("type", address), ("name", "known")], BadRequest, "Name conflicts"),
        (&[("operation", "CREATE"), ("type", "linkRoute")], BadRequest, "No such entity type"),
        (&[("operation", "DELETE"), ("type", "log"), ("name", "log/SERVER")], NotImplemented, "not implemented"),
        (&[("operation", "UPDATE"), ("type", "connection"), ("identity", "1")], BadRequest, "Bad Request"),
        (&[("operation", "UPDATE"), ("type", "router.address"), ("identity", "M0x")], BadRequest, "nothing to update"),
    ] {
        let response = ask(&mut agent, properties);
        assert_eq!(response.status, status, "{properties:?}: {}", response.description);
        assert!(response.description.contains(text), "{properties:?}: {}", response.description);
    }
}

#[test]
fn bodies_that_can_t_be_are_refused_and_change_nothing() {
    let mut agent = agent();
    let text = Datum::text;
    for (entity, body, status, said) in [
        ("listener", vec![("prot", text("1"))], Status::BadRequest, "Unknown attribute 'prot'"),
        ("listener", vec![("port", text("70000"))], Status::BadRequest, "port"),
        ("listener", vec![("identity", text("x"))], Status::BadRequest, "'identity' attribute cannot be specified"),
        (
            "listener",
            vec![("role", text("edge")), ("port", text("77777"))],
            Status::BadRequest,
            "role='standalone' not allowed",
        ),
        ("listener", vec![("authenticatePeer", text("perhaps"))], Status::BadRequest, "Invalid value"),
        ("listener", vec![("type", text("connector"))], Status::BadRequest, "Conflicting values for 'type'"),
        ("listener", vec![("sslProfile", text("p"))], Status::BadRequest, "not served by this version"),
        ("connector", vec![("port", text("1"))], Status::NotImplemented, "not served by this version"),
        ("router.config.linkRoute", vec![("prefix", text("x"))], Status::BadRequest, "'direction'"),
        ("router.config.linkRoute", vec![("dir", text("in")), ("direction", text("in"))], Status::BadRequest, "Both"),
        ("router.config.address", vec![("prefix", text("a")), ("pattern", text("b"))], Status::BadRequest, "pattern"),
        (
            "router.config.address",
            vec![("prefix", text("a")), ("priority", text("11"))],
            Status::BadRequest,
            "priority",
        ),
    ] {
        let properties = [("operation", "CREATE"), ("type", entity), ("name", "fresh")];
        let before = rows(&mut agent, entity).len();
        let response = answer(&mut agent, &request(&properties, Some(&body)));
        assert_eq!(response.status, status, "{entity} {body:?}: {}", response.description);
        assert!(response.description.contains(said), "{entity} {body:?}: {}", response.description);
        assert_eq!(rows(&mut agent, entity).len(), before);
    }
    let create = [("operation", "CREATE"), ("type", "dummy"), ("name", "d")];
    let response = answer(&mut agent, &request(&create, None));
    assert_eq!((response.status, &*response.description), (Status::BadRequest, "Body of request must be a map"));
    for value in [text("foo"), text("trace|debug")] {
        let update = [("operation", "UPDATE"), ("identity", "log/AGENT")];
        let response = answer(&mut agent, &request(&update, Some(&[("enable", value)])));
        assert_eq!(response.status, Status::BadRequest, "{}", response.description);
    }
}

#[test]
fn listeners_have_a_bound_and_huge_maps_are_refused() {
    let mut agent = agent();
    let mut create = |number: usize| {
        let properties = [("operation", "CREATE"), ("type", "listener"), ("name", &format!("many-{number}"))];
        answer(&mut agent, &request(&properties, Some(&[("port", Datum::text(&(20_000 + number).to_string()))])))
    };
    // One is configured.
    for number in 1..LISTENERS_MAX {
        assert_eq!(create(number).status, Status::Created);
    }
    let refused = create(LISTENERS_MAX);
    assert_eq!(refused.status, Status::BadRequest);
    assert!(refused.description.starts_with("There are 1024 entities of "), "{}", refused.description);
    let delete = [("operation", "DELETE"), ("type", "listener"), ("name", "many-7")];
    assert_eq!(ask(&mut agent, &delete).status, Status::NoContent);
    let again = [("operation", "CREATE"), ("type", "listener"), ("name", "many-7")];
    let response = answer(&mut agent, &request(&again, Some(&[("port", Datum::text("20007"))])));
    assert_eq!(response.status, Status::Created, "{}", response.description);

    let names: Vec<String> = (0..20_000).map(|number| format!("a{number}")).collect();
    let body: Vec<(&str, Datum)> = names.iter().map(|name| (&**name, Datum::text("x"))).collect();
    for entity in ["listener", "router.config.address", "dummy"] {
        let properties = [("operation", "CREATE"), ("type", entity), ("name", "huge")];
        let response = answer(&mut agent, &request(&properties, Some(&body)));
        assert_eq!(response.status, Status::BadRequest, "{}", response.description);
    }
    for name in [names.clone(), vec!["name".to_owned(); 20_000]] {
        let body = [("attributeNames", Datum::json(&serde_json::json!(name)))];
        let response = answer(&mut agent, &request(&[("operation", "QUERY")], Some(&body)));
        assert!([Status::NotFound, Status::BadRequest].contains(&response.status), "{:?}", response.status);
    }
}

#[test]
fn an_entity_is_created_read_updated_and_deleted() {
    let mut agent = agent();
    let of = |operation, name| [("operation", operation), ("type", "dummy"), ("name", name)];
    let made = answer(&mut agent, &request(&of("create", "d"), Some(&[("arg1", Datum::text("x"))])));
    assert_eq!(made.status, Status::Created);
    assert_eq!(attribute(&made, "type").as_deref(), Some("org.apache.qpid.dispatch.dummy"));
    let identity = attribute(&made, "identity").expect("an identity");
    let body = [
        ("arg1", Datum::text("y")),
        ("num1", Datum::text("7")),
        ("name", Datum::text("d")),
        ("identity", Datum::text(&identity)),
    ];
    let updated = answer(&mut agent, &request(&of("UPDATE", "d"), Some(&body)));
    assert_eq!((updated.status, attribute(&updated, "num1").as_deref()), (Status::Ok, Some("Long(7)")));
    let read = ask(&mut agent, &[("operation", "READ"), ("identity", &identity)]);
    assert_eq!((attribute(&read, "arg1").as_deref(), attribute(&read, "arg2")), (Some("y"), None));
    assert_eq!(ask(&mut agent, &of("DELETE", "d")).status, Status::NoContent);
    assert_eq!(ask(&mut agent, &of("READ", "d")).status, Status::NotFound);
}

#[test]
fn a_read_and_a_query_of_the_router_look_at_the_same() {
    let mut agent = agent();
    let query = request(&[("operation", "QUERY"), ("entityType", "router")], Some(&[]));
    let Step::Query(query) = agent.begin(&query) else { panic!("a query") };
    let read = request(&[("operation", "READ"), ("type", "router"), ("identity", "1")], None);
    let Step::Read(read) = agent.begin(&read) else { panic!("a read") };
    assert_eq!(read.tables(&agent), query.tables(&agent));
}

#[test]
fn an_address_shows_what_it_has_and_what_it_hasn_t() {
    let mut agent = agent();
    let create = [("operation", "CREATE"), ("type", "org.apache.qpid.dispatch.router.config.address")];
    let made = answer(
        &mut agent,
        &request(&create, Some(&[("pattern", Datum::text("a.*")), ("alertCountUp", Datum::integer(10))])),
    );
    assert_eq!(made.status, Status::Created, "{}", made.description);
    assert_eq!(attribute(&made, "prefix").as_deref(), Some("null"));
    assert_eq!(attribute(&made, "name").as_deref(), Some("null"));
    assert_eq!(attribute(&made, "pattern").as_deref(), Some("a.*"));
    assert_eq!(attribute(&made, "alertCountUp").as_deref(), Some("Long(10)"));
    assert_eq!(attribute(&made, "distribution").as_deref(), Some("balanced"));
    let identity = attribute(&made, "identity").expect("an identity");
    assert!(identity.parse::<u64>().is_ok());
    let delete =
        [("operation", "DELETE"), ("type", "org.apache.qpid.dispatch.router.config.address"), ("identity", &*identity)];
    assert!(matches!(agent.begin(&request(&delete, None)), Step::Change(Change::Delete { .. })));
}

#[test]
fn what_isn_t_served_is_shown_with_what_is_missing() {
    let mut agent = agent();
    let of = |rows: Vec<Vec<(String, String)>>, name: &str| -> String {
        assert_eq!(rows.len(), 1);
        rows[0].iter().find(|(key, _)| key == name).map(|(_, value)| value.clone()).expect("the attribute")
    };
    let link_route = rows(&mut agent, "router.config.linkRoute");
    assert_eq!((of(link_route.clone(), "dir"), of(link_route.clone(), "direction")), ("in".into(), "in".into()));
    assert_eq!(of(link_route, "operStatus"), "inactive");
    let auto_link = rows(&mut agent, "router.config.autoLink");
    assert_eq!((of(auto_link.clone(), "addr"), of(auto_link.clone(), "operStatus")), ("q".into(), "inactive".into()));
    assert!(of(auto_link, "lastError").contains("not served by this version"));
    assert!(of(rows(&mut agent, "connector"), "connectionMsg").contains("not served by this version"));
}

#[test]
fn pages_of_a_query_have_every_row_once() {
    let mut agent = agent();
    for number in 0..2500 {
        let properties = [("operation", "CREATE"), ("type", "dummy"), ("name", &*format!("d{number}"))];
        assert_eq!(answer(&mut agent, &request(&properties, Some(&[]))).status, Status::Created);
    }
    let (mut names, mut offset) = (Vec::new(), 0);
    loop {
        let at = offset.to_string();
        let properties = [("operation", "QUERY"), ("entityType", "dummy"), ("offset", &*at), ("count", "500")];
        let body = [("attributeNames", Datum::json(&serde_json::json!(["name"])))];
        let response = answer(&mut agent, &request(&properties, Some(&body)));
        let Some(Value::List(results)) = Map::parse(&response.body).unwrap().get("results") else { panic!() };
        if results.count == 0 {
            break;
        }
        let name = |row| match row {
            Ok(Value::List(row)) => row.iter().next().unwrap().map(|name| format!("{name:?}")).unwrap(),
            other => panic!("{other:?}"),
        };
        names.extend(results.iter().map(name));
        offset += 500;
    }
    let distinct: std::collections::HashSet<&String> = names.iter().collect();
    assert_eq!((names.len(), distinct.len()), (2500, 2500));
}

/// Rows are kept for whoever may ask for those behind what was shown, and for nobody else.
#[test]
fn only_who_got_as_many_rows_as_asked_for_may_go_on() {
    let mut agent = agent();
    for number in 0..10 {
        let properties = [("operation", "CREATE"), ("type", "dummy"), ("name", &*format!("d{number}"))];
        assert_eq!(answer(&mut agent, &request(&properties, Some(&[]))).status, Status::Created);
    }
    for (count, may_go_on, is_long) in [
        (None, false, true),
        (Some("9"), true, false),
        (Some("10"), true, false),
        (Some("11"), false, false),
        (Some("100000"), false, true),
    ] {
        let mut properties = vec![("operation", "QUERY"), ("entityType", "dummy")];
        properties.extend(count.map(|count| ("count", count)));
        let Step::Query(query) = agent.begin(&request(&properties, Some(&[]))) else { panic!("a query") };
        assert_eq!(query.is_long(), is_long, "{count:?}");
        let mut writer = Writer::new(query);
        while writer.go_on(&agent, &Snapshot::default()) {}
        assert_eq!(writer.may_go_on(), may_go_on, "{count:?}");
    }
}

/// Each row of the answer would be as long as the request.
#[test]
fn attributes_are_asked_for_once_each() {
    let mut agent = agent();
    let ask = |agent: &mut Agent, names: Vec<&str>| {
        let body = [("attributeNames", Datum::json(&serde_json::json!(names)))];
        answer(agent, &request(&[("operation", "QUERY"), ("entityType", "listener")], Some(&body))).status
    };
    assert_eq!(ask(&mut agent, vec!["name", "port"]), Status::Ok);
    assert_eq!(ask(&mut agent, vec!["name"; 10_000]), Status::BadRequest);
    assert_eq!(ask(&mut agent, vec!["nmae"; 10_000]), Status::NotFound);
}

#[test]
fn the_types_are_those_that_tools_expect() {
    let mut agent = agent();
    let types = ask(&mut agent, &[("operation", "GET-TYPES")]);
    assert_eq!(Map::parse(&types.body).unwrap().count / 2, 29);
    let of = |agent: &mut Agent, operation, entity: &str| {
        let response = ask(agent, &[("operation", operation), ("entityType", entity)]);
        let map = Map::parse(&response.body).unwrap();
        let Some(Value::List(list)) = map.get(&format!("{PREFIX}{entity}")) else { panic!("{response:?}") };
        let text = |value| match value {
            Ok(Value::String(text)) => text.to_owned(),
            other => panic!("{other:?}"),
        };
        list.iter().map(text).collect::<Vec<String>>()
    };
    assert_eq!(of(&mut agent, "GET-OPERATIONS", "sslProfile"), ["CREATE", "DELETE", "READ"]);
    assert_eq!(of(&mut agent, "GET-OPERATIONS", "router.link"), ["UPDATE", "READ"]);
    assert_eq!(of(&mut agent, "GET-OPERATIONS", "dummy"), ["CREATE", "READ", "UPDATE", "DELETE", "CALLME"]);
    assert_eq!(
        of(&mut agent, "GET-TYPES", "sslProfile"),
        [format!("{PREFIX}configurationEntity"), format!("{PREFIX}entity")]
    );
    assert_eq!(of(&mut agent, "GET-ATTRIBUTES", "sslProfile").len(), 12);
    for entity in agent.schema().types().iter().map(|one| one.short) {
        let names = agent.schema().find(entity).map(|kind| agent.shown(kind)).unwrap_or_default();
        let distinct: std::collections::HashSet<&&str> = names.iter().collect();
        assert_eq!(distinct.len(), names.len(), "{entity} has an attribute twice");
    }
}

fn operation() -> impl Strategy<Value = String> {
    let known = [
        "QUERY",
        "CREATE",
        "READ",
        "UPDATE",
        "DELETE",
        "GET-TYPES",
        "GET-SCHEMA",
        "GET-LOG",
        "CALLME",
        "get-json-schema",
    ];
    prop_oneof![proptest::sample::select(known.to_vec()).prop_map(str::to_owned), ".{0,12}"]
}

fn word() -> impl Strategy<Value = String> {
    let known = [
        "listener",
        "dummy",
        "router",
        "router.link",
        "router.address",
        "log",
        "connection",
        "self",
        "l0",
        "log/AGENT",
        "1",
        "",
    ];
    prop_oneof![proptest::sample::select(known.to_vec()).prop_map(str::to_owned), ".{0,12}"]
}

fn datum() -> impl Strategy<Value = Datum> {
    prop_oneof![
        word().prop_map(|text| Datum::text(&text)),
        any::<i64>().prop_map(Datum::integer),
        any::<bool>().prop_map(Datum::boolean),
        Just(Datum::null()),
        proptest::collection::vec(word(), 0..4).prop_map(|words| Datum::json(&serde_json::json!(words))),
        proptest::collection::hash_map(word(), word(), 0..3).prop_map(|map| Datum::json(&serde_json::json!(map))),
    ]
}

proptest! {
    /// Every answer's body is one whole value, whatever was asked.
    #[test]
    fn any_request_is_answered(
        operation in operation(),
        properties in proptest::collection::vec(("(type|name|identity|entityType|offset|count|indent|limit)", datum()), 0..5),
        attributes in proptest::option::of(proptest::collection::vec((word_of_attribute(), datum()), 0..5)),
    ) {
        let mut agent = agent();
        let mut properties: Vec<(String, Datum)> = properties;
        properties.push(("operation".to_owned(), Datum::text(&operation)));
        let response = answer(&mut agent, &Request { properties, attributes });
        let mut reader = Reader::new(&response.body);
        prop_assert!(reader.checked().is_ok() && reader.is_empty());
    }

    /// No bytes do harm, and what is well-formed enough to name somebody is answered.
    #[test]
    fn any_message_does_no_harm(tail in proptest::collection::vec(any::<u8>(), 0..200)) {
        let head = b"\x00\x53\x73\xc0\x09\x05\x40\x40\x40\x40\xa1\x01r\x40";
        let _ = Request::read(&tail);
        let message = [&head[..], &tail].concat();
        match Request::read(&message) {
            Received::Unanswerable => {}
            Received::Bad(envelope, text) => {
                let sealed = envelope.seal(&Response::error(Status::BadRequest, text));
                prop_assert!(!sealed.is_empty());
            }
            Received::Request(envelope, request) => {
                let response = answer(&mut agent(), &request);
                prop_assert!(!envelope.seal(&response).is_empty());
            }
        }
    }
}

fn word_of_attribute() -> impl Strategy<Value = String> {
    let known = [
        "type",
        "name",
        "identity",
        "attributeNames",
        "arg1",
        "num1",
        "port",
        "host",
        "enable",
        "module",
        "prefix",
        "adminStatus",
    ];
    prop_oneof![proptest::sample::select(known.to_vec()).prop_map(str::to_owned), ".{0,8}"]
}
