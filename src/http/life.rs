//! The life of one connection in its protocol: deadlines, age, soft end.

use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use hyper::body::{Body as HttpBody, Incoming};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Request, Response, header};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::ahead::{Ahead, Waits};
use super::between::Between;
use super::body::{self, Body};
use super::kept_timer::KeptTimer;
use super::listener::{Options, Peer};
use super::proxy;
use super::quick::Quickened;
use super::stall::Lingering;
use super::streams::{self, Streams};
use super::tls::Presented;

/// For a first request once the doors have closed: it may be on its way already.
const LAST_REQUEST_MAX: Duration = Duration::from_millis(500);
/// For the rest of a quiet connection that was ended.
const LAST_WORDS_MAX: Duration = Duration::from_secs(5);

/// hyper's own bound on header fields, which costs nothing; another costs an allocation.
const FIELDS_FREE: usize = 100;
const STREAM_WINDOW: u32 = 64 * 1024;
const CONNECTION_WINDOW: u32 = 1024 * 1024;
const FRAME_BYTES_MAX: u32 = 16 * 1024;
const SEND_BUFFER: usize = 64 * 1024;
const RESETS_PENDING_MAX: usize = 20;
const RESETS_LOCAL_MAX: usize = 1024;
const PING_EVERY: Duration = Duration::from_secs(30);
const PING_ANSWER_MAX: Duration = Duration::from_secs(20);

/// One connection, its handshake behind it.
pub(super) struct Life {
    peer: Peer,
    lingering: Lingering,
    stop: CancellationToken,
    options: Arc<Options>,
    carried: Arc<Carried>,
    /// An event stream, a call of gRPC or a WebSocket went out on it.
    streams: Arc<AtomicBool>,
}

/// How many requests a connection has carried.
pub(super) struct Carried {
    requests: AtomicU64,
    most: u64,
    /// Told when it has carried as many as it may.
    worn: Notify,
    /// One is being answered without hyper.
    under_way: AtomicBool,
}

impl Carried {
    fn of(most: u64) -> Arc<Self> {
        Arc::new(Self {
            requests: AtomicU64::new(0),
            most,
            worn: Notify::new(),
            under_way: AtomicBool::new(false),
        })
    }

    /// Counts one.
    pub(super) fn one_more(&self) {
        if self.requests.fetch_add(1, Ordering::Relaxed) + 1 == self.most {
            self.worn.notify_one();
        }
    }

    /// One is being answered without hyper, or its answer has gone out.
    pub(super) fn under_way(&self, is: bool) {
        self.under_way.store(is, Ordering::Relaxed);
    }

    /// Comes when nothing was asked for so long, as far as hyper does not see to that.
    async fn quiet(self: Arc<Self>, waits: Waits, span: Duration) {
        let mut seen = None;
        loop {
            let asked = self.requests.load(Ordering::Relaxed);
            if !waits.is() || self.under_way.load(Ordering::Relaxed) {
                seen = None;
            } else if seen.replace(asked) == Some(asked) {
                return;
            }
            tokio::time::sleep(span).await;
        }
    }
}

/// What may end a connection, or end its waiting.
enum Due {
    /// Time is up for a first request.
    FirstRequest,
    /// Silent, and another one of its address wants the place.
    Dismissed,
    /// It has lived long enough, or carried enough.
    Old,
    /// Nothing was asked for.
    Quiet,
    /// The doors close.
    Stop,
}

impl Life {
    pub(super) fn new(
        peer: Peer,
        lingering: Lingering,
        stop: CancellationToken,
        options: Arc<Options>,
    ) -> Self {
        let carried = Carried::of(options.bounds.requests);
        Self { peer, lingering, stop, options, carried, streams: Arc::default() }
    }

    /// It is encrypted, and this was shown to it.
    pub(super) fn secured(&mut self, presented: Option<Presented>) {
        (self.peer.tls, self.peer.presented) = (true, presented.map(Arc::new));
    }

