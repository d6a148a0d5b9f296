//! The JSON form: a list of `["section", {attributes}]`. A line that begins with `#` is a comment.
//!
//! serde_json reads it; a raw value is a piece of the text itself, so where it stands there gives its line.

use super::problem::Report;
use super::section::{Attribute, Raw, Section};
use serde::de::{Deserializer, MapAccess, Visitor};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::fmt;

pub(super) fn parse(text: &str, report: &mut Report) -> Vec<Section> {
    let text = &without_comments(text.strip_prefix('\u{feff}').unwrap_or(text));
    let entries: Vec<&RawValue> = match serde_json::from_str(text) {
        Ok(entries) => entries,
        Err(error) => {
            report.error(error.line(), describe(&error, "a list of [\"section\", {attributes}]"));
            return Vec::new();
        }
    };
    entries.into_iter().filter_map(|entry| section(text, entry.get(), report)).collect()
}

/// The text with comments' lines empty, so that the others keep their numbers.
fn without_comments(text: &str) -> String {
    let is_comment = |line: &&str| line.trim_start().starts_with('#');
    text.lines().map(|line| if is_comment(&line) { "" } else { line }).collect::<Vec<_>>().join("\n")
}

fn section(text: &str, entry: &str, report: &mut Report) -> Option<Section> {
    let line = line_of(text, entry);
    let parts: Vec<&RawValue> = serde_json::from_str(entry).unwrap_or_default();
    let (name, attributes) = match parts[..] {
        [name, attributes] => (name.get(), attributes.get()),
        [name] => (name.get(), "{}"),
        _ => {
            report.error(line, "expected [\"section\", {attributes}]");
            return None;
        }
    };
    let Ok(name) = serde_json::from_str::<String>(name) else {
        report.error(line, "expected [\"section\", {attributes}]: the section's name is a string");
        return None;
    };
    let Ok(Pairs(pairs)) = serde_json::from_str(attributes) else {
        report.error(line, format!("{name}: expected a map of attributes"));
        return None;
    };
    let mut attributes = Vec::with_capacity(pairs.len());
    for (attribute, value) in pairs {
        let line = line_of(text, value.get());
        match serde_json::from_str(value.get()).ok().and_then(|value| Raw::from_json(&value)) {
            Some(value) => attributes.push(Attribute { name: attribute, line, value }),
            None => report.error(line, format!("{name}: '{attribute}' can't be a list of lists or of maps")),
        }
    }
    Some(Section { name, line, attributes })
}

/// The line, from 1, where a piece of `text` begins.
fn line_of(text: &str, piece: &str) -> usize {
    let offset = (piece.as_ptr() as usize).saturating_sub(text.as_ptr() as usize).min(text.len());
    1 + text.as_bytes()[..offset].iter().filter(|byte| **byte == b'\n').count()
}

fn describe(error: &serde_json::Error, expected: &str) -> String {
    match error.classify() {
        serde_json::error::Category::Data => format!("expected {expected}"),
        _ => format!("not JSON: {error}"),
    }
}

/// A map's entries in their order, doubles kept: a name given twice is an error that needs both.
struct Pairs<'t>(Vec<(String, &'t RawValue)>);

impl<'de> Deserialize<'de> for Pairs<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Pairs<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Pairs(pairs))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}
