//! The same edge over https: the protocol by ALPN, cookies bound to the host.

use std::sync::Arc;

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use stanchion::lab::rig::ConfigFile;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::Edge;
use super::origin::header;
use crate::fixture::stores;

/// A certificate for localhost, its files, and a client that trusts it.
pub(super) fn secured(topic: &str) -> (Edge, ClientConfig) {
    secured_with(topic, |_| {})
}

/// The same with some settings turned.
pub(super) fn secured_with(
    topic: &str,
    turn: impl FnOnce(&mut ConfigFile),
) -> (Edge, ClientConfig) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    let folder = stores().workspace(&format!("{topic}-cert")).unwrap();
    let (cert, key) = (folder.join("cert.pem"), folder.join("key.pem"));
    std::fs::write(&cert, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let edge = Edge::start(topic, |config, _| {
        let mut pair = toml::Table::new();
        pair.insert("cert_file".into(), cert.to_str().unwrap().into());
        pair.insert("key_file".into(), key.to_str().unwrap().into());
        config.set("public.certificates", vec![toml::Value::Table(pair)]).unwrap();
        config.set("public.listener.0.tls", true).unwrap();
        turn(config);
    });
    let mut roots = RootCertStore::empty();
    roots.add(made.cert.der().clone()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let client = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    (edge, client)
}

pub(super) async fn connect(
    edge: &Edge,
    mut client: ClientConfig,
    alpn: &[&str],
) -> TlsStream<TcpStream> {
    client.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    let addr = edge.url().trim_start_matches("https://").to_owned();
    let stream = TcpStream::connect(addr).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(client)).connect(name, stream).await.unwrap()
}

fn get(uri: &str) -> http::request::Builder {
    Request::get(uri).header("accept", "text/html")
}

#[tokio::test]
async fn https_speaks_http_2_or_1_1_as_the_client_chooses() {
    let (edge, client) = secured("https");

    let stream = connect(&edge, client.clone(), &["h2", "http/1.1"]).await;
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let (mut h2, driver) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
    tokio::spawn(driver);
    let crumbs = get("https://localhost/crumbs").header("cookie", "a=1").header("cookie", "b=2");
    let answer = h2.send_request(crumbs.body(Empty::<Bytes>::new()).unwrap()).await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "ok");
    let head = edge.shop.heads("/crumbs").remove(0);
    assert!(head.starts_with("GET /crumbs HTTP/1.1\r\n"), "{head}");
    assert_eq!(header(&head, "host"), Some("localhost"));
    assert_eq!(header(&head, "cookie"), Some("a=1; b=2"), "{head}");
    assert_eq!(header(&head, "x-forwarded-proto"), Some("https"));

    let gated = get("https://localhost/checkout/h2").body(Empty::new()).unwrap();
    let answer = h2.send_request(gated).await.unwrap();
    assert_eq!(answer.headers()["stanchion-answer"], "queue");
    assert_eq!(edge.shop.heads("/checkout/h2"), [""; 0]);
    let elsewhere =
        get("https://localhost/").header("host", "evil.test").body(Empty::new()).unwrap();
    let answer = h2.send_request(elsewhere).await;
    assert!(answer.is_err() || answer.is_ok_and(|a| a.status().is_client_error()));

    let connect_to = Request::connect("localhost:443").body(Empty::new()).unwrap();
    let answer = h2.send_request(connect_to).await;
    assert!(answer.is_err() || answer.is_ok_and(|a| a.status() == StatusCode::METHOD_NOT_ALLOWED));
    let after = get("https://localhost/after").body(Empty::new()).unwrap();
    assert_eq!(h2.send_request(after).await.unwrap().status(), StatusCode::OK);

    for alpn in [&["http/1.1"][..], &[]] {
        let stream = connect(&edge, client.clone(), alpn).await;
        assert_ne!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
        let (mut h1, driver) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(driver);
        let plain = get("/h1").header("host", "localhost").body(Empty::<Bytes>::new()).unwrap();
        assert_eq!(h1.send_request(plain).await.unwrap().status(), StatusCode::OK);
    }
}

#[tokio::test]
async fn ed_82_a_client_that_chose_http_1_1_is_not_spoken_http_2_to() {
    let (edge, client) = secured("alpn");
    let mut stream = connect(&edge, client, &["http/1.1"]).await;

    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    drop(stream.read_to_end(&mut answer).await);

    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer}");
}
