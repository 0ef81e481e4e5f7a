//! A TCP link that can be slowed, frozen and cut, also at the very moment when given bytes have gone
//! through it: what happens between two machines, on one.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

const BUFFER: usize = 64 * 1024;

/// What becomes of a connection when the awaited bytes go by on it, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// Cut right after the server was sent them: nobody knows whether it acts on them.
    Sent,
    /// Cut when the server begins to answer: it has acted, and the answer is lost.
    Answered,
    /// Not cut: the server is sent them, and from then on no answer comes back to anybody.
    Unanswered,
}

/// What goes through, and where to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Weather {
    /// Where new connections lead.
    server: SocketAddr,
    /// Nothing reaches the server.
    questions_frozen: bool,
    /// Nothing reaches the clients.
    answers_frozen: bool,
    /// Each piece takes so much longer, on its way to the server.
    delay: Duration,
    /// New connections are closed at once.
    refusing: bool,
    /// Raised to cut whatever is connected.
    cuts: u32,
}

/// Bytes that something happens at.
struct Trap {
    bytes: Vec<u8>,
    moment: Moment,
    left: u32,
}

struct Link {
    weather: watch::Sender<Weather>,
    trap: Mutex<Option<Trap>>,
    sprung: AtomicU32,
}

/// A link to one server; gone when dropped, with all its connections.
pub struct FaultProxy {
    addr: SocketAddr,
    link: Arc<Link>,
    accepting: JoinHandle<()>,
}

