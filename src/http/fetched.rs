//! The body of a service's response, on the connection that it comes by.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use tokio::sync::OwnedSemaphorePermit;

use super::link::Link;
use super::origin::Origin;

/// Drives its connection, counts as under way until it ends, and then gives the connection back.
#[derive(Debug)]
pub struct Fetched {
    incoming: Incoming,
    held: Option<Held>,
    /// Told a moment later: what came before it goes out first, or hyper would drop that with the
    /// connection.
    broke: Option<hyper::Error>,
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
    pub(super) async fn of(incoming: Incoming, held: Held) -> Self {
        let mut fetched = Self { incoming, held: Some(held), broke: None };
        if fetched.incoming.is_end_stream() {
            poll_fn(|context| {
                fetched.end(context);
                Poll::Ready(())
            })
            .await;
        }
        fetched
    }

    /// The same when the connection is HTTP no longer.
    pub(super) fn upgraded(incoming: Incoming, link: Link) -> Self {
        link.hand_over();
        Self { incoming, held: None, broke: None }
    }

    fn end(&mut self, context: &mut Context<'_>) {
        let Some(Held { mut link, origin, seat }) = self.held.take() else { return };
        if link.is_ready(context) {
            drop(seat);
            origin.keep(link);
        } else if link.goes_by_itself() {
            origin.keep_later(link, seat);
        }
    }
}

impl HttpBody for Fetched {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let this = self.get_mut();
        if let Some(error) = this.broke.take() {
            return Poll::Ready(Some(Err(error)));
        }
        let mut polled = Pin::new(&mut this.incoming).poll_frame(context);
        if let (true, Some(held)) = (polled.is_pending(), &mut this.held) {
            held.link.drive(context);
            polled = Pin::new(&mut this.incoming).poll_frame(context);
        }
        match ready!(polled) {
            Some(Err(error)) => {
                (this.held, this.broke) = (None, Some(error));
                context.waker().wake_by_ref();
                Poll::Pending
            }
            frame => {
                if frame.is_none() || this.incoming.is_end_stream() {
                    this.end(context);
                }
                Poll::Ready(frame)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.broke.is_none() && self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}
