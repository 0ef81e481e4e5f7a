//! One address of a service behind us, and the idle connections to it.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hyper::header::{self, HeaderValue};
use hyper::{Method, Request, Uri};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use super::body;
use super::cores;
use super::link::Link;
use super::paced::Progress;
use super::upstream::UpstreamError;
use super::well::Well;

/// A connection is not used again when it is older.
const AGE_MAX: Duration = Duration::from_mins(5);
/// The same when the address is a name, which may have moved meanwhile.
const NAMED_AGE_MAX: Duration = Duration::from_secs(30);
/// Between two probes; who answered within it is not asked.
pub(super) const PROBE_EVERY: Duration = Duration::from_secs(1);

/// The text says what an address must look like.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("must be http://HOST[:PORT] without a path, like \"http://127.0.0.1:3000\"")]
pub struct OriginError;

/// One address of a service.
#[derive(Debug)]
pub(super) struct Origin {
    host: String,
    port: u16,
    age_max: Duration,
    /// Where the name led when it last led anywhere.
    known: Mutex<Vec<SocketAddr>>,
    /// Each core's own.
    idle: Vec<Mutex<Kept>>,
    keeping: Keeping,
    well: Well,
}

/// What is kept of connections.
#[derive(Debug, Clone, Copy)]
pub(super) struct Keeping {
    /// How many idle ones for each core.
    pub(super) idle: usize,
    /// How long each.
    pub(super) idle_time: Duration,
    /// How long one whose request is still on its way when the answer has ended.
    pub(super) rest: Duration,
}

#[derive(Debug, Default)]
struct Kept {
    /// The one that has been idle for longest comes first.
    links: VecDeque<Idle>,
    /// Whether a task closes what is idle for too long.
    is_swept: bool,
}

#[derive(Debug)]
struct Idle {
    link: Link,
    since: Instant,
}

impl Origin {
    /// One that keeps connections so.
    pub(super) fn parse(raw: &str, keeping: Keeping) -> Result<Self, OriginError> {
        let uri: Uri = raw.trim().parse().map_err(|_| OriginError)?;
        let plain = uri.scheme_str() == Some("http")
            && matches!(uri.path(), "" | "/")
            && uri.query().is_none();
        let host = uri.host().filter(|host| plain && !host.is_empty()).ok_or(OriginError)?;
        let host = host.trim_matches(['[', ']']);
        let is_name = host.parse::<IpAddr>().is_err();
        Ok(Self {
            host: host.to_owned(),
            port: uri.port_u16().unwrap_or(80),
            age_max: if is_name { NAMED_AGE_MAX } else { AGE_MAX },
            known: Mutex::default(),
            idle: std::iter::repeat_with(Mutex::default).take(cores::places()).collect(),
            keeping,
            well: Well::default(),
        })
    }

    /// No connection is used again when it is older.
    pub(super) fn age_max(&self) -> Duration {
        self.age_max
    }

    /// What is known of it.
    pub(super) fn well(&self) -> &Well {
        &self.well
    }

    /// An answer came.
    pub(super) fn answered(&self) {
        if self.well.answered(now()) {
            tracing::info!(address = %self, "a service behind us answers again");
        }
    }

    /// A request got no answer.
    pub(super) fn unanswered(&self) {
        if self.well.unanswered(now()) {
            tracing::warn!(address = %self, "a service behind us takes requests and answers none");
        }
    }

    /// Asks whether it is there: by a connection, or by a request if it has been mute.
    pub(super) async fn probe(&self, wait_max: Duration) {
        if self.well.answered_within(now(), PROBE_EVERY) {
            return;
        }
        if !self.well.is_mute() {
            drop(self.reach(wait_max).await);
            return;
        }
        let Ok(mut link) = self.connect(wait_max).await else { return };
        let mut request = Request::new(body::empty());
        *request.method_mut() = Method::HEAD;
        if let Ok(host) = HeaderValue::from_str(&self.to_string()) {
            request.headers_mut().insert(header::HOST, host);
        }
        let answer = link.exchange(&mut request, false, &Progress::default(), wait_max).await;
        if let Some(Ok(_response)) = answer {
            self.answered();
        }
    }

    /// A connection that was used before and can be used again.
    pub(super) fn take_idle(&self, now: Instant) -> Option<Link> {
        self.drop_stale(now);
        loop {
            let mut link = kept(self.own_idle()).links.pop_back()?.link;
            if link.age(now) < self.age_max && link.is_ready() {
                return Some(link);
            }
        }
    }

    /// Closes what nobody has used for too long.
    fn drop_stale(&self, now: Instant) {
        let idle_time = self.keeping.idle_time;
        let is_stale = |idle: &mut Idle| now.saturating_duration_since(idle.since) >= idle_time;
        loop {
            // Closed outside of the lock.
            let stale = kept(self.own_idle()).links.pop_front_if(is_stale);
            if stale.is_none() {
                return;
            }
        }
    }

    /// Keeps a connection that is ready for the next request.
    pub(super) fn keep(self: &Arc<Self>, link: Link) {
        let is_swept = {
            let mut kept = kept(self.own_idle());
            if kept.links.len() >= self.keeping.idle {
                return;
            }
            kept.links.push_back(Idle { link, since: Instant::now() });
            std::mem::replace(&mut kept.is_swept, true)
        };
        if !is_swept {
            #[expect(clippy::disallowed_methods, reason = "ends with the last idle connection")]
            tokio::spawn(Arc::clone(self).sweep());
        }
    }

