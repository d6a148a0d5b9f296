//! A message's annotations (section 3.2.3), and the routers' own among them.
//!
//! Routers of this protocol family tell each other of a message in its message-annotations: which one it came in at, which
//! ones it has passed, where it goes if not where its properties say. What a client put there is its own and stays.

use super::message::{Bytes, Cursor, Encoded, Section};
use super::value::{code, List, Reader, Value};
use super::{descriptor, encode, WireError};
use crate::payload::{Payload, Range};

/// Every key of a router's begins so.
const PREFIX: &str = "x-opt-qd.";
pub const PHASE: &str = "x-opt-qd.phase";
pub const STREAM: &str = "x-opt-qd.stream";
pub const TO: &str = "x-opt-qd.to";
pub const INGRESS: &str = "x-opt-qd.ingress";
pub const TRACE: &str = "x-opt-qd.trace";
/// Of older routers; it means nothing any more.
const CLASS: &str = "x-opt-qd.class";

/// Whether a message surely has no message-annotations, by the first of its bytes: the usual case, for a few instructions.
/// False: it may have, or they may be still to come.
#[inline(always)]
pub fn are_absent(payload: &Payload) -> bool {
    payload.ranges().first().is_some_and(|first| are_absent_in(first.as_slice()))
}

/// As above, of a message that is all there, or its first bytes.
#[inline(always)]
pub fn are_absent_in(message: &[u8]) -> bool {
    let bytes = match message {
        [0, code::SMALL_ULONG, 0x70, code::LIST8, size, rest @ ..] => match rest.get(usize::from(*size)..) {
            Some(rest) => rest,
            None => return false,
        },
        [0, code::SMALL_ULONG, 0x70, code::LIST0, rest @ ..] => rest,
        bytes => bytes,
    };
    matches!(bytes, [0, code::SMALL_ULONG, 0x73..=0x78, ..])
}

/// Where a message's annotations are, or would be.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Place {
    pub at: usize,
    pub section: Option<Section>,
}

impl Place {
    /// `complete`: nothing more will come. Else `Truncated` means that it can't be told yet.
    pub fn find<'m>(message: impl Into<Bytes<'m>>, complete: bool) -> Result<Place, WireError> {
        let mut cursor = Cursor::new(message.into());
        loop {
            let at = cursor.position;
            if cursor.at_end() {
                return if complete { Ok(Place { at, section: None }) } else { Err(WireError::Truncated) };
            }
            match cursor.descriptor()? {
                descriptor::HEADER | descriptor::DELIVERY_ANNOTATIONS => cursor.skip_value()?,
                code @ descriptor::MESSAGE_ANNOTATIONS => {
                    let section = cursor.section_value(code, at)?;
                    return Ok(Place { at, section: Some(section) });
                }
                descriptor::PROPERTIES..=descriptor::FOOTER => return Ok(Place { at, section: None }),
                _ => return Err(WireError::WrongDescriptor("message section")),
            }
        }
    }

    /// The section's value, in one piece: where it is, or copied to `scratch`.
    pub fn value<'s>(&self, message: &'s Payload, scratch: &'s mut Vec<u8>) -> &'s [u8] {
        let Some(section) = self.section else { return &[] };
        let value = Encoded::in_message(message, section.value);
        if let Some(bytes) = value.contiguous() {
            return bytes;
        }
        scratch.resize(section.value.len(), 0);
        value.bytes(scratch).unwrap_or_default()
    }

    /// Puts another section in the place of the one that is here; empty: none. The rest of the message isn't copied.
    pub fn replace(&self, message: &mut Payload, section: &[u8], mut pack: impl FnMut(&[u8]) -> Range) {
        let mut rest = std::mem::take(message);
        *message = rest.split_to(self.at);
        drop(rest.split_to(self.section.map_or(0, |section| section.span.len())));
        if !section.is_empty() {
            message.push(pack(section));
        }
        message.append(rest);
    }
}

