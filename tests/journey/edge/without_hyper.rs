//! Plain polls and calls are answered beneath hyper: nobody may be able to tell.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::Value;

use super::wire::{connect, send};
use super::{Edge, lobby, shared};

/// Writes and reads one answer that tells its length, on a connection that stays.
fn exchange(stream: &mut TcpStream, request: &str) -> String {
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    let mut piece = [0; 4096];
    loop {
        let length = stream.read(&mut piece).unwrap();
        assert!(length > 0, "closed after {answer:?}");
        answer.push_str(std::str::from_utf8(&piece[..length]).unwrap());
        let Some((head, body)) = answer.split_once("\r\n\r\n") else { continue };
        let told = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        if told.is_some_and(|told| body.len() >= told.parse().unwrap()) {
            return answer;
        }
    }
}

fn joined(edge: &Edge) -> String {
    let body = "{}";
    let answer = send(
        &edge.url(),
        format!(
            "POST /_stanchion/{}/join HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            edge.plan.id,
            body.len()
        ),
    );
    let cookie = answer.lines().find_map(|line| line.strip_prefix("set-cookie: "));
    cookie.unwrap_or_else(|| panic!("{answer}")).split(';').next().unwrap().to_owned()
}

/// Status line and headers, and the body; what the moment says is taken out.
fn told(answer: &str) -> (Vec<String>, Value) {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let mut lines: Vec<String> = head.lines().map(str::to_owned).collect();
    lines.retain(|line| !line.starts_with("date: ") && !line.starts_with("ratelimit: "));
    lines[1..].sort();
    let mut body: Value = serde_json::from_str(body).unwrap();
    let body_now = body.as_object_mut().unwrap().remove("server_time").unwrap();
    assert!(body_now.as_str().unwrap().ends_with('Z'));
    body.as_object_mut().unwrap().remove("poll_after_ms").unwrap();
    (lines, body)
}

#[test]
fn a_poll_is_told_the_same_whichever_road_it_takes_and_the_connection_goes_on() {
    let edge = lobby();
    let (cookie, sale) = (joined(&edge), &edge.plan.id);
    let poll = |more: &str| {
        format!(
            "GET /_stanchion/{sale}/status HTTP/1.1\r\nHost: localhost\r\n{more}Cookie: {cookie}\r\n\r\n"
        )
    };
    let plain = poll("");
    let mut stream = connect(&edge.url());

    let quick = exchange(&mut stream, &plain);
    // A page of nobody we know asks: the same answer by the long road.
    let long = exchange(&mut stream, &poll("Origin: https://nobody.test\r\n"));
    assert_eq!(told(&quick), told(&long));
    assert!(quick.contains("\"state\":\"entered\""), "{quick}");

    for other in ["GET /any HTTP/1.1\r\nHost: localhost\r\n\r\n", &plain, &plain] {
        assert!(exchange(&mut stream, other).starts_with("HTTP/1.1 200 OK\r\n"), "{other}");
    }
    assert_eq!(told(&exchange(&mut stream, &plain)), told(&quick));
}

/// A call in one piece, or with a body that only hyper reads.
fn call(line: &str, more: &str, body: &str, in_chunks: bool) -> String {
    let framed = if in_chunks {
        format!("Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n", body.len())
    } else {
        format!("Content-Length: {}\r\n\r\n{body}", body.len())
    };
    format!("POST {line} HTTP/1.1\r\nHost: localhost\r\n{more}{framed}")
}

/// Status line, headers and body without what the moment says.
fn lasting(answer: &str) -> (Vec<String>, Value) {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let mut lines: Vec<String> = head.lines().map(str::to_owned).collect();
    // A body in chunks that nobody read ends its connection.
    lines.retain(|line| line != "connection: close");
    for line in &mut lines {
        if let Some((name, _)) = line.split_once(": ")
            && ["date", "ratelimit", "set-cookie", "content-length"].contains(&name)
        {
            *line = name.to_owned();
        }
    }
    lines[1..].sort();
    let mut body: Value = serde_json::from_str(body).unwrap();
    for volatile in ["server_time", "poll_after_ms", "ticket"] {
        body.as_object_mut().unwrap().remove(volatile);
    }
    (lines, body)
}

