//! How the tools reach a router: options that they share, and a connection that blocks.

use super::failure::Failure;
use crate::client::url::Url;
use crate::client::{Client, PRODUCT};
use crate::engine::{Event, Settings};
use crate::payload::Range;
use crate::security::Login;
use crate::time::Time;
use clap::Args;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Bytes of one read.
const READ_BYTES: usize = 64 * 1024;

/// Where to connect to, and as whom.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Connection options")]
pub struct ConnectOptions {
    /// The router to connect to: [amqp://][user:password@]host[:port][/address]
    #[arg(short = 'b', long = "bus", value_name = "URL", default_value = "0.0.0.0")]
    pub bus: Url,
    /// Seconds to wait for a connection, and for each answer
    #[arg(short = 't', long, value_name = "SECS", default_value_t = 5.0)]
    pub timeout: f64,
    /// SASL mechanisms that may be used, separated by commas or spaces
    #[arg(long, value_name = "SASL-MECHANISMS")]
    pub sasl_mechanisms: Option<String>,
    /// User for SASL PLAIN
    #[arg(long, value_name = "SASL-USERNAME")]
    pub sasl_username: Option<String>,
    /// Password for SASL PLAIN
    #[arg(long, value_name = "SASL-PASSWORD")]
    pub sasl_password: Option<String>,
    /// A file that holds the password for SASL PLAIN
    #[arg(long, value_name = "SASL-PASSWORD-FILE")]
    pub sasl_password_file: Option<PathBuf>,
    /// The client's certificate (TLS isn't available yet, nor are the other --ssl options)
    #[arg(long, value_name = "CERT")]
    pub ssl_certificate: Option<PathBuf>,
    /// The certificate's private key
    #[arg(long, value_name = "KEY")]
    pub ssl_key: Option<PathBuf>,
    /// Certificates of the authorities that are trusted
    #[arg(long, value_name = "TRUSTED-CA-DB")]
    pub ssl_trustfile: Option<PathBuf>,
    /// The private key's password
    #[arg(long, value_name = "PASSWORD")]
    pub ssl_password: Option<String>,
    /// A file that holds the private key's password
    #[arg(long, value_name = "SSL-PASSWORD-FILE")]
    pub ssl_password_file: Option<PathBuf>,
    /// Trust a peer whose certificate names another host
    #[arg(long)]
    pub ssl_disable_peer_name_verify: bool,
}

impl ConnectOptions {
    pub fn timeout(&self) -> Result<Duration, Failure> {
        Duration::try_from_secs_f64(self.timeout)
            .map_err(|_| Failure::new(format!("--timeout: {} is no number of seconds", self.timeout)))
    }

    fn refuse_tls(&self) -> Result<(), Failure> {
        let options = [
            ("--ssl-certificate", self.ssl_certificate.is_some()),
            ("--ssl-key", self.ssl_key.is_some()),
            ("--ssl-trustfile", self.ssl_trustfile.is_some()),
            ("--ssl-password", self.ssl_password.is_some()),
            ("--ssl-password-file", self.ssl_password_file.is_some()),
            ("--ssl-disable-peer-name-verify", self.ssl_disable_peer_name_verify),
            ("amqps:", self.bus.is_tls),
        ];
        match options.iter().find(|(_, given)| *given) {
            Some((option, _)) => Err(Failure::new(format!("{option}: TLS isn't available yet; connect without it"))),
            None => Ok(()),
        }
    }

    /// A connected socket, nothing said on it yet.
    pub fn connect(&self) -> Result<TcpStream, Failure> {
        self.refuse_tls()?;
        let (timeout, place) = (self.timeout()?, &self.bus);
        let fail = |error: std::io::Error| Failure::new(format!("{place}: {error}"));
        let addresses = (place.host.as_str(), place.port).to_socket_addrs().map_err(fail)?;
        let mut last = std::io::Error::new(ErrorKind::NotFound, "the host has no address");
        for address in addresses {
            // Zero isn't taken for a time-out.
            match TcpStream::connect_timeout(&address, timeout.max(Duration::from_millis(1))) {
                Ok(stream) => return Ok(stream),
                Err(error) => last = error,
            }
        }
        Err(fail(last))
    }

    /// Who the options say we are; None: nobody in particular.
    fn login(&self) -> Result<Option<Login>, Failure> {
        let password = match &self.sasl_password_file {
            Some(file) => {
                let text = std::fs::read_to_string(file);
                let text = text.map_err(|error| Failure::new(format!("{}: {error}", file.display())))?;
                Some(text.trim().to_owned())
            }
            None => self.sasl_password.clone().or_else(|| self.bus.password.clone()),
        };
        let user = self.sasl_username.clone().or_else(|| self.bus.user.clone());
        let mechanisms = self.sasl_mechanisms.as_deref().map(|names| {
            let names = names.split([',', ' ']).filter(|name| !name.is_empty());
            names.map(str::to_owned).collect()
        });
        let given = password.is_some() || user.is_some() || mechanisms.is_some();
        Ok(given.then_some(Login { mechanisms, user, password }))
    }
}

