//! What a configuration may say: entities, their attributes with types, defaults and older names, and what of it
//! this version serves. Tables, and the look-ups in them.

use super::problem::closest;

pub(super) struct Entity {
    pub name: &'static str,
    /// At most one in a file.
    pub is_single: bool,
    /// Empty where this version doesn't serve the entity at all.
    pub attributes: &'static [Attribute],
}

pub(super) struct Attribute {
    pub name: &'static str,
    /// Older names that are still accepted.
    pub aliases: &'static [&'static str],
    pub kind: Kind,
    /// As a file would have it; None: unset.
    pub default: Option<&'static str>,
    pub served: Served,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Text,
    Boolean,
    /// From the first to the second.
    Integer(u64, u64),
    /// One of these words.
    Choice(&'static [&'static str]),
    /// Words between commas or spaces.
    List,
    Map,
    /// A number, `amqp` or `amqps`.
    Port,
    /// An integer with `%` behind it or not, at most this.
    Percent(u64),
    /// An integer with `ms` behind it or not, at most this.
    Milliseconds(u64),
    /// An integer with a suffix k, m or g: powers of this.
    Quantity(u64),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Served {
    /// Every value; what it does is done.
    Yes,
    /// The default only (unset or empty, where there is none).
    DefaultOnly,
}

const fn attribute(name: &'static str, kind: Kind, default: &'static str) -> Attribute {
    Attribute { name, aliases: &[], kind, default: Some(default), served: Served::Yes }
}

const fn unset(name: &'static str, kind: Kind) -> Attribute {
    Attribute { name, aliases: &[], kind, default: None, served: Served::Yes }
}

impl Attribute {
    const fn or(mut self, aliases: &'static [&'static str]) -> Attribute {
        self.aliases = aliases;
        self
    }

    const fn default_only(mut self) -> Attribute {
        self.served = Served::DefaultOnly;
        self
    }

    fn is_named(&self, name: &str) -> bool {
        is_same_name(self.name, name) || self.aliases.iter().any(|alias| is_same_name(alias, name))
    }
}

use Kind::{Boolean, Choice, Integer, List, Map, Milliseconds, Percent, Port, Quantity, Text};

const SECONDS: Kind = Integer(1, 1_000_000);
const ANY_U32: Kind = Integer(0, u32::MAX as u64);
const DISTRIBUTION: Kind = Choice(&["multicast", "closest", "balanced", "unavailable"]);
const FLOW_CONTROL: Kind = Choice(&["share", "capacity"]);
const CREDIT_SLACK: Kind = Percent(1000);
const STALL_SECONDS: Kind = Integer(0, 86_400);
const DRAIN_WAIT: Kind = Milliseconds(60_000);

const ROUTER: &[Attribute] = &[
    unset("name", Text),
    unset("id", Text),
    attribute("mode", Choice(&["standalone", "interior", "edge"]), "standalone").default_only(),
    attribute("helloIntervalSeconds", SECONDS, "1").or(&["helloInterval"]),
    attribute("helloMaxAgeSeconds", SECONDS, "3").or(&["helloMaxAge"]),
    attribute("raIntervalSeconds", SECONDS, "30").or(&["raInterval"]),
    attribute("raIntervalFluxSeconds", SECONDS, "4").or(&["raIntervalFlux"]),
    attribute("remoteLsMaxAgeSeconds", SECONDS, "60").or(&["remoteLsMaxAge"]),
    attribute("workerThreads", Integer(1, 1024), "4"),
    unset("debugDumpFile", Text).or(&["debugDump"]).default_only(),
    unset("saslConfigDir", Text).or(&["saslConfigPath"]).default_only(),
    attribute("saslConfigName", Text, "qdrouterd").default_only(),
    // Of link routes, which aren't there: nothing that it could allow or forbid.
    attribute("allowResumableLinkRoute", Boolean, "yes"),
    attribute("timestampsInUTC", Boolean, "no"),
    unset("timestampFormat", Text),
    attribute("defaultDistribution", DISTRIBUTION, "balanced"),
    unset("metadata", Text),
    attribute("flowControl", FLOW_CONTROL, "share"),
    attribute("creditSlack", CREDIT_SLACK, "100"),
    attribute("multicastStallSeconds", STALL_SECONDS, "2"),
    attribute("drainWait", DRAIN_WAIT, "50"),
];

