//! The streaming reverse proxy: nothing is buffered, either way.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Either};
use hyper::body::Body as HttpBody;
use hyper::header;
use hyper::upgrade::OnUpgrade;
use hyper::{HeaderMap, Request, Response, StatusCode, Version};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::body::{self, Body, BodyError};
use super::fetched::Fetched;
use super::framing;
use super::gathered::gather;
use super::guard::{Head, Upgrade};
use super::held::Held;
use super::hop;
use super::onward::onward;
use super::paced::{Paced, Progress};
use super::patience::Pace;
use super::received::Received;
use super::trailers::{Clean, Cleaned};
use super::tunnel;
use super::under_way::Place;
use super::until::{Ends, Until};
use super::upstream::{Upstream, UpstreamError, WHOLE_BYTES};
use super::websocket::{self, Key};

/// Requests whose body's beginning is awaited.
const GATHERING_MAX: usize = 4096;

/// What clients may take of the way to the service.
#[derive(Debug, Clone, Copy)]
pub struct Allowance {
    /// How a request's body must come.
    pub upload: Pace,
    /// How long it may be, in bytes.
    pub upload_bytes: u64,
    /// Without a byte on an upgraded connection or an event stream.
    pub stream_idle: Duration,
    /// How long an upgraded connection may live on after a stop.
    pub tunnel_drain: Duration,
    /// Upgraded connections at once.
    pub tunnels: usize,
    /// Removes from a request's trailers what a client may not say in its head either.
    pub clean_upload: Clean,
    /// The same of the service's.
    pub clean_answer: Clean,
}