/// One open connection. Nothing happens on it but while one of its methods waits.
pub struct Connection {
    pub client: Client,
    /// How it was logged in: None: without a SASL layer.
    pub login: Option<Login>,
    stream: TcpStream,
    origin: Instant,
    timeout: Duration,
    buffer: Box<[u8]>,
}

impl Connection {
    /// Connects and opens. Without credentials it tries without a SASL layer first, as management tools always did, and
    /// as ANONYMOUS where the peer wants one.
    pub fn open(options: &ConnectOptions) -> Result<Connection, Failure> {
        let login = options.login()?;
        let mut connection = Connection::dial(options, login.clone())?;
        let mut opened = connection.wait_open();
        if opened.is_err() && connection.client.peer_asks_for_sasl() {
            connection = Connection::dial(options, Some(Login::anonymous()))?;
            opened = connection.wait_open();
        }
        if connection.client.peer_has_no_sasl() {
            return Err(Failure::new(format!(
                "{}: the peer has no authentication; leave the credentials out",
                options.bus
            )));
        }
        opened.map_err(|failure| Failure::new(format!("{}: {failure}", options.bus)))?;
        Ok(connection)
    }

    fn dial(options: &ConnectOptions, login: Option<Login>) -> Result<Connection, Failure> {
        let stream = options.connect()?;
        let fail = |error: std::io::Error| Failure::new(format!("{}: {error}", options.bus));
        Connection::over(stream, &options.bus.host, login, options.timeout()?).map_err(fail)
    }

    fn over(stream: TcpStream, host: &str, login: Option<Login>, timeout: Duration) -> std::io::Result<Connection> {
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(timeout.max(Duration::from_millis(1))))?;
        let settings = Settings {
            container_id: format!("{PRODUCT}-{}-{:x}", std::process::id(), start_nanoseconds()),
            hostname: Some(host.to_owned()),
            product: PRODUCT,
            capabilities: &[],
            // The tools are silent between two questions, and so is the router.
            idle_timeout: Duration::ZERO,
            ..Settings::default()
        };
        let client = Client::new(settings, login.clone(), Time::ZERO);
        let buffer = vec![0; READ_BYTES].into_boxed_slice();
        Ok(Connection { client, login, stream, origin: Instant::now(), timeout, buffer })
    }

    /// How long one answer may take from now on.
    pub fn deadline(&self) -> Instant {
        Instant::now() + self.timeout
    }

    fn wait_open(&mut self) -> Result<(), Failure> {
        let deadline = self.deadline();
        loop {
            if let Event::Opened(_) = self.wait_event(deadline, "its open")? {
                return Ok(());
            }
        }
    }

    /// The next event. The connection's end is a failure, and so is the deadline: `what` is what was waited for.
    pub fn wait_event(&mut self, deadline: Instant, what: &str) -> Result<Event, Failure> {
        loop {
            let event = self.client.poll_event();
            self.flush()?;
            match event {
                Some(Event::Closed { error }) => {
                    let why = error.map(|error| format!("{}: {}", error.condition, error.description));
                    let ours = || self.client.engine.close_reason().map(|fault| fault.description.clone());
                    let why = why.or_else(ours).unwrap_or_else(|| "the peer closed the connection".to_owned());
                    return Err(Failure::new(why));
                }
                Some(event) => return Ok(event),
                None if self.client.engine.has_work() => {}
                None => self.read(deadline, what)?,
            }
        }
    }

    /// Reads what came and says what is due, without waiting.
    pub fn breathe(&mut self) -> Result<(), Failure> {
        let deadline = Instant::now() + Duration::from_millis(1);
        loop {
            match self.wait_event(deadline, "") {
                Err(Failure::Timeout(_)) => return Ok(()),
                other => drop(other?),
            }
        }
    }

    fn now(&self) -> Time {
        Time::ZERO + self.origin.elapsed()
    }

    fn flush(&mut self) -> Result<(), Failure> {
        while let Some(output) = self.client.engine.poll_transmit() {
            for slice in output.slices() {
                self.stream.write_all(slice)?;
            }
        }
        Ok(())
    }

    /// Waits for input, the engine's own time-out, or the deadline.
    fn read(&mut self, deadline: Instant, what: &str) -> Result<(), Failure> {
        let now = self.now();
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Failure::timeout(what));
        }
        let due = self.client.engine.poll_timeout();
        let wait = due.map_or(left, |due| left.min(due.since(now)));
        self.stream.set_read_timeout(Some(wait.max(Duration::from_millis(1))))?;
        let read = self.stream.read(&mut self.buffer);
        let now = self.now();
        match read {
            Ok(0) => self.client.engine.handle_end_of_stream(now),
            Ok(count) => self.client.engine.handle_input(Range::copied(&self.buffer[..count]), now),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                if due.is_some_and(|due| now >= due) {
                    self.client.engine.handle_timeout(now);
                }
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Closes in order; how the peer takes it is no matter.
    pub fn close(mut self) {
        self.client.engine.close(None);
        let deadline = Instant::now() + self.timeout.min(Duration::from_secs(1));
        while self.wait_event(deadline, "").is_ok() {}
    }
}

/// Tells two tools apart that were started with the same process id.
fn start_nanoseconds() -> u128 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos())
}
