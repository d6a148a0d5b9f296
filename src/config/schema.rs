//! What a configuration may say: entities, their attributes with types, defaults and older names, and what of it
//! this version serves. The tables are in `tables`; here are their words, and the look-ups in them.
//!
//! Files are checked by it, and management's schema is this table too, so a value that a file may have is one that a
//! request may have.

mod tables;

use super::problem::closest;
pub use tables::{ENTITIES, EVERY_ENTITY};

/// What all types have in front in management: `org.apache.qpid.dispatch.listener`.
pub const TYPE_PREFIX: &str = "org.apache.qpid.dispatch.";

/// A kind of thing that can be configured.
#[derive(Debug)]
pub struct Entity {
    /// As a file has it: `address`.
    pub name: &'static str,
    /// As management has it, without [`TYPE_PREFIX`]: `router.config.address`.
    pub type_name: &'static str,
    pub description: &'static str,
    /// At most one in a file, and exactly one in management.
    pub is_single: bool,
    /// Whether a file may have it; the others are only for management.
    pub is_in_files: bool,
    /// What management may do with it beside READ, which is always there.
    pub operations: &'static [Operation],
    /// Its own attributes, in the order in which they are shown; [`EVERY_ENTITY`] has the ones of all.
    pub attributes: &'static [Attribute],
    /// None: this version serves it. Else what isn't there, and what the router does without it.
    pub unserved: Option<Unserved>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    Create,
    Read,
    Update,
    Delete,
}

impl Operation {
    pub fn name(self) -> &'static str {
        match self {
            Operation::Create => "CREATE",
            Operation::Read => "READ",
            Operation::Update => "UPDATE",
            Operation::Delete => "DELETE",
        }
    }
}

#[derive(Debug)]
pub struct Attribute {
    pub name: &'static str,
    /// Older names that are still accepted; management shows the first beside the name.
    pub aliases: &'static [&'static str],
    pub kind: Kind,
    /// As a file would have it; None: unset.
    pub default: Option<&'static str>,
    pub is_required: bool,
    /// No two entities of a type have the same value.
    pub is_unique: bool,
    /// May be given in a file or by CREATE. What may be neither created nor updated is the router's to say.
    pub can_create: bool,
    pub can_update: bool,
    /// Its value is never shown.
    pub is_hidden: bool,
    /// Accepted for old files' sake.
    pub is_deprecated: bool,
    pub description: &'static str,
    pub served: Served,
}

/// What an attribute's value may be. What a file has is text; management's type of it is [`Kind::type_name`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Text,
    Path,
    Boolean,
    /// From the first to the second.
    Integer(u64, u64),
    /// One of these words.
    Choice(&'static [&'static str]),
    /// Words between commas or spaces, or a JSON array of them; text in management.
    Words,
    /// Items between commas, or a JSON array of them; text in management.
    Items,
    /// A list in management, never in a file.
    List,
    /// A map of maps: groups of a vhost.
    Map,
    /// A map that becomes properties of an open frame.
    Properties,
    /// A number, `amqp`, `amqps` or another service's name; text in management.
    Port,
    /// An integer with `%` behind it or not, at most this.
    Percent(u64),
    /// An integer with `ms` behind it or not, at most this.
    Milliseconds(u64),
    /// An integer with a suffix k, m or g: powers of this.
    Quantity(u64),
}

