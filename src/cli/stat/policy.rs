//! What `ringway stat` shows of policies: the policy, virtual hosts, their groups and statistics.

use super::table::{get, plain, text, Table};
use crate::cli::agent::{Entity, Rows};
use serde_json::Value;

/// Rows: a name and an attribute.
type Lines<'a> = &'a [(&'static str, &'static str)];

fn lines(title: &str, entity: &Entity, lines: Lines<'_>) -> Table {
    let mut table = Table::new(title, &["attr", "value"]);
    for (name, attribute) in lines {
        let Some(value) = entity.get(*attribute) else { continue };
        let shown = match value {
            Value::String(text) if text.is_empty() => "(nil)".to_owned(),
            Value::Bool(_) => text(value),
            value => plain(value),
        };
        table.rows.push(vec![(*name).to_owned(), shown]);
    }
    table
}

pub fn policy(policy: &Entity) -> [Table; 2] {
    let configuration = lines(
        "Policy Configuration",
        policy,
        &[
            ("Maximum Concurrent Connections", "maxConnections"),
            ("Maximum Message Size", "maxMessageSize"),
            ("Enable Vhost Policy", "enableVhostPolicy"),
            ("Enable Vhost Name Patterns", "enableVhostNamePatterns"),
            ("Policy Directory", "policyDir"),
            ("Default Vhost", "defaultVhost"),
        ],
    );
    let status = lines(
        "\nPolicy Status",
        policy,
        &[
            ("Connections Processed", "connectionsProcessed"),
            ("Connections Denied", "connectionsDenied"),
            ("Connections Current", "connectionsCurrent"),
            ("Links Denied", "linksDenied"),
            ("Maximum Message Size Denied", "maxMessageSizeDenied"),
            ("Total Denials", "totalDenials"),
        ],
    );
    [configuration, status]
}

