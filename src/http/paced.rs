//! A body that must keep moving: who sends too little of it for too long has sent enough.

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use tokio::time::{Instant, Sleep};

use super::body::BodyError;
use super::patience::{Pace, Patience};

/// Nothing arrived for too long, or too little.
#[derive(Debug, thiserror::Error)]
#[error("the body stood still, or nearly, for {0:?}")]
pub struct StoodStill(pub Duration);

/// More arrived than may.
#[derive(Debug, thiserror::Error)]
#[error("the body is longer than {0} bytes")]
pub struct TooLong(pub u64);

/// How many bytes have passed, and whether the rest will, for those who wait on the other side.
#[derive(Debug, Clone, Default)]
pub struct Progress(Arc<Passed>);

#[derive(Debug, Default)]
struct Passed {
    bytes: AtomicU64,
    fault: OnceLock<Fault>,
}

/// Why a body has ended before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// It stood still.
    Slow,
    /// It is too long.
    Long,
    /// It broke off.
    Broken,
}

impl Progress {
    /// Bytes so far.
    pub fn bytes(&self) -> u64 {
        self.0.bytes.load(Ordering::Relaxed)
    }

    /// What went wrong.
    pub(super) fn fault(&self) -> Option<Fault> {
        self.0.fault.get().copied()
    }

    fn fail(&self, fault: Fault) {
        // The first is the reason for whatever follows.
        self.0.fault.get_or_init(|| fault);
    }
}

/// A body with a bound on its pauses and on its length.
pub struct Paced<B> {
    inner: B,
    pace: Pace,
    patience: Patience,
    bytes_max: u64,
    progress: Progress,
    /// Armed only while nothing is there, so that a fast body costs no timer. What the reader
    /// takes for itself is not held against the sender.
    pause: Option<(Instant, Pin<Box<Sleep>>)>,
}

impl<B> Paced<B> {
    /// Fails when its sender falls behind `pace`, or more than `bytes_max` bytes come.
    pub fn new(inner: B, pace: Pace, bytes_max: u64) -> Self {
        let patience = Patience::new(pace);
        Self { inner, pace, patience, bytes_max, progress: Progress::default(), pause: None }
    }

    /// A view of how far the body has come.
    pub fn progress(&self) -> Progress {
        self.progress.clone()
    }
}

impl<B> HttpBody for Paced<B>
where
    B: HttpBody<Data = Bytes> + Unpin,
    B::Error: Into<BodyError>,
{
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        if let Poll::Ready(frame) = Pin::new(&mut this.inner).poll_frame(context) {
            if let Some((since, _)) = this.pause.take() {
                this.patience.spend(since.elapsed());
            }
            let frame = frame.transpose().inspect_err(|_| this.progress.fail(Fault::Broken));
            let Some(frame) = frame.map_err(Into::into)? else { return Poll::Ready(None) };
            let length = frame.data_ref().map_or(0, Bytes::len);
            this.patience.earn(length);
            let length = length as u64;
            let before = this.progress.0.bytes.fetch_add(length, Ordering::Relaxed);
            if before.saturating_add(length) > this.bytes_max {
                this.progress.fail(Fault::Long);
                return Poll::Ready(Some(Err(TooLong(this.bytes_max).into())));
            }
            return Poll::Ready(Some(Ok(frame)));
        }
        let left = this.patience.left();
        let (_, pause) =
            this.pause.get_or_insert_with(|| (Instant::now(), Box::pin(tokio::time::sleep(left))));
        ready!(pause.as_mut().poll(context));
        this.progress.fail(Fault::Slow);
        Poll::Ready(Some(Err(StoodStill(this.pace.idle_max).into())))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::body;
    use http_body_util::BodyExt;

    #[tokio::test]
    async fn a_body_that_stands_still_ends_in_an_error() {
        let (mut sender, slow) = http_body_util::channel::Channel::<Bytes, BodyError>::new(1);
        let pace = Pace::idle(Duration::from_millis(5));
        let mut paced = Paced::new(slow, pace, 100);

        sender.send_data("a".into()).await.unwrap();

        assert!(paced.frame().await.unwrap().is_ok());
        let error = paced.frame().await.unwrap().unwrap_err();
        assert!(error.is::<StoodStill>());
    }

    #[tokio::test]
    async fn ed_60_a_body_of_a_byte_now_and_then_ends_in_an_error() {
        let (mut sender, slow) = http_body_util::channel::Channel::<Bytes, BodyError>::new(1);
        let pace = Pace { idle_max: Duration::from_millis(100), bytes_per_second: 1_000 };
        let mut paced = Paced::new(slow, pace, 100);

        let sending = async {
            while sender.send_data("a".into()).await.is_ok() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let reading = async {
            loop {
                if let Err(error) = paced.frame().await.unwrap() {
                    return error;
                }
            }
        };
        let error = tokio::select! {
            () = sending => unreachable!("its reader is there"),
            error = reading => error,
        };

        assert!(error.is::<StoodStill>());
    }

    #[tokio::test]
    async fn a_body_past_its_bound_ends_in_an_error() {
        let pace = Pace::idle(Duration::from_secs(5));
        let mut paced = Paced::new(body::full("123456"), pace, 5);

        let error = paced.frame().await.unwrap().unwrap_err();

        assert!(error.is::<TooLong>());
    }
}
