//! Many behind one address: what each of them may do, and what one of them cannot do to the rest.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use stanchion::clock::{Clock, SystemClock};
use stanchion::domain::admission::Admission;
use stanchion::domain::id::SaleId;
use stanchion::domain::ticket::{Cohort, Ticket};
use stanchion::lab::client::{Answer, Client};
use stanchion::room::keys::Keys;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use super::wire::{ask, status};
use super::{Edge, no_limits};
use crate::fixture::Ground;

/// All of them, as their own network's proxy says it.
const ADDRESS: (&str, &str) = ("x-forwarded-for", "203.0.113.7");
const SHOPPERS: usize = 2_000;
const POLLS_EACH: usize = 5;

fn keys(edge: &Edge) -> Keys {
    Keys::load(&edge.installation.folder().join("keys")).unwrap()
}

fn ticket(keys: &Keys, sale: &str, number: u64) -> Ticket {
    let (sale, cohort) = (SaleId::parse(sale).unwrap(), Cohort::Entry(number));
    let sub = keys.subject(&sale, 1, cohort);
    Ticket { sale, run: 1, sub, cohort, account: None, issued_at: SystemClock.now_ms() / 1000 }
}

async fn join(client: &Client, edge: &Edge, key: &str, cookie: &str) -> Answer {
    let url = format!("{}/_stanchion/{}/join", edge.url(), edge.plan.id);
    let headers = [ADDRESS, ("idempotency-key", key), ("cookie", cookie)];
    client.post_json(&url, &headers, &serde_json::json!({})).await.unwrap()
}

/// Polls as it is told, a few times; how many milliseconds it was told to wait in all.
async fn poll_as_told(client: Client, url: String, ticket: String) -> u64 {
    let mut waited = 0;
    for _ in 0..POLLS_EACH {
        let answer = client.get(&url, &[ADDRESS, ("stanchion-ticket", &ticket)]).await.unwrap();
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert!(answer.header("ratelimit").starts_with("\"poll\";r="), "{:?}", answer.headers);
        let status: serde_json::Value = answer.json().unwrap();
        let told = status["poll_after_ms"].as_u64().unwrap();
        waited += told;
        tokio::time::sleep(Duration::from_millis(told)).await;
    }
    waited
}

