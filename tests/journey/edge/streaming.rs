//! Bodies pass through: nothing is buffered, nothing is made up, nothing is sent twice.

use std::io::{Read, Write};

use super::origin::{DOWN_BYTES, header};
use super::wire::{ask, connect, send, status};
use super::{Edge, shared};

/// More than this much growth would mean that bodies are kept.
const GROWTH_KIB_MAX: u64 = 32 * 1024;

/// Reads up to the end of the head.
pub(super) fn read_head(stream: &mut impl Read) -> String {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|count| count == 1) {
        head.push(byte[0]);
    }
    String::from_utf8_lossy(&head).into_owned()
}

#[test]
fn two_hundred_megabytes_stream_down_and_up_in_little_memory() {
    let edge = Edge::start("stream", |config, _| {
        config.set("limits.client.max_body_bytes", 1024 * 1024 * 1024).unwrap();
    });
    assert_eq!(status(&ask(&edge.url(), "GET /warm", &[])), 200);
    let before = edge.memory_kib();

    let mut down = connect(&edge.url());
    down.write_all(b"GET /down HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    assert_eq!(status(&read_head(&mut down)), 200);
    // The shop sends the rest only now: the first piece was passed on before it had finished.
    let mut piece = vec![0; 64 * 1024];
    let mut seen = down.read(&mut piece).unwrap();
    assert!(seen > 0);
    edge.shop.release();
    let mut most = 0;
    while let Ok(count) = down.read(&mut piece)
        && count > 0
    {
        seen += count;
        most = most.max(edge.memory_kib());
    }
    assert_eq!(seen, DOWN_BYTES);

    let mut up = connect(&edge.url());
    let head = format!(
        "POST /up HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {DOWN_BYTES}\r\n\r\n"
    );
    up.write_all(head.as_bytes()).unwrap();
    up.write_all(&piece).unwrap();
    // The shop has it while we have hardly begun.
    let since = std::time::Instant::now();
    while edge.shop.uploaded() == 0 {
        assert!(since.elapsed().as_secs() < 20, "nothing of the upload has reached the shop");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    for _ in 1..DOWN_BYTES / piece.len() {
        up.write_all(&piece).unwrap();
        most = most.max(edge.memory_kib());
    }
    let mut answer = String::new();
    up.read_to_string(&mut answer).unwrap();

    assert!(answer.ends_with(&DOWN_BYTES.to_string()), "{answer}");
    let growth = most.saturating_sub(before);
    assert!(growth < GROWTH_KIB_MAX, "grew by {growth} KiB");
}

#[test]
fn ed_57_a_truncated_answer_does_not_look_whole() {
    let edge = shared();
    let chunks = ask(&edge.url(), "GET /cut/chunks", &[]);
    assert!(chunks.contains("abc") && !chunks.contains("\r\n0\r\n"), "{chunks}");
    let length = ask(&edge.url(), "GET /cut/length", &[]);
    assert!(length.contains("content-length: 10") && length.ends_with("abc"), "{length}");
}

#[test]
fn ed_22_ed_28_hop_by_hop_headers_stay_on_their_hop_in_both_directions() {
    let edge = shared();
    let sent = [
        "Connection: ",
        "Connection: X-Secret",
        "X-Secret: 1",
        "Keep-Alive: 5",
        "Proxy-Authorization: x",
        "TE: gzip",
        "X-Kept: yes",
    ];

    let answer = ask(&edge.url(), "GET /hop", &sent);

    let head = edge.shop.heads("/hop").remove(0);
    for name in ["connection", "x-secret", "keep-alive", "proxy-authorization", "te"] {
        assert_eq!(header(&head, name), None, "{name}: {head}");
    }
    assert_eq!(header(&head, "x-kept"), Some("yes"));
    for name in ["x-shop-hop", "keep-alive", "proxy-authenticate", "stanchion-answer"] {
        assert!(!answer.contains(name), "{name}: {answer}");
    }
    assert!(answer.contains("x-kept: 1"), "{answer}");
    let cookies: Vec<_> = answer.lines().filter(|line| line.starts_with("set-cookie")).collect();
    assert_eq!(cookies, ["set-cookie: a=1", "set-cookie: b=2", "set-cookie: c=3"]);
}

#[test]
fn ed_24_ed_25_a_strangers_headers_speak_for_nobody() {
    let edge = shared();
    let sent = [
        "X-Forwarded-For: 9.9.9.9",
        "X_Forwarded_For: 9.9.9.9",
        "X.Forwarded.Proto: https",
        "Forwarded: for=9.9.9.9",
        "X-Real-IP: 9.9.9.9",
        "True-Client-IP: 9.9.9.9",
        "X-Original-URL: /admin",
        "Stanchion-Visitor: me",
        "Stanchion_Admission: x",
        "Stanchion-Sale: edge",
        "X-Stanchion-Session: a",
        "Cookie: a=1; stanchion-ticket-x=y; b=2; __Host-stanchion-pass-x=z",
    ];

    assert_eq!(status(&ask(&edge.url(), "GET /spoofed", &sent)), 200);

    let head = edge.shop.heads("/spoofed").remove(0);
    assert!(!head.to_lowercase().contains("9.9.9.9"), "{head}");
    assert!(!head.to_lowercase().contains("stanchion"), "{head}");
    assert!(!head.contains("/admin"), "{head}");
    assert_eq!(header(&head, "x-forwarded-for"), Some("127.0.0.1"));
    assert_eq!(header(&head, "x-forwarded-proto"), Some("http"));
    assert_eq!(header(&head, "cookie"), Some("a=1; b=2"));
}

#[test]
fn ed_30_trailers_pass_to_whoever_asks_for_them() {
    let edge = shared();

    let asked = ask(&edge.url(), "GET /trailers?asked", &["TE: Gzip, Trailers"]);

    assert!(asked.contains("x-sum: 7"), "{asked}");
    assert_eq!(header(&edge.shop.heads("/trailers?asked").remove(0), "te"), Some("trailers"));
}

#[test]
fn ed_33_a_fat_head_is_delivered_and_a_huge_one_is_a_502() {
    let edge = shared();
    let fat = ask(&edge.url(), "GET /fat", &[]);
    assert_eq!(fat.matches("set-cookie").count(), 150);
    let huge = ask(&edge.url(), "GET /fatter", &["Accept: application/json"]);
    assert_eq!(status(&huge), 502);
    assert!(huge.contains("\"code\":\"shop-unavailable\""), "{huge}");
    assert_eq!(status(&ask(&edge.url(), "GET /alive", &[])), 200);
}

#[test]
fn ed_68_ed_70_a_stale_connection_is_tried_again_once_and_a_fresh_one_never() {
    let edge = shared();
    for number in 0..20 {
        let answer = ask(&edge.url(), &format!("GET /once?get{number}"), &[]);
        assert_eq!(status(&answer), 200, "{number}: {answer}");
        let sent = ask(
            &edge.url(),
            &format!("POST /once?post{number}-"),
            &["Content-Length: 2", "", "ab"],
        );
        assert!(matches!(status(&sent), 200 | 502), "{sent}");
        assert!(edge.shop.heads(&format!("/once?post{number}-")).len() <= 1);
    }
    let dies = ask(&edge.url(), "POST /dies", &["Content-Length: 0"]);
    assert_eq!(status(&dies), 502, "{dies}");
    assert_eq!(edge.shop.heads("POST /dies").len(), 1);
    let dies = ask(&edge.url(), "GET /dies", &[]);
    assert_eq!(status(&dies), 502, "{dies}");
    assert!(edge.shop.heads("GET /dies").len() <= 2);
}

#[test]
fn ed_69_a_slow_shop_is_a_504_and_gets_no_second_order() {
    let edge = shared();

    let answer = ask(&edge.url(), "POST /slow?504", &["Content-Length: 0"]);

    assert_eq!(status(&answer), 504, "{answer}");
    assert_eq!(edge.shop.heads("/slow?504").len(), 1);
}

#[test]
fn a_client_that_leaves_takes_its_request_along() {
    let edge = Edge::start("leaver", |_, _| {});
    let mut client = connect(&edge.url());
    client.write_all(b"GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let since = std::time::Instant::now();
    while edge.shop.heads("/slow").is_empty() {
        assert!(since.elapsed().as_secs() < 20, "the request never reached the shop");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }

    drop(client);

    edge.shop.await_gone(1);
    let ops = edge.installation.gateways[0].url("ops").unwrap();
    let counted = || ask(&ops, "GET /metrics", &[]).contains("stanchion_clients_gone_total 1\n");
    while !counted() {
        assert!(since.elapsed().as_secs() < 20, "nobody has counted it");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

#[test]
fn ed_93_an_early_answer_is_read_and_its_connection_not_used_again() {
    let edge = shared();
    let body = "x".repeat(16 * 1024);
    let bytes = format!(
        "POST /early HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 32768\r\n\r\n{body}"
    );
    let mut stream = connect(&edge.url());
    stream.write_all(bytes.as_bytes()).unwrap();
    assert_eq!(status(&read_head(&mut stream)), 401);
    drop(stream);
    for _ in 0..5 {
        let next = ask(&edge.url(), "GET /afterearly", &[]);
        assert_eq!(status(&next), 200, "{next}");
    }
}

#[test]
fn a_shop_that_is_not_there_is_a_502_with_a_page_for_people() {
    let edge = Edge::start("noshop", |config, _| {
        config.set("shop.origins", vec!["http://127.0.0.1:9"]).unwrap();
    });
    let page = ask(&edge.url(), "GET /", &["Accept: text/html"]);
    assert_eq!(status(&page), 502, "{page}");
    assert!(page.contains("</html>") && page.contains("stanchion-answer: unavailable"), "{page}");
    let body = send(&edge.url(), "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    assert!(body.contains("application/problem+json"), "{body}");
}

#[test]
fn ed_85_a_soft_stop_closes_idle_doors_and_lets_a_download_end() {
    let mut edge = Edge::start("drain", |_, _| {});
    let gateway = edge.url();
    let mut idle = connect(&gateway);
    idle.write_all(b"GET /idle HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    assert_eq!(status(&read_head(&mut idle)), 200);
    let mut unused = connect(&gateway);
    let mut busy = connect(&gateway);
    busy.write_all(b"GET /down HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    assert_eq!(status(&read_head(&mut busy)), 200);

    edge.installation.gateways[0].signal(nix::sys::signal::Signal::SIGTERM).unwrap();
    let since = std::time::Instant::now();
    for stream in [&mut idle, &mut unused] {
        let mut rest = Vec::new();
        drop(stream.read_to_end(&mut rest));
    }
    assert!(since.elapsed().as_secs() < 5, "idle connections stayed open");
    // The doors close on a thread of their own, at about the same moment.
    while std::net::TcpStream::connect(gateway.trim_start_matches("http://")).is_ok() {
        assert!(since.elapsed().as_secs() < 5, "new connections are still taken");
    }

    edge.shop.release();
    let mut piece = vec![0; 64 * 1024];
    let mut seen = 0;
    while let Ok(count) = busy.read(&mut piece)
        && count > 0
    {
        seen += count;
    }
    assert_eq!(seen, DOWN_BYTES);
    let ended = edge.installation.gateways[0].stop().unwrap();
    assert!(ended.success(), "{ended}");
}

#[test]
fn many_requests_share_few_connections_to_the_shop_and_none_fails() {
    const CLIENTS: u64 = 24;
    let edge = Edge::start("pooled", |_, _| {});
    let gateway = edge.url();

    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let gateway = gateway.clone();
            std::thread::spawn(move || {
                let mut stream = connect(&gateway);
                for number in 0..40 {
                    let ask =
                        format!("GET /many/{client}/{number} HTTP/1.1\r\nHost: localhost\r\n\r\n");
                    stream.write_all(ask.as_bytes()).unwrap();
                    assert_eq!(status(&read_head(&mut stream)), 200);
                    stream.read_exact(&mut [0; 2]).unwrap();
                }
            })
        })
        .collect();
    for client in clients {
        client.join().unwrap();
    }

    assert_eq!(edge.shop.heads("GET /many/").len(), 24 * 40);
    let connections = edge.shop.connections();
    assert!(connections <= CLIENTS * 2, "{connections} connections for {CLIENTS} clients");
}

#[test]
fn a_websocket_to_a_free_path_is_a_tunnel_after_the_shops_101() {
    let edge = shared();
    let mut stream = connect(&edge.url());
    let ask = "GET /ws HTTP/1.1\r\nHost: localhost\r\nConnection: keep-alive, Upgrade\r\n\
               Upgrade: websocket\r\nSec-WebSocket-Key: x\r\nX-Forwarded-For: 9.9.9.9\r\n\r\n";

    stream.write_all(ask.as_bytes()).unwrap();
    let head = read_head(&mut stream);
    assert!(head.starts_with("HTTP/1.1 101 ") && head.contains("upgrade: websocket"), "{head}");
    stream.write_all(b"hello").unwrap();
    let mut echo = String::new();
    stream.read_to_string(&mut echo).unwrap();

    assert_eq!(echo, "hello");
    let head = edge.shop.heads("/ws").remove(0);
    assert_eq!(header(&head, "upgrade"), Some("websocket"));
    assert_eq!(header(&head, "x-forwarded-for"), Some("127.0.0.1"), "stripped there as well");
}
