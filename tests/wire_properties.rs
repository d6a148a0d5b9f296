//! For any performative and any value: what is encoded decodes to the same, whichever way it is read; and any bytes
//! whatever are taken or refused, never more.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use ringway::wire::error::Error;
use ringway::wire::performative::*;
use ringway::wire::sasl::{self, SaslFrame};
use ringway::wire::state::State;
use ringway::wire::terminus::{Coordinator, Source, Target};
use ringway::wire::value::{code, Reader, Value};
use ringway::wire::{encode, Symbols};

#[allow(dead_code)]
#[path = "../fuzz/checks/wire.rs"]
mod checks;

/// A value as a tree of its own, to be compared with what was read.
#[derive(Clone, Debug)]
enum Tree {
    /// Anything without elements, encoded.
    Leaf(Vec<u8>),
    List(Vec<Tree>),
    Map(Vec<(Tree, Tree)>),
    Described(Box<Tree>, Box<Tree>),
    Uints(Vec<u32>),
    Strings(Vec<String>),
}

impl Tree {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Tree::Leaf(bytes) => out.extend_from_slice(bytes),
            Tree::List(elements) => {
                let compound = encode::begin(out);
                elements.iter().for_each(|element| element.encode(out));
                encode::finish(out, compound, code::LIST8, elements.len() as u32);
            }
            Tree::Map(pairs) => {
                let compound = encode::begin(out);
                pairs.iter().flat_map(|(key, value)| [key, value]).for_each(|element| element.encode(out));
                encode::finish(out, compound, code::MAP8, 2 * pairs.len() as u32);
            }
            Tree::Described(descriptor, value) => {
                out.push(code::DESCRIBED);
                descriptor.encode(out);
                value.encode(out);
            }
            Tree::Uints(numbers) => {
                let compound = encode::begin(out);
                out.push(code::UINT);
                numbers.iter().for_each(|number| out.extend_from_slice(&number.to_be_bytes()));
                encode::finish(out, compound, code::ARRAY8, numbers.len() as u32);
            }
            Tree::Strings(texts) => {
                let compound = encode::begin(out);
                out.push(code::STRING32);
                for text in texts {
                    out.extend_from_slice(&(text.len() as u32).to_be_bytes());
                    out.extend_from_slice(text.as_bytes());
                }
                encode::finish(out, compound, code::ARRAY8, texts.len() as u32);
            }
        }
    }

    fn is(&self, value: &Value<'_>) -> bool {
        match (self, value) {
            (Tree::Leaf(bytes), value) => {
                let mut out = Vec::new();
                encode::value(&mut out, value);
                out == *bytes
            }
            (Tree::List(elements), Value::List(list)) => {
                let read: Vec<_> = list.iter().map(Result::unwrap).collect();
                read.len() == elements.len() && elements.iter().zip(&read).all(|(tree, value)| tree.is(value))
            }
            (Tree::Map(pairs), Value::Map(map)) => {
                let read: Vec<_> = map.iter().map(Result::unwrap).collect();
                read.len() == pairs.len()
                    && pairs.iter().zip(&read).all(|(tree, it)| tree.0.is(&it.0) && tree.1.is(&it.1))
            }
            (Tree::Described(descriptor, inner), Value::Described(described)) => {
                descriptor.is(&described.descriptor().unwrap()) && inner.is(&described.value().unwrap())
            }
            (Tree::Uints(numbers), Value::Array(array)) => {
                array.iter().map(Result::unwrap).eq(numbers.iter().map(|&number| Value::Uint(number)))
            }
            (Tree::Strings(texts), Value::Array(array)) => {
                array.iter().map(Result::unwrap).eq(texts.iter().map(|text| Value::String(text)))
            }
            _ => false,
        }
    }
}

