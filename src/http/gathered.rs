//! The beginning of an upload, read before the service behind us hears of it: who sends slowly
//! takes none of its places meanwhile.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::{Body as HttpBody, Frame, SizeHint};

use super::body::BodyError;

/// A body of which a first part is here already.
pub(super) struct Gathered<B> {
    first: Bytes,
    trailers: Option<Frame<Bytes>>,
    rest: B,
}

/// Waits until the body has ended or `bytes_max` of it are here.
pub(super) async fn gather<B>(mut body: B, bytes_max: usize) -> Result<Gathered<B>, BodyError>
where
    B: HttpBody<Data = Bytes, Error = BodyError> + Unpin,
{
    // Copied, because a small piece may keep a large buffer alive.
    let (mut first, mut trailers) = (BytesMut::new(), None);
    while first.len() < bytes_max {
        match body.frame().await.transpose()?.map(Frame::into_data) {
            Some(Ok(piece)) => first.extend_from_slice(&piece),
            Some(Err(other)) => trailers = Some(other),
            None => break,
        }
    }
    Ok(Gathered { first: first.freeze(), trailers, rest: body })
}

impl<B> HttpBody for Gathered<B>
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
        if !this.first.is_empty() {
            return Poll::Ready(Some(Ok(Frame::data(std::mem::take(&mut this.first)))));
        }
        match this.trailers.take() {
            Some(trailers) => Poll::Ready(Some(Ok(trailers))),
            None => Pin::new(&mut this.rest).poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.first.is_empty() && self.trailers.is_none() && self.rest.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (first, rest) = (self.first.len() as u64, self.rest.size_hint());
        let mut hint = SizeHint::new();
        hint.set_lower(rest.lower().saturating_add(first));
        if let Some(upper) = rest.upper().and_then(|upper| upper.checked_add(first)) {
            hint.set_upper(upper);
        }
        hint
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::body;

    #[tokio::test]
    async fn what_was_gathered_comes_first_and_nothing_is_lost() {
        let body = gather(body::full("0123456789"), 4).await.unwrap();

        assert_eq!(body.size_hint().exact(), Some(10));
        assert_eq!(body.collect().await.unwrap().to_bytes(), "0123456789");
    }

    #[tokio::test]
    async fn a_body_is_waited_for_only_as_far_as_asked() {
        let (mut sender, slow) = http_body_util::channel::Channel::<Bytes, BodyError>::new(4);
        sender.send_data("abcd".into()).await.unwrap();

        let body = gather(slow, 4).await.unwrap();
        sender.send_data("ef".into()).await.unwrap();
        drop(sender);

        assert_eq!(body.collect().await.unwrap().to_bytes(), "abcdef");
    }
}
