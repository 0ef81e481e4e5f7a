//! HTTP/2 requests that would become something else on their way to an HTTP/1.1 shop.

use super::frames::{DATA, END_HEADERS, END_STREAM, GOAWAY, H2, HEADERS, RST_STREAM, block, field};
use super::tls::{secured, secured_with};

#[test]
fn ed_18_no_header_of_http_2_breaks_out_of_its_line() {
    let (edge, client) = secured("hygiene");
    for (name, value) in [
        ("x-odd", "\ta\t"),
        ("x-odd", " a"),
        ("x-odd", "a\r\nx-smuggled: 1"),
        ("x-odd", "a\nb"),
        ("x-odd", "a\0b"),
        ("X-Odd", "a"),
        ("", "a"),
        ("x odd", "a"),
        ("x-odd:", "a"),
        ("connection", "x-odd"),
        ("transfer-encoding", "chunked"),
        ("keep-alive", "5"),
        ("upgrade", "h2c"),
        ("te", "gzip"),
    ] {
        let mut odd = H2::connect(&edge, &client, &[]);
        let ask = block("GET", "/hygiene", &[(name, value)]);
        assert!(odd.send(HEADERS, END_HEADERS | END_STREAM, 1, &ask));
        let end = odd.outcome(1).expect("an answer");
        let refused = matches!(end.kind, RST_STREAM | GOAWAY) || end.status() == 400;
        assert!(refused, "{name:?}: {value:?}: {end:?}");
    }
    assert_eq!(edge.shop.heads("/hygiene"), [""; 0]);
}

#[test]
fn ed_18_pseudo_headers_are_what_they_should_be() {
    let (edge, client) = secured("pseudo");
    let plain = |path: &str| block("GET", path, &[]);
    let blocks = [
        ("twice", [plain("/pseudo"), field(":path", "/other")].concat()),
        ("late", [plain("/pseudo"), field("x-a", "1"), field(":authority", "evil")].concat()),
        ("unknown", [field(":odd", "1"), plain("/pseudo")].concat()),
        (
            "no path",
            [field(":method", "GET"), field(":scheme", "https"), field(":authority", "localhost")]
                .concat(),
        ),
        ("empty path", plain("")),
        ("no slash", plain("pseudo")),
        ("blank", plain("/pseudo /x HTTP/1.1")),
        ("line", plain("/pseudo\r\nx: y")),
        ("host differs", [plain("/pseudo"), field("host", "evil.test")].concat()),
        (
            "user",
            [
                field(":method", "GET"),
                field(":scheme", "https"),
                field(":path", "/pseudo"),
                field(":authority", "u@localhost"),
            ]
            .concat(),
        ),
    ];
    for (what, ask) in blocks {
        let mut odd = H2::connect(&edge, &client, &[]);
        assert!(odd.send(HEADERS, END_HEADERS | END_STREAM, 1, &ask));
        let end = odd.outcome(1).expect("an answer");
        let refused = matches!(end.kind, RST_STREAM | GOAWAY) || end.status() == 400;
        assert!(refused, "{what}: {end:?}");
    }
    assert_eq!(edge.shop.heads("pseudo"), [""; 0]);
}

#[test]
fn ed_20_a_length_that_is_not_the_bodys_never_becomes_a_request() {
    let (edge, client) = secured("lengths");
    for (length, body) in [("10", &b"abc"[..]), ("3", b"abcdefghij")] {
        let mut odd = H2::connect(&edge, &client, &[]);
        let ask = block("POST", "/lengths", &[("content-length", length)]);
        assert!(odd.send(HEADERS, END_HEADERS, 1, &ask));
        odd.send(DATA, END_STREAM, 1, body);
        let end = odd.outcome(1).expect("an answer");
        let refused = matches!(end.kind, RST_STREAM | GOAWAY) || end.status() == 400;
        assert!(refused, "{length}: {end:?}");
    }
    assert_eq!(edge.shop.heads("/lengths"), [""; 0]);
}

#[test]
fn ed_12_http_2_connect_opens_nothing_and_poisons_nobody() {
    let (edge, client) = secured("tunnels");
    let mut odd = H2::connect(&edge, &client, &[]);
    let ask = [field(":method", "CONNECT"), field(":authority", "localhost:443")].concat();
    assert!(odd.send(HEADERS, END_HEADERS, 1, &ask));
    odd.send(DATA, END_STREAM, 1, b"GET /evil HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let end = odd.outcome(1).expect("an answer");
    assert!(end.kind != HEADERS || end.status() != 200, "{end:?}");
    assert_eq!(edge.shop.heads("/evil"), [""; 0]);
    assert!(odd.send(HEADERS, END_HEADERS | END_STREAM, 3, &block("GET", "/own", &[])));
    let next = odd.outcome(3).expect("an answer");
    assert_eq!((next.kind, next.status()), (HEADERS, 200));
}

#[test]
fn ed_58_ed_66_http_2_bodies_and_heads_have_the_same_bounds() {
    let (edge, client) = secured_with("bounded", |config| {
        config.set("limits.client.max_body_bytes", 20_000).unwrap();
    });
    let big = block("POST", "/bounded", &[("content-length", "30000")]);
    let long = block("GET", &format!("/bounded/{}", "a".repeat(9 * 1024)), &[]);
    let many = block("GET", "/bounded", &vec![("x-many", "1"); 101]);
    let crumbs = block("GET", "/bounded", &vec![("cookie", "a=1"); 201]);
    for (what, ask, ends) in [
        ("big", big, END_HEADERS),
        ("long", long, END_HEADERS | END_STREAM),
        ("many", many, END_HEADERS | END_STREAM),
        ("crumbs", crumbs, END_HEADERS | END_STREAM),
    ] {
        let mut odd = H2::connect(&edge, &client, &[]);
        assert!(odd.send(HEADERS, ends, 1, &ask));
        let end = odd.outcome(1).expect("an answer");
        assert!(end.kind != HEADERS || end.status() != 200, "{what}: {end:?}");
    }
    assert_eq!(edge.shop.heads("/bounded"), [""; 0]);
    let mut fine = H2::connect(&edge, &client, &[]);
    let ask = block("GET", "/manycrumbs", &vec![("cookie", "a=1"); 150]);
    assert!(fine.send(HEADERS, END_HEADERS | END_STREAM, 1, &ask));
    assert_eq!(fine.outcome(1).expect("an answer").status(), 200);
}
