//! One HTTP/2 connection to a service behind us, and the requests that it carries.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::body::Body;

/// Streams on a connection before the service has said how many it allows.
pub(super) const STREAMS: usize = 100;
const STREAM_WINDOW: u32 = 256 * 1024;
const CONNECTION_WINDOW: u32 = 4 * 1024 * 1024;
const SEND_BUFFER: usize = 64 * 1024;
/// A service's response head, in bytes.
const HEAD_BYTES_MAX: u32 = 256 * 1024;
/// A connection with requests on it that answers no ping is dead.
const PING_EVERY: Duration = Duration::from_secs(10);
const PING_ANSWER_MAX: Duration = Duration::from_secs(20);

/// A connection. It ends once it is dropped and carries nothing.
#[derive(Debug)]
pub(super) struct Line {
    sender: SendRequest<Body>,
    born: Instant,
    load: Arc<Mutex<Load>>,
}

#[derive(Debug)]
struct Load {
    under_way: usize,
    /// When the last one ended.
    quiet_since: Instant,
    was_used: bool,
}

/// One request's place on a connection.
#[derive(Debug)]
pub(super) struct Ride {
    load: Arc<Mutex<Load>>,
    was_used: bool,
}

impl Line {
    /// Speaks HTTP/2 on a new socket, and keeps in `streams_max` what the service allows at once.
    pub(super) async fn over(
        stream: TcpStream,
        streams_max: Arc<AtomicUsize>,
    ) -> hyper::Result<Self> {
        // What it said last counts until it says it again.
        let most = streams_max.load(Ordering::Relaxed).clamp(1, STREAMS);
        let (sender, connection) = Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .initial_max_send_streams(most)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_send_buf_size(SEND_BUFFER)
            .max_header_list_size(HEAD_BYTES_MAX)
            .keep_alive_interval(PING_EVERY)
            .keep_alive_timeout(PING_ANSWER_MAX)
            .handshake(TokioIo::new(stream))
            .await?;
        #[expect(
            clippy::disallowed_methods,
            reason = "ends with its senders, so it needs no stop of its own"
        )]
        tokio::spawn(async move {
            let mut connection = pin!(connection);
            // Woken by each request, and by then it knows.
            let ended = poll_fn(|context| {
                let ended = connection.as_mut().poll(context);
                let most = connection.current_max_send_streams();
                streams_max.store(most, Ordering::Relaxed);
                ended
            });
            if let Err(error) = ended.await {
                tracing::debug!(%error, "an HTTP/2 connection to a service behind us broke");
            }
        });
        let now = Instant::now();
        let load = Load { under_way: 0, quiet_since: now, was_used: false };
        Ok(Self { sender, born: now, load: Arc::new(Mutex::new(load)) })
    }

    /// One more request.
    pub(super) fn ride(&self) -> (SendRequest<Body>, Ride) {
        let mut load = locked(&self.load);
        load.under_way += 1;
        let was_used = std::mem::replace(&mut load.was_used, true);
        (self.sender.clone(), Ride { load: Arc::clone(&self.load), was_used })
    }

    pub(super) fn under_way(&self) -> usize {
        locked(&self.load).under_way
    }

    /// Whether it may carry more: neither closed nor old, nor idle for so long that the service may
    /// be about to close it.
    pub(super) fn is_good(&self, age_max: Duration, idle_max: Duration) -> bool {
        let load = locked(&self.load);
        let is_idle = load.under_way == 0 && load.quiet_since.elapsed() >= idle_max;
        !self.sender.is_closed() && self.born.elapsed() < age_max && !is_idle
    }

    pub(super) fn is_of(&self, ride: &Ride) -> bool {
        Arc::ptr_eq(&self.load, &ride.load)
    }
}

impl Ride {
    /// Whether the connection had carried a request before this one.
    pub(super) fn was_used(&self) -> bool {
        self.was_used
    }

    /// How many the connection carries, this one among them.
    pub(super) fn under_way(&self) -> usize {
        locked(&self.load).under_way
    }
}

impl Drop for Ride {
    fn drop(&mut self) {
        let mut load = locked(&self.load);
        load.under_way -= 1;
        load.quiet_since = Instant::now();
    }
}

fn locked(load: &Mutex<Load>) -> std::sync::MutexGuard<'_, Load> {
    load.lock().unwrap_or_else(PoisonError::into_inner)
}
