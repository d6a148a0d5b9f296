//! AMQP's type system (part 1): constructors, a reader that cuts values out of bytes, and [`Value`], any of them,
//! borrowed. The performatives' own decoders don't come through `Value`.

use super::WireError;

/// How deep values may nest: descriptors, lists, maps and arrays each count one.
pub const DEPTH_MAX: u32 = 32;

/// Elements that take no bytes (null, true, an empty list, …) can be claimed in any number by an array; nobody needs more.
pub const ZERO_WIDTH_ELEMENTS_MAX: u32 = 4096;

/// Constructors (section 1.6).
pub mod code {
    pub const DESCRIBED: u8 = 0x00;
    pub const NULL: u8 = 0x40;
    pub const TRUE: u8 = 0x41;
    pub const FALSE: u8 = 0x42;
    pub const UINT0: u8 = 0x43;
    pub const ULONG0: u8 = 0x44;
    pub const LIST0: u8 = 0x45;
    pub const UBYTE: u8 = 0x50;
    pub const BYTE: u8 = 0x51;
    pub const SMALL_UINT: u8 = 0x52;
    pub const SMALL_ULONG: u8 = 0x53;
    pub const SMALL_INT: u8 = 0x54;
    pub const SMALL_LONG: u8 = 0x55;
    pub const BOOLEAN: u8 = 0x56;
    pub const USHORT: u8 = 0x60;
    pub const SHORT: u8 = 0x61;
    pub const UINT: u8 = 0x70;
    pub const INT: u8 = 0x71;
    pub const FLOAT: u8 = 0x72;
    pub const CHAR: u8 = 0x73;
    pub const DECIMAL32: u8 = 0x74;
    pub const ULONG: u8 = 0x80;
    pub const LONG: u8 = 0x81;
    pub const DOUBLE: u8 = 0x82;
    pub const TIMESTAMP: u8 = 0x83;
    pub const DECIMAL64: u8 = 0x84;
    pub const DECIMAL128: u8 = 0x94;
    pub const UUID: u8 = 0x98;
    pub const BINARY8: u8 = 0xa0;
    pub const STRING8: u8 = 0xa1;
    pub const SYMBOL8: u8 = 0xa3;
    pub const BINARY32: u8 = 0xb0;
    pub const STRING32: u8 = 0xb1;
    pub const SYMBOL32: u8 = 0xb3;
    pub const LIST8: u8 = 0xc0;
    pub const MAP8: u8 = 0xc1;
    pub const LIST32: u8 = 0xd0;
    pub const MAP32: u8 = 0xd1;
    pub const ARRAY8: u8 = 0xe0;
    pub const ARRAY32: u8 = 0xf0;
}

/// Any value. Floats compare by number (NaN differs from itself), decimals are kept as their bytes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Value<'a> {
    Null,
    Boolean(bool),
    Ubyte(u8),
    Ushort(u16),
    Uint(u32),
    Ulong(u64),
    Byte(i8),
    Short(i16),
    Int(i32),
    Long(i64),
    Float(f32),
    Double(f64),
    Decimal32([u8; 4]),
    Decimal64([u8; 8]),
    Decimal128([u8; 16]),
    Char(char),
    /// Milliseconds since 1970 (UTC).
    Timestamp(i64),
    Uuid([u8; 16]),
    Binary(&'a [u8]),
    String(&'a str),
    Symbol(&'a str),
    List(List<'a>),
    Map(Map<'a>),
    Array(Array<'a>),
    Described(Described<'a>),
}

/// A list: its elements one behind another.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct List<'a> {
    pub count: u32,
    pub body: &'a [u8],
}

/// A map: keys and values by turns; `count` counts both, so it is even.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Map<'a> {
    pub count: u32,
    pub body: &'a [u8],
}

/// An array: one constructor for all elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Array<'a> {
    pub count: u32,
    /// The elements' descriptor, a whole value; empty where they have none.
    pub descriptor: &'a [u8],
    /// The elements' constructor, never `DESCRIBED`.
    pub constructor: u8,
    pub body: &'a [u8],
}

/// A described value: `descriptor` is a whole value, what it describes is apart in constructor and body since an
/// array's elements share their constructor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Described<'a> {
    pub descriptor: &'a [u8],
    pub constructor: u8,
    pub body: &'a [u8],
}

/// Elements of a list, a map (by turns) or an array. After an error it ends.
#[derive(Clone, Debug)]
pub struct Elements<'a> {
    left: u32,
    reader: Reader<'a>,
    /// Of an array: what each element has.
    shared: Option<(&'a [u8], u8)>,
}

impl<'a> List<'a> {
    pub fn iter(&self) -> Elements<'a> {
        Elements { left: self.count, reader: Reader::new(self.body), shared: None }
    }
}

impl<'a> Map<'a> {
    /// Reads a whole value that must be a map.
    pub fn parse(raw: &'a [u8]) -> Result<Map<'a>, WireError> {
        match Reader::new(raw).value()? {
            Value::Map(map) => Ok(map),
            _ => Err(WireError::WrongType { field: "map", constructor: raw.first().copied().unwrap_or_default() }),
        }
    }

    /// Key, value, key, value.
    pub fn elements(&self) -> Elements<'a> {
        Elements { left: self.count, reader: Reader::new(self.body), shared: None }
    }

    pub fn iter(&self) -> impl Iterator<Item = Result<(Value<'a>, Value<'a>), WireError>> {
        let mut elements = self.elements();
        std::iter::from_fn(move || match (elements.next()?, elements.next()) {
            (Ok(key), Some(Ok(value))) => Some(Ok((key, value))),
            (Err(error), _) | (_, Some(Err(error))) => Some(Err(error)),
            (Ok(_), None) => Some(Err(WireError::BadSize)),
        })
    }

    /// The value of a symbol (or string) key.
    pub fn get(&self, name: &str) -> Option<Value<'a>> {
        self.iter().map_while(Result::ok).find_map(|(key, value)| match key {
            Value::Symbol(key) | Value::String(key) if key == name => Some(value),
            _ => None,
        })
    }
}