impl FaultProxy {
    /// Listens on a free loopback port and connects whoever comes with `server`.
    pub async fn to(server: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let addr = listener.local_addr()?;
        let (weather, _) = watch::channel(Weather {
            server,
            questions_frozen: false,
            answers_frozen: false,
            delay: Duration::ZERO,
            refusing: false,
            cuts: 0,
        });
        let link = Arc::new(Link { weather, trap: Mutex::new(None), sprung: AtomicU32::new(0) });
        let accept = accept(listener, Arc::clone(&link));
        #[expect(clippy::disallowed_methods, reason = "it ends with the proxy")]
        let accepting = tokio::spawn(accept);
        Ok(Self { addr, link, accepting })
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The same URL by way of this link.
    pub fn url(&self, direct: &str) -> String {
        let authority = direct.split('/').nth(2).unwrap_or_default();
        let host = authority.rsplit('@').next().unwrap_or_default();
        direct.replacen(host, &self.addr.to_string(), 1)
    }

    /// Each piece on its way to the server takes so much longer.
    pub fn delay(&self, by: Duration) {
        self.link.weather.send_modify(|weather| weather.delay = by);
    }

    /// Nothing goes through in either direction; connections stay open.
    pub fn freeze(&self) {
        self.link.weather.send_modify(|weather| {
            (weather.questions_frozen, weather.answers_frozen) = (true, true);
        });
    }

    /// Whatever was held up goes through.
    pub fn thaw(&self) {
        self.link.weather.send_modify(|weather| {
            (weather.questions_frozen, weather.answers_frozen) = (false, false);
        });
    }

    /// Cuts all connections, and drops what was held up on them.
    pub fn cut(&self) {
        self.link.weather.send_modify(|weather| weather.cuts += 1);
    }

    /// Cuts all connections; new ones lead to another server.
    pub fn lead_to(&self, server: SocketAddr) {
        self.link.weather.send_modify(|weather| {
            weather.server = server;
            weather.cuts += 1;
        });
    }

    /// Whether new connections are closed at once.
    pub fn refuse(&self, refusing: bool) {
        self.link.weather.send_modify(|weather| weather.refusing = refusing);
    }

    /// Sets a trap: this happens when these bytes go to the server, so many times.
    pub fn trap(&self, bytes: &[u8], moment: Moment, times: u32) {
        let trap = Trap { bytes: bytes.to_owned(), moment, left: times };
        *self.link.armed() = Some(trap);
    }

    /// How often that has happened.
    pub fn sprung(&self) -> u32 {
        self.link.sprung.load(Ordering::Relaxed)
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Link {
    fn armed(&self) -> std::sync::MutexGuard<'_, Option<Trap>> {
        self.trap.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Springs the trap if its bytes end in `seen` behind the first `old` bytes.
    fn springs(&self, seen: &[u8], old: usize) -> Option<Moment> {
        let mut trap = self.armed();
        let armed = trap.as_mut().filter(|trap| trap.left > 0)?;
        let length = armed.bytes.len();
        let from = old.saturating_sub(length.saturating_sub(1));
        let found = seen.get(from..)?.windows(length).any(|window| window == armed.bytes);
        if !found {
            return None;
        }
        armed.left -= 1;
        self.sprung.fetch_add(1, Ordering::Relaxed);
        Some(armed.moment)
    }

    /// Waits until the weather lets a piece through.
    async fn passes(&self, frozen: impl Fn(&Weather) -> bool) {
        let mut weather = self.weather.subscribe();
        // Fails only when the proxy is gone, and this with it.
        let _gone = weather.wait_for(|weather| !frozen(weather)).await;
    }
}

async fn accept(listener: TcpListener, link: Arc<Link>) {
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        while connections.try_join_next().is_some() {}
        if !link.weather.borrow().refusing {
            connections.spawn(connect(client, Arc::clone(&link)));
        }
    }
}

/// Lives until either side ends or the link is cut.
async fn connect(client: TcpStream, link: Arc<Link>) -> io::Result<()> {
    let mut weather = link.weather.subscribe();
    let Weather { server, cuts, .. } = *weather.borrow_and_update();
    let server = TcpStream::connect(server).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let answered = watch::channel(false).0;
    tokio::select! {
        // First, so that a thaw right after a cut lets nothing through that was held up.
        biased;
        _cut = weather.wait_for(|weather| weather.cuts != cuts) => Ok(()),
        asked = questions(from_client, to_server, &link, &answered) => asked,
        told = answers(from_server, to_client, &link, &answered) => told,
    }
}

async fn questions(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    link: &Link,
    cut_at_answer: &watch::Sender<bool>,
) -> io::Result<()> {
    let mut seen = Vec::new();
    let mut piece = vec![0; BUFFER];
    loop {
        let length = from.read(&mut piece).await?;
        if length == 0 {
            return Ok(());
        }
        link.passes(|weather| weather.questions_frozen).await;
        let delay = link.weather.borrow().delay;
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        let old = seen.len();
        seen.extend_from_slice(&piece[..length]);
        let sprung = link.springs(&seen, old);
        // Before the server can answer.
        match sprung {
            Some(Moment::Answered) => drop(cut_at_answer.send_replace(true)),
            Some(Moment::Unanswered) => {
                link.weather.send_modify(|weather| weather.answers_frozen = true);
            }
            Some(Moment::Sent) | None => {}
        }
        to.write_all(&piece[..length]).await?;
        if sprung == Some(Moment::Sent) {
            return Ok(());
        }
        let kept = seen.len().min(1024);
        seen.drain(..seen.len() - kept);
    }
}

async fn answers(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    link: &Link,
    cut_at_answer: &watch::Sender<bool>,
) -> io::Result<()> {
    let mut piece = vec![0; BUFFER];
    loop {
        let length = from.read(&mut piece).await?;
        if length == 0 || *cut_at_answer.borrow() {
            return Ok(());
        }
        link.passes(|weather| weather.answers_frozen).await;
        to.write_all(&piece[..length]).await?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that sends back what it gets.
    async fn echo() -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let addr = listener.local_addr().unwrap();
        #[expect(clippy::disallowed_methods, reason = "a test's server ends with it")]
        tokio::spawn(async move {
            let mut echoing = JoinSet::new();
            while let Ok((mut stream, _)) = listener.accept().await {
                echoing.spawn(async move {
                    let (mut from, mut to) = stream.split();
                    tokio::io::copy(&mut from, &mut to).await
                });
            }
        });
        addr
    }

    async fn said(stream: &mut TcpStream, text: &[u8]) -> io::Result<Vec<u8>> {
        stream.write_all(text).await?;
        let mut answer = vec![0; text.len()];
        stream.read_exact(&mut answer).await?;
        Ok(answer)
    }

    #[tokio::test]
    async fn a_link_is_frozen_cut_and_refused_and_works_again() {
        let proxy = FaultProxy::to(echo().await).await.unwrap();
        assert_eq!(
            proxy.url("postgres://me@127.0.0.1:1/x"),
            format!("postgres://me@{}/x", proxy.addr())
        );
        let mut stream = TcpStream::connect(proxy.addr()).await.unwrap();
        assert_eq!(said(&mut stream, b"one").await.unwrap(), b"one");

        proxy.freeze();
        let mut held_up = Box::pin(said(&mut stream, b"two"));
        let waited = tokio::time::timeout(Duration::from_millis(50), &mut held_up).await;
        assert!(waited.is_err(), "nothing goes through a frozen link");
        proxy.thaw();
        assert_eq!(held_up.await.unwrap(), b"two");

        proxy.cut();
        assert!(said(&mut stream, b"three").await.is_err());
        proxy.refuse(true);
        let mut refused = TcpStream::connect(proxy.addr()).await.unwrap();
        assert!(said(&mut refused, b"four").await.is_err());
        proxy.refuse(false);
        let mut again = TcpStream::connect(proxy.addr()).await.unwrap();
        assert_eq!(said(&mut again, b"five").await.unwrap(), b"five");
    }

    #[tokio::test]
    async fn answers_stay_away_from_the_awaited_bytes_on() {
        let proxy = FaultProxy::to(echo().await).await.unwrap();
        proxy.trap(b"last words", Moment::Unanswered, 1);
        let mut stream = TcpStream::connect(proxy.addr()).await.unwrap();
        assert_eq!(said(&mut stream, b"first").await.unwrap(), b"first");
        let mut unanswered = Box::pin(said(&mut stream, b"last words"));
        let waited = tokio::time::timeout(Duration::from_millis(50), &mut unanswered).await;
        assert!(waited.is_err(), "it was answered");
        proxy.thaw();
        assert_eq!(unanswered.await.unwrap(), b"last words");
    }

    #[tokio::test]
    async fn a_link_is_cut_when_the_awaited_bytes_go_by_even_in_two_pieces() {
        for moment in [Moment::Sent, Moment::Answered] {
            let proxy = FaultProxy::to(echo().await).await.unwrap();
            proxy.trap(b"COMMIT", moment, 1);
            let mut stream = TcpStream::connect(proxy.addr()).await.unwrap();
            assert_eq!(said(&mut stream, b"xxCOM").await.unwrap(), b"xxCOM");
            assert!(said(&mut stream, b"MITyy").await.is_err(), "{moment:?}");
            assert_eq!(proxy.sprung(), 1);
            let mut after = TcpStream::connect(proxy.addr()).await.unwrap();
            assert_eq!(said(&mut after, b"COMMIT").await.unwrap(), b"COMMIT", "once only");
        }
    }
}
