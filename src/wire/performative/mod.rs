//! Performatives (section 2.7): what an AMQP frame's body begins with.
//!
//! Structs have the specification's fields: those with a default hold it where the peer sent none, the others are
//! Options. The hot ones (transfer, disposition, flow) have encoders of their own; see there.

mod connection;
mod disposition;
mod flow;
mod link;
mod session;
mod transfer;
mod whole;

pub use connection::{Close, Open};
pub use disposition::Disposition;
pub use flow::Flow;
pub use link::{Attach, Detach, ReceiverSettleMode, SenderSettleMode};
pub use session::{Begin, End};
pub use transfer::Transfer;
pub use whole::{Heads, Shape, Whole};

use super::fields::{read_descriptor, Fields};
use super::value::{code, Reader};
use super::{descriptor, WireError};

/// An AMQP frame's performative.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
// Lives on the stack for one frame; boxing what is large would allocate.
#[allow(clippy::large_enum_variant)]
pub enum Performative<'a> {
    Open(Open<'a>),
    Begin(Begin<'a>),
    Attach(Attach<'a>),
    Flow(Flow<'a>),
    Transfer(Transfer<'a>),
    Disposition(Disposition<'a>),
    Detach(Detach<'a>),
    End(End<'a>),
    Close(Close<'a>),
}

/// Which end of a link speaks (section 2.8.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Role {
    #[default]
    Sender,
    Receiver,
}

impl Role {
    #[inline]
    fn from_bool(receiver: bool) -> Role {
        if receiver {
            Role::Receiver
        } else {
            Role::Sender
        }
    }

    #[inline]
    pub fn is_receiver(self) -> bool {
        self == Role::Receiver
    }
}

impl<'a> Performative<'a> {
    /// Reads the performative at the begin of a frame's body. Gives it and its length: the payload of a transfer
    /// begins there. That only a transfer has one is for the caller to hold.
    #[inline(always)]
    pub fn decode(body: &'a [u8]) -> Result<(Performative<'a>, usize), WireError> {
        // The hot ones in their usual encodings first.
        if let [code::DESCRIBED, code::SMALL_ULONG, number, ..] = *body {
            match number as u64 {
                descriptor::TRANSFER => {
                    let mut transfer = Transfer::default();
                    if let Some(end) = transfer.quick(body) {
                        return Ok((Performative::Transfer(transfer), end));
                    }
                }
                descriptor::DISPOSITION => {
                    let mut disposition = Disposition::default();
                    if let Some(end) = disposition.quick(body) {
                        return Ok((Performative::Disposition(disposition), end));
                    }
                }
                descriptor::FLOW => {
                    let mut flow = Flow::default();
                    if let Some(end) = flow.quick(body) {
                        return Ok((Performative::Flow(flow), end));
                    }
                }
                _ => {}
            }
        }
        Self::decode_any(body)
    }

    /// Any performative in any encoding.
    #[cold]
    #[inline(never)]
    fn decode_any(body: &'a [u8]) -> Result<(Performative<'a>, usize), WireError> {
        let mut reader = Reader::new(body);
        let descriptor = read_descriptor(&mut reader)?;
        let fields = Fields::open(&mut reader, "performative")?;
        let performative = match descriptor {
            Some(descriptor::OPEN) => Performative::Open(Open::read(fields)?),
            Some(descriptor::BEGIN) => Performative::Begin(Begin::read(fields)?),
            Some(descriptor::ATTACH) => Performative::Attach(Attach::read(fields)?),
            Some(descriptor::FLOW) => Performative::Flow(Flow::read(fields)?),
            Some(descriptor::TRANSFER) => Performative::Transfer(Transfer::read(fields)?),
            Some(descriptor::DISPOSITION) => Performative::Disposition(Disposition::read(fields)?),
            Some(descriptor::DETACH) => Performative::Detach(Detach::read(fields)?),
            Some(descriptor::END) => Performative::End(End::read(fields)?),
            Some(descriptor::CLOSE) => Performative::Close(Close::read(fields)?),
            _ => return Err(WireError::WrongDescriptor("performative")),
        };
        Ok((performative, body.len() - reader.rest().len()))
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Performative::Open(open) => open.encode(out),
            Performative::Begin(begin) => begin.encode(out),
            Performative::Attach(attach) => attach.encode(out),
            Performative::Flow(flow) => flow.encode(out),
            Performative::Transfer(transfer) => transfer.encode(out),
            Performative::Disposition(disposition) => disposition.encode(out),
            Performative::Detach(detach) => detach.encode(out),
            Performative::End(end) => end.encode(out),
            Performative::Close(close) => close.encode(out),
        }
    }

    pub fn name(&self) -> &'static str {
        match self {
            Performative::Open(_) => "open",
            Performative::Begin(_) => "begin",
            Performative::Attach(_) => "attach",
            Performative::Flow(_) => "flow",
            Performative::Transfer(_) => "transfer",
            Performative::Disposition(_) => "disposition",
            Performative::Detach(_) => "detach",
            Performative::End(_) => "end",
            Performative::Close(_) => "close",
        }
    }
}

#[cfg(test)]
mod tests;