impl Kind {
    /// Management's word for the type. None: it is one of [`Kind::Choice`]'s words.
    pub fn type_name(self) -> Option<&'static str> {
        match self {
            Kind::Text | Kind::Words | Kind::Items | Kind::Port => Some("string"),
            Kind::Path => Some("path"),
            Kind::Boolean => Some("boolean"),
            Kind::Integer(..) | Kind::Percent(_) | Kind::Milliseconds(_) | Kind::Quantity(_) => Some("integer"),
            Kind::Choice(_) => None,
            Kind::List => Some("list"),
            Kind::Map => Some("map"),
            Kind::Properties => Some("properties"),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Served {
    /// Every value; what it does is done.
    Yes,
    /// The default only (unset or empty, where there is none).
    DefaultOnly(Unserved),
    /// Every value is accepted and does nothing. Why.
    WithoutEffect(&'static str),
}

/// What this version doesn't serve.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unserved {
    /// The feature that is missing.
    pub feature: &'static str,
    /// What the router does instead, where it is told to start without it.
    pub instead: &'static str,
    /// The listener that has it isn't opened then: what it promises can't be kept.
    pub closes: bool,
}

impl Attribute {
    fn is_named(&self, name: &str) -> bool {
        is_same_name(self.name, name) || self.aliases.iter().any(|alias| is_same_name(alias, name))
    }
}

impl Entity {
    /// The attribute of this name, older names included.
    pub fn attribute(&self, name: &str) -> Option<&'static Attribute> {
        self.attributes.iter().chain(EVERY_ENTITY).find(|attribute| attribute.is_named(name))
    }

    /// Management's whole name of the type.
    pub fn long_name(&self) -> String {
        format!("{TYPE_PREFIX}{}", self.type_name)
    }
}

/// Sections of the time before 1.0, and what is written in their place.
const OLD_ENTITIES: &[(&str, &str)] = &[
    ("container", "its attributes are the router's now: 'router { id: … workerThreads: … saslConfigDir: … }'"),
    ("fixedAddress", "write 'address { prefix: … distribution: … }'"),
    ("waypoint", "write 'address { prefix: … waypoint: yes }' and two 'autoLink' sections"),
    ("linkRoutePattern", "write 'linkRoute { prefix: … direction: in }' and the same with 'out'"),
    ("console", "write 'listener { port: … http: yes }'"),
];

/// Attributes of the time before 1.0: entity, name, what is written in its place.
const OLD_ATTRIBUTES: &[(&str, &str, &str)] = &[
    ("router", "routerId", "write 'id: …'"),
    ("router", "mobileAddrMaxAge", "leave it out"),
    ("router", "containerName", "write 'id: …'"),
    ("address", "fanout", "write 'distribution: multicast' for 'multiple', 'closest' or 'balanced' for 'single'"),
    ("address", "bias", "write 'distribution: closest' for 'closest', 'distribution: balanced' for 'spread'"),
    ("address", "phase", "write 'ingressPhase: …' and 'egressPhase: …'"),
    ("listener", "addr", "write 'host: …'"),
    ("listener", "allowNoSasl", "write 'authenticatePeer: no' for 'yes', 'yes' for 'no'"),
    ("listener", "requirePeerAuth", "write 'authenticatePeer: …'"),
    ("listener", "allowUnsecured", "write 'requireSsl: no' for 'yes', 'yes' for 'no'"),
    ("connector", "addr", "write 'host: …'"),
    ("listener", "label", "write 'name: …'"),
    ("connector", "label", "write 'name: …'"),
];

/// Whether `written` is `name`, or its form with hyphens (`max-frame-size` for `maxFrameSize`).
pub(super) fn is_same_name(name: &str, written: &str) -> bool {
    if !written.contains('-') {
        return name == written;
    }
    let mut letters = name.chars();
    let is_equal =
        written.chars().filter(|c| *c != '-').all(|c| letters.next().is_some_and(|l| l.eq_ignore_ascii_case(&c)));
    is_equal && letters.next().is_none()
}

/// The entity of that name, short or long.
pub fn find(name: &str) -> Option<&'static Entity> {
    let short = name.strip_prefix(TYPE_PREFIX).unwrap_or(name);
    ENTITIES.iter().find(|entity| is_same_name(entity.name, short) || entity.type_name == short)
}

/// The entity of a file's section, or what is to be said about a section of that name.
pub(super) fn entity(written: &str) -> Result<&'static Entity, String> {
    match find(written) {
        Some(entity) if entity.is_in_files => return Ok(entity),
        Some(entity) => return Err(format!("{}: can't be given in a file", entity.name)),
        None => {}
    }
    let short = written.strip_prefix(TYPE_PREFIX).unwrap_or(written);
    Err(match OLD_ENTITIES.iter().find(|(name, _)| is_same_name(name, short)) {
        Some((name, instead)) => format!("{name}: a section of the time before 1.0: {instead}"),
        None => {
            let known = ENTITIES.iter().filter(|entity| entity.is_in_files).map(|entity| entity.name);
            format!("unknown section '{written}'{}", did_you_mean(closest(short, known)))
        }
    })
}

