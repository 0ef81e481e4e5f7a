//! Server-sent events: the same status body, told by itself.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::admitted::{admission, keys};
use super::browser::Browser;
use super::wire::{ask, connect, status};
use super::{Edge, lobby, no_limits};
use crate::fixture::{Ground, now_ms};

/// An open stream of events.
struct Events {
    reader: BufReader<TcpStream>,
    head: String,
}

impl Events {
    fn open(edge: &Edge, headers: &str) -> Self {
        let mut stream = connect(&edge.url());
        let line = format!(
            "GET /_stanchion/{}/events HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n",
            edge.plan.id
        );
        stream.write_all(line.as_bytes()).unwrap();
        let mut events = Self { reader: BufReader::new(stream), head: String::new() };
        while !events.head.ends_with("\r\n\r\n") {
            assert!(events.reader.read_line(&mut events.head).unwrap() > 0, "{}", events.head);
        }
        events
    }

    /// The next line; nothing at the end of the body.
    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = self.reader.read_line(&mut line).unwrap();
        (read > 0 && line != "0\r\n").then_some(line)
    }

    /// The next status; nothing at the end.
    fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(data) = self.line()?.strip_prefix("data:") {
                return Some(serde_json::from_str(data).unwrap());
            }
        }
    }
}

#[test]
fn a_stream_tells_the_status_body_and_what_changes() {
    let edge = lobby();
    let mut browser = Browser::new(&edge);
    browser.post("join", "join_key=streamed&next=/checkout/x");
    let ticket = format!("Stanchion-Ticket: {}\r\n", browser.value("ticket").unwrap());

    let mut events = Events::open(&edge, &ticket);
    assert!(events.head.contains("content-type: text/event-stream"), "{}", events.head);
    assert!(events.head.contains("cache-control: private, no-store"), "{}", events.head);
    let first = events.next().unwrap();

    let polled = browser.go(&format!("GET /_stanchion/{}/status", edge.plan.id), None);
    let (_, polled) = polled.split_once("\r\n\r\n").unwrap();
    let mut polled: Value = serde_json::from_str(polled).unwrap();
    let mut told = first.clone();
    for of in [&mut polled, &mut told] {
        of["server_time"] = Value::Null;
        of["poll_after_ms"] = Value::Null;
        of["stock"] = Value::Null;
        of["paused"] = Value::Null;
    }
    assert_eq!(told, polled, "the same body");
    browser.post("leave", "next=/checkout/x");
    let changed = loop {
        let status = events.next().expect("the stream goes on");
        if status["place"]["state"] != "entered" {
            break status;
        }
    };
    assert_eq!(changed["place"]["state"], "left");
}

#[test]
fn a_stream_says_when_to_come_again_and_ends_with_the_admission() {
    let edge = lobby();
    let keys = keys(&edge);
    let pass = keys.mint_admission(&admission(&keys, &edge.plan.id, 1, now_ms() - 1_000));
    let mut events = Events::open(&edge, &format!("Stanchion-Admission: {pass}\r\n"));

    let mut lines = Vec::new();
    while let Some(line) = events.line() {
        lines.push(line);
    }

    let all = lines.concat();
    assert!(all.contains("retry:") && all.contains("\"state\":\"admitted\""), "{all}");
    assert_eq!(all.matches("data:").count(), 1, "{all}");
    let head = ask(&edge.url(), &format!("HEAD /_stanchion/{}/events", edge.plan.id), &[]);
    assert_eq!(status(&head), 200, "{head}");
}

#[test]
fn there_are_only_so_many_streams_and_a_node_that_stops_ends_them() {
    let ground = Ground::new("streams");
    let plan = ground.sale_opening_in(600_000, 10);
    let mut edge = Edge::on(&ground, plan, 1, |config, _| {
        super::no_limits(config);
        config.set("limits.max_connections", 16).unwrap();
    });
    edge.await_lobby();
    let mut open: Vec<_> = (0..14).map(|_| Events::open(&edge, "")).collect();
    for events in &mut open {
        assert!(events.head.starts_with("HTTP/1.1 200"), "{}", events.head);
        assert_eq!(events.next().unwrap()["place"]["state"], "none");
    }

    let full = ask(&edge.url(), &format!("GET /_stanchion/{}/events", edge.plan.id), &[]);
    assert_eq!(status(&full), 503, "{full}");
    assert!(full.contains("\"code\":\"overloaded\"") && full.contains("retry-after: 30"), "{full}");
    drop(open.pop());
    let since = Instant::now();
    let mut again = loop {
        let events = Events::open(&edge, "");
        if events.head.starts_with("HTTP/1.1 200") {
            break events;
        }
        assert!(since.elapsed().as_secs() < 20, "a stream that is gone gives its seat back");
        std::thread::sleep(Duration::from_millis(50));
    };
    again.next().unwrap();

    edge.installation.gateways[0].signal(nix::sys::signal::Signal::SIGTERM).unwrap();
    for events in &mut open {
        while events.line().is_some() {}
    }
    let ended = edge.installation.gateways[0].stop();
    assert!(ended.is_ok_and(|status| status.success()));
}

