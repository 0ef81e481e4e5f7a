//! Requests that two parsers could read differently: one of them is us, and nobody gains by it.

use std::fmt::Write as _;
use std::io::{Read, Write};

use super::origin::header;
use super::shared;
use super::wire::{ask, connect, send, status};

const HOST: &str = "Host: localhost\r\n";

#[test]
fn ed_01_two_framings_make_one_request_with_one_framing() {
    let edge = shared();
    for (word, lines) in [
        ("lengthfirst", "Content-Length: 6\r\nTransfer-Encoding: chunked\r\n"),
        ("chunkedfirst", "Transfer-Encoding: chunked\r\nContent-Length: 6\r\n"),
    ] {
        let smuggled = format!("GET /smuggled/{word} HTTP/1.1\r\n{HOST}\r\n");
        let bytes = format!("POST /{word} HTTP/1.1\r\n{HOST}{lines}\r\n0\r\n\r\n{smuggled}");

        let answer = send(&edge.url(), bytes);

        assert!(matches!(status(&answer), 200 | 400), "{answer}");
        assert_eq!(edge.shop.heads(&format!("/smuggled/{word}")), [""; 0]);
        for head in edge.shop.heads(&format!("/{word}")) {
            let both = header(&head, "content-length").is_some()
                && header(&head, "transfer-encoding").is_some();
            assert!(!both, "{head}");
        }
    }
}

#[test]
fn ed_02_only_a_plain_chunked_is_a_transfer_encoding() {
    let edge = shared();
    for coding in [
        "gzip, chunked",
        ",chunked",
        "chunked, identity",
        "xchunked",
        "chunked\r\nTransfer-Encoding: chunked",
        "identity",
    ] {
        let bytes =
            format!("POST /odd HTTP/1.1\r\n{HOST}Transfer-Encoding: {coding}\r\n\r\n0\r\n\r\n");
        let answer = send(&edge.url(), bytes);
        assert!(matches!(status(&answer), 400 | 501), "{coding}: {answer}");
    }
    assert_eq!(edge.shop.heads("/odd"), [""; 0]);
    let bytes = format!(
        "POST /plainchunked HTTP/1.1\r\n{HOST}Connection: close\r\nTransfer-Encoding: chunked \r\n\r\n\
         3\r\nabc\r\n0\r\n\r\n"
    );
    assert_eq!(status(&send(&edge.url(), bytes)), 200);
    let head = edge.shop.heads("/plainchunked").remove(0);
    assert_eq!(header(&head, "transfer-encoding"), Some("chunked"), "{head}");
}

#[test]
fn ed_04_tricks_with_chunk_sizes_finish_no_body_and_start_no_request() {
    let edge = shared();
    for size in ["0x5", "+5", "5_", " 5", "", "FFFFFFFFFFFFFFFF1"] {
        let bytes = format!(
            "POST /chunks HTTP/1.1\r\n{HOST}Transfer-Encoding: chunked\r\n\r\n{size}\r\nabcde\r\n0\r\n\r\n\
             GET /afterchunks HTTP/1.1\r\n{HOST}\r\n"
        );
        let answer = send(&edge.url(), bytes);
        assert!(status(&answer) != 200, "{size}: {answer}");
    }
    assert_eq!(edge.shop.heads("/afterchunks"), [""; 0]);
}

#[test]
fn ed_05_ed_06_odd_line_ends_and_names() {
    let edge = shared();
    let bare = send(&edge.url(), "GET /bare HTTP/1.1\nHost: localhost\nConnection: close\n\n");
    assert!(matches!(status(&bare), 200 | 400), "{bare}");
    for head in edge.shop.heads("/bare") {
        assert_eq!(head.matches('\n').count(), head.matches("\r\n").count(), "{head:?}");
    }
    for lines in ["X: a\0b\r\n", "X : a\r\n", "X: a\r\n b\r\n", "X\r\n: a\r\n", ": a\r\n"] {
        let answer = send(&edge.url(), format!("GET /odd6 HTTP/1.1\r\n{HOST}{lines}\r\n"));
        assert_eq!(status(&answer), 400, "{lines:?}: {answer}");
    }
    assert_eq!(edge.shop.heads("/odd6"), [""; 0]);
}

