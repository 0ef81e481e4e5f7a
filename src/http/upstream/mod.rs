//! Keep-alive connections to one service behind us, at one or several addresses in turn.
//!
//! Our own pool over hyper's connections, because whether a connection was used before decides
//! whether a request may be tried again, and hyper-util's pool does not tell.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use hyper::body::{Body as HttpBody, Incoming};
use hyper::{Request, Response, StatusCode, Version};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, MissedTickBehavior};

use super::body::Body;
use super::cores;
pub use super::failure::UpstreamError;
use super::fetched::{Fetched, Held};
use super::framing;
use super::line::Ride;
use super::link::{Coming, Exchanged, Failed, Link};
pub use super::origin::OriginError;
use super::origin::{Keeping, Origin, PROBE_EVERY};
use super::paced::Progress;
use super::rest;
use super::shared::{self, Shared, Taken, Unanswered};

/// A request's body that is no longer than this is all here when it is sent.
pub(super) const WHOLE_BYTES: usize = 8 * 1024;
/// The most that a probe waits.
const PROBE_MAX: Duration = Duration::from_secs(2);

/// How long to wait for what, and how much at once.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    /// For a connection.
    pub connect: Duration,
    /// For the response's head, from the last byte of the request.
    pub response: Duration,
    /// For the next piece of a body.
    pub body_idle: Duration,
    /// For the rest of an upload, once its answer has ended.
    pub rest: Duration,
    /// How long an idle connection is kept: less than the service keeps it.
    pub pool_idle: Duration,
    /// Requests under way, over all addresses.
    pub in_flight: usize,
}

impl Default for Times {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(3),
            response: Duration::from_mins(1),
            body_idle: Duration::from_mins(1),
            rest: Duration::from_secs(30),
            pool_idle: Duration::from_secs(4),
            in_flight: 1024,
        }
    }
}

/// Whether a request may use a connection that was used before.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Freshness {
    AnyConnection,
    NewConnection,
}

/// A service behind us.
#[derive(Debug)]
pub struct Upstream {
    origins: Vec<Arc<Origin>>,
    next: AtomicUsize,
    in_flight: Arc<Semaphore>,
    times: Times,
    /// Set if it speaks HTTP/2.
    shared: Option<Shared>,
}

impl Upstream {
    /// A service at one or several addresses.
    pub fn new<S: AsRef<str>>(urls: &[S], times: Times) -> Result<Self, OriginError> {
        // As many as were used at once may be used again, spread over the cores.
        let keeping = Keeping {
            idle: times.in_flight.div_ceil(cores::places() - 1),
            idle_time: times.pool_idle,
            rest: times.rest,
        };
        let origins = urls
            .iter()
            .map(|url| Origin::parse(url.as_ref(), keeping).map(Arc::new))
            .collect::<Result<Vec<_>, _>>()?;
        if origins.is_empty() {
            return Err(OriginError);
        }
        let in_flight = Arc::new(Semaphore::new(times.in_flight));
        Ok(Self { origins, next: AtomicUsize::new(0), in_flight, times, shared: None })
    }

    /// The same service, spoken to by HTTP/2; only what is upgraded still goes by HTTP/1.1.
    #[must_use]
    pub fn over_http2(mut self) -> Self {
        self.shared = Some(Shared::new(&self.origins, self.times.pool_idle));
        self
    }

    /// The connections that its requests share, if it speaks HTTP/2.
    pub(super) fn shared(&self) -> Option<&Shared> {
        self.shared.as_ref()
    }

    /// [`Self::send`] by HTTP/2. Tried again at most once: when nothing of it was sent, or when it
    /// has no body and the service refused its stream, or it is a GET, HEAD or OPTIONS without
    /// body and a connection that had served others died before a byte came back.
    pub(super) async fn send_shared(
        &self,
        shared: &Shared,
        request: Request<Body>,
        upload: &Progress,
    ) -> Result<(Response<Incoming>, (rest::Answer<OwnedSemaphorePermit>, Arc<Ride>)), UpstreamError>
    {
        let seat =
            Arc::clone(&self.in_flight).try_acquire_owned().map_err(|_| UpstreamError::Full)?;
        let request = shared::rewritten(request);
        let spare = shared::copy(&request);
        let (request, seat) = rest::bounded(request, seat, self.times.rest);
        let taken = shared.take(self.times.connect).await?;
        let failed = match self.awaited(&taken, request, upload).await? {
            Ok(response) => return Ok((response, (seat, taken.into_ride()))),
            Err(failed) => failed,
        };
        let again = failed.unsent.or_else(|| {
            let (copy, is_safe) = spare?;
            (failed.is_refused || is_safe && failed.was_stale).then_some(copy)
        });
        // HTTP/2 does not tell why we gave a stream up; its upload does.
        let fault =
            |origin, error| upload.fault().map_or_else(|| broken(origin, error), Into::into);
        let Some(request) = again else { return Err(fault(taken.origin(), failed.error)) };
        let taken = shared.take(self.times.connect).await?;
        match self.awaited(&taken, request, upload).await? {
            Ok(response) => Ok((response, (seat, taken.into_ride()))),
            Err(failed) => Err(fault(taken.origin(), failed.error)),
        }
    }

    /// The waits it was made with.
    pub fn times(&self) -> Times {
        self.times
    }

    /// Sends one request and waits for the head of its response. `upload` tells how far the
    /// request's body has come: as long as it moves, the wait for the response does not begin.
    ///
    /// Tried again at most once: when nothing of it was written, or when it is a bodiless GET,
    /// HEAD or OPTIONS and a connection from the pool died before a byte came back.
    pub async fn send(
        &self,
        mut request: Request<Body>,
        upload: &Progress,
    ) -> Result<Response<Fetched>, UpstreamError> {
        self.ask(&mut request, upload).await
    }

