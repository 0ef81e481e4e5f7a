//! A body whose trailers say no more than its head may.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::HeaderMap;
use hyper::body::{Body as HttpBody, Frame, SizeHint};

/// Takes something out of trailers.
pub type Clean = fn(&mut HeaderMap);

/// Passes everything else through.
pub(super) struct Cleaned<B> {
    inner: B,
    clean: Clean,
}

impl<B> Cleaned<B> {
    pub(super) fn new(inner: B, clean: Clean) -> Self {
        Self { inner, clean }
    }
}

impl<B> HttpBody for Cleaned<B>
where
    B: HttpBody<Data = Bytes> + Unpin,
{
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = self.get_mut();
        let mut polled = Pin::new(&mut this.inner).poll_frame(context);
        if let Poll::Ready(Some(Ok(frame))) = &mut polled
            && let Some(trailers) = frame.trailers_mut()
        {
            (this.clean)(trailers);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
