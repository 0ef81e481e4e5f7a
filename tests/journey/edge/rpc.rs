//! `shop.http2 = true`: calls of gRPC pass in both directions, all over one connection.

use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use http::{HeaderMap, HeaderValue, Request, StatusCode, Version};
use http_body_util::channel::{Channel, Sender};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::ClientConfig;

use super::Edge;
use super::rpc_shop::{RpcShop, STREAMS, refusing};
use super::tls::{connect, secured_with};
use super::wire::status;

type Body = UnsyncBoxBody<Bytes, Box<dyn std::error::Error + Send + Sync>>;
type Client = SendRequest<Body>;

const PATIENCE: Duration = Duration::from_secs(20);

fn secured(topic: &str, shop: &str) -> (Edge, ClientConfig) {
    secured_with(topic, |config| {
        config.set("shop.http2", true).unwrap();
        config.set("shop.origins", vec![shop]).unwrap();
    })
}

async fn client(edge: &Edge, config: &ClientConfig) -> Client {
    let stream = connect(edge, config.clone(), &["h2"]).await;
    let (client, driver) = handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(driver);
    client
}

fn call(path: &str, body: Body) -> Request<Body> {
    Request::post(format!("https://localhost{path}"))
        .header("content-type", "application/grpc+proto")
        .header("te", "trailers")
        .body(body)
        .unwrap()
}

/// A body whose frames are sent as the test goes on.
fn speaking() -> (Sender<Bytes, Box<dyn std::error::Error + Send + Sync>>, Body) {
    let (sender, body) = Channel::new(4);
    (sender, BodyExt::boxed_unsync(body))
}

fn whole(text: &'static str) -> Body {
    BodyExt::boxed_unsync(Full::from(text).map_err(Into::into))
}

fn get(path: &str) -> Request<Body> {
    let body = BodyExt::boxed_unsync(Empty::new().map_err(Into::into));
    Request::get(format!("https://localhost{path}")).body(body).unwrap()
}

