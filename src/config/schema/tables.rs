//! The tables: every entity, every attribute.

use super::Kind::{
    Boolean, Choice, Integer, Items, Map, Milliseconds, Path, Percent, Port, Properties, Quantity, Text, Words,
};
use super::Operation::{Create, Delete, Update};
use super::{Attribute, Entity, Kind, Operation, Served, Unserved};

const fn attribute(name: &'static str, kind: Kind, default: &'static str, description: &'static str) -> Attribute {
    Attribute { default: Some(default), ..unset(name, kind, description) }
}

const fn unset(name: &'static str, kind: Kind, description: &'static str) -> Attribute {
    Attribute {
        name,
        aliases: &[],
        kind,
        default: None,
        is_required: false,
        is_unique: false,
        can_create: true,
        can_update: false,
        is_hidden: false,
        is_deprecated: false,
        description,
        served: Served::Yes,
    }
}

/// What the router says, and nobody else.
const fn told(name: &'static str, kind: Kind, description: &'static str) -> Attribute {
    Attribute { can_create: false, ..unset(name, kind, description) }
}

impl Attribute {
    const fn or(mut self, aliases: &'static [&'static str]) -> Attribute {
        self.aliases = aliases;
        self
    }

    const fn required(mut self) -> Attribute {
        self.is_required = true;
        self
    }

    const fn unique(mut self) -> Attribute {
        self.is_unique = true;
        self
    }

    const fn updated(mut self) -> Attribute {
        self.can_update = true;
        self
    }

    const fn hidden(mut self) -> Attribute {
        self.is_hidden = true;
        self
    }

    const fn deprecated(mut self) -> Attribute {
        self.is_deprecated = true;
        self
    }

    const fn without(mut self, feature: &'static str, instead: &'static str) -> Attribute {
        self.served = Served::DefaultOnly(Unserved { feature, instead, closes: false });
        self
    }

    /// Of a listener: without it, the listener isn't opened.
    const fn closed_without(mut self, feature: &'static str) -> Attribute {
        self.served = Served::DefaultOnly(Unserved { feature, instead: "the listener stays closed", closes: true });
        self
    }

    const fn ignored(mut self, why: &'static str) -> Attribute {
        self.served = Served::WithoutEffect(why);
        self
    }
}

const SECONDS: Kind = Integer(1, 1_000_000);
const ANY_U32: Kind = Integer(0, u32::MAX as u64);
const ANY_U63: Kind = Integer(0, i64::MAX as u64);
const PHASE: Kind = Integer(0, 9);
const DIRECTION: Kind = Choice(&["in", "out"]);
const ROLE: Kind = Choice(&["normal", "inter-router", "route-container", "edge"]);
const FAMILY: Kind = Choice(&["IPv4", "IPv6"]);
const STRIP: Kind = Choice(&["in", "out", "both", "no"]);
const DISTRIBUTION: Kind = Choice(&["multicast", "closest", "balanced", "unavailable"]);
const FLOW_CONTROL: Kind = Choice(&["share", "capacity"]);
const CREDIT_SLACK: Kind = Percent(1000);
const LINK_CAPACITY: Kind = Integer(0, crate::limits::CONSUMER_WINDOW_MAX as u64);
const MODULES: Kind = Choice(&[
    "ROUTER",
    "ROUTER_CORE",
    "ROUTER_HELLO",
    "ROUTER_LS",
    "ROUTER_MA",
    "MESSAGE",
    "SERVER",
    "AGENT",
    "AUTHSERVICE",
    "CONTAINER",
    "ERROR",
    "POLICY",
    "HTTP",
    "CONN_MGR",
    "PYTHON",
    "PROTOCOL",
    "DEFAULT",
]);

const TLS: &str = "TLS";
const SASL: &str = "SASL beyond ANONYMOUS";
const POLICY: &str = "policy";
const BETWEEN: &str = "links between routers";
const WAYPOINTS: &str = "waypoints and phases";
const TENANTS: &str = "multi-tenancy";

