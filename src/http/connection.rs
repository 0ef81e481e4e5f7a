//! One connection: who it is, its handshake, its protocol.

use std::net::SocketAddr;
use std::sync::Arc;

use hyper::body::Incoming;
use hyper::{Request, Response};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use super::body::Body;
use super::guests::Guest;
use super::life::Life;
use super::listener::{Options, Peer};
use super::proxy_protocol::{self, Announced};
use super::stall::{Lingering, Watched};
use super::tls;

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
    let guest = Arc::new(guest);
    let lingering = Lingering::new();
    let stream = Watched::new(stream, options.bounds.read, lingering.clone());
    let peer = Peer { address, tls: false, presented: None, guest: Arc::clone(&guest) };
    let mut life = Life::new(peer, lingering, stop, Arc::clone(&options));
    let Some(certificates) = &options.certificates else {
        guest.settle();
        life.http1(stream, handler).await;
        return;
    };
    let turn = match guest.turn().await {
        Ok(turn) => turn,
        Err(error) => {
            tracing::debug!(%error, "a connection was turned away");
            return;
        }
    };
    let handshake = tls::shake(stream, certificates);
    let shaken = tokio::time::timeout(options.bounds.handshake, handshake).await;
    drop(turn);
    match shaken {
        Ok(Ok((stream, presented))) => {
            guest.settle();
            life.secured(presented);
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
        match proxy_protocol::read(stream, options.bounds.proxy_header).await {
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
    match guests.enter(address.ip()) {
        Ok(guest) => Some((address, guest)),
        Err(error) => {
            tracing::debug!(%error, "a connection was turned away");
            None
        }
    }
}
