//! Bytes to and from frames and typed values: the AMQP 1.0 type system (part 1), frames and performatives (part
//! 2), delivery states, termini and message sections (part 3), coordinator and transactional states (part 4), SASL frames (part 5).
//!
//! Owns the encoding and nothing else: no state between frames, no opinion on what a frame means in its session. The
//! engine drives it for performatives, dispatch for message sections, the security room's driver for SASL.
//!
//! Invariants
//! - Decoding borrows from the input and never allocates; encoding allocates only by growing the vector it is given.
//! - Sizes and counts are held against the bytes at hand before anything is done with them; nesting is bounded by
//!   [`value::DEPTH_MAX`]. No input panics.
//! - What a decoded struct keeps as raw bytes (`state`, `source`, `properties`, …) is one whole value that was
//!   checked to its innermost element, so it can be passed on to another peer unread.
//! - Absent trailing fields and nulls are the field's default; a field beyond the specification's is an error.
//! - Encoders write the shortest form and leave trailing nulls out.

pub mod annotations;
pub mod descriptor;
pub mod encode;
pub mod error;
mod fields;
pub mod frame;
pub mod message;
pub mod performative;
mod quick;
pub mod sasl;
mod spare;
pub mod state;
pub mod terminus;
pub mod trace;
pub mod value;

pub use fields::Symbols;

/// Opens AMQP itself (section 2.2): `AMQP`, protocol id 0, version 1.0.0.
pub const PROTOCOL_HEADER_AMQP: [u8; 8] = *b"AMQP\x00\x01\x00\x00";
/// Opens a TLS layer (section 5.2.1), protocol id 2.
pub const PROTOCOL_HEADER_TLS: [u8; 8] = *b"AMQP\x02\x01\x00\x00";
/// Opens a SASL layer (section 5.3.1), protocol id 3.
pub const PROTOCOL_HEADER_SASL: [u8; 8] = *b"AMQP\x03\x01\x00\x00";

/// What is wrong with some bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WireError {
    /// The bytes end inside a value.
    Truncated,
    /// No type has this constructor.
    BadConstructor(u8),
    /// A field, or what stands in its place, holds another type than the specification's.
    WrongType { field: &'static str, constructor: u8 },
    /// A size or a count doesn't fit what it speaks of.
    BadSize,
    /// Right type, but not a value of it: text that is not UTF-8, a symbol beyond ASCII, a boolean of 2.
    BadValue(&'static str),
    /// A mandatory field is absent or null.
    Missing(&'static str),
    /// More fields than the specification's.
    TooManyFields(&'static str),
    /// Something else stands where this described type is due.
    WrongDescriptor(&'static str),
    /// Nested deeper than [`value::DEPTH_MAX`].
    TooDeep,
    /// A frame's size or data offset can't be.
    BadFrame,
}

impl std::fmt::Display for WireError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            WireError::Truncated => write!(f, "the bytes end inside a value"),
            WireError::BadConstructor(code) => write!(f, "no type has the constructor 0x{code:02x}"),
            WireError::WrongType { field, constructor } => {
                write!(f, "{field} can't have the constructor 0x{constructor:02x}")
            }
            WireError::BadSize => write!(f, "a size or count doesn't fit its value"),
            WireError::BadValue(field) => write!(f, "not a valid {field}"),
            WireError::Missing(field) => write!(f, "mandatory field {field} is missing"),
            WireError::TooManyFields(what) => write!(f, "{what} has too many fields"),
            WireError::WrongDescriptor(due) => write!(f, "{due} is due here, another type came"),
            WireError::TooDeep => write!(f, "values are nested too deep"),
            WireError::BadFrame => write!(f, "impossible frame header"),
        }
    }
}

impl std::error::Error for WireError {}
