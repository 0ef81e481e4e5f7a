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
use super::tls::{Certificates, Presented};
use super::trusted::Trusted;

/// Rest after a failed accept: out of file descriptors is not cured by asking again at once.
const ACCEPT_REST: Duration = Duration::from_millis(50);

/// Who is at the other end of a connection.
#[derive(Debug, Clone)]
pub struct Peer {
    /// Of the socket, or as a load balancer announced it; no header is believed yet.
    pub address: SocketAddr,
    /// Whether the connection is encrypted.
    pub tls: bool,
    /// What was shown to a client that asked for a name.
    pub presented: Option<Arc<Presented>>,
    /// How it counts among those of its address.
    pub guest: Arc<Guest>,
}

/// How a listener behaves.
#[derive(Clone)]
pub struct Options {
    /// Connections open at once, over all listeners that share it; more wait in the kernel's queue.
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
    H: Fn(Request<Incoming>, Peer) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Response<Body>> + Send + 'static,
{
    let seats = Arc::clone(&options.seats);
    let options = Arc::new(options);
    loop {
        let accepted = async {
            let seat = Arc::clone(&seats).acquire_owned().await;
            (seat, socket.accept().await)
        };
        let (seat, accepted) = tokio::select! {
            () = stop.cancelled() => return,
            accepted = accepted => accepted,
        };
        match accepted {
            Ok((stream, address)) => {
                let served = connection::serve(
                    stream,
                    address,
                    Arc::clone(&options),
                    stop.clone(),
                    handler.clone(),
                );
                tasks.spawn(async move {
                    served.await;
                    drop(seat);
                });
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
