//! A message's sections (section 3.2), found without decoding what is in them. The bytes may lie in several pieces, as
//! they arrived; nothing is copied or allocated.
//!
//! The router reads of a message only what it routes by: `to` on anonymous links, and what management asks for. An
//! incomplete message is scanned as far as it goes: [`WireError::Truncated`] then means that more has to arrive.

use super::value::{code, layout, utf8, Layout, Reader, Value};
use super::{descriptor, WireError};
use crate::payload::{Payload, Range};

/// A message's bytes, whole or in pieces.
#[derive(Clone, Copy, Debug)]
pub enum Bytes<'a> {
    Whole(&'a [u8]),
    Pieces(&'a [Range]),
}

impl<'a> From<&'a [u8]> for Bytes<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Bytes::Whole(bytes)
    }
}

impl<'a> From<&'a Payload> for Bytes<'a> {
    fn from(payload: &'a Payload) -> Self {
        Bytes::Pieces(payload.ranges())
    }
}

/// Bytes `start..end` of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Span {
    pub start: usize,
    pub end: usize,
}

impl Span {
    pub fn len(&self) -> usize {
        self.end - self.start
    }

    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }
}

/// One section: its descriptor's code, and where it lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Section {
    pub code: u64,
    /// All of it, descriptor included.
    pub span: Span,
    /// What is described: a list, map, binary or any value.
    pub value: Span,
}

/// Sections in the order in which they come. After an error it ends.
#[derive(Clone, Debug)]
pub struct Sections<'a> {
    cursor: Cursor<'a>,
    failed: bool,
}

impl<'a> Sections<'a> {
    pub fn new(message: impl Into<Bytes<'a>>) -> Sections<'a> {
        Sections { cursor: Cursor::new(message.into()), failed: false }
    }

    fn read(&mut self) -> Result<Section, WireError> {
        let start = self.cursor.position;
        let code = self.cursor.descriptor()?;
        self.cursor.section_value(code, start)
    }
}

impl Iterator for Sections<'_> {
    type Item = Result<Section, WireError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed || self.cursor.at_end() {
            return None;
        }
        let section = self.read();
        self.failed = section.is_err();
        Some(section)
    }
}

/// Where the sections before the body are. The bare message (section 3.2) is what the sender made and nobody changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Head {
    pub header: Option<Section>,
    pub delivery_annotations: Option<Section>,
    pub message_annotations: Option<Section>,
    pub properties: Option<Section>,
    pub application_properties: Option<Section>,
    /// Where the bare message begins: behind header and annotations.
    pub bare: usize,
    /// Where the body begins.
    pub body: usize,
}

impl Head {
    /// Scans up to the body, which isn't looked at (nor need it have arrived). Sections out of order, or twice, are an error.
    pub fn scan<'a>(message: impl Into<Bytes<'a>>) -> Result<Head, WireError> {
        let mut cursor = Cursor::new(message.into());
        let mut head = Head::default();
        let mut last = 0;
        while !cursor.at_end() {
            let start = cursor.position;
            let code = cursor.descriptor()?;
            let place = match code {
                descriptor::HEADER => &mut head.header,
                descriptor::DELIVERY_ANNOTATIONS => &mut head.delivery_annotations,
                descriptor::MESSAGE_ANNOTATIONS => &mut head.message_annotations,
                descriptor::PROPERTIES => &mut head.properties,
                descriptor::APPLICATION_PROPERTIES => &mut head.application_properties,
                descriptor::DATA..=descriptor::FOOTER => break,
                _ => return Err(WireError::WrongDescriptor("message section")),
            };
            if code <= last {
                return Err(WireError::WrongDescriptor("later message section"));
            }
            last = code;
            let section = cursor.section_value(code, start)?;
            *place = Some(section);
            head.body = section.span.end;
            if code <= descriptor::MESSAGE_ANNOTATIONS {
                head.bare = head.body;
            }
        }
        Ok(head)
    }
}

/// A field of the properties section (section 3.2.4), by its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub enum Property {
    MessageId = 0,
    UserId,
    To,
    Subject,
    ReplyTo,
    CorrelationId,
    ContentType,
    ContentEncoding,
    AbsoluteExpiryTime,
    CreationTime,
    GroupId,
    GroupSequence,
    ReplyToGroupId,
}

/// How many fields the properties section has.
const PROPERTIES: usize = 13;