    /// Nobody drives an idle connection: without this, one that the service has closed would stay
    /// half open until the next request comes. Stays on its core until nothing is idle.
    async fn sweep(self: Arc<Self>) {
        while let Some(since) = self.oldest_or_unswept() {
            tokio::time::sleep_until(since + self.keeping.idle_time).await;
            self.drop_stale(Instant::now());
        }
    }

    /// Since when the oldest has been idle; if there is none, the sweep has ended.
    fn oldest_or_unswept(&self) -> Option<Instant> {
        let mut kept = kept(self.own_idle());
        let oldest = kept.links.front().map(|idle| idle.since);
        kept.is_swept = oldest.is_some();
        oldest
    }

    /// Keeps one whose request is still on its way, once it has gone: its seat is taken until then.
    /// What takes too long is cut off.
    pub(super) fn keep_later(self: Arc<Self>, mut link: Link, seat: OwnedSemaphorePermit) {
        #[expect(clippy::disallowed_methods, reason = "ends with the request, or at its deadline")]
        tokio::spawn(async move {
            let gone = tokio::time::timeout(self.keeping.rest, link.becomes_ready()).await;
            if gone == Ok(true) {
                self.keep(link);
            } else {
                drop(link);
            }
            drop(seat);
        });
    }

    /// Of this core.
    fn own_idle(&self) -> &Mutex<Kept> {
        &self.idle[cores::current()]
    }

    /// A new connection.
    pub(super) async fn connect(&self, connect_max: Duration) -> Result<Link, UpstreamError> {
        let stream = self.reach(connect_max).await?;
        Ok(Link::over(stream))
    }

    /// A new socket; whether it could be reached is remembered.
    pub(super) async fn reach(&self, connect_max: Duration) -> Result<TcpStream, UpstreamError> {
        let dialled = self.dial(connect_max).await;
        let changed = match &dialled {
            Ok(_) => self.well.connected(now()),
            Err(_) => self.well.unreached(now()),
        };
        match &dialled {
            Ok(_) if changed => tracing::info!(address = %self, "a service behind us is back"),
            Err(error) if changed => {
                tracing::warn!(address = %self, %error, "a service behind us is down");
            }
            Ok(_) | Err(_) => {}
        }
        dialled
    }

    /// Where the name leads now, or where it led before if nobody can tell.
    async fn resolved(&self, wait_max: Duration) -> io::Result<Vec<SocketAddr>> {
        let looked_up = tokio::net::lookup_host((self.host.as_str(), self.port));
        let found = match tokio::time::timeout(wait_max, looked_up).await {
            Ok(found) => found.map(Iterator::collect),
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        };
        self.or_known(found)
    }

    fn or_known(&self, found: io::Result<Vec<SocketAddr>>) -> io::Result<Vec<SocketAddr>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        match found {
            Ok(found) if !found.is_empty() => known.clone_from(&found),
            Err(error) if known.is_empty() => return Err(error),
            Ok(_) | Err(_) => {}
        }
        Ok(known.clone())
    }

    async fn dial(&self, connect_max: Duration) -> Result<TcpStream, UpstreamError> {
        let dial = async {
            let addresses = self.resolved(connect_max / 2).await?;
            TcpStream::connect(addresses.as_slice()).await
        };
        let stream = tokio::time::timeout(connect_max, dial)
            .await
            .map_err(|_| UpstreamError::ConnectTimeout)?
            .map_err(UpstreamError::Connect)?;
        stream.set_nodelay(true).map_err(UpstreamError::Connect)?;
        Ok(stream)
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bracketed = self.host.contains(':');
        let (open, close) = if bracketed { ("[", "]") } else { ("", "") };
        write!(f, "{open}{}{close}:{}", self.host, self.port)
    }
}

fn kept(of_core: &Mutex<Kept>) -> MutexGuard<'_, Kept> {
    of_core.lock().unwrap_or_else(PoisonError::into_inner)
}

fn now() -> std::time::Instant {
    std::time::Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(raw: &str) -> Result<Origin, OriginError> {
        let (idle_time, rest) = (Duration::from_secs(4), Duration::from_secs(30));
        Origin::parse(raw, Keeping { idle: 64, idle_time, rest })
    }

    #[test]
    fn ed_88_a_name_that_moves_is_followed_and_one_that_is_lost_is_where_it_was() {
        let origin = parse("http://shop.test").unwrap();
        let (a, b): (SocketAddr, SocketAddr) =
            (([192, 0, 2, 1], 80).into(), ([192, 0, 2, 2], 80).into());
        let lost = || io::Error::other("SERVFAIL");

        assert!(origin.or_known(Err(lost())).is_err());
        assert_eq!(origin.or_known(Ok(vec![a])).unwrap(), [a]);
        assert_eq!(origin.or_known(Ok(vec![b])).unwrap(), [b]);
        assert_eq!(origin.or_known(Err(lost())).unwrap(), [b]);
        assert_eq!(origin.or_known(Ok(vec![])).unwrap(), [b]);
        assert_eq!(origin.age_max, NAMED_AGE_MAX, "a hot pool does not keep the old one");
        assert_eq!(parse("http://192.0.2.1").unwrap().age_max, AGE_MAX);
    }

    #[test]
    fn an_address_is_http_host_and_port() {
        for good in ["http://127.0.0.1:3000", "http://shop.test/", "http://[::1]:80"] {
            assert!(parse(good).is_ok(), "{good}");
        }
        for bad in ["", "127.0.0.1:3000", "https://a", "http://a/b", "http://a?x", "ftp://a"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
