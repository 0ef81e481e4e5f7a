//! Clients that take their time: each is let go of, and the shop and honest clients notice nothing.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::Edge;
use super::streaming::read_head;
use super::wire::{ask, connect, send, status};

const GROWTH_KIB_MAX: u64 = 64 * 1024;
/// Slow clients at once.
const MANY: usize = 150;

/// One with short patience.
fn impatient(topic: &str) -> Edge {
    Edge::start(topic, |config, _| {
        for key in ["first_request_timeout", "head_timeout", "body_idle_timeout", "write_timeout"] {
            config.set(&format!("limits.client.{key}"), "1s").unwrap();
        }
    })
}

/// Runs an attack and looks at what is left of it.
fn survives(edge: &Edge, attack: impl FnOnce()) {
    assert_eq!(status(&ask(&edge.url(), "GET /honest", &[])), 200);
    let (memory, files) = (edge.memory_kib(), edge.descriptors());
    attack();
    let growth = edge.memory_kib().saturating_sub(memory);
    assert!(growth < GROWTH_KIB_MAX, "grew by {growth} KiB");
    assert_eq!(status(&ask(&edge.url(), "GET /honest", &[])), 200);
    edge.await_descriptors(files);
}

/// Sends a byte on each of the connections now and then, until all have ended or time is up.
fn dribble(slow: &mut Vec<TcpStream>, byte: &[u8]) -> Duration {
    let since = Instant::now();
    for stream in &*slow {
        stream.set_nonblocking(true).unwrap();
    }
    while !slow.is_empty() {
        assert!(since.elapsed() < Duration::from_secs(15), "{} are still open", slow.len());
        slow.retain_mut(|stream| {
            let written = stream.write(byte).is_ok();
            let ended = match stream.read(&mut [0; 1024]) {
                Ok(count) => count == 0,
                Err(error) => error.kind() != std::io::ErrorKind::WouldBlock,
            };
            written && !ended
        });
        std::thread::sleep(Duration::from_millis(100));
    }
    since.elapsed()
}

#[test]
fn ed_62_heads_that_dribble_in_are_not_waited_for() {
    let edge = impatient("slowhead");
    survives(&edge, || {
        let mut first: Vec<_> = (0..MANY).map(|_| connect(&edge.url())).collect();
        for stream in &mut first {
            stream.write_all(b"GET /slowhead HTTP/1.1\r\nHost: localhost\r\nX: ").unwrap();
        }
        assert_eq!(status(&ask(&edge.url(), "GET /meanwhile", &[])), 200);
        dribble(&mut first, b"a");

        let mut later = Vec::new();
        for _ in 0..MANY {
            let mut stream = connect(&edge.url());
            stream.write_all(b"GET /ok HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
            assert_eq!(status(&read_head(&mut stream)), 200);
            stream.read_exact(&mut [0; 2]).unwrap();
            stream.write_all(b"GET /slowhead HTTP/1.1\r\nX: ").unwrap();
            later.push(stream);
        }
        dribble(&mut later, b"a");
    });
    assert_eq!(edge.shop.heads("/slowhead"), [""; 0]);
}

#[test]
fn ed_62_an_idle_connection_is_closed() {
    let edge = impatient("idle");
    let mut idle = connect(&edge.url());
    idle.write_all(b"GET /ok HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    assert_eq!(status(&read_head(&mut idle)), 200);
    idle.read_exact(&mut [0; 2]).unwrap();
    let since = Instant::now();

    assert_eq!(idle.read(&mut [0]).unwrap(), 0);

    assert!(since.elapsed() < Duration::from_secs(5), "{:?}", since.elapsed());
}

#[test]
fn ed_60_bodies_that_dribble_in_take_no_place_at_the_shop() {
    let edge = Edge::start("slowbody", |config, _| {
        config.set("limits.client.body_idle_timeout", "1s").unwrap();
        config.set("shop.max_requests", 2).unwrap();
    });
    survives(&edge, || {
        for framing in ["Content-Length: 4096\r\n", "Transfer-Encoding: chunked\r\n"] {
            let mut slow: Vec<_> = (0..MANY).map(|_| connect(&edge.url())).collect();
            for stream in &mut slow {
                let head = format!("POST /slowbody HTTP/1.1\r\nHost: localhost\r\n{framing}\r\n");
                stream.write_all(head.as_bytes()).unwrap();
            }
            assert_eq!(status(&ask(&edge.url(), "GET /meanwhile", &[])), 200);
            dribble(&mut slow, if framing.starts_with('C') { b"a" } else { b"1\r\na\r\n" });
        }
    });
    assert_eq!(edge.shop.heads("/slowbody"), [""; 0], "the shop never heard of them");

    let mut slow = connect(&edge.url());
    slow.write_all(b"POST /slowbody HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nabc")
        .unwrap();
    let mut answer = String::new();
    slow.read_to_string(&mut answer).unwrap();
    assert_eq!(status(&answer), 408, "{answer}");
    assert!(answer.contains("connection: close"), "{answer}");
}

#[test]
fn ed_56_readers_that_stall_are_let_go() {
    let edge = impatient("slowread");
    edge.shop.release();
    survives(&edge, || {
        let slow: Vec<_> = (0..40)
            .map(|_| {
                let mut stream = connect(&edge.url());
                stream.write_all(b"GET /down HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
                assert_eq!(status(&read_head(&mut stream)), 200);
                stream
            })
            .collect();
        assert_eq!(status(&ask(&edge.url(), "GET /meanwhile", &[])), 200);
        let since = Instant::now();
        while edge.shop.stalled() < slow.len() {
            assert!(since.elapsed() < Duration::from_secs(20), "{} let go", edge.shop.stalled());
            std::thread::sleep(Duration::from_millis(50));
        }
    });
}

#[test]
fn ed_58_a_body_over_its_bound_is_a_413_and_never_whole_at_the_shop() {
    let edge = Edge::start("toolong", |config, _| {
        config.set("limits.client.max_body_bytes", 20_000).unwrap();
    });
    let body = "a".repeat(30_000);
    let told = ask(&edge.url(), "POST /told", &["Content-Length: 30000", "", &body]);
    assert_eq!(status(&told), 413, "{told}");
    assert!(told.contains("connection: close"), "{told}");
    assert_eq!(edge.shop.heads("/told"), [""; 0]);

    let chunks = format!("7530\r\n{body}\r\n0\r\n\r\n");
    let bytes = format!(
        "POST /chunks HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}"
    );
    let chunked = send(&edge.url(), bytes);
    assert!(matches!(status(&chunked), 0 | 413), "{chunked}");
    assert_eq!(edge.shop.finished("/chunks"), 0, "the shop saw its end");
    let fits = ask(&edge.url(), "POST /up", &["Content-Length: 20000", "", &body[..20_000]]);
    assert!(fits.ends_with("20000"), "{fits}");
}

#[test]
fn early_answers_to_long_bodies_are_read_fifty_times_of_fifty() {
    let edge = Edge::start("early", |config, _| super::no_limits(config));
    let body = vec![b'a'; 1024 * 1024];
    for (path, wanted) in [("/checkout/early", 429), ("/early", 401)] {
        for number in 0..50 {
            let mut stream = connect(&edge.url());
            let head = format!(
                "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n",
                body.len()
            );
            stream.write_all(head.as_bytes()).unwrap();
            // A client that looks at the answer only once it has sent all.
            drop(stream.write_all(&body));
            let answer = read_head(&mut stream);
            assert_eq!(status(&answer), wanted, "{path} {number}: {answer:?}");
        }
    }
}
