//! The rest of an upload whose answer has ended: it has so long, and takes until then what it took.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use hyper::Request;
use hyper::body::Body as HttpBody;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::body::{self, Body};
use super::held::Held;
use super::until::Until;

/// What an answer holds until it ends.
pub(super) struct Answer<H> {
    _held: Arc<H>,
    /// Then the upload's time begins.
    _ended: Option<DropGuard>,
}

/// `held` is held by the request's body and by its answer.
pub(super) fn bounded<H>(
    request: Request<Body>,
    held: H,
    rest_max: Duration,
) -> (Request<Body>, Answer<H>)
where
    H: Send + Sync + 'static,
{
    let held = Arc::new(held);
    if request.body().is_end_stream() {
        return (request, Answer { _held: held, _ended: None });
    }
    let answered = CancellationToken::new();
    let ended = answered.clone().drop_guard();
    let ends: BoxFuture<'static, ()> = Box::pin(async move {
        answered.cancelled().await;
        tokio::time::sleep(rest_max).await;
    });
    let (of_upload, ends) = (Arc::clone(&held), ends.shared());
    let request = request.map(|upload| body::boxed(Until::new(Held::new(upload, of_upload), ends)));
    (request, Answer { _held: held, _ended: Some(ended) })
}