/// The properties section's fields, each where it is.
#[derive(Clone, Copy, Debug)]
pub struct Properties<'a> {
    message: Bytes<'a>,
    fields: [Span; PROPERTIES],
}

impl<'a> Properties<'a> {
    /// None: the message has no such section.
    pub fn find(message: impl Into<Bytes<'a>>) -> Result<Option<Properties<'a>>, WireError> {
        Self::find_up_to(message.into(), PROPERTIES)
    }

    /// The first `count` fields.
    fn find_up_to(message: Bytes<'a>, count: usize) -> Result<Option<Properties<'a>>, WireError> {
        Self::find_from(&mut Cursor::new(message), message, count)
    }

    /// `cursor`: at the message's begin. After an error it is where that was, or where bytes that are not there would end.
    fn find_from(
        cursor: &mut Cursor<'a>,
        message: Bytes<'a>,
        count: usize,
    ) -> Result<Option<Properties<'a>>, WireError> {
        while !cursor.at_end() {
            match cursor.descriptor()? {
                descriptor::PROPERTIES => {
                    let mut properties = Properties { message, fields: [Span::default(); PROPERTIES] };
                    properties.read(cursor, count)?;
                    return Ok(Some(properties));
                }
                descriptor::HEADER..=descriptor::MESSAGE_ANNOTATIONS => cursor.skip_value()?,
                // What comes behind the properties: there are none.
                descriptor::APPLICATION_PROPERTIES..=descriptor::FOOTER => return Ok(None),
                _ => return Err(WireError::WrongDescriptor("message section")),
            }
        }
        Ok(None)
    }

    fn read(&mut self, cursor: &mut Cursor<'a>, wanted: usize) -> Result<(), WireError> {
        let (size, count) = cursor.list()?;
        if count > PROPERTIES {
            return Err(WireError::TooManyFields("properties"));
        }
        // Where the list ends: no field may reach beyond.
        let end = cursor.position + size;
        for field in self.fields.iter_mut().take(count.min(wanted)) {
            let start = cursor.position;
            cursor.skip_value()?;
            if cursor.position > end {
                return Err(WireError::BadSize);
            }
            *field = Span { start, end: cursor.position };
        }
        if count <= wanted && cursor.position != end {
            return Err(WireError::BadSize);
        }
        Ok(())
    }

    /// None: absent. A null is a value here, of one byte.
    pub fn get(&self, property: Property) -> Option<Encoded<'a>> {
        let span = self.fields[property as usize];
        (!span.is_empty()).then_some(Encoded { message: self.message, span })
    }
}

/// The `to` of a message: what an anonymous link's message is routed by. `scratch` holds it if it lies in two pieces;
/// one that doesn't fit there is an error.
pub fn to<'s>(message: impl Into<Bytes<'s>>, scratch: &'s mut [u8]) -> Result<Option<&'s str>, WireError> {
    let message = message.into();
    let first = match message {
        Bytes::Whole(bytes) => bytes,
        Bytes::Pieces(pieces) => pieces.first().map_or(&[][..], Range::as_slice),
    };
    if let Some(to) = quick_to(first) {
        return utf8(to).map(Some);
    }
    let properties = Properties::find_up_to(message, Property::To as usize + 1)?;
    match properties.and_then(|properties| properties.get(Property::To)) {
        Some(to) => to.text(scratch),
        None => Ok(None),
    }
}

/// How long a message is at least when more can be told of its annotations and its `to` than now, where that is too little:
/// [`WireError::Truncated`].
pub fn needed(message: &Payload) -> usize {
    let mut cursor = Cursor::new(message.into());
    let _ = Properties::find_from(&mut cursor, message.into(), Property::To as usize + 1);
    cursor.position.max(message.len() + 1)
}