impl<'a> Array<'a> {
    pub fn iter(&self) -> Elements<'a> {
        Elements { left: self.count, reader: Reader::new(self.body), shared: Some((self.descriptor, self.constructor)) }
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = Result<Value<'a>, WireError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            // Bytes behind the last element belong to nothing.
            let spare = !self.reader.is_empty();
            self.reader = Reader::new(&[]);
            return spare.then_some(Err(WireError::BadSize));
        }
        self.left -= 1;
        let value = match self.shared {
            None => self.reader.value(),
            Some((&[], constructor)) => self.reader.body(constructor),
            Some((descriptor, constructor)) => {
                let start = self.reader.rest();
                self.reader.skip_body(constructor).map(|()| {
                    let body = &start[..start.len() - self.reader.rest().len()];
                    Value::Described(Described { descriptor, constructor, body })
                })
            }
        };
        if value.is_err() {
            self.left = 0;
            self.reader = Reader::new(&[]);
        }
        Some(value)
    }
}

impl<'a> Described<'a> {
    pub fn descriptor(&self) -> Result<Value<'a>, WireError> {
        Reader::new(self.descriptor).value()
    }

    /// The descriptor's numeric code, looked up where it is one of the specification's symbols.
    pub fn code(&self) -> Option<u64> {
        match self.descriptor() {
            Ok(Value::Ulong(code)) => Some(code),
            Ok(Value::Symbol(symbol)) => super::descriptor::code_of_symbol(symbol.as_bytes()),
            _ => None,
        }
    }

    pub fn value(&self) -> Result<Value<'a>, WireError> {
        Reader::new(self.body).body(self.constructor)
    }
}

/// Cuts values off the front of some bytes.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

/// What the constructor says of the bytes behind it: its high four bits are the layout (section 1.2).
pub(super) enum Layout {
    Fixed(usize),
    Variable8,
    Variable32,
}

pub(super) fn layout(constructor: u8) -> Result<Layout, WireError> {
    Ok(match constructor {
        0x40..=0x45 => Layout::Fixed(0),
        0x50..=0x56 => Layout::Fixed(1),
        0x60 | 0x61 => Layout::Fixed(2),
        0x70..=0x74 => Layout::Fixed(4),
        0x80..=0x84 => Layout::Fixed(8),
        code::DECIMAL128 | code::UUID => Layout::Fixed(16),
        code::BINARY8 | code::STRING8 | code::SYMBOL8 | code::LIST8 | code::MAP8 | code::ARRAY8 => Layout::Variable8,
        code::BINARY32 | code::STRING32 | code::SYMBOL32 | code::LIST32 | code::MAP32 | code::ARRAY32 => {
            Layout::Variable32
        }
        _ => return Err(WireError::BadConstructor(constructor)),
    })
}