/// Any value without elements.
fn leaf() -> impl Strategy<Value = Vec<u8>> {
    let encoded = |value: &Value<'_>| {
        let mut out = Vec::new();
        encode::value(&mut out, value);
        out
    };
    prop_oneof![
        Just(encoded(&Value::Null)),
        any::<bool>().prop_map(move |it| encoded(&Value::Boolean(it))),
        any::<u8>().prop_map(move |it| encoded(&Value::Ubyte(it))),
        any::<u16>().prop_map(move |it| encoded(&Value::Ushort(it))),
        uint().prop_map(move |it| encoded(&Value::Uint(it))),
        prop_oneof![any::<u64>(), 0..300u64].prop_map(move |it| encoded(&Value::Ulong(it))),
        any::<i8>().prop_map(move |it| encoded(&Value::Byte(it))),
        any::<i16>().prop_map(move |it| encoded(&Value::Short(it))),
        prop_oneof![any::<i32>(), -200..200].prop_map(move |it| encoded(&Value::Int(it))),
        prop_oneof![any::<i64>(), -200..200i64].prop_map(move |it| encoded(&Value::Long(it))),
        any::<u32>().prop_map(move |it| encoded(&Value::Float(f32::from_bits(it)))),
        any::<u64>().prop_map(move |it| encoded(&Value::Double(f64::from_bits(it)))),
        any::<[u8; 4]>().prop_map(move |it| encoded(&Value::Decimal32(it))),
        any::<[u8; 8]>().prop_map(move |it| encoded(&Value::Decimal64(it))),
        any::<[u8; 16]>().prop_map(move |it| encoded(&Value::Decimal128(it))),
        any::<char>().prop_map(move |it| encoded(&Value::Char(it))),
        any::<i64>().prop_map(move |it| encoded(&Value::Timestamp(it))),
        any::<[u8; 16]>().prop_map(move |it| encoded(&Value::Uuid(it))),
        vec(any::<u8>(), 0..300).prop_map(move |it| encoded(&Value::Binary(&it))),
        text().prop_map(move |it| encoded(&Value::String(&it))),
        symbol().prop_map(move |it| encoded(&Value::Symbol(&it))),
    ]
}

fn tree() -> impl Strategy<Value = Tree> {
    let simple = prop_oneof![
        6 => leaf().prop_map(Tree::Leaf),
        1 => vec(any::<u32>(), 0..70).prop_map(Tree::Uints),
        1 => vec(text(), 0..6).prop_map(Tree::Strings),
    ];
    simple.prop_recursive(5, 60, 8, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..8).prop_map(Tree::List),
            vec((inner.clone(), inner.clone()), 0..4).prop_map(Tree::Map),
            (inner.clone(), inner).prop_map(|(descriptor, value)| Tree::Described(descriptor.into(), value.into())),
        ]
    })
}

/// Numbers of every encoded width.
fn uint() -> impl Strategy<Value = u32> {
    prop_oneof![Just(0), 1..=255u32, any::<u32>()]
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![9 => "[a-z/äß€]{0,12}".boxed(), 1 => "[a-z]{250,260}".boxed()]
}

fn symbol() -> impl Strategy<Value = String> {
    prop_oneof![9 => "[a-z:-]{1,12}".boxed(), 1 => "[a-z]{250,260}".boxed()]
}

fn encoded_tree(tree: &Tree) -> Vec<u8> {
    let mut out = Vec::new();
    tree.encode(&mut out);
    out
}

fn map() -> impl Strategy<Value = Vec<u8>> {
    vec((symbol().prop_map(|name| Value::Symbol(&name).encoded()), tree()), 0..3).prop_map(|pairs| {
        encoded_tree(&Tree::Map(pairs.into_iter().map(|(name, value)| (Tree::Leaf(name), value)).collect()))
    })
}

trait Encoded {
    fn encoded(&self) -> Vec<u8>;
}

impl Encoded for Value<'_> {
    fn encoded(&self) -> Vec<u8> {
        let mut out = Vec::new();
        encode::value(&mut out, self);
        out
    }
}

/// A described list: short ones without fields as usual states are, and any.
fn described() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        (0x23u8..0x35).prop_map(|code| vec![0x00, 0x53, code, 0x45]),
        (0u64..400, vec(tree(), 0..4)).prop_map(|(code, fields)| {
            let descriptor = Tree::Leaf(Value::Ulong(code).encoded());
            encoded_tree(&Tree::Described(descriptor.into(), Tree::List(fields).into()))
        }),
    ]
}

/// Checks one performative: the same comes back, whole, and by the general way as by the quick one; no truncation is taken for it.
fn comes_back(performative: Performative<'_>) {
    let mut out = Vec::new();
    performative.encode(&mut out);
    let len = out.len();
    out.extend_from_slice(b"payload");
    assert_eq!(Performative::decode(&out), Ok((performative, len)));
    checks::performative_round_trip(&out);
    for cut in [0, 1, len / 3, len / 2, len - 1] {
        assert!(Performative::decode(&out[..cut]).is_err());
    }
}

fn symbols() -> impl Strategy<Value = Vec<String>> {
    vec(symbol(), 0..4)
}

/// Lends names as `Symbols`.
macro_rules! lend {
    ($($names:ident),*) => {
        $(let $names: Vec<&str> = $names.iter().map(String::as_str).collect(); let $names = Symbols::names(&$names);)*
    };
}

/// Condition, description, info.
type OwnedError = Option<(String, Option<String>, Option<Vec<u8>>)>;

fn error() -> impl Strategy<Value = OwnedError> {
    option::of((symbol(), option::of(text()), option::of(map())))
}

