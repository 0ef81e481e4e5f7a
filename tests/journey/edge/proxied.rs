//! Listeners for load balancers that announce their clients by the PROXY protocol.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::time::{Duration, Instant};

use tokio::io::AsyncWriteExt;
use tokio::net::{TcpSocket, TcpStream};

use super::origin::header;
use super::secure::{client, make, pairs, request, shake};
use super::wire::{connect, status};
use super::{Edge, no_limits};
use crate::fixture::stores;

const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

/// An edge whose listeners are: plain, TLS, plain with PROXY, TLS with PROXY; 127.0.0.1 is the
/// load balancer.
fn mixed(topic: &str) -> (Edge, super::secure::Made) {
    let folder = stores().workspace(&format!("{topic}-cert")).unwrap();
    let made = make(&folder, "localhost", &["localhost"]);
    let edge = Edge::start(topic, |config, _| {
        no_limits(config);
        config.set("limits.per_ip.rate", "0.01/s").unwrap();
        config.set("limits.per_ip.burst", 1).unwrap();
        config.set("public.trusted_proxies", vec!["127.0.0.1/32"]).unwrap();
        config.set("public.certificates", pairs(&[&made])).unwrap();
        let listener = |(tls, proxy): (bool, bool)| {
            let mut table = toml::Table::new();
            table.insert("addr".into(), "127.0.0.1:0".into());
            table.insert("tls".into(), tls.into());
            table.insert("proxy_protocol".into(), proxy.into());
            toml::Value::Table(table)
        };
        let kinds = [(false, false), (true, false), (false, true), (true, true)];
        config.set("public.listener", kinds.map(listener).to_vec()).unwrap();
    });
    (edge, made)
}

/// `http(s)://ADDR` of the public listener of that number.
fn listener(edge: &Edge, number: usize) -> String {
    let bound = edge.installation.gateways[0].bound();
    let one = bound.iter().filter(|bound| bound.name == "public").nth(number).unwrap();
    format!("http://{}", one.addr)
}

/// Sends a header and one request; everything that comes back.
fn announced(url: &str, header: &[u8], path: &str) -> String {
    let mut stream = connect(url);
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    drop(stream.write_all(&[header, request.as_bytes()].concat()));
    let mut answer = vec![];
    drop(stream.read_to_end(&mut answer));
    String::from_utf8_lossy(&answer).into_owned()
}

fn binary(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
    let length = u16::try_from(rest.len()).unwrap().to_be_bytes();
    [SIGNATURE, &[command, family], &length, rest].concat()
}

#[test]
fn ed_77_the_announced_client_is_the_one_that_counts_in_both_versions() {
    let (edge, _) = mixed("announced");
    let url = listener(&edge, 2);
    let four = [203, 0, 113, 9, 127, 0, 0, 1, 0x11, 0xd7, 0, 80];
    let mapped = [&[0; 10][..], &[255, 255, 203, 0, 113, 10], &[0; 16], &[0, 1, 0, 80]].concat();
    for (header_bytes, path, wanted) in [
        (b"PROXY TCP4 203.0.113.8 127.0.0.1 4567 80\r\n".to_vec(), "/v1", "203.0.113.8"),
        (b"PROXY TCP6 2001:db8::8 ::1 4567 80\r\n".to_vec(), "/six", "2001:db8::8"),
        (binary(0x21, 0x11, &four), "/v2", "203.0.113.9"),
        (binary(0x21, 0x21, &mapped), "/mapped", "203.0.113.10"),
        (binary(0x20, 0x00, &[]), "/local", "127.0.0.1"),
        (b"PROXY UNKNOWN\r\n".to_vec(), "/unknown", "127.0.0.1"),
    ] {
        let answer = announced(&url, &header_bytes, path);
        assert_eq!(status(&answer), 200, "{path}: {answer}");
        let head = edge.shop.heads(path).remove(0);
        assert_eq!(header(&head, "x-forwarded-for"), Some(wanted), "{path}");
    }

    let gated = |client: &str| {
        let header = format!("PROXY TCP4 {client} 127.0.0.1 4567 80\r\n");
        announced(&url, header.as_bytes(), "/checkout/x")
    };
    for client in ["198.51.100.1", "198.51.100.2"] {
        assert!(gated(client).contains("\"code\":\"waiting\""), "{client}");
        assert!(gated(client).contains("rate-limited"), "each pays for itself: {client}");
    }
}

