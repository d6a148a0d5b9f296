//! A frame as one readable line, for the log. Off the hot path; whatever the bytes are, the line is bounded.

use std::fmt::{self, Write};

use super::value::{Described, Elements, Reader, Value, DEPTH_MAX};
use super::{descriptor, WireError};

/// A line is cut at about this many bytes.
pub const LINE_BYTES_MAX: usize = 4096;

/// Writes e.g. `[0]: -> @transfer(20) [handle=0, delivery-id=7, delivery-tag=b"\x00"] (134)`: channel, the caller's mark of direction,
/// performative, and bytes of payload: those behind the performative in `body` and `payload_bytes` more.
pub fn frame(out: &mut String, mark: &str, channel: u16, body: &[u8], payload_bytes: usize) {
    let mut line = Line { out, left: LINE_BYTES_MAX };
    if write!(line, "[{channel}]: {mark} ").and_then(|()| frame_body(&mut line, body, payload_bytes)).is_err() {
        out.push('…');
    }
}

/// One encoded value, e.g. a delivery state.
pub fn encoded(out: &mut String, bytes: &[u8]) {
    let mut line = Line { out, left: LINE_BYTES_MAX };
    if reported(&mut line, Reader::new(bytes).value()).is_err() {
        out.push('…');
    }
}

fn frame_body(line: &mut Line<'_>, body: &[u8], payload_bytes: usize) -> fmt::Result {
    if body.is_empty() {
        return line.write_str("(empty)");
    }
    let mut reader = Reader::new(body);
    reported(line, reader.value())?;
    match reader.rest().len() + payload_bytes {
        0 => Ok(()),
        bytes => write!(line, " ({bytes})"),
    }
}

/// A string that takes only so much more.
struct Line<'s> {
    out: &'s mut String,
    left: usize,
}

impl Write for Line<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.left = self.left.checked_sub(text.len()).ok_or(fmt::Error)?;
        self.out.push_str(text);
        Ok(())
    }
}

fn reported(line: &mut Line<'_>, value: Result<Value<'_>, WireError>) -> fmt::Result {
    element(line, value, DEPTH_MAX)
}

fn element(line: &mut Line<'_>, value: Result<Value<'_>, WireError>, depth: u32) -> fmt::Result {
    match value {
        Ok(value) => write_value(line, &value, depth),
        Err(error) => write!(line, "<{error}>"),
    }
}

fn write_value(line: &mut Line<'_>, value: &Value<'_>, depth: u32) -> fmt::Result {
    let Some(depth) = depth.checked_sub(1) else {
        return write!(line, "<{}>", WireError::TooDeep);
    };
    match *value {
        Value::Null => line.write_str("null"),
        Value::Boolean(value) => write!(line, "{value}"),
        Value::Ubyte(value) => write!(line, "{value}"),
        Value::Ushort(value) => write!(line, "{value}"),
        Value::Uint(value) => write!(line, "{value}"),
        Value::Ulong(value) => write!(line, "{value}"),
        Value::Byte(value) => write!(line, "{value}"),
        Value::Short(value) => write!(line, "{value}"),
        Value::Int(value) => write!(line, "{value}"),
        Value::Long(value) | Value::Timestamp(value) => write!(line, "{value}"),
        Value::Float(value) => write!(line, "{value:?}"),
        Value::Double(value) => write!(line, "{value:?}"),
        Value::Decimal32(bytes) => hex(line, "D32:", &bytes),
        Value::Decimal64(bytes) => hex(line, "D64:", &bytes),
        Value::Decimal128(bytes) => hex(line, "D128:", &bytes),
        Value::Char(value) => write!(line, "{value:?}"),
        Value::Uuid(bytes) => uuid(line, &bytes),
        Value::Binary(bytes) => write!(line, "b\"{}\"", bytes.escape_ascii()),
        Value::String(text) => write!(line, "{text:?}"),
        Value::Symbol(text) => write!(line, ":{}", text.escape_debug()),
        Value::List(list) => sequence(line, list.iter(), &[], depth),
        Value::Array(array) => sequence(line, array.iter(), &[], depth),
        Value::Map(map) => {
            line.write_char('{')?;
            for (index, pair) in map.iter().enumerate() {
                line.write_str(if index == 0 { "" } else { ", " })?;
                match pair {
                    Ok((key, value)) => {
                        write_value(line, &key, depth)?;
                        line.write_char('=')?;
                        write_value(line, &value, depth)?;
                    }
                    Err(error) => write!(line, "<{error}>")?,
                }
            }
            line.write_char('}')
        }
        Value::Described(described) => write_described(line, &described, depth),
    }
}

