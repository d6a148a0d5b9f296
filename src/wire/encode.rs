//! Encoders of single values, each in its shortest form. The performatives' own encoders of the hot path are beside
//! their structs.

use super::value::{code, Array, Value};

pub fn null(out: &mut Vec<u8>) {
    out.push(code::NULL);
}

pub fn boolean(out: &mut Vec<u8>, value: bool) {
    out.push(if value { code::TRUE } else { code::FALSE });
}

pub fn ubyte(out: &mut Vec<u8>, value: u8) {
    out.extend_from_slice(&[code::UBYTE, value]);
}

pub fn ushort(out: &mut Vec<u8>, value: u16) {
    fixed(out, code::USHORT, &value.to_be_bytes());
}

pub fn uint(out: &mut Vec<u8>, value: u32) {
    match value {
        0 => out.push(code::UINT0),
        1..=255 => out.extend_from_slice(&[code::SMALL_UINT, value as u8]),
        _ => fixed(out, code::UINT, &value.to_be_bytes()),
    }
}

pub fn ulong(out: &mut Vec<u8>, value: u64) {
    match value {
        0 => out.push(code::ULONG0),
        1..=255 => out.extend_from_slice(&[code::SMALL_ULONG, value as u8]),
        _ => fixed(out, code::ULONG, &value.to_be_bytes()),
    }
}

pub fn int(out: &mut Vec<u8>, value: i32) {
    match i8::try_from(value) {
        Ok(small) => out.extend_from_slice(&[code::SMALL_INT, small as u8]),
        Err(_) => fixed(out, code::INT, &value.to_be_bytes()),
    }
}

pub fn long(out: &mut Vec<u8>, value: i64) {
    match i8::try_from(value) {
        Ok(small) => out.extend_from_slice(&[code::SMALL_LONG, small as u8]),
        Err(_) => fixed(out, code::LONG, &value.to_be_bytes()),
    }
}

fn fixed(out: &mut Vec<u8>, constructor: u8, bytes: &[u8]) {
    out.push(constructor);
    out.extend_from_slice(bytes);
}

pub fn binary(out: &mut Vec<u8>, bytes: &[u8]) {
    variable(out, code::BINARY8, bytes);
}

pub fn string(out: &mut Vec<u8>, text: &str) {
    variable(out, code::STRING8, text.as_bytes());
}

/// `text` is ASCII (section 1.6.21); that is the caller's to know.
pub fn symbol(out: &mut Vec<u8>, text: &str) {
    variable(out, code::SYMBOL8, text.as_bytes());
}

/// The wide constructor of a variable-width type is 0x10 behind the narrow one.
fn variable(out: &mut Vec<u8>, narrow: u8, bytes: &[u8]) {
    match u8::try_from(bytes.len()) {
        Ok(len) => out.extend_from_slice(&[narrow, len]),
        Err(_) => fixed(out, narrow + 0x10, &(bytes.len() as u32).to_be_bytes()),
    }
    out.extend_from_slice(bytes);
}

/// An array of symbols: how a field that may hold several is written (section 1.4, `multiple`). None: null.
pub fn symbols<'a>(out: &mut Vec<u8>, names: impl Iterator<Item = &'a str> + Clone) {
    let (count, longest) = names.clone().fold((0, 0), |(count, longest), name| (count + 1, name.len().max(longest)));
    if count == 0 {
        return null(out);
    }
    let compound = begin(out);
    let wide = longest > 255;
    out.push(if wide { code::SYMBOL32 } else { code::SYMBOL8 });
    for name in names {
        match wide {
            false => out.push(name.len() as u8),
            true => out.extend_from_slice(&(name.len() as u32).to_be_bytes()),
        }
        out.extend_from_slice(name.as_bytes());
    }
    finish(out, compound, code::ARRAY8, count);
}

/// A list of symbols.
pub fn symbol_list<'a>(out: &mut Vec<u8>, names: impl Iterator<Item = &'a str>) {
    let compound = begin(out);
    let mut count = 0;
    for name in names {
        symbol(out, name);
        count += 1;
    }
    finish(out, compound, code::LIST8, count);
}

/// A map of symbols to strings, as `properties` of open, begin and attach are.
pub fn symbol_map<'a>(out: &mut Vec<u8>, pairs: impl Iterator<Item = (&'a str, &'a str)>) {
    let compound = begin(out);
    let mut count = 0;
    for (name, text) in pairs {
        symbol(out, name);
        string(out, text);
        count += 2;
    }
    finish(out, compound, code::MAP8, count);
}