#[test]
fn ed_08_http_1_0_is_spoken_to_and_the_shop_always_hears_1_1() {
    let edge = shared();
    let answer = send(&edge.url(), format!("GET /trailers?old HTTP/1.0\r\n{HOST}\r\n"));
    assert_eq!(status(&answer), 200, "{answer}");
    assert!(!answer.contains("chunked") && answer.ends_with("ok"), "{answer}");
    assert!(edge.shop.heads("/trailers?old")[0].starts_with("GET /trailers?old HTTP/1.1\r\n"));
    let coded = format!("POST /old HTTP/1.0\r\n{HOST}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
    assert_eq!(status(&send(&edge.url(), coded)), 400);
}

#[test]
fn ed_09_ed_10_there_is_exactly_one_host() {
    let edge = shared();
    for lines in [
        "",
        "Host: localhost\r\nHost: localhost\r\n",
        "Host: localhost\r\nHost: other\r\n",
        "Host: a,b\r\n",
        "Host: u@localhost\r\n",
        "Host: localhost:99999\r\n",
        "Host: [::1\r\n",
    ] {
        let answer = send(&edge.url(), format!("GET /hosts HTTP/1.1\r\n{lines}\r\n"));
        assert_eq!(status(&answer), 400, "{lines}: {answer}");
    }
    assert_eq!(edge.shop.heads("/hosts"), [""; 0]);
    let evil = send(&edge.url(), format!("GET http://evil.test/abs HTTP/1.1\r\n{HOST}\r\n"));
    assert_eq!(status(&evil), 400);
    assert_eq!(status(&ask(&edge.url(), "GET http://localhost/abs", &[])), 200);
    let head = edge.shop.heads("/abs").remove(0);
    assert!(head.starts_with("GET /abs HTTP/1.1\r\n"), "{head}");
    assert_eq!(header(&head, "host"), Some("localhost"));
}

#[test]
fn ed_12_connect_and_trace_are_not_served() {
    let edge = shared();
    for line in ["CONNECT localhost:443", "TRACE /", "TRACK /"] {
        let answer =
            send(&edge.url(), format!("{line} HTTP/1.1\r\n{HOST}\r\nGET /evil HTTP/1.1\r\n\r\n"));
        assert_eq!(status(&answer), 405, "{line}: {answer}");
        assert!(answer.contains("allow: GET"), "{answer}");
    }
    assert_eq!(edge.shop.heads("/evil"), [""; 0]);
    assert_eq!(status(&ask(&edge.url(), "OPTIONS *", &[])), 204);
}

#[test]
fn ed_13_ed_14_an_upgrade_to_anything_else_is_an_ordinary_request() {
    let edge = shared();
    let lines =
        "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n";
    let bytes = format!(
        "GET /h2c HTTP/1.1\r\n{HOST}{lines}\r\nGET /checkout/after HTTP/1.1\r\n{HOST}Connection: close\r\n\r\n"
    );

    let answer = send(&edge.url(), bytes);

    assert_eq!(status(&answer), 200, "{answer}");
    let head = edge.shop.heads("/h2c").remove(0).to_lowercase();
    for name in ["upgrade", "http2-settings", "connection"] {
        assert!(!head.contains(name), "{head}");
    }
    assert_eq!(edge.shop.heads("/checkout/after"), [""; 0]);
    assert!(answer.contains("HTTP/1.1 429 "), "{answer}");
}

#[test]
fn ed_16_ed_21_connection_takes_nothing_away_that_others_rely_on() {
    let edge = shared();
    for name in ["Content-Length", "X-Forwarded-Host", "Cookie", "Stanchion-Sale"] {
        let bytes = format!(
            "POST /nominated HTTP/1.1\r\n{HOST}Connection: close, {name}\r\nContent-Length: 2\r\n\r\nab"
        );
        assert_eq!(status(&send(&edge.url(), bytes)), 400, "{name}");
    }
    assert_eq!(edge.shop.heads("/nominated"), [""; 0]);
}

#[test]
fn ed_17_the_body_of_a_refused_request_is_never_a_request() {
    let edge = shared();
    let steal = format!("GET /steal HTTP/1.1\r\n{HOST}\r\n");
    let bytes = format!(
        "POST /checkout/cart HTTP/1.1\r\n{HOST}Content-Length: {}\r\n\r\n{steal}\
         GET /genuine HTTP/1.1\r\n{HOST}Connection: close\r\n\r\n",
        steal.len()
    );

    let answer = send(&edge.url(), bytes);

    assert_eq!(status(&answer), 429, "{answer}");
    assert_eq!(edge.shop.heads("/steal"), [""; 0]);
    assert_eq!(edge.shop.heads("/genuine").len(), answer.matches("HTTP/1.1 200 ").count());
}

#[test]
fn ed_66_oversized_heads_are_told_which_size() {
    let edge = shared();
    let long = format!("GET /{}", "a".repeat(9 * 1024));
    assert_eq!(status(&ask(&edge.url(), &long, &[])), 414);
    let fat = format!("X-Fat: {}", "a".repeat(70 * 1024));
    assert_eq!(status(&ask(&edge.url(), "GET /fat66", &[&fat])), 431);
    let many = vec!["X-Many: 1"; 101];
    assert_eq!(status(&ask(&edge.url(), "GET /many66", &many)), 431);
}

#[test]
fn ed_92_pipelined_requests_are_answered_in_order_each_at_its_gate() {
    let edge = shared();
    let mut bytes = String::new();
    for number in 0..20 {
        let path = if number % 2 == 0 { "/piped" } else { "/checkout/piped" };
        let close = if number == 19 { "Connection: close\r\n" } else { "" };
        write!(bytes, "GET {path}/{number} HTTP/1.1\r\n{HOST}{close}\r\n").unwrap();
    }

    let answer = send(&edge.url(), bytes);

    let statuses: Vec<_> = answer.matches("HTTP/1.1 ").collect();
    assert_eq!(statuses.len(), 20, "{answer}");
    assert_eq!(answer.matches("HTTP/1.1 200 OK").count(), 10);
    assert_eq!(answer.matches("HTTP/1.1 429 ").count(), 10);
    assert_eq!(edge.shop.heads("/checkout/piped"), [""; 0]);
}

#[test]
fn ed_61_a_connection_that_asks_nothing_is_closed() {
    let edge = shared();
    let mut silent = connect(&edge.url());
    let mut sniffed = connect(&edge.url());
    sniffed.write_all(b"PRI * HT").unwrap();
    let since = std::time::Instant::now();

    for stream in [&mut silent, &mut sniffed] {
        let mut rest = Vec::new();
        drop(stream.read_to_end(&mut rest));
    }

    let waited = since.elapsed().as_secs();
    assert!((5..=12).contains(&waited), "closed after {waited} s");
}
