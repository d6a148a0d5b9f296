//! Binding listeners' sockets, with errors that say what to do.

use crate::config::{AddressFamily, ListenerConfig};
use socket2::{Domain, Protocol, Socket, Type};
use std::fmt;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, ToSocketAddrs};
use std::time::{Duration, Instant};

/// Connections that the kernel holds until they are accepted; it caps this at net.core.somaxconn.
const BACKLOG: i32 = 4096;

/// How long an address may stay in use: the kernel takes a killed router's ring apart, and its sockets with it, some time after
/// the process is gone.
const PATIENCE: Duration = Duration::from_secs(1);

/// A listener that can't listen.
#[derive(Debug)]
pub struct BindError {
    /// The `listener` section's line.
    pub line: usize,
    /// `host:port`, as configured or as resolved.
    pub place: String,
    pub error: io::Error,
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "listener: can't listen on {}: ", self.place)?;
        match self.error.kind() {
            ErrorKind::AddrInUse => {
                write!(f, "the address is in use by another process (`ss -ltnp` shows which)")
            }
            ErrorKind::PermissionDenied => {
                write!(f, "permission denied (a port below 1024 needs CAP_NET_BIND_SERVICE)")
            }
            ErrorKind::AddrNotAvailable => write!(f, "no interface of this machine has this address"),
            _ => write!(f, "{}", self.error),
        }
    }
}

/// The listening sockets of a listener: one for each address that its host stands for.
pub fn bind(listener: &ListenerConfig) -> Result<Vec<TcpListener>, BindError> {
    let fault = |place: String| move |error| BindError { line: listener.line, place, error };
    if listener.host.is_empty() {
        return bind_all(listener).map(|socket| vec![socket]);
    }
    let place = format!("{}:{}", listener.host, listener.port);
    let host = listener.host.trim_start_matches('[').trim_end_matches(']');
    let resolved = (host, listener.port).to_socket_addrs().map_err(fault(place.clone()))?;
    let mut addresses: Vec<SocketAddr> =
        resolved.filter(|address| is_of(listener.socket_address_family, address)).collect();
    addresses.sort();
    addresses.dedup();
    if addresses.is_empty() {
        let error = io::Error::new(ErrorKind::NotFound, "the host has no address of that family");
        return Err(fault(place)(error));
    }
    addresses.into_iter().map(|address| bind_one(address, true).map_err(fault(address.to_string()))).collect()
}

fn is_of(family: Option<AddressFamily>, address: &SocketAddr) -> bool {
    match family {
        None => true,
        Some(AddressFamily::Ipv4) => address.is_ipv4(),
        Some(AddressFamily::Ipv6) => address.is_ipv6(),
    }
}

/// All addresses of the machine: one socket for both families where the kernel has IPv6, else for IPv4.
fn bind_all(listener: &ListenerConfig) -> Result<TcpListener, BindError> {
    let v6 = SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), listener.port);
    let v4 = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), listener.port);
    let result = match listener.socket_address_family {
        Some(AddressFamily::Ipv4) => bind_one(v4, false),
        Some(AddressFamily::Ipv6) => bind_one(v6, true),
        None => match bind_one(v6, false) {
            Err(error) if matches!(error.raw_os_error(), Some(libc::EAFNOSUPPORT | libc::EADDRNOTAVAIL)) => {
                bind_one(v4, false)
            }
            result => result,
        },
    };
    result.map_err(|error| BindError { line: listener.line, place: format!("*:{}", listener.port), error })
}

fn bind_one(address: SocketAddr, only_v6: bool) -> io::Result<TcpListener> {
    let begin = Instant::now();
    loop {
        match bind_now(address, only_v6) {
            Err(error) if error.kind() == ErrorKind::AddrInUse && begin.elapsed() < PATIENCE => {
                std::thread::sleep(PATIENCE / 20);
            }
            result => return result,
        }
    }
}

fn bind_now(address: SocketAddr, only_v6: bool) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        socket.set_only_v6(only_v6)?;
    }
    // A restart must not wait for the old connections' TIME_WAIT.
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listener(text: &str) -> ListenerConfig {
        crate::config::load(&format!("listener {{\n{text}\n}}\n"), "test.conf").unwrap().listeners.remove(0)
    }

    #[test]
    fn an_address_in_use_is_called_so() {
        let first = bind(&listener("host: 127.0.0.1\nport: 0")).unwrap();
        let port = first[0].local_addr().unwrap().port();
        let error = bind(&listener(&format!("host: 127.0.0.1\nport: {port}"))).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "listener: can't listen on 127.0.0.1:{port}: the address is in use by another process (`ss -ltnp` shows which)"
            )
        );
    }

    #[test]
    fn an_address_that_is_given_up_soon_is_waited_for() {
        let first = bind(&listener("host: 127.0.0.1\nport: 0")).unwrap();
        let port = first[0].local_addr().unwrap().port();
        let holder = std::thread::spawn(move || {
            std::thread::sleep(PATIENCE / 4);
            drop(first);
        });
        bind(&listener(&format!("host: 127.0.0.1\nport: {port}"))).unwrap();
        holder.join().unwrap();
    }

    #[test]
    fn no_host_is_all_addresses_of_both_families() {
        let sockets = bind(&listener("port: 0")).unwrap();
        let port = sockets[0].local_addr().unwrap().port();
        std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
        assert_eq!(sockets.len(), 1);
    }

    #[test]
    fn a_family_chooses_among_a_hosts_addresses() {
        let sockets = bind(&listener("host: localhost\nport: 0\nsocketAddressFamily: IPv4")).unwrap();
        assert!(sockets.iter().all(|socket| socket.local_addr().unwrap().is_ipv4()));
        let error = bind(&listener("host: 127.0.0.1\nport: 0\nsocketAddressFamily: IPv6")).unwrap_err();
        assert!(error.to_string().ends_with("the host has no address of that family"), "{error}");
    }

    #[test]
    fn an_address_of_no_interface() {
        let error = bind(&listener("host: 192.0.2.1\nport: 0")).unwrap_err();
        assert!(error.to_string().ends_with("no interface of this machine has this address"), "{error}");
    }
}