/// The usual case: sections and properties up to `to` in one piece and in their usual encodings. None for any other, and
/// for what is wrong.
fn quick_to(mut bytes: &[u8]) -> Option<&[u8]> {
    loop {
        let [code::DESCRIBED, code::SMALL_ULONG, section, ref value @ ..] = *bytes else { return None };
        match section as u64 {
            descriptor::PROPERTIES => bytes = value,
            descriptor::HEADER..=descriptor::MESSAGE_ANNOTATIONS => {
                bytes = quick_skip(value)?;
                continue;
            }
            _ => return None,
        }
        let (end, count, fields) = match *bytes {
            [code::LIST8, size, count, ref fields @ ..] => ((size as usize).checked_sub(1)?, count, fields),
            [code::LIST32, a, b, c, d, 0, 0, 0, count, ref fields @ ..] => {
                ((u32::from_be_bytes([a, b, c, d]) as usize).checked_sub(4)?, count, fields)
            }
            _ => return None,
        };
        let [code::STRING8, size, ref rest @ ..] = *quick_skip(quick_skip(fields)?)? else { return None };
        let (to, behind) = rest.split_at_checked(size as usize)?;
        let used = fields.len() - behind.len();
        let fits = if count as usize == Property::To as usize + 1 { used == end } else { used <= end };
        return (fits && (Property::To as usize + 1..=PROPERTIES).contains(&(count as usize))).then_some(to);
    }
}

/// Passes over a value of one of the usual encodings.
#[inline(always)]
fn quick_skip(bytes: &[u8]) -> Option<&[u8]> {
    match *bytes {
        [0x40..=0x45, ref rest @ ..] | [0x50..=0x56, _, ref rest @ ..] => Some(rest),
        [code::BINARY8 | code::STRING8 | code::SYMBOL8 | code::LIST8 | code::MAP8, size, ref rest @ ..] => {
            rest.get(size as usize..)
        }
        [code::LIST32 | code::MAP32, a, b, c, d, ref rest @ ..] => {
            rest.get(u32::from_be_bytes([a, b, c, d]) as usize..)
        }
        [code::ULONG, ref rest @ ..] => rest.get(8..),
        [code::UUID, ref rest @ ..] => rest.get(16..),
        _ => None,
    }
}

/// One encoded value inside a message.
#[derive(Clone, Copy, Debug)]
pub struct Encoded<'a> {
    message: Bytes<'a>,
    pub span: Span,
}

impl<'a> Encoded<'a> {
    pub fn in_message(message: impl Into<Bytes<'a>>, span: Span) -> Encoded<'a> {
        Encoded { message: message.into(), span }
    }

    /// The bytes, where they lie in one piece.
    pub fn contiguous(&self) -> Option<&'a [u8]> {
        let mut cursor = Cursor::new(self.message);
        cursor.skip(self.span.start).ok()?;
        if cursor.at_end() {
            return self.span.is_empty().then_some(&[]);
        }
        cursor.piece.get(..self.span.len())
    }

    /// The bytes in one piece: where they are, or copied to `scratch`; an error where that is too small.
    pub fn bytes<'s>(&self, scratch: &'s mut [u8]) -> Result<&'s [u8], WireError>
    where
        'a: 's,
    {
        if let Some(bytes) = self.contiguous() {
            return Ok(bytes);
        }
        let scratch = scratch.get_mut(..self.span.len()).ok_or(WireError::BadSize)?;
        let mut cursor = Cursor::new(self.message);
        cursor.skip(self.span.start)?;
        cursor.copy(scratch)?;
        Ok(scratch)
    }

    pub fn value<'s>(&self, scratch: &'s mut [u8]) -> Result<Value<'s>, WireError>
    where
        'a: 's,
    {
        Reader::new(self.bytes(scratch)?).value()
    }

    /// A string; None: null.
    pub fn text<'s>(&self, scratch: &'s mut [u8]) -> Result<Option<&'s str>, WireError>
    where
        'a: 's,
    {
        match *self.bytes(scratch)? {
            [code::STRING8, _, ref text @ ..] | [code::STRING32, _, _, _, _, ref text @ ..] => utf8(text).map(Some),
            [code::NULL] => Ok(None),
            [constructor, ..] => Err(WireError::WrongType { field: "string", constructor }),
            [] => Err(WireError::Truncated),
        }
    }
}

/// Where the scan is: what is left of the current piece, the pieces behind it, and how far that is from the begin.
#[derive(Clone, Debug)]
pub(super) struct Cursor<'a> {
    piece: &'a [u8],
    more: &'a [Range],
    pub position: usize,
}

