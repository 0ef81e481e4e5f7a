//! Without an admission nothing reaches a protected path, however it is spelled.

use super::browser::Browser;
use super::wire::{ask, send, status};
use super::{Edge, shared};

/// Every trick carries a word of its own, by which the shop would know it.
#[test]
fn wr_49_ed_34_ed_36_path_tricks_reach_the_shop_zero_times() {
    let edge = shared();
    let gateway = edge.url();
    let tricks = [
        ("t-case", "GET /CheckOut/t-case"),
        ("t-slashes", "GET //checkout//t-slashes"),
        ("t-percent", "GET /%63heckout/t-percent"),
        ("t-params", "GET /checkout;x/t-params"),
        ("t-dots", "GET /public/../checkout/t-dots"),
        ("t-encodeddots", "GET /public/%2e%2e/checkout/t-encodeddots"),
        ("t-absolute", "GET http://localhost/checkout/t-absolute"),
        ("t-head", "HEAD /checkout/t-head"),
        ("t-trailing", "GET /checkout/?t-trailing"),
        ("t-query", "GET /checkout?/health&t-query"),
        ("t-post", "POST /checkout/t-post"),
        ("t-options", "OPTIONS /checkout/t-options"),
        ("t-delete", "DELETE /checkout/t-delete"),
        ("t-slash2f", "GET /checkout%2ft-slash2f"),
        ("t-backslash", "GET /public/..%5ccheckout%5ct-backslash"),
        ("t-twice", "GET /%2563heckout/t-twice"),
        ("t-nul", "GET /checkout%00/t-nul"),
        ("t-root", "GET /../../checkout/t-root"),
        ("t-trail", "GET /checkout./t-trail"),
        ("t-never", "POST /checkout/..;/checkout/notify/t-never"),
        ("t-fragment", "GET /checkout/t-fragment#/health"),
    ];
    for (word, line) in tricks {
        let answer = ask(&gateway, line, &["Accept: text/html"]);

        let ours = answer.contains("stanchion-answer: queue") || status(&answer) == 400;
        assert!(ours, "{line}: {answer}");
        assert_eq!(edge.shop.heads(word), [""; 0], "{line}");
    }
    let old = send(&gateway, "GET /checkout/old HTTP/1.0\r\nHost: localhost\r\n\r\n");
    assert!(old.contains("stanchion-answer: queue"), "{old}");
    assert_eq!(edge.shop.heads("/old"), [""; 0]);
}

#[test]
fn ed_40_an_upgrade_to_a_protected_path_is_answered_and_not_opened() {
    let edge = shared();
    let upgrade = "GET /checkout/ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, close\r\n\
                   Upgrade: websocket\r\nSec-WebSocket-Key: x\r\nSec-WebSocket-Version: 13\r\n\r\n";

    let answer = send(&edge.url(), upgrade);

    assert_eq!(status(&answer), 429, "{answer}");
    assert_eq!(edge.shop.heads("/checkout/ws"), [""; 0]);
}

#[test]
fn a_script_is_told_to_wait_and_a_person_sees_the_queue_at_the_same_address() {
    let edge = shared();

    let script = ask(&edge.url(), "GET /checkout/api", &["Accept: application/json"]);
    assert_eq!(status(&script), 429);
    for part in ["\"code\":\"waiting\"", "\"queue_url\":", "\"phase\":\"lobby\"", "retry-after: "] {
        assert!(script.contains(part), "{part}: {script}");
    }
    let fetch = ["Accept: text/html", "Sec-Fetch-Mode: cors"];
    assert_eq!(status(&ask(&edge.url(), "GET /checkout/api", &fetch)), 429);

    let page = ask(&edge.url(), "GET /checkout/page", &["Accept: text/html"]);
    assert_eq!(status(&page), 200);
    assert!(page.contains("cache-control: private, no-store"), "{page}");
    assert!(!page.contains("\r\nlocation:"), "{page}");
    let sent = ask(&edge.url(), "POST /checkout/page", &["Accept: text/html", "Content-Length: 0"]);
    assert_eq!(status(&sent), 429, "{sent}");
}

