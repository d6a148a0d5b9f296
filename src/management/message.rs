//! Requests and answers as messages (section 3.2; the management draft, section 3).

use super::datum::Datum;
use super::out::Out;
use crate::wire::descriptor;
use crate::wire::message::{Head, Properties, Property, Section, Sections, Span};
use crate::wire::value::{Map, Reader, Value};
use crate::wire::WireError;
use std::borrow::Cow;

/// An answer's status: an HTTP code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u16)]
pub enum Status {
    Ok = 200,
    Created = 201,
    NoContent = 204,
    BadRequest = 400,
    Forbidden = 403,
    NotFound = 404,
    InternalError = 500,
    NotImplemented = 501,
}

impl Status {
    pub fn text(self) -> &'static str {
        match self {
            Status::Ok => "OK",
            Status::Created => "Created",
            Status::NoContent => "No Content",
            Status::BadRequest => "Bad Request",
            Status::Forbidden => "Forbidden",
            Status::NotFound => "Not Found",
            Status::InternalError => "Internal Server Error",
            Status::NotImplemented => "Not Implemented",
        }
    }
}

/// What is answered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Response {
    pub status: Status,
    /// `statusDescription`.
    pub description: Cow<'static, str>,
    /// One encoded value.
    pub body: Vec<u8>,
}

impl Response {
    pub fn ok(body: Out) -> Response {
        Response::of(Status::Ok, body)
    }

    pub fn of(status: Status, body: Out) -> Response {
        Response { status, description: status.text().into(), body: body.into_bytes() }
    }

    /// `description` None: the status's own text.
    pub fn error(status: Status, description: impl Into<Cow<'static, str>>) -> Response {
        let mut body = Out::default();
        body.map::<&str, ()>([], |_, ()| {});
        Response { status, description: description.into(), body: body.into_bytes() }
    }

    pub fn is_error(&self) -> bool {
        self.status as u16 >= 400
    }
}

/// Where an answer goes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Envelope {
    pub reply_to: Box<str>,
    /// One encoded value: the request's correlation-id, or its message-id where it has none.
    correlation_id: Option<Box<[u8]>>,
}

impl Envelope {
    /// The answer as a message.
    pub fn seal(&self, response: &Response) -> Vec<u8> {
        let mut out = Out::default();
        out.descriptor(descriptor::PROPERTIES);
        let mut properties = out.begin();
        out.null(); // message-id
        out.null(); // user-id
        out.text(&self.reply_to);
        out.null(); // subject
        out.null(); // reply-to
        out.or_null(self.correlation_id.as_deref(), |out, id| out.raw(id));
        properties.count = 6;
        out.end_list(properties);
        out.descriptor(descriptor::APPLICATION_PROPERTIES);
        let mut status = out.begin();
        out.text("statusCode");
        out.int(i32::from(response.status as u16));
        out.text("statusDescription");
        out.text(&response.description);
        status.count = 4;
        out.end_map(status);
        out.descriptor(descriptor::AMQP_VALUE);
        out.raw(&response.body);
        out.into_bytes()
    }
}

/// A request, read.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Request {
    /// Application properties, all of them, in their order.
    pub properties: Vec<(String, Datum)>,
    /// The body, where it is a map of strings to values; in its order.
    pub attributes: Option<Vec<(String, Datum)>>,
}

/// What a message that came as a request is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Received {
    /// It names nobody to answer.
    Unanswerable,
    Request(Envelope, Request),
    /// It can't be read.
    Bad(Envelope, String),
}

impl Request {
    /// Reads a message.
    pub fn read(message: &[u8]) -> Received {
        let Some(envelope) = envelope(message) else { return Received::Unanswerable };
        match read(message) {
            Ok(request) => Received::Request(envelope, request),
            Err(text) => Received::Bad(envelope, text),
        }
    }

    pub fn property(&self, name: &str) -> Option<&Datum> {
        self.properties.iter().find(|(key, value)| key == name && !value.is_null()).map(|(_, value)| value)
    }

    pub fn text(&self, name: &str) -> Option<&str> {
        self.property(name).and_then(Datum::as_text)
    }
}

impl std::fmt::Display for Request {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (key, value) in &self.properties {
            match (value.as_text(), value.as_integer()) {
                (Some(text), _) => write!(f, "{key}={text} ")?,
                (None, Some(number)) => write!(f, "{key}={number} ")?,
                (None, None) => write!(f, "{key}=… ")?,
            }
        }
        let names = self.attributes.iter().flatten().map(|(name, _)| name.as_str());
        write!(f, "body={:?}", names.collect::<Vec<_>>())
    }
}

fn envelope(message: &[u8]) -> Option<Envelope> {
    let properties = Properties::find(message).ok()??;
    let reply_to = properties.get(Property::ReplyTo)?.text(&mut []).ok()??.into();
    let id = |property| {
        let raw = properties.get(property)?.contiguous()?;
        Reader::new(raw).checked().ok().filter(|raw| Reader::new(raw).value() != Ok(Value::Null))
    };
    let correlation_id = id(Property::CorrelationId).or_else(|| id(Property::MessageId)).map(Into::into);
    Some(Envelope { reply_to, correlation_id })
}

