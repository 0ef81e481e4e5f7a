//! An answer written as hyper would write it.

use std::cell::RefCell;
use std::io;
use std::time::{Duration, UNIX_EPOCH};

use hyper::header::{self, HeaderValue};
use hyper::{Response, StatusCode};

use crate::clock::{Clock, SystemClock};
use crate::http::body::Body;

const CLOSE: HeaderValue = HeaderValue::from_static("close");

/// Appends the answer to a request that was no HEAD; an error if its body is not there.
pub(super) fn write(response: Response<Body>, out: &mut Vec<u8>) -> io::Result<()> {
    let (parts, body) = response.into_parts();
    let body = body.into_whole().ok_or_else(|| io::Error::other("the answer is not there"))?;
    write_all(out, &["HTTP/1.1 ", parts.status.as_str(), " "]);
    write_all(out, &[parts.status.canonical_reason().unwrap_or_default(), "\r\n"]);
    for (name, value) in &parts.headers {
        write_all(out, &[name.as_str(), ": "]);
        out.extend_from_slice(value.as_bytes());
        write_all(out, &["\r\n"]);
    }
    let has_none = matches!(parts.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    if !has_none && !parts.headers.contains_key(header::CONTENT_LENGTH) {
        write_all(out, &["content-length: ", itoa::Buffer::new().format(body.len()), "\r\n"]);
    }
    with_date(|date| write_all(out, &["date: ", date, "\r\n\r\n"]));
    if !has_none {
        out.extend_from_slice(&body);
    }
    Ok(())
}

/// Whether nothing comes after an answer.
pub(super) fn is_last(response: &Response<Body>) -> bool {
    response.headers().get(header::CONNECTION).is_some_and(|value| value == CLOSE)
}

/// Says that nothing comes after it.
pub(super) fn end(response: &mut Response<Body>) {
    response.headers_mut().insert(header::CONNECTION, CLOSE);
}

fn write_all(out: &mut Vec<u8>, texts: &[&str]) {
    for text in texts {
        out.extend_from_slice(text.as_bytes());
    }
}

/// `Date`, put into words once a second on each core.
pub fn with_date<T>(tell: impl FnOnce(&str) -> T) -> T {
    thread_local! {
        static DATE: RefCell<(u64, String)> = const { RefCell::new((0, String::new())) };
    }
    let second = SystemClock.now_ms() / 1000;
    DATE.with_borrow_mut(|(told, date)| {
        if *told != second {
            *date = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(second));
            *told = second;
        }
        tell(date)
    })
}
