//! AMQP frames as plain data, for tests: values, a codec, and constructors for the frames that tests send.
//!
//! Every performative is a descriptor code and a list of fields, so a test can leave out, repeat or falsify any
//! of them. The decoder panics on what it can't read: to a test that is a finding.

use std::fmt;

/// Descriptor codes (AMQP 1.0, sections 2.7, 3 and 5.3).
pub const OPEN: u64 = 0x10;
pub const BEGIN: u64 = 0x11;
pub const ATTACH: u64 = 0x12;
pub const FLOW: u64 = 0x13;
pub const TRANSFER: u64 = 0x14;
pub const DISPOSITION: u64 = 0x15;
pub const DETACH: u64 = 0x16;
pub const END: u64 = 0x17;
pub const CLOSE: u64 = 0x18;
pub const ERROR: u64 = 0x1d;
pub const RECEIVED: u64 = 0x23;
pub const ACCEPTED: u64 = 0x24;
pub const REJECTED: u64 = 0x25;
pub const RELEASED: u64 = 0x26;
pub const MODIFIED: u64 = 0x27;
pub const SOURCE: u64 = 0x28;
pub const TARGET: u64 = 0x29;
pub const COORDINATOR: u64 = 0x30;
pub const SASL_MECHANISMS: u64 = 0x40;
pub const SASL_INIT: u64 = 0x41;
pub const SASL_OUTCOME: u64 = 0x44;
/// Not a descriptor: a frame without a body.
pub const EMPTY: u64 = 0;

/// Field numbers, by performative.
pub mod open {
    pub const CONTAINER_ID: usize = 0;
    pub const HOSTNAME: usize = 1;
    pub const MAX_FRAME_SIZE: usize = 2;
    pub const CHANNEL_MAX: usize = 3;
    pub const IDLE_TIME_OUT: usize = 4;
    pub const PROPERTIES: usize = 9;
}
pub mod begin {
    pub const REMOTE_CHANNEL: usize = 0;
    pub const NEXT_OUTGOING_ID: usize = 1;
    pub const INCOMING_WINDOW: usize = 2;
    pub const OUTGOING_WINDOW: usize = 3;
    pub const HANDLE_MAX: usize = 4;
}
pub mod attach {
    pub const NAME: usize = 0;
    pub const HANDLE: usize = 1;
    pub const ROLE: usize = 2;
    pub const SENDER_SETTLE_MODE: usize = 3;
    pub const RECEIVER_SETTLE_MODE: usize = 4;
    pub const SOURCE: usize = 5;
    pub const TARGET: usize = 6;
    pub const INITIAL_DELIVERY_COUNT: usize = 9;
    pub const MAX_MESSAGE_SIZE: usize = 10;
}
pub mod flow {
    pub const NEXT_INCOMING_ID: usize = 0;
    pub const INCOMING_WINDOW: usize = 1;
    pub const NEXT_OUTGOING_ID: usize = 2;
    pub const OUTGOING_WINDOW: usize = 3;
    pub const HANDLE: usize = 4;
    pub const DELIVERY_COUNT: usize = 5;
    pub const LINK_CREDIT: usize = 6;
    pub const AVAILABLE: usize = 7;
    pub const DRAIN: usize = 8;
    pub const ECHO: usize = 9;
}
pub mod transfer {
    pub const HANDLE: usize = 0;
    pub const DELIVERY_ID: usize = 1;
    pub const DELIVERY_TAG: usize = 2;
    pub const MESSAGE_FORMAT: usize = 3;
    pub const SETTLED: usize = 4;
    pub const MORE: usize = 5;
    pub const RECEIVER_SETTLE_MODE: usize = 6;
    pub const STATE: usize = 7;
    pub const RESUME: usize = 8;
    pub const ABORTED: usize = 9;
}
pub mod disposition {
    pub const ROLE: usize = 0;
    pub const FIRST: usize = 1;
    pub const LAST: usize = 2;
    pub const SETTLED: usize = 3;
    pub const STATE: usize = 4;
}
pub mod detach {
    pub const HANDLE: usize = 0;
    pub const CLOSED: usize = 1;
    pub const ERROR: usize = 2;
}
pub mod sasl {
    /// Of mechanisms; of init: the one chosen.
    pub const MECHANISMS: usize = 0;
    pub const MECHANISM: usize = 0;
    pub const INITIAL_RESPONSE: usize = 1;
    pub const OUTCOME_CODE: usize = 0;
}
/// The only field of `end` and of `close`.
pub const END_ERROR: usize = 0;
pub const CLOSE_ERROR: usize = 0;

