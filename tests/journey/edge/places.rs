//! Places, and the cookies and headers that carry them.

use std::time::{Duration, Instant};

use serde_json::Value;
use stanchion::clock::{Clock, SystemClock};
use stanchion::domain::ticket::Ticket;

use super::admitted::{keys, ticket};
use super::browser::Browser;
use super::origin::header;
use super::wire::{ask, status};
use super::{Edge, lobby, no_limits};
use crate::fixture::shopper::Shopper;
use crate::fixture::{Ground, client};

fn body(answer: &str) -> Value {
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}"))
}

#[test]
fn a_place_outlives_a_closed_browser() {
    let edge = lobby();
    let mut browser = Browser::new(&edge);
    let joined = browser.post("join", "join_key=closed&next=/checkout/x");
    let line =
        joined.lines().find(|line| line.starts_with("set-cookie: stanchion-ticket-")).unwrap();
    let seconds: u64 = line.split("Max-Age=").nth(1).unwrap().parse().unwrap();
    let to_the_close = 2 * 3_600;
    assert!((to_the_close + 86_000..to_the_close + 86_500).contains(&seconds), "{line}");
    assert!(line.contains("HttpOnly") && line.contains("SameSite=Lax"), "{line}");
}

#[test]
fn a_page_keeps_the_place_until_after_a_sale_that_was_put_off() {
    let ground = Ground::new("putoff");
    let edge = Edge::on(&ground, ground.sale_opening_in(600_000, 10), 1, |config, _| {
        no_limits(config);
    });
    edge.await_lobby();
    let (mut waits, mut left) = (Browser::new(&edge), Browser::new(&edge));
    waits.post("join", "join_key=waits&next=/checkout/x");
    left.post("join", "join_key=left&next=/checkout/x");
    left.post("leave", "next=/checkout/x");
    let days = |count: u64| {
        let at = SystemClock.now_ms() / 1_000 + count * 86_400;
        jiff::Timestamp::from_second(i64::try_from(at).unwrap()).unwrap()
    };
    let times = format!(r#"{{"opens":"{}","closes":"{}"}}"#, days(2), days(3));
    let ops = edge.installation.gateways[0].url("ops").unwrap();
    let key = format!("Authorization: Bearer {}", edge.installation.secrets.ops_key);
    let length = format!("Content-Length: {}", times.len());
    let headers = [&key, "Content-Type: application/json", &length, "", &times];
    let moved = ask(&ops, &format!("PUT /v1/sales/{}/times", edge.plan.id), &headers);
    assert_eq!(status(&moved), 200, "{moved}");
    let (since, told) = (Instant::now(), format!("GET /_stanchion/{}/status", edge.plan.id));
    let day = days(2).to_string()[.."2027-03-01".len()].to_owned();
    while !ask(&edge.url(), &told, &[]).contains(&format!("\"opens_at\":\"{day}")) {
        assert!(since.elapsed() < Duration::from_secs(20), "never moved");
    }

    let ticket = waits.value("ticket").unwrap().to_owned();
    let kept = |page: &str| {
        let line = page.lines().find(|line| line.starts_with("set-cookie: stanchion-ticket-"))?;
        Some(line.split("Max-Age=").nth(1)?.parse::<u64>().unwrap() / 86_400)
    };
    for path in [format!("GET /_stanchion/{}", edge.plan.id), "GET /checkout/x".into()] {
        let page = waits.go(&path, None);
        assert!(matches!(kept(&page), Some(3..=4)), "a day longer than the sale: {page}");
        assert_eq!(waits.value("ticket"), Some(ticket.as_str()), "the same place");
        assert_eq!(kept(&left.go(&path, None)), None, "another tab may have joined again");
    }
    let by_header = [&format!("Stanchion-Ticket: {ticket}"), "Accept: text/html"];
    assert_eq!(kept(&ask(&edge.url(), "GET /checkout/x", &by_header)), None, "it has no cookies");
}

#[test]
fn wr_16_a_thousand_joins_that_are_none_use_up_no_number_between_those_that_are() {
    let ground = Ground::new("malformed");
    let edge = Edge::on(&ground, ground.sale_opening_in(600_000, 10), 1, |config, _| {
        no_limits(config);
    });
    edge.await_lobby();
    let send = |sale: &str, kind: &str, key: &str, said: &str| {
        let length = format!("Content-Length: {}", said.len());
        let (key, kind) = (format!("Idempotency-Key: {key}"), format!("Content-Type: {kind}"));
        ask(
            &edge.url(),
            &format!("POST /_stanchion/{sale}/join"),
            &[&key, &kind, &length, "", said],
        )
    };
    let (sale, json, form) =
        (edge.plan.id.as_str(), "application/json", "application/x-www-form-urlencoded");
    let long = "k".repeat(300);
    let bad: [(&str, &str, &str, &str); 10] = [
        ("another-sale", json, "k", "{}"),
        ("%00", json, "k", "{}"),
        (sale, json, "k", "{"),
        (sale, json, "k", "[]"),
        (sale, json, "k", r#"{"position":1}"#),
        (sale, json, "k", r#"{"join_key":7}"#),
        (sale, json, &long, "{}"),
        (sale, form, "", "join_key=%00"),
        (sale, form, "", &format!("join_key={long}")),
        (sale, "text/plain", "k", "join"),
    ];

    for round in 0..100 {
        for (sale, kind, key, said) in bad {
            let refused = send(sale, kind, key, said);
            assert!((400..500).contains(&status(&refused)), "{sale} {kind} {said}: {refused}");
            assert!(!refused.contains("set-cookie"), "{refused}");
        }
        let joined = send(sale, json, &format!("good-{round}"), "{}");
        assert_eq!(status(&joined), 201, "{joined}");
        assert_eq!(body(&joined)["place"]["entry"], round, "no number is missing");
    }
}

#[test]
fn wr_41_a_broken_ticket_is_no_place_and_goes_and_never_breaks_the_page() {
    let edge = lobby();
    let (keys, sale) = (keys(&edge), edge.plan.id.as_str());
    let good = keys.mint_ticket(ticket(&keys, sale, 1, 900_000));
    let folder = tempfile::tempdir().unwrap();
    let others = stanchion::room::keys::Keys::generate(&folder.path().join("keys")).unwrap();
    let wrong_key = others.mint_ticket(ticket(&others, sale, 1, 900_000));
    let old_run = keys.mint_ticket(ticket(&keys, sale, 9, 0));
    let long = "a".repeat(8_192);
    let cut = &good[..good.len() - 3];
    for bad in ["garbage", "", "%00", "a.b.c", cut, &long, &wrong_key, &old_run] {
        let cookie = format!("Cookie: stanchion-ticket-{sale}={bad}");
        for path in ["GET /checkout/broken".to_owned(), format!("GET /_stanchion/{sale}")] {
            let page = ask(&edge.url(), &path, &["Accept: text/html", &cookie]);
            assert_eq!(status(&page), 200, "{bad:.40}: {page}");
            assert!(page.contains("Join the draw"), "{bad:.40}: {page}");
            let gone = format!("set-cookie: stanchion-ticket-{sale}=;");
            assert!(page.contains(&gone) && page.contains("Max-Age=0"), "{bad:.40}: {page}");
        }
        let told = ask(&edge.url(), &format!("GET /_stanchion/{sale}/status"), &[&cookie]);
        assert_eq!(body(&told)["place"]["state"], "none", "{bad:.40}");
    }
    let cookie = format!("Cookie: stanchion-ticket-{sale}=garbage; stanchion-ticket-{sale}={good}");
    let page = ask(&edge.url(), "GET /checkout/broken", &["Accept: text/html", &cookie]);
    assert!(!page.contains("Max-Age=0") && page.contains("You are in the draw"), "{page}");
}

#[test]
fn wr_54_the_same_token_may_come_twice_and_two_that_differ_are_refused() {
    let edge = lobby();
    let (keys, sale) = (keys(&edge), edge.plan.id.as_str());
    let of = |number| keys.mint_ticket(ticket(&keys, sale, 1, number));
    let (mine, other) = (of(3), of(4));
    let path = format!("GET /_stanchion/{sale}/status");
    let cookie = format!("Cookie: stanchion-ticket-{sale}={mine}");
    let told = |headers: &[&str]| ask(&edge.url(), &path, headers);

    let by_header = format!("Stanchion-Ticket: {mine}");
    for headers in [&[cookie.as_str()][..], &[&by_header], &[&cookie, &by_header]] {
        assert_eq!(body(&told(headers))["place"]["entry"], 3);
    }
    let contradicts = told(&[&cookie, &format!("Stanchion-Ticket: {other}")]);
    assert_eq!(status(&contradicts), 400, "{contradicts}");
    assert!(body(&contradicts)["detail"].as_str().unwrap().contains("send only one"));
    let forged = told(&[&cookie, "Stanchion-Ticket: forged"]);
    assert_eq!(body(&forged)["place"]["entry"], 3, "a forged one is as if it were not there");
}

#[test]
fn wr_42_of_two_valid_tickets_in_cookies_the_newest_counts_wherever_it_stands() {
    let edge = lobby();
    let (keys, sale) = (keys(&edge), edge.plan.id.as_str());
    let of = |number, age_seconds| {
        let ticket = ticket(&keys, sale, 1, number);
        let issued_at = ticket.issued_at - age_seconds;
        let token = keys.mint_ticket(Ticket { issued_at, ..ticket });
        format!("stanchion-ticket-{sale}={token}")
    };
    let (old, new) = (of(3, 60), of(4, 0));
    let path = format!("GET /_stanchion/{sale}/status");
    for line in [
        format!("{old}; {new}"),
        format!("{new};{old}"),
        format!("a=1; {old}; b=2=3;{new}; c"),
        format!("stanchion-ticket-{sale}=x.y.z; {new}; {old}"),
    ] {
        let told = ask(&edge.url(), &path, &[&format!("Cookie: {line}")]);
        assert_eq!(status(&told), 200, "{told}");
        assert_eq!(body(&told)["place"]["entry"], 4, "{line}");
    }
    let by_header = new.replacen(&format!("stanchion-ticket-{sale}="), "Stanchion-Ticket: ", 1);
    let contradicts = ask(&edge.url(), &path, &[&format!("Cookie: {old}"), &by_header]);
    assert_eq!(status(&contradicts), 400, "{contradicts}");
}

#[test]
fn wr_38_knowing_a_number_or_an_id_is_no_place() {
    let edge = lobby();
    let sale = edge.plan.id.as_str();
    let mut owner = Browser::new(&edge);
    let joined = owner.post("join", "join_key=owner&next=/checkout/x");
    let ticket = owner.value("ticket").unwrap().to_owned();
    let payload = ticket.split('.').nth(1).unwrap();
    let sub = {
        use base64::Engine;
        let raw = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(payload).unwrap();
        serde_json::from_slice::<Value>(&raw).unwrap()["sub"].as_str().unwrap().to_owned()
    };
    for secret in [ticket.as_str(), &sub] {
        assert!(!header(&joined, "location").unwrap().contains(secret));
        let page = owner.room();
        let (_, html) = page.split_once("\r\n\r\n").unwrap();
        assert!(!html.contains(secret), "{page}");
    }

    for call in ["claim", "leave"] {
        for guess in [
            format!("Stanchion-Ticket: {sub}"),
            format!("Cookie: stanchion-ticket-{sale}={sub}"),
            format!("Stanchion-Ticket: e{}", 0),
        ] {
            let line = format!("POST /_stanchion/{sale}/{call}");
            let answer = ask(&edge.url(), &line, &[&guess, "Content-Length: 0"]);
            assert_eq!(status(&answer), 403, "{answer}");
            assert!(!answer.contains("\"place\"") && !answer.contains(&sub), "{answer}");
        }
    }
    assert!(owner.room().contains("You are in the draw"));
}

#[test]
fn wr_36_wr_22_two_sales_on_one_host_keep_their_places_apart() {
    let ground = Ground::new("twosales");
    let first = ground.sale_opening_in(600_000, 10);
    let mut second = ground.sale_opening_in(600_000, 10);
    second.id = format!("{}-b", first.id);
    second.skus = vec![(format!("{}-B", first.skus[0].0), 10, 2)];
    let plans = [first, second];
    let edge = Edge::of(&ground, &plans, 1, |config, _| {
        no_limits(config);
        config.set("sale.1.paths", vec!["/other", "/other/**"]).unwrap();
    });
    edge.await_lobby();
    let (one, two) = (plans[0].id.as_str(), plans[1].id.as_str());
    let mut browser = Browser::new(&edge);
    browser.go(&format!("POST /_stanchion/{one}/join"), Some("join_key=k"));
    let since = std::time::Instant::now();
    while browser.cookies.len() < 2 {
        browser.go(&format!("POST /_stanchion/{two}/join"), Some("join_key=k"));
        assert!(since.elapsed().as_secs() < 20, "{:?}", browser.cookies);
    }
    let state = |browser: &mut Browser<'_>, sale: &str| {
        body(&browser.go(&format!("GET /_stanchion/{sale}/status"), None))["place"].clone()
    };
    assert_eq!(state(&mut browser, one)["entry"], 0);
    assert_eq!(state(&mut browser, two)["entry"], 0);

    browser.go(&format!("POST /_stanchion/{one}/leave"), Some(""));

    assert_eq!(state(&mut browser, one)["state"], "left");
    assert_eq!(state(&mut browser, two)["state"], "entered");
    // A place of the one says nothing in the other.
    let ticket = browser.cookies.iter().find(|(name, _)| name.ends_with("-b")).unwrap().1.clone();
    let crossed = ask(
        &edge.url(),
        &format!("GET /_stanchion/{one}/status"),
        &[&format!("Stanchion-Ticket: {ticket}")],
    );
    assert_eq!(body(&crossed)["place"]["state"], "none");
}

#[test]
fn wr_37_a_full_line_says_so_and_tries_again_by_itself() {
    let ground = Ground::new("full");
    let plan = ground.sale_opening_in(600_000, 10);
    let edge = Edge::on(&ground, plan, 1, |config, _| {
        no_limits(config);
        config.set("sale.0.max_places", 2).unwrap();
    });
    edge.await_lobby();
    let mut inside = Browser::new(&edge);
    inside.post("join", "join_key=1&next=/checkout/x");
    Browser::new(&edge).post("join", "join_key=2&next=/checkout/x");

    let mut third = Browser::new(&edge);
    let page = third.post("join", "join_key=3&next=/checkout/x");
    assert_eq!(status(&page), 409, "{page}");
    for part in [
        "The line is full",
        "only if a place becomes free",
        "http-equiv=\"refresh\"",
        "retry-after: ",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(!third.has("ticket"));
    let line = format!("POST /_stanchion/{}/join", edge.plan.id);
    let script = ask(&edge.url(), &line, &["Content-Length: 0"]);
    assert_eq!(body(&script)["code"], "sale-full");
    assert!(body(&script)["retry_after_ms"].as_u64().unwrap() >= 15_000);

    inside.post("leave", "next=/checkout/x");
    assert_eq!(status(&third.post("join", "join_key=3&next=/checkout/x")), 303, "one came free");
}

#[tokio::test(flavor = "multi_thread")]
async fn wr_53_an_app_without_cookies_goes_all_the_way_by_header_tokens() {
    let edge = tokio::task::spawn_blocking(|| {
        let edge = super::open_edge("app", 1_000);
        edge.await_lobby();
        edge
    });
    let edge = edge.await.unwrap();

    let shopper = Shopper::join(&client(), &edge.url(), &edge.plan.id, 1).await;
    assert!(shopper.status().await["place"]["state"].is_string());
    let shopper = shopper.admitted().await;
    let ordered = shopper.reserve(&edge.plan.skus[0].0, 1, "app-order").await;

    assert_eq!(ordered.status, 201, "{}", ordered.text());
    let inside = client().get(&format!("{}/checkout/app", edge.url()), &shopper.identity()).await;
    assert_eq!(inside.unwrap().text(), "ok");
    assert_eq!(edge.shop.heads("/checkout/app").len(), 1);
}

#[test]
fn wr_74_a_join_that_was_not_written_is_not_acknowledged_and_the_retry_is_one_place() {
    let ground = Ground::new("unwritten");
    let plan = ground.sale_opening_in(600_000, 10);
    // Without a core the room is never loaded: nothing can be written.
    let mut edge = Edge::on(&ground, plan, 0, |config, _| no_limits(config));
    let line = format!("POST /_stanchion/{}/join", edge.plan.id);
    let join =
        |edge: &Edge| ask(&edge.url(), &line, &["Idempotency-Key: same", "Content-Length: 0"]);
    let refused = join(&edge);
    assert_eq!(status(&refused), 503, "{refused}");
    assert!(!refused.contains("set-cookie") && !refused.contains("\"ticket\""), "{refused}");
    assert!(body(&refused)["retry_after_ms"].as_u64().is_some(), "{refused}");

    edge.installation.cores.push(edge.installation.start_core(0).unwrap());
    edge.await_lobby();

    let (first, second) = (join(&edge), join(&edge));
    assert_eq!((status(&first), status(&second)), (201, 200), "{first} {second}");
    assert_eq!(body(&first)["place"]["entry"], 0);
    assert_eq!(body(&second)["place"]["entry"], 0);
}
