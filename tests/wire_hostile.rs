//! Bytes made to hurt: sizes and counts that lie, elements of no width, depth, fields too many or too few.

use ringway::wire::message::{self, Head};
use ringway::wire::performative::Performative;
use ringway::wire::sasl::SaslFrame;
use ringway::wire::value::{Reader, Value, DEPTH_MAX, ZERO_WIDTH_ELEMENTS_MAX};
use ringway::wire::{error, state, terminus, WireError};

fn checked(bytes: &[u8]) -> Result<(), WireError> {
    Reader::new(bytes).checked().map(|_| ())
}

#[test]
fn counts_are_held_against_the_bytes() {
    // Lists, maps, arrays of 2^32 - 1 elements in a few bytes.
    assert_eq!(checked(b"\xd0\x00\x00\x00\x05\xff\xff\xff\xff\x40"), Err(WireError::BadSize));
    assert_eq!(checked(b"\xd1\x00\x00\x00\x05\xff\xff\xff\xfe\x40"), Err(WireError::BadSize));
    assert_eq!(checked(b"\xf0\x00\x00\x00\x07\xff\xff\xff\xff\x50\x00\x00"), Err(WireError::BadSize));
    assert_eq!(checked(b"\xf0\x00\x00\x00\x07\xff\xff\xff\xff\xa0\x00\x00"), Err(WireError::BadSize));
    // 2^30 elements of four bytes would wrap around to 0 in 32 bits.
    assert_eq!(checked(b"\xf0\x00\x00\x00\x05\x40\x00\x00\x00\x70"), Err(WireError::BadSize));
    // An odd count of a map; more, or fewer, elements than counted.
    assert_eq!(checked(b"\xc1\x02\x01\x40"), Err(WireError::BadSize));
    assert_eq!(checked(b"\xc0\x03\x01\x40\x40"), Err(WireError::BadSize));
    assert_eq!(checked(b"\xc0\x03\x02\x52\x01"), Err(WireError::Truncated));
    assert_eq!(checked(b"\xe0\x04\x02\x50\x01\x02"), Ok(()));
    assert_eq!(checked(b"\xe0\x05\x02\x50\x01\x02\x03"), Err(WireError::BadSize));
    assert_eq!(checked(b"\xe0\x05\x01\xa1\x01x\x00"), Err(WireError::BadSize));
}

#[test]
fn sizes_are_held_against_the_bytes() {
    for constructor in [0xb0, 0xb1, 0xb3, 0xd0, 0xd1, 0xf0] {
        assert_eq!(checked(&[constructor, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]), Err(WireError::Truncated));
    }
    // Too small for the count that they cover.
    for bytes in [&b"\xc0\x00\x00"[..], b"\xd0\x00\x00\x00\x03\x00\x00\x00\x00", b"\xe0\x00\x00", b"\xc1\x00"] {
        assert_eq!(checked(bytes), Err(WireError::BadSize));
    }
    // An array needs its constructor even when it is empty.
    assert_eq!(checked(b"\xe0\x01\x00"), Err(WireError::Truncated));
    assert_eq!(checked(b"\xe0\x02\x00\xa3"), Ok(()));
    // Inside a list that is shorter than its element.
    assert_eq!(checked(b"\xc0\x03\x01\xa1\x05hello"), Err(WireError::Truncated));
}

#[test]
fn elements_without_width_are_bounded() {
    for constructor in [0x40, 0x41, 0x42, 0x43, 0x44, 0x45] {
        let array = |count: u32| {
            let mut bytes = vec![0xf0, 0, 0, 0, 5];
            bytes.extend_from_slice(&count.to_be_bytes());
            bytes.push(constructor);
            bytes
        };
        assert_eq!(checked(&array(u32::MAX)), Err(WireError::BadSize));
        assert_eq!(checked(&array(ZERO_WIDTH_ELEMENTS_MAX + 1)), Err(WireError::BadSize));
        let bytes = array(ZERO_WIDTH_ELEMENTS_MAX);
        assert_eq!(checked(&bytes), Ok(()));
        let Ok(Value::Array(array)) = Reader::new(&bytes).value() else { panic!() };
        assert_eq!(array.iter().count(), ZERO_WIDTH_ELEMENTS_MAX as usize);
    }
}

/// `levels` lists, maps (in a value), arrays, or descriptions in one another, a null in the innermost.
fn nested(levels: usize, wrap: impl Fn(Vec<u8>) -> Vec<u8>) -> Vec<u8> {
    (0..levels).fold(vec![0x40], |inner, _| wrap(inner))
}

fn wide(constructor: u8, count: u32, before: &[u8], inner: &[u8]) -> Vec<u8> {
    let mut bytes = vec![constructor];
    bytes.extend_from_slice(&((4 + before.len() + inner.len()) as u32).to_be_bytes());
    bytes.extend_from_slice(&count.to_be_bytes());
    bytes.extend_from_slice(before);
    bytes.extend_from_slice(inner);
    bytes
}