pub const ROLE_SENDER: bool = false;
pub const ROLE_RECEIVER: bool = true;

#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    Null,
    Bool(bool),
    Ubyte(u8),
    Ushort(u16),
    Uint(u32),
    Ulong(u64),
    Int(i32),
    Long(i64),
    Timestamp(i64),
    /// Other types of fixed width: their constructor and bytes.
    Fixed(u8, Vec<u8>),
    Binary(Vec<u8>),
    Text(String),
    Symbol(String),
    List(Vec<Value>),
    Map(Vec<(Value, Value)>),
    Array(Vec<Value>),
    Described(Box<Value>, Box<Value>),
}

impl From<bool> for Value {
    fn from(value: bool) -> Value {
        Value::Bool(value)
    }
}
impl From<u8> for Value {
    fn from(value: u8) -> Value {
        Value::Ubyte(value)
    }
}
impl From<u16> for Value {
    fn from(value: u16) -> Value {
        Value::Ushort(value)
    }
}
impl From<u32> for Value {
    fn from(value: u32) -> Value {
        Value::Uint(value)
    }
}
impl From<u64> for Value {
    fn from(value: u64) -> Value {
        Value::Ulong(value)
    }
}
impl From<&str> for Value {
    fn from(value: &str) -> Value {
        Value::Text(value.into())
    }
}
impl From<String> for Value {
    fn from(value: String) -> Value {
        Value::Text(value)
    }
}
impl From<&[u8]> for Value {
    fn from(value: &[u8]) -> Value {
        Value::Binary(value.into())
    }
}

pub fn symbol(text: &str) -> Value {
    Value::Symbol(text.into())
}

/// A described list, as states, termini and errors are.
pub fn described(code: u64, fields: Vec<Value>) -> Value {
    Value::Described(Box::new(Value::Ulong(code)), Box::new(Value::List(fields)))
}

