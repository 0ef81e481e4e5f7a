//! The requests of one HTTP/2 connection: how many are under way, and whether their answers are
//! taken.
//!
//! A reader who leaves its window at 0 still answers pings, and hyper does not ask a body for more
//! meanwhile, so neither the socket nor the body can notice. hyper hands each request to an
//! executor as one future; ours watches how long the answer that it holds has been waiting.

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use tokio::time::Instant;

use super::body::{Body, BodyError};
use super::patience::{Pace, Patience};

tokio::task_local! {
    /// The request whose future is being polled.
    static READER: Arc<Reader>;
}

/// All requests of one connection; the executor that hyper runs them on.
#[derive(Clone)]
pub(super) struct Streams {
    pace: Pace,
    open: Arc<AtomicUsize>,
    begun: Arc<AtomicU64>,
}

impl Streams {
    pub(super) fn new(pace: Pace) -> Self {
        Self { pace, open: Arc::default(), begun: Arc::default() }
    }

    /// Comes when nothing was asked for, and nothing under way, for `idle` or up to twice that.
    pub(super) async fn quiet(&self, idle: Duration) {
        loop {
            let begun = self.begun.load(Ordering::Relaxed);
            tokio::time::sleep(idle).await;
            let asked = self.begun.load(Ordering::Relaxed) != begun;
            if !asked && self.open.load(Ordering::Relaxed) == 0 {
                return;
            }
        }
    }
}

impl<F> hyper::rt::Executor<F> for Streams
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, request: F) {
        let reader = Arc::new(Reader(Mutex::new(Taking {
            patience: Patience::new(self.pace),
            since: None,
        })));
        self.begun.fetch_add(1, Ordering::Relaxed);
        self.open.fetch_add(1, Ordering::Relaxed);
        let open = Open(Arc::clone(&self.open));
        let watched = async move {
            // Dropped, the request's stream is reset and its connection lives on.
            tokio::select! {
                () = READER.scope(Arc::clone(&reader), request) => {}
                () = reader.stalled() => tracing::debug!("a reader that takes nothing was left"),
            }
            drop(open);
        };
        #[expect(
            clippy::disallowed_methods,
            reason = "ends with its stream, which its connection bounds"
        )]
        tokio::spawn(watched);
    }
}

/// One request under way.
struct Open(Arc<AtomicUsize>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Who takes the answer of one request.
struct Reader(Mutex<Taking>);

struct Taking {
    patience: Patience,
    /// Since when a piece that we handed over waits to be taken.
    since: Option<Instant>,
}

impl Reader {
    fn taking(&self) -> std::sync::MutexGuard<'_, Taking> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Comes when a piece has waited for longer than we do.
    async fn stalled(&self) {
        loop {
            // Whoever begins to wait after this look waits at least as long as we sleep.
            let (left, due) = {
                let taking = self.taking();
                let left = taking.patience.left();
                (left, taking.since.map(|since| since + left))
            };
            match due {
                Some(due) if due <= Instant::now() => return,
                Some(due) => tokio::time::sleep_until(due).await,
                None => tokio::time::sleep(left.max(LOOK_MIN)).await,
            }
        }
    }
}

/// A purse that is nearly empty is looked at no more often than this.
const LOOK_MIN: Duration = Duration::from_secs(1);

/// An answer whose pieces are timed, if its request came by HTTP/2.
pub(super) fn timed(body: Body) -> Body {
    match READER.try_with(Arc::clone) {
        Ok(reader) => super::body::boxed(Timed { inner: body, reader }),
        Err(_) => body,
    }
}

struct Timed {
    inner: Body,
    reader: Arc<Reader>,
}

impl HttpBody for Timed {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        {
            let mut taking = this.reader.taking();
            if let Some(since) = taking.since.take() {
                taking.patience.spend(since.elapsed());
            }
        }
        let frame = Pin::new(&mut this.inner).poll_frame(context);
        if let Poll::Ready(Some(Ok(frame))) = &frame {
            let mut taking = this.reader.taking();
            taking.patience.earn(frame.data_ref().map_or(0, Bytes::len));
            taking.since = Some(Instant::now());
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
