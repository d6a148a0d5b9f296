//! One request's answer.

use super::text;
use super::{Http, Site};
use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Body as HttpBody;
use hyper::header::{HeaderValue, ALLOW, CONNECTION, CONTENT_TYPE, UPGRADE};
use hyper::{Method, Request, Response, StatusCode};
use std::io;

pub type Body = UnsyncBoxBody<Bytes, io::Error>;

const PLAIN: &str = "text/plain; charset=utf-8";

impl Http {
    /// The answer to a request on a listener of this site.
    pub(super) async fn answer<B>(&self, site: &Site, request: Request<B>) -> Response<Body>
    where
        B: HttpBody + Send + 'static,
    {
        if request.headers().contains_key(UPGRADE) {
            return refuse_upgrade();
        }
        if request.method() != Method::GET && request.method() != Method::HEAD {
            let mut response = short(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD are served here\n");
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return response;
        }
        match request.uri().path() {
            "/healthz" if site.healthz => self.health().await,
            "/metrics" if site.metrics => self.metrics().await,
            path => match &site.files {
                Some(files) => from_directory(files.clone(), request).await,
                None if path == "/" => short(StatusCode::OK, &front(site)),
                None => not_found(),
            },
        }
    }

    async fn health(&self) -> Response<Body> {
        match self.is_healthy().await {
            true => short(StatusCode::OK, "OK\n"),
            false => unavailable(),
        }
    }

    async fn metrics(&self) -> Response<Body> {
        match self.metrics_text().await {
            Some(all) => response(StatusCode::OK, text::CONTENT_TYPE, all),
            None => unavailable(),
        }
    }
}

/// WebSocket is what clients ask for on such a port, and AMQP over it isn't served.
fn refuse_upgrade() -> Response<Body> {
    let mut response = short(StatusCode::NOT_IMPLEMENTED, "no other protocol is served over HTTP\n");
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

fn unavailable() -> Response<Body> {
    short(StatusCode::SERVICE_UNAVAILABLE, "the router doesn't answer in time\n")
}

fn not_found() -> Response<Body> {
    short(StatusCode::NOT_FOUND, "not found\n")
}

/// What `/` says where there are no files.
fn front(site: &Site) -> String {
    let mut text = format!("ringway {}\n", env!("CARGO_PKG_VERSION"));
    for (is_served, path) in [(site.healthz, "/healthz"), (site.metrics, "/metrics")] {
        if is_served {
            text.push_str(path);
            text.push('\n');
        }
    }
    text
}

/// A file of the site's directory. Paths that would lead out of it are not found.
async fn from_directory<B>(mut files: super::Files, request: Request<B>) -> Response<Body>
where
    B: HttpBody + Send + 'static,
{
    match files.try_call(request).await {
        Ok(found) if found.status() == StatusCode::NOT_FOUND => not_found(),
        Ok(found) => found.map(|body| body.boxed_unsync()),
        Err(_) => short(StatusCode::INTERNAL_SERVER_ERROR, "the file can't be read\n"),
    }
}

fn short(status: StatusCode, text: &str) -> Response<Body> {
    response(status, PLAIN, Bytes::copy_from_slice(text.as_bytes()))
}

fn response(status: StatusCode, content_type: &'static str, bytes: Bytes) -> Response<Body> {
    let body = Full::new(bytes).map_err(|never| match never {}).boxed_unsync();
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}