fn lend_error(error: &OwnedError) -> Option<Error<'_>> {
    let (condition, description, info) = error.as_ref()?;
    Some(Error { condition, description: description.as_deref(), info: info.as_deref() })
}

proptest! {
    #[test]
    fn values(tree in tree()) {
        let bytes = encoded_tree(&tree);
        prop_assert_eq!(Reader::new(&bytes).checked(), Ok(bytes.as_slice()));
        prop_assert!(tree.is(&Reader::new(&bytes).value().unwrap()));
        checks::check(&bytes);
        for cut in 0..bytes.len().min(64) {
            prop_assert!(Reader::new(&bytes[..cut]).checked().is_err());
        }
    }

    #[test]
    fn transfer(
        handle in uint(), ids in (option::of(uint()), option::of(uint())),
        tag in option::of(prop_oneof![vec(any::<u8>(), 0..40), vec(any::<u8>(), 190..300)]),
        settled in option::of(any::<bool>()), flags in any::<[bool; 4]>(), mode in option::of(any::<bool>()),
        state in option::of(described()), rare in any::<bool>(),
    ) {
        let mode = mode.map(|second| if second { ReceiverSettleMode::Second } else { ReceiverSettleMode::First });
        let [more, resume, aborted, batchable] = flags;
        let common = Transfer {
            handle, delivery_id: ids.0, delivery_tag: tag.as_deref(), message_format: ids.1, settled, more,
            ..Transfer::default()
        };
        comes_back(Performative::Transfer(match rare {
            false => common,
            true => Transfer { rcv_settle_mode: mode, state: state.as_deref(), resume, aborted, batchable, ..common },
        }));
    }

    #[test]
    fn disposition(
        receiver in any::<bool>(), first in uint(), last in option::of(uint()), flags in any::<[bool; 2]>(),
        state in option::of(described()),
    ) {
        let role = if receiver { Role::Receiver } else { Role::Sender };
        let [settled, batchable] = flags;
        comes_back(Performative::Disposition(Disposition {
            role, first, last, settled, state: state.as_deref(), batchable,
        }));
    }

    #[test]
    fn flow(
        numbers in [option::of(uint()), option::of(uint()), option::of(uint()), option::of(uint()), option::of(uint())],
        windows in [uint(), uint(), uint()], flags in any::<[bool; 2]>(), properties in option::weighted(0.1, map()),
    ) {
        let [next_incoming_id, handle, delivery_count, link_credit, available] = numbers;
        let [incoming_window, next_outgoing_id, outgoing_window] = windows;
        let [drain, echo] = flags;
        comes_back(Performative::Flow(Flow {
            next_incoming_id, incoming_window, next_outgoing_id, outgoing_window, handle, delivery_count, link_credit,
            available, drain, echo, properties: properties.as_deref(),
        }));
    }

    #[test]
    fn open(
        container_id in text(), hostname in option::of(text()), max_frame_size in uint(), channel_max in any::<u16>(),
        idle_time_out in option::of(uint()), a in symbols(), b in symbols(), c in symbols(), d in symbols(),
        properties in option::of(map()),
    ) {
        lend!(a, b, c, d);
        comes_back(Performative::Open(Open {
            container_id: &container_id, hostname: hostname.as_deref(), max_frame_size, channel_max, idle_time_out,
            outgoing_locales: a, incoming_locales: b, offered_capabilities: c, desired_capabilities: d,
            properties: properties.as_deref(),
        }));
    }

    #[test]
    fn begin(
        remote_channel in option::of(any::<u16>()), windows in [uint(), uint(), uint(), uint()], a in symbols(),
        b in symbols(), properties in option::of(map()),
    ) {
        lend!(a, b);
        let [next_outgoing_id, incoming_window, outgoing_window, handle_max] = windows;
        comes_back(Performative::Begin(Begin {
            remote_channel, next_outgoing_id, incoming_window, outgoing_window, handle_max, offered_capabilities: a,
            desired_capabilities: b, properties: properties.as_deref(),
        }));
    }

    #[test]
    fn attach(
        name in text(), handle in uint(), receiver in any::<bool>(), modes in (0..3u8, 0..2u8),
        termini in (option::of(described()), option::of(described())), unsettled in option::of(map()),
        incomplete_unsettled in any::<bool>(), initial_delivery_count in option::of(uint()),
        max_message_size in option::of(any::<u64>()), a in symbols(), b in symbols(), properties in option::of(map()),
    ) {
        lend!(a, b);
        comes_back(Performative::Attach(Attach {
            name: &name, handle, role: if receiver { Role::Receiver } else { Role::Sender },
            snd_settle_mode: [SenderSettleMode::Unsettled, SenderSettleMode::Settled, SenderSettleMode::Mixed]
                [modes.0 as usize],
            rcv_settle_mode: [ReceiverSettleMode::First, ReceiverSettleMode::Second][modes.1 as usize],
            source: termini.0.as_deref(), target: termini.1.as_deref(), unsettled: unsettled.as_deref(),
            incomplete_unsettled, initial_delivery_count, max_message_size, offered_capabilities: a,
            desired_capabilities: b, properties: properties.as_deref(),
        }));
    }

    #[test]
    fn endings(handle in uint(), closed in any::<bool>(), error in error()) {
        let error = lend_error(&error);
        comes_back(Performative::Detach(Detach { handle, closed, error }));
        comes_back(Performative::End(End { error }));
        comes_back(Performative::Close(Close { error }));
    }

    #[test]
    fn termini(
        address in option::of(text()), numbers in (0..3u32, uint()), policies in [option::of(symbol()), option::of(symbol())],
        dynamic in any::<bool>(), maps in [option::of(map()), option::of(map())], outcome in option::of(described()),
        a in symbols(), b in symbols(),
    ) {
        lend!(a, b);
        let source = Source {
            address: address.as_deref(), durable: numbers.0, expiry_policy: policies[0].as_deref(), timeout: numbers.1,
            dynamic, dynamic_node_properties: maps[0].as_deref(), distribution_mode: policies[1].as_deref(),
            filter: maps[1].as_deref(), default_outcome: outcome.as_deref(), outcomes: a, capabilities: b,
        };
        let mut out = Vec::new();
        source.encode(&mut out);
        prop_assert_eq!(Source::decode(&out), Ok(source));
        let target = Target {
            address: address.as_deref(), durable: numbers.0, expiry_policy: policies[0].as_deref(), timeout: numbers.1,
            dynamic, dynamic_node_properties: maps[0].as_deref(), capabilities: b,
        };
        out.clear();
        target.encode(&mut out);
        prop_assert_eq!(Target::decode(&out), Ok(target));
        let coordinator = Coordinator { capabilities: b };
        out.clear();
        coordinator.encode(&mut out);
        prop_assert_eq!(Coordinator::decode(&out), Ok(coordinator));
    }

    #[test]
    fn states(
        section in (uint(), any::<u64>()), error in error(), flags in any::<[bool; 2]>(), annotations in option::of(map()),
        txn_id in vec(any::<u8>(), 0..40), outcome in option::of(described()),
    ) {
        let [delivery_failed, undeliverable_here] = flags;
        for state in [
            State::Received { section_number: section.0, section_offset: section.1 },
            State::Accepted,
            State::Rejected { error: lend_error(&error) },
            State::Released,
            State::Modified { delivery_failed, undeliverable_here, message_annotations: annotations.as_deref() },
            State::Declared { txn_id: &txn_id },
            State::Transactional { txn_id: &txn_id, outcome: outcome.as_deref() },
        ] {
            let mut out = Vec::new();
            state.encode(&mut out);
            prop_assert_eq!(State::decode(&out), Ok(state));
        }
    }

    #[test]
    fn sasl_frames(
        mechanisms in vec(symbol(), 1..4), mechanism in symbol(), bytes in option::of(vec(any::<u8>(), 0..300)),
        hostname in option::of(text()), code in any::<u8>(),
    ) {
        lend!(mechanisms);
        let some = bytes.as_deref().unwrap_or_default();
        for frame in [
            SaslFrame::Mechanisms(sasl::Mechanisms { sasl_server_mechanisms: mechanisms }),
            SaslFrame::Init(sasl::Init {
                mechanism: &mechanism, initial_response: bytes.as_deref(), hostname: hostname.as_deref(),
            }),
            SaslFrame::Challenge(sasl::Challenge { challenge: some }),
            SaslFrame::Response(sasl::Response { response: some }),
            SaslFrame::Outcome(sasl::Outcome { code, additional_data: bytes.as_deref() }),
        ] {
            let mut out = Vec::new();
            frame.encode(&mut out);
            prop_assert_eq!(SaslFrame::decode(&out), Ok(frame));
        }
    }

    #[test]
    fn any_bytes(bytes in vec(any::<u8>(), 0..300)) {
        checks::check(&bytes);
    }

    /// A right performative with some bytes changed.
    #[test]
    fn damaged_frames(
        pick in any::<prop::sample::Index>(), changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let session = include_str!("golden/proton_session.txt");
        let frames: Vec<&str> = session.lines().filter_map(|line| line.strip_prefix(['>', '<'])).collect();
        let hex = frames[pick.index(frames.len())].trim();
        let mut bytes: Vec<u8> =
            (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect();
        bytes.drain(..bytes.len().min(8));
        for (at, byte) in changes {
            if !bytes.is_empty() {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
        }
        checks::check(&bytes);
    }
}
