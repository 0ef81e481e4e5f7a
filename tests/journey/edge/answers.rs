//! What clients are told when the shop fails, how soon they hear it speak, and how soon the shop
//! hears that they have gone.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::{Duration, Instant};

use super::Edge;
use super::frames::{DATA, END_HEADERS, END_STREAM, H2, HEADERS, RST_STREAM, block};
use super::origin::{Origin, header};
use super::streaming::read_head;
use super::tls::secured;
use super::wire::{ask, connect, status};

/// How soon a piece must be passed on, on average.
const AT_ONCE: Duration = Duration::from_millis(50);
/// How soon the shop must hear that a client has gone.
const SOON: Duration = Duration::from_secs(1);

#[test]
fn a_failure_says_which_hop_failed_and_how_and_when_to_come_back() {
    let edge = Edge::start("failures", |config, _| {
        config.set("shop.response_timeout", "1s").unwrap();
        config.set("shop.max_requests", 1).unwrap();
    });
    for (path, wanted, error) in [
        ("/dies", 502, "http_response_incomplete"),
        ("/garbage", 502, "http_protocol_error"),
        ("/fatter", 502, "http_protocol_error"),
        ("/slow", 504, "http_response_timeout"),
    ] {
        let answer = ask(&edge.url(), &format!("POST {path}"), &["Content-Length: 0"]);
        assert_eq!(status(&answer), wanted, "{path}: {answer}");
        let said = format!("stanchion; error={error}");
        assert_eq!(header(&answer, "proxy-status"), Some(said.as_str()), "{path}");
        assert!(header(&answer, "retry-after").is_some(), "{answer}");
        assert_eq!(header(&answer, "cache-control"), Some("private, no-store"));
    }

    let mut busy = connect(&edge.url());
    busy.write_all(b"GET /silent HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    assert_eq!(status(&read_head(&mut busy)), 200);
    let full = ask(&edge.url(), "GET /any", &[]);
    assert_eq!(status(&full), 503, "{full}");
    assert_eq!(
        header(&full, "proxy-status"),
        Some("stanchion; error=connection_limit_reached"),
        "{full}"
    );
    assert!(header(&full, "retry-after").is_some(), "{full}");
    drop(busy);

    let gone = Edge::start("nobody", |config, _| {
        config.set("shop.origins", vec!["http://127.0.0.1:9"]).unwrap();
    });
    let answer = ask(&gone.url(), "GET /", &[]);
    let said = Some("stanchion; error=connection_refused");
    assert_eq!((status(&answer), header(&answer, "proxy-status")), (502, said), "{answer}");
}

#[test]
fn ed_70_a_shop_that_drops_every_new_connection_is_asked_once() {
    let edge = Edge::start("drops", |_, _| {});
    let since = Instant::now();
    let answer = ask(&edge.url(), "GET /dies", &[]);
    assert_eq!(status(&answer), 502, "{answer}");
    assert!(since.elapsed() < SOON, "{:?}", since.elapsed());
    assert_eq!(edge.shop.heads("/dies").len(), 1);
}

#[test]
fn ed_89_the_only_address_is_never_given_up_and_of_two_the_well_one_serves() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = taken.local_addr().unwrap();
    drop(taken);
    let edge = Edge::start("flapping", |config, _| {
        config.set("shop.origins", vec![format!("http://{addr}")]).unwrap();
    });
    for _ in 0..5 {
        assert_eq!(status(&ask(&edge.url(), "GET /gone", &[])), 502);
    }
    let shop = Origin::start_at(addr);
    assert_eq!(status(&ask(&edge.url(), "GET /back", &[])), 200, "tried at once");
    assert_eq!(shop.heads("/back").len(), 1);

    let edge = Edge::start("twoshops", |config, shop| {
        config.set("shop.origins", vec!["http://127.0.0.1:9".to_owned(), shop.url()]).unwrap();
    });
    for number in 0..20 {
        assert_eq!(status(&ask(&edge.url(), "GET /well", &[])), 200, "{number}");
    }
}

