//! Many behind one address: what they may have at once, and who they are behind a CDN.

use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use stanchion::clock::{Clock, SystemClock};
use tokio::io::AsyncReadExt;

use super::Edge;
use super::admitted::{admission, keys};
use super::neighbours::{asked, from};
use super::origin::header;
use super::streaming::read_head;
use super::tls::secured_with;
use super::wire::{ask, connect, status};

const PATIENCE: Duration = Duration::from_secs(20);

#[tokio::test]
async fn ed_78_one_address_may_not_have_more_than_64_connections_in_a_handshake() {
    let (edge, client) = secured_with("handshakes", |config| {
        config.set("public.trusted_proxies", vec!["127.0.0.7/32"]).unwrap();
        config.set("limits.client.handshake_timeout", "4s").unwrap();
    });
    let url = edge.url().replace("https", "http");
    let mut idle = vec![];
    for _ in 0..65 {
        idle.push(from("127.0.0.5", &url).await);
    }

    let reads = idle.iter_mut().map(|idle| Box::pin(idle.read_u8()));
    let (answer, turned_away, _) = futures_util::future::select_all(reads).await;
    assert!(answer.is_err(), "closed before its handshake");
    idle.swap_remove(turned_away);
    for address in ["127.0.0.6", "127.0.0.7"] {
        let other = from(address, &url).await;
        super::secure::shake(other, &client, "localhost").await.unwrap();
    }
    let waiting = from("127.0.0.5", &url).await;
    let (waited, ()) = tokio::join!(super::secure::shake(waiting, &client, "localhost"), async {
        drop(idle.pop());
    });
    waited.expect("one has gone: the next one's turn");
}

#[tokio::test]
async fn of_spare_connections_the_oldest_gives_way_and_nobody_who_asks_is_refused() {
    let edge = Edge::start("spare", |config, _| {
        config.set("limits.max_spare_per_ip", 3).unwrap();
        config.set("public.trusted_proxies", vec!["127.0.0.7/32"]).unwrap();
    });
    let url = edge.url();
    let mut busy = from("127.0.0.5", &url).await;
    assert_eq!(asked(&mut busy, "/first", "").await, 200);
    let mut spare = vec![];
    for number in 0..5 {
        spare.push(from("127.0.0.5", &url).await);
        let mut asking = from("127.0.0.5", &url).await;
        assert_eq!(asked(&mut asking, "/any", "").await, 200, "beside {number} spare ones");
    }
    let mut proxies = vec![];
    for _ in 0..5 {
        proxies.push(from("127.0.0.7", &url).await);
    }

    // Whoever asks is a spare one for a moment: of the middle one nothing is said.
    for oldest in &mut spare[..2] {
        let closed = tokio::time::timeout(Duration::from_secs(5), oldest.read_u8()).await;
        assert!(closed.expect("it should have given way").is_err());
    }
    for stream in spare[3..].iter_mut().chain(&mut proxies).chain([&mut busy]) {
        assert_eq!(asked(stream, "/later", "").await, 200);
    }
}

#[test]
fn one_address_takes_so_many_places_at_the_shop_and_the_admitted_have_their_own() {
    let edge = Edge::start("underway", |config, _| {
        super::no_limits(config);
        config.set("public.trusted_proxies", vec!["127.0.0.1/32"]).unwrap();
        config.set("limits.max_requests_per_ip", 2).unwrap();
        config.set("limits.max_requests_per_admission", 1).unwrap();
    });
    let begin = |address: &str, path: &str, more: &str| {
        let mut stream = connect(&edge.url());
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: {address}\r\n{more}\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream
    };
    let mut answering = begin("203.0.113.9", "/silent", "Content-Length: 0\r\n");
    assert_eq!(status(&read_head(&mut answering)), 200);
    let third = || ask(&edge.url(), "GET /any", &["X-Forwarded-For: 203.0.113.9"]);
    let upload = || begin("203.0.113.9", "/up", "Content-Length: 3\r\n");
    let uploading = fill(upload, || status(&third()));
    let refused = third();
    assert!(refused.contains("\"code\":\"rate-limited\""), "{refused}");
    assert_eq!(header(&refused, "retry-after"), Some("1"));
    let other = ask(&edge.url(), "GET /any", &["X-Forwarded-For: 203.0.113.10"]);
    assert_eq!(status(&other), 200, "{other}");
    let ops = edge.installation.gateways[0].url("ops").unwrap();
    let counted = ask(&ops, "GET /metrics", &[]);
    assert!(counted.contains("under_way_refusals_total{limit=\"max_requests_per_ip\"}"));

    let keys = keys(&edge);
    let admission = admission(&keys, &edge.plan.id, 1, SystemClock.now_ms() - 1_000);
    let pass = format!("Stanchion-Admission: {}", keys.mint_admission(&admission));
    let address = "X-Forwarded-For: 203.0.113.9";
    let admitted = || ask(&edge.url(), "GET /checkout/a", &[&pass, address]);
    assert_eq!(status(&third()), 429);
    assert_eq!(status(&admitted()), 200, "neighbours cost the admitted nothing");
    let free = |pass: &str| ask(&edge.url(), "GET /any", &[pass, address]);
    assert_eq!(status(&free(&pass)), 200, "nor where nobody needs an admission");
    assert_eq!(status(&free(&format!("{pass}x"))), 429);
    let held = format!("{pass}\r\nContent-Length: 3\r\n");
    let _buying = fill(|| begin("203.0.113.9", "/checkout/b", &held), || status(&admitted()));

    drop((uploading, answering));
    let since = Instant::now();
    while status(&third()) != 200 {
        assert!(since.elapsed() < PATIENCE, "what has ended has made no room");
    }
}