impl Value {
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Value::Null => out.push(0x40),
            Value::Bool(true) => out.push(0x41),
            Value::Bool(false) => out.push(0x42),
            Value::Ubyte(value) => out.extend([0x50, *value]),
            Value::Ushort(value) => put(out, 0x60, &value.to_be_bytes()),
            Value::Uint(0) => out.push(0x43),
            Value::Uint(value @ 1..=255) => out.extend([0x52, *value as u8]),
            Value::Uint(value) => put(out, 0x70, &value.to_be_bytes()),
            Value::Ulong(0) => out.push(0x44),
            Value::Ulong(value @ 1..=255) => out.extend([0x53, *value as u8]),
            Value::Ulong(value) => put(out, 0x80, &value.to_be_bytes()),
            Value::Int(value) => put(out, 0x71, &value.to_be_bytes()),
            Value::Long(value) => put(out, 0x81, &value.to_be_bytes()),
            Value::Timestamp(value) => put(out, 0x83, &value.to_be_bytes()),
            Value::Fixed(constructor, bytes) => put(out, *constructor, bytes),
            Value::Binary(bytes) => put_variable(out, 0xa0, bytes),
            Value::Text(text) => put_variable(out, 0xa1, text.as_bytes()),
            Value::Symbol(text) => put_variable(out, 0xa3, text.as_bytes()),
            Value::List(items) if items.is_empty() => out.push(0x45),
            Value::List(items) => put_compound(out, 0xd0, items.len(), &encode_all(items)),
            Value::Map(pairs) => {
                let mut body = Vec::new();
                for (key, value) in pairs {
                    key.encode(&mut body);
                    value.encode(&mut body);
                }
                put_compound(out, 0xd1, pairs.len() * 2, &body);
            }
            Value::Array(items) => encode_symbol_array(out, items),
            Value::Described(descriptor, value) => {
                out.push(0x00);
                descriptor.encode(out);
                value.encode(out);
            }
        }
    }

    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.encode(&mut out);
        out
    }

    /// Decodes one value off the front of `bytes`.
    pub fn decode(bytes: &mut &[u8]) -> Value {
        let constructor = take(bytes, 1)[0];
        if constructor == 0x00 {
            let descriptor = Value::decode(bytes);
            return Value::Described(Box::new(descriptor), Box::new(Value::decode(bytes)));
        }
        decode_as(constructor, bytes)
    }

    /// A described list's code, whether as number or (never, from this router) as symbol.
    pub fn code(&self) -> Option<u64> {
        match self {
            Value::Described(descriptor, _) => match **descriptor {
                Value::Ulong(code) => Some(code),
                _ => None,
            },
            _ => None,
        }
    }

    /// Field `number` of a described list; null where it's absent.
    pub fn field(&self, number: usize) -> &Value {
        match self {
            Value::Described(_, list) => match &**list {
                Value::List(items) => items.get(number).unwrap_or(&Value::Null),
                other => panic!("a described list expected, not {other}"),
            },
            Value::Null => &Value::Null,
            other => panic!("a described list expected, not {other}"),
        }
    }

    pub fn text(&self) -> Option<&str> {
        match self {
            Value::Text(text) | Value::Symbol(text) => Some(text),
            _ => None,
        }
    }

    pub fn number(&self) -> Option<u64> {
        match self {
            Value::Ubyte(value) => Some(u64::from(*value)),
            Value::Ushort(value) => Some(u64::from(*value)),
            Value::Uint(value) => Some(u64::from(*value)),
            Value::Ulong(value) => Some(*value),
            _ => None,
        }
    }

    /// Absent counts as false, as all of AMQP's booleans in performatives do.
    pub fn is_true(&self) -> bool {
        *self == Value::Bool(true)
    }

    pub fn is_null(&self) -> bool {
        *self == Value::Null
    }
}

fn encode_all(items: &[Value]) -> Vec<u8> {
    let mut body = Vec::new();
    for item in items {
        item.encode(&mut body);
    }
    body
}

fn put(out: &mut Vec<u8>, constructor: u8, bytes: &[u8]) {
    out.push(constructor);
    out.extend_from_slice(bytes);
}

/// `constructor` is the form of up to 255 bytes; the long form's is 0x10 higher.
fn put_variable(out: &mut Vec<u8>, constructor: u8, bytes: &[u8]) {
    match u8::try_from(bytes.len()) {
        Ok(length) => out.extend([constructor, length]),
        Err(_) => put(out, constructor + 0x10, &(bytes.len() as u32).to_be_bytes()),
    }
    out.extend_from_slice(bytes);
}

fn put_compound(out: &mut Vec<u8>, constructor: u8, count: usize, body: &[u8]) {
    put(out, constructor, &(body.len() as u32 + 4).to_be_bytes());
    out.extend_from_slice(&(count as u32).to_be_bytes());
    out.extend_from_slice(body);
}

/// Performatives have arrays of symbols only.
fn encode_symbol_array(out: &mut Vec<u8>, items: &[Value]) {
    let mut body = vec![0xa3];
    for item in items {
        let text = item.text().expect("an array of symbols");
        body.push(text.len() as u8);
        body.extend_from_slice(text.as_bytes());
    }
    put_compound(out, 0xf0, items.len(), &body);
}

fn take<'a>(bytes: &mut &'a [u8], count: usize) -> &'a [u8] {
    assert!(count <= bytes.len(), "the value ends after {} bytes, {count} were expected", bytes.len());
    let (head, rest) = bytes.split_at(count);
    *bytes = rest;
    head
}

