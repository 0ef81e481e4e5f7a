//! With an admission the shop is reached, and told whose turn it is; forged ones do not exist.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use jsonwebtoken::{Algorithm, EncodingKey, Header};
use stanchion::clock::{Clock, SystemClock};
use stanchion::domain::admission::Admission;
use stanchion::domain::id::SaleId;
use stanchion::domain::ticket::{Cohort, Ticket};
use stanchion::room::keys::Keys;

use super::origin::header;
use super::streaming::read_head;
use super::wire::{ask, connect, status};
use super::{Edge, no_limits, shared};
use crate::fixture::Ground;

pub(super) fn keys(edge: &Edge) -> Keys {
    Keys::load(&edge.installation.folder().join("keys")).unwrap()
}

pub(super) fn ticket(keys: &Keys, sale: &str, run: u64, number: u64) -> Ticket {
    let (sale, cohort) = (SaleId::parse(sale).unwrap(), Cohort::Entry(number));
    let sub = keys.subject(&sale, run, cohort);
    Ticket { sale, run, sub, cohort, account: None, issued_at: SystemClock.now_ms() / 1000 }
}

pub(super) fn admission(keys: &Keys, sale: &str, epoch: u64, slot_ms: u64) -> Admission {
    let ticket = ticket(keys, sale, 1, 7);
    let jti = keys.admission_id(&ticket.sub, epoch);
    Admission::at_slot(&ticket, epoch, 7, slot_ms, 600_000, jti)
}

#[test]
fn an_admitted_request_is_forwarded_with_our_words_and_nobody_elses() {
    let edge = shared();
    let (keys, sale) = (keys(&edge), edge.plan.id.as_str());
    let admission = admission(&keys, sale, 1, SystemClock.now_ms() - 1_000);
    let token = keys.mint_admission(&admission);
    let cookie = format!("Cookie: a=1; stanchion-pass-{sale}={token}; b=2");

    let headers = [cookie.as_str(), "Stanchion-Position: 0", "Stanchion-Account: root"];
    let answer = ask(
        &edge.url(),
        "POST /checkout/admitted",
        &[&headers[..], &["Content-Length: 0"]].concat(),
    );

    assert_eq!(status(&answer), 200, "{answer}");
    assert!(answer.to_lowercase().contains("vary: cookie"), "{answer}");
    let head = edge.shop.heads("/checkout/admitted").remove(0);
    assert_eq!(header(&head, "cookie"), Some("a=1; b=2"));
    assert_eq!(header(&head, "stanchion-sale"), Some(sale));
    assert_eq!(header(&head, "stanchion-visitor"), Some(admission.sub.as_str()));
    assert_eq!(header(&head, "stanchion-position"), Some("7"));
    assert_eq!(header(&head, "stanchion-account"), None);
    assert_eq!(header(&head, "stanchion-admission"), Some(token.as_str()));
    assert!(header(&head, "stanchion-expires").is_some());
    let by_header = format!("Stanchion-Admission: {token}");
    assert_eq!(status(&ask(&edge.url(), "GET /checkout/byheader", &[&by_header])), 200);
}

/// A websocket that the shop has taken.
fn upgraded(edge: &Edge, path: &str, header: &str) -> TcpStream {
    let mut stream = connect(&edge.url());
    let ask = format!(
        "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Key: x\r\n{header}\r\n"
    );
    stream.write_all(ask.as_bytes()).unwrap();
    let head = read_head(&mut stream);
    assert_eq!(status(&head), 101, "{head}");
    stream
}

#[test]
fn a_stop_closes_what_was_upgraded_under_an_admission_of_before_and_nothing_else() {
    let ground = Ground::new("cut");
    let edge = Edge::on(&ground, ground.sale_opening_in(600_000, 10), 1, |config, _| {
        no_limits(config);
    });
    edge.await_lobby();
    let (keys, sale) = (keys(&edge), edge.plan.id.as_str());
    let token = keys.mint_admission(&admission(&keys, sale, 1, SystemClock.now_ms() - 1_000));
    let pass = format!("Stanchion-Admission: {token}\r\n");
    let mut admitted = upgraded(&edge, "/checkout/ws", &pass);
    let mut free = upgraded(&edge, "/ws", "");

    let node = &edge.installation.gateways[0];
    let stop = format!("POST /v1/sales/{sale}/stop");
    let key = format!("Authorization: Bearer {}", edge.installation.secrets.ops_key);
    let said = ask(&node.url("ops").unwrap(), &stop, &[&key, "Content-Length: 0"]);
    assert_eq!(status(&said), 200, "{said}");
    let since = Instant::now();
    assert_eq!(admitted.read(&mut [0]).unwrap_or(0), 0, "closed, and not by the shop");
    assert!(since.elapsed() < Duration::from_secs(2), "{:?}", since.elapsed());

    free.write_all(b"hello").unwrap();
    let mut echo = String::new();
    free.read_to_string(&mut echo).unwrap();
    assert_eq!(echo, "hello");
}