impl<'a> Reader<'a> {
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { rest: bytes }
    }

    /// What has not been read yet.
    #[inline]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    #[inline]
    pub fn byte(&mut self) -> Result<u8, WireError> {
        let (&first, rest) = self.rest.split_first().ok_or(WireError::Truncated)?;
        self.rest = rest;
        Ok(first)
    }

    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let (&first, rest) = self.rest.split_first_chunk::<N>().ok_or(WireError::Truncated)?;
        self.rest = rest;
        Ok(first)
    }

    #[inline]
    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8], WireError> {
        let (first, rest) = self.rest.split_at_checked(count).ok_or(WireError::Truncated)?;
        self.rest = rest;
        Ok(first)
    }

    /// The bytes behind a size of one byte, or of four.
    #[inline]
    fn sized(&mut self, wide: bool) -> Result<&'a [u8], WireError> {
        let size = match wide {
            false => self.byte()? as usize,
            true => u32::from_be_bytes(self.array()?) as usize,
        };
        self.bytes(size)
    }

    /// Size and count of a list, map or array, then what the size covers behind the count.
    #[inline]
    pub(super) fn compound(&mut self, wide: bool) -> Result<(u32, &'a [u8]), WireError> {
        let mut inner = Reader::new(self.sized(wide)?);
        let count = match wide {
            false => inner.byte().map(u32::from),
            true => inner.array().map(u32::from_be_bytes),
        };
        Ok((count.map_err(|_| WireError::BadSize)?, inner.rest))
    }

    /// One value. Of compound values only the outermost layer is looked at.
    pub fn value(&mut self) -> Result<Value<'a>, WireError> {
        let constructor = self.byte()?;
        self.body(constructor)
    }

    /// One value whose constructor was already read.
    pub(super) fn body(&mut self, constructor: u8) -> Result<Value<'a>, WireError> {
        Ok(match constructor {
            code::DESCRIBED => {
                let descriptor = self.raw()?;
                let constructor = self.byte()?;
                let start = self.rest;
                self.skip_body(constructor)?;
                let body = &start[..start.len() - self.rest.len()];
                Value::Described(Described { descriptor, constructor, body })
            }
            code::NULL => Value::Null,
            code::TRUE => Value::Boolean(true),
            code::FALSE => Value::Boolean(false),
            code::BOOLEAN => match self.byte()? {
                0 => Value::Boolean(false),
                1 => Value::Boolean(true),
                _ => return Err(WireError::BadValue("boolean")),
            },
            code::UINT0 => Value::Uint(0),
            code::SMALL_UINT => Value::Uint(self.byte()?.into()),
            code::UINT => Value::Uint(u32::from_be_bytes(self.array()?)),
            code::ULONG0 => Value::Ulong(0),
            code::SMALL_ULONG => Value::Ulong(self.byte()?.into()),
            code::ULONG => Value::Ulong(u64::from_be_bytes(self.array()?)),
            code::UBYTE => Value::Ubyte(self.byte()?),
            code::USHORT => Value::Ushort(u16::from_be_bytes(self.array()?)),
            code::BYTE => Value::Byte(self.byte()? as i8),
            code::SHORT => Value::Short(i16::from_be_bytes(self.array()?)),
            code::SMALL_INT => Value::Int((self.byte()? as i8).into()),
            code::INT => Value::Int(i32::from_be_bytes(self.array()?)),
            code::SMALL_LONG => Value::Long((self.byte()? as i8).into()),
            code::LONG => Value::Long(i64::from_be_bytes(self.array()?)),
            code::FLOAT => Value::Float(f32::from_be_bytes(self.array()?)),
            code::DOUBLE => Value::Double(f64::from_be_bytes(self.array()?)),
            code::DECIMAL32 => Value::Decimal32(self.array()?),
            code::DECIMAL64 => Value::Decimal64(self.array()?),
            code::DECIMAL128 => Value::Decimal128(self.array()?),
            code::CHAR => {
                let scalar = u32::from_be_bytes(self.array()?);
                Value::Char(char::from_u32(scalar).ok_or(WireError::BadValue("char"))?)
            }
            code::TIMESTAMP => Value::Timestamp(i64::from_be_bytes(self.array()?)),
            code::UUID => Value::Uuid(self.array()?),
            code::BINARY8 | code::BINARY32 => Value::Binary(self.sized(constructor == code::BINARY32)?),
            code::STRING8 | code::STRING32 => Value::String(utf8(self.sized(constructor == code::STRING32)?)?),
            code::SYMBOL8 | code::SYMBOL32 => Value::Symbol(ascii(self.sized(constructor == code::SYMBOL32)?)?),
            code::LIST0 => Value::List(List::default()),
            code::LIST8 | code::LIST32 => {
                let (count, body) = self.compound(constructor == code::LIST32)?;
                fits(count, body)?;
                Value::List(List { count, body })
            }
            code::MAP8 | code::MAP32 => {
                let (count, body) = self.compound(constructor == code::MAP32)?;
                fits(count, body)?;
                if count % 2 != 0 {
                    return Err(WireError::BadSize);
                }
                Value::Map(Map { count, body })
            }
            code::ARRAY8 | code::ARRAY32 => {
                let (count, body) = self.compound(constructor == code::ARRAY32)?;
                Value::Array(array(count, body)?)
            }
            _ => return Err(WireError::BadConstructor(constructor)),
        })
    }

    /// Passes over one value, trusting its sizes.
    pub fn skip(&mut self) -> Result<(), WireError> {
        let constructor = self.byte()?;
        self.skip_body(constructor)
    }

    fn skip_body(&mut self, mut constructor: u8) -> Result<(), WireError> {
        // A descriptor can be described itself, so one value is a row of bodies.
        let mut due = 1usize;
        loop {
            if constructor == code::DESCRIBED {
                due += 1;
            } else {
                match layout(constructor)? {
                    Layout::Fixed(width) => self.bytes(width)?,
                    Layout::Variable8 => self.sized(false)?,
                    Layout::Variable32 => self.sized(true)?,
                };
                due -= 1;
                if due == 0 {
                    return Ok(());
                }
            }
            constructor = self.byte()?;
        }
    }

    /// The bytes of one value, trusting its sizes.
    pub fn raw(&mut self) -> Result<&'a [u8], WireError> {
        let start = self.rest;
        self.skip()?;
        Ok(&start[..start.len() - self.rest.len()])
    }

    /// The bytes of one value, checked to its innermost element.
    pub fn checked(&mut self) -> Result<&'a [u8], WireError> {
        let start = self.rest;
        self.check(DEPTH_MAX)?;
        Ok(&start[..start.len() - self.rest.len()])
    }

    fn check(&mut self, depth: u32) -> Result<(), WireError> {
        let constructor = self.byte()?;
        self.check_body(constructor, depth)
    }

    fn check_body(&mut self, constructor: u8, depth: u32) -> Result<(), WireError> {
        if constructor == code::DESCRIBED {
            let depth = depth.checked_sub(1).ok_or(WireError::TooDeep)?;
            self.check(depth)?;
            return self.check(depth);
        }
        match self.body(constructor)? {
            Value::List(List { count, body }) | Value::Map(Map { count, body }) => {
                let depth = depth.checked_sub(1).ok_or(WireError::TooDeep)?;
                let mut inner = Reader::new(body);
                for _ in 0..count {
                    inner.check(depth)?;
                }
                inner.end()
            }
            Value::Array(array) => {
                let depth = depth.checked_sub(1).ok_or(WireError::TooDeep)?;
                if !array.descriptor.is_empty() {
                    Reader::new(array.descriptor).check(depth)?;
                }
                // The count was held against the width; a boolean or a char still has values that are none.
                if matches!(layout(array.constructor)?, Layout::Fixed(_))
                    && !matches!(array.constructor, code::BOOLEAN | code::CHAR)
                {
                    return Ok(());
                }
                let mut inner = Reader::new(array.body);
                for _ in 0..array.count {
                    inner.check_body(array.constructor, depth)?;
                }
                inner.end()
            }
            _ => Ok(()),
        }
    }

    fn end(&self) -> Result<(), WireError> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(WireError::BadSize)
        }
    }
}

