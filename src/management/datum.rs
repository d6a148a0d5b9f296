//! A value of an attribute: kept as it is encoded, so that it comes back as it was given.

use super::out::Out;
use crate::wire::value::{Reader, Value};
use crate::wire::WireError;

/// One encoded value, whole and well-formed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Datum(Box<[u8]>);

impl Datum {
    /// A value from a peer, checked to its innermost element.
    pub fn checked(raw: &[u8]) -> Result<Datum, WireError> {
        let mut reader = Reader::new(raw);
        let bytes = reader.checked()?;
        Ok(Datum(bytes.into()))
    }

    fn make(fill: impl FnOnce(&mut Out)) -> Datum {
        let mut out = Out::default();
        fill(&mut out);
        Datum(out.into_bytes().into())
    }

    pub fn null() -> Datum {
        Datum::make(Out::null)
    }

    pub fn text(text: &str) -> Datum {
        Datum::make(|out| out.text(text))
    }

    pub fn boolean(value: bool) -> Datum {
        Datum::make(|out| out.boolean(value))
    }

    pub fn integer(value: i64) -> Datum {
        Datum::make(|out| out.long(value))
    }

    /// A list or map, or any value that JSON has.
    pub fn json(value: &serde_json::Value) -> Datum {
        Datum::make(|out| out.json(value))
    }

    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub fn value(&self) -> Value<'_> {
        // It was checked when it was made.
        Reader::new(&self.0).value().unwrap_or(Value::Null)
    }

    pub fn is_null(&self) -> bool {
        self.value() == Value::Null
    }

    /// Of a string or symbol.
    pub fn as_text(&self) -> Option<&str> {
        match self.value() {
            Value::String(text) | Value::Symbol(text) => Some(text),
            _ => None,
        }
    }

    /// Of an integer of any width, or text that is one.
    pub fn as_integer(&self) -> Option<i64> {
        match self.value() {
            Value::Ubyte(value) => Some(value.into()),
            Value::Ushort(value) => Some(value.into()),
            Value::Uint(value) => Some(value.into()),
            Value::Ulong(value) => i64::try_from(value).ok(),
            Value::Byte(value) => Some(value.into()),
            Value::Short(value) => Some(value.into()),
            Value::Int(value) => Some(value.into()),
            Value::Long(value) => Some(value),
            Value::String(text) | Value::Symbol(text) => text.trim().parse().ok(),
            _ => None,
        }
    }

    /// Of a boolean, or text or a number that stands for one.
    pub fn as_boolean(&self) -> Option<bool> {
        match self.value() {
            Value::Boolean(value) => Some(value),
            Value::String(text) | Value::Symbol(text) => match text.to_ascii_lowercase().as_str() {
                "yes" | "true" | "on" => Some(true),
                "no" | "false" | "off" => Some(false),
                _ => None,
            },
            _ => self.as_integer().map(|value| value != 0),
        }
    }

    /// As JSON has it; None: a value that JSON has nothing for.
    pub fn to_json(&self) -> Option<serde_json::Value> {
        to_json(self.value(), 0)
    }
}

fn to_json(value: Value<'_>, depth: u32) -> Option<serde_json::Value> {
    use serde_json::Value as Json;
    if depth > crate::wire::value::DEPTH_MAX {
        return None;
    }
    Some(match value {
        Value::Null => Json::Null,
        Value::Boolean(value) => value.into(),
        Value::Ubyte(value) => value.into(),
        Value::Ushort(value) => value.into(),
        Value::Uint(value) => value.into(),
        Value::Ulong(value) => value.into(),
        Value::Byte(value) => value.into(),
        Value::Short(value) => value.into(),
        Value::Int(value) => value.into(),
        Value::Long(value) => value.into(),
        Value::Float(value) => f64::from(value).into(),
        Value::Double(value) => value.into(),
        Value::String(text) | Value::Symbol(text) => text.into(),
        Value::List(list) => {
            let elements = list.iter().map(|element| to_json(element.ok()?, depth + 1));
            Json::Array(elements.collect::<Option<_>>()?)
        }
        Value::Array(array) => {
            let elements = array.iter().map(|element| to_json(element.ok()?, depth + 1));
            Json::Array(elements.collect::<Option<_>>()?)
        }
        Value::Map(map) => {
            let pair = |pair: Result<(Value<'_>, Value<'_>), _>| match pair.ok()? {
                (Value::String(key) | Value::Symbol(key), value) => Some((key.to_owned(), to_json(value, depth + 1)?)),
                _ => None,
            };
            Json::Object(map.iter().map(pair).collect::<Option<_>>()?)
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back_as_they_were_given() {
        for raw in [&b"\x40"[..], b"\xa1\x01x", b"\xa0\x02\xff\x00", b"\x81\x7f\xff\xff\xff\xff\xff\xff\xff", b"\x45"] {
            assert_eq!(Datum::checked(raw).unwrap().bytes(), raw);
        }
        for wrong in [&b""[..], b"\xa1\x02x", b"\xc0\x03\x01\xa1\x05", b"\xa1\x01\xff"] {
            assert!(Datum::checked(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn integers_and_booleans_come_in_many_forms() {
        assert_eq!(Datum::text(" 12").as_integer(), Some(12));
        assert_eq!(Datum::checked(b"\x50\x07").unwrap().as_integer(), Some(7));
        assert_eq!(Datum::checked(b"\x80\xff\xff\xff\xff\xff\xff\xff\xff").unwrap().as_integer(), None);
        assert_eq!(Datum::text("Yes").as_boolean(), Some(true));
        assert_eq!(Datum::integer(0).as_boolean(), Some(false));
        assert_eq!(Datum::text("maybe").as_boolean(), None);
    }

    #[test]
    fn json_goes_there_and_back() {
        let json = serde_json::json!({"a": [1, -2, true, null, "x", 1.5], "b": {}});
        assert_eq!(Datum::json(&json).to_json(), Some(json));
        assert_eq!(Datum::checked(b"\xa0\x01x").unwrap().to_json(), None);
    }
}
