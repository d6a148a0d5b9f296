//! Golden bytes: what qpid-proton wrote (0.37, Debian's python3-qpid-proton), and examples worked out by hand from the
//! specification's text.
//!
//! `golden/proton_types.txt` is written by the script beside it. `golden/proton_session.txt` is a recorded connection of
//! a python client and a python server: three links, one of them refused, one dynamic; every outcome; a message in three frames. Each
//! frame is followed by its trace, which was compared with proton's own (PN_TRACE_FRM) when it was recorded.

use ringway::wire::frame::{self, FrameHeader};
use ringway::wire::message::{self, Head, Properties, Property, Sections};
use ringway::wire::performative::{Begin, Disposition, Flow, Open, Performative, Role, Transfer};
use ringway::wire::sasl::SaslFrame;
use ringway::wire::value::{Array, Described, List, Reader, Value};
use ringway::wire::{encode, state, terminus, trace, PROTOCOL_HEADER_AMQP, PROTOCOL_HEADER_SASL};

const TYPES: &str = include_str!("golden/proton_types.txt");
const SESSION: &str = include_str!("golden/proton_session.txt");

fn unhex(text: &str) -> Vec<u8> {
    assert!(text.len().is_multiple_of(2), "hex comes in pairs");
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

fn golden(name: &str) -> Vec<u8> {
    let line = TYPES.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    unhex(line.unwrap_or_else(|| panic!("no golden bytes {name}")))
}

fn decode(bytes: &[u8]) -> Value<'_> {
    let mut reader = Reader::new(bytes);
    assert_eq!(reader.checked(), Ok(bytes));
    let mut reader = Reader::new(bytes);
    let value = reader.value().unwrap();
    assert!(reader.is_empty());
    value
}

#[test]
fn primitives_as_proton_writes_them() {
    let id = [0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff];
    let long_binary = [b'b'; 256];
    let (long_string, long_symbol) = ("s".repeat(256), "y".repeat(256));
    let expected = [
        ("null", Value::Null),
        ("true", Value::Boolean(true)),
        ("false", Value::Boolean(false)),
        ("ubyte-255", Value::Ubyte(255)),
        ("byte-minus-128", Value::Byte(-128)),
        ("ushort-65535", Value::Ushort(65535)),
        ("short-minus-2", Value::Short(-2)),
        ("uint-0", Value::Uint(0)),
        ("uint-255", Value::Uint(255)),
        ("uint-256", Value::Uint(256)),
        ("uint-max", Value::Uint(u32::MAX)),
        ("int-minus-1", Value::Int(-1)),
        ("int-127", Value::Int(127)),
        ("int-minus-129", Value::Int(-129)),
        ("ulong-0", Value::Ulong(0)),
        ("ulong-255", Value::Ulong(255)),
        ("ulong-max", Value::Ulong(u64::MAX)),
        ("long-minus-128", Value::Long(-128)),
        ("long-min", Value::Long(i64::MIN)),
        ("float-1.5", Value::Float(1.5)),
        ("double-minus-0.1", Value::Double(-0.1)),
        ("decimal32", Value::Decimal32([1, 2, 3, 4])),
        ("decimal64", Value::Decimal64([1, 2, 3, 4, 5, 6, 7, 8])),
        ("decimal128", Value::Decimal128([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15])),
        ("char-A", Value::Char('A')),
        ("char-emoji", Value::Char('\u{1f600}')),
        ("timestamp", Value::Timestamp(1_311_704_463_521)),
        ("timestamp-minus-1", Value::Timestamp(-1)),
        ("uuid", Value::Uuid(id)),
        ("binary-empty", Value::Binary(b"")),
        ("binary-255", Value::Binary(&long_binary[..255])),
        ("binary-256", Value::Binary(&long_binary)),
        ("string-empty", Value::String("")),
        ("string-utf8", Value::String("grüß dich")),
        ("string-256", Value::String(&long_string)),
        ("symbol", Value::Symbol("amqp:link:stolen")),
        ("symbol-256", Value::Symbol(&long_symbol)),
        ("list-empty", Value::List(List::default())),
    ];
    for (name, value) in expected {
        let bytes = golden(name);
        assert_eq!(decode(&bytes), value, "{name}");
        let mut out = Vec::new();
        encode::value(&mut out, &value);
        assert_eq!(out, bytes, "{name}");
    }
}

