//! Where to connect to, as tools are told: `[amqp://][user[:password]@]host[:port][/address]`.

/// A URL's parts, percent-encoding undone.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Url {
    /// `amqps`: over TLS.
    pub is_tls: bool,
    pub user: Option<String>,
    pub password: Option<String>,
    pub host: String,
    pub port: u16,
    /// What follows the first `/`.
    pub address: Option<String>,
}

const PORT_AMQP: u16 = 5672;
const PORT_AMQPS: u16 = 5671;

impl std::fmt::Debug for Url {
    /// As [`std::fmt::Display`]: a password isn't shown.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self}")
    }
}

impl std::fmt::Display for Url {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let scheme = if self.is_tls { "amqps" } else { "amqp" };
        match self.host.contains(':') {
            true => write!(f, "{scheme}://[{}]:{}", self.host, self.port),
            false => write!(f, "{scheme}://{}:{}", self.host, self.port),
        }
    }
}

impl std::str::FromStr for Url {
    type Err = String;

    fn from_str(text: &str) -> Result<Url, String> {
        let (scheme, rest) = text.split_once("://").unwrap_or(("amqp", text));
        let is_tls = match scheme {
            "amqp" => false,
            "amqps" => true,
            _ => return Err(format!("'{text}': the scheme is amqp or amqps, not '{scheme}'")),
        };
        let (authority, address) = match rest.split_once('/') {
            Some((authority, address)) => (authority, Some(decode(address))),
            None => (rest, None),
        };
        let (login, place) = match authority.rsplit_once('@') {
            Some((login, place)) => (Some(login), place),
            None => (None, authority),
        };
        let (user, password) = match login.map(|login| login.split_once(':').unwrap_or((login, ""))) {
            Some((user, password)) => (given(user), given(password)),
            None => (None, None),
        };
        let (host, port) =
            host_and_port(place).ok_or_else(|| format!("'{text}': '{place}' is no host or host:port"))?;
        let port = port.unwrap_or(if is_tls { PORT_AMQPS } else { PORT_AMQP });
        let address = address.filter(|address| !address.is_empty());
        Ok(Url { is_tls, user, password, host: host.to_owned(), port, address })
    }
}

fn given(part: &str) -> Option<String> {
    (!part.is_empty()).then(|| decode(part))
}

/// None: neither `host`, nor `host:port`, nor either with an IPv6 address in brackets.
fn host_and_port(place: &str) -> Option<(&str, Option<u16>)> {
    let (host, port) = match place.strip_prefix('[') {
        Some(rest) => {
            let (host, behind) = rest.split_once(']')?;
            match behind.strip_prefix(':') {
                Some(port) => (host, Some(port)),
                None if behind.is_empty() => (host, None),
                None => return None,
            }
        }
        // More than one colon: an IPv6 address without brackets has no port.
        None if place.matches(':').count() > 1 => (place, None),
        None => match place.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (place, None),
        },
    };
    let host = if host.is_empty() { "0.0.0.0" } else { host };
    let port = match port {
        None => None,
        Some("amqp") => Some(PORT_AMQP),
        Some("amqps") => Some(PORT_AMQPS),
        Some(port) => Some(port.parse().ok()?),
    };
    Some((host, port))
}

/// `%40` is `@`; what isn't such a code stays as it is.
fn decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, behind @ ..] = rest {
        let hex = behind.get(..2).filter(|_| *first == b'%').and_then(|hex| std::str::from_utf8(hex).ok());
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &behind[2..];
            }
            None => {
                bytes.push(*first);
                rest = behind;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str) -> (String, u16) {
        let url: Url = text.parse().unwrap();
        (url.host, url.port)
    }

    #[test]
    fn hosts_and_ports() {
        for (text, host, port) in [
            ("0.0.0.0", "0.0.0.0", 5672),
            ("router.example:5673", "router.example", 5673),
            ("amqp://localhost", "localhost", 5672),
            ("amqps://localhost", "localhost", 5671),
            ("localhost:amqp", "localhost", 5672),
            ("[::1]:7", "::1", 7),
            ("amqp://[::1]", "::1", 5672),
            ("::1", "::1", 5672),
            (":5673", "0.0.0.0", 5673),
        ] {
            assert_eq!(parts(text), (host.to_owned(), port), "{text}");
        }
        for text in ["localhost:x", "localhost:70000", "http://localhost", "[::1", "[::1]x"] {
            assert!(text.parse::<Url>().is_err(), "{text}");
        }
    }

    #[test]
    fn credentials_and_addresses() {
        let url: Url = "amqp://ann%40home:p%3Aw%2F@host:1/_topo/0/A/$management".parse().unwrap();
        assert_eq!((url.user.as_deref(), url.password.as_deref()), (Some("ann@home"), Some("p:w/")));
        assert_eq!(url.address.as_deref(), Some("_topo/0/A/$management"));
        assert_eq!(url.to_string(), "amqp://host:1");
        let url: Url = "ann@host/".parse().unwrap();
        assert_eq!((url.user.as_deref(), url.password, url.address), (Some("ann"), None, None));
        assert_eq!(decode("50%"), "50%");
    }
}