#[test]
fn newcomers_at_the_same_moment_get_keys_of_their_own_and_are_led_on_to_where_each_was_going() {
    let edge = super::lobby();
    let mut keys = std::collections::HashSet::new();
    for turn in 0..40 {
        let target = format!("/checkout/page-{turn}?a=1&b='2'");
        let page = ask(&edge.url(), &format!("GET {target}"), &["Accept: text/html"]);
        let script = ask(&edge.url(), &format!("GET {target}"), &["Accept: application/json"]);

        let (head, body) = page.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("content-length: {}", body.len())), "{head}");
        let field = |start: &str| {
            let (_, rest) = body.split_once(start).unwrap_or_else(|| panic!("{start}: {page}"));
            rest.split_once('"').unwrap().0.to_owned()
        };
        let next = format!("/checkout/page-{turn}?a=1&#38;b=&#39;2&#39;");
        for place in ["data-next=\"", "name=\"next\" value=\""] {
            assert_eq!(field(place), next);
        }
        let key = field("name=\"join_key\" value=\"");
        assert!(key.len() == 32 && key.bytes().all(|b| b.is_ascii_hexdigit()), "{key}");
        assert!(keys.insert(key), "one key would be one place");
        let told: serde_json::Value =
            serde_json::from_str(script.split_once("\r\n\r\n").unwrap().1).unwrap();
        assert_eq!(told["poll_after_ms"], told["retry_after_ms"]);
        assert_eq!(told["place"]["state"], "none");
        let now: u64 = field("data-now=\"").parse().unwrap();
        let time: jiff::Timestamp = told["server_time"].as_str().unwrap().parse().unwrap();
        let later = u64::try_from(time.as_millisecond()).unwrap().abs_diff(now);
        assert!(later < 5_000, "both tell the time: {later} ms apart");
    }
    let sent = ask(&edge.url(), "POST /checkout/p", &["Accept: text/html", "Content-Length: 0"]);
    let seen = ask(&edge.url(), "GET /checkout/p", &["Accept: text/html"]);
    assert!(sent.contains("retry-after: ") && !seen.contains("retry-after: "), "{sent}");
    assert_eq!((notices(&sent), notices(&seen)), (2, 1), "what was sent did not arrive: {sent}");
}

/// Paragraphs set off, one of which is the script's.
fn notices(page: &str) -> usize {
    page.matches("class=\"notice\"").count()
}

#[test]
fn ed_44_conditions_and_ranges_do_not_change_the_queue_page() {
    let edge = shared();
    let headers = ["Accept: text/html", "If-None-Match: *", "Range: bytes=0-10"];

    let page = ask(&edge.url(), "GET /checkout/range", &headers);

    assert_eq!(status(&page), 200, "{page}");
    assert!(page.contains("</html>"), "{page}");
    assert!(!page.contains("\r\netag:"), "{page}");
}

#[test]
fn ed_45_a_crawler_is_told_to_come_back_and_gets_no_cookie() {
    let edge = shared();
    let headers = ["Accept: text/html", "User-Agent: Mozilla/5.0 (compatible; Googlebot/2.1)"];

    let answer = ask(&edge.url(), "GET /checkout/bot", &headers);

    assert_eq!(status(&answer), 503, "{answer}");
    assert!(answer.contains("retry-after: 3600"), "{answer}");
    assert!(!answer.contains("set-cookie"), "{answer}");
    let robots = ask(&edge.url(), "GET /robots.txt", &headers);
    assert_eq!(status(&robots), 200, "{robots}");
}

#[test]
fn ed_46_a_true_preflight_passes_and_other_options_do_not() {
    let edge = shared();
    let preflight = ["Origin: http://a.test", "Access-Control-Request-Method: POST"];

    assert_eq!(status(&ask(&edge.url(), "OPTIONS /checkout/preflight", &preflight)), 200);
    assert_eq!(edge.shop.heads("/checkout/preflight").len(), 1);
    assert_eq!(status(&ask(&edge.url(), "OPTIONS /checkout/other", &preflight[..1])), 429);
}