fn read(message: &[u8]) -> Result<Request, String> {
    let wrong = |what: &str, error: WireError| format!("the request's {what} can't be decoded: {error}");
    let head = Head::scan(message).map_err(|error| wrong("sections", error))?;
    let value = |span: Span| message.get(span.start..span.end).unwrap_or_default();
    let properties = match head.application_properties {
        Some(Section { value: span, .. }) => {
            pairs(value(span)).map_err(|error| wrong("application-properties", error))?
        }
        None => Vec::new(),
    };
    let body = message.get(head.body..).unwrap_or_default();
    let first = Sections::new(body).next().transpose().map_err(|error| wrong("body", error))?;
    let attributes = match first {
        Some(Section { code: descriptor::AMQP_VALUE, value: span, .. }) => {
            let raw = Datum::checked(body.get(span.start..span.end).unwrap_or_default());
            let raw = raw.map_err(|error| wrong("body", error))?;
            matches!(raw.value(), Value::Map(_)).then(|| pairs(raw.bytes())).transpose()
        }
        _ => Ok(None),
    };
    Ok(Request { properties, attributes: attributes.map_err(|error| wrong("body", error))? })
}

/// A map's pairs whose keys are text.
fn pairs(raw: &[u8]) -> Result<Vec<(String, Datum)>, WireError> {
    let map = Map::parse(Reader::new(raw).checked()?)?;
    let mut reader = Reader::new(map.body);
    let mut pairs = Vec::new();
    for _ in 0..map.count / 2 {
        let (key, value) = (reader.value()?, reader.raw()?);
        if let Value::String(key) | Value::Symbol(key) = key {
            pairs.push((key.to_owned(), Datum::checked(value)?));
        }
    }
    Ok(pairs)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A request as a client writes it. `correlation`: an encoded value.
    pub fn encode(reply_to: Option<&str>, correlation: &[u8], properties: &[(&str, Datum)], body: &[u8]) -> Vec<u8> {
        let mut out = Out::default();
        out.descriptor(descriptor::PROPERTIES);
        let mut list = out.begin();
        for _ in 0..4 {
            out.null();
        }
        out.or_null(reply_to, |out, reply_to| out.text(reply_to));
        out.raw(correlation);
        list.count = 6;
        out.end_list(list);
        out.descriptor(descriptor::APPLICATION_PROPERTIES);
        out.map(properties.iter().map(|(key, value)| (*key, value)), |out, value| out.raw(value.bytes()));
        out.raw(body);
        out.into_bytes()
    }

    fn request(body: &[u8]) -> Request {
        let properties = [("operation", Datum::text("QUERY")), ("offset", Datum::integer(3))];
        match Request::read(&encode(Some("r"), b"\x40", &properties, body)) {
            Received::Request(_, request) => request,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn bodies_of_every_encoding() {
        let map = b"\x00\x53\x77\xc1\x07\x02\xa3\x01k\xa1\x01v";
        assert_eq!(request(map).attributes, Some(vec![("k".to_owned(), Datum::text("v"))]));
        assert_eq!(request(map).text("operation"), Some("QUERY"));
        let wide = b"\x00\x80\0\0\0\0\0\0\0\x77\xd1\0\0\0\x04\0\0\0\0";
        assert_eq!(request(wide).attributes, Some(vec![]));
        // Absent, null, a list, a sequence, data.
        for body in [&b""[..], b"\x00\x53\x77\x40", b"\x00\x53\x77\x45", b"\x00\x53\x76\x45", b"\x00\x53\x75\xa0\x01x"]
        {
            assert_eq!(request(body).attributes, None, "{body:?}");
        }
    }

    #[test]
    fn what_can_t_be_read_is_answered() {
        let properties = [("operation", Datum::text("READ"))];
        for body in [
            &b"\x00\x53\x77\xc1\x07\x02\xa3\x01k\xa1\x09v"[..],
            b"\x00\x53\x77\xff",
            b"\x00\x53\x77\xc1\x04\x01\xa1\x01k",
        ] {
            let message = encode(Some("r"), b"\x40", &properties, body);
            assert!(matches!(Request::read(&message), Received::Bad(..)), "{body:?}");
        }
        assert_eq!(Request::read(&encode(None, b"\x40", &properties, b"")), Received::Unanswerable);
        assert_eq!(Request::read(b"garbage"), Received::Unanswerable);
    }

    #[test]
    fn an_answer_has_the_request_s_correlation_id_whatever_it_is() {
        for id in [&b"\xa1\x01x"[..], b"\x44", b"\xa0\x01\xff", b"\x98aaaaaaaaaaaaaaaa"] {
            let message = encode(Some("to"), id, &[], b"");
            let Received::Request(envelope, _) = Request::read(&message) else { panic!("{id:?}") };
            let answer = envelope.seal(&Response::ok(Out::default()));
            let properties = Properties::find(&answer[..]).unwrap().unwrap();
            assert_eq!(properties.get(Property::To).unwrap().text(&mut []), Ok(Some("to")));
            assert_eq!(properties.get(Property::CorrelationId).unwrap().contiguous(), Some(id));
        }
    }
}
