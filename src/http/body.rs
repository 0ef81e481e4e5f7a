//! The one body type of the program, and bounded ways to read one.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::{Frame, SizeHint};
use hyper::{HeaderMap, Method, Request, Version, header};

use super::between::Answer;

/// Whatever can go wrong while a body streams.
pub type BodyError = Box<dyn std::error::Error + Send + Sync>;

/// A streaming body; answers of ours and of the shop look alike.
pub struct Body {
    of: Of,
    /// Tells the connection when all of it has been taken.
    answer: Option<Answer>,
}

/// Most bodies are there already: no box for them.
enum Of {
    Bytes(Bytes),
    Stream(UnsyncBoxBody<Bytes, BodyError>),
}

impl Body {
    fn of(of: Of) -> Self {
        Self { of, answer: None }
    }

    /// Its bytes, if they are all there.
    pub(super) fn into_whole(self) -> Option<Bytes> {
        match self.of {
            Of::Bytes(bytes) => Some(bytes),
            Of::Stream(_) => None,
        }
    }

    /// The same, told of when it is over.
    pub(super) fn answering(mut self, answer: Answer) -> Self {
        self.answer = Some(answer);
        self
    }
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match &mut self.get_mut().of {
            Of::Bytes(bytes) if bytes.is_empty() => Poll::Ready(None),
            Of::Bytes(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Of::Stream(stream) => Pin::new(stream).poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.of {
            Of::Bytes(bytes) => bytes.is_empty(),
            Of::Stream(stream) => stream.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.of {
            Of::Bytes(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Of::Stream(stream) => stream.size_hint(),
        }
    }
}

/// How long a drain may take: a client that dribbles is not worth more.
const DRAIN_TIME_MAX: Duration = Duration::from_secs(2);

/// Whether a response's body is one whose silence is part of it.
pub(super) fn is_event_stream(headers: &HeaderMap) -> bool {
    headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.split(';').next())
        .is_some_and(|kind| kind.trim().eq_ignore_ascii_case("text/event-stream"))
}

/// Whether a request or an answer is a call of gRPC: both sides may speak at any time, or not.
pub(super) fn is_rpc(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).map(hyper::header::HeaderValue::as_bytes);
    kind.is_some_and(|kind| {
        let (name, rest) = kind.split_at(kind.len().min(b"application/grpc".len()));
        name.eq_ignore_ascii_case(b"application/grpc")
            && rest.first().is_none_or(|next| matches!(next, b'+' | b';' | b' '))
    })
}

/// Whether it is a call of gRPC as its clients make them: both sides may speak when they like.
pub(super) fn is_call<B>(request: &Request<B>) -> bool {
    let te = request.headers().get(header::TE);
    request.version() == Version::HTTP_2
        && *request.method() == Method::POST
        && te.is_some_and(|te| te.as_bytes().eq_ignore_ascii_case(b"trailers"))
        && is_rpc(request.headers())
}

/// A body of known bytes.
pub fn full(bytes: impl Into<Bytes>) -> Body {
    Body::of(Of::Bytes(bytes.into()))
}

/// No body.
pub fn empty() -> Body {
    Body::of(Of::Bytes(Bytes::new()))
}

/// Boxes any streaming body.
pub fn boxed<B>(body: B) -> Body
where
    B: hyper::body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BodyError>,
{
    Body::of(Of::Stream(body.map_err(Into::into).boxed_unsync()))
}

/// Why a body could not be read whole.
#[derive(Debug, thiserror::Error)]
pub enum CollectError {
    /// It is longer than the bound.
    #[error("the body is longer than {0} bytes")]
    TooLarge(usize),
    /// The sender went away, or broke the framing.
    #[error("the body could not be read: {0}")]
    Broken(BodyError),
    /// It did not arrive in time.
    #[error("the body did not arrive in time")]
    Slow,
}

/// Reads a whole body of at most `bytes_max` bytes within `time_max`.
pub async fn collect<B>(
    body: B,
    bytes_max: usize,
    time_max: Duration,
) -> Result<Bytes, CollectError>
where
    B: hyper::body::Body<Data = Bytes> + Send,
    B::Error: Into<BodyError>,
{
    let known_min = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    if known_min > bytes_max {
        return Err(CollectError::TooLarge(bytes_max));
    }
    match tokio::time::timeout(time_max, Limited::new(body, bytes_max).collect()).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(CollectError::TooLarge(bytes_max)),
        Ok(Err(error)) => Err(CollectError::Broken(error)),
        Err(_) => Err(CollectError::Slow),
    }
}

/// What became of an unread body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Drained {
    /// Read to its end: the connection may carry the next request.
    Whole,
    /// Given up: the connection must close, or its rest would be read as a request.
    Cut,
}

/// Reads and drops at most `bytes_max`, so that a client that is still sending sees the answer and
/// not a reset.
pub async fn drain<B>(mut body: B, bytes_max: usize) -> Drained
where
    B: hyper::body::Body<Data = Bytes> + Unpin,
{
    let reading = async {
        let mut seen = 0usize;
        while let Some(Ok(frame)) = body.frame().await {
            seen = seen.saturating_add(frame.data_ref().map_or(0, Bytes::len));
            if seen > bytes_max {
                return Drained::Cut;
            }
        }
        if body.is_end_stream() { Drained::Whole } else { Drained::Cut }
    };
    tokio::time::timeout(DRAIN_TIME_MAX, reading).await.unwrap_or(Drained::Cut)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn only_what_a_client_of_grpc_would_send_is_a_call() {
        let call = |method: Method, version: Version, te: &'static str| {
            let request = Request::builder().method(method).version(version);
            let request = request.header("te", te).header("content-type", "application/grpc");
            is_call(&request.body(()).unwrap())
        };
        assert!(call(Method::POST, Version::HTTP_2, "trailers"));
        assert!(!call(Method::POST, Version::HTTP_11, "trailers"));
        assert!(!call(Method::PUT, Version::HTTP_2, "trailers"));
        assert!(!call(Method::POST, Version::HTTP_2, ""));
    }

    #[tokio::test]
    async fn a_body_at_the_bound_is_read_and_one_above_is_refused() {
        let fits = collect(full("12345"), 5, SECOND).await;
        assert_eq!(fits.unwrap(), "12345");

        let above = collect(full("123456"), 5, SECOND).await;
        assert!(matches!(above, Err(CollectError::TooLarge(5))));
    }

    #[tokio::test]
    async fn a_body_that_never_comes_is_given_up() {
        let (_sender, silent) = http_body_util::channel::Channel::<Bytes, BodyError>::new(1);

        assert!(matches!(
            collect(silent, 5, Duration::from_millis(5)).await,
            Err(CollectError::Slow)
        ));
    }
}
