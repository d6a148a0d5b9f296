//! Raw values to typed ones, as an attribute's kind says.

use super::map;
use super::problem::closest;
use super::schema::{did_you_mean, Attribute, Kind, Served};
use super::section::Raw;

/// A value of an attribute.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Text(String),
    Boolean(bool),
    Integer(u64),
    /// The word as the schema writes it.
    Choice(&'static str),
    List(Vec<String>),
    Map(map::Map),
    /// `number` is None where the name is no port's.
    Port {
        name: String,
        number: Option<u16>,
    },
}

/// The value of `attribute`, or what is wrong with it. None: null, as if it weren't there.
pub(super) fn parse(attribute: &Attribute, raw: &Raw) -> Result<Option<Value>, String> {
    let value = match (raw, attribute.kind) {
        (Raw::Null, _) => return Ok(None),
        (Raw::Text(text), _) => parse_text(attribute, text)?,
        (Raw::List(items), Kind::Words) => Value::List(items.iter().flat_map(|item| words(item)).collect()),
        (Raw::List(items), Kind::Items | Kind::List) => Value::List(items.clone()),
        (Raw::List(_), _) => return Err(format!("'{}' is not a list", attribute.name)),
        (Raw::Map(text), Kind::Map | Kind::Properties) => {
            Value::Map(map::parse(text).map_err(|error| format!("{}: {error}", attribute.name))?)
        }
        (Raw::Map(_), _) => return Err(format!("'{}' is not a map", attribute.name)),
    };
    Ok(Some(value))
}

pub(super) fn parse_text(attribute: &Attribute, text: &str) -> Result<Value, String> {
    let bad = |expected: String| Err(format!("{}: expected {expected}, found '{text}'", attribute.name));
    match attribute.kind {
        Kind::Text | Kind::Path => Ok(Value::Text(text.to_string())),
        Kind::Boolean => match text.to_ascii_lowercase().as_str() {
            "yes" | "true" | "on" => Ok(Value::Boolean(true)),
            "no" | "false" | "off" => Ok(Value::Boolean(false)),
            _ => bad("yes or no".to_string()),
        },
        Kind::Integer(least, most) => match text.parse::<u64>() {
            Ok(number) if (least..=most).contains(&number) => Ok(Value::Integer(number)),
            _ => bad(format!("a number from {least} to {most}")),
        },
        Kind::Choice(words) => match words.iter().find(|word| word.eq_ignore_ascii_case(text)) {
            Some(word) => Ok(Value::Choice(word)),
            None => {
                let suggestion = did_you_mean(closest(text, words.iter().copied()));
                Err(format!("{}: expected one of {}; found '{text}'{suggestion}", attribute.name, words.join(", ")))
            }
        },
        Kind::Words => Ok(Value::List(words(text))),
        Kind::Items | Kind::List => Ok(Value::List(items(text))),
        Kind::Map | Kind::Properties => bad("a map: '{' … '}'".to_string()),
        Kind::Port => {
            let number = match text {
                "amqp" => Some(5672),
                "amqps" => Some(5671),
                "http" => Some(80),
                "https" => Some(443),
                _ => text.parse().ok(),
            };
            Ok(Value::Port { name: text.to_string(), number })
        }
        Kind::Percent(most) => match text.trim_end_matches('%').trim_end().parse::<u64>() {
            Ok(number) if number <= most => Ok(Value::Integer(number)),
            _ => bad(format!("a percentage from 0 to {most}")),
        },
        Kind::Milliseconds(most) => match text.trim_end_matches("ms").trim_end().parse::<u64>() {
            Ok(number) if number <= most => Ok(Value::Integer(number)),
            _ => bad(format!("milliseconds from 0 to {most}")),
        },
        Kind::Quantity(base) => match quantity(text, base) {
            Some(number) => Ok(Value::Integer(number)),
            None => bad("a whole number, with k, m or g behind it or not".to_string()),
        },
    }
}

/// `4k` as 4 × base, `m` and `g` as its powers. None: no such number, or one beyond 2^63.
fn quantity(text: &str, base: u64) -> Option<u64> {
    let (digits, factor) = match text.char_indices().next_back() {
        Some((at, 'k' | 'K')) => (&text[..at], base),
        Some((at, 'm' | 'M')) => (&text[..at], base * base),
        Some((at, 'g' | 'G')) => (&text[..at], base * base * base),
        _ => (text, 1),
    };
    let number = digits.trim_end().parse::<u64>().ok()?.checked_mul(factor)?;
    (number <= i64::MAX as u64).then_some(number)
}

/// The words between commas and spaces.
pub(super) fn words(text: &str) -> Vec<String> {
    text.split(|c: char| c == ',' || c.is_whitespace()).filter(|word| !word.is_empty()).map(str::to_string).collect()
}

/// What stands between commas.
fn items(text: &str) -> Vec<String> {
    text.split(',').map(str::trim).filter(|item| !item.is_empty()).map(str::to_string).collect()
}

/// Whether a value is what the attribute has without it, or nothing.
pub(super) fn is_default(attribute: &Attribute, value: &Value) -> bool {
    let is_empty = match value {
        Value::Text(text) => text.is_empty(),
        Value::List(items) => items.is_empty(),
        Value::Map(map) => map.is_empty(),
        // A phase of 0 and no phase are one.
        Value::Integer(number) => *number == 0 && attribute.default.is_none(),
        _ => false,
    };
    let is_same = |default| parse_text(attribute, default).is_ok_and(|default| default == *value);
    is_empty || attribute.default.is_some_and(is_same)
}

/// Whether this version serves an attribute with this value.
pub(super) fn is_served(attribute: &Attribute, value: &Value) -> bool {
    !matches!(attribute.served, Served::DefaultOnly(_)) || is_default(attribute, value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities() {
        assert_eq!(quantity("10", 1000), Some(10));
        assert_eq!(quantity("4k", 1024), Some(4096));
        assert_eq!(quantity("2 M", 1000), Some(2_000_000));
        assert_eq!(quantity("1g", 1024), Some(1 << 30));
        assert_eq!(quantity("99999999999g", 1024), None);
        assert_eq!(quantity("k", 1000), None);
        assert_eq!(quantity("-1", 1000), None);
        assert_eq!(quantity("1.5k", 1000), None);
    }
}
