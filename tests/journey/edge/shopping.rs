//! The way of a shopper without a script: forms, redirects and two cookies.

use std::time::{Duration, Instant};

use super::origin::header;
use super::wire::{ask, status};
use super::{Edge, no_limits};
use crate::fixture::Ground;

const PATIENCE: Duration = Duration::from_secs(30);

/// A browser that keeps cookies and follows nothing by itself.
struct Browser<'a> {
    edge: &'a Edge,
    cookies: Vec<(String, String)>,
}

impl<'a> Browser<'a> {
    fn new(edge: &'a Edge) -> Self {
        Self { edge, cookies: Vec::new() }
    }

    fn go(&mut self, line: &str, form: Option<&str>) -> String {
        let pairs: Vec<_> =
            self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let cookie = format!("Cookie: {}", pairs.join("; "));
        let length = format!("Content-Length: {}", form.unwrap_or_default().len());
        let mut headers = vec!["Accept: text/html", "Sec-Fetch-Mode: navigate"];
        if !pairs.is_empty() {
            headers.push(&cookie);
        }
        if let Some(form) = form {
            headers.extend(["Content-Type: application/x-www-form-urlencoded", &length, "", form]);
        }
        let answer = ask(&self.edge.url(), line, &headers);
        for line in answer.lines().take_while(|line| !line.is_empty()) {
            if let Some(pair) = line.strip_prefix("set-cookie: ") {
                let (name, rest) = pair.split_once('=').unwrap();
                let value = rest.split(';').next().unwrap().to_owned();
                self.cookies.retain(|(known, _)| known != name);
                self.cookies.push((name.to_owned(), value));
            }
        }
        answer
    }

    fn has(&self, kind: &str) -> bool {
        self.cookies.iter().any(|(name, _)| name.starts_with(&format!("stanchion-{kind}-")))
    }

    /// Asks for a page until it is answered otherwise than by the queue.
    fn until_moved(&mut self, line: &str) -> String {
        let since = Instant::now();
        loop {
            let answer = self.go(line, None);
            if status(&answer) == 303 {
                return answer;
            }
            assert!(since.elapsed() < PATIENCE, "still in line: {answer}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

fn open_edge(topic: &str, opens_in_ms: u64) -> Edge {
    let ground = Ground::new(topic);
    let mut plan = ground.sale_opening_in(opens_in_ms, 10);
    plan.rate = "500/s".into();
    Edge::on(&ground, plan, 1, |config, _| no_limits(config))
}

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
