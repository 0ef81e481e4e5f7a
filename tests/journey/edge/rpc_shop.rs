//! A shop that speaks HTTP/2 without TLS and answers calls as gRPC does.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpListener;
use tokio::sync::{Notify, Semaphore};

/// Streams that it allows at once.
pub(super) const STREAMS: u32 = 4;

type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;

/// The shop; its connections end with the test.
pub(super) struct RpcShop {
    pub(super) url: String,
    seen: Arc<Seen>,
}

#[derive(Default)]
struct Seen {
    heads: Mutex<Vec<Parts>>,
    trailers: Mutex<Vec<HeaderMap>>,
    connections: AtomicUsize,
    busiest: AtomicUsize,
    /// Told to all connections: take no more requests.
    goodbye: Notify,
    cancelled: Notify,
}

impl RpcShop {
    pub(super) async fn start() -> Self {
        let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", socket.local_addr().unwrap());
        let seen = Arc::<Seen>::default();
        let kept = Arc::clone(&seen);
        tokio::spawn(async move {
            while let Ok((stream, _)) = socket.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&seen)));
            }
        });
        Self { url, seen: kept }
    }

    /// The heads that came for a path.
    pub(super) fn heads(&self, path: &str) -> Vec<Parts> {
        let heads = self.seen.heads.lock().unwrap();
        heads.iter().filter(|head| head.uri.path() == path).cloned().collect()
    }

    /// The trailers of requests, as they came.
    pub(super) fn trailers(&self) -> Vec<HeaderMap> {
        self.seen.trailers.lock().unwrap().clone()
    }

    /// Connections that have carried a request.
    pub(super) fn connections(&self) -> usize {
        self.seen.connections.load(Ordering::Relaxed)
    }

    /// The most requests that were under way at once on one connection.
    pub(super) fn busiest(&self) -> usize {
        self.seen.busiest.load(Ordering::Relaxed)
    }

    /// Sends GOAWAY on every connection.
    pub(super) fn say_goodbye(&self) {
        self.seen.goodbye.notify_waiters();
    }

    /// Waits until a call was cancelled by its caller.
    pub(super) async fn await_cancelled(&self) {
        self.seen.cancelled.notified().await;
    }
}

async fn serve(stream: tokio::net::TcpStream, seen: Arc<Seen>) {
    let kept = Arc::clone(&seen);
    let (first, busy) = (AtomicUsize::new(0), Arc::<AtomicUsize>::default());
    let service = service_fn(|request| {
        // Probes open sockets and ask nothing.
        kept.connections
            .fetch_add(usize::from(first.fetch_add(1, Ordering::Relaxed) == 0), Ordering::Relaxed);
        answer(request, Arc::clone(&kept), Arc::clone(&busy))
    });
    let connection = http2::Builder::new(TokioExecutor::new())
        .max_concurrent_streams(STREAMS)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    tokio::select! {
        _ = connection.as_mut() => {}
        () = seen.goodbye.notified() => {
            connection.as_mut().graceful_shutdown();
            drop(connection.await);
        }
    }
}

async fn answer(
    request: Request<Incoming>,
    seen: Arc<Seen>,
    busy: Arc<AtomicUsize>,
) -> Result<Answer, Infallible> {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path().to_owned();
    seen.heads.lock().unwrap().push(parts);
    let at_once = busy.fetch_add(1, Ordering::Relaxed) + 1;
    seen.busiest.fetch_max(at_once, Ordering::Relaxed);
    let answer = match path.as_str() {
        "/unary" => unary(body, &seen).await,
        "/unknown" => {
            let mut answer = call(Empty::new().boxed_unsync());
            answer.headers_mut().insert("grpc-status", HeaderValue::from_static("12"));
            answer
        }
        "/bidi" => bidi(body, Arc::clone(&seen)),
        "/brief" => {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            Response::new(Full::from("ok").boxed_unsync())
        }
        _ => Response::new(Full::from("ok").boxed_unsync()),
    };
    busy.fetch_sub(1, Ordering::Relaxed);
    Ok(answer)
}

fn call(body: UnsyncBoxBody<Bytes, Infallible>) -> Answer {
    let mut answer = Response::new(body);
    answer.headers_mut().insert("content-type", HeaderValue::from_static("application/grpc"));
    answer
}

fn done() -> Frame<Bytes> {
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    trailers.insert("stanchion-answer", HeaderValue::from_static("queue"));
    Frame::trailers(trailers)
}

/// Says what it was told, once it has been told all.
async fn unary(body: Incoming, seen: &Seen) -> Answer {
    let collected = body.collect().await.unwrap();
    seen.trailers.lock().unwrap().push(collected.trailers().cloned().unwrap_or_default());
    let frames = [Ok(Frame::data(collected.to_bytes())), Ok(done())];
    call(BodyExt::boxed_unsync(StreamBody::new(stream::iter(frames))))
}

/// Says each word as soon as it hears it.
fn bidi(body: Incoming, seen: Arc<Seen>) -> Answer {
    let words =
        stream::unfold((Some(body), Hearing(Some(seen))), |(body, mut hearing)| async move {
            let mut body = body?;
            match body.frame().await {
                Some(Ok(frame)) => Some((Ok(frame), (Some(body), hearing))),
                Some(Err(_)) => None,
                None => {
                    hearing.0 = None;
                    Some((Ok(done()), (None, hearing)))
                }
            }
        });
    call(BodyExt::boxed_unsync(StreamBody::new(words.boxed())))
}

/// Dropped before the caller had said all, it was cancelled.
struct Hearing(Option<Arc<Seen>>);

impl Drop for Hearing {
    fn drop(&mut self) {
        if let Some(seen) = &self.0 {
            seen.cancelled.notify_one();
        }
    }
}

/// A shop that refuses the first stream of each path and serves the next; what it was asked, in
/// order.
pub(super) async fn refusing() -> (String, Arc<Mutex<Vec<String>>>) {
    let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", socket.local_addr().unwrap());
    let asked = Arc::<Mutex<Vec<String>>>::default();
    let kept = Arc::clone(&asked);
    let one = Arc::new(Semaphore::new(1));
    tokio::spawn(async move {
        while let Ok((stream, _)) = socket.accept().await {
            let (asked, one) = (Arc::clone(&asked), Arc::clone(&one));
            tokio::spawn(async move {
                let Ok(mut connection) = h2::server::handshake(stream).await else { return };
                while let Some(Ok((request, mut respond))) = connection.accept().await {
                    let _turn = one.acquire().await.unwrap();
                    let path = request.uri().path().to_owned();
                    let is_first = !asked.lock().unwrap().contains(&path);
                    asked.lock().unwrap().push(path);
                    if is_first {
                        respond.send_reset(h2::Reason::REFUSED_STREAM);
                    } else {
                        drop(respond.send_response(Response::new(()), true));
                    }
                }
            });
        }
    });
    (url, kept)
}