fn write_described(line: &mut Line<'_>, value: &Described<'_>, depth: u32) -> fmt::Result {
    let known = value.code().and_then(descriptor::by_code);
    line.write_char('@')?;
    match known {
        Some(known) => write!(line, "{}({}) ", known.name, known.code)?,
        None => {
            element(line, value.descriptor(), depth)?;
            line.write_char(' ')?;
        }
    }
    match (known, value.value()) {
        (Some(known), Ok(Value::List(list))) => sequence(line, list.iter(), known.fields, depth),
        (_, value) => element(line, value, depth),
    }
}

/// `[a, b]`, with names where there are some: then nulls, which are absent fields, are left out.
fn sequence(line: &mut Line<'_>, elements: Elements<'_>, names: &[&str], depth: u32) -> fmt::Result {
    line.write_char('[')?;
    let mut separator = "";
    for (index, value) in elements.enumerate() {
        let name = names.get(index);
        if name.is_some() && value == Ok(Value::Null) {
            continue;
        }
        line.write_str(separator)?;
        separator = ", ";
        if let Some(name) = name {
            write!(line, "{name}=")?;
        }
        element(line, value, depth)?;
    }
    line.write_char(']')
}

fn hex(line: &mut Line<'_>, prefix: &str, bytes: &[u8]) -> fmt::Result {
    line.write_str(prefix)?;
    bytes.iter().try_for_each(|byte| write!(line, "{byte:02x}"))
}

fn uuid(line: &mut Line<'_>, bytes: &[u8; 16]) -> fmt::Result {
    for (index, byte) in bytes.iter().enumerate() {
        line.write_str(if matches!(index, 4 | 6 | 8 | 10) { "-" } else { "" })?;
        write!(line, "{byte:02x}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::performative::{Attach, Role, Transfer};
    use super::super::state;
    use super::*;

    #[test]
    fn frames_read_well() {
        let mut body = Vec::new();
        let transfer = Transfer {
            handle: 1,
            delivery_id: Some(70_000),
            delivery_tag: Some(b"\x00\x01"),
            message_format: Some(0),
            settled: Some(false),
            state: Some(&state::ACCEPTED),
            ..Transfer::default()
        };
        transfer.encode(&mut body);
        body.extend_from_slice(b"payload");
        let mut line = String::new();
        frame(&mut line, "->", 3, &body, 127);
        let fields = "handle=1, delivery-id=70000, delivery-tag=b\"\\x00\\x01\", message-format=0, settled=false";
        assert_eq!(line, format!("[3]: -> @transfer(20) [{fields}, state=@accepted(36) []] (134)"));

        let source = b"\x00\x53\x28\xc0\x04\x01\xa1\x01q";
        let attach = Attach { name: "l\n", role: Role::Receiver, source: Some(source), ..Attach::default() };
        body.clear();
        attach.encode(&mut body);
        line.clear();
        frame(&mut line, "<-", 0, &body, 0);
        let fields = "name=\"l\\n\", handle=0, role=true, source=@source(40) [address=\"q\"]";
        assert_eq!(line, format!("[0]: <- @attach(18) [{fields}]"));

        line.clear();
        frame(&mut line, "<-", 0, &[], 0);
        assert_eq!(line, "[0]: <- (empty)");
    }

    #[test]
    fn whatever_comes_a_line_ends() {
        let mut line = String::new();
        // A list of 255 arrays of 4 096 nulls each.
        let mut body = vec![0xd0, 0, 0, 0, 0, 0, 0, 0, 255];
        for _ in 0..255 {
            body.extend_from_slice(&[0xf0, 0, 0, 0, 5, 0, 0, 0x10, 0, 0x40]);
        }
        let size = (body.len() - 5) as u32;
        body[1..5].copy_from_slice(&size.to_be_bytes());
        frame(&mut line, "->", 0, &body, 0);
        assert!(line.len() <= LINE_BYTES_MAX + '…'.len_utf8() && line.ends_with('…'), "{line}");
        // Descriptors of descriptors.
        line.clear();
        frame(&mut line, "->", 0, &[0; 2000], 0);
        assert_eq!(line, "[0]: -> <the bytes end inside a value>");
    }
}