#[test]
fn a_websocket_to_a_path_that_becomes_protected_ends_when_the_lobby_opens() {
    let ground = Ground::new("lobbysockets");
    let mut plan = ground.sale_opening_in(600_000, 10);
    plan.lobby_opens_ms = SystemClock.now_ms() + 6_000;
    let edge = Edge::on(&ground, plan, 0, |config, _| {
        no_limits(config);
        config.set("sale.0.never_gate", vec!["GET /checkout/socket"]).unwrap();
    });
    let mut early = upgraded(&edge, "/checkout/ws", "");
    let mut always = upgraded(&edge, "/checkout/socket", "");

    assert_eq!(early.read(&mut [0]).unwrap_or(0), 0, "closed, and not by the shop");
    let after_ms = SystemClock.now_ms().checked_sub(edge.plan.lobby_opens_ms);
    assert!(after_ms.is_some_and(|ms| ms < 3_000), "{after_ms:?} ms after the lobby opened");
    assert_eq!(status(&ask(&edge.url(), "GET /checkout/ws", &[])), 429);

    always.write_all(b"hello").unwrap();
    let mut echo = [0; 5];
    always.read_exact(&mut echo).unwrap();
    assert_eq!(&echo, b"hello", "what is never gated goes on");
}

#[test]
fn ed_50_ed_90_forged_expired_foreign_and_cut_admissions_are_absent() {
    let edge = shared();
    let (keys, sale) = (keys(&edge), edge.plan.id.as_str());
    let now_ms = SystemClock.now_ms();
    let good = admission(&keys, sale, 1, now_ms);
    let token = keys.mint_admission(&good);
    let parts: Vec<&str> = token.split('.').collect();
    let public = public_key(&keys);
    let mut hs256 = Header::new(Algorithm::HS256);
    hs256.typ = Some("stanchion-admission+jwt".into());
    hs256.kid = jsonwebtoken::decode_header(&token).unwrap().kid;
    let with_public = EncodingKey::from_secret(&public).unwrap();
    let stranger = {
        let folder = tempfile::tempdir().unwrap();
        Keys::generate(&folder.path().join("keys")).unwrap()
    };
    // {"alg":"none","typ":"stanchion-admission+jwt"}
    let none = "eyJhbGciOiJub25lIiwidHlwIjoic3RhbmNoaW9uLWFkbWlzc2lvbitqd3QifQ";
    let bad = [
        ("expired", keys.mint_admission(&admission(&keys, sale, 1, now_ms - 700_000))),
        ("not yet", keys.mint_admission(&admission(&keys, sale, 1, now_ms + 60_000))),
        ("other sale", keys.mint_admission(&admission(&keys, "other", 1, now_ms))),
        ("other epoch", keys.mint_admission(&admission(&keys, sale, 2, now_ms))),
        ("old epoch", keys.mint_admission(&admission(&keys, sale, 0, now_ms))),
        ("stranger's key", stranger.mint_admission(&good)),
        ("ticket", keys.mint_ticket(ticket(&keys, sale, 1, 7))),
        ("cut", token[..token.len() - 2].to_owned()),
        ("no signature", format!("{}.{}.", parts[0], parts[1])),
        ("alg none", format!("{none}.{}.", parts[1])),
        ("hs256", jsonwebtoken::encode(&hs256, &good, &with_public).unwrap()),
        ("swapped", format!("{}.{}.{}", parts[0], &parts[1][1..], parts[2])),
        ("long", "a".repeat(9_000)),
        ("empty", String::new()),
    ];
    for (word, token) in bad {
        let header = format!("Stanchion-Admission: {token}");
        let answer = ask(&edge.url(), "GET /checkout/forged", &[&header]);
        assert_eq!(status(&answer), 429, "{word}: {answer}");
        let cookie = format!("Cookie: stanchion-pass-{sale}={token}");
        let page = ask(&edge.url(), "GET /checkout/forged", &[&cookie, "Accept: text/html"]);
        assert_eq!(status(&page), 200, "{word}: {page}");
        assert!(page.contains("stanchion-answer: queue"), "{word}: {page}");
    }
    assert_eq!(edge.shop.heads("/checkout/forged"), [""; 0]);
    let beside = format!("Cookie: stanchion-pass-{sale}=forged; stanchion-pass-{sale}={token}");
    assert_eq!(status(&ask(&edge.url(), "GET /checkout/beside", &[&beside])), 200);
}

