//! Services behind us that are away, and connections that nobody uses.

use hyper::{Method, StatusCode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;
use crate::http::body;

mod direct;
mod shared;

#[tokio::test]
async fn nobody_there_is_a_502() {
    let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", socket.local_addr().unwrap());
    drop(socket);
    let upstream = Upstream::new(&[url], Times::default()).unwrap();

    let error = upstream.send(Request::new(body::empty()), &Progress::default()).await;

    assert_eq!(error.unwrap_err().status(), StatusCode::BAD_GATEWAY);
}

#[tokio::test]
async fn what_nobody_uses_again_is_closed_without_another_request() {
    let service = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", service.local_addr().unwrap());
    let times = Times { pool_idle: Duration::from_millis(50), ..Times::default() };
    let upstream = Upstream::new(&[url], times).unwrap();
    let served = async {
        let (mut stream, _) = service.accept().await.unwrap();
        let mut buffer = [0; 1024];
        assert!(stream.read(&mut buffer).await.unwrap() > 0);
        stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.unwrap();
        stream.read(&mut buffer).await.unwrap()
    };

    let asked = async {
        let answer = upstream.send(Request::new(body::empty()), &Progress::default()).await;
        assert_eq!(answer.unwrap().status(), StatusCode::NO_CONTENT);
    };
    let both = async { tokio::join!(served, asked).0 };

    let read = tokio::time::timeout(Duration::from_secs(10), both).await;
    assert_eq!(read.expect("still open"), 0, "closed");
}

/// A service that allows one stream for each connection and answers all but `/held`; how many
/// connections it has had.
async fn narrow() -> (String, Arc<AtomicUsize>) {
    let socket = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", socket.local_addr().unwrap());
    let count = Arc::<AtomicUsize>::default();
    let told = Arc::clone(&count);
    tokio::spawn(async move {
        while let Ok((stream, _)) = socket.accept().await {
            count.fetch_add(1, Ordering::Relaxed);
            tokio::spawn(async move {
                let mut builder = h2::server::Builder::new();
                let shake = builder.max_concurrent_streams(1).handshake::<_, bytes::Bytes>(stream);
                let mut connection = shake.await.unwrap();
                let mut held = vec![];
                while let Some(Ok((request, mut respond))) = connection.accept().await {
                    if request.uri().path() == "/held" {
                        held.push(respond);
                    } else {
                        respond.send_response(Response::new(()), true).unwrap();
                    }
                }
            });
        }
    });
    (url, told)
}

#[tokio::test]
async fn over_http_2_who_finds_no_stream_gets_another_connection_and_idle_ones_end() {
    let (url, connections) = narrow().await;
    let times = Times { pool_idle: Duration::from_secs(1), ..Times::default() };
    let upstream = Upstream::new(&[format!("{url}/")], times).unwrap().over_http2();
    let nothing = Progress::default();
    let get = |path: &'static str| {
        let mut request = Request::new(body::empty());
        *request.uri_mut() = format!("{url}{path}").parse().unwrap();
        upstream.send_shared(upstream.shared().unwrap(), request, &nothing)
    };
    // Two, by which it is known how many streams there are.
    for _ in 0..2 {
        drop(get("/").await.unwrap());
    }
    assert_eq!(connections.load(Ordering::Relaxed), 1);

    let held = get("/held");
    let others = async {
        for _ in 0..3 {
            drop(get("/").await.unwrap());
        }
    };
    tokio::select! {
        biased;
        _ = held => unreachable!("nobody answers it"),
        () = others => {}
    }
    assert_eq!(connections.load(Ordering::Relaxed), 2);

    tokio::time::sleep(times.pool_idle).await;
    drop(get("/").await.unwrap());
    assert_eq!(connections.load(Ordering::Relaxed), 3, "none is used after so long");
}

/// An upload of more than is gathered, which goes on for as long as its sender lives.
fn endless() -> (http_body_util::channel::Sender<bytes::Bytes, body::BodyError>, Request<Body>) {
    let (sender, upload) = http_body_util::channel::Channel::new(1);
    let mut request = Request::new(body::boxed(upload));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = hyper::Uri::from_static("/upload");
    request.headers_mut().insert("host", "shop.test".parse().unwrap());
    request.headers_mut().insert("transfer-encoding", "chunked".parse().unwrap());
    (sender, request)
}

/// Uploads until nobody takes it any more; how long that was.
async fn sends_until_cut(
    mut sender: http_body_util::channel::Sender<bytes::Bytes, body::BodyError>,
) -> Duration {
    let since = std::time::Instant::now();
    while sender.send_data("more".into()).await.is_ok() {
        assert!(since.elapsed() < Duration::from_secs(20), "it is read for ever");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    since.elapsed()
}

/// The upload holds the only seat until it is cut, and then no longer.
async fn is_cut_and_gives_its_seat_back<T>(
    sender: http_body_util::channel::Sender<bytes::Bytes, body::BodyError>,
    get: impl AsyncFn() -> Result<T, UpstreamError>,
) {
    assert!(matches!(get().await, Err(UpstreamError::Full)), "its seat is free already");
    let took = sends_until_cut(sender).await;
    assert!(took >= REST / 2, "cut after {took:?}");
    let since = std::time::Instant::now();
    while matches!(get().await, Err(UpstreamError::Full)) {
        assert!(since.elapsed() < Duration::from_secs(20), "its seat never comes back");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

const REST: Duration = Duration::from_millis(400);

fn one_seat() -> Times {
    Times { in_flight: 1, rest: REST, ..Times::default() }
}

#[tokio::test]
async fn an_upload_that_outlasts_its_answer_keeps_its_seat_and_is_cut_in_time() {
    let service = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", service.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = service.accept().await {
            tokio::spawn(async move {
                let mut buffer = [0; 1024];
                assert!(stream.read(&mut buffer).await.unwrap() > 0);
                stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.unwrap();
                while stream.read(&mut buffer).await.is_ok_and(|count| count > 0) {}
            });
        }
    });
    let upstream = Upstream::new(&[url], one_seat()).unwrap();
    let nothing = Progress::default();
    let get = async || upstream.send(Request::new(body::empty()), &nothing).await;

    let (sender, request) = endless();
    drop(upstream.send(request, &nothing).await.unwrap());

    is_cut_and_gives_its_seat_back(sender, get).await;
}

#[tokio::test]
async fn over_http_2_an_upload_that_outlasts_its_answer_keeps_its_seat_and_is_cut_in_time() {
    let socket = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", socket.local_addr().unwrap());
    tokio::spawn(async move {
        let (stream, _) = socket.accept().await.unwrap();
        let mut connection = h2::server::handshake(stream).await.unwrap();
        while let Some(Ok((request, mut respond))) = connection.accept().await {
            respond.send_response(Response::new(()), true).unwrap();
            let mut upload = request.into_body();
            tokio::spawn(async move {
                while let Some(Ok(piece)) = upload.data().await {
                    upload.flow_control().release_capacity(piece.len()).unwrap();
                }
            });
        }
    });
    let upstream = Upstream::new(&[url], one_seat()).unwrap().over_http2();
    let nothing = Progress::default();
    let get = async || {
        let mut request = Request::new(body::empty());
        request.headers_mut().insert("host", "shop.test".parse().unwrap());
        upstream.send_shared(upstream.shared().unwrap(), request, &nothing).await
    };

    let (sender, request) = endless();
    drop(upstream.send_shared(upstream.shared().unwrap(), request, &nothing).await.unwrap());

    is_cut_and_gives_its_seat_back(sender, get).await;
}