/// The next bytes of an answer.
async fn hears(body: &mut Incoming) -> Bytes {
    let frame = tokio::time::timeout(PATIENCE, body.frame()).await.expect("nothing came");
    frame.unwrap().unwrap().into_data().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ed_30_a_call_passes_with_its_trailers_in_both_directions() {
    let shop = RpcShop::start().await;
    let (edge, config) = secured("unary", &shop.url);
    let mut client = client(&edge, &config).await;

    let (mut speaker, body) = speaking();
    let asking = client.send_request(call("/unary", body));
    speaker.send_data("ping".into()).await.unwrap();
    let mut said = HeaderMap::new();
    for (name, value) in [("x-sum", "7"), ("stanchion-visitor", "me"), ("x_real.ip", "9.9.9.9")] {
        said.insert(name, HeaderValue::from_static(value));
    }
    speaker.send_trailers(said).await.unwrap();
    drop(speaker);
    let answer = asking.await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    assert!(!answer.headers().contains_key("grpc-status"), "trailers are no headers");
    let collected = answer.into_body().collect().await.unwrap();
    assert_eq!(collected.trailers().unwrap()["grpc-status"], "0");
    assert!(!collected.trailers().unwrap().contains_key("stanchion-answer"));
    assert_eq!(collected.to_bytes(), "ping");

    let head = shop.heads("/unary").remove(0);
    assert_eq!(head.version, Version::HTTP_2);
    assert_eq!(head.uri.authority().unwrap(), "localhost");
    assert_eq!(head.headers["te"], "trailers");
    assert_eq!(head.headers["x-forwarded-for"], "127.0.0.1");
    assert!(!head.headers.contains_key("host") && !head.headers.contains_key("transfer-encoding"));
    let trailers = shop.trailers().remove(0);
    assert_eq!(trailers.keys().collect::<Vec<_>>(), ["x-sum"], "nobody vouches for himself");

    let unknown = client.send_request(call("/unknown", whole("ping"))).await.unwrap();
    assert_eq!(unknown.headers()["grpc-status"], "12");

    let gated = client.send_request(call("/checkout/call", whole("ping"))).await.unwrap();
    assert_eq!(gated.status(), StatusCode::TOO_MANY_REQUESTS);
    assert!(shop.heads("/checkout/call").is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_sides_of_a_call_speak_when_they_like_and_a_cancel_reaches_the_shop() {
    let shop = RpcShop::start().await;
    let (edge, config) = secured("bidi", &shop.url);
    let mut client = client(&edge, &config).await;

    let (mut speaker, body) = speaking();
    // The shop answers before it was told anything.
    let answer = client.send_request(call("/bidi", body)).await.unwrap();
    let mut heard = answer.into_body();
    for word in ["one", "two"] {
        speaker.send_data(word.into()).await.unwrap();
        assert_eq!(hears(&mut heard).await, word);
    }
    drop(speaker);
    let end = heard.frame().await.unwrap().unwrap().into_trailers().unwrap();
    assert_eq!(end["grpc-status"], "0");

    let (mut speaker, body) = speaking();
    let mut heard = client.send_request(call("/bidi", body)).await.unwrap().into_body();
    speaker.send_data("three".into()).await.unwrap();
    assert_eq!(hears(&mut heard).await, "three");
    drop(heard);
    speaker.abort("gone".into());
    tokio::time::timeout(PATIENCE, shop.await_cancelled()).await.expect("it never heard of it");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_share_few_connections_within_their_streams_and_move_when_they_are_told_to_go() {
    let shop = RpcShop::start().await;
    let (edge, config) = secured("oneline", &shop.url);
    let client = client(&edge, &config).await;
    let many = || {
        join_all((0..40).map(|_| {
            let mut client = client.clone();
            async move { client.send_request(get("/brief")).await.unwrap().status() }
        }))
    };

    assert!(many().await.iter().all(|status| *status == StatusCode::OK));
    let before = shop.connections();
    assert!(before <= 40 / STREAMS as usize, "{before} connections");
    assert!(shop.busiest() <= STREAMS as usize, "{} at once", shop.busiest());

    shop.say_goodbye();
    assert!(many().await.iter().all(|status| *status == StatusCode::OK));
    assert!(shop.connections() > before);
    assert_eq!(shop.heads("/brief").len(), 80, "none was asked twice");

    let mut stream = connect(&edge, config, &["http/1.1"]).await;
    let head = super::secure::request(
        &mut stream,
        "POST /old",
        "localhost",
        &["Transfer-Encoding: chunked", "", "2\r\nab\r\n0\r\n"],
    )
    .await;
    assert_eq!(status(&head), 200, "HTTP/1.1 passes to it as well: {head}");
    assert_eq!(shop.heads("/old").len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_shop_says_it_did_not_do_is_asked_again_if_it_has_no_body() {
    let (url, asked) = refusing().await;
    let (edge, config) = secured("refusing", &url);
    let mut client = client(&edge, &config).await;

    let again = client.send_request(get("/again")).await.unwrap();
    assert_eq!(again.status(), StatusCode::OK);
    let once = client.send_request(call("/once", whole("order"))).await.unwrap();
    assert_eq!(once.status(), StatusCode::BAD_GATEWAY);
    assert_eq!(once.headers()["proxy-status"], "stanchion; error=connection_terminated");

    assert_eq!(*asked.lock().unwrap(), ["/again", "/again", "/once"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_may_speak_as_slowly_as_it_likes_and_ends_when_it_falls_silent() {
    let shop = RpcShop::start().await;
    let (edge, config) = secured_with("slowcall", |config| {
        config.set("shop.http2", true).unwrap();
        config.set("shop.origins", vec![shop.url.clone()]).unwrap();
        config.set("shop.stream_idle_timeout", "1s").unwrap();
        // What any other upload would break.
        config.set("limits.client.body_idle_timeout", "200ms").unwrap();
        config.set("limits.client.min_rate", 1_000_000).unwrap();
    });
    let mut client = client(&edge, &config).await;
    let (mut speaker, body) = speaking();
    let mut heard = client.send_request(call("/bidi", body)).await.unwrap().into_body();

    for _ in 0..6 {
        tokio::time::sleep(Duration::from_millis(400)).await;
        speaker.send_data("a".into()).await.unwrap();
        assert_eq!(hears(&mut heard).await, "a");
    }

    let end = tokio::time::timeout(PATIENCE, heard.frame()).await.expect("it goes on for ever");
    assert!(end.unwrap().is_err());
    tokio::time::timeout(PATIENCE, shop.await_cancelled()).await.expect("it never heard of it");
}