/// Attributes that every entity has.
pub const EVERY_ENTITY: &[Attribute] = &[
    unset("name", Text, "A name, of one's own choice; without one the identity is the name").unique(),
    told("identity", Text, "What tells this entity from all others; the router makes it up").unique(),
    told("type", Text, "The type of the entity, with its whole name").required(),
];

const ROUTER: &[Attribute] = &[
    unset("id", Text, "The router's own id in its network and its AMQP container id; a random one where it is absent"),
    attribute(
        "mode",
        Choice(&["standalone", "interior", "edge"]),
        "standalone",
        "Alone, a node of a network, or at its edge",
    )
    .without(BETWEEN, "the router is standalone"),
    told("area", Text, "The area of the network; always 0"),
    told("version", Text, "The version of the router"),
    told("hostName", Text, "The name of the machine"),
    attribute("helloIntervalSeconds", SECONDS, "1", "Seconds between the hellos to neighbouring routers")
        .or(&["helloInterval"]),
    attribute("helloMaxAgeSeconds", SECONDS, "3", "Seconds without a hello after which a neighbour is lost")
        .or(&["helloMaxAge"]),
    attribute("raIntervalSeconds", SECONDS, "30", "Seconds between router advertisements in a stable network")
        .or(&["raInterval"]),
    attribute("raIntervalFluxSeconds", SECONDS, "4", "Seconds between them while the network changes")
        .or(&["raIntervalFlux"]),
    attribute("remoteLsMaxAgeSeconds", SECONDS, "60", "Seconds after which another router's link state is forgotten")
        .or(&["remoteLsMaxAge"]),
    unset(
        "workerThreads",
        Integer(1, 1024),
        "Threads that carry messages, a core each; one for each core where it is absent",
    ),
    unset("debugDumpFile", Path, "Where the buffers are described at the end")
        .or(&["debugDump"])
        .ignored("there are no pools that it would describe"),
    unset("saslConfigDir", Path, "Directories with the SASL library's configuration")
        .or(&["saslConfigPath"])
        .without(SASL, "the directory isn't read"),
    attribute("saslConfigName", Text, "qdrouterd", "Name of the SASL library's configuration, without .conf")
        .without(SASL, "the file isn't read"),
    attribute(
        "allowResumableLinkRoute",
        Boolean,
        "yes",
        "Whether link routes may have links that outlive their connection",
    ),
    attribute("timestampsInUTC", Boolean, "no", "Times in the log are of UTC, not of the machine's zone"),
    unset("timestampFormat", Text, "Format of times in the log, as strftime(3) has it; %%06lu for microseconds"),
    attribute("allowUnsettledMulticast", Boolean, "no", "Unsettled multicast deliveries are always allowed")
        .deprecated()
        .ignored("unsettled multicast is always allowed"),
    attribute(
        "defaultDistribution",
        DISTRIBUTION,
        "balanced",
        "How addresses are treated that no address section matches",
    ),
    unset("metadata", Text, "Any words about the router, shown with it"),
    attribute(
        "flowControl",
        FLOW_CONTROL,
        "share",
        "Senders share what the consumers take, or each has its listener's linkCapacity",
    ),
    attribute(
        "creditSlack",
        CREDIT_SLACK,
        "100",
        "Percent of the consumers' windows that may wait in the router beyond them",
    ),
    attribute(
        "multicastStallSeconds",
        Integer(0, 86_400),
        "2",
        "Seconds without credit after which a multicast consumer is set aside",
    ),
    attribute("drainWait", Milliseconds(60_000), "50", "Milliseconds that a consumer's drain waits for the senders"),
    unset("memoryLimit", Quantity(1024), "Bytes that may be held for peers; half of the machine's memory where absent"),
    attribute("maxConnections", Integer(1, 1 << 24), "65535", "Connections of all listeners at the same time"),
    attribute(
        "busyPollMicroseconds",
        Integer(0, 1_000_000),
        "0",
        "Microseconds that a thread without anything to do looks for more before it sleeps (latency mode)",
    ),
];

