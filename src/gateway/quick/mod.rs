//! Without hyper: a poll answered from its bytes, which most requests to a gateway are, all alike but
//! for the ticket; and calls of ours, the road that all requests take. Anything out of the ordinary
//! is for hyper, and would be given the same answer.

mod poll;

use std::cell::RefCell;
use std::fmt::Write;
use std::sync::{Arc, LazyLock};

use hyper::header::HeaderValue;

use super::Gateway;
use super::https::HSTS;
use super::limiter::Standing;
use super::respond;
use crate::http::listener::Peer;
use crate::http::quick::{Answering, Quick, whole, with_date};
use poll::Poll;

/// How calls of ours begin, which are answered by what is there at once.
const CALL: &[u8] = b"POST /_stanchion/";
/// What a body is seldom longer than.
const BODY_BYTES: usize = 1024;

impl Quick for Gateway {
    fn answer(&self, request: &[u8], peer: &Peer, out: &mut Vec<u8>) -> bool {
        request.len() <= self.sizes.head && self.poll(request, peer, out).is_some()
    }

    fn begin(self: Arc<Self>, request: &[u8], peer: &Peer) -> Option<Answering> {
        if !request.starts_with(CALL) {
            return None;
        }
        let request = whole::read(request, &self.sizes)?;
        Some(self.handle(request, peer.clone()))
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
        let ticket = self.keys.glance_at_ticket(poll.token(sale, https)?, sale.id())?;
        if ticket.run != run {
            return None;
        }
        let standing = self.limiter.load().poll(sale.id().as_str(), ticket.sub())?;
        peer.guest.know();
        let hsts = self.https.hsts().filter(|_| https);
        let is_shared = !self.cors_origins.load().is_empty();
        BODY.with_borrow_mut(|body| {
            body.clear();
            sale.told.write(body, sale.told.to(Some(ticket.cohort), None));
            write_answer(out, &standing, (hsts, is_shared), body).ok()
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
    (hsts, is_shared): (Option<&HeaderValue>, bool),
    body: &[u8],
) -> std::fmt::Result {
    out.extend_from_slice(&HEAD);
    let mut text = Text(out);
    standing.write(&mut text)?;
    if let Some(hsts) = hsts.and_then(|hsts| hsts.to_str().ok()) {
        write!(text, "{HSTS}: {hsts}\r\n")?;
    }
    if is_shared {
        text.write_str("vary: Origin\r\n")?;
    }
    text.write_str("content-length: ")?;
    text.write_str(itoa::Buffer::new().format(body.len()))?;
    text.write_str("\r\ndate: ")?;
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio_util::sync::CancellationToken;
    use tokio_util::task::TaskTracker;

    use super::*;
    use crate::config::Settings;
    use crate::domain::ticket::{Cohort, Ticket};
    use crate::gateway::GatewayParts;
    use crate::gateway::newcomer::tests::{Alone, alone};
    use crate::http::guests::Guest;
    use crate::room::keys::Keys;
    use crate::telemetry::Metrics;
    use poll::tests::request;

    /// A gateway whose sale's lobby is open, and its keys.
    fn gateway() -> (Gateway, Arc<Keys>) {
        let Alone { settings, room, keys, clock, .. } = alone("");
        let settings = Settings { sales: vec![settings], ..Settings::default() };
        let gateway = Gateway::new(GatewayParts {
            settings: &settings,
            rooms: vec![room],
            keys: Arc::clone(&keys),
            clock,
            core_url: "http://127.0.0.1:1".into(),
            core_key: "key".into(),
            shop_secret: None,
            draining: CancellationToken::new(),
            connections: TaskTracker::new(),
            metrics: &Metrics::new("gateway"),
        });
        (gateway.unwrap(), keys)
    }

    /// What is answered at once; nothing if it is for the long road.
    fn answer(gateway: &Gateway, request: &[u8]) -> Option<String> {
        let guest = Arc::new(Guest::uncounted());
        let address = ([127, 0, 0, 1], 1).into();
        let peer = Peer { address, tls: false, presented: None, guest };
        let mut out = vec![];
        let is_answered = Quick::answer(gateway, request, &peer, &mut out);
        assert_eq!(is_answered, !out.is_empty(), "all of an answer, or nothing");
        is_answered.then(|| String::from_utf8(out).unwrap())
    }

    #[tokio::test]
    async fn who_holds_a_place_is_answered_at_once_within_the_quota_and_nobody_else() {
        let (gateway, keys) = gateway();
        let sale = &gateway.sales[0];
        let run = sale.run_and_epoch().0;
        let token = |run| {
            let (sale, cohort) = (sale.id().clone(), Cohort::Entry(7));
            let sub = keys.subject(&sale, run, cohort);
            keys.mint_ticket(Ticket { sale, run, sub, cohort, account: None, issued_at: 1 })
        };
        let (own, dead) = (token(run), token(run + 1));
        let cookie = format!("Cookie: a=1; stanchion-ticket-drop={own}; b=2");
        let asked = |host: &str, line: &str| answer(&gateway, &request(&[host, line]));

        let told = asked("Host: localhost:8080", &cookie).unwrap();
        let (head, body) = told.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        assert!(head.contains(&format!("\r\ncontent-length: {}\r\n", body.len())), "{head}");
        let body: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(body["place"]["entry"], 7);

        assert!(asked("Host: localhost", &format!("Stanchion-Ticket: {own}")).is_some());
        for (host, line) in [
            ("Host: other.test", cookie.clone()),
            ("Host: localhost", format!("Stanchion-Ticket: {dead}")),
            ("Host: localhost", format!("Stanchion-Ticket: {own}x")),
            ("Host: localhost", format!("{cookie}; stanchion-ticket-drop={own}")),
            ("Host: localhost", format!("{cookie}; stanchion-pass-drop=p")),
            ("Host: localhost", format!("{cookie}\r\nStanchion-Ticket: {own}")),
            ("Host: localhost", "Accept: */*".into()),
        ] {
            assert_eq!(asked(host, &line), None, "{host}, {line}");
        }
        let burst = Settings::default().limits.poll.burst;
        let served = (0..=burst).filter(|_| asked("Host: localhost", &cookie).is_some()).count();
        assert!(served < usize::try_from(burst).unwrap(), "two were used before: {served}");
    }
}
