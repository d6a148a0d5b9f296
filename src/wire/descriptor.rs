//! Descriptors: the numeric codes of the specification's described types, their symbolic names, and the names of
//! their fields (which only the trace reads).

pub const OPEN: u64 = 0x10;
pub const BEGIN: u64 = 0x11;
pub const ATTACH: u64 = 0x12;
pub const FLOW: u64 = 0x13;
pub const TRANSFER: u64 = 0x14;
pub const DISPOSITION: u64 = 0x15;
pub const DETACH: u64 = 0x16;
pub const END: u64 = 0x17;
pub const CLOSE: u64 = 0x18;
pub const ERROR: u64 = 0x1d;
pub const RECEIVED: u64 = 0x23;
pub const ACCEPTED: u64 = 0x24;
pub const REJECTED: u64 = 0x25;
pub const RELEASED: u64 = 0x26;
pub const MODIFIED: u64 = 0x27;
pub const SOURCE: u64 = 0x28;
pub const TARGET: u64 = 0x29;
pub const DELETE_ON_CLOSE: u64 = 0x2b;
pub const DELETE_ON_NO_LINKS: u64 = 0x2c;
pub const DELETE_ON_NO_MESSAGES: u64 = 0x2d;
pub const DELETE_ON_NO_LINKS_OR_MESSAGES: u64 = 0x2e;
pub const COORDINATOR: u64 = 0x30;
pub const DECLARE: u64 = 0x31;
pub const DISCHARGE: u64 = 0x32;
pub const DECLARED: u64 = 0x33;
pub const TRANSACTIONAL_STATE: u64 = 0x34;
pub const SASL_MECHANISMS: u64 = 0x40;
pub const SASL_INIT: u64 = 0x41;
pub const SASL_CHALLENGE: u64 = 0x42;
pub const SASL_RESPONSE: u64 = 0x43;
pub const SASL_OUTCOME: u64 = 0x44;
pub const HEADER: u64 = 0x70;
pub const DELIVERY_ANNOTATIONS: u64 = 0x71;
pub const MESSAGE_ANNOTATIONS: u64 = 0x72;
pub const PROPERTIES: u64 = 0x73;
pub const APPLICATION_PROPERTIES: u64 = 0x74;
pub const DATA: u64 = 0x75;
pub const AMQP_SEQUENCE: u64 = 0x76;
pub const AMQP_VALUE: u64 = 0x77;
pub const FOOTER: u64 = 0x78;

/// One described type of the specification.
pub struct Described {
    pub code: u64,
    /// The type's name, e.g. `sasl-init`.
    pub name: &'static str,
    /// What follows the name in its symbolic descriptor: `amqp:sasl-init:list`.
    pub suffix: &'static str,
    pub fields: &'static [&'static str],
}

const fn described(code: u64, name: &'static str, suffix: &'static str, fields: &'static [&'static str]) -> Described {
    Described { code, name, suffix, fields }
}

