//! Heads: a request's written, an answer's read.

use std::mem::MaybeUninit;

use bytes::Bytes;
use httparse::{ParserConfig, Status};
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{HeaderMap, Request, Response, StatusCode};

/// Fields of an answer; more are hyper's.
const FIELDS_MAX: usize = 64;

/// A plain answer's head.
pub(super) struct Head {
    /// How long it is.
    pub(super) bytes: usize,
    /// With the length of its body.
    pub(super) response: Response<u64>,
}

/// Whether these headers promise no body and no upgrade.
pub(super) fn is_plain(headers: &HeaderMap) -> bool {
    !headers.contains_key(header::UPGRADE) && !headers.contains_key(header::TRANSFER_ENCODING)
}

/// Writes a request without a body.
pub(super) fn write<B>(request: &Request<B>, out: &mut Vec<u8>) {
    let target = request.uri().path_and_query().map_or("/", |target| target.as_str());
    for part in [request.method().as_str(), " ", target, " HTTP/1.1\r\n"] {
        out.extend_from_slice(part.as_bytes());
    }
    for (name, value) in request.headers() {
        out.extend_from_slice(name.as_str().as_bytes());
        out.extend_from_slice(b": ");
        out.extend_from_slice(value.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"\r\n");
}

/// Whether what does not end as a head does is one in some other way, or none.
pub(super) fn is_odd(bytes: &[u8]) -> bool {
    let mut fields = [const { MaybeUninit::uninit() }; FIELDS_MAX];
    let mut head = httparse::Response::new(&mut []);
    let config = ParserConfig::default();
    let read = config.parse_response_with_uninit_headers(&mut head, bytes, &mut fields);
    !matches!(read, Ok(Status::Partial))
}

/// Reads a whole head into a map whose memory is used again; none if it is not plain.
pub(super) fn read(bytes: &Bytes, is_head: bool, map: &mut HeaderMap) -> Option<Head> {
    let mut fields = [const { MaybeUninit::uninit() }; FIELDS_MAX];
    let mut head = httparse::Response::new(&mut []);
    let config = ParserConfig::default();
    let read = config.parse_response_with_uninit_headers(&mut head, bytes, &mut fields);
    let Ok(Status::Complete(count)) = read else { return None };
    let status = StatusCode::from_u16(head.code?).ok()?;
    let is_worded = head.reason == status.canonical_reason();
    if head.version != Some(1) || status.is_informational() || !is_worded {
        return None;
    }
    let mut headers = std::mem::take(map);
    headers.clear();
    headers.reserve(head.headers.len());
    if !fill(&mut headers, bytes, head.headers) {
        return None;
    }
    let is_bodiless =
        is_head || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    let length = headers.get(header::CONTENT_LENGTH).map(|text| number(text.as_bytes()));
    // One that is there is a number, whether there is a body or not.
    let length = match length {
        Some(length) if is_bodiless => length.map(|_| 0),
        None if is_bodiless => Some(0),
        length => length.flatten(),
    };
    let mut response = Response::new(length?);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    Some(Head { bytes: count, response })
}

/// Takes the fields over; false if the connection ends with this answer, or if its body is framed in
/// another way than by one length.
fn fill(map: &mut HeaderMap, bytes: &Bytes, fields: &[httparse::Header<'_>]) -> bool {
    fields.iter().all(|field| {
        let name = HeaderName::from_bytes(field.name.as_bytes());
        let value = HeaderValue::from_maybe_shared(bytes.slice_ref(field.value));
        let (Ok(name), Ok(value)) = (name, value) else { return false };
        let is_plain = match name {
            header::TRANSFER_ENCODING => false,
            header::CONNECTION => field.value.eq_ignore_ascii_case(b"keep-alive"),
            header::CONTENT_LENGTH => !map.contains_key(header::CONTENT_LENGTH),
            _ => true,
        };
        map.append(name, value);
        is_plain
    })
}

/// Digits and nothing else.
fn number(text: &[u8]) -> Option<u64> {
    let are_digits = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(text).ok().filter(|_| are_digits)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(head: &'static str) -> Option<Response<u64>> {
        let bytes = Bytes::from_static(head.as_bytes());
        read(&bytes, false, &mut HeaderMap::new()).map(|head| head.response)
    }

    #[test]
    fn an_answer_that_tells_its_length_is_plain() {
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nX-A: 1\r\nX-A: 2\r\n\r\nabc";
        let response = plain(head).unwrap();
        assert_eq!((response.status(), *response.body()), (StatusCode::OK, 3));
        assert_eq!(response.headers().get_all("x-a").iter().count(), 2);
        assert_eq!(
            *plain("HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n").unwrap().body(),
            0
        );
        assert!(
            plain("HTTP/1.1 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 0\r\n\r\n")
                .is_some()
        );

        let bytes = Bytes::from_static(b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n");
        let head = read(&bytes, true, &mut HeaderMap::new()).unwrap();
        assert_eq!((head.bytes, *head.response.body()), (bytes.len(), 0));
        assert_eq!(head.response.headers()[header::CONTENT_LENGTH], "7");
    }

    #[test]
    fn whatever_else_there_is_goes_to_hyper() {
        for odd in [
            "HTTP/1.1 100 Continue\r\n\r\n",
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n",
            "HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\n",
            "HTTP/1.1 200 Fine\r\nContent-Length: 1\r\n\r\n",
            "HTTP/1.1 200 OK\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 1, 1\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: close\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n X-A: folded\r\n\r\n",
            "nonsense\r\n\r\n",
        ] {
            assert!(plain(odd).is_none(), "{odd}");
        }
        assert!(is_odd(b"HTTP/1.1 200 OK\n\n") && is_odd(b"SSH-2.0"));
        assert!(!is_odd(b"HTTP/1.1 200 OK\r\nContent-Le"));
    }

    #[test]
    fn a_request_is_written_as_it_is() {
        let request = Request::put("http://shop.test/a?b").header("host", "shop.test");
        let request = request.header("x-a", "1").header("x-a", "2").body(()).unwrap();
        let mut out = vec![];
        write(&request, &mut out);
        let wanted = "PUT /a?b HTTP/1.1\r\nhost: shop.test\r\nx-a: 1\r\nx-a: 2\r\n\r\n";
        assert_eq!(String::from_utf8(out).unwrap(), wanted);
    }
}