/// What routers said of a message. The values lie in the message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RouterAnnotations<'a> {
    pub phase: Option<&'a [u8]>,
    pub stream: Option<&'a [u8]>,
    pub to: Option<&'a str>,
    pub ingress: Option<&'a str>,
    /// Of strings.
    pub trace: Option<List<'a>>,
    /// There is an entry of a router's, one of these or another.
    pub any: bool,
}

/// Keys and values by turns, each with its bytes.
struct Entries<'a> {
    left: u32,
    reader: Reader<'a>,
}

impl<'a> Entries<'a> {
    fn new(section: &'a [u8]) -> Result<Entries<'a>, &'static str> {
        match Reader::new(section).value() {
            Ok(Value::Map(map)) => Ok(Entries { left: map.count / 2, reader: Reader::new(map.body) }),
            Ok(_) => Err("Invalid message annotations section - missing map type"),
            Err(_) => Err("Invalid message annotations section"),
        }
    }
}

impl<'a> Iterator for Entries<'a> {
    /// Key and value.
    type Item = Result<(&'a [u8], &'a [u8]), &'static str>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        match (self.reader.raw(), self.reader.raw()) {
            (Ok(key), Ok(value)) => Some(Ok((key, value))),
            _ => {
                self.left = 0;
                Some(Err("Invalid message annotations section"))
            }
        }
    }
}

/// A router's key, without what they all begin with.
fn router_key(key: &[u8]) -> Option<&str> {
    let text = match key {
        [code::SYMBOL8, _, text @ ..] | [code::SYMBOL32, _, _, _, _, text @ ..] => std::str::from_utf8(text).ok()?,
        _ => return None,
    };
    let is_routers = [PHASE, STREAM, TO, INGRESS, TRACE, CLASS, PREFIX].contains(&text);
    text.strip_prefix(PREFIX).filter(|_| is_routers)
}

impl<'a> RouterAnnotations<'a> {
    /// Reads a section's value, and what is wrong with it. `ignored`: whether there are any, but not what they say.
    pub fn read(section: &'a [u8], ignored: bool) -> Result<RouterAnnotations<'a>, &'static str> {
        let mut found = RouterAnnotations::default();
        for entry in Entries::new(section)? {
            let (key, raw) = entry?;
            let Some(key) = router_key(key) else { continue };
            found.any = true;
            if ignored {
                continue;
            }
            let value = Reader::new(raw).value();
            let text = |wrong| match value {
                Ok(Value::String(text)) => Ok(Some(text)),
                _ => Err(wrong),
            };
            match key {
                "phase" => found.phase = Some(raw),
                "stream" => found.stream = Some(raw),
                "to" => found.to = text("to-override not a valid string type")?,
                "ingress" => found.ingress = text("ingress router not a string type")?,
                "trace" => match value {
                    Ok(Value::List(list)) if list.iter().all(|item| matches!(item, Ok(Value::String(_)))) => {
                        found.trace = Some(list);
                    }
                    Ok(Value::List(_)) => return Err("trace list contains non-string entries"),
                    _ => return Err("trace annotation is not a list"),
                },
                _ => {}
            }
        }
        Ok(found)
    }

