//! A configuration as it stands in the file, before its words mean anything: sections with attributes, each
//! with its line. Both forms, `conf` and JSON, come to this.

use serde_json::Value;

/// `name { … }`, or `["name", {…}]`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Section {
    /// As written.
    pub name: String,
    pub line: usize,
    pub attributes: Vec<Attribute>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Attribute {
    /// As written.
    pub name: String,
    pub line: usize,
    pub value: Raw,
}

/// A value as it stands in a file or a request, before its attribute says what it is.
#[derive(Debug, Clone, PartialEq)]
pub enum Raw {
    /// A word, a number, a boolean: what it is, its attribute's type says.
    Text(String),
    /// A JSON array of such.
    List(Vec<String>),
    /// A map, as its text.
    Map(String),
    /// JSON's null: as if the attribute weren't there.
    Null,
}

impl Raw {
    /// A JSON value as the conf form would have it; its type is checked with its attribute's. None: a list of
    /// something else than words and numbers.
    pub fn from_json(value: &Value) -> Option<Raw> {
        Some(match value {
            Value::Null => Raw::Null,
            Value::Object(_) => Raw::Map(value.to_string()),
            Value::Array(items) => Raw::List(items.iter().map(scalar).collect::<Option<_>>()?),
            value => Raw::Text(scalar(value)?),
        })
    }
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}
