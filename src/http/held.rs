//! A body that holds what it takes (a place, a count) until it ends.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, SizeHint};

/// `held` is dropped with the body.
pub(super) struct Held<B, H> {
    inner: B,
    _held: H,
}

impl<B, H> Held<B, H> {
    pub(super) fn new(inner: B, held: H) -> Self {
        Self { inner, _held: held }
    }
}

impl<B, H> HttpBody for Held<B, H>
where
    B: HttpBody<Data = Bytes> + Unpin,
    H: Unpin,
{
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        Pin::new(&mut self.get_mut().inner).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
