//! Forward-auth: another proxy keeps the door and asks whether a request may pass.

use super::admitted::{admission, keys};
use super::origin::header;
use super::wire::{ask, status};
use super::{lobby, shared};
use crate::fixture::now_ms;

const AUTH: &str = "GET /_stanchion/auth";

#[test]
fn a_proxy_is_told_whether_a_request_may_pass_and_where_the_line_is() {
    let edge = lobby();
    let (keys, sale) = (keys(&edge), edge.plan.id.as_str());
    let pass = keys.mint_admission(&admission(&keys, sale, 1, now_ms() - 1_000));
    let cookie = format!("Cookie: stanchion-pass-{sale}={pass}");
    for asked in ["X-Original-URI: /checkout/a?b=1", "X-Forwarded-Uri: /checkout/a?b=1"] {
        let person = ask(&edge.url(), AUTH, &[asked, "Accept: text/html"]);
        assert_eq!(status(&person), 401, "{person}");
        let queue = format!("/_stanchion/{sale}?next=%2Fcheckout%2Fa%3Fb%3D1");
        assert_eq!(header(&person, "stanchion-queue-url"), Some(queue.as_str()));
        assert!(person.contains("application/problem+json"), "{person}");
        assert!(person.contains(&format!("\"queue_url\":\"{queue}\"")), "{person}");

        let inside = ask(&edge.url(), AUTH, &[asked, &cookie]);
        assert_eq!(status(&inside), 204, "{inside}");
        assert_eq!(header(&inside, "stanchion-sale"), Some(sale));
        assert_eq!(header(&inside, "stanchion-admission"), Some(pass.as_str()));
        assert_eq!(header(&inside, "stanchion-position"), Some("7"));
    }
    let script = ask(&edge.url(), AUTH, &["X-Forwarded-Uri: /checkout/a"]);
    assert_eq!(status(&script), 429, "{script}");
    // nginx knows no other refusal than 401 and 403.
    let nginx = ask(&edge.url(), AUTH, &["X-Original-URI: /checkout/a"]);
    assert_eq!(status(&nginx), 401, "{nginx}");
    let envoy = ask(&edge.url(), "POST /_stanchion/auth/checkout/a", &["Content-Length: 0"]);
    assert_eq!(status(&envoy), 429, "{envoy}");
    for free in ["X-Original-URI: /", "X-Forwarded-Uri: /products?x=/checkout/a"] {
        let answer = ask(&edge.url(), AUTH, &[free]);
        assert_eq!(status(&answer), 204, "{answer}");
        assert!(header(&answer, "stanchion-sale").is_none(), "{answer}");
    }
    assert_eq!(status(&ask(&edge.url(), "GET /_stanchion/auth/free", &[])), 204);
}

#[test]
fn what_is_never_gated_passes_by_a_method_that_the_visitor_cannot_make_up() {
    let edge = lobby();
    let uri = "X-Forwarded-Uri: /checkout/notify";
    let post = "X-Forwarded-Method: POST";
    assert_eq!(status(&ask(&edge.url(), AUTH, &[uri, post])), 204);
    assert_eq!(status(&ask(&edge.url(), AUTH, &[uri, "X-Forwarded-Method: GET"])), 429);
    let envoy = ask(&edge.url(), "POST /_stanchion/auth/checkout/notify", &["Content-Length: 0"]);
    assert_eq!(status(&envoy), 204, "{envoy}");
    // nginx tells no method of its own, so this one is the visitor's.
    let made_up = ["X-Original-URI: /checkout/notify", uri, post];
    assert_eq!(status(&ask(&edge.url(), AUTH, &made_up)), 401);
    let preflight = ["Origin: https://a.test", "Access-Control-Request-Method: POST"];
    let options = "X-Forwarded-Method: OPTIONS";
    let all = [uri, options, preflight[0], preflight[1]];
    assert_eq!(status(&ask(&edge.url(), AUTH, &all)), 204);
    let all = ["X-Original-URI: /checkout/notify", options, preflight[0], preflight[1]];
    assert_eq!(status(&ask(&edge.url(), AUTH, &all)), 401);
}

#[test]
fn only_a_trusted_proxy_asks_and_two_words_about_one_request_are_none() {
    let stranger = ask(&shared().url(), AUTH, &["X-Original-URI: /"]);
    assert_eq!(status(&stranger), 403, "{stranger}");
    assert!(stranger.contains("public.trusted_proxies"), "{stranger}");

    let edge = lobby();
    let url = edge.url();
    assert_eq!(status(&ask(&url, AUTH, &[])), 400, "which request?");
    for smuggled in [
        &["X-Original-URI: /checkout/a", "X-Forwarded-Uri: /"][..],
        &["X-Original-URI: /", "X-Original-URI: /checkout/a"],
        &["X-Forwarded-Uri: /checkout/a", "X-Original-URI: /"],
        &["X-Forwarded-Uri: /public/../checkout"],
        &["X-Forwarded-Uri: /public/..%2fother"],
        &["X-Forwarded-Uri: /a%00b"],
        &["X-Forwarded-Uri: checkout"],
        &["X-Forwarded-Uri: /a", "X-Forwarded-Host: evil.test"],
    ] {
        let answer = ask(&url, AUTH, smuggled);
        assert!([401, 403, 429].contains(&status(&answer)), "{smuggled:?}: {answer}");
    }
    for spelled in ["/CheckOut/a", "//checkout//a", "/%63heckout/a", "/checkout;x/a"] {
        let answer = ask(&url, AUTH, &[&format!("X-Forwarded-Uri: {spelled}")]);
        assert!([403, 429].contains(&status(&answer)), "{spelled}: {answer}");
    }
    let host = ask(&url, AUTH, &["X-Forwarded-Uri: /", "X-Forwarded-Host: localhost:8443"]);
    assert_eq!(status(&host), 204, "{host}");
}
