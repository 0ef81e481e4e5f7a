//! The body of a request: still on its way, or read together with its head. Requests are shared on
//! their way through the pipeline, which the boxes of [`super::body::Body`] cannot be.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};

use super::body::BodyError;

/// What a client sent, or is sending.
#[derive(Debug)]
pub enum Received {
    /// Hyper reads it.
    Coming(Incoming),
    /// It is here, whole.
    Here(Bytes),
}

impl From<Incoming> for Received {
    fn from(incoming: Incoming) -> Self {
        Self::Coming(incoming)
    }
}

impl HttpBody for Received {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match self.get_mut() {
            Self::Coming(incoming) => Pin::new(incoming).poll_frame(context).map_err(Into::into),
            Self::Here(bytes) if bytes.is_empty() => Poll::Ready(None),
            Self::Here(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Coming(incoming) => incoming.is_end_stream(),
            Self::Here(bytes) => bytes.is_empty(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Coming(incoming) => incoming.size_hint(),
            Self::Here(bytes) => SizeHint::with_exact(bytes.len() as u64),
        }
    }
}