const SSL_PROFILE: &[Attribute] = &[
    unset("ciphers", Text, "Ciphers that are allowed, as OpenSSL lists them"),
    unset("protocols", Text, "TLS versions that are allowed"),
    unset("caCertFile", Path, "Certificates of the authorities that are trusted").or(&["certDb"]),
    unset("certFile", Path, "The certificate of the router"),
    unset("privateKeyFile", Path, "The key of that certificate").or(&["keyFile"]),
    unset("passwordFile", Path, "A file with the key's password").deprecated(),
    unset("password", Text, "The key's password: env:NAME, file:PATH, pass:WORD or literal:WORD").hidden(),
    unset("uidFormat", Text, "Which fields of a client's certificate make its user name"),
    unset("uidNameMappingFile", Text, "A file that maps such names to others").or(&["displayNameFile"]),
];

const AUTH_SERVICE_PLUGIN: &[Attribute] = &[
    unset("authService", Text, "host:port of the service").deprecated(),
    attribute("host", Text, "", "The service's host"),
    attribute("port", Port, "amqp", "The service's port"),
    unset("realm", Text, "The host name that the service is asked with").or(&["saslInitHostname"]),
    unset("sslProfile", Text, "The sslProfile of the connection to the service").or(&["authSslProfile"]),
];

const LISTENER: &[Attribute] = &[
    attribute("host", Text, "", "Name or address of the interface; all of them where it is empty"),
    attribute("port", Port, "amqp", "Number or name of the port"),
    unset("socketAddressFamily", FAMILY, "Only addresses of this family").or(&["protocolFamily"]),
    attribute("role", ROLE, "normal", "Who connects: clients, routers, brokers with link routes, edge routers")
        .closed_without("links to routers and brokers"),
    attribute("cost", Integer(1, i32::MAX as u64), "1", "Cost of a link to another router over this listener"),
    unset("sslProfile", Text, "Name of the sslProfile of its connections").closed_without(TLS),
    unset("saslMechanisms", Words, "SASL mechanisms that are offered"),
    attribute("authenticatePeer", Boolean, "no", "Peers have to prove who they are").closed_without(SASL),
    unset("saslPlugin", Text, "Name of the authServicePlugin that is asked").closed_without(SASL),
    attribute("requireEncryption", Boolean, "no", "Connections have to be encrypted").closed_without(TLS),
    attribute("requireSsl", Boolean, "no", "Connections have to be over TLS").closed_without(TLS),
    unset("trustedCertsFile", Path, "Certificates that clients' have to be signed by")
        .or(&["trustedCerts"])
        .closed_without(TLS),
    attribute("maxFrameSize", ANY_U32, "16384", "Largest frame that is taken, in bytes; 512 at least"),
    attribute("maxSessions", ANY_U32, "32768", "Sessions of a connection at the same time"),
    unset("maxSessionFrames", ANY_U32, "Incoming window of a session, in frames"),
    attribute(
        "idleTimeoutSeconds",
        Integer(0, 4_294_967),
        "16",
        "Seconds without a frame after which a peer is lost; 0: never",
    ),
    attribute(
        "initialHandshakeTimeoutSeconds",
        Integer(0, 4_294_967),
        "0",
        "Seconds that a peer has to open its connection; 0: the router's own 60",
    ),
    attribute("maxMessageSize", ANY_U63, "0", "Largest message that is taken, in bytes; 0: any"),
    attribute("maxLinks", Integer(1, 1 << 24), "65536", "Links of a connection at the same time"),
    attribute("maxUnsettled", Integer(1, 1 << 24), "131072", "Unsettled deliveries of a session, each way"),
    attribute("stripAnnotations", STRIP, "both", "Which way the router's own annotations are taken off"),
    attribute("linkCapacity", LINK_CAPACITY, "250", "Deliveries that a link may have outstanding"),
    attribute("multiTenant", Boolean, "no", "Addresses belong to the vhost that a client opened")
        .closed_without(TENANTS),
    unset("failoverUrls", Items, "Where clients turn when the connection is lost")
        .or(&["failoverList"])
        .without("failover lists", "clients aren't told of them"),
    attribute("healthz", Boolean, "yes", "An http listener answers /healthz"),
    attribute("metrics", Boolean, "yes", "An http listener answers /metrics"),
    attribute("websockets", Boolean, "yes", "An http listener takes AMQP over WebSocket; not served yet"),
    attribute("http", Boolean, "no", "It speaks HTTP, and no AMQP"),
    unset("httpRootDir", Path, "Directory of the files that it serves; implies http").or(&["httpRoot"]),
    attribute(
        "messageLoggingComponents",
        Items,
        "none",
        "What of each message is logged: none, all, or names of properties",
    )
    .or(&["logMessage"])
    .without("a log of messages", "messages aren't logged"),
    unset("policyVhost", Text, "The vhost whose policy holds, whatever the client opened")
        .without(POLICY, "nothing is denied"),
    unset("openProperties", Properties, "Properties that the router's open frame has beside its own")
        .without("own open properties", "they aren't sent"),
];

