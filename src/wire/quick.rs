//! The quick way through the hot performatives: it takes the usual encodings and gives up on anything else, errors
//! included, with None; the caller then reads the same bytes again with [`super::fields`]. What both can read they
//! read alike, which a property test and the fuzzer hold.
//!
//! So there is one exit besides the good one, and what is live is where the bytes are, how many fields there are, and the
//! struct to fill. That struct starts as its default, which is what an absent field and a null leave in it.

use super::value::code;

/// A list's fields, read in order.
pub(super) struct Quick<'a> {
    rest: &'a [u8],
    count: u8,
}

impl<'a> Quick<'a> {
    /// Opens the described list at the begin of `body`, whose descriptor is known to be a smallulong. Gives the list's end.
    #[inline(always)]
    pub fn open(body: &'a [u8]) -> Option<(Quick<'a>, usize)> {
        if let [_, _, _, code::LIST8, size, count, ref rest @ ..] = *body {
            let rest = rest.get(..(size as usize).checked_sub(1)?)?;
            return Some((Quick { rest, count }, 5 + size as usize));
        }
        Self::open_wide(body)
    }

    /// A list32, which rhea writes always.
    #[inline(never)]
    fn open_wide(body: &'a [u8]) -> Option<(Quick<'a>, usize)> {
        let [_, _, _, code::LIST32, a, b, c, d, 0, 0, 0, count, ref rest @ ..] = *body else {
            return None;
        };
        let size = u32::from_be_bytes([a, b, c, d]) as usize;
        let rest = rest.get(..size.checked_sub(4)?)?;
        Some((Quick { rest, count }, 8 + size))
    }

    /// Bytes that were not read.
    #[inline(always)]
    pub fn left(&self) -> usize {
        self.rest.len()
    }

    /// Whether the field of this index was sent.
    #[inline(always)]
    pub fn has(&self, index: u8) -> bool {
        self.count > index
    }

    /// Every byte was read, and no more than `fields` fields were sent.
    #[inline(always)]
    pub fn finish(self, fields: u8) -> Option<()> {
        (self.count <= fields && self.rest.is_empty()).then_some(())
    }

    /// A uint that may be null.
    #[inline(always)]
    pub fn optional_uint(&mut self, to: &mut Option<u32>) -> Option<()> {
        let (value, rest) = match *self.rest {
            [code::UINT, a, b, c, d, ref rest @ ..] => (u32::from_be_bytes([a, b, c, d]), rest),
            [code::SMALL_UINT, value, ref rest @ ..] => (value.into(), rest),
            [code::UINT0, ref rest @ ..] => (0, rest),
            [code::NULL, ref rest @ ..] => {
                self.rest = rest;
                return Some(());
            }
            _ => return None,
        };
        self.rest = rest;
        *to = Some(value);
        Some(())
    }

    /// A uint that must be there.
    #[inline(always)]
    pub fn uint(&mut self, to: &mut u32) -> Option<()> {
        let (value, rest) = match *self.rest {
            [code::UINT, a, b, c, d, ref rest @ ..] => (u32::from_be_bytes([a, b, c, d]), rest),
            [code::SMALL_UINT, value, ref rest @ ..] => (value.into(), rest),
            [code::UINT0, ref rest @ ..] => (0, rest),
            _ => return None,
        };
        self.rest = rest;
        *to = value;
        Some(())
    }

    #[inline(always)]
    fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(first)
    }

    /// A uint that is nearly always 0.
    #[inline(always)]
    pub fn optional_zero(&mut self, to: &mut Option<u32>) -> Option<()> {
        if let [code::UINT0, ref rest @ ..] = *self.rest {
            self.rest = rest;
            *to = Some(0);
            return Some(());
        }
        self.optional_uint(to)
    }

    /// A boolean that may be null.
    #[inline(always)]
    pub fn optional_boolean(&mut self, to: &mut Option<bool>) -> Option<()> {
        *to = match self.byte()? {
            code::TRUE => Some(true),
            code::FALSE => Some(false),
            code::NULL => None,
            _ => return None,
        };
        Some(())
    }

    /// A boolean whose default is false, so null is false.
    #[inline(always)]
    pub fn flag(&mut self, to: &mut bool) -> Option<()> {
        let constructor = self.byte()?;
        *to = constructor == code::TRUE;
        // NULL, TRUE and FALSE are neighbours.
        (constructor.wrapping_sub(code::NULL) <= 2).then_some(())
    }

    /// A boolean that must be there.
    #[inline(always)]
    pub fn boolean(&mut self) -> Option<bool> {
        match self.byte()? {
            code::TRUE => Some(true),
            code::FALSE => Some(false),
            _ => None,
        }
    }

    /// A binary of at most 255 bytes, or null.
    #[inline(always)]
    pub fn optional_binary(&mut self, to: &mut Option<&'a [u8]>) -> Option<()> {
        match *self.rest {
            [code::BINARY8, size, ref rest @ ..] => {
                let (value, rest) = rest.split_at_checked(size as usize)?;
                self.rest = rest;
                *to = Some(value);
            }
            [code::NULL, ref rest @ ..] => self.rest = rest,
            _ => return None,
        }
        Some(())
    }

    /// A described list without fields, which is the usual state, or null.
    #[inline(always)]
    pub fn optional_state(&mut self, to: &mut Option<&'a [u8]>) -> Option<()> {
        match *self.rest {
            [code::DESCRIBED, code::SMALL_ULONG, _, code::LIST0, ref rest @ ..] => {
                *to = Some(&self.rest[..4]);
                self.rest = rest;
            }
            [code::NULL, ref rest @ ..] => self.rest = rest,
            _ => return None,
        }
        Some(())
    }

    /// A field that the quick way knows only as null.
    #[inline(always)]
    pub fn null(&mut self) -> Option<()> {
        (self.byte()? == code::NULL).then_some(())
    }
}
