//! What the command line becomes as requests.

use super::*;
use clap::Parser;
use serde_json::json;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    arguments: ManageArguments,
}

fn order_with(line: &[&str], stdin: &str) -> Result<Order, Failure> {
    let line = Line::parse_from(["manage"].iter().chain(line));
    Order::read(&line.arguments, &mut stdin.as_bytes())
}

fn order(line: &[&str]) -> Order {
    order_with(line, "").unwrap()
}

/// The only request's properties and body.
fn request(order: Order) -> (Value, Value) {
    let request = match order {
        Order::Each { mut requests, .. } => requests.remove(0),
        Order::One { request, .. } => request,
        Order::Query { .. } => panic!("a query"),
    };
    (Value::Object(request.properties), request.body)
}

#[test]
fn verbs_are_known_in_any_case() {
    for verb in ["QUERY", "query", "Query"] {
        let expected = Order::Query {
            entity_type: Some("org.apache.qpid.dispatch.router.config.address".into()),
            attributes: vec!["name".into()],
        };
        assert_eq!(order(&[verb, "--type", "address", "name"]), expected);
    }
    let (properties, _) = request(order(&["get-schema"]));
    assert_eq!(properties, json!({"operation": "get-schema", "type": "org.amqp.management", "name": "self"}));
}

#[test]
fn short_types_are_made_long() {
    for (short, long) in [
        ("listener", "org.apache.qpid.dispatch.listener"),
        ("address", "org.apache.qpid.dispatch.router.config.address"),
        ("link", "org.apache.qpid.dispatch.router.link"),
        ("org.x", "org.x"),
    ] {
        assert_eq!(long_type(short), long);
    }
}

#[test]
fn create_takes_pairs() {
    let order =
        order(&["CREATE", "--type=listener", "--name", "l", "port=7", "idleTimeoutSeconds=9", "http=true", "host"]);
    assert!(matches!(&order, Order::Each { expected: 201, is_list: false, .. }));
    let (properties, body) = request(order);
    let kind = "org.apache.qpid.dispatch.listener";
    assert_eq!(properties, json!({"operation": "CREATE", "type": kind, "name": "l"}));
    // A port is a text, as its schema says.
    assert_eq!(body, json!({"port": "7", "idleTimeoutSeconds": 9, "http": true, "host": null}));
}

#[test]
fn create_and_update_take_lists() {
    let stdin = r#"[{"type": "address", "name": "a", "prefix": "x"}, {"type": "listener", "port": 1}]"#;
    let Order::Each { requests, expected, is_list } = order_with(&["create", "--stdin"], stdin).unwrap() else {
        panic!()
    };
    assert_eq!((requests.len(), expected, is_list), (2, 201, true));
    let kind = "org.apache.qpid.dispatch.router.config.address";
    assert_eq!(
        Value::Object(requests[0].properties.clone()),
        json!({"operation": "CREATE", "type": kind, "name": "a"})
    );
    assert_eq!(requests[0].body, json!({"type": kind, "name": "a", "prefix": "x"}));

    let order =
        order_with(&["update", "--stdin"], r#"{"type": "log", "identity": "log/DEFAULT", "name": "n", "x": "yes"}"#);
    let (properties, body) = request(order.unwrap());
    let kind = "org.apache.qpid.dispatch.log";
    assert_eq!(properties, json!({"operation": "UPDATE", "type": kind, "identity": "log/DEFAULT"}));
    assert_eq!(body["x"], json!(true));
    for stdin in ["", "7", "[1]", "{"] {
        assert!(order_with(&["create", "--stdin"], stdin).is_err(), "{stdin}");
    }
}

#[test]
fn read_and_delete_name_one_entity() {
    let (properties, _) = request(order(&["read", "--type=router", "--name=n", "--identity=i"]));
    assert_eq!(properties, json!({"operation": "READ", "type": "org.apache.qpid.dispatch.router", "identity": "i"}));
    assert!(matches!(order(&["DELETE", "--name", "n"]), Order::One { expected: 204, .. }));
    assert!(order_with(&["READ", "spare"], "").is_err());
}

#[test]
fn other_operations_take_properties_and_a_body() {
    let line = ["frobnicate", "--type", "router", "a=1", "b=true", "--properties", r#"{"c": [1]}"#, "--body", "text"];
    let (properties, body) = request(order(&line));
    let kind = "org.apache.qpid.dispatch.router";
    assert_eq!(properties, json!({"operation": "frobnicate", "type": kind, "a": "1", "b": true, "c": [1]}));
    assert_eq!(body, json!("text"));
    let (properties, _) = request(order(&["get-log", "limit=5"]));
    assert_eq!(properties["limit"], json!("5"));
    assert!(order_with(&["x", "--body", "{1"], "").is_err());
    assert!(order_with(&["x", "--properties", "7"], "").is_err());
}

#[test]
fn answers_are_indented_as_asked() {
    let value = json!({"a": [1, "x"], "b": {}});
    assert_eq!(to_json(&value, 2), "{\n  \"a\": [\n    1,\n    \"x\"\n  ],\n  \"b\": {}\n}\n");
    assert_eq!(to_json(&value, -1), "{\"a\": [1, \"x\"], \"b\": {}}\n");
}
