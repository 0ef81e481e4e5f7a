//! Arriving: what a navigation, a script, a crawler and a prefetch get at a protected path.

use std::time::{Duration, Instant};

use super::browser::Browser;
use super::origin::header;
use super::wire::{ask, send, status};
use super::{Edge, lobby, no_limits, open_edge, shared};
use crate::fixture::{Ground, now_ms};

const PERSON: [&str; 2] = ["Accept: text/html", "Sec-Fetch-Mode: navigate"];

fn navigation(edge: &Edge, line: &str, more: &[&str]) -> String {
    ask(&edge.url(), line, &[&PERSON[..], more].concat())
}

/// Who asks until the line is empty and the meter open.
fn until_sent_on(edge: &Edge, line: &str) -> String {
    let since = Instant::now();
    loop {
        let answer = navigation(edge, line, &[]);
        if status(&answer) == 303 {
            return answer;
        }
        assert!(since.elapsed() < Duration::from_secs(30), "never sent on: {answer}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn a_browser_that_keeps_no_cookies_is_sent_on_once_and_then_told_why_not() {
    let edge = open_edge("nocookies", 300);
    edge.await_open();

    let moved = until_sent_on(&edge, "GET /checkout/nocookies");
    assert_eq!(header(&moved, "location"), Some("/checkout/nocookies"));
    assert_eq!(moved.matches("set-cookie: ").count(), 2, "{moved}");
    let back = navigation(&edge, "GET /checkout/nocookies", &[]);

    assert_eq!(status(&back), 200, "{back}");
    assert!(back.contains("This page needs cookies") && !back.contains("http-equiv"), "{back}");
    assert!(!back.contains("set-cookie"), "it took no second place: {back}");
    // Another page, and a browser that shows cookies of the shop's, are not the same browser.
    until_sent_on(&edge, "GET /checkout/another");
    let with_cookie = navigation(&edge, "GET /checkout/nocookies", &["Cookie: cart=1"]);
    assert!(!with_cookie.contains("needs cookies"), "{with_cookie}");
    assert_eq!(edge.shop.heads("/checkout/nocookies"), [""; 0]);
}

#[test]
fn a_ticket_whose_pass_is_never_shown_is_not_sent_round_in_circles() {
    let edge = open_edge("nopass", 300);
    edge.await_open();
    let mut browser = Browser::new(&edge);
    browser.until_moved("GET /checkout/nopass");
    let ticket =
        format!("Cookie: stanchion-ticket-{}={}", edge.plan.id, browser.value("ticket").unwrap());

    let mut redirects = 0;
    let last = loop {
        let answer = navigation(&edge, "GET /checkout/nopass", &[&ticket]);
        if status(&answer) != 303 {
            break answer;
        }
        redirects += 1;
        assert!(redirects < 20, "round in circles");
    };

    assert!(status(&last) == 200 && last.contains("needs cookies"), "{last}");
    assert!(last.contains("set-cookie: stanchion-pass-"), "the button may lead in: {last}");
}

#[test]
fn wr_32_back_forward_and_refresh_twenty_times_change_nothing() {
    let ground = Ground::new("refresh");
    let mut plan = ground.sale_opening_in(300, 10);
    plan.rate = "0.05/s".into();
    let edge = Edge::on(&ground, plan, 1, |config, _| no_limits(config));
    edge.await_open();
    let mut first = Browser::new(&edge);
    first.until_moved("GET /checkout/a");
    let mut waiting = Browser::new(&edge);
    waiting.post("join", "join_key=w&next=/checkout/b");
    let place = waiting.value("ticket").unwrap().to_owned();

    for _ in 0..20 {
        let page = waiting.go("GET /checkout/b", None);
        assert_eq!(status(&page), 200, "{page}");
        assert_eq!(waiting.value("ticket"), Some(place.as_str()));
        let room = waiting.room();
        assert_eq!(status(&room), 200, "{room}");
    }
    for _ in 0..20 {
        let page = first.go("GET /checkout/a", None);
        assert!(status(&page) == 200 && page.ends_with("ok"), "{page}");
        assert!(first.has("ticket") && first.has("pass"));
    }
}

#[test]
fn wr_64_crawlers_prefetches_and_heads_take_no_place_even_when_the_way_is_free() {
    let edge = open_edge("ahead", 300);
    edge.await_open();
    for more in [
        "Sec-Purpose: prefetch",
        "Sec-Purpose: prefetch;prerender",
        "Purpose: prefetch",
        "X-Moz: prefetch",
        "X-Purpose: preview",
    ] {
        let answer = navigation(&edge, "GET /checkout/ahead", &[more]);
        assert_eq!(status(&answer), 200, "{answer}");
        assert!(!answer.contains("set-cookie"), "{more}: {answer}");
    }
    let head = navigation(&edge, "HEAD /checkout/ahead", &[]);
    assert!(status(&head) == 200 && !head.contains("set-cookie"), "{head}");
    let bot = "User-Agent: Mozilla/5.0 (compatible; bingbot/2.0)";
    let room = format!("GET /_stanchion/{}", edge.plan.id);
    for line in ["GET /checkout/ahead", &room] {
        let answer = navigation(&edge, line, &[bot]);
        assert_eq!(status(&answer), 503, "{answer}");
        assert!(answer.contains("retry-after: 3600") && answer.contains("noindex"), "{answer}");
        assert!(!answer.contains("set-cookie"), "{answer}");
    }
    assert_eq!(status(&ask(&edge.url(), "GET /_stanchion/health", &[bot])), 200);

    let join = format!("POST /_stanchion/{}/join", edge.plan.id);
    let first = ask(&edge.url(), &join, &["Content-Length: 0"]);
    assert!(first.contains("\"position\":0,"), "nobody was before: {first}");
}

#[test]
fn wr_48_no_method_and_no_header_about_methods_reaches_the_shop() {
    let edge = shared();
    for (word, line) in [
        ("m-head", "HEAD /checkout/m-head"),
        ("m-options", "OPTIONS /checkout/m-options"),
        ("m-trace", "TRACE /checkout/m-trace"),
        ("m-lower", "get /checkout/m-lower"),
        ("m-odd", "BREW /checkout/m-odd"),
        ("m-propfind", "PROPFIND /checkout/m-propfind"),
        ("m-connect", "CONNECT /checkout/m-connect"),
        ("m-patch", "PATCH /checkout/m-patch"),
    ] {
        let answer = ask(&edge.url(), line, &[]);
        assert!((400..500).contains(&status(&answer)), "{line}: {answer}");
        assert_eq!(edge.shop.heads(word), [""; 0], "{line}");
    }
    for over in ["X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"] {
        let line = format!("GET /checkout/m-over?{over}");
        let answer = ask(&edge.url(), &line, &[&format!("{over}: POST")]);
        assert_eq!(status(&answer), 429, "{answer}");
    }
    assert_eq!(edge.shop.heads("m-over"), [""; 0]);
}

#[test]
fn before_the_lobby_and_after_the_close_paths_pass_or_are_gated_as_the_settings_say() {
    let outside = |topic: &str, gate: bool, closed: bool| {
        let ground = Ground::new(topic);
        let mut plan = ground.sale_opening_in(600_000, 10);
        if closed {
            plan.lobby_opens_ms = now_ms() - 60_000;
            plan.opens_ms = now_ms() - 50_000;
            plan.closes_ms = now_ms() - 40_000;
        } else {
            plan.lobby_opens_ms = now_ms() + 300_000;
        }
        Edge::on(&ground, plan, 0, |config, _| {
            no_limits(config);
            let word = if gate { "gate" } else { "pass" };
            config.set(if closed { "sale.0.after" } else { "sale.0.before" }, word).unwrap();
            config.set("sale.0.never_gate", vec!["POST /checkout/notify"]).unwrap();
        })
    };
    for (closed, says, phase) in [
        (false, "The waiting room is not open yet", "\"phase\":\"upcoming\""),
        (true, "The sale is over", "\"phase\":\"closed\""),
    ] {
        let open = outside("outside", false, closed);
        assert!(navigation(&open, "GET /checkout/outside", &[]).ends_with("ok"));
        assert_eq!(open.shop.heads("/checkout/outside").len(), 1);

        let gated = outside("outside", true, closed);
        let page = navigation(&gated, "GET /checkout/outside", &[]);
        assert!(status(&page) == 200 && page.contains(says), "{page}");
        assert!(!page.contains("set-cookie") && !page.contains("/join\""), "{page}");
        let script = ask(&gated.url(), "GET /checkout/outside", &["Accept: application/json"]);
        assert!(status(&script) == 429 && script.contains(phase), "{script}");
        assert_eq!(gated.shop.heads("/checkout/outside"), [""; 0]);
        let notify = ask(&gated.url(), "POST /checkout/notify?x=1", &["Content-Length: 0"]);
        assert_eq!(status(&notify), 200, "{notify}");
        let by_query = ask(&gated.url(), "GET /checkout/x?POST=/checkout/notify", &[]);
        assert_eq!(status(&by_query), 429, "{by_query}");
        let join = format!("POST /_stanchion/{}/join", gated.plan.id);
        assert!(status(&ask(&gated.url(), &join, &["Content-Length: 0"])) >= 400);
    }
}

#[test]
fn wr_57_our_own_files_are_ungated_and_kept_and_need_nobody_else() {
    let edge = shared();
    let page = navigation(&edge, "GET /checkout/assets", &[]);
    let policy = header(&page, "content-security-policy").unwrap();
    assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
    assert!(!page.contains("http://") && !page.contains("https://"), "{page}");
    let files: Vec<_> =
        page.split(['"', '=']).filter(|w| w.starts_with("/_stanchion/assets/")).collect();
    assert!(files.len() >= 3, "{page}");
    for file in files {
        let asset = ask(&edge.url(), &format!("GET {file}"), &[]);
        assert_eq!(status(&asset), 200, "{asset}");
        assert!(asset.contains("immutable") && !asset.contains("set-cookie"), "{asset}");
    }
    // A node of another version has linked it by another name.
    let old = ask(&edge.url(), "GET /_stanchion/assets/queue.0123456789abcdef.js", &[]);
    let kept = header(&old, "cache-control").map(str::to_owned);
    assert_eq!((status(&old), kept.as_deref()), (200, Some("no-store")), "{old}");
    let none = ask(&edge.url(), "GET /_stanchion/assets/none.0123456789abcdef.js", &[]);
    assert_eq!(status(&none), 404, "{none}");
    for script in ["hold.js", "stock.js"] {
        let line = format!("GET /_stanchion/{script}");
        let first = ask(&edge.url(), &line, &[]);
        let told = header(&first, "cache-control").unwrap();
        assert!(told.contains("public") && told.contains("must-revalidate"), "{told}");
        assert!(!first.contains("https://"), "{script} asks nobody else");
        let tag = format!("If-None-Match: {}", header(&first, "etag").unwrap());
        assert_eq!(status(&ask(&edge.url(), &line, &[&tag])), 304);
    }
}

#[test]
fn wr_52_a_shops_other_origin_can_read_that_it_must_wait_and_a_foreign_one_cannot() {
    let edge = lobby();
    let from = |origin: &str| {
        let origin = format!("Origin: {origin}");
        let headers = ["Sec-Fetch-Mode: cors", "Sec-Fetch-Site: cross-site", origin.as_str()];
        ask(&edge.url(), "POST /checkout/api", &[&headers[..], &["Content-Length: 0"]].concat())
    };
    let friend = from("https://shop.test");
    assert_eq!(status(&friend), 429, "{friend}");
    assert_eq!(header(&friend, "access-control-allow-origin"), Some("https://shop.test"));
    assert_eq!(header(&friend, "access-control-allow-credentials"), Some("true"));
    let readable = header(&friend, "access-control-expose-headers").unwrap();
    assert!(readable.contains("Retry-After"), "{readable}");
    assert!(friend.contains("\"queue_url\":\"/_stanchion/"), "{friend}");

    let stranger = from("https://evil.test");
    assert_eq!(status(&stranger), 429, "{stranger}");
    assert!(!stranger.contains("access-control-allow-origin"), "{stranger}");

    let join = format!("OPTIONS /_stanchion/{}/join", edge.plan.id);
    let ahead = |origin: &str| {
        ask(
            &edge.url(),
            &join,
            &[&format!("Origin: {origin}"), "Access-Control-Request-Method: POST"],
        )
    };
    assert_eq!(status(&ahead("https://shop.test")), 204);
    assert!(ahead("https://shop.test").contains("access-control-allow-origin: https://shop.test"));
    assert!(!ahead("https://evil.test").contains("access-control-allow-origin"));
}

#[test]
fn wr_56_what_is_queued_and_what_is_admitted_is_kept_by_no_shared_cache() {
    let edge = open_edge("caches", 300);
    edge.await_open();
    let mut admitted = Browser::new(&edge);
    admitted.until_moved("GET /checkout/cache");
    let shop = admitted.go("GET /checkout/cache", None);
    assert!(shop.ends_with("ok"), "{shop}");
    assert_eq!(header(&shop, "cache-control"), Some("private"));
    assert!(header(&shop, "vary").unwrap().contains("Cookie"), "{shop}");

    let queued = navigation(&edge, "GET /checkout/cache", &["Sec-Purpose: prefetch"]);
    assert_eq!(header(&queued, "cache-control"), Some("private, no-store"));
    for name in ["Cookie", "Accept", "Sec-Fetch-Mode"] {
        assert!(header(&queued, "vary").unwrap().contains(name), "{queued}");
    }
}

#[test]
fn a_place_needs_an_account_and_the_page_leads_to_sign_in_and_back() {
    let ground = Ground::new("signin");
    let plan = ground.sale_opening_in(600_000, 10);
    let edge = Edge::on(&ground, plan, 1, |config, shop| {
        no_limits(config);
        config.set("account.source", "forward_auth").unwrap();
        config.set("account.forward_auth.url", format!("{}/whoami", shop.url())).unwrap();
        config.set("account.login_url", "/account/login?from=sale").unwrap();
        config.set("sale.0.require_account", true).unwrap();
    });
    edge.await_lobby();
    let sale = &edge.plan.id;

    let page = navigation(&edge, "GET /checkout/cart?a=1&b=2", &[]);
    let link = "href=\"/account/login?from=sale&#38;next=%2Fcheckout%2Fcart%3Fa%3D1%26b%3D2\"";
    assert!(page.contains("Sign in to join") && page.contains(link), "{page}");
    let room = navigation(&edge, &format!("GET /_stanchion/{sale}?next=//evil.test/"), &[]);
    let back = format!("next=%2F_stanchion%2F{sale}%3Fnext%3D%252Fcheckout\"");
    assert!(room.contains(&back) && !room.contains("evil.test"), "{room}");

    let join = format!("POST /_stanchion/{sale}/join");
    let refused = ask(&edge.url(), &join, &["Content-Length: 0", "Accept: application/json"]);
    assert_eq!(status(&refused), 401, "{refused}");
    assert!(refused.contains("\"login_url\":\"/account/login?from=sale&next="), "{refused}");
    let signed_in = ask(&edge.url(), &join, &["Content-Length: 0", "Cookie: user=ann"]);
    assert_eq!(status(&signed_in), 201, "{signed_in}");
}

#[test]
fn the_script_of_a_place_is_told_of_a_change_without_asking_the_shop_who_is_there() {
    let ground = Ground::new("askless");
    let plan = ground.sale_opening_in(600_000, 10);
    let edge = Edge::on(&ground, plan, 1, |config, shop| {
        no_limits(config);
        config.set("account.source", "forward_auth").unwrap();
        config.set("account.forward_auth.url", format!("{}/whoami", shop.url())).unwrap();
        config.set("account.forward_auth.cache", "0s").unwrap();
        config.set("sale.0.require_account", true).unwrap();
    });
    edge.await_lobby();
    let mut browser = Browser::new(&edge);
    browser.cookies.push(("user".into(), "ann".into()));
    browser.post("join", "join_key=ann&next=/checkout/x");
    let sale = &edge.plan.id;
    let pairs: Vec<_> =
        browser.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let cookie = format!("Cookie: {}", pairs.join("; "));
    let asked = || edge.shop.heads("/whoami").len();
    let before = asked();

    let fetch = ["Accept: text/html", "Sec-Fetch-Mode: cors", &cookie];
    let fetched = ask(&edge.url(), &format!("GET /_stanchion/{sale}?next=/checkout/x"), &fetch);

    assert!(status(&fetched) == 200 && fetched.contains("You are in the draw"), "{fetched}");
    assert!(!fetched.contains("class=\"code\""), "an account needs no code: {fetched}");
    assert_eq!(asked(), before);
    assert!(browser.room().contains("You are in the draw"));
    assert!(asked() > before, "a page that is opened asks");
}

#[test]
fn the_old_http_gets_the_queue_too() {
    let edge = shared();
    let old = send(
        &edge.url(),
        "GET /checkout/old10 HTTP/1.0\r\nHost: localhost\r\nAccept: text/html\r\n\r\n",
    );
    assert!(status(&old) == 200 && old.contains("</html>"), "{old}");
}
