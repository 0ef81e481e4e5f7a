//! A body that must keep moving: who sends too little of it for too long has sent enough.

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, SizeHint};

use super::body::BodyError;
use super::patience::{Pace, Patience};
use super::pause::Pause;

/// Nothing arrived for too long, or too little.
#[derive(Debug, thiserror::Error)]
#[error("the body stood still, or nearly, for {0:?}")]
pub struct StoodStill(pub Duration);

/// More arrived than may.
#[derive(Debug, thiserror::Error)]
#[error("the body is longer than {0} bytes")]
pub struct TooLong(pub u64);

/// How many bytes have passed, and whether the rest will, for those who wait on the other side.
/// By default nothing ever passes.
#[derive(Debug, Clone, Default)]
pub struct Progress(Option<Arc<Passed>>);

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
        self.0.as_ref().map_or(0, |passed| passed.bytes.load(Ordering::Relaxed))
    }

    /// What went wrong.
    pub(super) fn fault(&self) -> Option<Fault> {
        self.0.as_ref()?.fault.get().copied()
    }

    fn fail(&self, fault: Fault) {
        if let Some(passed) = &self.0 {
            // The first is the reason for whatever follows.
            passed.fault.get_or_init(|| fault);
        }
    }
}

/// A body with a bound on its pauses and on its length.
pub struct Paced<B> {
    inner: B,
    pace: Pace,
    patience: Patience,
    bytes: u64,
    bytes_max: u64,
    /// For whoever asked for it.
    progress: Progress,
    /// What the reader takes for itself is not held against the sender.
    pause: Pause,
}

impl<B> Paced<B> {
    /// Fails when its sender falls behind `pace`, or more than `bytes_max` bytes come.
    pub fn new(inner: B, pace: Pace, bytes_max: u64) -> Self {
        let patience = Patience::new(pace);
        let (progress, pause) = (Progress::default(), Pause::default());
        Self { inner, pace, patience, bytes: 0, bytes_max, progress, pause }
    }

    /// A view of how far the body has come.
    pub fn progress(&mut self) -> Progress {
        self.progress.0.get_or_insert_with(|| {
            Arc::new(Passed { bytes: AtomicU64::new(self.bytes), fault: OnceLock::new() })
        });
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
            if let Some(waited) = this.pause.end() {
                this.patience.spend(waited);
            }
            let frame = frame.transpose().inspect_err(|_| this.progress.fail(Fault::Broken));
            let Some(frame) = frame.map_err(Into::into)? else { return Poll::Ready(None) };
            let length = frame.data_ref().map_or(0, Bytes::len);
            this.patience.earn(length);
            this.bytes = this.bytes.saturating_add(length as u64);
            if let Some(passed) = &this.progress.0 {
                passed.bytes.store(this.bytes, Ordering::Relaxed);
            }
            if this.bytes > this.bytes_max {
                this.progress.fail(Fault::Long);
                return Poll::Ready(Some(Err(TooLong(this.bytes_max).into())));
            }
            return Poll::Ready(Some(Ok(frame)));
        }
        ready!(this.pause.poll(context, this.patience.left()));
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
