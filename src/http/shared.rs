//! HTTP/2 to a service behind us, without TLS and from the first byte on: few connections for each
//! address, shared by all requests. Another is made when each carries what the service allows, and
//! none is used again that has ended, is old, was idle for too long, or is told to go.

use std::io::ErrorKind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use h2::Reason;
use hyper::body::{Body as HttpBody, Incoming};
use hyper::client::conn::http2::SendRequest;
use hyper::header;
use hyper::http::uri::{Authority, PathAndQuery, Scheme};
use hyper::{Method, Request, Response, Uri, Version};
use tokio::time::Instant;

use super::body::{self, Body};
use super::failure::UpstreamError;
use super::held::Held;
use super::line::{Line, Ride, STREAMS};
use super::origin::{Origin, PROBE_EVERY};

/// The connections to all addresses of a service.
#[derive(Debug)]
pub(super) struct Shared {
    slots: Vec<Slot>,
    next: AtomicUsize,
}

#[derive(Debug)]
struct Slot {
    origin: Arc<Origin>,
    lines: Mutex<Vec<Line>>,
    /// How long a connection may carry nothing and be used again.
    idle_max: Duration,
    /// Streams that the service allows on a connection, as it last said.
    streams_max: Arc<AtomicUsize>,
    /// Whoever makes a new connection makes it for all who wait, and fails for them too: when the
    /// last one failed, and how, if not by the time it took.
    dialling: tokio::sync::Mutex<Option<(Instant, Option<ErrorKind>)>>,
}

/// A connection to send on.
pub(super) struct Taken<'a> {
    slot: &'a Slot,
    sender: SendRequest<Body>,
    ride: Arc<Ride>,
}

impl Shared {
    /// Connections that have carried nothing for `idle_max` are not used again.
    pub(super) fn new(origins: &[Arc<Origin>], idle_max: Duration) -> Self {
        let slot = |origin: &Arc<Origin>| Slot {
            origin: Arc::clone(origin),
            lines: Mutex::default(),
            idle_max,
            streams_max: Arc::new(AtomicUsize::new(STREAMS)),
            dialling: tokio::sync::Mutex::default(),
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
            match slot.take(connect_max).await {
                Ok((sender, ride)) => return Ok(Taken { slot, sender, ride: Arc::new(ride) }),
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
        self.drop_stale();
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
            // Its own: those of others may be full.
            let line = self.dial(wait_max).await.ok()?;
            line.ride().0.send_request(request).await.ok()
        };
        if let Ok(Some(_response)) = tokio::time::timeout(wait_max, asking).await {
            origin.answered();
        }
    }

    /// A place on a connection there is, or on a new one.
    async fn take(
        &self,
        connect_max: Duration,
    ) -> Result<(SendRequest<Body>, Ride), UpstreamError> {
        if let Some(taken) = self.free() {
            return Ok(taken);
        }
        let began = Instant::now();
        let turn = tokio::time::timeout(connect_max, self.dialling.lock()).await;
        let mut failed = turn.map_err(|_| UpstreamError::ConnectTimeout)?;
        if let Some(taken) = self.free() {
            return Ok(taken);
        }
        if let Some((at, kind)) = *failed
            && at >= began
        {
            let connect = |kind: ErrorKind| UpstreamError::Connect(kind.into());
            return Err(kind.map_or(UpstreamError::ConnectTimeout, connect));
        }
        match self.dial(connect_max.saturating_sub(began.elapsed())).await {
            Ok(line) => {
                let taken = line.ride();
                self.lines().push(line);
                Ok(taken)
            }
            Err(error) => {
                let kind = match &error {
                    UpstreamError::Connect(error) => Some(error.kind()),
                    UpstreamError::ConnectTimeout => None,
                    _ => Some(ErrorKind::ConnectionAborted),
                };
                *failed = Some((Instant::now(), kind));
                Err(error)
            }
        }
    }

    async fn dial(&self, connect_max: Duration) -> Result<Line, UpstreamError> {
        let stream = self.origin.reach(connect_max).await?;
        Line::over(stream, Arc::clone(&self.streams_max)).await.map_err(UpstreamError::Broken)
    }

    /// A place on the first connection that has one, so that those after it fall idle and end.
    fn free(&self) -> Option<(SendRequest<Body>, Ride)> {
        self.drop_stale();
        let most = self.streams_max.load(Ordering::Relaxed);
        self.lines().iter().find(|line| line.under_way() < most).map(Line::ride)
    }

    /// What is closed, old or idle for too long is used no more; an old one ends with its requests.
    fn drop_stale(&self) {
        let age_max = self.origin.age_max();
        self.lines().retain(|line| line.is_good(age_max, self.idle_max));
    }

    fn lines(&self) -> std::sync::MutexGuard<'_, Vec<Line>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// Whether it carries more than the service allows at once, so that a request without an
    /// answer may have never been sent.
    pub(super) fn is_crowded(&self) -> bool {
        self.ride.under_way() > self.slot.streams_max.load(Ordering::Relaxed)
    }

    /// Its place, to be kept until the answer has ended.
    pub(super) fn into_ride(self) -> Arc<Ride> {
        self.ride
    }

    /// Sends a request; it waits if there are more on the connection than the service allows.
    pub(super) async fn send(
        &self,
        request: Request<Body>,
    ) -> Result<Response<Incoming>, Unanswered> {
        // An upload may outlast its answer, and the service still counts its stream.
        let request = if request.body().is_end_stream() {
            request
        } else {
            request.map(|upload| body::boxed(Held::new(upload, Arc::clone(&self.ride))))
        };
        match self.sender.clone().try_send_request(request).await {
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
                let is_refused = cause.is_some_and(is_refused);
                let was_stale = self.ride.was_used() && !is_reset && !of_body;
                Err(Unanswered { unsent, is_refused, was_stale, error })
            }
        }
    }

    /// Nobody takes this connection any more; what is under way on it goes on.
    fn forget(&self) {
        self.slot.lines().retain(|line| !line.is_of(&self.ride));
    }
}

/// Whether the service says that it did nothing: it refused the stream, or went away in peace and
/// named the last one that it takes, which came before this.
fn is_refused(error: &h2::Error) -> bool {
    let wanted = if error.is_go_away() { Reason::NO_ERROR } else { Reason::REFUSED_STREAM };
    error.is_remote() && error.reason() == Some(wanted)
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
