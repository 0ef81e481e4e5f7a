//! The accept loop: bounded connections, soft stop.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::{Request, Response};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::body::{self, Body};
use super::bounds::Bounds;
use super::connection;
use super::guests::{Guest, Guests};
use super::quick::Quick;
use super::tls::{Certificates, Presented};
use super::trusted::Trusted;

/// Rest after a failed accept: out of file descriptors is not cured by asking again at once.
const ACCEPT_REST: Duration = Duration::from_millis(50);

/// Who is at the other end of a connection.
#[derive(Debug, Clone)]
pub struct Peer {
    /// Of the socket, or as a load balancer announced it; no header is believed yet.
    pub address: SocketAddr,
    /// Whether the connection is encrypted, up to us or up to a load balancer that says so.
    pub tls: bool,
    /// What was shown to a client that asked for a name.
    pub presented: Option<Arc<Presented>>,
    /// How it counts among those of its address.
    pub guest: Arc<Guest>,
}

/// How a listener behaves.
#[derive(Clone)]
pub struct Options {
    /// Connections open at once, over all listeners that share it; each accept loop has one more
    /// wait for its seat, the rest wait in the kernel's queue.
    pub seats: Arc<Semaphore>,
    /// Encrypts, if set; ALPN then chooses between HTTP/2 and 1.1.
    pub certificates: Option<Arc<Certificates>>,
    /// Each connection must begin with a PROXY header, and come from a trusted peer.
    pub proxy_protocol: bool,
    /// Bounds what one address may have open; none = no bound.
    pub guests: Option<Arc<Guests>>,
    /// Peers that stand for many visitors: their idle connections are kept longer, and they are
    /// no guests.
    pub trusted: Trusted,
    /// Who answers some requests of HTTP/1.1 at once.
    pub quick: Option<Arc<dyn Quick>>,
    /// What one client may take.
    pub bounds: Bounds,
    /// How long requests may run on after a soft stop.
    pub drain: Duration,
    /// The same for event streams; no less.
    pub stream_drain: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            seats: Arc::new(Semaphore::new(10_000)),
            certificates: None,
            proxy_protocol: false,
            guests: None,
            trusted: Trusted::default(),
            quick: None,
            bounds: Bounds::default(),
            drain: Duration::from_secs(30),
            stream_drain: Duration::from_secs(30),
        }
    }
}

/// Accepts until `stop`, then returns at once; connections end by themselves among `tasks`: idle
/// ones now, busy ones after their request or after its deadline.
pub async fn serve<H, F>(
    socket: TcpListener,
    options: Options,
    stop: CancellationToken,
    tasks: TaskTracker,
    handler: H,
) where
    H: Fn(Request<Incoming>, Peer) -> F + Clone + Send + Sync + Unpin + 'static,
    F: Future<Output = Response<Body>> + Send + 'static,
{
    let seats = Arc::clone(&options.seats);
    let options = Arc::new(options);
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => return,
            accepted = socket.accept() => accepted,
        };
        match accepted {
            Ok((stream, address)) => {
                // Taken only now: a loop that nobody connects to would keep it from the others.
                let seat = tokio::select! {
                    // As any other that came just before the stop.
                    () = stop.cancelled() => None,
                    seat = Arc::clone(&seats).acquire_owned() => seat.ok(),
                };
                let (options, stop) = (Arc::clone(&options), stop.clone());
                tasks.spawn(connection::serve(
                    stream,
                    address,
                    options,
                    stop,
                    handler.clone(),
                    seat,
                ));
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_REST).await;
            }
        }
    }
}

/// Serves an axum router on the same accept loop; handlers find the [`Peer`] among the extensions.
pub async fn serve_router(
    socket: TcpListener,
    options: Options,
    stop: CancellationToken,
    tasks: TaskTracker,
    router: axum::Router,
) {
    let handler = move |mut request: Request<Incoming>, peer: Peer| {
        request.extensions_mut().insert(peer);
        let service = TowerToHyperService::new(router.clone());
        async move {
            match hyper::service::Service::call(&service, request).await {
                Ok(response) => response.map(body::boxed),
                Err(never) => match never {},
            }
        }
    };
    serve(socket, options, stop, tasks, handler).await;
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    use super::*;

    #[tokio::test]
    async fn a_listener_that_nobody_connects_to_takes_no_seat_from_the_others() {
        let options = Options { seats: Arc::new(Semaphore::new(1)), ..Options::default() };
        let mut addresses = vec![];
        for _ in 0..2 {
            let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
            addresses.push(socket.local_addr().unwrap());
            let handler = |_, _| async { Response::new(body::empty()) };
            let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
            tokio::spawn(serve(socket, options.clone(), stop, tasks, handler));
            tokio::task::yield_now().await;
        }

        let asked = async {
            for address in addresses {
                let mut stream = TcpStream::connect(address).await.unwrap();
                let head = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
                stream.write_all(head).await.unwrap();
                let mut answer = String::new();
                stream.read_to_string(&mut answer).await.unwrap();
                assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
            }
        };

        tokio::time::timeout(Duration::from_secs(10), asked).await.expect("no seat was free");
    }
}