/// Passes requests to a service and its responses back.
#[derive(Debug)]
pub struct Proxy {
    upstream: Upstream,
    allowance: Allowance,
    gathering: Semaphore,
    tunnels: Arc<Semaphore>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl Proxy {
    /// Upgraded connections run among `tasks` and end a while after `stop`.
    pub fn new(
        upstream: Upstream,
        allowance: Allowance,
        stop: CancellationToken,
        tasks: TaskTracker,
    ) -> Self {
        let gathering = Semaphore::new(GATHERING_MAX);
        let tunnels = Arc::new(Semaphore::new(allowance.tunnels));
        Self { upstream, allowance, gathering, tunnels, stop, tasks }
    }

    /// The service that requests go to.
    pub fn upstream(&self) -> &Upstream {
        &self.upstream
    }

    /// Forwards a checked request. Hop-by-hop headers go first, then `add` adds and removes ours,
    /// so that a client cannot take them away by naming them in `Connection`. An upgraded
    /// connection, or a call of gRPC, lasts until `ends` at most. `place` is taken until both bodies,
    /// or what the connection was upgraded to, have ended.
    ///
    /// No `async`, which would keep the request twice; and what most requests are not is boxed.
    pub fn forward<'a>(
        &'a self,
        request: Request<Received>,
        head: &'a Head,
        ends: impl FnOnce() -> BoxFuture<'static, ()> + Send + 'a,
        place: Place,
        add: impl FnOnce(&mut HeaderMap) + Send + 'a,
    ) -> impl Future<Output = Result<Response<Body>, UpstreamError>> + Send + 'a {
        let is_plain = head.upgrade == Upgrade::No
            && self.upstream.shared().is_none()
            && request.body().is_end_stream();
        if !is_plain {
            return Either::Right(Box::pin(self.forward_any(request, head, ends, place, add)));
        }
        let mut onward = onward(request.into_parts().0, body::empty(), head, true);
        add(onward.headers_mut());
        Either::Left(async move {
            let response = self.upstream.ask(&mut onward, &Progress::default()).await?;
            if response.status() == StatusCode::SWITCHING_PROTOCOLS {
                return Err(UpstreamError::UnaskedUpgrade);
            }
            Ok(self.answered(response, place))
        })
    }

    /// The same with a body, an upgrade, or HTTP/2 to the service.
    async fn forward_any(
        &self,
        mut request: Request<Received>,
        head: &Head,
        ends: impl FnOnce() -> BoxFuture<'static, ()>,
        place: Place,
        add: impl FnOnce(&mut HeaderMap),
    ) -> Result<Response<Body>, UpstreamError> {
        let leaving = (head.upgrade != Upgrade::No).then(|| hyper::upgrade::on(&mut request));
        if request.body().size_hint().lower() > self.allowance.upload_bytes {
            return Err(UpstreamError::BodyTooLong);
        }
        let key = (head.upgrade == Upgrade::Extended).then(Key::random);
        let shared = self.upstream.shared().filter(|_| leaving.is_none());
        let is_rpc = shared.is_some() && body::is_call(&request);
        let ends = (is_rpc || leaving.is_some()).then(|| ends().shared());
        let leaving = leaving.zip(ends.clone());
        let (parts, incoming) = request.into_parts();
        let (bodiless, place) = (incoming.is_end_stream(), Arc::new(place));
        let (mut progress, mut upload) = (Progress::default(), body::empty());
        if !bodiless {
            let allowance = &self.allowance;
            let speed = if is_rpc { Pace::idle(allowance.stream_idle) } else { allowance.upload };
            let mut paced = Paced::new(incoming, speed, allowance.upload_bytes);
            progress = paced.progress();
            let paced = Cleaned::new(paced, allowance.clean_upload);
            let paced = Held::new(paced, Arc::clone(&place));
            // The first word of an RPC may be an answer to the service's.
            upload = match &ends {
                Some(ends) if is_rpc => body::boxed(Until::new(paced, ends.clone())),
                _ => self.gathered(paced).await?,
            };
        }
        let mut onward = onward(parts, upload, head, bodiless);
        if let Some(key) = &key {
            key.ask(onward.headers_mut());
        }
        add(onward.headers_mut());

        if let Some(shared) = shared {
            let (mut response, seat) = self.upstream.send_shared(shared, onward, &progress).await?;
            framing::settle(response.headers_mut())?;
            if response.status() == StatusCode::SWITCHING_PROTOCOLS {
                return Err(UpstreamError::UnaskedUpgrade);
            }
            let answer = self.streamed(response, (seat, place));
            return Ok(match ends {
                Some(ends) => answer.map(|answer| body::boxed(Until::new(answer, ends))),
                None => answer,
            });
        }
        let response = self.upstream.ask(&mut onward, &progress).await?;
        match (response.status() == StatusCode::SWITCHING_PROTOCOLS, leaving) {
            (true, Some((client, ends))) => {
                self.tunnelled(response, client, key.as_ref(), ends, place)
            }
            (true, None) => Err(UpstreamError::UnaskedUpgrade),
            // Passed on, it would open what the service has not.
            (false, _) if key.is_some() && response.status().is_success() => {
                Err(UpstreamError::NoWebSocket)
            }
            (false, _) => Ok(self.answered(response, place)),
        }
    }

    /// A slow upload takes none of the service's places before there is something to send: this
    /// much of it, or all.
    async fn gathered<B>(&self, upload: B) -> Result<Body, UpstreamError>
    where
        B: HttpBody<Data = Bytes, Error = BodyError> + Unpin + Send + 'static,
    {
        let _place = self.gathering.try_acquire().map_err(|_| UpstreamError::Full)?;
        let gathered = gather(upload, WHOLE_BYTES).await;
        gathered.map(body::boxed).map_err(|error| UpstreamError::of_body(&error))
    }

    fn answered<H>(&self, mut response: Response<Fetched>, held: H) -> Response<Body>
    where
        H: Unpin + Send + 'static,
    {
        let Some(bytes) = response.body_mut().take_whole() else {
            return self.streamed(response, held);
        };
        hop::strip(response.headers_mut());
        response.map(|_| body::full(bytes))
    }

    fn streamed<B, H>(&self, response: Response<B>, held: H) -> Response<Body>
    where
        B: HttpBody<Data = Bytes, Error: Into<BodyError>> + Unpin + Send + 'static,
        H: Unpin + Send + 'static,
    {
        let (mut parts, incoming) = response.into_parts();
        hop::strip(&mut parts.headers);
        parts.version = Version::HTTP_11;
        let body = if incoming.is_end_stream() {
            body::empty()
        } else {
            let is_stream = body::is_event_stream(&parts.headers) || body::is_rpc(&parts.headers);
            let idle_max = if is_stream {
                self.allowance.stream_idle
            } else {
                self.upstream.times().body_idle
            };
            let paced = Paced::new(incoming, Pace::idle(idle_max), u64::MAX);
            body::boxed(Held::new(Cleaned::new(paced, self.allowance.clean_answer), held))
        };
        Response::from_parts(parts, body)
    }

    fn tunnelled(
        &self,
        mut response: Response<Fetched>,
        client: OnUpgrade,
        key: Option<&Key>,
        ends: Ends,
        place: Arc<Place>,
    ) -> Result<Response<Body>, UpstreamError> {
        if key.is_some_and(|key| !key.is_answered(response.headers())) {
            return Err(UpstreamError::NoWebSocket);
        }
        let seat =
            Arc::clone(&self.tunnels).try_acquire_owned().map_err(|_| UpstreamError::Full)?;
        let service = hyper::upgrade::on(&mut response);
        let (idle_max, drain) = (self.allowance.stream_idle, self.allowance.tunnel_drain);
        let stop = self.stop.clone();
        self.tasks.spawn(async move {
            let stopped = async {
                stop.cancelled().await;
                tokio::time::sleep(drain).await;
            };
            tokio::select! {
                () = tunnel::run(client, service, idle_max) => {}
                () = stopped => {}
                () = ends => {}
            }
            drop((seat, place));
        });
        let (mut parts, _) = response.into_parts();
        hop::strip(&mut parts.headers);
        parts.extensions.insert(Tunnel);
        if key.is_some() {
            parts.headers.remove(header::SEC_WEBSOCKET_ACCEPT);
            parts.headers.remove(header::CONTENT_LENGTH);
            (parts.status, parts.version) = (StatusCode::OK, Version::HTTP_2);
        } else {
            websocket::upgrade(&mut parts.headers);
        }
        Ok(Response::from_parts(parts, body::empty()))
    }
}

