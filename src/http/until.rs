//! A body that lasts for so long at most, however much of it is still to come.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, FusedFuture, Shared};
use hyper::body::{Body as HttpBody, Frame, SizeHint};

use super::body::BodyError;

/// Comes when what was allowed is allowed no more.
pub(super) type Ends = Shared<BoxFuture<'static, ()>>;

/// The body was cut because nobody may go on with it.
#[derive(Debug, thiserror::Error)]
#[error("what this was part of may not go on")]
struct Ended;

/// Fails once `ends` has come.
pub(super) struct Until<B> {
    inner: B,
    ends: Ends,
}

impl<B> Until<B> {
    pub(super) fn new(inner: B, ends: Ends) -> Self {
        Self { inner, ends }
    }
}

impl<B> HttpBody for Until<B>
where
    B: HttpBody<Data = Bytes, Error = BodyError> + Unpin,
{
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        // Once it has come it is not asked again.
        if this.ends.is_terminated() || this.ends.poll_unpin(context).is_ready() {
            return Poll::Ready(Some(Err(Ended.into())));
        }
        Pin::new(&mut this.inner).poll_frame(context)
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
    use http_body_util::BodyExt;
    use http_body_util::channel::Channel;
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn a_body_passes_until_the_end_comes_even_while_it_is_silent() {
        let (mut sender, silent) = Channel::<Bytes, BodyError>::new(1);
        let (end, ended) = oneshot::channel::<()>();
        let ends: BoxFuture<'static, ()> = Box::pin(async { drop(ended.await) });
        let mut until = Until::new(silent, ends.shared());
        sender.send_data("a".into()).await.unwrap();
        assert!(until.frame().await.unwrap().is_ok());

        let (next, ()) = tokio::join!(until.frame(), async { end.send(()).unwrap() });

        assert!(next.unwrap().unwrap_err().is::<Ended>());
        assert!(until.frame().await.unwrap().is_err());
    }
}