fn take_number(bytes: &mut &[u8], width: usize) -> u64 {
    take(bytes, width).iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

fn decode_as(constructor: u8, bytes: &mut &[u8]) -> Value {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("UTF-8");
    match constructor {
        0x40 => Value::Null,
        0x41 => Value::Bool(true),
        0x42 => Value::Bool(false),
        0x43 => Value::Uint(0),
        0x44 => Value::Ulong(0),
        0x45 => Value::List(Vec::new()),
        0x50 => Value::Ubyte(take_number(bytes, 1) as u8),
        0x52 => Value::Uint(take_number(bytes, 1) as u32),
        0x53 => Value::Ulong(take_number(bytes, 1)),
        0x54 => Value::Int(i32::from(take_number(bytes, 1) as i8)),
        0x55 => Value::Long(i64::from(take_number(bytes, 1) as i8)),
        0x56 => Value::Bool(take_number(bytes, 1) == 1),
        0x60 => Value::Ushort(take_number(bytes, 2) as u16),
        0x70 => Value::Uint(take_number(bytes, 4) as u32),
        0x71 => Value::Int(take_number(bytes, 4) as i32),
        0x80 => Value::Ulong(take_number(bytes, 8)),
        0x81 => Value::Long(take_number(bytes, 8) as i64),
        0x83 => Value::Timestamp(take_number(bytes, 8) as i64),
        0x51 => Value::Fixed(constructor, take(bytes, 1).into()),
        0x61 => Value::Fixed(constructor, take(bytes, 2).into()),
        0x72..=0x74 => Value::Fixed(constructor, take(bytes, 4).into()),
        0x82 | 0x84 => Value::Fixed(constructor, take(bytes, 8).into()),
        0x94 | 0x98 => Value::Fixed(constructor, take(bytes, 16).into()),
        0xa0 | 0xa1 | 0xa3 | 0xb0 | 0xb1 | 0xb3 => {
            let width = if constructor < 0xb0 { 1 } else { 4 };
            let length = take_number(bytes, width) as usize;
            let content = take(bytes, length);
            match constructor & 0x0f {
                0 => Value::Binary(content.into()),
                1 => Value::Text(text(content)),
                _ => Value::Symbol(text(content)),
            }
        }
        0xc0 | 0xc1 | 0xd0 | 0xd1 | 0xe0 | 0xf0 => decode_compound(constructor, bytes),
        other => panic!("constructor {other:#04x} isn't known"),
    }
}

fn decode_compound(constructor: u8, bytes: &mut &[u8]) -> Value {
    let width = if matches!(constructor, 0xc0 | 0xc1 | 0xe0) { 1 } else { 4 };
    let size = take_number(bytes, width) as usize;
    let mut content = take(bytes, size);
    let count = take_number(&mut content, width) as usize;
    let value = match constructor & 0xf0 {
        0xe0 | 0xf0 => {
            let element = take(&mut content, 1)[0];
            Value::Array((0..count).map(|_| decode_as(element, &mut content)).collect())
        }
        _ if constructor & 0x0f == 0 => Value::List((0..count).map(|_| Value::decode(&mut content)).collect()),
        _ => Value::Map((0..count / 2).map(|_| (Value::decode(&mut content), Value::decode(&mut content))).collect()),
    };
    assert!(content.is_empty(), "{} bytes are left over in a compound value", content.len());
    value
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = |f: &mut fmt::Formatter<'_>, items: &[Value]| {
            for (number, item) in items.iter().enumerate() {
                write!(f, "{}{item}", if number == 0 { "" } else { ", " })?;
            }
            Ok(())
        };
        match self {
            Value::Null => f.write_str("-"),
            Value::Bool(value) => write!(f, "{value}"),
            Value::Ubyte(value) => write!(f, "{value}"),
            Value::Ushort(value) => write!(f, "{value}"),
            Value::Uint(value) => write!(f, "{value}"),
            Value::Ulong(value) => write!(f, "{value}"),
            Value::Int(value) => write!(f, "{value}"),
            Value::Long(value) => write!(f, "{value}"),
            Value::Timestamp(value) => write!(f, "@{value}"),
            Value::Fixed(constructor, bytes) => write!(f, "{constructor:#04x}{bytes:02x?}"),
            Value::Binary(bytes) if bytes.len() > 32 => write!(f, "b[{} bytes]", bytes.len()),
            Value::Binary(bytes) => write!(f, "b{bytes:02x?}"),
            Value::Text(text) => write!(f, "{text:?}"),
            Value::Symbol(text) => write!(f, ":{text}"),
            Value::List(items) | Value::Array(items) => {
                f.write_str("[")?;
                all(f, items)?;
                f.write_str("]")
            }
            Value::Map(pairs) => {
                f.write_str("{")?;
                for (key, value) in pairs {
                    write!(f, "{key}={value} ")?;
                }
                f.write_str("}")
            }
            Value::Described(descriptor, value) => write!(f, "@{descriptor}{value}"),
        }
    }
}