#[test]
fn a_call_is_told_the_same_whichever_road_it_takes_and_polls_go_on_without_hyper_after_it() {
    let edge = lobby();
    let (own, json) =
        (format!("/_stanchion/{}", edge.plan.id), "Content-Type: application/json\r\n");
    let keyed = format!("{json}Idempotency-Key: both-roads\r\n");
    let first =
        exchange(&mut connect(&edge.url()), &call(&format!("{own}/join"), &keyed, "{}", false));
    assert!(first.starts_with("HTTP/1.1 201 Created\r\n"), "{first}");

    let foreign = format!("{json}Origin: https://elsewhere.test\r\n");
    for (path, more, body, wanted) in [
        ("join", keyed.as_str(), "{}", 200),
        ("join", json, "{\"join_key\":1}", 400),
        ("join", "Content-Type: text/xml\r\n", "<a/>", 400),
        ("join", foreign.as_str(), "{}", 403),
        ("claim", json, "{}", 403),
        ("leave", json, "{}", 403),
        ("recover", json, "{\"code\":\"none\"}", 400),
        ("status", json, "{}", 405),
        ("nothing", json, "{}", 404),
    ] {
        let line = format!("{own}/{path}");
        let [quick, long] = [false, true].map(|in_chunks| {
            exchange(&mut connect(&edge.url()), &call(&line, more, body, in_chunks))
        });
        assert!(quick.starts_with(&format!("HTTP/1.1 {wanted} ")), "{path}: {quick}");
        assert_eq!(lasting(&quick), lasting(&long), "{path}");
    }

    // Several on one connection, and in one piece.
    let mut stream = connect(&edge.url());
    let known = call(&format!("{own}/join"), &keyed, "{}", false);
    let poll = format!("GET {own}/status HTTP/1.1\r\nHost: localhost\r\n\r\n");
    for request in [&known, &poll, &known, &known, &poll] {
        assert!(exchange(&mut stream, request).starts_with("HTTP/1.1 200 OK\r\n"), "{request}");
    }
    let last = poll.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n");
    let answers = send(&edge.url(), [known.as_str(), &known, &poll, &known, &last].concat());
    assert_eq!(answers.matches("HTTP/1.1 200 OK\r\n").count(), 5, "{answers}");
}

#[test]
fn a_poll_that_another_host_or_run_is_named_in_is_no_plain_one() {
    let edge = lobby();
    let sale = &edge.plan.id;
    let forged = format!("Cookie: stanchion-ticket-{sale}=forged\r\n");
    for (host, more, wanted) in
        [("other.test", "", 421), ("localhost", forged.as_str(), 200), ("localhost", "", 200)]
    {
        let mut stream = connect(&edge.url());
        let request =
            format!("GET /_stanchion/{sale}/status HTTP/1.1\r\nHost: {host}\r\n{more}\r\n");
        let answer = exchange(&mut stream, &request);
        assert!(answer.starts_with(&format!("HTTP/1.1 {wanted} ")), "{host}: {answer}");
        assert!(!answer.contains("\"entered\""), "{answer}");
    }
}

#[test]
fn what_reads_like_a_poll_inside_a_websocket_is_the_shops() {
    let edge = shared();
    let mut stream = connect(&edge.url());
    let open = "GET /socket HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n\
                Upgrade: websocket\r\nSec-WebSocket-Key: x\r\nSec-WebSocket-Version: 13\r\n\r\n";
    stream.write_all(open.as_bytes()).unwrap();
    let mut head = vec![];
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    assert!(head.starts_with(b"HTTP/1.1 101 "), "{}", String::from_utf8_lossy(&head));

    let poll =
        format!("GET /_stanchion/{}/status HTTP/1.1\r\nHost: localhost\r\n\r\n", edge.plan.id);
    for _ in 0..2 {
        stream.write_all(poll.as_bytes()).unwrap();
        let mut echo = vec![0; poll.len()];
        stream.read_exact(&mut echo).unwrap();
        assert_eq!(String::from_utf8_lossy(&echo), poll);
    }
}