/// Writes a descriptor by its code: what follows is described by it.
pub fn descriptor(out: &mut Vec<u8>, descriptor: u64) {
    out.push(code::DESCRIBED);
    ulong(out, descriptor);
}

/// Where a list, map or array of yet unknown size begins.
#[derive(Clone, Copy, Debug)]
pub struct Compound {
    start: usize,
}

/// Begins a list, map or array: its elements follow in `out`, then [`finish`]. What an array has before its elements
/// (their constructor) counts as one of them here.
pub fn begin(out: &mut Vec<u8>) -> Compound {
    let start = out.len();
    // Room for constructor, size and count of the narrow form.
    out.extend_from_slice(&[0; 3]);
    Compound { start }
}

/// Ends a compound with its narrow constructor (`LIST8`, `MAP8`, `ARRAY8`), or makes it wide.
pub fn finish(out: &mut Vec<u8>, compound: Compound, narrow: u8, count: u32) {
    let start = compound.start;
    let body = out.len() - start - 3;
    if count == 0 && narrow == code::LIST8 {
        out.truncate(start);
        out.push(code::LIST0);
    } else if body <= 254 && count <= 255 {
        out[start..start + 3].copy_from_slice(&[narrow, body as u8 + 1, count as u8]);
    } else {
        let [s0, s1, s2, s3] = (body as u32 + 4).to_be_bytes();
        let [c0, c1, c2, c3] = count.to_be_bytes();
        out.splice(start..start + 3, [narrow + 0x10, s0, s1, s2, s3, c0, c1, c2, c3]);
    }
}

/// Any value. Lists, maps and arrays keep their elements' encodings.
pub fn value(out: &mut Vec<u8>, value: &Value<'_>) {
    match *value {
        Value::Null => null(out),
        Value::Boolean(value) => boolean(out, value),
        Value::Ubyte(value) => ubyte(out, value),
        Value::Ushort(value) => ushort(out, value),
        Value::Uint(value) => uint(out, value),
        Value::Ulong(value) => ulong(out, value),
        Value::Byte(value) => fixed(out, code::BYTE, &value.to_be_bytes()),
        Value::Short(value) => fixed(out, code::SHORT, &value.to_be_bytes()),
        Value::Int(value) => int(out, value),
        Value::Long(value) => long(out, value),
        Value::Float(value) => fixed(out, code::FLOAT, &value.to_be_bytes()),
        Value::Double(value) => fixed(out, code::DOUBLE, &value.to_be_bytes()),
        Value::Decimal32(bytes) => fixed(out, code::DECIMAL32, &bytes),
        Value::Decimal64(bytes) => fixed(out, code::DECIMAL64, &bytes),
        Value::Decimal128(bytes) => fixed(out, code::DECIMAL128, &bytes),
        Value::Char(value) => fixed(out, code::CHAR, &u32::from(value).to_be_bytes()),
        Value::Timestamp(value) => fixed(out, code::TIMESTAMP, &value.to_be_bytes()),
        Value::Uuid(bytes) => fixed(out, code::UUID, &bytes),
        Value::Binary(bytes) => binary(out, bytes),
        Value::String(text) => string(out, text),
        Value::Symbol(text) => symbol(out, text),
        Value::List(list) => compound(out, code::LIST8, list.count, list.body),
        Value::Map(map) => compound(out, code::MAP8, map.count, map.body),
        Value::Array(value) => array(out, &value),
        Value::Described(described) => {
            out.push(code::DESCRIBED);
            out.extend_from_slice(described.descriptor);
            fixed(out, described.constructor, described.body);
        }
    }
}

fn compound(out: &mut Vec<u8>, narrow: u8, count: u32, body: &[u8]) {
    let compound = begin(out);
    out.extend_from_slice(body);
    finish(out, compound, narrow, count);
}

fn array(out: &mut Vec<u8>, array: &Array<'_>) {
    let compound = begin(out);
    if !array.descriptor.is_empty() {
        out.push(code::DESCRIBED);
        out.extend_from_slice(array.descriptor);
    }
    fixed(out, array.constructor, array.body);
    finish(out, compound, code::ARRAY8, array.count);
}
