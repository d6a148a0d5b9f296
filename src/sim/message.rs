//! Messages of the simulation: each carries a key that tells it from every other, in a body that can be checked.

use crate::wire::value::{Reader, Value};
use crate::wire::{descriptor, encode};

/// What a message says outside of its body.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Properties {
    pub to: Option<String>,
    pub reply_to: Option<String>,
    pub correlation_id: Option<u64>,
}

/// A message of about `size` bytes of body: the key, then bytes that follow from it.
pub fn compose(key: u64, size: usize, properties: &Properties) -> Vec<u8> {
    let mut out = Vec::with_capacity(size + 64);
    if *properties != Properties::default() {
        encode::descriptor(&mut out, descriptor::PROPERTIES);
        let list = encode::begin(&mut out);
        encode::null(&mut out);
        encode::null(&mut out);
        optional_string(&mut out, properties.to.as_deref());
        encode::null(&mut out);
        optional_string(&mut out, properties.reply_to.as_deref());
        match properties.correlation_id {
            Some(id) => encode::ulong(&mut out, id),
            None => encode::null(&mut out),
        }
        encode::finish(&mut out, list, crate::wire::value::code::LIST8, 6);
    }
    encode::descriptor(&mut out, descriptor::DATA);
    let mut body = Vec::with_capacity(size.max(8));
    body.extend_from_slice(&key.to_be_bytes());
    let mut word = key;
    while body.len() < size {
        word = word.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        let bytes = word.to_be_bytes();
        let left = size - body.len();
        body.extend_from_slice(&bytes[..left.min(8)]);
    }
    encode::binary(&mut out, &body);
    out
}

fn optional_string(out: &mut Vec<u8>, text: Option<&str>) {
    match text {
        Some(text) => encode::string(out, text),
        None => encode::null(out),
    }
}

/// Reads the key and the properties; None where the bytes are no message of ours.
pub fn parse(bytes: &[u8]) -> Option<(u64, Properties)> {
    let mut reader = Reader::new(bytes);
    let (mut properties, mut key) = (Properties::default(), None);
    while !reader.is_empty() {
        let Value::Described(section) = reader.value().ok()? else { return None };
        match (section.code()?, section.value().ok()?) {
            (descriptor::PROPERTIES, Value::List(list)) => {
                for (place, field) in list.iter().enumerate() {
                    match (place, field.ok()?) {
                        (2, Value::String(to)) => properties.to = Some(to.to_owned()),
                        (4, Value::String(reply_to)) => properties.reply_to = Some(reply_to.to_owned()),
                        (5, Value::Ulong(id)) => properties.correlation_id = Some(id),
                        _ => {}
                    }
                }
            }
            (descriptor::DATA, Value::Binary(body)) => {
                key = body.first_chunk().map(|bytes| u64::from_be_bytes(*bytes));
            }
            _ => {}
        }
    }
    Some((key?, properties))
}

/// A number that two different byte strings hardly share.
pub fn digest(bytes: &[u8]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325 ^ bytes.len() as u64;
    let mut words = bytes.chunks_exact(8);
    for word in words.by_ref() {
        let word = u64::from_le_bytes(word.try_into().expect("eight bytes"));
        hash = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    }
    for byte in words.remainder() {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_reads_as_it_was_composed() {
        for size in [0, 8, 9, 255, 256, 100_000] {
            let properties =
                Properties { to: Some("a/b".into()), reply_to: Some("r".into()), correlation_id: Some(u64::MAX) };
            let bytes = compose(42, size, &properties);
            assert_eq!(parse(&bytes), Some((42, properties)));
            assert_eq!(parse(&compose(7, size, &Properties::default())), Some((7, Properties::default())));
        }
        assert_ne!(digest(b"abc"), digest(b"abd"));
    }
}
