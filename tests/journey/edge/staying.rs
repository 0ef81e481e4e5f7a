//! Who is served goes on being served: through a reload, and through a stop until its deadlines.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use super::Edge;
use super::streaming::read_head;
use super::wire::{ask, connect, status};

const PATIENCE: Duration = Duration::from_secs(20);

/// A stream of the shop's events, its head read.
fn events(edge: &Edge) -> TcpStream {
    let mut stream = connect(&edge.url());
    stream.write_all(b"GET /sse HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    assert_eq!(status(&read_head(&mut stream)), 200);
    stream
}

/// Has the shop send an event, and waits for it.
fn event_arrives(edge: &Edge, stream: &mut TcpStream) {
    edge.shop.tell();
    let mut seen = String::new();
    while !seen.ends_with("\n\n\r\n") {
        let mut bytes = [0; 256];
        let count = stream.read(&mut bytes).unwrap();
        assert!(count > 0, "the stream was cut after {seen:?}");
        seen.push_str(&String::from_utf8_lossy(&bytes[..count]));
    }
}

fn websocket(edge: &Edge) -> TcpStream {
    let mut stream = connect(&edge.url());
    let ask =
        b"GET /ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                Sec-WebSocket-Key: x\r\n\r\n";
    stream.write_all(ask).unwrap();
    assert_eq!(status(&read_head(&mut stream)), 101);
    stream
}

fn closes_within(stream: &mut TcpStream, most: Duration) -> Duration {
    let since = Instant::now();
    let mut rest = Vec::new();
    drop(stream.read_to_end(&mut rest));
    assert!(since.elapsed() < most, "open for {:?}", since.elapsed());
    since.elapsed()
}

#[test]
fn a_reload_cuts_no_stream_no_upload_and_no_websocket() {
    let mut edge = Edge::start("staying", |config, _| super::no_limits(config));
    let mut stream = events(&edge);
    event_arrives(&edge, &mut stream);
    let mut socket = websocket(&edge);
    let mut upload = connect(&edge.url());
    let head = "POST /up HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 40000\r\n\r\n";
    let half = vec![b'a'; 20_000];
    upload.write_all(head.as_bytes()).unwrap();
    upload.write_all(&half).unwrap();

    edge.installation.reconfigure("limits.per_ip.burst", 5).unwrap();
    let since = Instant::now();
    while !ask(&edge.url(), "GET /checkout/x", &[]).contains("ratelimit-policy: \"per_ip\";q=5") {
        assert!(since.elapsed() < PATIENCE, "the settings were never read again");
        std::thread::sleep(Duration::from_millis(50));
    }

    event_arrives(&edge, &mut stream);
    socket.write_all(b"hello").unwrap();
    let mut echo = String::new();
    socket.read_to_string(&mut echo).unwrap();
    assert_eq!(echo, "hello");
    upload.write_all(&half).unwrap();
    let mut answer = String::new();
    upload.read_to_string(&mut answer).unwrap();
    assert!(answer.ends_with("40000"), "{answer}");
}

#[test]
fn ed_85_a_stop_gives_requests_and_streams_their_time_and_then_ends() {
    let mut edge = Edge::start("deadlines", |config, _| {
        config.set("public.drain_timeout", "1s").unwrap();
        config.set("public.stream_drain_timeout", "4s").unwrap();
    });
    let (mut stream, mut socket, mut lasting) = (events(&edge), websocket(&edge), websocket(&edge));
    let mut slow = connect(&edge.url());
    slow.write_all(b"GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    edge.shop.await_head("/slow");
    let mut half = connect(&edge.url());
    half.write_all(b"GET /half HTTP/1.1\r\nHost: loc").unwrap();
    let ready = ask(&edge.url(), "GET /_stanchion/health", &[]);
    assert_eq!(status(&ready), 200, "{ready}");

    edge.installation.gateways[0].signal(Signal::SIGTERM).unwrap();
    closes_within(&mut half, Duration::from_secs(3));
    closes_within(&mut slow, Duration::from_secs(3));
    event_arrives(&edge, &mut stream);
    socket.write_all(b"hello").unwrap();
    let mut echo = String::new();
    socket.read_to_string(&mut echo).unwrap();
    assert_eq!(echo, "hello", "its deadline is not over");

    closes_within(&mut stream, Duration::from_secs(8));
    closes_within(&mut lasting, Duration::from_secs(8));
    let ended = edge.installation.gateways[0].stop().unwrap();
    assert!(ended.success(), "{ended}");
}
