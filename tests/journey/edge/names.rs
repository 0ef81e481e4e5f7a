//! Asking by another name, by another method, or with more than was asked for.

use super::origin::header;
use super::wire::{ask, send, status};
use super::{Edge, lobby, no_limits};

/// A navigation by some host.
fn visit(edge: &Edge, host: &str, line: &str, more: &str) -> String {
    let head = format!(
        "{line} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nAccept: text/html\r\n{more}\r\n"
    );
    send(&edge.url(), head)
}

#[test]
fn the_queue_is_shown_by_the_first_name_to_whoever_has_no_place_by_another() {
    let edge = Edge::start("names", |config, _| {
        no_limits(config);
        config.set("public.hostnames", vec!["shop.test", "www.shop.test", "localhost"]).unwrap();
    });
    let sale = &edge.plan.id;
    let page = format!("GET /_stanchion/{sale}?next=%2Fcheckout");
    for (host, line, wanted) in [
        ("www.shop.test", "GET /checkout/x?a=1", Some("http://shop.test/checkout/x?a=1")),
        ("WWW.shop.test.:8080", "GET /checkout/x", Some("http://shop.test:8080/checkout/x")),
        ("www.shop.test", "HEAD /checkout/y", Some("http://shop.test/checkout/y")),
        ("localhost", "GET /checkout/x", None),
        ("shop.test", "GET /checkout/x", None),
        ("www.shop.test", "POST /checkout/x", None),
        ("www.shop.test", "GET /free", None),
    ] {
        let answer = visit(&edge, host, line, "");
        assert_eq!(header(&answer, "location"), wanted, "{host} {line}: {answer}");
        assert_eq!(status(&answer) == 307, wanted.is_some(), "{answer}");
    }
    let own = visit(&edge, "www.shop.test", &page, "");
    let there = format!("http://shop.test/_stanchion/{sale}?next=%2Fcheckout");
    assert_eq!(header(&own, "location"), Some(there.as_str()));

    // As behind something that writes another name over the one that was asked for.
    let round = visit(&edge, "www.shop.test", "GET /checkout/x?a=1", "");
    assert_eq!(header(&round, "stanchion-answer"), Some("queue"), "no circle: {round}");

    let script = visit(&edge, "www.shop.test", "GET /checkout/x", "Sec-Fetch-Mode: cors\r\n");
    assert_eq!(status(&script), 429, "a script is told, not moved: {script}");
    let place = format!("Cookie: stanchion-ticket-{sale}=x\r\n");
    let held = visit(&edge, "www.shop.test", "GET /checkout/x", &place);
    assert_eq!(header(&held, "stanchion-answer"), Some("queue"), "a place is where it was taken");
}

#[test]
fn where_forms_are_sent_to_leads_back_to_the_line_and_other_methods_are_told_the_right_ones() {
    let edge = lobby();
    let sale = &edge.plan.id;
    for call in ["join", "claim", "leave", "recover"] {
        let page = visit(&edge, "localhost", &format!("GET /_stanchion/{sale}/{call}"), "");
        assert_eq!(status(&page), 303, "{page}");
        assert_eq!(header(&page, "location"), Some(format!("/_stanchion/{sale}").as_str()));
        let script = ask(
            &edge.url(),
            &format!("GET /_stanchion/{sale}/{call}"),
            &["Accept: application/json"],
        );
        assert_eq!((status(&script), header(&script, "allow")), (405, Some("POST")), "{script}");
    }
    for (path, allowed) in [("draw", "GET, HEAD"), ("reservations", "GET, HEAD, POST")] {
        let answer = ask(&edge.url(), &format!("PUT /_stanchion/{sale}/{path}"), &[]);
        assert_eq!((status(&answer), header(&answer, "allow")), (405, Some(allowed)), "{answer}");
    }
}

#[test]
fn a_form_may_bring_fields_of_the_shops_framework_and_json_may_not() {
    let edge = lobby();
    let join = |kind: &str, body: &str| {
        let head = format!(
            "POST /_stanchion/{} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: \
             {kind}\r\nContent-Length: {}\r\n\r\n{body}",
            format_args!("{}/join", edge.plan.id),
            body.len()
        );
        send(&edge.url(), head)
    };
    let form =
        join("application/x-www-form-urlencoded", "utf8=%E2%9C%93&_csrf=a&join_key=names-form-1");
    assert_eq!(status(&form), 303, "{form}");
    let json = join("application/json", r#"{"join_key":"names-json-1","_csrf":"a"}"#);
    assert!(status(&json) == 400 && json.contains("unknown field `_csrf`"), "{json}");
}

#[test]
fn whoever_posted_to_the_line_goes_on_to_the_page_with_the_form() {
    let edge = lobby();
    let next = |referer: &str| {
        let page = visit(&edge, "localhost", "POST /checkout/submit?step=3", referer);
        let from = page.split_once("data-next=\"").unwrap().1;
        from.split_once('"').unwrap().0.to_owned()
    };
    assert_eq!(next("Referer: http://localhost/cart?a=1\r\n"), "/cart?a=1");
    for elsewhere in
        ["", "Referer: http://evil.test/cart\r\n", "Referer: http://localhost//evil.test\r\n"]
    {
        assert_eq!(next(elsewhere), "/checkout", "{elsewhere}");
    }
}

#[test]
fn what_caches_may_keep_varies_by_origin_where_origins_are_known() {
    let edge = lobby();
    for origin in ["X-None: 1", "Origin: https://shop.test", "Origin: https://evil.test"] {
        let script = ask(&edge.url(), "GET /_stanchion/stock.js", &[origin]);
        let vary = header(&script, "vary").unwrap_or_default();
        assert!(vary.contains("Origin"), "{origin}: {script}");
        let shared = header(&script, "access-control-allow-origin");
        assert_eq!(shared.is_some(), origin.contains("shop.test"), "{origin}");
    }
    let script = ask(&edge.url(), "GET /_stanchion/stock.js", &["Origin: https://shop.test"]);
    let exposed = header(&script, "access-control-expose-headers").unwrap();
    assert!(exposed.contains("Stanchion-Admission"), "{exposed}");
}
