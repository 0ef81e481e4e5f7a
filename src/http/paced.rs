//! A body that must keep moving: no frame for too long is an error.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use tokio::time::Sleep;

use super::body::BodyError;

/// Nothing arrived for this long.
#[derive(Debug, thiserror::Error)]
#[error("the body stood still for {0:?}")]
pub struct StoodStill(pub Duration);

/// More arrived than may.
#[derive(Debug, thiserror::Error)]
#[error("the body is longer than {0} bytes")]
pub struct TooLong(pub u64);

/// How many bytes have passed, for those who wait on the other side.
#[derive(Debug, Clone, Default)]
pub struct Progress(Arc<AtomicU64>);

impl Progress {
    /// Bytes so far.
    pub fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A body with a bound on its pauses and on its length.
pub struct Paced<B> {
    inner: B,
    idle_max: Duration,
    bytes_max: u64,
    progress: Progress,
    /// Armed only while nothing is there, so that a fast body costs no timer.
    pause: Option<Pin<Box<Sleep>>>,
}

impl<B> Paced<B> {
    /// Fails when no frame comes for `idle_max`, or more than `bytes_max` bytes come.
    pub fn new(inner: B, idle_max: Duration, bytes_max: u64) -> Self {
        Self { inner, idle_max, bytes_max, progress: Progress::default(), pause: None }
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
            this.pause = None;
            let Some(frame) = frame.transpose().map_err(Into::into)? else {
                return Poll::Ready(None);
            };
            let length = frame.data_ref().map_or(0, Bytes::len) as u64;
            let before = this.progress.0.fetch_add(length, Ordering::Relaxed);
            if before.saturating_add(length) > this.bytes_max {
                return Poll::Ready(Some(Err(TooLong(this.bytes_max).into())));
            }
            return Poll::Ready(Some(Ok(frame)));
        }
        let idle_max = this.idle_max;
        let pause = this.pause.get_or_insert_with(|| Box::pin(tokio::time::sleep(idle_max)));
        ready!(pause.as_mut().poll(context));
        Poll::Ready(Some(Err(StoodStill(idle_max).into())))
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
        let mut paced = Paced::new(slow, Duration::from_millis(5), 100);

        sender.send_data("a".into()).await.unwrap();

        assert!(paced.frame().await.unwrap().is_ok());
        let error = paced.frame().await.unwrap().unwrap_err();
        assert!(error.is::<StoodStill>());
    }

    #[tokio::test]
    async fn a_body_past_its_bound_ends_in_an_error() {
        let mut paced = Paced::new(body::full("123456"), Duration::from_secs(5), 5);

        let error = paced.frame().await.unwrap().unwrap_err();

        assert!(error.is::<TooLong>());
    }
}