const CONNECTOR: &[Attribute] = &[
    attribute("host", Text, "127.0.0.1", "Name or address of the peer"),
    attribute("port", Port, "amqp", "Number or name of its port"),
    unset("socketAddressFamily", FAMILY, "Only addresses of this family").or(&["protocolFamily"]),
    attribute(
        "role",
        ROLE,
        "normal",
        "What the peer is: a broker, a router, one with link routes, an interior of this edge",
    ),
    attribute("cost", Integer(1, i32::MAX as u64), "1", "Cost of the link to another router"),
    unset("sslProfile", Text, "Name of the sslProfile of the connection"),
    unset("saslMechanisms", Words, "SASL mechanisms that may be used"),
    attribute("allowRedirect", Boolean, "yes", "The peer may name other places to connect to"),
    attribute("maxFrameSize", ANY_U32, "16384", "Largest frame that is taken, in bytes; 512 at least"),
    attribute("maxSessions", ANY_U32, "32768", "Sessions of the connection at the same time"),
    unset("maxSessionFrames", ANY_U32, "Incoming window of a session, in frames"),
    attribute(
        "idleTimeoutSeconds",
        Integer(0, 4_294_967),
        "16",
        "Seconds without a frame after which the peer is lost; 0: never",
    ),
    attribute("stripAnnotations", STRIP, "both", "Which way the router's own annotations are taken off"),
    attribute("linkCapacity", LINK_CAPACITY, "250", "Deliveries that a link may have outstanding"),
    attribute("verifyHostname", Boolean, "yes", "The peer's certificate has to be of the host").or(&["verifyHostName"]),
    unset("saslUsername", Text, "The user that the router is to the peer"),
    unset("saslPassword", Text, "Its password: env:NAME, file:PATH or pass:WORD").hidden(),
    attribute(
        "messageLoggingComponents",
        Items,
        "none",
        "What of each message is logged: none, all, or names of properties",
    )
    .or(&["logMessage"]),
    unset("policyVhost", Text, "The vhost whose policy holds"),
    unset("openProperties", Properties, "Properties that the router's open frame has beside its own"),
    told("failoverUrls", Text, "Where the peer says that others are").or(&["failoverList"]),
    told("connectionStatus", Text, "What the connection is doing"),
    told("connectionMsg", Text, "The last word about it"),
];

const LOG: &[Attribute] = &[
    unset("module", MODULES, "The part of the router that it is about; DEFAULT for those that don't say").required(),
    unset("enable", Text, "Levels that are written: trace, debug, info, notice, warning, error, critical; with + and all above; none, default").updated(),
    unset("includeTimestamp", Boolean, "Each line begins with its time").or(&["timestamp"]).updated(),
    unset("includeSource", Boolean, "Each line ends with its place in the source").or(&["source"]).updated(),
    unset("outputFile", Text, "A file, stdout, stderr or syslog").or(&["output"]).updated(),
];

