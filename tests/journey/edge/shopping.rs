//! The way of a shopper without a script: forms, redirects and two cookies.

use std::time::{Duration, Instant};

use super::browser::Browser;
use super::open_edge;
use super::origin::header;
use super::wire::{ask, status};

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
