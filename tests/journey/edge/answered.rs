//! Answers of the shop that say too much: two lengths, other ways in, how long anybody may keep them.

use super::origin::header;
use super::wire::{ask, status};
use super::{Edge, no_limits, shared};
use crate::fixture::Ground;

/// Asks the shop for an answer; a bar stands for the end of a line.
fn told(edge: &Edge, path: &str, answer: &str) -> String {
    ask(&edge.url(), &format!("GET {path}"), &[&format!("X-Say: {answer}")])
}

#[test]
fn a_chunked_answer_with_a_length_comes_whole_whatever_the_length_says() {
    let edge = shared();
    for length in [0, 1, 2, 200] {
        for lines in [
            format!("Transfer-Encoding: chunked|Content-Length: {length}"),
            format!("Content-Length: {length}|Transfer-Encoding: chunked"),
        ] {
            let answer = told(&edge, "/free", &format!("HTTP/1.1 200 OK|{lines}||2|ok|0||"));
            assert_eq!(status(&answer), 200, "{lines}: {answer}");
            assert_eq!(header(&answer, "content-length"), None, "{lines}: {answer}");
            let body = answer.split_once("\r\n\r\n").unwrap().1;
            assert_eq!(body, "2\r\nok\r\n0\r\n\r\n", "{lines}");
        }
    }
    let twice = told(&edge, "/free", "HTTP/1.1 200 OK|Content-Length: 2, 2||ok");
    assert_eq!(header(&twice, "content-length"), Some("2"), "{twice}");
    let coded = "HTTP/1.1 200 OK|Transfer-Encoding: gzip, chunked||2|ok|0||";
    assert_eq!(status(&told(&edge, "/free", coded)), 502, "nobody could read it");
}

#[test]
fn no_other_way_to_the_shop_is_told() {
    let answer = "HTTP/1.1 200 OK|Alt-Svc: h3=\":443\"; ma=2592000|Content-Length: 2||ok";
    let answer = told(&shared(), "/free", answer);
    assert_eq!((status(&answer), header(&answer, "alt-svc")), (200, None), "{answer}");
}

#[test]
fn nobody_keeps_a_protected_page_of_before_the_lobby_into_the_sale() {
    let ground = Ground::new("beforehand");
    let mut plan = ground.sale_opening_in(600_000, 10);
    plan.lobby_opens_ms = plan.opens_ms - 300_000;
    let edge = Edge::on(&ground, plan, 1, |config, _| no_limits(config));
    edge.await_lobby();
    let public = "HTTP/1.1 200 OK|Cache-Control: public, max-age=3600|CDN-Cache-Control: \
                  max-age=3600|Content-Length: 2||ok";

    let protected = told(&edge, "/checkout/x", public);
    let free = told(&edge, "/product", public);

    let kept = header(&protected, "cache-control").unwrap();
    let seconds: u64 = kept.strip_prefix("public, max-age=").unwrap().parse().unwrap();
    assert!((200..=300).contains(&seconds), "{kept}");
    assert_eq!(header(&protected, "cdn-cache-control"), None);
    assert_eq!(header(&free, "cache-control"), Some("public, max-age=3600"));
    assert_eq!(header(&free, "cdn-cache-control"), Some("max-age=3600"));
}

#[test]
fn a_request_that_this_node_has_sent_to_the_shop_before_is_told_apart() {
    let edge = shared();
    ask(&edge.url(), "GET /round/first", &["CDN-Loop: other-cdn"]);
    let heads = edge.shop.heads("/round/first");
    let marks: Vec<&str> = heads[0].lines().filter(|line| line.starts_with("cdn-loop")).collect();
    assert_eq!(marks.len(), 2, "one more than came: {marks:?}");

    let again = ask(&edge.url(), "GET /round/second", &marks);

    assert_eq!(status(&again), 508, "{again}");
    assert!(edge.shop.heads("/round/second").is_empty());
}