/// Each element takes at least its constructor.
#[inline]
fn fits(count: u32, body: &[u8]) -> Result<(), WireError> {
    if count as usize <= body.len() {
        Ok(())
    } else {
        Err(WireError::BadSize)
    }
}

/// What lies behind an array's count: the elements' constructor, then the elements.
fn array(count: u32, bytes: &[u8]) -> Result<Array<'_>, WireError> {
    let mut reader = Reader::new(bytes);
    let mut constructor = reader.byte()?;
    let mut descriptor: &[u8] = &[];
    if constructor == code::DESCRIBED {
        descriptor = reader.raw()?;
        constructor = reader.byte()?;
    }
    let body = reader.rest;
    let right = match layout(constructor)? {
        Layout::Fixed(0) => body.is_empty() && count <= ZERO_WIDTH_ELEMENTS_MAX,
        Layout::Fixed(width) => body.len() as u64 == count as u64 * width as u64,
        // Each has its size at least.
        Layout::Variable8 => count as usize <= body.len(),
        Layout::Variable32 => count as u64 * 4 <= body.len() as u64,
    };
    if !right {
        return Err(WireError::BadSize);
    }
    Ok(Array { count, descriptor, constructor, body })
}

#[inline]
pub(super) fn utf8(bytes: &[u8]) -> Result<&str, WireError> {
    std::str::from_utf8(bytes).map_err(|_| WireError::BadValue("string"))
}

#[inline]
pub(super) fn ascii(bytes: &[u8]) -> Result<&str, WireError> {
    if !bytes.is_ascii() {
        return Err(WireError::BadValue("symbol"));
    }
    utf8(bytes)
}