/// All of them, by code.
#[rustfmt::skip]
pub static ALL: &[Described] = &[
    described(OPEN, "open", "list", &[
        "container-id", "hostname", "max-frame-size", "channel-max", "idle-time-out", "outgoing-locales",
        "incoming-locales", "offered-capabilities", "desired-capabilities", "properties"]),
    described(BEGIN, "begin", "list", &[
        "remote-channel", "next-outgoing-id", "incoming-window", "outgoing-window", "handle-max",
        "offered-capabilities", "desired-capabilities", "properties"]),
    described(ATTACH, "attach", "list", &[
        "name", "handle", "role", "snd-settle-mode", "rcv-settle-mode", "source", "target", "unsettled",
        "incomplete-unsettled", "initial-delivery-count", "max-message-size", "offered-capabilities",
        "desired-capabilities", "properties"]),
    described(FLOW, "flow", "list", &[
        "next-incoming-id", "incoming-window", "next-outgoing-id", "outgoing-window", "handle", "delivery-count",
        "link-credit", "available", "drain", "echo", "properties"]),
    described(TRANSFER, "transfer", "list", &[
        "handle", "delivery-id", "delivery-tag", "message-format", "settled", "more", "rcv-settle-mode", "state",
        "resume", "aborted", "batchable"]),
    described(DISPOSITION, "disposition", "list", &["role", "first", "last", "settled", "state", "batchable"]),
    described(DETACH, "detach", "list", &["handle", "closed", "error"]),
    described(END, "end", "list", &["error"]),
    described(CLOSE, "close", "list", &["error"]),
    described(ERROR, "error", "list", &["condition", "description", "info"]),
    described(RECEIVED, "received", "list", &["section-number", "section-offset"]),
    described(ACCEPTED, "accepted", "list", &[]),
    described(REJECTED, "rejected", "list", &["error"]),
    described(RELEASED, "released", "list", &[]),
    described(MODIFIED, "modified", "list", &["delivery-failed", "undeliverable-here", "message-annotations"]),
    described(SOURCE, "source", "list", &[
        "address", "durable", "expiry-policy", "timeout", "dynamic", "dynamic-node-properties", "distribution-mode",
        "filter", "default-outcome", "outcomes", "capabilities"]),
    described(TARGET, "target", "list", &[
        "address", "durable", "expiry-policy", "timeout", "dynamic", "dynamic-node-properties", "capabilities"]),
    described(DELETE_ON_CLOSE, "delete-on-close", "list", &[]),
    described(DELETE_ON_NO_LINKS, "delete-on-no-links", "list", &[]),
    described(DELETE_ON_NO_MESSAGES, "delete-on-no-messages", "list", &[]),
    described(DELETE_ON_NO_LINKS_OR_MESSAGES, "delete-on-no-links-or-messages", "list", &[]),
    described(COORDINATOR, "coordinator", "list", &["capabilities"]),
    described(DECLARE, "declare", "list", &["global-id"]),
    described(DISCHARGE, "discharge", "list", &["txn-id", "fail"]),
    described(DECLARED, "declared", "list", &["txn-id"]),
    described(TRANSACTIONAL_STATE, "transactional-state", "list", &["txn-id", "outcome"]),
    described(SASL_MECHANISMS, "sasl-mechanisms", "list", &["sasl-server-mechanisms"]),
    described(SASL_INIT, "sasl-init", "list", &["mechanism", "initial-response", "hostname"]),
    described(SASL_CHALLENGE, "sasl-challenge", "list", &["challenge"]),
    described(SASL_RESPONSE, "sasl-response", "list", &["response"]),
    described(SASL_OUTCOME, "sasl-outcome", "list", &["code", "additional-data"]),
    described(HEADER, "header", "list", &["durable", "priority", "ttl", "first-acquirer", "delivery-count"]),
    described(DELIVERY_ANNOTATIONS, "delivery-annotations", "map", &[]),
    described(MESSAGE_ANNOTATIONS, "message-annotations", "map", &[]),
    described(PROPERTIES, "properties", "list", &[
        "message-id", "user-id", "to", "subject", "reply-to", "correlation-id", "content-type", "content-encoding",
        "absolute-expiry-time", "creation-time", "group-id", "group-sequence", "reply-to-group-id"]),
    described(APPLICATION_PROPERTIES, "application-properties", "map", &[]),
    described(DATA, "data", "binary", &[]),
    described(AMQP_SEQUENCE, "amqp-sequence", "list", &[]),
    described(AMQP_VALUE, "amqp-value", "*", &[]),
    described(FOOTER, "footer", "map", &[]),
];

/// What the specification says of a code.
pub fn by_code(code: u64) -> Option<&'static Described> {
    ALL.iter().find(|described| described.code == code)
}

/// The code of a symbolic descriptor, e.g. `amqp:open:list`.
#[cold]
pub fn code_of_symbol(symbol: &[u8]) -> Option<u64> {
    let rest = symbol.strip_prefix(b"amqp:")?;
    let found = ALL.iter().find(|described| {
        rest.strip_prefix(described.name.as_bytes())
            .and_then(|rest| rest.strip_prefix(b":"))
            .is_some_and(|suffix| suffix == described.suffix.as_bytes())
    })?;
    Some(found.code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_have_their_codes() {
        assert_eq!(code_of_symbol(b"amqp:open:list"), Some(OPEN));
        assert_eq!(code_of_symbol(b"amqp:data:binary"), Some(DATA));
        assert_eq!(code_of_symbol(b"amqp:amqp-value:*"), Some(AMQP_VALUE));
        assert_eq!(code_of_symbol(b"amqp:open:map"), None);
        assert_eq!(code_of_symbol(b"amqp:sasl-init"), None);
        assert_eq!(code_of_symbol(b""), None);
    }

    #[test]
    fn codes_ascend() {
        assert!(ALL.windows(2).all(|pair| pair[0].code < pair[1].code));
    }
}