/// Joins again and again without an account; how many were let in, told to wait, and refused for
/// good.
async fn flood(client: Client, edge: &Edge) -> (usize, usize, usize) {
    let joins = (0..SHOPPERS).map(async |n| join(&client, edge, &format!("flood-{n}"), "").await);
    let (mut passed, mut waits, mut full) = (0, 0, 0);
    for answer in join_all(joins).await {
        match answer.status.as_u16() {
            201 => passed += 1,
            429 if answer.text().contains("rate-limited") => {
                let told: serde_json::Value = answer.json().unwrap();
                let ms = told["retry_after_ms"].as_u64().unwrap();
                assert_eq!(answer.header("retry-after"), ms.div_ceil(1000).max(1).to_string());
                assert!(answer.header("ratelimit").starts_with("\"per_ip\";r=0;t="));
                waits += 1;
            }
            _ if answer.text().contains("too-many-places") => full += 1,
            other => panic!("{other} {}", answer.text()),
        }
    }
    (passed, waits, full)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wr_58_two_thousand_signed_in_behind_one_address_are_never_refused_whatever_one_of_them_does()
 {
    let ground = Ground::new("nat");
    let plan = ground.sale_opening_in(45_000, 10);
    let edge = Edge::on(&ground, plan, 1, |config, shop| {
        // Our client opens connections to spare; how many an address may have is told elsewhere.
        config.set("public.trusted_proxies", vec!["127.0.0.1/32"]).unwrap();
        config.set("account.source", "forward_auth").unwrap();
        config.set("account.forward_auth.url", format!("{}/whoami", shop.url())).unwrap();
    });
    edge.await_lobby();
    let client = Client::new(250);
    let names: Vec<_> =
        (0..SHOPPERS).map(|n| (format!("join-{n}"), format!("user=u{n}"))).collect();
    let joined = join_all(names.iter().map(|(key, user)| join(&client, &edge, key, user))).await;
    let tickets = joined.into_iter().map(|answer| {
        assert_eq!(answer.status, 201, "a signed-in shopper joins: {}", answer.text());
        assert!(answer.header("ratelimit").starts_with("\"per_account\";"), "{:?}", answer.headers);
        let answer: serde_json::Value = answer.json().unwrap();
        answer["ticket"].as_str().unwrap().to_owned()
    });
    let tickets: Vec<_> = tickets.collect();

    let url = format!("{}/_stanchion/{}/status", edge.url(), edge.plan.id);
    let since = Instant::now();
    let polls = tickets.into_iter().map(|ticket| poll_as_told(client.clone(), url.clone(), ticket));
    let (waited, (passed, waits, full)) =
        tokio::join!(join_all(polls), flood(Client::new(50), &edge));

    let polling = since.elapsed();
    assert!(
        waited.iter().all(|ms| *ms >= 1_000 * POLLS_EACH as u64),
        "as told is a second or more"
    );
    let added = usize::try_from(polling.as_millis() / 50).unwrap() + 1;
    assert!(passed <= (60 + added).min(100), "{passed} of the flood in {polling:?}");
    assert!(passed >= 50 && waits > 0, "{passed} passed, {waits} told to wait, {full} refused");
}

#[test]
fn an_admission_has_a_quota_of_its_own_and_what_is_not_verified_has_none() {
    let edge = Edge::start("subjects", |config, _| {
        no_limits(config);
        for limit in ["poll", "per_admission"] {
            config.set(&format!("limits.{limit}.rate"), "0.01/s").unwrap();
            config.set(&format!("limits.{limit}.burst"), 3).unwrap();
        }
    });
    let (keys, sale, url) = (keys(&edge), edge.plan.id.clone(), edge.url());
    let admission = |number| {
        let ticket = ticket(&keys, &sale, number);
        let jti = keys.admission_id(&ticket.sub, 1);
        let slot_ms = SystemClock.now_ms() - 1_000;
        let admission = Admission::at_slot(&ticket, 1, number, slot_ms, 600_000, jti);
        format!("Stanchion-Admission: {}", keys.mint_admission(&admission))
    };
    let (ann, bob) = (admission(1), admission(2));
    for left in [2, 1, 0] {
        let answer = ask(&url, "GET /checkout/ann", &[&ann]);
        assert_eq!(status(&answer), 200, "{answer}");
        assert!(answer.contains(&format!("ratelimit: \"per_admission\";r={left};t=")), "{answer}");
        assert!(answer.contains("ratelimit-policy: \"per_admission\";q=3;w=300"), "{answer}");
    }
    let refused = ask(&url, "GET /checkout/ann", &[&ann]);
    assert_eq!(status(&refused), 429, "{refused}");
    assert_eq!(edge.shop.heads("/checkout/ann").len(), 3);
    assert_eq!(status(&ask(&url, "GET /checkout/bob", &[&bob])), 200);

    let poll = format!("GET /_stanchion/{sale}/status");
    for n in 0..50 {
        let forged = format!("Stanchion-Ticket: eyJhbGciOiJIUzI1NiJ9.{n:04}.{n:04}");
        let answer = ask(&url, &poll, &[&forged]);
        assert_eq!(status(&answer), 200, "{answer}");
        assert!(!answer.contains("ratelimit"), "nobody is known, nobody is counted: {answer}");
    }
    let good = format!("Stanchion-Ticket: {}", keys.mint_ticket(ticket(&keys, &sale, 9)));
    assert!(ask(&url, &poll, &[&good]).contains("ratelimit: \"poll\";r=2;t="));
    let ops = edge.installation.gateways[0].url("ops").unwrap();
    let since = Instant::now();
    loop {
        let metrics = ask(&ops, "GET /metrics", &[]);
        if metrics.contains("stanchion_limit_keys{limit=\"poll\"} 1\n") {
            assert!(metrics.contains("stanchion_limit_keys{limit=\"per_admission\"} 2\n"));
            assert!(metrics.contains("limit_refusals_total{limit=\"per_admission\"} 1\n"));
            return;
        }
        assert!(since.elapsed() < Duration::from_secs(20), "{metrics}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A connection from an address of this machine.
pub(super) async fn from(address: &str, url: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(format!("{address}:0").parse().unwrap()).unwrap();
    socket.connect(url.trim_start_matches("http://").parse().unwrap()).await.unwrap()
}

/// The status of a request on a connection that stays open; 0 if it was closed.
pub(super) async fn asked(stream: &mut TcpStream, path: &str, header: &str) -> u16 {
    let bytes = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{header}\r\n");
    drop(stream.write_all(bytes.as_bytes()).await);
    let mut answer = vec![0; 4096];
    let count = stream.read(&mut answer).await.unwrap_or(0);
    status(&String::from_utf8_lossy(&answer[..count]))
}

#[tokio::test]
async fn who_holds_a_ticket_does_not_count_among_the_connections_of_an_address() {
    let edge = Edge::start("percounts", |config, _| {
        no_limits(config);
        config.set("limits.max_connections_per_ip", 3).unwrap();
    });
    let (url, keys) = (edge.url(), keys(&edge));
    let poll = format!("/_stanchion/{}/status", edge.plan.id);
    let mut open = vec![];
    for number in 0..6 {
        let mut shopper = from("127.0.0.5", &url).await;
        let ticket = keys.mint_ticket(ticket(&keys, &edge.plan.id, number));
        let header = format!("Stanchion-Ticket: {ticket}\r\n");
        assert_eq!(asked(&mut shopper, &poll, &header).await, 200, "shopper {number}");
        open.push(shopper);
    }
    for number in 0..3 {
        let mut stranger = from("127.0.0.5", &url).await;
        assert_eq!(asked(&mut stranger, "/any", "").await, 200, "stranger {number}");
        open.push(stranger);
    }
    let mut one_more = from("127.0.0.5", &url).await;
    assert_eq!(asked(&mut one_more, "/any", "").await, 0, "closed unanswered");
    assert_eq!(asked(&mut from("127.0.0.6", &url).await, "/any", "").await, 200);
}

#[test]
fn wr_44_a_place_and_an_admission_go_with_their_visitor_to_another_address() {
    let edge = Edge::start("moving", |config, _| {
        no_limits(config);
        config.set("public.trusted_proxies", vec!["127.0.0.1/32"]).unwrap();
    });
    let (keys, sale) = (keys(&edge), edge.plan.id.as_str());
    let ticket = ticket(&keys, sale, 3);
    let jti = keys.admission_id(&ticket.sub, 1);
    let admission = Admission::at_slot(&ticket, 1, 3, SystemClock.now_ms() - 1_000, 600_000, jti);
    let pass = format!("Stanchion-Admission: {}", keys.mint_admission(&admission));
    let ticket = format!("Stanchion-Ticket: {}", keys.mint_ticket(ticket));

    for address in ["203.0.113.9", "198.51.100.1", "2001:db8::1", "2001:db8::2", "::ffff:1.2.3.4"] {
        let from = format!("X-Forwarded-For: {address}");
        let status_line = format!("GET /_stanchion/{sale}/status");
        let told = ask(&edge.url(), &status_line, &[&from, &ticket]);
        assert!(told.contains("\"entry\":3"), "{address}: {told}");
        let through = ask(&edge.url(), "GET /checkout/moving", &[&from, &pass]);
        assert_eq!(status(&through), 200, "{address}: {through}");
    }
    assert_eq!(edge.shop.heads("/checkout/moving").len(), 5);
}

#[test]
fn wr_44_places_of_an_address_are_counted_by_its_64_and_mapped_ones_unwrapped() {
    let ground = Ground::new("homes");
    let plan = ground.sale_opening_in(600_000, 10);
    let edge = Edge::on(&ground, plan, 1, |config, _| {
        no_limits(config);
        config.set("public.trusted_proxies", vec!["127.0.0.1/32"]).unwrap();
        config.set("sale.0.places_per_ip", 1).unwrap();
    });
    edge.await_lobby();
    let join = |address: &str, key: &str| {
        let headers = [
            format!("X-Forwarded-For: {address}"),
            format!("Idempotency-Key: {key}"),
            "Content-Length: 0".to_owned(),
        ];
        let headers = headers.each_ref().map(String::as_str);
        ask(&edge.url(), &format!("POST /_stanchion/{}/join", edge.plan.id), &headers)
    };
    for (address, neighbour) in [("2001:db8::1", "2001:db8::ffff:9"), ("1.2.3.4", "::ffff:1.2.3.4")]
    {
        assert_eq!(status(&join(address, address)), 201, "{address}");
        let refused = join(neighbour, neighbour);
        assert!(refused.contains("\"code\":\"too-many-places\""), "{neighbour}: {refused}");
        assert_eq!(status(&join(neighbour, address)), 200, "who has a place keeps it");
    }
    assert_eq!(status(&join("2001:db8:0:1::1", "next door")), 201);
}
