//! WebSockets by HTTP/2 (RFC 8441): to the shop by an ordinary upgrade, and at the same gate.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper::ext::Protocol;
use hyper_util::rt::{TokioExecutor, TokioIo};
use nix::sys::signal::Signal;
use rustls::ClientConfig;
use stanchion::clock::{Clock, SystemClock};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::Edge;
use super::admitted::{admission, keys};
use super::origin::header;
use super::tls::{connect, secured, secured_with};

type Client = SendRequest<Empty<Bytes>>;

const PATIENCE: Duration = Duration::from_secs(20);

/// A connection that knows that WebSockets are served.
async fn client(edge: &Edge, config: &ClientConfig) -> Client {
    let stream = connect(edge, config.clone(), &["h2"]).await;
    let (mut client, driver) = handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(driver);
    let any = Request::get("https://localhost/any").body(Empty::new()).unwrap();
    assert_eq!(client.send_request(any).await.unwrap().status(), StatusCode::OK);
    client
}

async fn open(
    client: &mut Client,
    path: &str,
    protocol: &str,
    lines: &[(&str, &str)],
) -> Response<Incoming> {
    let mut request = Request::builder()
        .method(Method::CONNECT)
        .uri(format!("https://localhost{path}"))
        .header("sec-websocket-version", "13")
        .header("sec-websocket-protocol", "chat");
    for (name, value) in lines {
        request = request.header(*name, *value);
    }
    let protocol: Protocol = match protocol {
        "websocket" => Protocol::from_static("websocket"),
        _ => Protocol::from_static("foo"),
    };
    let request = request.extension(protocol).body(Empty::new()).unwrap();
    client.send_request(request).await.unwrap()
}

async fn upgraded(response: Response<Incoming>) -> TokioIo<hyper::upgrade::Upgraded> {
    assert_eq!(response.status(), StatusCode::OK);
    TokioIo::new(hyper::upgrade::on(response).await.unwrap())
}

/// Waits until the other side has closed.
async fn closes(socket: &mut TokioIo<hyper::upgrade::Upgraded>) {
    let mut rest = vec![];
    let reading = socket.read_to_end(&mut rest);
    drop(tokio::time::timeout(PATIENCE, reading).await.expect("it stayed open"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ed_84_a_websocket_over_http_2_echoes_and_nothing_else_is_opened() {
    let (edge, config) = secured("sockets");
    let mut client = client(&edge, &config).await;

    let answer = open(&mut client, "/socket", "websocket", &[("x-forwarded-for", "9.9.9.9")]).await;
    assert_eq!(answer.headers()["sec-websocket-protocol"], "chat");
    for name in ["sec-websocket-accept", "connection", "upgrade"] {
        assert!(!answer.headers().contains_key(name), "{name}");
    }
    let mut socket = upgraded(answer).await;
    for word in [b"hello", b"again"] {
        socket.write_all(word).await.unwrap();
        let mut echo = [0; 5];
        socket.read_exact(&mut echo).await.unwrap();
        assert_eq!(&echo, word);
    }
    socket.shutdown().await.unwrap();
    closes(&mut socket).await;
    edge.shop.await_gone(1);
    let head = edge.shop.heads("/socket").remove(0);
    assert!(head.starts_with("GET /socket HTTP/1.1\r\n"), "{head}");
    for (name, wanted) in [
        ("host", Some("localhost")),
        ("upgrade", Some("websocket")),
        ("connection", Some("upgrade")),
        ("sec-websocket-version", Some("13")),
        ("x-forwarded-for", Some("127.0.0.1")),
        ("content-length", None),
        ("transfer-encoding", None),
    ] {
        assert_eq!(header(&head, name), wanted, "{name}: {head}");
    }

    for (path, protocol, wanted) in [
        ("/socket", "foo", StatusCode::NOT_IMPLEMENTED),
        ("/ws", "websocket", StatusCode::BAD_GATEWAY),
        ("/plain", "websocket", StatusCode::BAD_GATEWAY),
        ("/early", "websocket", StatusCode::UNAUTHORIZED),
        ("/_stanchion/jwks.json", "websocket", StatusCode::BAD_REQUEST),
        ("/%2e%2e/socket", "websocket", StatusCode::BAD_REQUEST),
    ] {
        let answer = open(&mut client, path, protocol, &[]).await;
        assert_eq!(answer.status(), wanted, "{path} {protocol}");
        answer.into_body().collect().await.unwrap();
    }
    assert_eq!(edge.shop.heads("/socket").len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ed_40_an_extended_connect_to_a_protected_path_is_gated_and_ends_with_its_admission() {
    let (mut edge, config) = secured_with("gatedsockets", |config| {
        config.set("public.drain_timeout", "1s").unwrap();
        config.set("public.stream_drain_timeout", "1s").unwrap();
    });
    let mut client = client(&edge, &config).await;

    for accept in ["application/json", "text/html"] {
        let refused =
            open(&mut client, "/checkout/socket", "websocket", &[("accept", accept)]).await;
        assert!(refused.status().is_client_error(), "{}", refused.status());
    }
    assert_eq!(edge.shop.heads("/checkout/socket"), [""; 0]);

    let admission = admission(&keys(&edge), &edge.plan.id, 1, SystemClock.now_ms() - 1_000);
    let token = keys(&edge).mint_admission(&admission);
    let pass = [("stanchion-admission", token.as_str())];
    let answer = open(&mut client, "/checkout/socket", "websocket", &pass).await;
    let mut socket = upgraded(answer).await;
    let head = edge.shop.heads("/checkout/socket").remove(0);
    assert_eq!(header(&head, "stanchion-visitor"), Some(admission.sub.as_str()));
    socket.write_all(b"hello").await.unwrap();
    socket.read_exact(&mut [0; 5]).await.unwrap();

    edge.installation.gateways[0].signal(Signal::SIGTERM).unwrap();
    closes(&mut socket).await;
    edge.shop.await_gone(1);
    assert!(edge.installation.gateways[0].stop().unwrap().success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn websockets_over_http_2_are_counted_and_keep_their_quiet_connection() {
    let (edge, config) = secured_with("countedsockets", |config| {
        config.set("limits.client.max_upgraded", 1).unwrap();
        config.set("limits.client.h2_idle_timeout", "300ms").unwrap();
    });
    let mut client = client(&edge, &config).await;

    let mut socket = upgraded(open(&mut client, "/socket", "websocket", &[]).await).await;
    let full = open(&mut client, "/socket", "websocket", &[]).await;
    assert_eq!(full.status(), StatusCode::SERVICE_UNAVAILABLE);
    full.into_body().collect().await.unwrap();
    // Longer than any connection without requests is kept.
    tokio::time::sleep(Duration::from_millis(900)).await;
    socket.write_all(b"still").await.unwrap();
    let mut echo = [0; 5];
    socket.read_exact(&mut echo).await.unwrap();
    assert_eq!(&echo, b"still");

    drop(socket);
    // The refused one as well: it was opened at the shop, and closed.
    edge.shop.await_gone(2);
    upgraded(open(&mut client, "/socket", "websocket", &[]).await).await;
}
