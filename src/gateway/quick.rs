//! A poll answered from its bytes: what most requests to a gateway are, all alike but for the
//! ticket. Anything out of the ordinary takes the long road, which would give the same answer.

use std::cell::RefCell;
use std::fmt::Write;
use std::sync::LazyLock;
use std::time::{Duration, UNIX_EPOCH};

use hyper::header::HeaderValue;

use super::Gateway;
use super::cookies::Found;
use super::https::HSTS;
use super::limiter::Standing;
use super::respond;
use super::sale::SaleGate;
use crate::clock::{Clock, SystemClock};
use crate::http::listener::Peer;
use crate::http::quick::Quick;

/// A plain poll has fewer header fields.
const FIELDS_MAX: usize = 32;
/// What a body is seldom longer than.
const BODY_BYTES: usize = 1024;

/// Whoever sends one of these wants more than a plain answer, or may not get one.
const OUT_OF_THE_ORDINARY: [&str; 9] = [
    "content-length",
    "transfer-encoding",
    "expect",
    "upgrade",
    "origin",
    "forwarded",
    "stanchion-admission",
    "x-http-method-override",
    "http2-settings",
];

/// What a plain poll says.
#[derive(Debug, PartialEq, Eq)]
struct Poll<'a> {
    sale: &'a str,
    /// Without port, as it was written.
    host: &'a str,
    /// `X-Forwarded-Proto`: only a trusted proxy's counts.
    proto: Option<&'a [u8]>,
    cookies: Option<&'a [u8]>,
    ticket: Option<&'a str>,
}

impl<'a> Poll<'a> {
    /// Reads one; nothing if the bytes are anything else, or if a field of it is not told once and
    /// plainly.
    fn read(request: &'a [u8], fields_max: usize) -> Option<Self> {
        request.strip_prefix(b"GET /_stanchion/")?;
        let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
        let mut head = httparse::Request::new(&mut fields);
        match head.parse(request) {
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
    fn https(&self, peer: &Peer, is_proxy: bool) -> Option<bool> {
        match self.proto.filter(|_| is_proxy) {
            None => Some(peer.tls),
            Some(b"https") => Some(true),
            Some(b"http") => Some(false),
            Some(_) => None,
        }
    }

    /// The one token that it brings.
    fn token(&self, sale: &SaleGate, https: bool) -> Option<&'a str> {
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

impl Quick for Gateway {
    fn answer(&self, request: &[u8], peer: &Peer, out: &mut Vec<u8>) -> bool {
        request.len() <= self.sizes.head && self.poll(request, peer, out).is_some()
    }
}

impl Gateway {
    fn poll(&self, request: &[u8], peer: &Peer, out: &mut Vec<u8>) -> Option<()> {
        let poll = Poll::read(request, self.sizes.fields)?;
        let sale = self.sales.iter().find(|sale| sale.id().as_str() == poll.sale)?;
        let is_proxy = self.trusted.contains(peer.address.ip());
        let https = poll.https(peer, is_proxy)?;
        let is_here = self.hostnames.iter().any(|name| name == poll.host);
        let is_shown = is_proxy || peer.presented.as_ref().is_none_or(|it| it.covers(poll.host));
        if !is_here || !is_shown || (self.https.redirects() && !https) {
            return None;
        }
        let (run, _) = sale.run_and_epoch();
        let ticket = self.keys.read_ticket(poll.token(sale, https)?, sale.id())?;
        if ticket.run != run {
            return None;
        }
        let standing = self.limiter.load().poll(sale.id().as_str(), &ticket.sub)?;
        peer.guest.know();
        let hsts = self.https.hsts().filter(|_| https);
        BODY.with_borrow_mut(|body| {
            body.clear();
            sale.told.write(body, sale.told.to(Some(&ticket), None));
            write_answer(out, &standing, hsts, body).ok()
        })?;
        self.counted.count_status();
        tracing::debug!(path = "…/status", status = 200, "answered");
        Some(())
    }
}

thread_local! {
    /// Written before its head, which tells how long it is.
    static BODY: RefCell<Vec<u8>> = RefCell::new(Vec::with_capacity(BODY_BYTES));
}

fn write_answer(
    out: &mut Vec<u8>,
    standing: &Standing,
    hsts: Option<&HeaderValue>,
    body: &[u8],
) -> std::fmt::Result {
    out.extend_from_slice(&HEAD);
    let mut text = Text(out);
    standing.write(&mut text)?;
    if let Some(hsts) = hsts.and_then(|hsts| hsts.to_str().ok()) {
        write!(text, "{HSTS}: {hsts}\r\n")?;
    }
    write!(text, "content-length: {}\r\ndate: ", body.len())?;
    with_date(|date| text.write_str(date))?;
    text.write_str("\r\n\r\n")?;
    out.extend_from_slice(body);
    Ok(())
}

/// The beginning of all heads.
static HEAD: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut head = b"HTTP/1.1 200 OK\r\n".to_vec();
    for (name, value) in &*respond::STATUS {
        head.extend_from_slice(name.as_str().as_bytes());
        head.extend_from_slice(b": ");
        head.extend_from_slice(value.as_bytes());
        head.extend_from_slice(b"\r\n");
    }
    head
});

/// Text appended to bytes.
struct Text<'a>(&'a mut Vec<u8>);

impl std::fmt::Write for Text<'_> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

/// `Date`, put into words once a second on each core.
fn with_date<T>(tell: impl FnOnce(&str) -> T) -> T {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn request(lines: &[&str]) -> Vec<u8> {
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