/// A frame: a performative's code and fields, and what follows it.
#[derive(Clone, PartialEq, Debug)]
pub struct Frame {
    pub channel: u16,
    pub sasl: bool,
    pub code: u64,
    pub fields: Vec<Value>,
    pub payload: Vec<u8>,
}

impl Frame {
    pub fn new(code: u64) -> Frame {
        Frame { channel: 0, sasl: code >= SASL_MECHANISMS, code, fields: Vec::new(), payload: Vec::new() }
    }

    pub fn on(mut self, channel: u16) -> Frame {
        self.channel = channel;
        self
    }

    /// Sets a field; those before it that nobody sets are null.
    pub fn with(mut self, field: usize, value: impl Into<Value>) -> Frame {
        if self.fields.len() <= field {
            self.fields.resize(field + 1, Value::Null);
        }
        self.fields[field] = value.into();
        self
    }

    /// Makes a field null.
    pub fn without(self, field: usize) -> Frame {
        self.with(field, Value::Null)
    }

    pub fn payload(mut self, payload: &[u8]) -> Frame {
        self.payload = payload.into();
        self
    }

    pub fn field(&self, number: usize) -> &Value {
        self.fields.get(number).unwrap_or(&Value::Null)
    }

    pub fn number(&self, field: usize) -> u32 {
        match self.field(field).number() {
            Some(number) => number as u32,
            None => panic!("field {field} of {self} should be a number"),
        }
    }

    /// The condition of the error in field `field`.
    pub fn condition(&self, field: usize) -> Option<&str> {
        self.field(field).field(0).text()
    }

    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = vec![0, 0, 0, 0, 2, u8::from(self.sasl)];
        out.extend_from_slice(&self.channel.to_be_bytes());
        if self.code != EMPTY {
            described(self.code, self.fields.clone()).encode(&mut out);
        }
        out.extend_from_slice(&self.payload);
        let size = out.len() as u32;
        out[..4].copy_from_slice(&size.to_be_bytes());
        out
    }

    /// Takes one whole frame off the front of `input`, once it is there.
    pub fn cut(input: &mut Vec<u8>) -> Option<Frame> {
        let size = u32::from_be_bytes(input.get(..4)?.try_into().expect("four bytes")) as usize;
        assert!(size >= 8, "a frame of {size} bytes");
        if input.len() < size {
            return None;
        }
        let bytes: Vec<u8> = input.drain(..size).collect();
        let (sasl, channel) = (bytes[5] == 1, u16::from_be_bytes([bytes[6], bytes[7]]));
        let mut body = &bytes[usize::from(bytes[4]) * 4..];
        if body.is_empty() {
            return Some(Frame { channel, sasl, ..Frame::new(EMPTY) });
        }
        let performative = Value::decode(&mut body);
        let code = performative.code().unwrap_or_else(|| panic!("a performative expected, not {performative}"));
        let Value::Described(_, list) = performative else { unreachable!("it has a code") };
        let Value::List(fields) = *list else { panic!("a performative is a list, not {list}") };
        Some(Frame { channel, sasl, code, fields, payload: body.into() })
    }
}

fn name(code: u64) -> &'static str {
    match code {
        OPEN => "open",
        BEGIN => "begin",
        ATTACH => "attach",
        FLOW => "flow",
        TRANSFER => "transfer",
        DISPOSITION => "disposition",
        DETACH => "detach",
        END => "end",
        CLOSE => "close",
        SASL_MECHANISMS => "sasl-mechanisms",
        SASL_INIT => "sasl-init",
        SASL_OUTCOME => "sasl-outcome",
        EMPTY => "(empty)",
        _ => "(unknown)",
    }
}

