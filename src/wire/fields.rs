//! The fields of a described list (section 1.4), in order: read one by one, written one by one. And [`Symbols`], the
//! value of the fields that may hold several symbols.

use super::error::Error;
use super::value::{ascii, code, utf8, Array, List, Reader, Value};
use super::{descriptor, encode, WireError};

/// Reads a descriptor, number or symbol. None: one that the specification doesn't have.
pub(super) fn read_descriptor(reader: &mut Reader<'_>) -> Result<Option<u64>, WireError> {
    match *reader.rest() {
        [code::DESCRIBED, code::SMALL_ULONG, number, ..] => {
            reader.bytes(3)?;
            Ok(Some(number.into()))
        }
        _ => read_other_descriptor(reader),
    }
}

#[cold]
fn read_other_descriptor(reader: &mut Reader<'_>) -> Result<Option<u64>, WireError> {
    match reader.byte()? {
        code::DESCRIBED => {}
        constructor => return Err(WireError::WrongType { field: "descriptor", constructor }),
    }
    Ok(match Reader::new(reader.raw()?).value()? {
        Value::Ulong(number) => Some(number),
        Value::Symbol(symbol) => descriptor::code_of_symbol(symbol.as_bytes()),
        _ => None,
    })
}

/// Reads a descriptor that must be `due`.
pub(super) fn expect_descriptor(reader: &mut Reader<'_>, due: u64, name: &'static str) -> Result<(), WireError> {
    match read_descriptor(reader)? {
        Some(number) if number == due => Ok(()),
        _ => Err(WireError::WrongDescriptor(name)),
    }
}

/// A list's fields, read in order. A field behind the last one sent reads as absent, like a null.
pub(super) struct Fields<'a> {
    rest: &'a [u8],
    count: u32,
    /// Fields read so far.
    index: u32,
}

#[cold]
#[inline(never)]
fn wrong_type(field: &'static str, rest: &[u8]) -> WireError {
    match rest.first() {
        // A right constructor with too few bytes behind it ends up here as well.
        Some(&constructor) if Reader::new(rest).skip() != Err(WireError::Truncated) => {
            WireError::WrongType { field, constructor }
        }
        _ => WireError::Truncated,
    }
}

