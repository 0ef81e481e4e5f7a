//! Who asks too often is told when to come back; who is signed in does not pay for neighbours.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::Edge;
use super::origin::header;
use super::wire::{ask, connect, status};
use crate::fixture::Ground;

fn with_accounts(config: &mut stanchion::lab::rig::ConfigFile, shop: &super::Origin) {
    config.set("account.source", "forward_auth").unwrap();
    config.set("account.forward_auth.url", format!("{}/whoami", shop.url())).unwrap();
}

/// Posts a join without waiting for the answer.
fn join(gateway: &str, sale: &str, number: usize, cookie: &str) -> TcpStream {
    let mut stream = connect(gateway);
    let bytes = format!(
        "POST /_stanchion/{sale}/join HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{cookie}\
         Idempotency-Key: join-{number}\r\nContent-Length: 0\r\n\r\n"
    );
    stream.write_all(bytes.as_bytes()).unwrap();
    stream
}

fn answer(mut stream: TcpStream) -> String {
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn of_two_hundred_joins_at_once_sixty_and_what_time_adds_pass() {
    let ground = Ground::new("rush");
    let plan = ground.sale_opening_in(600_000, 10);
    let edge = Edge::on(&ground, plan, 1, |config, shop| {
        with_accounts(config, shop);
        config.set("sale.0.places_per_ip", 0).unwrap();
    });
    edge.await_lobby();

    let since = Instant::now();
    let asked: Vec<_> = (0..200).map(|n| join(&edge.url(), &edge.plan.id, n, "")).collect();
    let answers: Vec<_> = asked.into_iter().map(answer).collect();
    let passing = since.elapsed();

    let passed = answers.iter().filter(|answer| status(answer) == 201).count();
    let refused: Vec<_> = answers.iter().filter(|answer| status(answer) == 429).collect();
    assert_eq!(
        passed + refused.len(),
        200,
        "{:?}",
        answers.iter().map(|a| status(a)).collect::<Vec<_>>()
    );
    // What 20 a second add while the joins run; one of the 60 was spent on looking for the lobby.
    let added = usize::try_from(passing.as_millis() / 50).unwrap() + 1;
    assert!((58..=60 + added).contains(&passed), "{passed} of 200 in {passing:?}");
    for answer in refused {
        assert!(answer.contains("retry-after: "), "{answer}");
        assert!(answer.contains("\"retry_after_ms\":"), "{answer}");
        assert!(answer.contains("\"code\":\"rate-limited\""), "{answer}");
    }

    let signed_in = answer(join(&edge.url(), &edge.plan.id, 1_000, "Cookie: user=ann\r\n"));
    assert_eq!(status(&signed_in), 201, "{signed_in}");
    let again = answer(join(&edge.url(), &edge.plan.id, 1_001, "Cookie: user=ann\r\n"));
    assert_eq!(status(&again), 200, "one place per account: {again}");
}

#[test]
fn the_wait_that_is_told_is_the_wait_that_is_needed() {
    let edge = Edge::start("wait", |config, _| {
        config.set("limits.per_ip.rate", "2/s").unwrap();
        config.set("limits.per_ip.burst", 1).unwrap();
    });
    let ask_once = || ask(&edge.url(), "GET /checkout/x", &["Accept: application/json"]);
    assert!(ask_once().contains("\"code\":\"waiting\""));

    let refused = ask_once();

    assert!(refused.contains("\"code\":\"rate-limited\""), "{refused}");
    let told = refused.split("\"retry_after_ms\":").nth(1).unwrap();
    let ms: u64 = told.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap();
    assert!(ms <= 600, "{ms}");
    std::thread::sleep(Duration::from_millis(ms));
    let served = ask_once();
    assert!(served.contains("\"code\":\"waiting\""), "{served}");
}

#[test]
fn ed_72_behind_a_trusted_proxy_visitors_are_told_apart_by_their_own_address() {
    let edge = Edge::start("proxied", |config, _| {
        config.set("public.trusted_proxies", vec!["127.0.0.1/32"]).unwrap();
        config.set("limits.per_ip.rate", "0.01/s").unwrap();
        config.set("limits.per_ip.burst", 1).unwrap();
    });
    let from = |address: &str, path: &str| {
        let chain = format!("X-Forwarded-For: 6.6.6.6, {address}");
        ask(&edge.url(), path, &[&chain, "X-Forwarded-Proto: https", "Accept: application/json"])
    };

    for address in ["203.0.113.9", "203.0.113.10", "2001:db8::1"] {
        assert!(from(address, "GET /checkout/x").contains("\"code\":\"waiting\""), "{address}");
        assert!(from(address, "GET /checkout/x").contains("rate-limited"), "{address}");
    }
    let neighbour = from("2001:db8::ffff", "GET /checkout/x");
    assert!(neighbour.contains("rate-limited"), "one /64 is one visitor: {neighbour}");

    assert_eq!(status(&from("203.0.113.9", "GET /chain")), 200);
    let head = edge.shop.heads("/chain").remove(0);
    assert_eq!(header(&head, "x-forwarded-for"), Some("203.0.113.9, 127.0.0.1"));
    assert_eq!(header(&head, "x-forwarded-proto"), Some("https"));
}

#[test]
fn while_sign_in_does_not_answer_nobody_gets_a_second_place() {
    let ground = Ground::new("signin");
    let plan = ground.sale_opening_in(600_000, 10);
    let edge = Edge::on(&ground, plan, 1, |config, _| {
        config.set("account.source", "forward_auth").unwrap();
        config.set("account.forward_auth.url", "http://127.0.0.1:9/whoami").unwrap();
    });
    edge.await_lobby();

    let signed_in = answer(join(&edge.url(), &edge.plan.id, 1, "Cookie: user=ann\r\n"));
    assert_eq!(status(&signed_in), 503, "{signed_in}");
    assert!(signed_in.contains("\"code\":\"account-unavailable\""), "{signed_in}");
    let anonymous = answer(join(&edge.url(), &edge.plan.id, 2, ""));
    assert_eq!(status(&anonymous), 201, "{anonymous}");
}

#[test]
fn a_quota_that_is_changed_in_the_file_holds_within_a_second() {
    let mut edge = Edge::start("hotquota", |config, _| {
        config.set("limits.per_ip.rate", "0.01/s").unwrap();
        config.set("limits.per_ip.burst", 1).unwrap();
    });
    let gated = |edge: &Edge| ask(&edge.url(), "GET /checkout/x", &["Accept: application/json"]);
    assert!(gated(&edge).contains("\"code\":\"waiting\""));
    assert!(gated(&edge).contains("\"code\":\"rate-limited\""));

    edge.installation.reconfigure("limits.per_ip.burst", 5).unwrap();
    let since = Instant::now();
    while !gated(&edge).contains("ratelimit-policy: \"per_ip\";q=5;w=500") {
        assert!(since.elapsed() < Duration::from_secs(20), "the old quota stays");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(gated(&edge).contains("ratelimit: \"per_ip\";r=3;t=200"), "counted anew");
}
