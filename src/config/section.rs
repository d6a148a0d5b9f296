//! A configuration as it stands in the file, before its words mean anything: sections with attributes, each
//! with its line. Both forms, `conf` and JSON, come to this.

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

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Raw {
    /// A word, a number, a boolean: what it is, its attribute's type says.
    Text(String),
    /// A JSON array of such.
    List(Vec<String>),
    /// A map, as its text.
    Map(String),
    /// JSON's null: as if the attribute weren't there.
    Null,
}