    /// Writes a section: the entries of `section` (a section's value, or nothing) that aren't a router's, then these.
    /// `router` passes the message on, so it is behind the others in the trace, and the ingress where there is none.
    /// Nothing at all to say: nothing is written.
    pub fn write(&self, section: &[u8], router: Option<&str>, out: &mut Vec<u8>) {
        let start = out.len();
        encode::descriptor(out, descriptor::MESSAGE_ANNOTATIONS);
        let map = encode::begin(out);
        let mut entries = 0;
        for (key, value) in Entries::new(section).into_iter().flatten().filter_map(Result::ok) {
            if router_key(key).is_none() {
                out.extend_from_slice(key);
                out.extend_from_slice(value);
                entries += 1;
            }
        }
        for (key, value) in [(PHASE, self.phase), (STREAM, self.stream)] {
            if let Some(value) = value {
                encode::symbol(out, key);
                out.extend_from_slice(value);
                entries += 1;
            }
        }
        for (key, value) in [(TO, self.to), (INGRESS, self.ingress.or(router))] {
            if let Some(value) = value {
                encode::symbol(out, key);
                encode::string(out, value);
                entries += 1;
            }
        }
        if self.trace.is_some() || router.is_some() {
            encode::symbol(out, TRACE);
            let list = encode::begin(out);
            let before = self.trace.unwrap_or_default();
            out.extend_from_slice(before.body);
            router.iter().for_each(|router| encode::string(out, router));
            encode::finish(out, list, code::LIST8, before.count + u32::from(router.is_some()));
            entries += 1;
        }
        if entries == 0 {
            out.truncate(start);
        } else {
            encode::finish(out, map, code::MAP8, 2 * entries);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &[u8] = b"\x00\x53\x70\xc0\x02\x01\x41";
    const BODY: &[u8] = b"\x00\x53\x75\xa0\x02hi";

    type Entry<'a> = (&'a str, fn(&mut Vec<u8>));

    fn section(entries: &[Entry]) -> Vec<u8> {
        let mut out = Vec::new();
        encode::descriptor(&mut out, descriptor::MESSAGE_ANNOTATIONS);
        let map = encode::begin(&mut out);
        for (key, value) in entries {
            encode::symbol(&mut out, key);
            value(&mut out);
        }
        encode::finish(&mut out, map, code::MAP8, 2 * entries.len() as u32);
        out
    }

    fn strings(out: &mut Vec<u8>, texts: &[&str]) {
        let list = encode::begin(out);
        texts.iter().for_each(|text| encode::string(out, text));
        encode::finish(out, list, code::LIST8, texts.len() as u32);
    }

    const MINE: Entry = ("mine", |out| encode::int(out, 700));
    const INGRESS_A: Entry = (INGRESS, |out| encode::string(out, "0/A"));
    const TRACE_A: Entry = (TRACE, |out| strings(out, &["0/A"]));
    const CLASS_9: Entry = (CLASS, |out| encode::int(out, 9));

    /// What a message's section becomes.
    fn rewritten(entries: &[Entry], ignored: bool, router: Option<&str>) -> Result<Vec<u8>, &'static str> {
        let before = section(entries);
        let mut out = Vec::new();
        RouterAnnotations::read(&before[3..], ignored)?.write(&before[3..], router, &mut out);
        Ok(out)
    }

    #[test]
    fn the_usual_messages_are_told_by_their_first_bytes() {
        let absent = |parts: &[&[u8]]| are_absent(&Payload::copied(&parts.concat()));
        assert!(absent(&[BODY]) && absent(&[HEADER, BODY]) && absent(&[b"\x00\x53\x70\x45", BODY]));
        assert!(!absent(&[&section(&[MINE]), BODY]) && !absent(&[HEADER, &section(&[MINE]), BODY]));
        // Too short to tell, delivery annotations, no message.
        for other in [&HEADER[..4], HEADER, b"\x00\x53\x71\xc1\x01\x00", b"", b"garbage"] {
            assert!(!absent(&[other]), "{other:?}");
        }
        assert!(!are_absent(&Payload::new()));
    }

    #[test]
    fn the_place_is_found_wherever_the_pieces_part() {
        let annotations = section(&[MINE, TRACE_A]);
        let message = [HEADER, &annotations, BODY].concat();
        let end = HEADER.len() + annotations.len();
        for cut in 0..message.len() {
            let mut payload = Payload::copied(&message[..cut]);
            let found = Place::find(&payload, false);
            assert_eq!(found.is_ok(), cut >= end, "{cut}");
            assert!(found.is_ok() || found == Err(WireError::Truncated));
            payload.append(Payload::copied(&message[cut..]));
            let place = Place::find(&payload, false).unwrap();
            assert_eq!(place.at, HEADER.len());
            let mut scratch = Vec::new();
            assert_eq!(place.value(&payload, &mut scratch), &annotations[3..], "{cut}");
            place.replace(&mut payload, b"new", |bytes| Range::copied(bytes));
            assert_eq!(payload.to_vec(), [HEADER, b"new", BODY].concat());
        }
    }

