//! One connection: handshake, choice of protocol, deadlines, soft end.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use super::body::Body;
use super::guests::Guest;
use super::listener::{Options, Peer};
use super::proxy_protocol::{self, Announced};
use super::stall::Watched;
use super::tls;

/// For the TLS handshake.
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);
/// From there to the first whole request head.
const FIRST_REQUEST_MAX: Duration = Duration::from_secs(10);
/// The same once the doors have closed: it may be on its way already.
const LAST_REQUEST_MAX: Duration = Duration::from_millis(500);
/// For each later head; hyper's one knob is also how long an idle connection is kept.
const HEAD_MAX: Duration = Duration::from_secs(15);
/// The same for a trusted proxy, whose connections many visitors share.
const HEAD_MAX_TRUSTED: Duration = Duration::from_secs(75);
/// Without progress of a write for this long, the reader is gone or hostile.
const WRITE_STALL_MAX: Duration = Duration::from_mins(1);

/// Request line and headers together.
const HEAD_BYTES_MAX: usize = 64 * 1024;
const HEADER_LIST_BYTES_MAX: u32 = 64 * 1024;
const STREAMS_MAX: u32 = 100;
const STREAM_WINDOW: u32 = 64 * 1024;
const CONNECTION_WINDOW: u32 = 1024 * 1024;
const FRAME_BYTES_MAX: u32 = 16 * 1024;
const SEND_BUFFER: usize = 64 * 1024;
const RESETS_PENDING_MAX: usize = 20;
const RESETS_LOCAL_MAX: usize = 1024;
const PING_EVERY: Duration = Duration::from_secs(30);
const PING_ANSWER_MAX: Duration = Duration::from_secs(20);

/// Serves one accepted socket to its end.
pub(super) async fn serve<H, F>(
    mut stream: TcpStream,
    address: SocketAddr,
    options: Arc<Options>,
    stop: CancellationToken,
    handler: H,
) where
    H: Fn(Request<Incoming>, Peer) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Response<Body>> + Send + 'static,
{
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "a socket was gone before it was served");
        return;
    }
    let Some((address, guest)) = welcome(&mut stream, address, &options).await else { return };
    let stream = Watched::new(stream, WRITE_STALL_MAX);
    let trusted = options.trusted.contains(address.ip());
    let mut peer = Peer { address, tls: false, presented: None, guest: Arc::new(guest) };
    let Some(certificates) = &options.certificates else {
        let life = Life { peer, trusted, stop, drain: options.drain };
        life.http1(stream, handler).await;
        return;
    };
    let handshake = tls::shake(stream, certificates);
    match tokio::time::timeout(HANDSHAKE_MAX, handshake).await {
        Ok(Ok((stream, presented))) => {
            (peer.tls, peer.presented) = (true, presented.map(Arc::new));
            let life = Life { peer, trusted, stop, drain: options.drain };
            if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
                life.http2(stream, handler).await;
            } else {
                life.http1(stream, handler).await;
            }
        }
        Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
        Err(_) => tracing::debug!("a TLS handshake took too long"),
    }
}

/// Who it is, and whether there is room for one more of its address. Both before anything else is
/// read, so that a flood costs no handshake.
async fn welcome(
    stream: &mut TcpStream,
    socket: SocketAddr,
    options: &Options,
) -> Option<(SocketAddr, Guest)> {
    let mut address = socket;
    if options.proxy_protocol {
        if !options.trusted.contains(socket.ip()) {
            tracing::debug!("a stranger at a listener for load balancers was turned away");
            return None;
        }
        match proxy_protocol::read(stream).await {
            Ok(Announced::Client(client)) => address = client,
            Ok(Announced::Itself) => {}
            Err(error) => {
                tracing::debug!(%error, "a load balancer's connection was closed");
                return None;
            }
        }
    }
    let Some(guests) = options.guests.as_ref().filter(|_| !options.trusted.contains(address.ip()))
    else {
        return Some((address, Guest::uncounted()));
    };
    match guests.enter(address.ip()).await {
        Ok(guest) => Some((address, guest)),
        Err(error) => {
            tracing::debug!(%error, "a connection was turned away");
            None
        }
    }
}

struct Life {
    peer: Peer,
    trusted: bool,
    stop: CancellationToken,
    drain: Duration,
}

impl Life {
    async fn http1<S, H, F>(self, stream: S, handler: H)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
        H: Fn(Request<Incoming>, Peer) -> F + Send,
        F: Future<Output = Response<Body>> + Send + 'static,
    {
        let service = service_fn(|request| {
            self.peer.guest.ask();
            answered(handler(request, self.peer.clone()))
        });
        let head_max = if self.trusted { HEAD_MAX_TRUSTED } else { HEAD_MAX };
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(head_max)
            .max_header_size(HEAD_BYTES_MAX)
            .max_buf_size(HEAD_BYTES_MAX)
            .serve_connection(TokioIo::new(stream), service)
            .with_upgrades();
        let connection = pin!(connection);
        self.drive(connection, http1::UpgradeableConnection::graceful_shutdown).await;
    }

    async fn http2<S, H, F>(self, stream: S, handler: H)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
        H: Fn(Request<Incoming>, Peer) -> F + Send,
        F: Future<Output = Response<Body>> + Send + 'static,
    {
        let service = service_fn(|request| {
            self.peer.guest.ask();
            answered(handler(request, self.peer.clone()))
        });
        let connection = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .max_header_list_size(HEADER_LIST_BYTES_MAX)
            .max_concurrent_streams(STREAMS_MAX)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_frame_size(FRAME_BYTES_MAX)
            .max_send_buf_size(SEND_BUFFER)
            .max_pending_accept_reset_streams(RESETS_PENDING_MAX)
            .max_local_error_reset_streams(RESETS_LOCAL_MAX)
            .keep_alive_interval(PING_EVERY)
            .keep_alive_timeout(PING_ANSWER_MAX)
            .serve_connection(TokioIo::new(stream), service);
        let connection = pin!(connection);
        self.drive(connection, http2::Connection::graceful_shutdown).await;
    }

    /// Runs the connection until it ends, asks nothing in time, or is told to stop.
    async fn drive<C>(&self, mut connection: Pin<&mut C>, end_softly: impl Fn(Pin<&mut C>))
    where
        C: Future<Output = hyper::Result<()>>,
    {
        let mut first_request = pin!(tokio::time::sleep(FIRST_REQUEST_MAX));
        let mut first_due = true;
        loop {
            tokio::select! {
                ended = connection.as_mut() => {
                    if let Err(error) = ended {
                        tracing::debug!(%error, "a connection ended early");
                    }
                    return;
                }
                () = first_request.as_mut(), if first_due => {
                    if !self.peer.guest.has_asked() {
                        return;
                    }
                    first_due = false;
                }
                () = self.stop.cancelled() => break,
            }
        }
        // Told to end softly, hyper would close what has not asked for anything yet.
        if !self.peer.guest.has_asked() {
            let last = tokio::time::timeout(LAST_REQUEST_MAX, connection.as_mut()).await;
            if last.is_ok() || !self.peer.guest.has_asked() {
                return;
            }
        }
        end_softly(connection.as_mut());
        match tokio::time::timeout(self.drain, connection).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(%error, "a connection ended early"),
            Err(_) => tracing::info!("a request was cut at the end of the drain"),
        }
    }
}

/// Handlers cannot fail: whatever goes wrong is a response.
async fn answered<F>(response: F) -> Result<Response<Body>, Infallible>
where
    F: Future<Output = Response<Body>>,
{
    Ok(response.await)
}