#[test]
fn wr_65_a_stream_is_told_within_two_seconds_that_what_was_held_is_gone() {
    let ground = Ground::new("streamedgone");
    let mut plan = ground.sale_opening_in(500, 1);
    plan.hold = "10m".into();
    let edge = Edge::on(&ground, plan, 1, |config, _| no_limits(config));
    edge.await_open();
    let mut buyer = Browser::new(&edge);
    buyer.until_moved("GET /checkout/cart");
    let sku = edge.plan.skus[0].0.clone();
    let held = buyer.post("reservations", &format!("sku={sku}&qty=1&order_key=k&continue=/"));
    assert_eq!(status(&held), 303, "{held}");
    let own = buyer.go(&format!("GET /_stanchion/{}/reservations", edge.plan.id), None);
    let id = own.split("\"id\":\"").nth(1).unwrap().split('"').next().unwrap();
    // Who left would like to know as well.
    let mut other = Browser::new(&edge);
    other.post("join", "join_key=other&next=/checkout/x");
    other.post("leave", "next=/checkout/x");
    let ticket = format!("Stanchion-Ticket: {}\r\n", other.value("ticket").unwrap());
    let mut events = Events::open(&edge, &ticket);
    let mut until = |is_it: fn(&Value) -> bool| {
        loop {
            let status = events.next().expect("the stream goes on");
            if is_it(&status) {
                return status;
            }
        }
    };
    let stands = until(|status| status["stock"]["held"] == 1);
    assert_eq!(stands["sold_out"], true, "{stands}");

    let core = edge.installation.cores[0].url("core").unwrap();
    let key = format!("Authorization: Bearer {}", edge.installation.secrets.core_key);
    let body = r#"{"payment_ref":"p-1"}"#;
    let length = format!("Content-Length: {}", body.len());
    let headers = [&key, "Content-Type: application/json", &length, "", body];
    let paid = ask(&core, &format!("POST /v1/reservations/{id}/confirm"), &headers);
    assert_eq!(status(&paid), 200, "{paid}");
    let since = Instant::now();
    let gone = until(|status| status["stock"]["held"] == 0);

    assert!(since.elapsed() < Duration::from_secs(2), "{:?}", since.elapsed());
    assert!(gone["sold_out"] == true && gone["stock"]["confirmed"] == 1, "{gone}");
}

#[test]
fn wr_62_a_stream_is_told_within_two_seconds_of_another_rate_and_another_opening() {
    let ground = Ground::new("streamedrate");
    let edge = Edge::on(&ground, ground.sale_opening_in(600_000, 10), 1, |config, _| {
        no_limits(config);
    });
    edge.await_lobby();
    let mut events = Events::open(&edge, "");
    let before = events.next().unwrap();
    assert!(before["poll_after_ms"].as_u64().unwrap() > 2_000, "{before}");
    let opens = jiff::Timestamp::from_millisecond(i64::try_from(now_ms()).unwrap() + 900_000);
    let opens = opens.unwrap().to_string();
    let times = format!(r#"{{"opens":"{opens}"}}"#);
    let is_half = |told: &Value| told["rate"].as_f64() == before["rate"].as_f64().map(|r| r / 2.0);
    let half = format!(r#"{{"rate":"{}/s"}}"#, before["rate"].as_f64().unwrap() / 2.0);
    let is_later = |told: &Value| told["opens_at"] != before["opens_at"];

    for (what, said, is_told) in
        [("rate", &half, &is_half as &dyn Fn(&Value) -> bool), ("times", &times, &is_later)]
    {
        let ops = edge.installation.gateways[0].url("ops").unwrap();
        let key = format!("Authorization: Bearer {}", edge.installation.secrets.ops_key);
        let length = format!("Content-Length: {}", said.len());
        let headers = [&key, "Content-Type: application/json", &length, "", said];
        let since = Instant::now();
        let changed = ask(&ops, &format!("PUT /v1/sales/{}/{what}", edge.plan.id), &headers);
        assert_eq!(status(&changed), 200, "{changed}");
        while !is_told(&events.next().expect("the stream goes on")) {}
        assert!(since.elapsed() < Duration::from_secs(2), "{what}: {:?}", since.elapsed());
    }
}
