//! Addresses as peers write them, and what they mean.

use crate::ids::ShardId;
use crate::limits;

/// Which table an address is in.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Class {
    /// An address that clients share, anywhere in the network.
    Mobile,
    /// Known to this router only: `_local/x`, also written `_topo/0/<this router>/x`.
    Local,
    /// The router's own or another router's (`_topo/…`, `_edge/…`): no client consumes there.
    Router,
}

/// An address: its class, and the rest that tells it from others of its class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Name<'a> {
    pub class: Class,
    pub rest: &'a str,
}

/// Threshold events come from here. No address has this name: each subscriber has one of its own, without marks, so
/// that events raise none themselves.
pub const EVENTS_ADDRESS: &str = "$events.threshold";

/// The area that every router is in.
const AREA: &str = "0";

/// Takes off `scheme://host/`, `scheme:/` or a leading `/`, then one trailing `.` or `/`.
///
/// `amqp://h/q`, `amqps://h:1/q`, `amqp:/q`, `/q`, `q` and `q/` are all `q`. A scheme and host without a path are
/// left as they are.
pub fn normalise(text: &str) -> &str {
    let mut rest = text;
    if let Some(colon) = text.find(':') {
        let scheme = &text.as_bytes()[..colon];
        let is_scheme = scheme.first().is_some_and(u8::is_ascii_alphabetic)
            && scheme.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'));
        if is_scheme {
            let behind = &text[colon + 1..];
            if let Some(authority) = behind.strip_prefix("//") {
                if let Some(slash) = authority.find('/') {
                    rest = &authority[slash + 1..];
                }
            } else if let Some(path) = behind.strip_prefix('/') {
                rest = path;
            }
        }
    }
    rest = rest.strip_prefix('/').unwrap_or(rest);
    rest.strip_suffix(['.', '/']).unwrap_or(rest)
}

/// What an address is to the router of this id. None: it names nothing.
pub fn parse<'a>(text: &'a str, router_id: &str) -> Option<Name<'a>> {
    let text = normalise(text);
    if text.is_empty() {
        return None;
    }
    if !text.starts_with('_') {
        return Some(Name { class: Class::Mobile, rest: text });
    }
    if let Some(rest) = text.strip_prefix("_local/") {
        return Some(Name { class: Class::Local, rest });
    }
    if let Some(below) = text.strip_prefix("_topo/") {
        let own = below
            .strip_prefix(AREA)
            .and_then(|rest| rest.strip_prefix('/'))
            .and_then(|rest| rest.strip_prefix(router_id))
            .and_then(|rest| rest.strip_prefix('/'));
        return Some(match own {
            Some(rest) => Name { class: Class::Local, rest },
            None => Name { class: Class::Router, rest: text },
        });
    }
    if text.starts_with("_edge/") {
        return Some(Name { class: Class::Router, rest: text });
    }
    Some(Name { class: Class::Mobile, rest: text })
}

/// The shard that owns an address, of so many: the same on every shard, and on every run.
pub fn owner(rest: &str, shards: u16) -> ShardId {
    use std::hash::{DefaultHasher, Hasher};
    let mut hasher = DefaultHasher::new();
    hasher.write(rest.as_bytes());
    ShardId((hasher.finish() % u64::from(shards.max(1))) as u16)
}

/// The shard that owns what a peer calls `text`. None: it isn't an address of any shard's, or each has its own of that
/// name (the router's management, threshold events).
pub fn owner_of(text: &str, router_id: &str, shards: u16) -> Option<ShardId> {
    let name = parse(text, router_id)?;
    let everywhere = name.rest == MANAGEMENT || name.class == Class::Mobile && name.rest == EVENTS_ADDRESS;
    let routed = name.class != Class::Router && !everywhere && text.len() <= limits::ADDRESS_BYTES_MAX;
    routed.then(|| owner(name.rest, shards))
}

/// Every shard serves it itself, under whatever class.
const MANAGEMENT: &str = "$management";

/// Names for temporary addresses, hard to guess for who doesn't know the seed.
pub struct TemporaryNames {
    seed: u64,
    count: u64,
    shard: ShardId,
    shards: u16,
}

const ALPHABET: &[u8; 64] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+_";
const RANDOM_CHARS: usize = 20;

impl TemporaryNames {
    /// Names of addresses that this shard owns, of so many: so no two shards make the same one.
    pub fn new(seed: u64, shard: ShardId, shards: u16) -> TemporaryNames {
        TemporaryNames { seed, count: 0, shard, shards }
    }

    /// Puts something behind `prefix` that makes an address of this shard's with the name `rest` of it.
    fn own(&mut self, prefix: &str, rest: &str) -> String {
        loop {
            let mut name = rest.to_owned();
            self.random(&mut name);
            // One of as many as there are shards is.
            if owner(&name, self.shards) == self.shard {
                return format!("{prefix}{name}");
            }
        }
    }