/// Marks an answer by which a tunnel has begun.
#[derive(Debug, Clone, Copy)]
struct Tunnel;

/// Whether a tunnel begins with this answer.
pub fn is_tunnel<B>(response: &Response<B>) -> bool {
    response.extensions().get::<Tunnel>().is_some()
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;
    use crate::http::guard::Sizes;
    use crate::http::listener::{self, Options};
    use crate::http::upstream::Times;
    use crate::http::{guard, under_way, upstream};

    /// A proxy on a free port in front of a shop that answers each connection with `answer`, and
    /// what the shop was sent.
    async fn in_front_of(
        answer: &'static str,
    ) -> (SocketAddr, tokio::sync::mpsc::UnboundedReceiver<String>) {
        let shop = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", shop.local_addr().unwrap());
        let (tell, told) = tokio::sync::mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = shop.accept().await {
                let mut buffer = vec![0; 4096];
                let count = stream.read(&mut buffer).await.unwrap();
                tell.send(String::from_utf8_lossy(&buffer[..count]).into_owned()).unwrap();
                stream.write_all(answer.as_bytes()).await.unwrap();
                let _still_open = stream.read(&mut buffer).await;
                stream.write_all(b"echo").await.ok();
            }
        });
        let upstream = upstream::Upstream::new(&[url], Times::default()).unwrap();
        let (ending, tasks) = (CancellationToken::new(), TaskTracker::new());
        let allowance = Allowance {
            upload: Pace::idle(Duration::from_secs(30)),
            upload_bytes: 1024,
            stream_idle: Duration::from_mins(1),
            tunnel_drain: Duration::ZERO,
            tunnels: 1,
            clean_upload: |_| {},
            clean_answer: |_| {},
        };
        let proxy = Arc::new(Proxy::new(upstream, allowance, ending.clone(), tasks.clone()));
        let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        let handler = move |request: Request<hyper::body::Incoming>, _| {
            let request = request.map(Received::from);
            let proxy = Arc::clone(&proxy);
            async move {
                let head = guard::check(&request, &Sizes::default()).unwrap();
                let place = under_way::UnderWay::new().enter(&(), 1).unwrap();
                let never = || Box::pin(std::future::pending()) as BoxFuture<'static, ()>;
                match proxy.forward(request, &head, never, place, |_| {}).await {
                    Ok(response) => response,
                    Err(error) => {
                        let mut response = Response::new(body::empty());
                        *response.status_mut() = error.status();
                        response
                    }
                }
            }
        };
        tokio::spawn(listener::serve(socket, Options::default(), ending, tasks, handler));
        (address, told)
    }

    async fn answer_to(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn ed_29_a_head_answer_keeps_its_length_and_has_no_body() {
        let (address, mut told) =
            in_front_of("HTTP/1.1 200 OK\r\nContent-Length: 1234\r\nKeep-Alive: 5\r\n\r\n").await;

        let head =
            "HEAD /a?b HTTP/1.1\r\nHost: shop.test\r\nConnection: close, X-A\r\nX-A: 1\r\n\r\n";
        let answer = answer_to(address, head).await;

        assert!(answer.contains("content-length: 1234\r\n"), "{answer}");
        assert!(!answer.contains("keep-alive"), "{answer}");
        let sent = told.recv().await.unwrap();
        assert_eq!(sent, "HEAD /a?b HTTP/1.1\r\nhost: shop.test\r\n\r\n");
    }

    #[tokio::test]
    async fn ed_14_an_upgrade_that_nobody_asked_for_is_a_502() {
        let (address, _told) = in_front_of("HTTP/1.1 101 Switching Protocols\r\n\r\n").await;

        let ask = "GET / HTTP/1.1\r\nHost: shop.test\r\nConnection: upgrade, close\r\nUpgrade: h2c\r\n\r\n";
        let answer = answer_to(address, ask).await;

        assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
    }

    #[tokio::test]
    async fn a_websocket_is_tunnelled_after_the_shops_101() {
        let (address, mut told) = in_front_of(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: x\r\n\r\n",
        )
        .await;
        let mut stream = TcpStream::connect(address).await.unwrap();
        let ask = "GET /ws HTTP/1.1\r\nHost: shop.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
        stream.write_all(ask.as_bytes()).await.unwrap();
        let sent = told.recv().await.unwrap();
        assert!(sent.contains("upgrade: websocket\r\n"), "{sent}");

        let mut head = [0; 512];
        let count = stream.read(&mut head).await.unwrap();
        let head = String::from_utf8_lossy(&head[..count]).into_owned();
        assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
        stream.write_all(b"hello").await.unwrap();
        let mut echoed = [0; 4];
        stream.read_exact(&mut echoed).await.unwrap();

        assert_eq!(&echoed, b"echo");
    }
}