const ADDRESS: &[Attribute] = &[
    unset("prefix", Text, "Addresses that begin with these tokens"),
    unset("pattern", Text, "Addresses whose tokens match: * any one, # any number"),
    attribute("distribution", DISTRIBUTION, "balanced", "How consumers are chosen"),
    attribute("waypoint", Boolean, "no", "Messages go through a broker's queue on their way")
        .without(WAYPOINTS, "messages go straight on"),
    unset("ingressPhase", PHASE, "Phase in which producers' messages come in").without(WAYPOINTS, "the phase is 0"),
    unset("egressPhase", PHASE, "Phase in which consumers take messages").without(WAYPOINTS, "the phase is 0"),
    unset("priority", PHASE, "Priority of its messages on links between routers"),
    attribute("enableFallback", Boolean, "no", "Messages without a consumer go to a fallback")
        .without("fallback", "there is no fallback"),
    unset("flowControl", FLOW_CONTROL, "As the router's, for this address"),
    unset("creditSlack", CREDIT_SLACK, "As the router's, for this address"),
    unset("alertCountUp", Quantity(1000), "Messages waiting and unsettled: an event on reaching them"),
    unset("alertCountDown", Quantity(1000), "An event on coming down to them again; half of alertCountUp"),
    unset("alertSizeUp", Quantity(1024), "Bytes waiting and unsettled: an event on reaching them"),
    unset("alertSizeDown", Quantity(1024), "An event on coming down to them again; half of alertSizeUp"),
];

const LINK_ROUTE: &[Attribute] = &[
    unset("prefix", Text, "Addresses that begin with these tokens"),
    unset("pattern", Text, "Addresses whose tokens match: * any one, # any number"),
    unset("addExternalPrefix", Text, "Put in front of the address on its way to the container"),
    unset("delExternalPrefix", Text, "Taken off the address on its way to the container"),
    unset("containerId", Text, "The container whose links are routed"),
    unset("connection", Text, "Name of the connector or listener whose links are routed"),
    attribute("distribution", Choice(&["linkBalanced"]), "linkBalanced", "How containers are chosen"),
    unset("direction", DIRECTION, "in for senders, out for receivers, as the router sees them").or(&["dir"]).required(),
    told("operStatus", Choice(&["inactive", "active"]), "Whether a container is there"),
];

const AUTO_LINK: &[Attribute] = &[
    unset("address", Text, "The address whose messages the link carries").or(&["addr"]).required(),
    unset("direction", DIRECTION, "in from the container, out to it").or(&["dir"]).required(),
    unset("phase", PHASE, "The address's phase; 1 for in, 0 for out where it is absent"),
    unset("containerId", Text, "The container that the link goes to"),
    unset("connection", Text, "Name of the connector or listener that it goes over"),
    unset("externalAddress", Text, "What the address is called in the container").or(&["externalAddr"]),
    attribute("fallback", Boolean, "no", "It is the fallback of the address"),
    told("linkRef", Text, "Identity of the link, while there is one"),
    told(
        "operStatus",
        Choice(&["inactive", "attaching", "failed", "active", "quiescing", "idle"]),
        "How far the link is",
    ),
    told("lastError", Text, "Why the last attempt failed"),
];

const EXCHANGE: &[Attribute] = &[
    unset("address", Text, "Messages to this address are matched with the bindings").required(),
    unset("phase", PHASE, "Phase of the address"),
    unset("alternateAddress", Text, "Where messages go that nothing matches"),
    unset("alternatePhase", PHASE, "Phase of that address"),
    attribute("matchMethod", Choice(&["amqp", "mqtt"]), "amqp", "How keys are matched"),
    told("bindingCount", ANY_U63, "Bindings of the exchange"),
    told("receivedCount", ANY_U63, "Messages that came"),
    told("droppedCount", ANY_U63, "Messages that nothing matched"),
    told("forwardedCount", ANY_U63, "Messages that went on"),
    told("divertedCount", ANY_U63, "Messages that went to the alternate address"),
];