fn elements(list: List<'_>) -> Vec<Value<'_>> {
    list.iter().map(Result::unwrap).collect()
}

fn array_of(array: Array<'_>) -> Vec<Value<'_>> {
    array.iter().map(Result::unwrap).collect()
}

#[test]
fn compounds_as_proton_writes_them() {
    let bytes = golden("list");
    let Value::List(list) = decode(&bytes) else { panic!() };
    let inner = [0x41];
    let last = Value::List(List { count: 1, body: &inner });
    assert_eq!(elements(list), [Value::Uint(1), Value::String("two"), Value::Null, last]);

    let bytes = golden("list-300-nulls");
    let Value::List(list) = decode(&bytes) else { panic!() };
    assert_eq!(elements(list), [Value::Null; 300]);
    let mut out = Vec::new();
    encode::value(&mut out, &Value::List(list));
    assert_eq!(out, bytes);

    let bytes = golden("map");
    let Value::Map(map) = decode(&bytes) else { panic!() };
    assert_eq!(map.get("a"), Some(Value::Uint(1)));
    let Some(Value::Map(inner)) = map.get("b") else { panic!() };
    assert_eq!(inner.iter().collect::<Vec<_>>(), [Ok((Value::Uint(2), Value::Binary(b"c")))]);
    assert_eq!(map.get("c"), None);
}

#[test]
fn arrays_and_described_values_as_proton_writes_them() {
    let array = |name: &str| golden(name).leak() as &'static [u8];
    let Value::Array(ints) = decode(array("array-int")) else { panic!() };
    assert_eq!(array_of(ints), [Value::Int(1), Value::Int(-2), Value::Int(300)]);
    let Value::Array(booleans) = decode(array("array-boolean")) else { panic!() };
    assert_eq!(array_of(booleans), [Value::Boolean(true), Value::Boolean(false)]);
    let Value::Array(symbols) = decode(array("array-symbol")) else { panic!() };
    assert_eq!(array_of(symbols), [Value::Symbol("one"), Value::Symbol("three")]);
    let Value::Array(lists) = decode(array("array-of-lists")) else { panic!() };
    assert_eq!(array_of(lists), [Value::List(List { count: 1, body: b"\x52\x01" }), Value::List(List::default())]);
    let Value::Array(strings) = decode(array("array-string-described")) else { panic!() };
    for (string, text) in array_of(strings).into_iter().zip(["x", "yz"]) {
        let Value::Described(string) = string else { panic!() };
        assert_eq!(string.descriptor(), Ok(Value::Symbol("d")));
        assert_eq!(string.value(), Ok(Value::String(text)));
    }

    let described = |bytes: &'static [u8]| -> Described<'static> {
        let Value::Described(described) = decode(bytes) else { panic!() };
        let mut out = Vec::new();
        encode::value(&mut out, &Value::Described(described));
        assert_eq!(out, bytes);
        described
    };
    let source = described(array("described"));
    assert_eq!(source.code(), Some(0x28));
    let twice = described(array("described-twice"));
    assert_eq!(twice.code(), Some(300));
    let Ok(Value::Described(inner)) = twice.value() else { panic!() };
    assert_eq!((inner.descriptor(), inner.value()), (Ok(Value::Symbol("in")), Ok(Value::Boolean(true))));
    assert_eq!(described(array("described-symbol")).code(), None);
}

#[test]
fn messages_as_proton_writes_them() {
    let codes = |bytes: &[u8]| -> Vec<u64> { Sections::new(bytes).map(|section| section.unwrap().code).collect() };
    assert_eq!(codes(&golden("message-plain")), [0x70, 0x73, 0x77]);
    assert_eq!(codes(&golden("message-sequence")), [0x70, 0x73, 0x76]);
    assert_eq!(message::to(golden("message-plain").as_slice(), &mut []), Ok(None));
    assert_eq!(message::to(golden("message-sequence").as_slice(), &mut []), Ok(Some("amqp:/q")));

    let bytes = golden("message-full");
    assert_eq!(codes(&bytes), [0x70, 0x71, 0x72, 0x73, 0x74, 0x75]);
    let head = Head::scan(bytes.as_slice()).unwrap();
    assert_eq!(head.bare, head.properties.unwrap().span.start);
    assert_eq!(bytes[head.body..], *b"\x00\x53\x75\xa0\x06binary");
    let properties = Properties::find(bytes.as_slice()).unwrap().unwrap();
    let mut scratch = [];
    let mut value = |property| properties.get(property).unwrap().value(&mut scratch).map(|value| format!("{value:?}"));
    let mut is = |property, expected: Value<'_>| assert_eq!(value(property), Ok(format!("{expected:?}")));
    let id = [0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff];
    is(Property::MessageId, Value::Uuid(id));
    is(Property::UserId, Value::Binary(b"user"));
    is(Property::To, Value::String("queue"));
    is(Property::Subject, Value::String("subject"));
    is(Property::ReplyTo, Value::String("reply/1"));
    is(Property::CorrelationId, Value::Ulong(7));
    is(Property::ContentType, Value::Symbol("text/plain"));
    is(Property::ContentEncoding, Value::Symbol("gzip"));
    is(Property::AbsoluteExpiryTime, Value::Timestamp(2500));
    is(Property::CreationTime, Value::Timestamp(1500));
    is(Property::GroupId, Value::String("group"));
    is(Property::GroupSequence, Value::Uint(3));
    is(Property::ReplyToGroupId, Value::String("back"));
}

/// The recorded session's frames: mark, bytes, trace.
fn session() -> Vec<(&'static str, Vec<u8>, &'static str)> {
    let mut lines = SESSION.lines();
    let mut frames = Vec::new();
    while let (Some(bytes), Some(trace)) = (lines.next(), lines.next()) {
        let (mark, bytes) = bytes.split_once(' ').unwrap();
        frames.push((mark, unhex(bytes), trace));
    }
    frames
}

fn header_of(frame: &[u8]) -> FrameHeader {
    let header = frame::parse_header(frame[..8].try_into().unwrap()).unwrap();
    assert_eq!(header.size as usize, frame.len());
    header
}

#[test]
fn a_recorded_session_reads_as_proton_read_it() {
    let mut transfers = 0;
    for (mark, bytes, expected) in session() {
        let mut line = String::new();
        if bytes.starts_with(b"AMQP") {
            assert!(bytes == PROTOCOL_HEADER_AMQP || bytes == PROTOCOL_HEADER_SASL);
            line.push_str("header");
        } else {
            let header = header_of(&bytes);
            let body = &bytes[header.body_start()..];
            let payload = match header.frame_type {
                _ if body.is_empty() => 0,
                frame::TYPE_SASL => round_trip_sasl(body),
                _ => {
                    let consumed = round_trip(body);
                    transfers += usize::from(body[2] == 0x14);
                    body.len() - consumed
                }
            };
            trace::frame(&mut line, mark, header.channel, &body[..body.len() - payload], payload);
        }
        assert_eq!(line, expected);
    }
    assert_eq!(transfers, 9);
}

fn round_trip_sasl(body: &[u8]) -> usize {
    let decoded = SaslFrame::decode(body).unwrap();
    let mut out = Vec::new();
    decoded.encode(&mut out);
    assert_eq!(SaslFrame::decode(&out), Ok(decoded));
    0
}

/// Decodes, encodes, decodes the same again; and looks into termini and states. Gives the performative's length.
fn round_trip(body: &[u8]) -> usize {
    let (performative, consumed) = Performative::decode(body).unwrap();
    let mut out = Vec::new();
    performative.encode(&mut out);
    assert_eq!(Performative::decode(&out), Ok((performative, out.len())));
    assert!(out.len() <= consumed, "ours is the shorter: {performative:?}");
    match performative {
        Performative::Attach(attach) => {
            for (raw, is_source) in [(attach.source, true), (attach.target, false)] {
                let Some(raw) = raw else { continue };
                out.clear();
                if is_source {
                    let source = terminus::Source::decode(raw).unwrap();
                    source.encode(&mut out);
                    assert_eq!(terminus::Source::decode(&out), Ok(source));
                } else {
                    let target = terminus::Target::decode(raw).unwrap();
                    target.encode(&mut out);
                    assert_eq!(terminus::Target::decode(&out), Ok(target));
                }
            }
        }
        Performative::Disposition(disposition) => {
            if let Some(raw) = disposition.state {
                let decoded = state::State::decode(raw).unwrap();
                out.clear();
                decoded.encode(&mut out);
                assert_eq!(state::State::decode(&out), Ok(decoded));
            }
        }
        _ => {}
    }
    consumed
}

/// The composite of section 1.4's figures: a book with a title, two authors, and no ISBN.
#[test]
fn the_specifications_own_example() {
    let bytes = b"\x00\xa3\x11example:book:list\xc0\x40\x03\xa1\x15AMQP for & by Dummies\
        \xe0\x25\x02\xa3\x0eRob J. Godfrey\x13Rafael H. Schloming\x40";
    let Value::Described(book) = decode(bytes) else { panic!() };
    assert_eq!(book.descriptor(), Ok(Value::Symbol("example:book:list")));
    let Ok(Value::List(fields)) = book.value() else { panic!() };
    let fields = elements(fields);
    assert_eq!((fields[0], fields[2], fields.len()), (Value::String("AMQP for & by Dummies"), Value::Null, 3));
    let Value::Array(authors) = fields[1] else { panic!() };
    assert_eq!(array_of(authors), [Value::Symbol("Rob J. Godfrey"), Value::Symbol("Rafael H. Schloming")]);
    let mut out = Vec::new();
    encode::value(&mut out, &Value::Described(book));
    assert_eq!(out, bytes);
}

/// Every way to write the same close (section 2.7.9): descriptor as smallulong, ulong, symbol; the list as list0, list8, list32, with and
/// without its null field.
#[test]
fn one_performative_in_every_encoding() {
    let descriptors: [&[u8]; 4] = [
        b"\x00\x53\x18",
        b"\x00\x80\x00\x00\x00\x00\x00\x00\x00\x18",
        b"\x00\xa3\x0famqp:close:list",
        b"\x00\xb3\x00\x00\x00\x0famqp:close:list",
    ];
    let lists: [&[u8]; 5] = [
        b"\x45",
        b"\xc0\x01\x00",
        b"\xc0\x02\x01\x40",
        b"\xd0\x00\x00\x00\x04\x00\x00\x00\x00",
        b"\xd0\x00\x00\x00\x05\x00\x00\x00\x01\x40",
    ];
    for descriptor in descriptors {
        for list in lists {
            let body = [descriptor, list].concat();
            let close = Performative::Close(Default::default());
            assert_eq!(Performative::decode(&body), Ok((close, body.len())), "{body:02x?}");
        }
    }
}

/// Encoders write the shortest form.
#[test]
fn encodings_worked_out_by_hand() {
    let hex = |out: &[u8]| -> String { out.iter().map(|byte| format!("{byte:02x}")).collect() };
    let mut out = Vec::new();
    let transfer = Transfer {
        handle: 0,
        delivery_id: Some(1),
        delivery_tag: Some(b"\x00\x00\x01\x00"),
        message_format: Some(0),
        settled: Some(true),
        ..Transfer::default()
    };
    transfer.encode_frame(&mut out, 1, 3);
    assert_eq!(hex(&out), "0000001c02000001005314c00c05435201a004000001004341");
    out.clear();
    let role = Role::Receiver;
    Disposition { role, first: 256, last: None, settled: true, state: Some(&state::ACCEPTED), ..Default::default() }
        .encode_frame(&mut out, 0);
    assert_eq!(hex(&out), "0000001a02000000005315c00d05417000000100404100532445");
    out.clear();
    Flow { incoming_window: 5, handle: Some(2), link_credit: Some(9), ..Default::default() }.encode_frame(&mut out, 0);
    assert_eq!(hex(&out), "0000001802000000005313c00b0740520543435202405209");
    out.clear();
    Open { container_id: "c", properties: None, ..Default::default() }.encode(&mut out);
    assert_eq!(hex(&out), "005310c00401a10163");
    out.clear();
    encode::symbols(&mut out, ["a", "bc"].into_iter());
    assert_eq!(hex(&out), "e00702a30161026263");
    out.clear();
    encode::symbol_map(&mut out, [("k", "v")].into_iter());
    assert_eq!(hex(&out), "c10702a3016ba10176");
    out.clear();
    encode::symbol_list(&mut out, ["x"].into_iter());
    assert_eq!(hex(&out), "c00401a30178");
}

/// What rhea 3 writes (recorded from its `frames` and `message` modules): lists are list32 always.
#[test]
fn frames_as_rhea_writes_them() {
    let decoded = |hex: &str, expected: Performative<'_>| {
        let bytes = unhex(hex);
        let body = &bytes[header_of(&bytes).body_start()..];
        assert_eq!(Performative::decode(body), Ok((expected, body.len())));
    };
    decoded(
        "0000002702000000005310d00000001700000005a10163a10168700000100060000170000003e8",
        Performative::Open(Open {
            container_id: "c",
            hostname: Some("h"),
            max_frame_size: 4096,
            channel_max: 1,
            idle_time_out: Some(1000),
            ..Default::default()
        }),
    );
    decoded(
        "0000002002000000005311d000000010000000044043700000080070ffffffff",
        Performative::Begin(Begin { incoming_window: 2048, outgoing_window: u32::MAX, ..Default::default() }),
    );
    decoded(
        "0000002102000000005314d00000001100000006437000011170a0023132434242",
        Performative::Transfer(Transfer {
            delivery_id: Some(70_000),
            delivery_tag: Some(b"12"),
            message_format: Some(0),
            settled: Some(false),
            ..Default::default()
        }),
    );
    decoded(
        "0000001e02000000005315d00000000e0000000541520352044100532445",
        Performative::Disposition(Disposition {
            role: Role::Receiver,
            first: 3,
            last: Some(4),
            settled: true,
            state: Some(&state::ACCEPTED),
            batchable: false,
        }),
    );
    decoded(
        "0000002802000000005313d0000000180000000952017000000800520170ffffffff434352644042",
        Performative::Flow(Flow {
            next_incoming_id: Some(1),
            incoming_window: 2048,
            next_outgoing_id: 1,
            outgoing_window: u32::MAX,
            handle: Some(0),
            delivery_count: Some(0),
            link_credit: Some(100),
            ..Default::default()
        }),
    );
    let message = unhex(
        "005370d0000000050000000141005373d000000009000000034040a10171005374d10000000900000002a101615201\
         005377a10568656c6c6f",
    );
    assert_eq!(message::to(message.as_slice(), &mut []), Ok(Some("q")));
}