    /// Runs it. No `async`, which would set aside twice what hyper takes, in each idle connection.
    pub(super) fn http1<S, H, F>(self, stream: S, handler: H) -> BoxFuture<'static, ()>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
        H: Fn(Request<Incoming>, Peer) -> F + Send + Sync + Unpin + 'static,
        F: Future<Output = Response<Body>> + Send + 'static,
    {
        let bounds = &self.options.bounds;
        let trusted = self.options.trusted.contains(self.peer.address.ip());
        let head = if trusted { bounds.head_trusted } else { bounds.head };
        let (timer, between) = (KeptTimer::default(), Between::new());
        let quick = self.options.quick.clone();
        let shared = (between.clone(), Arc::clone(&self.carried), timer.clone());
        let stream = Quickened::new(stream, quick, self.peer.clone(), shared);
        let mut builder = http1::Builder::new();
        builder
            .timer(timer)
            .header_read_timeout(head)
            .max_header_size(bounds.sizes.head)
            .max_buf_size(bounds.sizes.head);
        if bounds.sizes.fields != FIELDS_FREE {
            builder.max_headers(bounds.sizes.fields);
        }
        let (life, waits) = (Arc::new(self), Waits::new());
        let (answering, known) = (Arc::clone(&life), between.clone());
        let service =
            service_fn(move |request| answering.answered(request, &handler, Some(&known)));
        let connection = Ahead::new(stream, service, builder, (between, waits.clone()));
        let connection = Box::pin(connection);
        let quiet = Arc::clone(&life.carried).quiet(waits, head);
        Box::pin(async move { life.drive(connection, quiet, Ahead::graceful_shutdown).await })
    }

    /// The same.
    pub(super) fn http2<S, H, F>(self, stream: S, handler: H) -> BoxFuture<'static, ()>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
        H: Fn(Request<Incoming>, Peer) -> F + Send + Sync + 'static,
        F: Future<Output = Response<Body>> + Send + 'static,
    {
        let bounds = &self.options.bounds;
        let (streams, idle) = (Streams::new(bounds.read), bounds.idle);
        let mut builder = http2::Builder::new(streams.clone());
        builder
            .timer(TokioTimer::new())
            .max_header_list_size(u32::try_from(bounds.sizes.head).unwrap_or(u32::MAX))
            .max_concurrent_streams(bounds.streams)
            .enable_connect_protocol()
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_frame_size(FRAME_BYTES_MAX)
            .max_send_buf_size(SEND_BUFFER)
            .max_pending_accept_reset_streams(RESETS_PENDING_MAX)
            .max_local_error_reset_streams(RESETS_LOCAL_MAX)
            .keep_alive_interval(PING_EVERY)
            .keep_alive_timeout(PING_ANSWER_MAX);
        let life = Arc::new(self);
        let answering = Arc::clone(&life);
        let service = service_fn(move |request| answering.answered(request, &handler, None));
        let connection = Box::pin(builder.serve_connection(TokioIo::new(stream), service));
        let soft = http2::Connection::graceful_shutdown;
        Box::pin(async move { life.drive(connection, streams.quiet(idle), soft).await })
    }

    /// Handlers cannot fail: whatever goes wrong is a response.
    fn answered<H, F>(
        &self,
        request: Request<Incoming>,
        handler: &H,
        between: Option<&Between>,
    ) -> impl Future<Output = Result<Response<Body>, Infallible>> + use<H, F>
    where
        H: Fn(Request<Incoming>, Peer) -> F,
        F: Future<Output = Response<Body>>,
    {
        self.peer.guest.ask();
        self.carried.one_more();
        let has_body = !request.body().is_end_stream();
        let (lingering, streams) = (self.lingering.clone(), Arc::clone(&self.streams));
        let between = between.filter(|_| !has_body).cloned();
        // Hyper sets aside as much as it takes for as long as the connection lives: handlers box
        // what has to wait.
        let response = handler(request, self.peer.clone());
        async move {
            let response = response.await;
            let closes = response.headers().get(header::CONNECTION).is_some_and(|v| v == "close");
            lingering.set(has_body || closes);
            let headers = response.headers();
            let speaks_on = body::is_event_stream(headers) || body::is_rpc(headers);
            let is_tunnel = proxy::is_tunnel(&response);
            if speaks_on || is_tunnel {
                streams.store(true, Ordering::Relaxed);
            }
            Ok(response.map(|body| match between {
                Some(between) if !is_tunnel => body.answering(between.answer()),
                Some(_) | None => streams::timed(body),
            }))
        }
    }