const LISTENER: &[Attribute] = &[
    unset("name", Text),
    attribute("host", Text, ""),
    attribute("port", Port, "amqp"),
    unset("socketAddressFamily", Choice(&["IPv4", "IPv6"])).or(&["protocolFamily"]),
    attribute("role", Choice(&["normal", "inter-router", "route-container", "edge"]), "normal").default_only(),
    // Of inter-router listeners; the others have it without effect.
    attribute("cost", Integer(1, i32::MAX as u64), "1"),
    unset("sslProfile", Text).default_only(),
    // Which mechanisms are served is checked apart, name by name.
    unset("saslMechanisms", List),
    attribute("authenticatePeer", Boolean, "no"),
    unset("saslPlugin", Text).default_only(),
    attribute("requireEncryption", Boolean, "no").default_only(),
    attribute("requireSsl", Boolean, "no").default_only(),
    attribute("maxFrameSize", ANY_U32, "16384"),
    attribute("maxSessions", ANY_U32, "32768"),
    unset("maxSessionFrames", ANY_U32),
    attribute("idleTimeoutSeconds", Integer(0, 4_294_967), "16"),
    attribute("initialHandshakeTimeoutSeconds", Integer(0, 4_294_967), "0").default_only(),
    attribute("stripAnnotations", Choice(&["in", "out", "both", "no"]), "both").default_only(),
    attribute("linkCapacity", Integer(0, crate::limits::CONSUMER_WINDOW_MAX as u64), "250"),
    attribute("multiTenant", Boolean, "no").default_only(),
    unset("failoverUrls", List).or(&["failoverList"]).default_only(),
    // These three say what an http listener serves, which this version has none of.
    attribute("healthz", Boolean, "yes"),
    attribute("metrics", Boolean, "yes"),
    attribute("websockets", Boolean, "yes"),
    attribute("http", Boolean, "no").default_only(),
    unset("httpRootDir", Text).or(&["httpRoot"]).default_only(),
    attribute("messageLoggingComponents", List, "none").or(&["logMessage"]).default_only(),
    unset("policyVhost", Text).default_only(),
    unset("openProperties", Map).default_only(),
];

const ADDRESS: &[Attribute] = &[
    unset("name", Text),
    unset("prefix", Text),
    unset("pattern", Text),
    attribute("distribution", DISTRIBUTION, "balanced"),
    attribute("waypoint", Boolean, "no").default_only(),
    attribute("ingressPhase", Integer(0, 9), "0").default_only(),
    attribute("egressPhase", Integer(0, 9), "0").default_only(),
    unset("priority", Integer(0, 9)),
    attribute("enableFallback", Boolean, "no").default_only(),
    // Unset: the router's.
    unset("flowControl", FLOW_CONTROL),
    unset("creditSlack", CREDIT_SLACK),
    unset("alertCountUp", Quantity(1000)),
    unset("alertCountDown", Quantity(1000)),
    unset("alertSizeUp", Quantity(1024)),
    unset("alertSizeDown", Quantity(1024)),
];

const LOG: &[Attribute] = &[
    unset("name", Text),
    unset("module", Text),
    unset("enable", Text),
    unset("includeTimestamp", Boolean).or(&["timestamp"]),
    unset("includeSource", Boolean).or(&["source"]),
    unset("outputFile", Text).or(&["output"]),
];

const fn served(name: &'static str, is_single: bool, attributes: &'static [Attribute]) -> Entity {
    Entity { name, is_single, attributes }
}

const fn not_served(name: &'static str) -> Entity {
    Entity { name, is_single: false, attributes: &[] }
}

pub(super) const ENTITIES: &[Entity] = &[
    served("router", true, ROUTER),
    served("listener", false, LISTENER),
    served("address", false, ADDRESS),
    served("log", false, LOG),
    not_served("connector"),
    not_served("sslProfile"),
    not_served("authServicePlugin"),
    not_served("linkRoute"),
    not_served("autoLink"),
    not_served("exchange"),
    not_served("binding"),
    not_served("policy"),
    not_served("vhost"),
    not_served("tcpListener"),
    not_served("tcpConnector"),
    not_served("httpListener"),
    not_served("httpConnector"),
];

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

/// The entity of a section, or what is to be said about a section of that name.
pub(super) fn entity(written: &str) -> Result<&'static Entity, String> {
    let short = written.strip_prefix("org.apache.qpid.dispatch.").unwrap_or(written);
    let short = short.strip_prefix("router.config.").unwrap_or(short);
    match ENTITIES.iter().find(|entity| is_same_name(entity.name, short)) {
        Some(entity) if entity.attributes.is_empty() => Err(format!("{}: not served by this version", entity.name)),
        Some(entity) => Ok(entity),
        None => Err(match OLD_ENTITIES.iter().find(|(name, _)| is_same_name(name, short)) {
            Some((name, instead)) => format!("{name}: a section of the time before 1.0: {instead}"),
            None => {
                let known = ENTITIES.iter().map(|entity| entity.name);
                format!("unknown section '{written}'{}", did_you_mean(closest(short, known)))
            }
        }),
    }
}

/// The attribute of that name, or what is to be said about it.
pub(super) fn attribute_of(entity: &'static Entity, written: &str) -> Result<&'static Attribute, String> {
    if let Some(attribute) = entity.attributes.iter().find(|attribute| attribute.is_named(written)) {
        return Ok(attribute);
    }
    let old = OLD_ATTRIBUTES.iter().find(|(of, name, _)| *of == entity.name && is_same_name(name, written));
    Err(match old {
        Some((_, name, instead)) => format!("'{name}' is of the time before 1.0: {instead}"),
        None => {
            let known = entity.attributes.iter().map(|attribute| attribute.name);
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