#[test]
fn depth_is_bounded() {
    let most = DEPTH_MAX as usize;
    let wraps: [&dyn Fn(Vec<u8>) -> Vec<u8>; 5] = [
        &|inner| wide(0xd0, 1, &[], &inner),
        &|inner| wide(0xd1, 2, &[0x43], &inner),
        // An array of one element: its constructor is the element's first byte.
        &|inner| wide(0xf0, 1, &[], &inner),
        &|inner| [&[0x00, 0x43][..], &inner].concat(),
        &|inner| [&[0x00][..], &inner, &[0x43]].concat(),
    ];
    for wrap in wraps {
        assert_eq!(checked(&nested(most, wrap)), Ok(()));
        assert_eq!(checked(&nested(most + 1, wrap)), Err(WireError::TooDeep));
        // And far beyond, where recursion would run out of stack.
        assert_eq!(checked(&nested(2000, wrap)), Err(WireError::TooDeep));
    }
    let deep = vec![0u8; 1 << 20];
    assert!(checked(&deep).is_err() && Performative::decode(&deep).is_err() && Head::scan(deep.as_slice()).is_err());
    assert!(Reader::new(&deep).value().is_err());
}

#[test]
fn values_that_are_none() {
    assert_eq!(checked(b"\x56\x02"), Err(WireError::BadValue("boolean")));
    assert_eq!(checked(b"\xe0\x04\x02\x56\x01\x02"), Err(WireError::BadValue("boolean")));
    assert_eq!(checked(b"\x73\x00\x00\xd8\x00"), Err(WireError::BadValue("char")));
    assert_eq!(checked(b"\xa1\x01\xff"), Err(WireError::BadValue("string")));
    assert_eq!(checked(b"\xa3\x02\xc3\xa4"), Err(WireError::BadValue("symbol")));
    for constructor in (0x01..=0x3f).chain([0x46, 0x57, 0x62, 0x75, 0x85, 0x90, 0xa2, 0xc2, 0xe1, 0xff]) {
        assert_eq!(checked(&[constructor; 40]), Err(WireError::BadConstructor(constructor)));
    }
}

#[test]
fn fields_too_few_or_too_many() {
    let missing = |body: &[u8], field| assert_eq!(Performative::decode(body), Err(WireError::Missing(field)));
    missing(b"\x00\x53\x10\x45", "container-id");
    missing(b"\x00\x53\x10\xc0\x02\x01\x40", "container-id");
    missing(b"\x00\x53\x11\xc0\x04\x03\x40\x43\x43", "outgoing-window");
    missing(b"\x00\x53\x12\xc0\x05\x02\xa1\x01l\x43", "role");
    missing(b"\x00\x53\x13\xc0\x04\x03\x40\x43\x43", "outgoing-window");
    missing(b"\x00\x53\x14\x45", "handle");
    missing(b"\x00\x53\x14\xc0\x03\x02\x40\x43", "handle");
    missing(b"\x00\x53\x15\xc0\x02\x01\x41", "first");
    missing(b"\x00\x53\x15\xc0\x03\x02\x40\x43", "role");
    missing(b"\x00\x53\x16\x45", "handle");
    assert_eq!(SaslFrame::decode(b"\x00\x53\x41\x45"), Err(WireError::Missing("mechanism")));
    assert_eq!(SaslFrame::decode(b"\x00\x53\x40\x45"), Err(WireError::Missing("sasl-server-mechanisms")));
    assert_eq!(SaslFrame::decode(b"\x00\x53\x44\x45"), Err(WireError::Missing("code")));
    assert_eq!(error::Error::decode(b"\x00\x53\x1d\x45"), Err(WireError::Missing("condition")));
    assert_eq!(state::State::decode(b"\x00\x53\x23\x45"), Err(WireError::Missing("section-number")));

    let many = |descriptor: u8, count: u8| {
        let mut body = vec![0x00, 0x53, descriptor, 0xc0, count + 1, count];
        body.extend(std::iter::repeat_n(0x40, count.into()));
        body
    };
    // Fields that have to be there come first, so that of nulls alone isn't what fails.
    let mut body = many(0x14, 12);
    body[6] = 0x43;
    assert_eq!(Performative::decode(&body), Err(WireError::TooManyFields("transfer")));
    let mut body = many(0x15, 7);
    (body[6], body[7]) = (0x41, 0x43);
    assert_eq!(Performative::decode(&body), Err(WireError::TooManyFields("disposition")));
    assert_eq!(Performative::decode(&many(0x18, 2)), Err(WireError::TooManyFields("close")));
    assert_eq!(terminus::Source::decode(&many(0x28, 12)), Err(WireError::TooManyFields("source")));
    assert_eq!(state::State::decode(&many(0x24, 1)), Err(WireError::TooManyFields("state")));
    assert_eq!(message::to(many(0x73, 14).as_slice(), &mut []), Err(WireError::TooManyFields("properties")));
}

