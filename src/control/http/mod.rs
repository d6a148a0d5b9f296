//! HTTP on the listeners that say `http: yes`: health, metrics, files. Plain text of a few paths; no AMQP.
//!
//! Owns: those listeners' sockets and connections. Doesn't: touch what shards serve; it asks them for figures, by pages and at
//! most once a second, however many scrape.
//! Driven by: control's runtime, on tokio's own sockets, whose operations may be dropped.
//!
//! Invariants:
//! - a client costs a bounded time and memory: so long for a request's head, so long in all, so many connections; who comes
//!   when there are that many takes the place of the oldest, so that slow ones keep nobody out;
//! - what a client sees is at most a second old.
//!
//! Files: `answer` (a request's), `metrics` (what they say), `text` (how that is written), `process` (what the kernel knows).

mod answer;
mod metrics;
mod process;
mod text;

use super::shards::{Collected, Shards};
use crate::config::ListenerConfig;
use crate::dispatch::{RouterRow, Table};
use bytes::Bytes;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use metrics::Figures;
pub(super) use process::memory_bytes;
use process::Process;
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;
use tokio::task::{AbortHandle, JoinHandle};
use tower_http::services::fs::{DefaultServeDirFallback, ServeDir};

/// Connections of all HTTP listeners.
const CONNECTIONS_MAX: usize = 128;
/// How long a request's head may take to arrive, the pause before it included.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// How long a connection may last: requests one after another, answers however slowly they are taken.
const LIFE: Duration = Duration::from_secs(60);
/// What of that is left to finish the last answer.
const LAST_ANSWER: Duration = Duration::from_secs(10);
/// A request's head.
const HEAD_BYTES_MAX: usize = 16 * 1024;
const HEADERS_MAX: usize = 64;

/// How long what shards said is good.
const FRESH: Duration = Duration::from_secs(1);
/// How long they may take to say it.
const PATIENCE: Duration = Duration::from_secs(5);
/// Until a listener that can't accept (for want of descriptors, say) tries again.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

type Files = ServeDir<DefaultServeDirFallback>;

/// A listener's bound socket, to be served once control runs.
pub struct Bound {
    pub socket: std::net::TcpListener,
    pub site: Rc<Site>,
}

/// What a listener serves.
pub struct Site {
    /// Its listener's, in management.
    identity: String,
    healthz: bool,
    metrics: bool,
    files: Option<Files>,
}

impl Site {
    pub fn new(listener: &ListenerConfig) -> Site {
        let files = listener.http_root_dir.as_ref().map(ServeDir::new);
        Site { identity: listener.identity(), healthz: listener.healthz, metrics: listener.metrics, files }
    }
}

/// All HTTP listeners.
pub struct Http {
    shards: Rc<Shards>,
    started: SystemTime,
    /// Those that accept, by their listener's identity.
    open: RefCell<HashMap<String, Vec<JoinHandle<()>>>>,
    /// The oldest first.
    connections: RefCell<VecDeque<(u64, AbortHandle)>>,
    next: Cell<u64>,
    /// When all shards answered.
    healthy_at: Cell<Option<Instant>>,
    /// The metrics' text, and when it was made.
    kept: Mutex<Option<(Instant, Bytes)>>,
}

impl Http {
    pub fn new(shards: Rc<Shards>, started: SystemTime) -> Rc<Http> {
        Rc::new(Http {
            shards,
            started,
            open: RefCell::default(),
            connections: RefCell::default(),
            next: Cell::new(0),
            healthy_at: Cell::new(None),
            kept: Mutex::new(None),
        })
    }

    /// Serves on a bound socket from now on.
    pub fn listen(self: &Rc<Http>, bound: Bound) -> io::Result<()> {
        bound.socket.set_nonblocking(true)?;
        let socket = TcpListener::from_std(bound.socket)?;
        let identity = bound.site.identity.clone();
        let accepting = tokio_uring::spawn(self.clone().accept(bound.site, socket));
        self.open.borrow_mut().entry(identity).or_default().push(accepting);
        Ok(())
    }