const BINDING: &[Attribute] = &[
    unset("exchangeName", Text, "Name of the exchange").required(),
    unset("bindingKey", Text, "Subjects that match; all where it is absent"),
    unset("nextHopAddress", Text, "Where messages that match go").required(),
    unset("nextHopPhase", PHASE, "Phase of that address"),
    told("matchedCount", ANY_U63, "Messages that matched"),
];

const CONNECTION_LINK_ROUTE: &[Attribute] = &[
    unset("pattern", Text, "Addresses whose links are routed over the connection that asks").required(),
    unset("direction", DIRECTION, "in for senders, out for receivers, as the router sees them").required(),
    told("containerId", Text, "The container at the other end of the connection"),
];

const POLICY_ATTRIBUTES: &[Attribute] = &[
    attribute("maxConnections", Integer(0, 65_535), "65535", "Clients' connections at the same time"),
    attribute("maxMessageSize", ANY_U63, "0", "Largest message from a client, in bytes; 0: any"),
    attribute("enableVhostPolicy", Boolean, "no", "The vhosts' limits hold"),
    attribute("enableVhostNamePatterns", Boolean, "no", "Names of vhosts are patterns"),
    attribute("policyDir", Path, "", "A directory whose .json files have vhosts"),
    attribute("defaultVhost", Text, "$default", "The vhost of clients whose own isn't known"),
    told("connectionsProcessed", ANY_U63, "Connections so far"),
    told("connectionsDenied", ANY_U63, "Connections that were denied"),
    told("connectionsCurrent", ANY_U63, "Connections at present"),
    told("linksDenied", ANY_U63, "Links that were denied"),
    told("maxMessageSizeDenied", ANY_U63, "Messages that were too large"),
    told("totalDenials", ANY_U63, "All that was denied"),
];

const VHOST: &[Attribute] = &[
    unset("hostname", Text, "The host name of clients' opens that it is for").or(&["id"]).required(),
    unset("aliases", Items, "Other names of it").updated(),
    attribute("maxConnections", Integer(0, 65_535), "65535", "Connections at the same time").updated(),
    unset("maxMessageSize", ANY_U63, "Largest message, in bytes; 0: any").updated(),
    attribute("maxConnectionsPerUser", Integer(0, 65_535), "65535", "Connections of a user").updated(),
    attribute("maxConnectionsPerHost", Integer(0, 65_535), "65535", "Connections from a host").updated(),
    attribute("allowUnknownUser", Boolean, "no", "Users of no group may connect, as the group $default").updated(),
    unset("groups", Map, "Groups of users and what each may do").updated(),
];

const GROUP: &[Attribute] = &[
    unset("users", Items, "Names of the users, * for all").required(),
    unset("remoteHosts", Items, "Hosts that they may connect from: names, addresses, ranges, * for all").required(),
    unset("maxConnectionsPerUser", Integer(0, 65_535), "Connections of a user"),
    unset("maxConnectionsPerHost", Integer(0, 65_535), "Connections from a host"),
    unset("maxMessageSize", ANY_U63, "Largest message, in bytes; 0: any"),
    unset("maxFrameSize", ANY_U32, "Largest frame, in bytes"),
    unset("maxSessionWindow", ANY_U32, "Incoming window of a session, in bytes"),
    unset("maxSessions", ANY_U32, "Sessions of a connection"),
    attribute("maxSenders", ANY_U32, "2147483647", "Senders of a connection"),
    attribute("maxReceivers", ANY_U32, "2147483647", "Receivers of a connection"),
    attribute("allowDynamicSource", Boolean, "no", "Receivers with an address that the router makes"),
    attribute("allowAnonymousSender", Boolean, "no", "Senders without an address"),
    attribute("allowUserIdProxy", Boolean, "no", "Messages with another's user id"),
    attribute("allowWaypointLinks", Boolean, "yes", "Links of waypoints"),
    attribute("allowDynamicLinkRoutes", Boolean, "yes", "Link routes of the connection's own"),
    attribute("allowAdminStatusUpdate", Boolean, "yes", "Closing connections by management"),
    attribute("allowFallbackLinks", Boolean, "yes", "Links of a fallback"),
    unset("sources", Items, "Addresses that may be received from: names, names that end in *"),
    unset("targets", Items, "Addresses that may be sent to: names, names that end in *"),
    unset("sourcePattern", Items, "Patterns of addresses that may be received from"),
    unset("targetPattern", Items, "Patterns of addresses that may be sent to"),
];

