//! HTTP/2 to a service behind us, without TLS and from the first byte on: one connection for each
//! address, shared by all requests, made anew when it has ended, is old, or is told to go.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use h2::Reason;
use hyper::body::{Body as HttpBody, Incoming};
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper::header;
use hyper::http::uri::{Authority, PathAndQuery, Scheme};
use hyper::{Method, Request, Response, Uri, Version};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::body::{self, Body};
use super::failure::UpstreamError;
use super::origin::{Origin, PROBE_EVERY};

const STREAM_WINDOW: u32 = 256 * 1024;
const CONNECTION_WINDOW: u32 = 4 * 1024 * 1024;
const SEND_BUFFER: usize = 64 * 1024;
/// A service's response head, in bytes.
const HEAD_BYTES_MAX: u32 = 256 * 1024;
/// A connection with requests on it that answers no ping is dead.
const PING_EVERY: Duration = Duration::from_secs(10);
const PING_ANSWER_MAX: Duration = Duration::from_secs(20);

/// The connections to all addresses of a service.
#[derive(Debug)]
pub(super) struct Shared {
    slots: Vec<Slot>,
    next: AtomicUsize,
}

#[derive(Debug)]
struct Slot {
    origin: Arc<Origin>,
    line: Mutex<Option<Line>>,
    /// Whoever makes a new connection makes it for all who wait.
    dialling: Semaphore,
}

/// One connection.
#[derive(Debug, Clone)]
struct Line {
    sender: SendRequest<Body>,
    born: Instant,
    /// It has carried a request.
    used: Arc<AtomicBool>,
}

/// A connection to send on.
pub(super) struct Taken<'a> {
    slot: &'a Slot,
    line: Line,
    was_used: bool,
}

impl Shared {
    pub(super) fn new(origins: &[Arc<Origin>]) -> Self {
        let slot = |origin: &Arc<Origin>| Slot {
            origin: Arc::clone(origin),
            line: Mutex::default(),
            dialling: Semaphore::new(1),
        };
        Self { slots: origins.iter().map(slot).collect(), next: AtomicUsize::new(0) }
    }

    /// A connection to the next address in turn, or to one after it if that cannot be reached.
    /// Those that are down are passed over, unless all are.
    pub(super) async fn take(&self, connect_max: Duration) -> Result<Taken<'_>, UpstreamError> {
        let first = self.next.fetch_add(1, Ordering::Relaxed);
        let mut failure = UpstreamError::ConnectTimeout;
        let now = std::time::Instant::now();
        let all_shunned = self.slots.iter().all(|slot| slot.origin.well().is_shunned(now));
        for step in 0..self.slots.len() {
            let slot = &self.slots[first.wrapping_add(step) % self.slots.len()];
            if !all_shunned && slot.origin.well().is_shunned(now) {
                continue;
            }
            match slot.line(connect_max).await {
                Ok(line) => {
                    let was_used = line.used.swap(true, Ordering::Relaxed);
                    return Ok(Taken { slot, line, was_used });
                }
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    /// Asks every address whether it is there: by a socket, or by a request if it has been mute.
    pub(super) async fn probe(&self, wait_max: Duration) {
        join_all(self.slots.iter().map(|slot| slot.probe(wait_max))).await;
    }
}

impl Slot {
    async fn probe(&self, wait_max: Duration) {
        let origin = &self.origin;
        if origin.well().answered_within(std::time::Instant::now(), PROBE_EVERY) {
            return;
        }
        if !origin.well().is_mute() {
            drop(origin.reach(wait_max).await);
            return;
        }
        let asking = async {
            let mut request = Request::new(body::empty());
            *request.method_mut() = Method::HEAD;
            *request.version_mut() = Version::HTTP_2;
            *request.uri_mut() = format!("http://{origin}/").parse().ok()?;
            let mut line = self.line(wait_max).await.ok()?;
            line.sender.send_request(request).await.ok()
        };
        if let Ok(Some(_response)) = tokio::time::timeout(wait_max, asking).await {
            origin.answered();
        }
    }

    /// The connection there is, or a new one.
    async fn line(&self, connect_max: Duration) -> Result<Line, UpstreamError> {
        if let Some(line) = self.open_line() {
            return Ok(line);
        }
        let _turn = self.dialling.acquire().await.map_err(|_| UpstreamError::ConnectTimeout)?;
        if let Some(line) = self.open_line() {
            return Ok(line);
        }
        let stream = self.origin.reach(connect_max).await?;
        let (sender, connection) = Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_send_buf_size(SEND_BUFFER)
            .max_header_list_size(HEAD_BYTES_MAX)
            .keep_alive_interval(PING_EVERY)
            .keep_alive_timeout(PING_ANSWER_MAX)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(UpstreamError::Broken)?;
        #[expect(
            clippy::disallowed_methods,
            reason = "ends with its senders, so it needs no stop of its own"
        )]
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "an HTTP/2 connection to a service behind us broke");
            }
        });
        let line = Line { sender, born: Instant::now(), used: Arc::default() };
        *self.slot() = Some(line.clone());
        Ok(line)
    }

    /// One that is neither closed nor old; an old one ends with its requests.
    fn open_line(&self) -> Option<Line> {
        let mut slot = self.slot();
        let age_max = self.origin.age_max();
        let is_good = |line: &Line| !line.sender.is_closed() && line.born.elapsed() < age_max;
        if !slot.as_ref().is_some_and(is_good) {
            *slot = None;
        }
        slot.clone()
    }

    fn slot(&self) -> std::sync::MutexGuard<'_, Option<Line>> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why a request got no answer, and what may be sent again.