fn public_key(keys: &Keys) -> Vec<u8> {
    use base64::Engine;
    let jwks: serde_json::Value = serde_json::from_str(&keys.jwks()).unwrap();
    let x = jwks["keys"][0]["x"].as_str().unwrap();
    base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(x).unwrap()
}

#[test]
fn forged_and_foreign_tickets_are_absent_and_two_that_disagree_are_refused() {
    let edge = shared();
    let (keys, sale) = (keys(&edge), edge.plan.id.as_str());
    let path = format!("GET /_stanchion/{sale}/status");
    let good = keys.mint_ticket(ticket(&keys, sale, 1, 17));
    let state = |token: &str| ask(&edge.url(), &path, &[&format!("Stanchion-Ticket: {token}")]);

    assert!(state(&good).contains("\"entry\":17"), "{}", state(&good));
    for bad in [
        keys.mint_ticket(ticket(&keys, sale, 2, 17)),
        keys.mint_ticket(ticket(&keys, "other", 1, 17)),
        good[..good.len() - 1].to_owned(),
        "x.y.z".to_owned(),
    ] {
        let answer = state(&bad);
        assert!(answer.contains("\"state\":\"none\""), "{bad}: {answer}");
    }
    let other = keys.mint_ticket(ticket(&keys, sale, 1, 18));
    let both =
        [format!("Stanchion-Ticket: {good}"), format!("Cookie: stanchion-ticket-{sale}={other}")];
    assert_eq!(status(&ask(&edge.url(), &path, &[&both[0], &both[1]])), 400);
}

#[test]
fn bad_input_to_our_own_calls_is_a_precise_4xx() {
    let edge = shared();
    let (keys, sale) = (keys(&edge), edge.plan.id.as_str());
    let token = keys.mint_admission(&admission(&keys, sale, 1, SystemClock.now_ms() - 1_000));
    let admitted = format!("Stanchion-Admission: {token}");
    let post = |call: &str, headers: &[&str], content_type: &str, body: &str| {
        let content_type = format!("Content-Type: {content_type}");
        let length = format!("Content-Length: {}", body.len());
        let mut all = headers.to_vec();
        // `ask` ends the head with an empty line; the body follows it.
        all.extend([content_type.as_str(), &length, "", body]);
        ask(&edge.url(), &format!("POST /_stanchion/{call}"), &all)
    };
    let json = "application/json";
    let orders = format!("{sale}/reservations");
    let key = "Idempotency-Key: k";
    for (body, word) in [
        ("{", "EOF"),
        ("[]", "invalid"),
        (r#"{"lines":[]}"#, "at least one"),
        (r#"{"lines":[{"sku":"A","qty":0}]}"#, "1 to 1000000"),
        (r#"{"lines":[{"sku":"A","qty":-1}]}"#, "1 to 1000000"),
        (r#"{"lines":[{"sku":"A","qty":1.5}]}"#, "qty"),
        (r#"{"lines":[{"sku":"A","qty":1e9}]}"#, "qty"),
        (r#"{"lines":[{"sku":"A","qty":"1"}]}"#, "qty"),
        (r#"{"lines":[{"sku":"","qty":1}]}"#, "empty"),
        (r#"{"lines":[{"sku":"A","qty":1}],"settle":true}"#, "settle"),
    ] {
        let answer = post(&orders, &[&admitted, key], json, body);
        assert_eq!(status(&answer), 400, "{body}: {answer}");
        assert!(answer.contains(word), "{body}: {answer}");
    }
    let line = r#"{"lines":[{"sku":"A","qty":1}]}"#;
    assert_eq!(status(&post(&orders, &[&admitted], json, line)), 400, "no order key");
    assert_eq!(status(&post(&orders, &[key], json, line)), 403, "no admission");
    assert_eq!(status(&post(&orders, &[&admitted, key], "text/plain", line)), 400);
    let form = "sku=A&qty=1&order_key=k&continue=//evil.test";
    let answer = post(&orders, &[&admitted], "application/x-www-form-urlencoded", form);
    assert_eq!(status(&answer), 400, "{answer}");
    let large = format!(r#"{{"join_key":"{}"}}"#, "a".repeat(70_000));
    assert_eq!(status(&post(&format!("{sale}/join"), &[], json, &large)), 413);
    for (call, wanted) in
        [("nosale/join", 404), ("nosale/status/x", 404), ("nosale", 404), ("", 404)]
    {
        assert_eq!(status(&post(call, &[], json, "")), wanted, "{call}");
    }
    for body in [r#"{"join_key":1}"#, r#"{"x":1}"#, "nonsense", r#"{"join_key":"a\u0000"}"#] {
        assert_eq!(status(&post(&format!("{sale}/join"), &[], json, body)), 400, "{body}");
    }
    assert_eq!(status(&ask(&edge.url(), &format!("GET /_stanchion/{sale}/join"), &[])), 405);
}