impl<'a> Fields<'a> {
    /// Reads a list's constructor, size and count.
    pub fn open(reader: &mut Reader<'a>, name: &'static str) -> Result<Fields<'a>, WireError> {
        let (count, rest) = match reader.byte()? {
            code::LIST8 => reader.compound(false)?,
            code::LIST32 => reader.compound(true)?,
            code::LIST0 => (0, &[][..]),
            constructor => return Err(WireError::WrongType { field: name, constructor }),
        };
        Ok(Fields { rest, count, index: 0 })
    }

    /// Opens a whole described list.
    pub fn of(raw: &'a [u8], due: u64, name: &'static str) -> Result<Fields<'a>, WireError> {
        let mut reader = Reader::new(raw);
        expect_descriptor(&mut reader, due, name)?;
        let fields = Fields::open(&mut reader, name)?;
        if !reader.is_empty() {
            return Err(WireError::BadSize);
        }
        Ok(fields)
    }

    pub fn at_end(&self) -> bool {
        self.count <= self.index
    }

    /// Every field was read: nothing may be left, of fields or of bytes.
    pub fn finish(self, name: &'static str) -> Result<(), WireError> {
        if self.count > self.index {
            return Err(WireError::TooManyFields(name));
        }
        if !self.rest.is_empty() {
            return Err(WireError::BadSize);
        }
        Ok(())
    }

    /// Goes on to the next field; false where none was sent.
    fn next(&mut self) -> bool {
        let index = self.index;
        self.index += 1;
        self.count > index
    }

    /// Goes on to the next field; false where none was sent, or a null.
    fn next_value(&mut self) -> bool {
        if !self.next() {
            return false;
        }
        match *self.rest {
            [code::NULL, ref rest @ ..] => {
                self.rest = rest;
                false
            }
            _ => true,
        }
    }

    pub fn uint(&mut self, field: &'static str) -> Result<Option<u32>, WireError> {
        if !self.next() {
            return Ok(None);
        }
        let (value, rest) = match *self.rest {
            [code::UINT, a, b, c, d, ref rest @ ..] => (Some(u32::from_be_bytes([a, b, c, d])), rest),
            [code::SMALL_UINT, value, ref rest @ ..] => (Some(value.into()), rest),
            [code::UINT0, ref rest @ ..] => (Some(0), rest),
            [code::NULL, ref rest @ ..] => (None, rest),
            ref other => return Err(wrong_type(field, other)),
        };
        self.rest = rest;
        Ok(value)
    }

    pub fn boolean(&mut self, field: &'static str) -> Result<Option<bool>, WireError> {
        if !self.next() {
            return Ok(None);
        }
        let (value, rest) = match *self.rest {
            [code::TRUE, ref rest @ ..] => (Some(true), rest),
            [code::FALSE, ref rest @ ..] => (Some(false), rest),
            [code::NULL, ref rest @ ..] => (None, rest),
            [code::BOOLEAN, value @ 0..=1, ref rest @ ..] => (Some(value == 1), rest),
            ref other => return Err(wrong_type(field, other)),
        };
        self.rest = rest;
        Ok(value)
    }

    pub fn ubyte(&mut self, field: &'static str) -> Result<Option<u8>, WireError> {
        if !self.next_value() {
            return Ok(None);
        }
        match *self.rest {
            [code::UBYTE, value, ref rest @ ..] => {
                self.rest = rest;
                Ok(Some(value))
            }
            ref other => Err(wrong_type(field, other)),
        }
    }

    pub fn ushort(&mut self, field: &'static str) -> Result<Option<u16>, WireError> {
        if !self.next_value() {
            return Ok(None);
        }
        match *self.rest {
            [code::USHORT, a, b, ref rest @ ..] => {
                self.rest = rest;
                Ok(Some(u16::from_be_bytes([a, b])))
            }
            ref other => Err(wrong_type(field, other)),
        }
    }

    pub fn ulong(&mut self, field: &'static str) -> Result<Option<u64>, WireError> {
        if !self.next_value() {
            return Ok(None);
        }
        let mut reader = Reader::new(self.rest);
        match reader.value()? {
            Value::Ulong(value) => {
                self.rest = reader.rest();
                Ok(Some(value))
            }
            _ => Err(wrong_type(field, self.rest)),
        }
    }

    /// A variable-width value of the given narrow constructor, or the wide one.
    fn variable(&mut self, narrow: u8, field: &'static str) -> Result<Option<&'a [u8]>, WireError> {
        if !self.next_value() {
            return Ok(None);
        }
        let (size, rest) = match *self.rest {
            [constructor, size, ref rest @ ..] if constructor == narrow => (size as usize, rest),
            [constructor, a, b, c, d, ref rest @ ..] if constructor == narrow + 0x10 => {
                (u32::from_be_bytes([a, b, c, d]) as usize, rest)
            }
            ref other => return Err(wrong_type(field, other)),
        };
        let (value, rest) = rest.split_at_checked(size).ok_or(WireError::Truncated)?;
        self.rest = rest;
        Ok(Some(value))
    }

    pub fn binary(&mut self, field: &'static str) -> Result<Option<&'a [u8]>, WireError> {
        self.variable(code::BINARY8, field)
    }

    pub fn string(&mut self, field: &'static str) -> Result<Option<&'a str>, WireError> {
        self.variable(code::STRING8, field)?.map(utf8).transpose()
    }

    pub fn symbol(&mut self, field: &'static str) -> Result<Option<&'a str>, WireError> {
        self.variable(code::SYMBOL8, field)?.map(ascii).transpose()
    }

    #[cold]
    fn checked(&mut self) -> Result<&'a [u8], WireError> {
        let mut reader = Reader::new(self.rest);
        let raw = reader.checked()?;
        self.rest = reader.rest();
        Ok(raw)
    }

    /// A described value, checked through and kept as it is.
    pub fn described(&mut self, field: &'static str) -> Result<Option<&'a [u8]>, WireError> {
        if !self.next_value() {
            return Ok(None);
        }
        match *self.rest {
            // A state without fields, the usual one.
            [code::DESCRIBED, code::SMALL_ULONG, _, code::LIST0, ref rest @ ..] => {
                let state = &self.rest[..4];
                self.rest = rest;
                Ok(Some(state))
            }
            [code::DESCRIBED, ..] => self.checked().map(Some),
            ref other => Err(wrong_type(field, other)),
        }
    }

    /// A map, checked through and kept as it is.
    pub fn map(&mut self, field: &'static str) -> Result<Option<&'a [u8]>, WireError> {
        if !self.next_value() {
            return Ok(None);
        }
        match self.rest.first() {
            Some(&(code::MAP8 | code::MAP32)) => self.checked().map(Some),
            _ => Err(wrong_type(field, self.rest)),
        }
    }

    /// One symbol, an array of them, or a list of them: python-proton sends that where it was given a list.
    pub fn symbols(&mut self, field: &'static str) -> Result<Symbols<'a>, WireError> {
        if !self.next_value() {
            return Ok(Symbols::NONE);
        }
        let start = self.rest;
        let raw = self.checked()?;
        Symbols::parse(raw).ok_or_else(|| wrong_type(field, start))
    }
}

/// The value of a field that may hold several symbols: none, one, an array or a list. For encoding it can be
/// made of names.
#[derive(Clone, Copy, Default)]
pub struct Symbols<'a>(Source<'a>);

#[derive(Clone, Copy, Default)]
enum Source<'a> {
    #[default]
    None,
    One(&'a str),
    Array(Array<'a>),
    List(List<'a>),
    Names(&'a [&'a str]),
}

impl<'a> Symbols<'a> {
    pub const NONE: Symbols<'static> = Symbols(Source::None);

    pub const fn names(names: &'a [&'a str]) -> Symbols<'a> {
        Symbols(Source::Names(names))
    }

    /// Of a whole value that was checked; None where it is something else.
    fn parse(raw: &'a [u8]) -> Option<Symbols<'a>> {
        match Reader::new(raw).value().ok()? {
            Value::Symbol(symbol) => Some(Symbols(Source::One(symbol))),
            Value::Array(array)
                if array.descriptor.is_empty() && matches!(array.constructor, code::SYMBOL8 | code::SYMBOL32) =>
            {
                Some(Symbols(Source::Array(array)))
            }
            Value::List(list) if list.iter().all(|element| matches!(element, Ok(Value::Symbol(_)))) => {
                Some(Symbols(Source::List(list)))
            }
            _ => None,
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = &'a str> + Clone {
        let (one, array, names): (_, _, &[&str]) = match self.0 {
            Source::None => (None, None, &[]),
            Source::One(symbol) => (Some(symbol), None, &[]),
            Source::Array(array) => (None, Some(array.iter()), &[]),
            Source::List(list) => (None, Some(list.iter()), &[]),
            Source::Names(names) => (None, None, names),
        };
        let elements = array.into_iter().flatten().map_while(|element| match element {
            Ok(Value::Symbol(symbol)) => Some(symbol),
            _ => None,
        });
        one.into_iter().chain(elements).chain(names.iter().copied())
    }

    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    pub fn contains(&self, name: &str) -> bool {
        self.iter().any(|symbol| symbol == name)
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        encode::symbols(out, self.iter());
    }
}

impl PartialEq for Symbols<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Symbols<'_> {}

impl std::fmt::Debug for Symbols<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Writes a described list's fields, and at its end leaves trailing nulls out.
pub(super) struct FieldsWriter<'v> {
    out: &'v mut Vec<u8>,
    compound: encode::Compound,
    count: u32,
    /// Fields, and bytes, up to the last that is not null.
    kept: (u32, usize),
}

impl<'v> FieldsWriter<'v> {
    pub fn new(out: &'v mut Vec<u8>, descriptor: u64) -> FieldsWriter<'v> {
        encode::descriptor(out, descriptor);
        let compound = encode::begin(out);
        let kept = (0, out.len());
        FieldsWriter { out, compound, count: 0, kept }
    }

    /// One field: null, or what `write` writes.
    fn field<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Vec<u8>, T)) {
        self.count += 1;
        match value {
            None => encode::null(self.out),
            Some(value) => {
                write(self.out, value);
                self.kept = (self.count, self.out.len());
            }
        }
    }

    pub fn uint(&mut self, value: Option<u32>) {
        self.field(value, encode::uint);
    }

    pub fn ulong(&mut self, value: Option<u64>) {
        self.field(value, encode::ulong);
    }

    pub fn ushort(&mut self, value: Option<u16>) {
        self.field(value, encode::ushort);
    }

    pub fn ubyte(&mut self, value: Option<u8>) {
        self.field(value, encode::ubyte);
    }

    pub fn boolean(&mut self, value: Option<bool>) {
        self.field(value, encode::boolean);
    }

    /// A boolean whose default is false.
    pub fn flag(&mut self, value: bool) {
        self.field(value.then_some(true), encode::boolean);
    }

    pub fn binary(&mut self, value: Option<&[u8]>) {
        self.field(value, encode::binary);
    }

    pub fn string(&mut self, value: Option<&str>) {
        self.field(value, encode::string);
    }

    pub fn symbol(&mut self, value: Option<&str>) {
        self.field(value, encode::symbol);
    }

    pub fn symbols(&mut self, value: &Symbols<'_>) {
        self.field((!value.is_empty()).then_some(value), |out, value| value.encode(out));
    }

    /// A value that is encoded already.
    pub fn raw(&mut self, value: Option<&[u8]>) {
        self.field(value, |out, value| out.extend_from_slice(value));
    }

    pub fn error(&mut self, value: Option<&Error<'_>>) {
        self.field(value, |out, error| error.encode(out));
    }

    pub fn finish(self) {
        let (count, len) = self.kept;
        self.out.truncate(len);
        encode::finish(self.out, self.compound, code::LIST8, count);
    }
}
