//! The body of a service's response, on the connection that it comes by.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use tokio::sync::OwnedSemaphorePermit;

use super::body::BodyError;
use super::link::{Coming, Link};
use super::origin::Origin;

/// Drives its connection, counts as under way until it ends, and then gives the connection back.
#[derive(Debug)]
pub struct Fetched {
    coming: Coming,
    held: Option<Held>,
    /// Told a moment later: what came before it goes out first, or hyper would drop that with the
    /// connection.
    broke: Option<BodyError>,
}

/// What a response takes until it ends.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) link: Link,
    pub(super) origin: Arc<Origin>,
    /// Its place among those under way.
    pub(super) seat: OwnedSemaphorePermit,
}

impl Fetched {
    /// The body of a response whose head has come.
    pub(super) fn of(coming: Coming, held: Held) -> Self {
        let is_here = matches!(coming, Coming::Whole(_));
        let mut fetched = Self { coming, held: Some(held), broke: None };
        if is_here || fetched.is_end_stream() {
            fetched.end();
        }
        fetched
    }

    /// The same when the connection is HTTP no longer.
    pub(super) fn upgraded(coming: Coming, link: Link) -> Self {
        link.hand_over();
        Self { coming, held: None, broke: None }
    }

    /// All of it, if it is here.
    pub(super) fn take_whole(&mut self) -> Option<Bytes> {
        match &mut self.coming {
            Coming::Whole(bytes) => Some(std::mem::take(bytes)),
            Coming::Direct(_) | Coming::Hyper(_) => None,
        }
    }

    fn end(&mut self) {
        let Some(Held { mut link, origin, seat }) = self.held.take() else { return };
        if link.is_ready() {
            drop(seat);
            origin.keep(link);
        } else if link.goes_by_itself() {
            origin.keep_later(link, seat);
        }
    }

    fn poll_piece(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match (&mut self.coming, &mut self.held) {
            (Coming::Whole(bytes), _) if bytes.is_empty() => Poll::Ready(None),
            (Coming::Whole(bytes), _) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            (Coming::Direct(left), Some(held)) if *left > 0 => {
                let piece = ready!(held.link.poll_body(context, left));
                Poll::Ready(Some(piece.map(Frame::data).map_err(Into::into)))
            }
            (Coming::Direct(_), _) => Poll::Ready(None),
            (Coming::Hyper(incoming), held) => {
                let mut polled = Pin::new(&mut *incoming).poll_frame(context);
                if let (true, Some(held)) = (polled.is_pending(), held) {
                    held.link.drive(context);
                    polled = Pin::new(incoming).poll_frame(context);
                }
                polled.map_err(Into::into)
            }
        }
    }
}

impl HttpBody for Fetched {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        if let Some(error) = this.broke.take() {
            return Poll::Ready(Some(Err(error)));
        }
        match ready!(this.poll_piece(context)) {
            Some(Err(error)) => {
                (this.held, this.broke) = (None, Some(error));
                context.waker().wake_by_ref();
                Poll::Pending
            }
            frame => {
                if frame.is_none() || this.is_end_stream() {
                    this.end();
                }
                Poll::Ready(frame)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        let is_over = match &self.coming {
            Coming::Whole(bytes) => bytes.is_empty(),
            Coming::Direct(left) => *left == 0,
            Coming::Hyper(incoming) => incoming.is_end_stream(),
        };
        self.broke.is_none() && is_over
    }

    fn size_hint(&self) -> SizeHint {
        match &self.coming {
            Coming::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Coming::Direct(left) => SizeHint::with_exact(*left),
            Coming::Hyper(incoming) => incoming.size_hint(),
        }
    }
}
