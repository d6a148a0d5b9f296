//! AMQP values as JSON and back, as management tools speak: what has no like in JSON becomes a string.

use crate::wire::encode;
use crate::wire::value::{code, Map, Reader, Value as Amqp};
use crate::wire::WireError;
use serde_json::{Map as Object, Value};

/// Deeper than this nothing is read. The wire has the same bound.
const DEPTH_MAX: u32 = crate::wire::value::DEPTH_MAX;
/// Values that one may hold. An array can claim thousands of elements in a few bytes, and a list many such arrays.
const VALUES_MAX: u32 = 1_000_000;

/// An AMQP value. Integers and floats stay numbers (NaN and the infinities are null), symbols, bytes and UUIDs become
/// strings, a timestamp its milliseconds since 1970, a described value what it describes. Map keys become strings, in
/// the map's order.
pub fn from_amqp(value: &Amqp<'_>) -> Result<Value, WireError> {
    read(value, DEPTH_MAX, &mut { VALUES_MAX })
}

/// `left`: values that may still be read.
fn read(value: &Amqp<'_>, depth: u32, left: &mut u32) -> Result<Value, WireError> {
    if depth == 0 {
        return Err(WireError::TooDeep);
    }
    *left = left.checked_sub(1).ok_or(WireError::BadSize)?;
    Ok(match *value {
        Amqp::Null => Value::Null,
        Amqp::Boolean(value) => value.into(),
        Amqp::Ubyte(value) => value.into(),
        Amqp::Ushort(value) => value.into(),
        Amqp::Uint(value) => value.into(),
        Amqp::Ulong(value) => value.into(),
        Amqp::Byte(value) => value.into(),
        Amqp::Short(value) => value.into(),
        Amqp::Int(value) => value.into(),
        Amqp::Long(value) | Amqp::Timestamp(value) => value.into(),
        Amqp::Float(value) => f64::from(value).into(),
        Amqp::Double(value) => value.into(),
        Amqp::Decimal32(bytes) => hex(&bytes).into(),
        Amqp::Decimal64(bytes) => hex(&bytes).into(),
        Amqp::Decimal128(bytes) => hex(&bytes).into(),
        Amqp::Char(value) => value.to_string().into(),
        Amqp::Uuid(bytes) => uuid(&bytes).into(),
        Amqp::Binary(bytes) => String::from_utf8_lossy(bytes).into(),
        Amqp::String(text) | Amqp::Symbol(text) => text.into(),
        Amqp::List(list) => elements(list.iter(), depth, left)?,
        Amqp::Array(array) => elements(array.iter(), depth, left)?,
        Amqp::Map(map) => Value::Object(object(&map, depth, left)?),
        Amqp::Described(described) => {
            let bytes = [&[described.constructor], described.body].concat();
            read(&Reader::new(&bytes).value()?, depth - 1, left)?
        }
    })
}

fn elements<'a>(
    iter: impl Iterator<Item = Result<Amqp<'a>, WireError>>,
    depth: u32,
    left: &mut u32,
) -> Result<Value, WireError> {
    Ok(Value::Array(iter.map(|element| read(&element?, depth - 1, left)).collect::<Result<_, _>>()?))
}

fn object(map: &Map<'_>, depth: u32, left: &mut u32) -> Result<Object<String, Value>, WireError> {
    map.iter()
        .map(|pair| {
            let (key, value) = pair?;
            let key = match read(&key, depth - 1, left)? {
                Value::String(key) => key,
                key => key.to_string(),
            };
            Ok((key, read(&value, depth - 1, left)?))
        })
        .collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn uuid(bytes: &[u8; 16]) -> String {
    let hex = hex(bytes);
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

/// A JSON value as AMQP: integers as long (or ulong, where they are larger), other numbers as double, the rest by its
/// name.
pub fn to_amqp(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Null => encode::null(out),
        Value::Bool(value) => encode::boolean(out, *value),
        Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(number), _) => encode::long(out, number),
            (None, Some(number)) => encode::ulong(out, number),
            (None, None) => encode::value(out, &Amqp::Double(number.as_f64().unwrap_or_default())),
        },
        Value::String(text) => encode::string(out, text),
        Value::Array(list) => {
            let compound = encode::begin(out);
            for element in list {
                to_amqp(out, element);
            }
            encode::finish(out, compound, code::LIST8, list.len() as u32);
        }
        Value::Object(map) => object_to_amqp(out, map),
    }
}

/// A map with strings as keys.
pub fn object_to_amqp(out: &mut Vec<u8>, map: &Object<String, Value>) {
    let compound = encode::begin(out);
    for (key, value) in map {
        encode::string(out, key);
        to_amqp(out, value);
    }
    encode::finish(out, compound, code::MAP8, 2 * map.len() as u32);
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn decoded(bytes: &[u8]) -> Value {
        from_amqp(&Reader::new(bytes).value().unwrap()).unwrap()
    }

    #[test]
    fn json_survives_the_way_over_amqp() {
        let value = json!({
            "z": 1, "a": -5000000000i64, "big": u64::MAX, "f": 1.5, "t": true, "n": null, "text": "ü",
            "list": [1, [], {}, ["x".repeat(300)]], "map": {"k": {"k": [false]}},
        });
        let mut bytes = Vec::new();
        to_amqp(&mut bytes, &value);
        let back = decoded(&bytes);
        assert_eq!(back, value);
        let order: Vec<&str> = back.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(order[..3], ["z", "a", "big"]);
    }

    #[test]
    fn what_json_has_not_becomes_something_readable() {
        for (value, expected) in [
            (Amqp::Symbol("s"), json!("s")),
            (Amqp::Timestamp(7), json!(7)),
            (Amqp::Ulong(u64::MAX), json!(u64::MAX)),
            (Amqp::Double(f64::NAN), json!(null)),
            (Amqp::Binary(b"ab"), json!("ab")),
            (Amqp::Uuid([0x12; 16]), json!("12121212-1212-1212-1212-121212121212")),
        ] {
            assert_eq!(from_amqp(&value).unwrap(), expected);
        }
        // A described list (accepted), and a map with a number as its key.
        assert_eq!(decoded(&[0x00, 0x53, 0x24, 0x45]), json!([]));
        assert_eq!(decoded(&[0xc1, 0x04, 0x02, 0x54, 0x05, 0x41]), json!({"5": true}));
    }

    #[test]
    fn hostile_values_are_errors() {
        // Lists in lists.
        let mut nested = vec![0x45];
        for _ in 0..40 {
            let mut list = vec![0xd0];
            list.extend((nested.len() as u32 + 4).to_be_bytes());
            list.extend(1u32.to_be_bytes());
            list.append(&mut nested);
            nested = list;
        }
        assert_eq!(from_amqp(&Reader::new(&nested).value().unwrap()), Err(WireError::TooDeep));
        // Many arrays of many nulls that take no bytes.
        let array = [0xf0, 0, 0, 0, 5, 0, 0, 0x10, 0, 0x40];
        let body = array.repeat(500);
        let list = Amqp::List(crate::wire::value::List { count: 500, body: &body });
        assert_eq!(from_amqp(&list), Err(WireError::BadSize));
    }
}