#[test]
fn a_client_who_speaks_tls_to_the_balancer_sees_https() {
    let (edge, _) = mixed("terminated");
    let url = listener(&edge, 2);
    for (client, bits, proto) in [(11, 0x01, "https"), (12, 0x00, "http")] {
        let four = [203, 0, 113, client, 127, 0, 0, 1, 0x11, 0xd7, 1, 187];
        let header_bytes =
            binary(0x21, 0x11, &[&four[..], &[0x20, 0, 5, bits, 0, 0, 0, 0]].concat());
        let answer = announced(&url, &header_bytes, &format!("/{proto}"));
        assert_eq!(status(&answer), 200, "{answer}");
        let head = edge.shop.heads(&format!("/{proto} ")).remove(0);
        assert_eq!(header(&head, "x-forwarded-proto"), Some(proto), "{head}");
    }
}

#[test]
fn ed_77_what_is_not_a_header_or_not_of_a_load_balancer_is_closed_unanswered() {
    let (edge, _) = mixed("forged");
    let url = listener(&edge, 2);
    for (what, bytes) in [
        ("none", vec![]),
        ("short", binary(0x21, 0x12, &[])),
        ("junk", b"PROXY TCP4 9.9.9.9\r\n".to_vec()),
        ("long", [b"PROXY UNKNOWN ", &[b'a'; 94][..]].concat()),
    ] {
        assert_eq!(announced(&url, &bytes, "/forged"), "", "{what}");
    }

    let since = Instant::now();
    let mut slow = connect(&url);
    slow.write_all(&[SIGNATURE, &[0x21, 0x11, 0xff, 0xff]].concat()).unwrap();
    assert!(slow.read(&mut [0]).map_or(true, |count| count == 0), "a huge one is not awaited");
    let mut slow = connect(&url);
    slow.write_all(b"PROXY TC").unwrap();
    assert!(slow.read(&mut [0]).map_or(true, |count| count == 0));
    assert!(since.elapsed() < Duration::from_secs(12), "{:?}", since.elapsed());
    assert_eq!(edge.shop.heads("/forged"), [""; 0]);

    let plain = announced(&listener(&edge, 0), b"PROXY UNKNOWN\r\n", "/forged");
    assert_eq!(status(&plain), 400, "and where none is due it is no request: {plain}");
}

#[tokio::test]
async fn ed_77_a_stranger_announces_nobody() {
    let (edge, _) = mixed("stranger");
    let url = listener(&edge, 2);
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.2:0".parse().unwrap()).unwrap();
    let addr = url.trim_start_matches("http://").parse().unwrap();
    let stranger = socket.connect(addr).await.unwrap();
    let mut stranger = stranger.into_std().unwrap();
    stranger.set_nonblocking(false).unwrap();
    stranger.set_read_timeout(Some(Duration::from_secs(20))).unwrap();

    drop(stranger.write_all(b"PROXY TCP4 9.9.9.9 127.0.0.1 1 80\r\nGET /stranger HTTP/1.1\r\n"));
    drop(stranger.shutdown(Shutdown::Write));

    let mut answer = vec![];
    drop(stranger.read_to_end(&mut answer));
    assert_eq!(answer, b"", "closed without a word");
    assert_eq!(edge.shop.heads("/stranger"), [""; 0]);
}

#[tokio::test]
async fn listeners_of_all_kinds_run_side_by_side_and_tls_comes_after_the_header() {
    let (edge, made) = mixed("mixed");
    let client = client(&[&made]);

    let plain = announced(&listener(&edge, 0), b"", "/plain");
    assert_eq!(status(&plain), 200, "{plain}");
    for (number, path) in [(1, "/tls"), (3, "/both")] {
        let url = listener(&edge, number);
        let mut stream = TcpStream::connect(url.trim_start_matches("http://")).await.unwrap();
        if number == 3 {
            stream.write_all(b"PROXY TCP4 203.0.113.7 127.0.0.1 1 443\r\n").await.unwrap();
        }
        let mut stream = shake(stream, &client, "localhost").await.unwrap();
        let head = request(&mut stream, &format!("GET {path}"), "localhost", &[]).await;
        assert_eq!(status(&head), 200, "{head}");
        let head = edge.shop.heads(path).remove(0);
        assert_eq!(header(&head, "x-forwarded-proto"), Some("https"), "{head}");
    }
    let head = edge.shop.heads("/both").remove(0);
    assert_eq!(header(&head, "x-forwarded-for"), Some("203.0.113.7"));
}
