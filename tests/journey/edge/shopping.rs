//! The way of a shopper without a script: forms, redirects and two cookies.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use stanchion::clock::{Clock, SystemClock};

use super::admitted::{admission, keys};
use super::browser::Browser;
use super::origin::header;
use super::wire::{ask, status};
use super::{Edge, no_limits, open_edge};
use crate::fixture::Ground;

const PATIENCE: Duration = Duration::from_secs(30);

#[test]
fn a_shopper_without_a_script_joins_is_called_enters_and_orders() {
    let edge = open_edge("noscript", 3_000);
    let sale = edge.plan.id.clone();
    let mut shopper = Browser::new(&edge);
    edge.await_lobby();

    let page = shopper.go("GET /checkout/cart", None);
    assert!(page.contains("stanchion-answer: queue") && !shopper.has("ticket"), "{page}");
    let joined = shopper
        .go(&format!("POST /_stanchion/{sale}/join"), Some("join_key=abc&next=/checkout/cart"));
    assert_eq!(status(&joined), 303, "{joined}");
    assert_eq!(
        header(&joined, "location").unwrap(),
        format!("/_stanchion/{sale}?next=%2Fcheckout%2Fcart")
    );
    assert!(shopper.has("ticket"), "{joined}");

    let moved = shopper.until_moved("GET /checkout/cart");
    assert_eq!(header(&moved, "location"), Some("/checkout/cart"));
    assert!(shopper.has("pass"), "{moved}");
    let arrived = shopper.go("GET /checkout/cart", None);
    assert!(status(&arrived) == 200 && arrived.ends_with("ok"), "{arrived}");
    let head = edge.shop.heads("/checkout/cart").remove(0);
    assert_eq!(header(&head, "stanchion-sale"), Some(sale.as_str()));

    let sku = edge.plan.skus[0].0.clone();
    let orders = format!("POST /_stanchion/{sale}/reservations");
    let form = format!("sku={sku}&qty=1&order_key=k-1&continue=/checkout/pay");
    for _ in 0..2 {
        let ordered = shopper.go(&orders, Some(&form));
        assert_eq!(status(&ordered), 303, "{ordered}");
        assert_eq!(header(&ordered, "location"), Some("/checkout/pay"));
    }
    let own = shopper.go(&format!("GET /_stanchion/{sale}/reservations"), None);
    assert_eq!(own.matches("\"status\":\"held\"").count(), 1, "{own}");
    let too_many = format!("sku={sku}&qty=9&order_key=k-2");
    let refused = shopper.go(&orders, Some(&too_many));
    assert!(status(&refused) == 409 && refused.contains("</html>"), "{refused}");

    let id = own.split("\"id\":\"").nth(1).unwrap().split('"').next().unwrap();
    let release = format!("POST /_stanchion/{sale}/reservations/{id}/release");
    let mut other = Browser::new(&edge);
    other.until_moved("GET /checkout/other");
    assert_eq!(status(&other.go(&release, Some(""))), 404, "another shopper's hold");
    let released = shopper.go(&release, Some("continue=/"));
    assert_eq!(status(&released), 303, "{released}");
}

#[test]
fn a_core_that_stands_still_costs_nobody_a_wait_and_the_same_key_buys_once_it_is_back() {
    let ground = Ground::new("stillcore");
    let mut plan = ground.sale_opening_in(500, 1_000);
    plan.skus[0].2 = 0;
    let edge = Edge::on(&ground, plan, 1, |config, _| no_limits(config));
    edge.await_open();
    let (keys, sale) = (keys(&edge), edge.plan.id.clone());
    let admission = admission(&keys, &sale, 1, SystemClock.now_ms() - 1_000);
    let pass = format!("Stanchion-Admission: {}", keys.mint_admission(&admission));
    let line = format!("POST /_stanchion/{sale}/reservations");
    let body = format!(r#"{{"lines":[{{"sku":"{}","qty":1}}]}}"#, edge.plan.skus[0].0);
    let order = |key: String| {
        let key = format!("Idempotency-Key: {key}");
        let length = format!("Content-Length: {}", body.len());
        let since = Instant::now();
        let lines = [&pass, &key, &length, "Content-Type: application/json", "", &body];
        (ask(&edge.url(), &line, &lines), since.elapsed())
    };
    let core = &edge.installation.cores[0];
    core.signal(Signal::SIGSTOP).unwrap();

    std::thread::scope(|scope| {
        let first = scope.spawn(|| order("waits".into()));
        // It waits longer than an answer takes that is in time.
        std::thread::sleep(Duration::from_millis(2_500));
        let order = &order;
        let ask = |n| scope.spawn(move || order(format!("many-{n}")));
        let many: Vec<_> = (0..20).map(ask).collect();
        std::thread::sleep(Duration::from_secs(1));
        let told = many.iter().filter(|asked| asked.is_finished()).count();
        core.signal(Signal::SIGCONT).unwrap();
        assert!(told >= 18, "{told} of 20 were told at once");
        for (answer, took) in many.into_iter().map(|asked| asked.join().unwrap()) {
            if status(&answer) == 503 {
                assert!(answer.contains("\"code\":\"core-unavailable\""), "{answer}");
                assert!(header(&answer, "retry-after").is_some(), "{answer}");
                assert!(took < Duration::from_secs(1), "{took:?}");
            }
        }
        drop(first.join().unwrap());
    });

    for key in ["waits", "many-0", "many-19"] {
        let since = Instant::now();
        while !matches!(status(&order(key.into()).0), 200 | 201) {
            assert!(since.elapsed() < PATIENCE, "{key} never buys");
        }
    }
}

#[test]
fn outside_the_rush_nobody_sees_a_queue() {
    let edge = open_edge("express", 500);
    edge.await_lobby();
    let since = Instant::now();
    while !ask(&edge.url(), &format!("GET /_stanchion/{}/status", edge.plan.id), &[])
        .contains("\"phase\":\"open\"")
    {
        assert!(since.elapsed() < PATIENCE, "the sale never opened");
        std::thread::sleep(Duration::from_millis(50));
    }

    let mut ahead = Browser::new(&edge);
    let prefetch =
        ask(&edge.url(), "GET /checkout/now", &["Accept: text/html", "Sec-Purpose: prefetch"]);
    assert!(!prefetch.contains("set-cookie"), "a prefetch takes no place: {prefetch}");
    let head = ask(&edge.url(), "HEAD /checkout/now", &["Accept: text/html"]);
    assert!(!head.contains("set-cookie"), "neither does a HEAD: {head}");
    let moved = ahead.until_moved("GET /checkout/now");
    assert!(ahead.has("pass") && ahead.has("ticket"), "{moved}");

    // To a browser, `//checkout/now` would be another host.
    let mut odd = Browser::new(&edge);
    let moved = odd.until_moved("GET //checkout/now");
    assert_eq!(header(&moved, "location"), Some("/checkout/now"));

    // Whoever brings a pass is not sent around again, even if it is no good.
    ahead
        .cookies
        .iter_mut()
        .filter(|(name, _)| name.contains("pass"))
        .for_each(|(_, v)| v.push('x'));
    let page = ahead.go("GET /checkout/now", None);
    assert!(page.contains("stanchion-answer: queue"), "{page}");
}
