//! What must hold of the wire room for any bytes. Shared, by inclusion, by the fuzz target, the test that runs its corpus,
//! the property tests and the allocation test.

use ringway::payload::{Payload, Range};
use ringway::wire::message::{self, Head, Properties, Property, Sections};
use ringway::wire::performative::Performative;
use ringway::wire::sasl::SaslFrame;
use ringway::wire::value::{Elements, Map, Reader, Value};
use ringway::wire::{encode, error, frame, state, terminus, trace};

/// Everything at once: what the fuzzer calls.
pub fn check(data: &[u8]) {
    decode_all(data);
    performative_round_trip(data);
    sasl_round_trip(data);
    value_round_trip(data);
    pieces(data);
    traces(data);
}

/// Puts the bytes to every decoder. Allocates nothing. Gives how many took them.
pub fn decode_all(data: &[u8]) -> u32 {
    let mut taken = 0;
    let mut count = |it: bool| taken += u32::from(it);
    if let Some(header) = data.first_chunk() {
        count(frame::parse_header(header).is_ok());
    }
    if let Ok((performative, consumed)) = Performative::decode(data) {
        assert!(consumed <= data.len());
        look_into(&performative);
        count(true);
    }
    count(SaslFrame::decode(data).is_ok());
    count(state::State::decode(data).is_ok());
    count(terminus::Source::decode(data).is_ok());
    count(terminus::AnyTarget::decode(data).is_ok());
    count(error::Error::decode(data).is_ok());
    let mut reader = Reader::new(data);
    if reader.value().is_ok() {
        count(true);
    }
    let mut reader = Reader::new(data);
    if let Ok(raw) = reader.checked() {
        // What is checked can be read to its end without an error.
        let value = Reader::new(raw).value();
        walk(&value.unwrap_or_else(|error| panic!("{error}")));
        count(true);
    }
    let mut scratch = [0; 64];
    count(message::to(data, &mut scratch).is_ok());
    count(Head::scan(data).is_ok());
    Sections::new(data).for_each(|section| count(section.is_ok()));
    if let Ok(Some(properties)) = Properties::find(data) {
        for property in [Property::MessageId, Property::To, Property::ReplyTo, Property::ReplyToGroupId] {
            count(properties.get(property).is_some_and(|value| value.value(&mut scratch).is_ok()));
        }
    }
    taken
}

/// What a performative keeps as bytes must be a checked value of its kind, or an error of the typed view: never a panic.
fn look_into(performative: &Performative<'_>) {
    let whole = |raw: Option<&[u8]>| {
        let Some(raw) = raw else { return };
        assert_eq!(Reader::new(raw).checked(), Ok(raw));
        let _ = (state::State::decode(raw), state::kind(raw), state::is_plain(raw));
        let _ = (terminus::Source::decode(raw), terminus::AnyTarget::decode(raw));
        let _ = Map::parse(raw).map(|map| map.get("product"));
    };
    match performative {
        Performative::Open(open) => {
            whole(open.properties);
            let _ = open.offered_capabilities.contains("x");
        }
        Performative::Begin(begin) => whole(begin.properties),
        Performative::Attach(attach) => {
            [attach.source, attach.target, attach.unsettled, attach.properties].into_iter().for_each(whole);
            let _ = attach.desired_capabilities.is_empty();
        }
        Performative::Flow(flow) => whole(flow.properties),
        Performative::Transfer(transfer) => whole(transfer.state),
        Performative::Disposition(disposition) => whole(disposition.state),
        Performative::Detach(detach) => whole(detach.error.and_then(|error| error.info)),
        Performative::End(end) => whole(end.error.and_then(|error| error.info)),
        Performative::Close(close) => whole(close.error.and_then(|error| error.info)),
    }
}

/// Every element of a checked value, to its innermost.
fn walk(value: &Value<'_>) {
    let all = |elements: Elements<'_>| {
        for element in elements {
            walk(&element.unwrap_or_else(|error| panic!("{error}")));
        }
    };
    match value {
        Value::List(list) => all(list.iter()),
        Value::Map(map) => all(map.elements()),
        Value::Array(array) => all(array.iter()),
        Value::Described(described) => {
            walk(&described.descriptor().unwrap_or_else(|error| panic!("{error}")));
            walk(&described.value().unwrap_or_else(|error| panic!("{error}")));
        }
        _ => {}
    }
}