    /// Runs the connection until it ends, asks nothing in time, is too old, or is told to stop.
    async fn drive<C>(
        &self,
        mut connection: Pin<Box<C>>,
        quiet: impl Future<Output = ()>,
        end_softly: impl Fn(Pin<&mut C>),
    ) where
        C: Future<Output = hyper::Result<()>>,
    {
        let mut first_request = pin!(tokio::time::sleep(self.options.bounds.first_request));
        let mut first_due = true;
        let mut old = pin!(self.old());
        let mut retired = false;
        let mut quiet = pin!(quiet);
        loop {
            let next = async {
                tokio::select! {
                    () = first_request.as_mut(), if first_due => Due::FirstRequest,
                    () = old.as_mut(), if !retired => Due::Old,
                    () = quiet.as_mut() => Due::Quiet,
                    () = self.peer.guest.dismissed(), if !self.peer.guest.has_asked() => Due::Dismissed,
                    () = self.stop.cancelled() => Due::Stop,
                }
            };
            let Some(due) = beside(connection.as_mut(), next).await else { return };
            match due {
                Due::FirstRequest | Due::Dismissed if !self.peer.guest.has_asked() => return,
                Due::FirstRequest => first_due = false,
                Due::Dismissed => {}
                Due::Old => {
                    end_softly(connection.as_mut());
                    retired = true;
                }
                Due::Quiet => {
                    end_softly(connection.as_mut());
                    drop(tokio::time::timeout(LAST_WORDS_MAX, connection).await);
                    return;
                }
                Due::Stop => break,
            }
        }
        // Told to end softly, hyper would close what has not asked for anything yet.
        if !self.peer.guest.has_asked() {
            let last = tokio::time::timeout(LAST_REQUEST_MAX, connection.as_mut()).await;
            if last.is_ok() || !self.peer.guest.has_asked() {
                return;
            }
        }
        end_softly(connection.as_mut());
        let drained = tokio::time::timeout(self.options.drain, connection.as_mut()).await;
        let drained = match drained {
            Err(_) if self.streams.load(Ordering::Relaxed) => {
                let more = self.options.stream_drain.saturating_sub(self.options.drain);
                tokio::time::timeout(more, connection).await
            }
            drained => drained,
        };
        if let Ok(ended) = drained {
            told(ended);
        } else {
            tracing::info!("a request was cut at the end of the drain");
        }
    }

    /// Comes when the connection has lived long enough, or carried enough. Not all that came
    /// together go together.
    async fn old(&self) {
        let age = self.options.bounds.age.mul_f64(rand::random_range(0.9..1.1));
        tokio::select! {
            () = tokio::time::sleep(age) => {}
            () = self.carried.worn.notified() => {}
        }
    }
}

/// Runs a connection; nothing once it has ended, else what came due before. That is looked at only
/// when it wakes by itself: it has locks, one of them that of all cores, and a connection wakes
/// often.
async fn beside<C, D>(connection: Pin<&mut C>, due: D) -> Option<D::Output>
where
    C: Future<Output = hyper::Result<()>>,
    D: Future,
{
    let mut due = FuturesUnordered::from_iter([due]);
    tokio::select! {
        ended = connection => {
            told(ended);
            None
        }
        due = due.next() => due,
    }
}

fn told(ended: hyper::Result<()>) {
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended early");
    }
}