impl<'a> Cursor<'a> {
    pub fn new(message: Bytes<'a>) -> Cursor<'a> {
        match message {
            Bytes::Whole(bytes) => Cursor { piece: bytes, more: &[], position: 0 },
            Bytes::Pieces(more) => Cursor { piece: &[], more, position: 0 },
        }
    }

    /// Goes on to the next piece that has bytes; true where there is none.
    #[inline]
    pub fn at_end(&mut self) -> bool {
        while self.piece.is_empty() {
            let Some((first, more)) = self.more.split_first() else {
                return true;
            };
            (self.piece, self.more) = (first.as_slice(), more);
        }
        false
    }

    #[inline]
    fn byte(&mut self) -> Result<u8, WireError> {
        if self.at_end() {
            return Err(WireError::Truncated);
        }
        let byte = self.piece[0];
        self.piece = &self.piece[1..];
        self.position += 1;
        Ok(byte)
    }

    /// A size or count of one byte, or of four.
    #[inline]
    fn number(&mut self, wide: bool) -> Result<usize, WireError> {
        if !wide {
            return Ok(self.byte()?.into());
        }
        let mut bytes = [0; 4];
        self.copy(&mut bytes)?;
        Ok(u32::from_be_bytes(bytes) as usize)
    }

    fn copy(&mut self, to: &mut [u8]) -> Result<(), WireError> {
        let mut done = 0;
        while done < to.len() {
            if self.at_end() {
                return Err(WireError::Truncated);
            }
            let count = self.piece.len().min(to.len() - done);
            to[done..done + count].copy_from_slice(&self.piece[..count]);
            self.piece = &self.piece[count..];
            done += count;
        }
        self.position += done;
        Ok(())
    }

    #[inline]
    fn skip(&mut self, mut count: usize) -> Result<(), WireError> {
        self.position += count;
        loop {
            if count <= self.piece.len() {
                self.piece = &self.piece[count..];
                return Ok(());
            }
            count -= self.piece.len();
            self.piece = &[];
            if self.at_end() {
                return Err(WireError::Truncated);
            }
        }
    }

    /// Passes over one value; where its bytes end before it does, that is an error.
    pub fn skip_value(&mut self) -> Result<(), WireError> {
        // As a rule it lies in one piece.
        let mut reader = Reader::new(self.piece);
        if reader.skip().is_ok() {
            self.position += self.piece.len() - reader.rest().len();
            self.piece = reader.rest();
            return Ok(());
        }
        self.skip_split_value()
    }

    #[cold]
    fn skip_split_value(&mut self) -> Result<(), WireError> {
        let mut due = 1usize;
        loop {
            let constructor = self.byte()?;
            if constructor == code::DESCRIBED {
                due += 1;
                continue;
            }
            let size = match layout(constructor)? {
                Layout::Fixed(width) => width,
                Layout::Variable8 => self.number(false)?,
                Layout::Variable32 => self.number(true)?,
            };
            self.skip(size)?;
            due -= 1;
            if due == 0 {
                return Ok(());
            }
        }
    }

    /// The section of this code that began at `start`; its value comes next.
    #[inline]
    pub fn section_value(&mut self, code: u64, start: usize) -> Result<Section, WireError> {
        let value_start = self.position;
        self.skip_value()?;
        let end = self.position;
        Ok(Section { code, span: Span { start, end }, value: Span { start: value_start, end } })
    }

    /// A section's descriptor.
    #[inline]
    pub fn descriptor(&mut self) -> Result<u64, WireError> {
        if let [code::DESCRIBED, code::SMALL_ULONG, number, ref rest @ ..] = *self.piece {
            self.piece = rest;
            self.position += 3;
            return Ok(number.into());
        }
        self.other_descriptor()
    }

    #[cold]
    fn other_descriptor(&mut self) -> Result<u64, WireError> {
        const LONGEST: usize = 40;
        let wrong = Err(WireError::WrongDescriptor("message section"));
        if self.byte()? != code::DESCRIBED {
            return wrong;
        }
        match self.byte()? {
            code::SMALL_ULONG => Ok(self.byte()?.into()),
            code::ULONG => {
                let mut number = [0; 8];
                self.copy(&mut number)?;
                Ok(u64::from_be_bytes(number))
            }
            constructor @ (code::SYMBOL8 | code::SYMBOL32) => {
                let size = self.number(constructor == code::SYMBOL32)?;
                let mut symbol = [0; LONGEST];
                let Some(symbol) = symbol.get_mut(..size) else {
                    return wrong;
                };
                self.copy(symbol)?;
                descriptor::code_of_symbol(symbol).map_or(wrong, Ok)
            }
            _ => wrong,
        }
    }

    /// A list's header: bytes of its elements, and how many they are.
    fn list(&mut self) -> Result<(usize, usize), WireError> {
        if let [code::LIST8, size @ 1..=255, count, ref rest @ ..] = *self.piece {
            self.piece = rest;
            self.position += 3;
            return Ok((size as usize - 1, count as usize));
        }
        let (width, size, count) = match self.byte()? {
            code::LIST0 => return Ok((0, 0)),
            code::LIST8 => (1, self.number(false)?, self.number(false)?),
            code::LIST32 => (4, self.number(true)?, self.number(true)?),
            constructor => return Err(WireError::WrongType { field: "properties", constructor }),
        };
        Ok((size.checked_sub(width).ok_or(WireError::BadSize)?, count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// header, message-annotations, properties (to = "amqp:/q", reply-to null), a body of two data sections.
    const MESSAGE: &[u8] = b"\x00\x53\x70\xc0\x02\x01\x41\
        \x00\xa3\x1camqp:message-annotations:map\xc1\x07\x02\xa3\x01k\xa1\x01v\
        \x00\x53\x73\xc0\x10\x06\x43\x40\xa1\x07amqp:/q\x40\x40\x52\x09\
        \x00\x53\x75\xa0\x02hi\x00\x53\x75\xa0\x00";

    fn split(bytes: &[u8], at: &[usize]) -> Payload {
        let mut payload = Payload::new();
        let mut from = 0;
        for &to in at.iter().chain([&bytes.len()]) {
            payload.push(Range::copied(&bytes[from..to]));
            from = to;
        }
        payload
    }

    #[test]
    fn sections_and_properties_are_found_wherever_the_pieces_part() {
        let whole = Head::scan(MESSAGE).unwrap();
        assert_eq!(whole.header.map(|section| section.span), Some(Span { start: 0, end: 7 }));
        assert_eq!(whole.bare, 7 + 3 + 28 + 9);
        assert_eq!(whole.properties.map(|section| section.span.end), Some(whole.body));
        assert_eq!(&MESSAGE[whole.body..whole.body + 3], b"\x00\x53\x75");
        for first in 0..MESSAGE.len() {
            for second in first..MESSAGE.len() {
                let payload = split(MESSAGE, &[first, second]);
                assert_eq!(Head::scan(&payload), Ok(whole));
                assert_eq!(to(&payload, &mut [0; 16]), Ok(Some("amqp:/q")));
                let codes: Vec<u64> = Sections::new(&payload).map(|section| section.unwrap().code).collect();
                assert_eq!(codes, [0x70, 0x72, 0x73, 0x75, 0x75]);
            }
        }
    }

    #[test]
    fn properties_are_read_by_name() {
        let properties = Properties::find(MESSAGE).unwrap().unwrap();
        let mut scratch = [];
        assert_eq!(properties.get(Property::To).unwrap().text(&mut scratch), Ok(Some("amqp:/q")));
        assert_eq!(properties.get(Property::ReplyTo).unwrap().text(&mut scratch), Ok(None));
        assert_eq!(properties.get(Property::CorrelationId).unwrap().value(&mut scratch), Ok(Value::Uint(9)));
        assert!(properties.get(Property::GroupId).is_none());
    }

    #[test]
    fn what_has_not_arrived_is_truncated() {
        let to_end = Head::scan(MESSAGE).unwrap().body;
        for cut in 1..to_end {
            let scan = Head::scan(&MESSAGE[..cut]);
            assert!(scan == Err(WireError::Truncated) || scan.is_ok_and(|head| head.body == cut), "{cut}");
        }
        // Behind `to`, what follows in the properties need not be there.
        assert_eq!(to(&MESSAGE[..to_end - 4], &mut []), Ok(Some("amqp:/q")));
        assert_eq!(to(&MESSAGE[..to_end - 5], &mut []), Err(WireError::Truncated));
        assert_eq!(to(&[][..], &mut []), Ok(None));
        assert_eq!(to(b"\x00\x53\x77\x40".as_slice(), &mut []), Ok(None));
    }

    #[test]
    fn a_split_address_longer_than_the_scratch_is_refused() {
        let payload = split(MESSAGE, &[MESSAGE.len() - 18]);
        assert_eq!(to(&payload, &mut [0; 4]), Err(WireError::BadSize));
        assert_eq!(to(&payload, &mut [0; 9]), Ok(Some("amqp:/q")));
    }
}