/// The attribute of that name, or what is to be said about it.
pub(super) fn attribute_of(entity: &'static Entity, written: &str) -> Result<&'static Attribute, String> {
    match entity.attribute(written) {
        Some(attribute) if attribute.can_create => return Ok(attribute),
        Some(attribute) => return Err(format!("'{}' can't be given: the router says it", attribute.name)),
        None => {}
    }
    let old = OLD_ATTRIBUTES.iter().find(|(of, name, _)| *of == entity.name && is_same_name(name, written));
    Err(match old {
        Some((_, name, instead)) => format!("'{name}' is of the time before 1.0: {instead}"),
        None => {
            let all = entity.attributes.iter().chain(EVERY_ENTITY);
            let known = all.filter(|attribute| attribute.can_create).map(|attribute| attribute.name);
            format!("unknown attribute '{written}'{}", did_you_mean(closest(written, known)))
        }
    })
}

pub(super) fn did_you_mean(suggestion: Option<&str>) -> String {
    suggestion.map(|word| format!("; did you mean '{word}'?")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::value;
    use super::*;

    #[test]
    fn every_default_is_a_value_of_its_attribute() {
        for entity in ENTITIES {
            for attribute in entity.attributes {
                if let Some(default) = attribute.default {
                    value::parse_text(attribute, default).unwrap_or_else(|e| panic!("{}: {e}", attribute.name));
                }
                assert!(!(attribute.is_required && attribute.default.is_some()), "{}", attribute.name);
            }
        }
    }

    #[test]
    fn no_name_stands_for_two_things() {
        for (index, entity) in ENTITIES.iter().enumerate() {
            assert!(ENTITIES[..index].iter().all(|e| e.name != entity.name && e.type_name != entity.type_name));
            let mut names: Vec<_> =
                entity.attributes.iter().chain(EVERY_ENTITY).flat_map(|a| a.aliases.iter().chain([&a.name])).collect();
            names.sort();
            let count = names.len();
            names.dedup();
            assert_eq!(names.len(), count, "{}", entity.name);
        }
    }

    #[test]
    fn entities_by_each_of_their_names() {
        for name in ["address", "router.config.address", "org.apache.qpid.dispatch.router.config.address"] {
            assert_eq!(find(name).unwrap().name, "address");
        }
        assert_eq!(find("ssl-profile").unwrap().long_name(), "org.apache.qpid.dispatch.sslProfile");
        assert!(find("router.address").is_none());
    }

    /// What a reader of the README learns is served is served, and the rest isn't.
    #[test]
    fn the_readme_has_what_is_served() {
        let readme = include_str!("../../README.md");
        let timers = ["helloInterval", "helloMaxAge", "raInterval", "remoteLsMaxAge"];
        for entity in ENTITIES.iter().filter(|entity| entity.is_in_files && entity.unserved.is_none()) {
            let begin = format!("| `{}` | ", entity.name);
            let row = readme.lines().find(|line| line.starts_with(&begin) && line.matches(" | ").count() == 2);
            let row = row.unwrap_or_else(|| panic!("{} isn't in the table", entity.name));
            let (served, refused) = row[begin.len()..].split_once(" | ").unwrap();
            let own = readme.split_once("Attributes beside").unwrap().1;
            for attribute in entity.attributes.iter().filter(|attribute| attribute.can_create) {
                let has = |text: &str| text.contains(&format!("`{}", attribute.name));
                match attribute.served {
                    Served::Yes if timers.iter().any(|timer| attribute.name.starts_with(timer)) => {}
                    Served::Yes => assert!(has(served) || has(own), "{} is served", attribute.name),
                    Served::DefaultOnly(_) => assert!(has(refused), "{} isn't served", attribute.name),
                    Served::WithoutEffect(_) => assert!(has(readme), "{} has no effect", attribute.name),
                }
            }
        }
    }

    #[test]
    fn names_with_hyphens() {
        assert!(is_same_name("maxFrameSize", "max-frame-size"));
        assert!(is_same_name("timestampsInUTC", "timestamps-in-utc"));
        assert!(is_same_name("host", "host"));
        assert!(!is_same_name("maxFrameSize", "maxframesize"));
        assert!(!is_same_name("maxFrameSize", "max-frame"));
        assert!(!is_same_name("max", "max-frame"));
    }
}