#[test]
fn an_upload_that_goes_on_after_the_answer_keeps_its_place_until_it_ends() {
    let edge = Edge::start("outlasting", |config, _| {
        super::no_limits(config);
        config.set("limits.max_requests_per_ip", 1).unwrap();
    });
    let body = "x".repeat(32 * 1024);
    let mut upload = connect(&edge.url());
    let head = format!(
        "POST /early HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n",
        2 * body.len()
    );
    upload.write_all(head.as_bytes()).unwrap();
    upload.write_all(body.as_bytes()).unwrap();
    assert_eq!(status(&read_head(&mut upload)), 401);
    std::io::Read::read_exact(&mut upload, &mut [0; 2]).unwrap();

    let next = || status(&ask(&edge.url(), "GET /next", &[]));
    for _ in 0..10 {
        assert_eq!(next(), 429, "the answer is there, the upload is not");
    }
    upload.write_all(body.as_bytes()).unwrap();
    let since = Instant::now();
    while next() != 200 {
        assert!(since.elapsed() < PATIENCE, "what has ended has made no room");
    }
}

/// Begins more until there is no room, and not only for a moment: what came before may not quite
/// have ended.
fn fill(begin: impl Fn() -> TcpStream, next: impl Fn() -> u16) -> Vec<TcpStream> {
    let (mut under_way, mut refused, since) = (vec![], 0, Instant::now());
    while refused < 10 {
        if next() == 429 {
            refused += 1;
        } else {
            refused = 0;
            under_way.push(begin());
        }
        assert!(since.elapsed() < PATIENCE, "there is room for any number");
    }
    under_way
}

#[test]
fn ed_74_behind_a_cdn_visitors_are_told_apart_by_its_header_and_others_may_not_use_it() {
    let edge = Edge::start("cdn", |config, _| {
        let mut cdn = toml::Table::new();
        cdn.insert("networks".into(), vec!["127.0.0.1/32"].into());
        cdn.insert("header".into(), "CF-Connecting-IP".into());
        config.set("public.cdn", vec![toml::Value::Table(cdn)]).unwrap();
        config.set("limits.per_ip.rate", "0.01/s").unwrap();
        config.set("limits.per_ip.burst", 1).unwrap();
    });
    let from = |lines: &[&str]| {
        let all = [lines, &["X-Forwarded-For: 6.6.6.6", "Accept: application/json"]].concat();
        ask(&edge.url(), "GET /checkout/x", &all)
    };
    for address in ["203.0.113.9", "2001:db8::1"] {
        let line = format!("CF-Connecting-IP: {address}");
        assert!(from(&[&line]).contains("\"code\":\"waiting\""), "{address}");
        assert!(from(&[&line]).contains("rate-limited"), "{address}");
    }
    let twice = from(&["CF-Connecting-IP: 203.0.113.1", "CF-Connecting-IP: 203.0.113.2"]);
    assert!(twice.contains("\"code\":\"waiting\""), "the CDN's own address: {twice}");
    assert!(from(&["True-Client-IP: 203.0.113.3"]).contains("rate-limited"), "the same");

    let free =
        ["CF-Connecting-IP: 203.0.113.9", "True-Client-IP: 6.6.6.6", "CF_Connecting_IP: 6.6.6.6"];
    assert_eq!(status(&ask(&edge.url(), "GET /seen", &free)), 200);
    let head = edge.shop.heads("/seen").remove(0);
    assert_eq!(header(&head, "x-forwarded-for"), Some("203.0.113.9, 127.0.0.1"));
    assert!(!head.contains("6.6.6.6") && !head.contains("connecting"), "{head}");
}