const fn entity(
    name: &'static str,
    operations: &'static [Operation],
    attributes: &'static [Attribute],
    description: &'static str,
) -> Entity {
    Entity {
        name,
        type_name: name,
        description,
        is_single: false,
        is_in_files: true,
        operations,
        attributes,
        unserved: None,
    }
}

impl Entity {
    const fn of_type(mut self, type_name: &'static str) -> Entity {
        self.type_name = type_name;
        self
    }

    const fn single(mut self) -> Entity {
        self.is_single = true;
        self
    }

    const fn not_in_files(mut self) -> Entity {
        self.is_in_files = false;
        self
    }

    const fn unserved(mut self, feature: &'static str, instead: &'static str) -> Entity {
        self.unserved = Some(Unserved { feature, instead, closes: false });
        self
    }
}

const fn foreign(name: &'static str) -> Entity {
    entity(name, &[Create, Delete], &[], "A listener or connector for another protocol")
        .unserved("other protocols", "it is left out")
}

/// All entities that can be configured. One without attributes takes any: it is refused as a whole, and management doesn't
/// have it.
pub const ENTITIES: &[Entity] = &[
    entity("router", &[], ROUTER, "The router as a whole").single(),
    entity(
        "sslProfile",
        &[Create, Delete],
        SSL_PROFILE,
        "Certificates and settings of TLS, for listeners and connectors",
    )
    .unserved(TLS, "it is left out"),
    entity("authServicePlugin", &[Create, Delete], AUTH_SERVICE_PLUGIN, "A service that proves who users are")
        .unserved(SASL, "it is left out"),
    entity("listener", &[Create, Delete], LISTENER, "A port on which connections are accepted"),
    entity("connector", &[Create, Delete], CONNECTOR, "A connection that the router makes and keeps")
        .unserved("connections that the router makes", "it isn't made"),
    entity("log", &[Update], LOG, "What is logged of a part of the router, and where"),
    entity("address", &[Create, Delete], ADDRESS, "How messages to some addresses are treated")
        .of_type("router.config.address"),
    entity("linkRoute", &[Create, Delete], LINK_ROUTE, "Addresses whose links go to a container as a whole")
        .of_type("router.config.linkRoute")
        .unserved("link routes", "its links aren't routed"),
    entity("autoLink", &[Create, Delete], AUTO_LINK, "A link that the router attaches to a container by itself")
        .of_type("router.config.autoLink")
        .unserved("autolinks", "the link isn't attached"),
    entity("exchange", &[Create, Delete], EXCHANGE, "An address whose messages go on by their subject")
        .of_type("router.config.exchange")
        .unserved("exchanges", "it is left out"),
    entity("binding", &[Create, Delete], BINDING, "Which messages of an exchange go where")
        .of_type("router.config.binding")
        .unserved("exchanges", "it is left out"),
    entity(
        "connectionLinkRoute",
        &[Create, Delete],
        CONNECTION_LINK_ROUTE,
        "A link route that lives as long as the connection that asked for it",
    )
    .of_type("router.connection.linkRoute")
    .not_in_files()
    .unserved("link routes", "its links aren't routed"),
    entity("policy", &[], POLICY_ATTRIBUTES, "Limits of what clients may do")
        .single()
        .unserved(POLICY, "nothing is denied"),
    entity("vhost", &[Create, Update, Delete], VHOST, "What the clients of a host name may do")
        .unserved(POLICY, "nothing is denied"),
    entity("vhostUserGroupSettings", &[], GROUP, "What a group of a vhost's users may do")
        .not_in_files()
        .unserved(POLICY, "nothing is denied"),
    foreign("tcpListener"),
    foreign("tcpConnector"),
    foreign("httpListener"),
    foreign("httpConnector"),
];
