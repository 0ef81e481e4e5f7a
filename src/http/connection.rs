//! One connection: who it is, its handshake, its protocol.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use hyper::body::Incoming;
use hyper::{Request, Response};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;

use super::body::Body;
use super::guests::Guest;
use super::life::Life;
use super::listener::{Options, Peer};
use super::proxy_protocol::{self, Announced};
use super::stall::{Lingering, Watched};
use super::tls::{self, Certificates, Presented};

/// Serves one accepted socket to its end, and gives its seat back then.
///
/// Each step is boxed: a future has room for the largest step there may be, in all connections and
/// for as long as they live, and most of them are plain or idle.
pub(super) async fn serve<H, F>(
    mut stream: TcpStream,
    address: SocketAddr,
    options: Arc<Options>,
    stop: CancellationToken,
    handler: H,
    _seat: Option<OwnedSemaphorePermit>,
) where
    H: Fn(Request<Incoming>, Peer) -> F + Clone + Send + Sync + Unpin + 'static,
    F: Future<Output = Response<Body>> + Send + 'static,
{
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "a socket was gone before it was served");
        return;
    }
    let welcomed = Box::pin(welcome(&mut stream, address, &options)).await;
    let Some((address, tls, guest)) = welcomed else { return };
    let guest = Arc::new(guest);
    let lingering = Lingering::new();
    let stream = Watched::new(stream, options.bounds.read, lingering.clone());
    let peer = Peer { address, tls, presented: None, guest: Arc::clone(&guest) };
    let life = Life::new(peer, lingering, stop, Arc::clone(&options));
    if options.certificates.is_some() {
        Box::pin(secured(stream, life, guest, options, handler)).await;
    } else {
        guest.settle();
        life.http1(stream, handler).await;
    }
}

/// The same of a connection that is to be encrypted.
async fn secured<S, H, F>(
    stream: S,
    mut life: Life,
    guest: Arc<Guest>,
    options: Arc<Options>,
    handler: H,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    H: Fn(Request<Incoming>, Peer) -> F + Clone + Send + Sync + Unpin + 'static,
    F: Future<Output = Response<Body>> + Send + 'static,
{
    let Some(certificates) = &options.certificates else { return };
    let shaken = Box::pin(shaken(stream, &guest, certificates, options.bounds.handshake)).await;
    let Some((stream, presented)) = shaken else { return };
    guest.settle();
    life.secured(presented);
    spoken(stream, life, handler).await;
}

/// The protocol that was agreed on. No `async`: the stream would be held twice.
fn spoken<S, H, F>(stream: TlsStream<S>, life: Life, handler: H) -> BoxFuture<'static, ()>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    H: Fn(Request<Incoming>, Peer) -> F + Clone + Send + Sync + Unpin + 'static,
    F: Future<Output = Response<Body>> + Send + 'static,
{
    if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
        life.http2(stream, handler)
    } else {
        life.http1(stream, handler)
    }
}

/// The encrypted stream, if its turn came and the handshake came to an end in time.
async fn shaken<S>(
    stream: S,
    guest: &Guest,
    certificates: &Certificates,
    time_max: Duration,
) -> Option<(TlsStream<S>, Option<Presented>)>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    // Given back at the end of the handshake.
    let _turn = match guest.turn().await {
        Ok(turn) => turn,
        Err(error) => {
            tracing::debug!(%error, "a connection was turned away");
            return None;
        }
    };
    match tokio::time::timeout(time_max, tls::shake(stream, certificates)).await {
        Ok(Ok(shaken)) => Some(shaken),
        Ok(Err(error)) => {
            tracing::debug!(%error, "a TLS handshake failed");
            None
        }
        Err(_) => {
            tracing::debug!("a TLS handshake took too long");
            None
        }
    }
}

/// Who it is, whether it has spoken TLS to a balancer, and whether there is room for one more of its address. Both before anything else is
/// read, so that a flood costs no handshake.
async fn welcome(
    stream: &mut TcpStream,
    socket: SocketAddr,
    options: &Options,
) -> Option<(SocketAddr, bool, Guest)> {
    let (mut address, mut tls) = (socket, false);
    if options.proxy_protocol {
        if !options.trusted.contains(socket.ip()) {
            tracing::debug!("a stranger at a listener for load balancers was turned away");
            return None;
        }
        match proxy_protocol::read(stream, options.bounds.proxy_header).await {
            Ok(Announced::Client { address: theirs, tls: spoken }) => {
                (address, tls) = (theirs, spoken);
            }
            Ok(Announced::Itself) => {}
            Err(error) => {
                tracing::debug!(%error, "a load balancer's connection was closed");
                return None;
            }
        }
    }
    let Some(guests) = options.guests.as_ref().filter(|_| !options.trusted.contains(address.ip()))
    else {
        return Some((address, tls, Guest::uncounted()));
    };
    match guests.enter(address.ip()) {
        Ok(guest) => Some((address, tls, guest)),
        Err(error) => {
            tracing::debug!(%error, "a connection was turned away");
            None
        }
    }
}
