//! Management requests and replies as messages: an operation and what it is about in the application properties, a body.

use super::json;
use crate::wire::message::Head;
use crate::wire::value::{code, Map as AmqpMap, Reader, Value as Amqp};
use crate::wire::{descriptor, encode, WireError};
use serde_json::{Map, Value};

/// A request. `properties`: operation, type, name, identity and whatever else the operation takes.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Request {
    pub properties: Map<String, Value>,
    pub body: Value,
}

/// A reply.
#[derive(Clone, PartialEq, Debug)]
pub struct Reply {
    /// Which request it answers, where that is one of ours.
    pub correlation_id: Option<u64>,
    /// As HTTP's: 200 to 299 is good.
    pub status: i64,
    pub description: String,
    pub body: Value,
}

impl Request {
    /// With an empty map for a body.
    pub fn new(operation: &str) -> Request {
        Request::default().with("operation", operation)
    }

    /// Adds a property; a null is left out.
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Request {
        let value = value.into();
        if !value.is_null() {
            self.properties.insert(name.to_owned(), value);
        }
        self
    }

    /// About the management node itself.
    pub fn to_node(operation: &str) -> Request {
        Request::new(operation).with("type", "org.amqp.management").with("name", "self")
    }

    /// The message.
    pub fn encode(&self, address: &str, reply_to: &str, correlation_id: u64) -> Vec<u8> {
        let mut out = Vec::new();
        encode::descriptor(&mut out, descriptor::PROPERTIES);
        let compound = encode::begin(&mut out);
        // message-id, user-id, to, subject, reply-to, correlation-id
        encode::null(&mut out);
        encode::null(&mut out);
        encode::string(&mut out, address);
        encode::null(&mut out);
        encode::string(&mut out, reply_to);
        // A string, since some agents answer nothing else.
        encode::string(&mut out, &correlation_id.to_string());
        encode::finish(&mut out, compound, code::LIST8, 6);
        encode::descriptor(&mut out, descriptor::APPLICATION_PROPERTIES);
        json::object_to_amqp(&mut out, &self.properties);
        encode::descriptor(&mut out, descriptor::AMQP_VALUE);
        match &self.body {
            Value::Null => json::object_to_amqp(&mut out, &Map::new()),
            body => json::to_amqp(&mut out, body),
        }
        out
    }
}

impl Reply {
    /// Reads a whole message.
    pub fn decode(message: &[u8]) -> Result<Reply, WireError> {
        let head = Head::scan(message)?;
        let correlation_id = match head.properties {
            Some(section) => correlation_id(&message[section.value.start..section.value.end])?,
            None => None,
        };
        let section = head.application_properties.ok_or(WireError::Missing("application-properties"))?;
        let properties = AmqpMap::parse(&message[section.value.start..section.value.end])?;
        let status = match properties.get("statusCode") {
            Some(status) => json::from_amqp(&status)?.as_i64(),
            None => None,
        };
        let description = match properties.get("statusDescription") {
            Some(Amqp::String(text) | Amqp::Symbol(text)) => text.to_owned(),
            _ => String::new(),
        };
        Ok(Reply {
            correlation_id,
            status: status.ok_or(WireError::Missing("statusCode"))?,
            description,
            body: body(&message[head.body..])?,
        })
    }
}

fn correlation_id(properties: &[u8]) -> Result<Option<u64>, WireError> {
    let Amqp::List(list) = Reader::new(properties).value()? else {
        return Err(WireError::BadValue("properties"));
    };
    match list.iter().nth(5).transpose()? {
        Some(Amqp::String(id)) => Ok(id.parse().ok()),
        _ => Ok(None),
    }
}

fn body(bytes: &[u8]) -> Result<Value, WireError> {
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    let [code::DESCRIBED, code::SMALL_ULONG, section, rest @ ..] = bytes else {
        return Err(WireError::WrongDescriptor("message body"));
    };
    match u64::from(*section) {
        descriptor::AMQP_VALUE | descriptor::AMQP_SEQUENCE | descriptor::DATA => {
            json::from_amqp(&Reader::new(rest).value()?)
        }
        _ => Err(WireError::WrongDescriptor("message body")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_request_names_its_operation() {
        let mut request =
            Request::to_node("QUERY").with("entityType", "org.x").with("count", 500).with("gone", Value::Null);
        request.body = json!({"attributeNames": []});
        let bytes = request.encode("$management", "temp.x", 7);
        let head = Head::scan(&bytes[..]).unwrap();
        let section = head.application_properties.unwrap();
        let properties = AmqpMap::parse(&bytes[section.value.start..section.value.end]).unwrap();
        let expected = json!({"operation": "QUERY", "type": "org.amqp.management", "name": "self",
            "entityType": "org.x", "count": 500});
        assert_eq!(json::from_amqp(&Amqp::Map(properties)).unwrap(), expected);
        assert_eq!(body(&bytes[head.body..]).unwrap(), json!({"attributeNames": []}));
        let section = head.properties.unwrap();
        assert_eq!(correlation_id(&bytes[section.value.start..section.value.end]), Ok(Some(7)));
    }

    #[test]
    fn a_reply_is_read() {
        let mut bytes = Vec::new();
        encode::descriptor(&mut bytes, descriptor::APPLICATION_PROPERTIES);
        json::object_to_amqp(&mut bytes, json!({"statusCode": 404, "statusDescription": "gone"}).as_object().unwrap());
        encode::descriptor(&mut bytes, descriptor::AMQP_VALUE);
        json::to_amqp(&mut bytes, &json!(["x"]));
        let reply = Reply::decode(&bytes).unwrap();
        assert_eq!(
            reply,
            Reply { correlation_id: None, status: 404, description: "gone".to_owned(), body: json!(["x"]) }
        );
        for end in 1..bytes.len() {
            // Cut short it is an error or lacks its body, and never a panic.
            let _ = Reply::decode(&bytes[..end]);
        }
    }
}