    /// Closes a listener's sockets, which are free for another one then; its connections live on for what is left of their
    /// time.
    pub async fn close(&self, identity: &str) {
        let open = self.open.borrow_mut().remove(identity);
        for accepting in open.into_iter().flatten() {
            accepting.abort();
            let _ = accepting.await;
        }
    }

    async fn accept(self: Rc<Http>, site: Rc<Site>, socket: TcpListener) {
        loop {
            match socket.accept().await {
                Ok((stream, _)) => self.clone().serve(site.clone(), stream),
                Err(_) => tokio::time::sleep(ACCEPT_RETRY).await,
            }
        }
    }

    /// Serves one connection, in the place of the oldest where there are too many.
    fn serve(self: Rc<Http>, site: Rc<Site>, stream: TcpStream) {
        let id = self.next.replace(self.next.get() + 1);
        let http = self.clone();
        let serving = tokio_uring::spawn(async move {
            http.converse(&site, stream).await;
            http.connections.borrow_mut().retain(|(other, _)| *other != id);
        });
        let mut connections = self.connections.borrow_mut();
        if connections.len() >= CONNECTIONS_MAX {
            if let Some((_, oldest)) = connections.pop_front() {
                oldest.abort();
            }
        }
        connections.push_back((id, serving.abort_handle()));
    }

    async fn converse(&self, site: &Site, stream: TcpStream) {
        let service = service_fn(|request| async { Ok::<_, Infallible>(self.answer(site, request).await) });
        let mut connection = std::pin::pin!(http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIME)
            .max_buf_size(HEAD_BYTES_MAX)
            .max_headers(HEADERS_MAX)
            .serve_connection(TokioIo::new(stream), service));
        // What went wrong on the way is the client's; it is gone.
        if tokio::time::timeout(LIFE - LAST_ANSWER, connection.as_mut()).await.is_err() {
            connection.as_mut().graceful_shutdown();
            let _ = tokio::time::timeout(LAST_ANSWER, connection).await;
        }
    }

    /// Whether every shard answers, or did a moment ago.
    async fn is_healthy(&self) -> bool {
        let is_fresh = self.healthy_at.get().is_some_and(|at| at.elapsed() < FRESH);
        is_fresh || self.router().await.is_some()
    }

    async fn router(&self) -> Option<Rc<RouterRow>> {
        match in_time(self.shards.collect(Table::Router)).await? {
            Collected::Router(row) => {
                self.healthy_at.set(Some(Instant::now()));
                Some(row)
            }
            _ => None,
        }
    }

    /// What `/metrics` says. None: the shards don't answer.
    async fn metrics_text(&self) -> Option<Bytes> {
        // Who asks meanwhile waits here, and finds it made.
        let mut kept = self.kept.lock().await;
        if let Some((_, text)) = kept.as_ref().filter(|(made, _)| made.elapsed() < FRESH) {
            return Some(text.clone());
        }
        let Collected::Addresses(addresses) = in_time(self.shards.collect(Table::Addresses)).await? else {
            return None;
        };
        let Collected::Links(links) = in_time(self.shards.collect(Table::Links)).await? else { return None };
        // Behind the addresses, whose reading completes the times of all.
        let router = self.router().await?;
        let links_blocked = links.iter().filter(|row| row.routing.is_blocked()).count() as u64;
        let process = Process::read(self.started);
        let figures = Figures { router: &router, links_blocked, addresses: &addresses, process };
        let text = Bytes::from(metrics::text(&figures));
        *kept = Some((Instant::now(), text.clone()));
        Some(text)
    }
}

async fn in_time<T>(answer: impl Future<Output = Option<T>>) -> Option<T> {
    tokio::time::timeout(PATIENCE, answer).await.ok().flatten()
}
