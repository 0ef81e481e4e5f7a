//! The streaming reverse proxy: nothing is buffered, either way.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use hyper::header::{self, HeaderValue};
use hyper::http::uri::PathAndQuery;
use hyper::{HeaderMap, Request, Response, StatusCode, Uri, Version};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::body::{self, Body, BodyError};
use super::guard::{Head, Upgrade};
use super::hop;
use super::paced::Paced;
use super::tunnel;
use super::upstream::{Answer, Upstream, UpstreamError};

/// Longest body passed on, either way.
const BODY_BYTES_MAX: u64 = 16 * 1024 * 1024 * 1024;
/// For the next piece of a client's body.
const UPLOAD_IDLE_MAX: Duration = Duration::from_secs(30);
/// Upgraded connections at once.
const TUNNELS_MAX: usize = 4096;

/// Passes requests to a service and its responses back.
#[derive(Debug)]
pub struct Proxy {
    upstream: Upstream,
    tunnels: Arc<Semaphore>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl Proxy {
    /// Upgraded connections run among `tasks` and end on `stop`.
    pub fn new(upstream: Upstream, stop: CancellationToken, tasks: TaskTracker) -> Self {
        Self { upstream, tunnels: Arc::new(Semaphore::new(TUNNELS_MAX)), stop, tasks }
    }

    /// Forwards a checked request. Hop-by-hop headers go first, then `add` adds and removes ours,
    /// so that a client cannot take them away by naming them in `Connection`.
    pub async fn forward(
        &self,
        mut request: Request<Incoming>,
        head: &Head,
        add: impl FnOnce(&mut HeaderMap),
    ) -> Result<Response<Body>, UpstreamError> {
        let leaving =
            (head.upgrade == Upgrade::WebSocket).then(|| hyper::upgrade::on(&mut request));
        if request.body().size_hint().lower() > BODY_BYTES_MAX {
            return Err(UpstreamError::BodyTooLong);
        }
        let (parts, incoming) = request.into_parts();
        let bodiless = incoming.is_end_stream();
        let upload = Paced::new(incoming, UPLOAD_IDLE_MAX, BODY_BYTES_MAX);
        let progress = upload.progress();
        let sent = if bodiless { body::empty() } else { body::boxed(upload) };
        let mut onward = Request::new(sent);
        *onward.method_mut() = parts.method;
        *onward.uri_mut() = origin_form(&parts.uri);
        *onward.headers_mut() = parts.headers;
        request_headers(onward.headers_mut(), head, bodiless);
        add(onward.headers_mut());

        let Answer { response, seat } = self.upstream.send(onward, &progress).await?;
        match (response.status() == StatusCode::SWITCHING_PROTOCOLS, leaving) {
            (true, Some(client)) => self.tunnelled(response, client),
            (true, None) => Err(UpstreamError::UnaskedUpgrade),
            (false, _) => Ok(self.streamed(response, seat)),
        }
    }

    fn streamed(&self, response: Response<Incoming>, seat: OwnedSemaphorePermit) -> Response<Body> {
        let (mut parts, incoming) = response.into_parts();
        hop::strip(&mut parts.headers);
        parts.version = Version::HTTP_11;
        let body = if incoming.is_end_stream() {
            body::empty()
        } else {
            let paced = Paced::new(incoming, self.upstream.times().body_idle, BODY_BYTES_MAX);
            body::boxed(Seated { inner: paced, _seat: seat })
        };
        Response::from_parts(parts, body)
    }

    fn tunnelled(
        &self,
        mut response: Response<Incoming>,
        client: hyper::upgrade::OnUpgrade,
    ) -> Result<Response<Body>, UpstreamError> {
        let seat =
            Arc::clone(&self.tunnels).try_acquire_owned().map_err(|_| UpstreamError::Full)?;
        let service = hyper::upgrade::on(&mut response);
        let stop = self.stop.clone();
        self.tasks.spawn(async move {
            tunnel::run(client, service, stop).await;
            drop(seat);
        });
        let (mut parts, _) = response.into_parts();
        hop::strip(&mut parts.headers);
        ask_websocket(&mut parts.headers);
        Ok(Response::from_parts(parts, body::empty()))
    }
}

/// Path and query only; an empty path becomes `/`.
fn origin_form(uri: &Uri) -> Uri {
    let path = uri.path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
    Uri::from(path)
}

fn request_headers(headers: &mut HeaderMap, head: &Head, bodiless: bool) {
    hop::strip(headers);
    headers.remove(header::EXPECT);
    if !headers.contains_key(header::HOST)
        && let Ok(host) = HeaderValue::from_str(&head.authority)
    {
        headers.insert(header::HOST, host);
    }
    if head.upgrade == Upgrade::WebSocket {
        ask_websocket(headers);
    }
    // Without this, hyper would drop the chunked body of a GET.
    if !bodiless && !headers.contains_key(header::CONTENT_LENGTH) {
        headers.insert(header::TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
    }
}

fn ask_websocket(headers: &mut HeaderMap) {
    headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
}

/// A response's body that counts as under way until it ends.
struct Seated<B> {
    inner: B,
    _seat: OwnedSemaphorePermit,
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