/// Columns that are their attributes' names, where the first row has them.
fn named(title: &str, rows: &[Entity], columns: &[&'static str]) -> Table {
    let has = |name: &&&str| rows.first().is_some_and(|row| row.contains_key(**name));
    let columns: Vec<&'static str> = columns.iter().filter(has).copied().collect();
    let mut table = Table::new(title, &columns);
    for row in rows {
        let cell = |name: &&str| match get(row, name) {
            Value::Number(number) => plain(&Value::Number(number.clone())),
            Value::Object(map) => map.len().to_string(),
            other => text(other),
        };
        table.rows.push(columns.iter().map(cell).collect());
    }
    table
}

/// None: there are none.
pub fn vhosts(rows: Rows) -> Option<Table> {
    const COLUMNS: &[&str] = &[
        "hostname",
        "maxConnections",
        "maxMessageSize",
        "maxConnectionsPerUser",
        "maxConnectionsPerHost",
        "allowUnknownUser",
        "groups",
    ];
    let vhosts = rows.entities();
    (!vhosts.is_empty()).then(|| named("Vhosts", &vhosts, COLUMNS))
}

const GROUP_NUMBERS: &[&str] = &[
    "maxConnectionsPerUser",
    "maxConnectionsPerHost",
    "maxMessageSize",
    "maxFrameSize",
    "maxSessionWindow",
    "maxSessions",
    "maxSenders",
    "maxReceivers",
];
const GROUP_RIGHTS: &[&str] = &[
    "allowDynamicSource",
    "allowAnonymousSender",
    "allowUserIdProxy",
    "allowWaypointLinks",
    "allowDynamicLinkRoutes",
    "allowAdminStatusUpdate",
    "allowFallbackLinks",
];
/// They may be long: each group has a table of its own.
const GROUP_TEXTS: &[&str] = &["users", "remoteHosts", "sources", "targets", "sourcePattern", "targetPattern"];

/// A group's setting, or what the schema has as its default.
fn setting(group: &Value, name: &str, schema: &Value) -> Value {
    let default = || schema.get(name).and_then(|attribute| attribute.get("default"));
    group.get(name).or_else(default).cloned().unwrap_or(Value::Null)
}

/// `schema`: the attributes of a group. None: there are no vhosts.
pub fn vhost_groups(rows: Rows, schema: &Value) -> Option<Vec<Table>> {
    let vhosts = rows.entities();
    if vhosts.is_empty() {
        return None;
    }
    let has_size = vhosts[0].contains_key("maxMessageSize");
    let numbers = || GROUP_NUMBERS.iter().filter(|name| has_size || **name != "maxMessageSize");
    let mut headings = vec!["vhost", "group"];
    headings.extend(numbers());
    headings.extend(GROUP_RIGHTS);
    let mut tables = vec![Table::new("Vhost Groups", &headings)];
    for vhost in &vhosts {
        let hostname = text(get(vhost, "hostname"));
        let Value::Object(groups) = get(vhost, "groups") else { continue };
        for (name, group) in groups {
            let shown =
                |attribute: &str, absent: &str, show: fn(&Value) -> String| match setting(group, attribute, schema) {
                    Value::Null => absent.to_owned(),
                    value => show(&value),
                };
            let mut row = vec![hostname.clone(), name.clone()];
            row.extend(numbers().map(|attribute| shown(attribute, "(nil)", plain)));
            row.extend(GROUP_RIGHTS.iter().map(|attribute| shown(attribute, "False", text)));
            tables[0].rows.push(row);
            let mut table = Table::new(format!("\nVhost '{hostname}' UserGroup '{name}'"), &["attr", "value"]);
            table.rows.push(vec!["vhost".to_owned(), hostname.clone()]);
            table.rows.push(vec!["group".to_owned(), name.clone()]);
            let texts =
                GROUP_TEXTS.iter().map(|attribute| vec![(*attribute).to_owned(), shown(attribute, "(nil)", text)]);
            table.rows.extend(texts);
            tables.push(table);
        }
    }
    Some(tables)
}

/// None: there are none.
pub fn vhost_stats(rows: Rows) -> Option<[Table; 2]> {
    const COLUMNS: &[&str] = &[
        "hostname",
        "connectionsApproved",
        "connectionsDenied",
        "connectionsCurrent",
        "sessionDenied",
        "senderDenied",
        "receiverDenied",
        "maxMessageSizeDenied",
    ];
    let stats = rows.entities();
    if stats.is_empty() {
        return None;
    }
    let mut users = Table::new("\nVhost User Stats", &["vhost", "user", "remote hosts"]);
    for vhost in &stats {
        let Value::Object(state) = get(vhost, "perUserState") else { continue };
        let hostname = text(get(vhost, "hostname"));
        users.rows.extend(state.iter().map(|(user, hosts)| vec![hostname.clone(), user.clone(), text(hosts)]));
    }
    Some([named("Vhost Stats", &stats, COLUMNS), users])
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn rows(entities: Value) -> Rows {
        let entities = entities.as_array().unwrap();
        let names: Vec<String> = entities[0].as_object().unwrap().keys().cloned().collect();
        let row = |entity: &Value| names.iter().map(|name| entity[name].clone()).collect();
        Rows { rows: entities.iter().map(row).collect(), names: names.clone() }
    }

    #[test]
    fn a_policy_has_two_tables() {
        let policy_entity = json!({"maxConnections": 65535, "enableVhostPolicy": false, "policyDir": "",
            "defaultVhost": "$default", "totalDenials": 3});
        let [configuration, status] = policy(policy_entity.as_object().unwrap());
        assert_eq!(
            configuration.rows,
            [
                ["Maximum Concurrent Connections", "65535"],
                ["Enable Vhost Policy", "False"],
                ["Policy Directory", "(nil)"],
                ["Default Vhost", "$default"],
            ]
        );
        assert_eq!(status.rows, [["Total Denials", "3"]]);
    }

    #[test]
    fn groups_show_defaults_of_the_schema() {
        let entities =
            json!([{"hostname": "h", "groups": {"g": {"users": "u", "maxSenders": 5, "allowDynamicSource": true}}}]);
        let schema = json!({"maxSenders": {"default": 9}, "maxReceivers": {"default": 9}, "sources": {}});
        let tables = vhost_groups(rows(entities), &schema).unwrap();
        assert_eq!(tables[0].rows[0][..2], ["h", "g"]);
        assert_eq!(tables[0].rows[0][7..11], ["5", "9", "True", "False"]);
        assert_eq!(tables[1].rows[2..5], [["users", "u"], ["remoteHosts", "(nil)"], ["sources", "(nil)"]]);
    }

    #[test]
    fn vhosts_count_their_groups() {
        let table = vhosts(rows(
            json!([{"hostname": "h", "maxConnections": 7, "allowUnknownUser": true, "groups": {"a": 1, "b": 2}}]),
        ));
        assert_eq!(table.unwrap().rows, [["h", "7", "True", "2"]]);
        assert_eq!(vhosts(Rows::default()), None);
        let [stats, users] =
            vhost_stats(rows(json!([{"hostname": "h", "senderDenied": 1, "perUserState": {"u": ["::1"]}}]))).unwrap();
        assert_eq!(
            (stats.rows, users.rows),
            (vec![vec!["h".into(), "1".into()]], vec![vec!["h".into(), "u".into(), "['::1']".into()]])
        );
    }
}
