//! A request that came in one piece with all of its body, read as hyper would read it; nothing
//! where one of the two might see more in the bytes than the other, or less.

use std::mem::MaybeUninit;

use bytes::Bytes;
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{HeaderMap, Method, Request, Uri, Version};

use crate::http::guard::Sizes;
use crate::http::received::Received;

/// More is for hyper.
const FIELDS_MAX: usize = 64;
/// They say that there is more to come, or something else.
const OUT_OF_THE_ORDINARY: [HeaderName; 3] =
    [header::TRANSFER_ENCODING, header::EXPECT, header::UPGRADE];

/// Reads one; nothing if the bytes are more or less than one plain request.
pub fn read(bytes: &[u8], sizes: &Sizes) -> Option<Request<Received>> {
    let bytes = Bytes::copy_from_slice(bytes);
    let mut fields = [const { MaybeUninit::uninit() }; FIELDS_MAX];
    let mut head = httparse::Request::new(&mut []);
    let parsed = head.parse_with_uninit_headers(&bytes, &mut fields);
    let Ok(httparse::Status::Complete(length)) = parsed else { return None };
    let path = head.path.filter(|path| path.starts_with('/') && head.version == Some(1))?;
    if length > sizes.head || head.headers.len() > sizes.fields {
        return None;
    }
    let headers = headers(&bytes, head.headers)?;
    let body = bytes.slice(length..);
    if body_length(&headers)? != body.len() {
        return None;
    }
    let mut request = Request::new(Received::Here(body));
    *request.method_mut() = Method::from_bytes(head.method?.as_bytes()).ok()?;
    *request.uri_mut() = Uri::from_maybe_shared(bytes.slice_ref(path.as_bytes())).ok()?;
    *request.version_mut() = Version::HTTP_11;
    *request.headers_mut() = headers;
    Some(request)
}

/// The fields as hyper keeps them, if there is nothing odd among them.
fn headers(bytes: &Bytes, fields: &[httparse::Header<'_>]) -> Option<HeaderMap> {
    let mut headers = HeaderMap::with_capacity(fields.len());
    for field in fields {
        let name = HeaderName::from_bytes(field.name.as_bytes()).ok()?;
        let is_kept = || field.value.eq_ignore_ascii_case(b"keep-alive");
        if OUT_OF_THE_ORDINARY.contains(&name) || name == header::CONNECTION && !is_kept() {
            return None;
        }
        let value = HeaderValue::from_maybe_shared(bytes.slice_ref(field.value)).ok()?;
        headers.append(name, value);
    }
    Some(headers)
}

/// What `Content-Length` says, once and in digits only.
fn body_length(headers: &HeaderMap) -> Option<usize> {
    let mut lengths = headers.get_all(header::CONTENT_LENGTH).iter();
    match (lengths.next(), lengths.next()) {
        (None, _) => Some(0),
        (Some(length), None) => {
            let digits = length.to_str().ok().filter(|text| {
                !text.is_empty() && text.bytes().all(|letter| letter.is_ascii_digit())
            })?;
            digits.parse().ok()
        }
        (Some(_), Some(_)) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_all(text: &str) -> Option<Request<Received>> {
        read(text.as_bytes(), &Sizes::default())
    }

    #[test]
    fn a_plain_request_is_read_with_its_body() {
        let text = "POST /a?b=%20 HTTP/1.1\r\nHOST: shop.test\r\nCookie: a=1\r\ncookie: b=2\r\n\
                    Content-Length: 2\r\nConnection: Keep-Alive\r\n\r\n{}";
        let request = read_all(text).unwrap();
        assert_eq!(request.method(), Method::POST);
        assert_eq!(request.uri(), "/a?b=%20");
        assert_eq!(request.headers()[header::HOST], "shop.test");
        assert_eq!(request.headers().get_all(header::COOKIE).iter().count(), 2);
        assert!(matches!(request.body(), Received::Here(body) if body == "{}"));
        assert!(read_all("POST / HTTP/1.1\r\nHost: a\r\n\r\n").is_some(), "without a body");

        let few = Sizes { fields: 4, ..Sizes::default() };
        assert!(read(text.as_bytes(), &few).is_none(), "more fields than may be");
        let short = Sizes { head: 40, ..Sizes::default() };
        assert!(read(text.as_bytes(), &short).is_none(), "a longer head than may be");
    }

    #[test]
    fn whatever_might_be_more_or_less_than_one_request_is_for_hyper() {
        for (lines, body) in [
            ("Content-Length: 2", "{"),
            ("Content-Length: 2", "{}G"),
            ("Content-Length: +2", "{}"),
            ("Content-Length: 2, 2", "{}"),
            ("Content-Length:", ""),
            ("Content-Length: 2\r\nContent-Length: 2", "{}"),
            ("Content-Length: 99999999999999999999", "{}"),
            ("Transfer-Encoding: chunked", "0\r\n\r\n"),
            ("Transfer-Encoding: chunked\r\nContent-Length: 5", "0\r\n\r\n"),
            ("Expect: 100-continue\r\nContent-Length: 2", "{}"),
            ("Upgrade: h2c\r\nContent-Length: 2", "{}"),
            ("Connection: close\r\nContent-Length: 2", "{}"),
            ("Connection: keep-alive, content-length\r\nContent-Length: 2", "{}"),
            ("A: b", "{}"),
            ("A : b\r\nContent-Length: 2", "{}"),
            ("A: b\r\n c\r\nContent-Length: 2", "{}"),
        ] {
            let text = format!("POST / HTTP/1.1\r\nHost: a\r\n{lines}\r\n\r\n{body}");
            assert!(read_all(&text).is_none(), "{text:?}");
        }
        for line in
            ["POST / HTTP/1.0", "POST http://a/ HTTP/1.1", "POST * HTTP/1.1", "POST  / HTTP/1.1"]
        {
            assert!(read_all(&format!("{line}\r\nHost: a\r\n\r\n")).is_none(), "{line}");
        }
        assert!(read_all("POST / HTTP/1.1\r\nHost: a\r\n").is_none());
    }
}