pub(super) struct Unanswered {
    /// As it was, if nothing of it was sent.
    pub(super) unsent: Option<Request<Body>>,
    /// The service says that it did nothing.
    pub(super) is_refused: bool,
    /// Its connection died, having served others before.
    pub(super) was_stale: bool,
    pub(super) error: hyper::Error,
}

impl Taken<'_> {
    pub(super) fn origin(&self) -> &Origin {
        &self.slot.origin
    }

    /// Sends a request; as many wait as the service allows no streams for.
    pub(super) async fn send(
        &self,
        request: Request<Body>,
    ) -> Result<Response<Incoming>, Unanswered> {
        match self.line.sender.clone().try_send_request(request).await {
            Ok(response) => Ok(response),
            Err(mut failed) => {
                let unsent = failed.take_message();
                let error = failed.into_error();
                let cause = std::error::Error::source(&error);
                let cause = cause.and_then(|cause| cause.downcast_ref::<h2::Error>());
                // Only a reset is about one stream; anything else is about the connection.
                let is_reset = cause.is_some_and(h2::Error::is_reset);
                let of_body = cause.is_none() && error.is_user();
                if unsent.is_some() || !(is_reset || of_body) {
                    self.forget();
                }
                let refused = |error: &h2::Error| {
                    error.is_remote() && error.reason() == Some(Reason::REFUSED_STREAM)
                };
                let is_refused = cause.is_some_and(refused);
                let was_stale = self.was_used && !is_reset && !of_body;
                Err(Unanswered { unsent, is_refused, was_stale, error })
            }
        }
    }

    /// Nobody takes this connection any more; what is under way on it goes on.
    fn forget(&self) {
        let mut slot = self.slot.slot();
        if slot.as_ref().is_some_and(|line| Arc::ptr_eq(&line.used, &self.line.used)) {
            *slot = None;
        }
    }
}

/// A request as HTTP/2 writes it: the host in the target, no framing of another protocol.
pub(super) fn rewritten(mut request: Request<Body>) -> Request<Body> {
    let host = request.headers_mut().remove(header::HOST);
    request.headers_mut().remove(header::TRANSFER_ENCODING);
    let authority = host.and_then(|host| Authority::try_from(host.as_bytes()).ok());
    let path = request.uri().path_and_query().cloned();
    let path = path.unwrap_or_else(|| PathAndQuery::from_static("/"));
    if let Some(authority) = authority {
        let uri = Uri::builder().scheme(Scheme::HTTP).authority(authority).path_and_query(path);
        if let Ok(uri) = uri.build() {
            *request.uri_mut() = uri;
        }
    }
    *request.version_mut() = Version::HTTP_2;
    request
}

/// A second copy of a bodiless request, and whether it may be sent again even if the first may have
/// been acted on.
pub(super) fn copy(request: &Request<Body>) -> Option<(Request<Body>, bool)> {
    if !request.body().is_end_stream() {
        return None;
    }
    let mut copy = Request::new(body::empty());
    *copy.method_mut() = request.method().clone();
    *copy.uri_mut() = request.uri().clone();
    *copy.version_mut() = request.version();
    *copy.headers_mut() = request.headers().clone();
    let is_safe = matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
    Some((copy, is_safe))
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    #[test]
    fn the_host_moves_into_the_target_and_framing_stays_behind() {
        let mut request = Request::new(body::empty());
        *request.uri_mut() = Uri::from_static("/a?b");
        for (name, value) in [("host", "shop.test:81"), ("transfer-encoding", "chunked")] {
            request.headers_mut().insert(name, HeaderValue::from_static(value));
        }

        let request = rewritten(request);

        assert_eq!(request.uri(), "http://shop.test:81/a?b");
        assert_eq!(request.version(), Version::HTTP_2);
        assert!(request.headers().is_empty(), "{:?}", request.headers());
    }

    #[test]
    fn what_has_a_body_is_never_copied() {
        assert!(copy(&Request::new(body::full("a"))).is_none());
        let mut post = Request::new(body::empty());
        *post.method_mut() = Method::POST;
        assert!(copy(&post).is_some_and(|(_, is_safe)| !is_safe));
        assert!(copy(&Request::new(body::empty())).is_some_and(|(_, is_safe)| is_safe));
    }
}
