//! Services behind us that are away, and connections that nobody uses.

use hyper::StatusCode;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

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