    fn random(&mut self, into: &mut String) {
        use std::hash::{DefaultHasher, Hasher};
        self.count += 1;
        let mut bits: u128 = 0;
        for half in 0..2u64 {
            let mut hasher = DefaultHasher::new();
            hasher.write_u64(self.seed);
            hasher.write_u64(self.count);
            hasher.write_u64(half);
            bits = (bits << 64) | u128::from(hasher.finish());
        }
        for _ in 0..RANDOM_CHARS {
            into.push(ALPHABET[(bits & 63) as usize] as char);
            bits >>= 6;
        }
    }

    /// For a receiver that asks for a dynamic source: an address on this router.
    pub fn local(&mut self, router_id: &str) -> String {
        self.own(&format!("amqp:/_topo/{AREA}/{router_id}/"), "temp.")
    }

    /// For a sender that asks for a dynamic target: an address that a consumer anywhere can take.
    pub fn mobile(&mut self) -> String {
        self.own("amqp:/", "_$temp.")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_and_slashes_are_the_same_address() {
        for text in ["q", "/q", "amqp://h/q", "amqps://h:1/q", "amqp:/q", "q/", "q.", "amqp://h/q/"] {
            assert_eq!(normalise(text), "q", "{text}");
        }
        assert_eq!(normalise("a/b//"), "a/b/");
        assert_eq!(normalise("amqp://h"), "amqp://h");
        assert_eq!(normalise("a:b/c"), "a:b/c");
        assert_eq!(normalise("1:/c"), "1:/c");
        assert_eq!(normalise("/"), "");
        assert_eq!(normalise("amqp://[::1]:5672/x"), "x");
    }

    #[test]
    fn own_topological_addresses_are_local() {
        let of = |text| parse(text, "R");
        assert_eq!(of("_local/x"), Some(Name { class: Class::Local, rest: "x" }));
        assert_eq!(of("amqp:/_topo/0/R/temp.1"), Some(Name { class: Class::Local, rest: "temp.1" }));
        assert_eq!(of("_topo/0/RR/x").map(|name| name.class), Some(Class::Router));
        assert_eq!(of("_topo/all/all/x").map(|name| name.class), Some(Class::Router));
        assert_eq!(of("_edge/R/x").map(|name| name.class), Some(Class::Router));
        assert_eq!(of("_$temp.1"), Some(Name { class: Class::Mobile, rest: "_$temp.1" }));
        assert_eq!(of("/"), None);
    }

    #[test]
    fn temporary_names_differ_and_come_back_as_what_they_are() {
        let mut names = TemporaryNames::new(7, ShardId(0), 1);
        let (a, b, c) = (names.local("R"), names.local("R"), names.mobile());
        assert_ne!(a, b);
        assert_eq!(parse(&a, "R").map(|name| name.class), Some(Class::Local));
        assert_eq!(parse(&c, "R").map(|name| name.class), Some(Class::Mobile));
        assert_ne!(TemporaryNames::new(8, ShardId(0), 1).local("R"), a);
    }

    #[test]
    fn shards_own_about_as_many_names_each() {
        for shards in [2, 3, 4, 16] {
            let mut owned = vec![0u32; usize::from(shards)];
            for name in 0..10_000 {
                owned[usize::from(owner(&format!("queue.{name}"), shards).0)] += 1;
            }
            let even = 10_000.0 / f64::from(shards);
            let off = owned.iter().map(|count| (f64::from(*count) - even).abs() / even).fold(0.0, f64::max);
            // Two shards: a twentieth; chance alone varies more where there are fewer names a shard.
            assert!(off <= if shards == 2 { 0.05 } else { 0.15 }, "{shards} shards: {owned:?}");
        }
    }

    #[test]
    fn a_shard_names_what_it_owns_itself() {
        for shard in 0..4 {
            let mut names = TemporaryNames::new(7, ShardId(shard), 4);
            for _ in 0..50 {
                let (local, mobile) = (names.local("R"), names.mobile());
                assert_eq!(owner_of(&local, "R", 4), Some(ShardId(shard)), "{local}");
                assert_eq!(owner_of(&mobile, "R", 4), Some(ShardId(shard)), "{mobile}");
            }
        }
    }

    #[test]
    fn some_names_are_no_shards_or_each_ones() {
        for text in ["", "/", "_topo/all/all/x", "$management", "/$management", "$events.threshold"] {
            assert_eq!(owner_of(text, "R", 4), None, "{text}");
        }
        assert_eq!(owner_of("amqp://h/q", "R", 4), owner_of("q", "R", 4));
    }
}