#[test]
fn counts_that_disagree_with_the_fields_sent() {
    // A count of 0, or one less, with the bytes of more.
    for (size, count) in [(3, 0), (3, 1), (4, 2)] {
        let mut body = vec![0x00, 0x53, 0x14, 0xc0, size, count];
        body.extend(std::iter::repeat_n(0x43, size as usize - 1));
        assert!(Performative::decode(&body).is_err(), "{size} {count}");
    }
    assert_eq!(Performative::decode(b"\x00\x53\x15\xc0\x03\x01\x41\x43"), Err(WireError::Missing("first")));
    assert_eq!(Performative::decode(b"\x00\x53\x15\xc0\x03\x03\x41\x43"), Err(WireError::Truncated));
}

#[test]
fn fields_of_the_wrong_type_are_named() {
    let wrong = |body: &[u8], field, constructor| {
        assert_eq!(Performative::decode(body), Err(WireError::WrongType { field, constructor }));
    };
    wrong(b"\x00\x53\x10\xc0\x04\x01\xa3\x01x", "container-id", 0xa3);
    wrong(b"\x00\x53\x14\xc0\x03\x01\x50\x01", "handle", 0x50);
    wrong(b"\x00\x53\x14\xc0\x06\x03\x43\x43\xa1\x01x", "delivery-tag", 0xa1);
    wrong(b"\x00\x53\x15\xc0\x03\x02\x43\x43", "role", 0x43);
    wrong(b"\x00\x53\x15\xc0\x06\x05\x41\x43\x40\x41\x45", "state", 0x45);
    wrong(b"\x00\x53\x14\xc1\x03\x01\x52\x01", "performative", 0xc1);
    assert_eq!(Performative::decode(b"\x00\x53\x19\x45"), Err(WireError::WrongDescriptor("performative")));
    assert_eq!(Performative::decode(b"\x00\xa3\x01x\x45"), Err(WireError::WrongDescriptor("performative")));
    assert_eq!(Performative::decode(b"\x00\x40\x45"), Err(WireError::WrongDescriptor("performative")));
    assert_eq!(Performative::decode(b""), Err(WireError::Truncated));
    let modes = b"\x00\x53\x12\xc0\x08\x04\xa1\x01l\x43\x41\x50\x03";
    assert_eq!(Performative::decode(modes), Err(WireError::BadValue("snd-settle-mode")));
}

#[test]
fn what_is_passed_on_is_checked_to_its_innermost() {
    // A rejected state whose error's info map has a string that is not UTF-8: relayed as it is it would have a peer close its connection.
    let state = b"\x00\x53\x25\xc0\x11\x01\x00\x53\x1d\xc0\x0b\x03\xa3\x01x\x40\xc1\x05\x02\xa3\x00\xa1\x01\xff";
    let body = |state: &[u8]| {
        let mut body = vec![0x00, 0x53, 0x15, 0xc0, 5 + state.len() as u8, 5, 0x41, 0x43, 0x40, 0x41];
        body.extend_from_slice(state);
        body
    };
    let mut right = state.to_vec();
    *right.last_mut().unwrap() = b'v';
    right[4] = (right.len() - 5) as u8;
    right[10] = (right.len() - 11) as u8;
    right[17] = (right.len() - 18) as u8;
    assert!(Performative::decode(&body(&right)).is_ok());
    *right.last_mut().unwrap() = 0xff;
    assert_eq!(Performative::decode(&body(&right)), Err(WireError::BadValue("string")));
}

#[test]
fn sections_out_of_order_or_twice() {
    let header: &[u8] = b"\x00\x53\x70\x45";
    let properties: &[u8] = b"\x00\x53\x73\x45";
    assert!(Head::scan([header, properties].concat().as_slice()).is_ok());
    assert!(Head::scan([properties, header].concat().as_slice()).is_err());
    assert!(Head::scan([header, header].concat().as_slice()).is_err());
    assert_eq!(Head::scan(b"\x00\x53\x79\x45".as_slice()), Err(WireError::WrongDescriptor("message section")));
    assert_eq!(Head::scan(b"\x45".as_slice()), Err(WireError::WrongDescriptor("message section")));
    // Fields that reach beyond the properties list, or end before it.
    assert_eq!(message::to(b"\x00\x53\x73\xc0\x04\x03\x40\x40\xa1\x01q".as_slice(), &mut []), Err(WireError::BadSize));
    assert_eq!(message::to(b"\x00\x53\x73\xc0\x05\x02\x40\x40\x40\x40".as_slice(), &mut []), Err(WireError::BadSize));
}