    /// The same of a request that need not be moved.
    pub(super) async fn ask(
        &self,
        request: &mut Request<Body>,
        upload: &Progress,
    ) -> Result<Response<Fetched>, UpstreamError> {
        let seat =
            Arc::clone(&self.in_flight).try_acquire_owned().map_err(|_| UpstreamError::Full)?;
        *request.version_mut() = Version::HTTP_11;
        let (origin, mut link) = self.connection(Freshness::AnyConnection).await?;
        match self.exchanged(origin, &mut link, request, upload).await? {
            Ok(response) => fetched(response, link, origin, seat),
            Err(Failed::Broken(error)) => Err(broken(origin, error)),
            Err(Failed::Unheard) => Box::pin(self.ask_again(request, upload, seat)).await,
        }
    }

    async fn ask_again(
        &self,
        request: &mut Request<Body>,
        upload: &Progress,
        seat: OwnedSemaphorePermit,
    ) -> Result<Response<Fetched>, UpstreamError> {
        let (origin, mut link) = self.connection(Freshness::NewConnection).await?;
        match self.exchanged(origin, &mut link, request, upload).await? {
            Ok(response) => fetched(response, link, origin, seat),
            Err(Failed::Broken(error)) => Err(broken(origin, error)),
            Err(Failed::Unheard) => Err(UpstreamError::ConnectTimeout),
        }
    }

    async fn exchanged(
        &self,
        origin: &Origin,
        link: &mut Link,
        request: &mut Request<Body>,
        upload: &Progress,
    ) -> Result<Exchanged, UpstreamError> {
        let length = request.body().size_hint().upper();
        let lets_go = length.is_none_or(|length| length > WHOLE_BYTES as u64);
        let done = link.exchange(request, lets_go, upload, self.times.response).await;
        let Some(done) = done else {
            origin.unanswered();
            return Err(UpstreamError::ResponseTimeout);
        };
        if done.is_ok() {
            origin.answered();
        }
        Ok(done)
    }

    async fn awaited(
        &self,
        taken: &Taken<'_>,
        request: Request<Body>,
        upload: &Progress,
    ) -> Result<Result<Response<Incoming>, Unanswered>, UpstreamError> {
        let mut sending = std::pin::pin!(taken.send(request));
        loop {
            let seen = upload.bytes();
            match tokio::time::timeout(self.times.response, sending.as_mut()).await {
                Ok(done) => {
                    if done.is_ok() {
                        taken.origin().answered();
                    }
                    return Ok(done);
                }
                Err(_) if upload.bytes() != seen => {}
                Err(_) => {
                    if !taken.is_crowded() {
                        taken.origin().unanswered();
                    }
                    return Err(UpstreamError::ResponseTimeout);
                }
            }
        }
    }

    /// Asks every address again and again whether it is there; for ever.
    pub async fn watch(&self) {
        let mut ticks = tokio::time::interval(PROBE_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let wait_max = self.times.connect.min(PROBE_MAX);
        loop {
            ticks.tick().await;
            if let Some(shared) = &self.shared {
                shared.probe(wait_max).await;
                continue;
            }
            join_all(self.origins.iter().map(|origin| origin.probe(wait_max))).await;
        }
    }

    /// Whether no address is there.
    pub fn is_down(&self) -> bool {
        let now = std::time::Instant::now();
        self.origins.iter().all(|origin| origin.well().is_down(now))
    }

    /// How many addresses are not known to be down.
    pub fn up(&self) -> usize {
        let now = std::time::Instant::now();
        self.origins.iter().filter(|origin| !origin.well().is_down(now)).count()
    }

    /// A connection to the next address in turn, or to one after it if that cannot be reached.
    /// Those that are down are passed over, unless all are.
    async fn connection(
        &self,
        freshness: Freshness,
    ) -> Result<(&Arc<Origin>, Link), UpstreamError> {
        let first = self.next.fetch_add(1, Ordering::Relaxed);
        let now = Instant::now();
        let is_shunned = |origin: &Origin| origin.well().is_shunned(now.into());
        let in_turn = (0..self.origins.len())
            .map(|step| &self.origins[first.wrapping_add(step) % self.origins.len()]);
        let mut failure = UpstreamError::ConnectTimeout;
        for origin in in_turn {
            let all_shunned = || self.origins.iter().all(|origin| is_shunned(origin));
            if is_shunned(origin) && !all_shunned() {
                continue;
            }
            if freshness == Freshness::AnyConnection
                && let Some(link) = origin.take_idle(now)
            {
                return Ok((origin, link));
            }
            match Box::pin(origin.connect(self.times.connect)).await {
                Ok(link) => return Ok((origin, link)),
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }
}

/// A response with all that it takes until it ends, if it says plainly how long it is.
fn fetched(
    response: Response<Coming>,
    link: Link,
    origin: &Arc<Origin>,
    seat: OwnedSemaphorePermit,
) -> Result<Response<Fetched>, UpstreamError> {
    let (mut parts, coming) = response.into_parts();
    framing::settle(&mut parts.headers)?;
    let body = if parts.status == StatusCode::SWITCHING_PROTOCOLS {
        Fetched::upgraded(coming, link)
    } else {
        Fetched::of(coming, Held { link, origin: Arc::clone(origin), seat })
    };
    Ok(Response::from_parts(parts, body))
}

/// A request that broke without an answer; what the client broke is nobody else's fault.
fn broken(origin: &Origin, error: hyper::Error) -> UpstreamError {
    let error = UpstreamError::of(error);
    if matches!(error, UpstreamError::Broken(_)) {
        origin.unanswered();
    }
    error
}

#[cfg(test)]
mod tests;
