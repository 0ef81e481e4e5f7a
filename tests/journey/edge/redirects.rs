//! Plain http is sent over to https, and https may say that it stays so.

use super::origin::header;
use super::secure::{client, connect, make, pairs, request};
use super::wire::{ask, send, status};
use super::{Edge, no_limits};
use crate::fixture::stores;

/// An edge that redirects, behind a trusted proxy; its second listener speaks TLS.
fn redirecting(topic: &str) -> (Edge, super::secure::Made) {
    let folder = stores().workspace(&format!("{topic}-cert")).unwrap();
    let made = make(&folder, "localhost", &["localhost", "shop.test"]);
    let edge = Edge::start(topic, |config, _| {
        no_limits(config);
        config.set("public.hostnames", vec!["localhost", "shop.test"]).unwrap();
        config.set("public.trusted_proxies", vec!["127.0.0.1/32"]).unwrap();
        config.set("public.certificates", pairs(&[&made])).unwrap();
        config.set("public.redirect_https", true).unwrap();
        config.set("public.hsts", "1d").unwrap();
        let listener = |tls: bool| {
            let mut table = toml::Table::new();
            table.insert("addr".into(), "127.0.0.1:0".into());
            table.insert("tls".into(), tls.into());
            toml::Value::Table(table)
        };
        config.set("public.listener", [false, true].map(listener).to_vec()).unwrap();
    });
    (edge, made)
}

fn plainly(edge: &Edge, line: &str, host: &str, headers: &str) -> String {
    let head = format!("{line} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{headers}\r\n");
    send(&edge.url(), head)
}

#[test]
fn ed_52_plain_http_is_sent_to_https_of_a_host_of_ours_and_of_no_other() {
    let (edge, _) = redirecting("redirect");
    for (line, host, wanted) in [
        ("GET /a?x=1&y=%2F", "shop.test", "https://shop.test/a?x=1&y=%2F"),
        ("POST /checkout/pay", "SHOP.test.:8080", "https://shop.test/checkout/pay"),
        ("GET //evil.test/a", "localhost", "https://localhost//evil.test/a"),
        (
            "GET /_stanchion/nothing/status",
            "localhost",
            "https://localhost/_stanchion/nothing/status",
        ),
        ("GET http://shop.test/abs", "shop.test", "https://shop.test/abs"),
    ] {
        let answer = plainly(&edge, line, host, "");
        assert_eq!(status(&answer), 308, "{line}: {answer}");
        assert_eq!(header(&answer, "location"), Some(wanted));
        assert_eq!(header(&answer, "strict-transport-security"), None, "never by plain http");
    }
    let elsewhere = plainly(&edge, "GET /a", "evil.test", "");
    assert_eq!((status(&elsewhere), header(&elsewhere, "location")), (421, None));
    assert_eq!(status(&plainly(&edge, "GET /_stanchion/health", "10.0.0.9", "")), 200);
    assert_eq!(edge.shop.heads("HTTP/1.1"), [""; 0], "the shop saw none of it");
}

#[test]
fn who_sees_https_at_a_trusted_proxy_is_not_sent_round_in_circles() {
    let (edge, _) = redirecting("nocircle");

    let forwarded = ask(&edge.url(), "GET /a", &["X-Forwarded-Proto: https"]);
    assert_eq!(status(&forwarded), 200, "{forwarded}");
    assert_eq!(header(&forwarded, "strict-transport-security"), Some("max-age=86400"));

    let queue = ask(&edge.url(), "GET /checkout/x", &["Forwarded: for=10.0.0.1;proto=https"]);
    assert_eq!(header(&queue, "stanchion-answer"), Some("queue"), "{queue}");
    assert_eq!(header(&queue, "strict-transport-security"), Some("max-age=86400"));
    let plain = ask(&edge.url(), "GET /a", &["X-Forwarded-Proto: http"]);
    assert_eq!(status(&plain), 308);
}

#[test]
fn a_stranger_cannot_talk_himself_out_of_https() {
    let edge = Edge::start("strangers", |config, _| {
        config.set("public.trusted_proxies", vec!["192.0.2.0/24"]).unwrap();
        config.set("public.redirect_https", true).unwrap();
    });
    let answer = ask(&edge.url(), "GET /a", &["X-Forwarded-Proto: https"]);
    assert_eq!(status(&answer), 308, "{answer}");
}

#[tokio::test]
async fn https_itself_is_served_and_marked_and_off_is_off() {
    let (edge, made) = redirecting("marked");
    let bound = edge.installation.gateways[0].bound();
    let tls = bound.iter().find(|bound| bound.tls).unwrap().addr.to_string();
    let mut stream = connect(&tls, &client(&[&made]), "localhost").await.unwrap();
    for path in ["GET /a", "GET /_stanchion/health", "GET /_stanchion/nothing"] {
        let head = request(&mut stream, path, "localhost", &[]).await;
        assert_ne!(status(&head), 308, "{head}");
        assert_eq!(header(&head, "strict-transport-security"), Some("max-age=86400"), "{head}");
    }

    let off = Edge::start("unmarked", |config, _| {
        config.set("public.trusted_proxies", vec!["127.0.0.1/32"]).unwrap();
    });
    let answer = ask(&off.url(), "GET /a", &["X-Forwarded-Proto: https"]);
    assert_eq!((status(&answer), header(&answer, "strict-transport-security")), (200, None));
}