/// What was decoded, encoded, and decoded again is the same; and the quick way and the general one agree.
pub fn performative_round_trip(data: &[u8]) {
    let decoded = Performative::decode(data);
    if let [0x00, 0x53, number, rest @ ..] = data {
        // A wide descriptor is never read the quick way.
        let mut wide = vec![0x00, 0x80, 0, 0, 0, 0, 0, 0, 0, *number];
        wide.extend_from_slice(rest);
        assert_eq!(Performative::decode(&wide), decoded.map(|(performative, consumed)| (performative, consumed + 7)));
    }
    let Ok((performative, _)) = decoded else { return };
    let mut out = Vec::new();
    performative.encode(&mut out);
    assert_eq!(Performative::decode(&out), Ok((performative, out.len())));
}

pub fn sasl_round_trip(data: &[u8]) {
    let Ok(decoded) = SaslFrame::decode(data) else { return };
    let mut out = Vec::new();
    decoded.encode(&mut out);
    assert_eq!(SaslFrame::decode(&out), Ok(decoded));
}

pub fn value_round_trip(data: &[u8]) {
    let Ok(raw) = Reader::new(data).checked() else { return };
    let Ok(value) = Reader::new(raw).value() else { return };
    let mut out = Vec::new();
    encode::value(&mut out, &value);
    assert!(out.len() <= raw.len(), "ours is the shorter");
    assert_eq!(Reader::new(&out).checked(), Ok(out.as_slice()));
    // By bytes, since a NaN isn't equal to itself.
    let mut again = Vec::new();
    encode::value(&mut again, &Reader::new(&out).value().unwrap_or(Value::Null));
    assert_eq!(out, again);

    let Ok(state) = state::State::decode(raw) else { return };
    out.clear();
    state.encode(&mut out);
    assert_eq!(state::State::decode(&out), Ok(state));
    let Ok(source) = terminus::Source::decode(raw) else { return };
    out.clear();
    source.encode(&mut out);
    assert_eq!(terminus::Source::decode(&out), Ok(source));
}

/// A message is scanned alike wherever it is cut.
pub fn pieces(data: &[u8]) {
    // Where to cut comes from the bytes themselves.
    let cut = |seed: usize| data.get(seed).map_or(0, |&byte| byte as usize * data.len() / 256);
    let (first, second) = (cut(0).min(cut(data.len() / 2)), cut(0).max(cut(data.len() / 2)));
    let mut payload = Payload::new();
    for part in [&data[..first], &data[first..second], &data[second..]] {
        payload.push(Range::copied(part));
    }
    assert_eq!(Head::scan(data), Head::scan(&payload));
    assert!(Sections::new(data).eq(Sections::new(&payload)));
    let (mut one, mut other) = (vec![0; data.len()], vec![0; data.len()]);
    assert_eq!(message::to(data, &mut one), message::to(&payload, &mut other));
    // Behind an empty header whose descriptor is wide, which isn't read the quick way.
    let slow = [&b"\x00\x80\x00\x00\x00\x00\x00\x00\x00\x70\x45"[..], data].concat();
    assert_eq!(message::to(slow.as_slice(), &mut other), message::to(data, &mut one));
    match (Properties::find(data), Properties::find(&payload)) {
        (Ok(Some(whole)), Ok(Some(cut))) => {
            let (whole, cut) = (whole.get(Property::CorrelationId), cut.get(Property::CorrelationId));
            let whole = whole.map(|value| value.bytes(&mut one).map(<[u8]>::to_vec));
            assert_eq!(whole, cut.map(|value| value.bytes(&mut other).map(<[u8]>::to_vec)));
        }
        (whole, cut) => assert_eq!(whole.map(|found| found.is_some()), cut.map(|found| found.is_some())),
    }
}

/// A line is bounded, and text.
pub fn traces(data: &[u8]) {
    let mut line = String::new();
    trace::frame(&mut line, "->", 0, data, 0);
    trace::encoded(&mut line, data);
    assert!(line.len() <= 2 * (trace::LINE_BYTES_MAX + '…'.len_utf8()));
}