#[test]
fn ed_32_interim_answers_do_no_harm() {
    let edge = super::shared();
    for path in ["/hints", "/continued"] {
        let answer = ask(&edge.url(), &format!("GET {path}"), &[]);
        assert_eq!(status(&answer), 200, "{answer}");
        assert!(answer.ends_with("\r\n\r\nok") && !answer.contains("103"), "{answer}");
        assert_eq!(status(&ask(&edge.url(), "GET /afterhints", &[])), 200);
    }
}

#[test]
fn an_event_is_passed_on_at_once_and_a_silence_is_no_failure() {
    let edge = Edge::start("events", |config, _| {
        config.set("shop.body_idle_timeout", "200ms").unwrap();
    });
    let mut stream = connect(&edge.url());
    stream.write_all(b"GET /sse HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let head = read_head(&mut stream);
    assert_eq!(header(&head, "content-type"), Some("text/event-stream"), "{head}");
    // Longer than any other body may pause.
    std::thread::sleep(Duration::from_millis(600));

    let mut waits = Vec::new();
    for number in 0..20 {
        let since = Instant::now();
        edge.shop.tell();
        let event = format!("data: {number:02}\n\n");
        let mut seen = String::new();
        while !seen.contains(&event) {
            let mut bytes = [0; 256];
            let count = stream.read(&mut bytes).unwrap();
            assert!(count > 0, "cut off before {event:?}");
            seen.push_str(&String::from_utf8_lossy(&bytes[..count]));
        }
        waits.push(since.elapsed());
    }
    waits.sort();
    assert!(waits[waits.len() / 2] < AT_ONCE, "{waits:?}");
}

#[test]
fn a_client_that_goes_is_known_to_the_shop_within_a_second() {
    let edge = Edge::start("goers", |_, _| {});
    for (number, path) in ["/slow", "/silent"].into_iter().enumerate() {
        let mut client = connect(&edge.url());
        let bytes = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        client.write_all(bytes.as_bytes()).unwrap();
        if path == "/silent" {
            assert_eq!(status(&read_head(&mut client)), 200);
        }
        edge.shop.await_head(path);
        let since = Instant::now();
        drop(client);
        edge.shop.await_gone(number + 1);
        assert!(since.elapsed() < SOON, "{path}: {:?}", since.elapsed());
    }
}

#[test]
fn a_stream_that_is_reset_is_known_to_the_shop_within_a_second_and_its_neighbours_live() {
    let (edge, client) = secured("resets");
    let mut h2 = H2::connect(&edge, &client, &[]);
    for (number, path) in (0..2).zip(["/slow", "/silent"]) {
        let stream = number * 4 + 1;
        assert!(h2.send(HEADERS, END_HEADERS | END_STREAM, stream, &block("GET", path, &[])));
        edge.shop.await_head(path);
        if path == "/silent" {
            assert_eq!(h2.outcome(stream).expect("an answer").status(), 200);
        }
        let since = Instant::now();
        assert!(h2.send(RST_STREAM, 0, stream, &8_u32.to_be_bytes()));
        edge.shop.await_gone(usize::try_from(number).unwrap() + 1);
        assert!(since.elapsed() < SOON, "{path}: {:?}", since.elapsed());
        let next = block("GET", "/neighbour", &[]);
        assert!(h2.send(HEADERS, END_HEADERS | END_STREAM, stream + 2, &next));
        assert_eq!(h2.outcome(stream + 2).expect("an answer").status(), 200);
    }
}

#[test]
fn ed_57_over_http_2_a_truncated_answer_ends_in_a_reset() {
    let (edge, client) = secured("truncated");
    let mut h2 = H2::connect(&edge, &client, &[]);
    for (stream, path) in [(1, "/cut/length"), (3, "/cut/chunks")] {
        assert!(h2.send(HEADERS, END_HEADERS | END_STREAM, stream, &block("GET", path, &[])));
        let end = h2.find(|frame| {
            frame.stream == stream
                && (frame.kind == RST_STREAM || frame.kind == DATA && frame.flags & END_STREAM != 0)
        });
        assert_eq!(end.expect("an end").kind, RST_STREAM, "{path}");
    }
}