#[test]
fn ed_48_what_is_never_gated_passes_by_its_method_only() {
    let edge = shared();
    let body = ["Content-Length: 0"];

    assert_eq!(status(&ask(&edge.url(), "POST /checkout/notify?ok", &body)), 200);
    assert_eq!(edge.shop.heads("/checkout/notify?ok").len(), 1);
    assert_eq!(status(&ask(&edge.url(), "PUT /checkout/notify?put", &body)), 429);
    assert_eq!(status(&ask(&edge.url(), "GET /checkout/x?POST /checkout/notify", &[])), 400);
    assert_eq!(edge.shop.heads("?put"), [""; 0]);
    assert_eq!(status(&ask(&edge.url(), "POST /checkout%3f/notify", &body)), 429);
    assert_eq!(status(&ask(&edge.url(), "POST /checkout;a/notify", &body)), 429);
}

#[test]
fn ed_52_another_host_is_nobody_here_and_is_not_echoed() {
    let edge = shared();
    let answer =
        send(&edge.url(), "GET /a HTTP/1.1\r\nHost: evil.test\r\nConnection: close\r\n\r\n");

    assert_eq!(status(&answer), 421, "{answer}");
    assert!(!answer.contains("\r\nlocation:"), "{answer}");
    for host in ["LOCALHOST", "localhost.", "localhost:1"] {
        let line = format!("GET /host HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        assert_eq!(status(&send(&edge.url(), line)), 200, "{host}");
    }
    let health = "GET /_stanchion/health HTTP/1.0\r\n\r\n";
    assert_eq!(status(&send(&edge.url(), health)), 200);
}

#[test]
fn a_page_of_another_site_can_neither_join_nor_claim_for_its_visitor() {
    let edge = shared();
    let join = format!("POST /_stanchion/{}/join", edge.plan.id);
    let with = |headers: &[&str]| {
        let mut all = vec!["Content-Type: application/json", "Content-Length: 0"];
        all.extend_from_slice(headers);
        status(&ask(&edge.url(), &join, &all))
    };

    assert_eq!(with(&["Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate"]), 403);
    assert_eq!(with(&["Origin: https://evil.test"]), 403);
    // No core is behind this edge, so what is let in is told to come back.
    assert_eq!(with(&["Sec-Fetch-Site: same-origin", "Origin: http://localhost"]), 503);
    assert_eq!(with(&["Origin: http://localhost:8080"]), 503);
    assert_eq!(with(&[]), 503);
}

#[test]
fn ed_36_a_host_is_known_in_any_case_among_one_and_among_many() {
    let many: Vec<_> = (0..149).map(|number| format!("shop{number}.test")).collect();
    for hosts in [vec!["localhost".to_owned()], [many, vec!["localhost".to_owned()]].concat()] {
        let count = hosts.len();
        let edge = Edge::start("hosts", |config, _| {
            super::no_limits(config);
            config.set("public.hostnames", hosts).unwrap();
        });
        let asked = |host: &str, path: &str| {
            let head = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
            send(&edge.url(), head)
        };
        for host in ["localhost", "LOCALHOST", "localhost.", "LocalHost:8080"] {
            assert_eq!(status(&asked(host, "/host")), 200, "{host} of {count}");
            assert_eq!(status(&asked(host, "/CHECKOUT/x")), 429, "{host} of {count}");
        }
        for host in ["localhost.evil.test", "xlocalhost", "localhos", "shop150.test"] {
            assert_eq!(status(&asked(host, "/host")), 421, "{host} of {count}");
        }
        assert_eq!(edge.shop.heads("HECKOUT"), [""; 0]);
    }
}

#[test]
fn ed_37_neither_query_nor_fragment_opens_a_path() {
    let edge = Edge::start("queries", |config, _| {
        super::no_limits(config);
        config.set("sale.0.never_gate", vec!["GET /health/**"]).unwrap();
    });
    assert_eq!(status(&ask(&edge.url(), "GET /health/x", &[])), 200);
    for target in [
        "/checkout/x?/health/",
        "/checkout/x#/health/x",
        "/checkout/x?p=.css",
        "/checkout/x?/../health/x",
        "/checkout/x#.css",
        "/checkout/x;.css",
        "/checkout/x%23.css?a",
    ] {
        let answer = ask(&edge.url(), &format!("GET {target}"), &["Accept: application/json"]);
        assert!(matches!(status(&answer), 400 | 429), "{target}: {answer}");
    }
    assert_eq!(edge.shop.heads("/checkout/x?"), [""; 0]);
    assert_eq!(edge.shop.heads("/checkout/x "), [""; 0]);
}

#[test]
fn ed_41_ed_42_no_cache_gets_a_place_to_keep() {
    for queue_status in [200, 503] {
        let ground = crate::fixture::Ground::new("caches");
        let plan = ground.sale_opening_in(3_600_000, 10);
        let edge = Edge::on(&ground, plan, 1, |config, _| {
            super::no_limits(config);
            config.set("sale.0.queue_status", i64::from(queue_status)).unwrap();
        });
        edge.await_lobby();
        let mut shopper = Browser::new(&edge);
        let joined = shopper.post("join", "join_key=caching&next=/checkout/c");
        assert_eq!(status(&joined), 303, "{joined}");

        let hers = shopper.go("GET /checkout/c", None);
        let anybodys = ask(&edge.url(), "GET /checkout/c", &["Accept: text/html"]);

        for page in [&hers, &anybodys] {
            assert_eq!(status(page), queue_status, "{page}");
            assert!(page.contains("cache-control: private, no-store"), "{page}");
            assert!(page.contains("surrogate-control: no-store"), "{page}");
            assert!(page.to_lowercase().contains("vary: cookie"), "{page}");
            assert!(!page.contains("\r\nage:") && !page.contains("\r\nlast-modified:"), "{page}");
        }
        let body = |page: &str| page.split_once("\r\n\r\n").unwrap().1.to_owned();
        if queue_status == 503 {
            // Some caches keep it whatever it says: it is the same for everybody.
            assert!(
                !hers.contains("set-cookie") && !hers.contains("You are in the draw"),
                "{hers}"
            );
            assert!(hers.contains("name=\"join_key\" value=\"\""), "one key would be one place");
            assert_eq!(untimed(&body(&hers)), untimed(&body(&anybodys)));
            assert!(shopper.room().contains("You are in the draw"), "her place is on its own page");
            let join = format!("POST /_stanchion/{}/join", edge.plan.id);
            let entry = |told: &str| told.split("\"entry\":").nth(1).unwrap()[..2].to_owned();
            let joins = [(); 2]
                .map(|()| ask(&edge.url(), &join, &["Idempotency-Key: ", "Content-Length: 0"]));
            assert!(joins.iter().all(|told| status(told) == 201), "{joins:?}");
            assert_ne!(entry(&joins[0]), entry(&joins[1]), "two visitors of such a page");
        } else {
            assert!(hers.contains("You are in the draw"), "{hers}");
            assert!(!anybodys.contains("You are in the draw"), "{anybodys}");
        }
    }
}

/// Without the numbers, which tell the time.
fn untimed(page: &str) -> String {
    page.chars().filter(|c| !c.is_ascii_digit()).collect()
}

#[test]
fn ed_74_a_single_header_of_a_cdn_speaks_for_nobody() {
    let edge = Edge::start("cdn", |config, _| {
        config.set("public.trusted_proxies", vec!["127.0.0.1/32"]).unwrap();
        config.set("limits.per_ip.rate", "0.01/s").unwrap();
        config.set("limits.per_ip.burst", 1).unwrap();
    });
    let asked = |lines: &[&str]| {
        let all = [&["Accept: application/json"][..], lines].concat();
        ask(&edge.url(), "GET /checkout/x", &all)
    };
    assert!(asked(&["CF-Connecting-IP: 203.0.113.1"]).contains("\"code\":\"waiting\""));
    for lines in [
        &["CF-Connecting-IP: 203.0.113.2"][..],
        &["CF-Connecting-IP: 203.0.113.3", "CF-Connecting-IP: 203.0.113.4"],
        &["True-Client-IP: 203.0.113.5"],
        &["X-Real-IP: 203.0.113.6"],
    ] {
        assert!(asked(lines).contains("rate-limited"), "{lines:?}");
    }
}
