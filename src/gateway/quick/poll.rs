//! A plain poll, read from its bytes by rules that let nothing odd through.

use std::mem::MaybeUninit;

use crate::gateway::cookies::Found;
use crate::gateway::sale::SaleGate;
use crate::http::listener::Peer;

/// A plain poll has fewer header fields.
const FIELDS_MAX: usize = 32;
/// Whoever sends one of these wants more than a plain answer, or may not get one.
const OUT_OF_THE_ORDINARY: [&str; 7] = [
    "content-length",
    "transfer-encoding",
    "expect",
    "upgrade",
    "origin",
    "forwarded",
    "stanchion-admission",
];

/// What a plain poll says.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Poll<'a> {
    pub(super) sale: &'a str,
    /// Without port, as it was written.
    pub(super) host: &'a str,
    /// `X-Forwarded-Proto`: only a trusted proxy's counts.
    proto: Option<&'a [u8]>,
    cookies: Option<&'a [u8]>,
    ticket: Option<&'a str>,
}

impl<'a> Poll<'a> {
    /// Reads one; nothing if the bytes are anything else, or if a field of it is not told once and
    /// plainly.
    pub(super) fn read(request: &'a [u8], fields_max: usize) -> Option<Self> {
        request.strip_prefix(b"GET /_stanchion/")?;
        let mut fields = [const { MaybeUninit::uninit() }; FIELDS_MAX];
        let mut head = httparse::Request::new(&mut []);
        match head.parse_with_uninit_headers(request, &mut fields) {
            Ok(httparse::Status::Complete(bytes)) if bytes == request.len() => {}
            Ok(_) | Err(_) => return None,
        }
        let path = head.path.filter(|_| head.version == Some(1))?;
        let sale = path.strip_prefix("/_stanchion/")?.strip_suffix("/status")?;
        let (mut host, mut proto, mut cookies, mut ticket) = (None, None, None, None);
        if head.headers.len() > fields_max {
            return None;
        }
        for field in head.headers.iter() {
            let is = |name: &str| field.name.eq_ignore_ascii_case(name);
            let told = match field.name.len() {
                4 if is("host") => &mut host,
                6 if is("cookie") => &mut cookies,
                10 if is("connection") && !field.value.eq_ignore_ascii_case(b"keep-alive") => {
                    return None;
                }
                16 if is("stanchion-ticket") => &mut ticket,
                17 if is("x-forwarded-proto") => &mut proto,
                _ if OUT_OF_THE_ORDINARY.iter().any(|name| is(name)) => return None,
                _ => continue,
            };
            if told.replace(field.value).is_some() {
                return None;
            }
        }
        let ticket = ticket.map(std::str::from_utf8).transpose().ok()?;
        Some(Self { sale, host: bare(std::str::from_utf8(host?).ok()?)?, proto, cookies, ticket })
    }

    /// Whether the visitor sees https; nothing if that is told in an odd way.
    pub(super) fn https(&self, peer: &Peer, is_proxy: bool) -> Option<bool> {
        match self.proto.filter(|_| is_proxy) {
            None => Some(peer.tls),
            Some(b"https") => Some(true),
            Some(b"http") => Some(false),
            Some(_) => None,
        }
    }

    /// The one token that it brings.
    pub(super) fn token(&self, sale: &SaleGate, https: bool) -> Option<&'a str> {
        let Some(line) = self.cookies else { return self.ticket };
        let found = Found::in_line(line, &sale.cookies, https);
        match (self.ticket, found.tickets.as_slice(), found.passes.is_empty()) {
            (token, [], true) => token,
            (None, [token], true) => Some(token),
            _ => None,
        }
    }
}

/// A host without its port.
fn bare(host: &str) -> Option<&str> {
    let Some((name, port)) = host.split_once(':') else { return Some(host) };
    let is_port = port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok();
    is_port.then_some(name)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::gateway::quick) fn request(lines: &[&str]) -> Vec<u8> {
        format!("GET /_stanchion/drop/status HTTP/1.1\r\n{}\r\n\r\n", lines.join("\r\n")).into()
    }

    fn read(lines: &[&str]) -> bool {
        Poll::read(&request(lines), 100).is_some()
    }

    #[test]
    fn a_plain_poll_is_read_as_it_is_written() {
        let plain = request(&["HOST: shop.test:8080", "Cookie: a=1", "Accept: */*"]);
        let poll = Poll::read(&plain, 100).unwrap();
        assert_eq!((poll.sale, poll.host), ("drop", "shop.test"));
        assert_eq!((poll.cookies, poll.ticket), (Some(&b"a=1"[..]), None));
        assert_eq!(Poll::read(&plain, 2), None, "more fields than may be");
        assert!(read(&["Host: a", "Connection: Keep-Alive", "Stanchion-Ticket: t"]));
    }

    #[test]
    fn whatever_is_out_of_the_ordinary_takes_the_long_road() {
        for line in [
            "Host: a",
            "Cookie: b=1\r\nCookie: c=1",
            "Connection: close",
            "Connection: keep-alive, x-forwarded-for",
            "Content-Length: 0",
            "Transfer-Encoding: chunked",
            "Expect: 100-continue",
            "Upgrade: websocket",
            "Origin: https://a",
            "Forwarded: for=1.2.3.4",
            "Stanchion-Admission: x",
            "Stanchion-Ticket: t\r\nstanchion-ticket: u",
            "X-Forwarded-Proto: https\r\nX-Forwarded-Proto: http",
            "Bad Name: x",
            "A: x\r\n folded",
        ] {
            assert!(!read(&["Host: a", line]), "{line:?}");
        }
        assert!(!read(&["Accept: */*"]), "no host");
        for host in ["a:b", "a:99999", "[::1]:80"] {
            assert!(!read(&[&format!("Host: {host}")]), "{host:?}");
        }
        for other in [
            "HEAD /_stanchion/drop/status HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET /_stanchion/drop/status HTTP/1.0\r\nHost: a\r\n\r\n",
            "GET /_stanchion/drop/status?x HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET /_stanchion/drop/stat%75s HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET http://a/_stanchion/drop/status HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET /_stanchion/drop/status HTTP/1.1\r\nHost: a\r\n\r\nGET",
            "GET /_stanchion/drop/status HTTP/1.1\r\nHost: a\r\n",
        ] {
            assert_eq!(Poll::read(other.as_bytes(), 100), None, "{other:?}");
        }
    }
}