impl fmt::Display for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}] {} {}", self.channel, name(self.code), Value::List(self.fields.clone()))?;
        match self.payload.len() {
            0 => Ok(()),
            length => write!(f, " ({length})"),
        }
    }
}

// ── The frames that tests send, in their usual form; change them by `with`, `without` and `on` ──

pub fn open_frame(container: &str) -> Frame {
    Frame::new(OPEN).with(open::CONTAINER_ID, container)
}

/// A window that no test closes by accident.
pub const WIDE_WINDOW: u32 = 1_000_000;

pub fn begin_frame() -> Frame {
    Frame::new(BEGIN)
        .with(begin::NEXT_OUTGOING_ID, 0u32)
        .with(begin::INCOMING_WINDOW, WIDE_WINDOW)
        .with(begin::OUTGOING_WINDOW, WIDE_WINDOW)
}

pub fn source(address: &str) -> Value {
    described(SOURCE, vec![address.into()])
}

pub fn target(address: &str) -> Value {
    described(TARGET, vec![address.into()])
}

/// A dynamic source.
pub fn dynamic_source() -> Value {
    // address, durable, expiry-policy, timeout, dynamic
    described(SOURCE, vec![Value::Null, Value::Null, Value::Null, Value::Null, true.into()])
}

pub fn sender_attach(name: &str, handle: u32, address: &str) -> Frame {
    Frame::new(ATTACH)
        .with(attach::NAME, name)
        .with(attach::HANDLE, handle)
        .with(attach::ROLE, ROLE_SENDER)
        .with(attach::SOURCE, described(SOURCE, Vec::new()))
        .with(attach::TARGET, target(address))
        .with(attach::INITIAL_DELIVERY_COUNT, 0u32)
}

pub fn receiver_attach(name: &str, handle: u32, address: &str) -> Frame {
    Frame::new(ATTACH)
        .with(attach::NAME, name)
        .with(attach::HANDLE, handle)
        .with(attach::ROLE, ROLE_RECEIVER)
        .with(attach::SOURCE, source(address))
        .with(attach::TARGET, described(TARGET, Vec::new()))
}

/// An unsettled transfer in one frame, tagged by its id.
pub fn transfer_frame(handle: u32, delivery_id: u32, message: &[u8]) -> Frame {
    Frame::new(TRANSFER)
        .with(transfer::HANDLE, handle)
        .with(transfer::DELIVERY_ID, delivery_id)
        .with(transfer::DELIVERY_TAG, &delivery_id.to_be_bytes()[..])
        .with(transfer::MESSAGE_FORMAT, 0u32)
        .payload(message)
}

pub fn detach_frame(handle: u32) -> Frame {
    Frame::new(DETACH).with(detach::HANDLE, handle).with(detach::CLOSED, true)
}

/// A receiver's word on the deliveries `first` to `last`.
pub fn disposition_frame(first: u32, last: u32, settled: bool, state: Value) -> Frame {
    Frame::new(DISPOSITION)
        .with(disposition::ROLE, ROLE_RECEIVER)
        .with(disposition::FIRST, first)
        .with(disposition::LAST, last)
        .with(disposition::SETTLED, settled)
        .with(disposition::STATE, state)
}

pub fn accepted() -> Value {
    described(ACCEPTED, Vec::new())
}

pub fn released() -> Value {
    described(RELEASED, Vec::new())
}

// ── Messages ──

/// A message of one data section.
pub fn data_message(body: &[u8]) -> Vec<u8> {
    Value::Described(Box::new(Value::Ulong(0x75)), Box::new(body.into())).to_bytes()
}

/// The properties section with `to` and (where given) `reply-to`.
pub fn properties(to: Option<&str>, reply_to: Option<&str>) -> Vec<u8> {
    let text = |text: Option<&str>| text.map_or(Value::Null, Value::from);
    // message-id, user-id, to, subject, reply-to
    described(0x73, vec![Value::Null, Value::Null, text(to), Value::Null, text(reply_to)]).to_bytes()
}

pub fn message_to(to: &str, body: &[u8]) -> Vec<u8> {
    let mut message = properties(Some(to), None);
    message.extend(data_message(body));
    message
}
