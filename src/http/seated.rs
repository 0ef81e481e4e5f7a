//! A response that keeps its place among those under way until its body ends.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use tokio::sync::OwnedSemaphorePermit;

use super::body::BodyError;

/// A response's body that counts as under way until it ends.
pub(super) struct Seated<B> {
    inner: B,
    _seat: OwnedSemaphorePermit,
}

impl<B> Seated<B> {
    pub(super) fn new(inner: B, seat: OwnedSemaphorePermit) -> Self {
        Self { inner, _seat: seat }
    }
}

impl<B> HttpBody for Seated<B>
where
    B: HttpBody<Data = Bytes, Error = BodyError> + Unpin,
{
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        Pin::new(&mut self.get_mut().inner).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