    #[test]
    fn without_a_section_there_is_a_place_for_one() {
        for head in [&[][..], HEADER] {
            let mut payload = Payload::copied(&[head, BODY].concat());
            let place = Place::find(&payload, false).unwrap();
            assert_eq!(place, Place { at: head.len(), section: None });
            place.replace(&mut payload, b"new", |bytes| Range::copied(bytes));
            assert_eq!(payload.to_vec(), [head, b"new", BODY].concat());
        }
        assert_eq!(Place::find(HEADER, false), Err(WireError::Truncated));
        assert_eq!(Place::find(HEADER, true), Ok(Place { at: HEADER.len(), section: None }));
        assert!(Place::find(&b"garbage"[..], false).is_err_and(|error| error != WireError::Truncated));
    }

    #[test]
    fn what_is_a_routers_is_taken_out_and_the_rest_stays() {
        let none = Ok(Vec::new());
        assert_eq!(rewritten(&[INGRESS_A, TRACE_A], true, None), none);
        assert_eq!(rewritten(&[INGRESS_A, MINE, CLASS_9], true, None), Ok(section(&[MINE])));
        let unknown: Entry = ("x-opt-qd.colour", |out| encode::int(out, 1));
        assert_eq!(rewritten(&[unknown, TRACE_A], true, None), Ok(section(&[unknown])));
    }

    #[test]
    fn a_router_is_added_behind_those_before_it() {
        let own_ingress: Entry = (INGRESS, |out| encode::string(out, "0/B"));
        let own_trace: Entry = (TRACE, |out| strings(out, &["0/B"]));
        let both: Entry = (TRACE, |out| strings(out, &["0/A", "0/B"]));
        let to: Entry = (TO, |out| encode::string(out, "there"));
        let phase: Entry = (PHASE, |out| encode::int(out, 7));
        assert_eq!(rewritten(&[MINE], false, Some("0/B")), Ok(section(&[MINE, own_ingress, own_trace])));
        assert_eq!(rewritten(&[TRACE_A, INGRESS_A], true, Some("0/B")), Ok(section(&[own_ingress, own_trace])));
        let kept = rewritten(&[CLASS_9, TRACE_A, to, MINE, INGRESS_A, phase], false, Some("0/B"));
        assert_eq!(kept, Ok(section(&[MINE, phase, to, INGRESS_A, both])));
        // Where there was no section.
        let mut out = Vec::new();
        RouterAnnotations::default().write(&[], Some("0/B"), &mut out);
        assert_eq!(out, section(&[own_ingress, own_trace]));
    }

    #[test]
    fn what_is_no_map_or_of_another_type_is_said() {
        let to: Entry = (TO, |out| encode::value(out, &Value::Double(3.145)));
        let ingress: Entry = (INGRESS, |out| strings(out, &["0/A"]));
        let trace: Entry = (TRACE, |out| encode::string(out, "stringy"));
        let items: Entry = (TRACE, |out| {
            let list = encode::begin(out);
            encode::string(out, "0/A");
            encode::int(out, 12);
            encode::finish(out, list, code::LIST8, 2);
        });
        for entry in [to, ingress, trace, items] {
            assert!(rewritten(&[MINE, entry], false, None).is_err(), "{}", entry.0);
            assert_eq!(rewritten(&[MINE, entry], true, None), Ok(section(&[MINE])));
        }
        for bytes in
            [&b"\xa1\x01a"[..], b"\xc1\x04\x02\xa3\x05a", b"\xc1\x02\x01\x40", b"", b"\xc1\x05\x02\xa3\x01a\x70"]
        {
            assert!(RouterAnnotations::read(bytes, true).is_err(), "{bytes:?}");
        }
    }
}
