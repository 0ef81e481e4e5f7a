//! One address of a service behind us, and the idle connections to it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{Response, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::body::Body;
use super::upstream::UpstreamError;

/// Idle connections kept for each address.
const IDLE_MAX: usize = 64;
/// A shop's response head: fields, and bytes.
const HEAD_FIELDS_MAX: usize = 256;
const HEAD_BYTES_MAX: usize = 256 * 1024;

/// The text says what an address must look like.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("must be http://HOST[:PORT] without a path, like \"http://127.0.0.1:3000\"")]
pub struct OriginError;

/// One address of a service.
#[derive(Debug)]
pub(super) struct Origin {
    host: String,
    port: u16,
    idle: Mutex<Vec<Idle>>,
}

#[derive(Debug)]
struct Idle {
    sender: SendRequest<Body>,
    since: Instant,
}

impl Origin {
    pub(super) fn parse(raw: &str) -> Result<Self, OriginError> {
        let uri: Uri = raw.trim().parse().map_err(|_| OriginError)?;
        let plain = uri.scheme_str() == Some("http")
            && matches!(uri.path(), "" | "/")
            && uri.query().is_none();
        let host = uri.host().filter(|host| plain && !host.is_empty()).ok_or(OriginError)?;
        Ok(Self {
            host: host.trim_matches(['[', ']']).to_owned(),
            port: uri.port_u16().unwrap_or(80),
            idle: Mutex::default(),
        })
    }

    pub(super) fn take_idle(&self, idle_max: Duration) -> Option<SendRequest<Body>> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|kept| !kept.sender.is_closed() && kept.since.elapsed() < idle_max);
        idle.pop().map(|kept| kept.sender)
    }

    pub(super) fn keep(&self, sender: SendRequest<Body>) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < IDLE_MAX {
            idle.push(Idle { sender, since: Instant::now() });
        }
    }

    pub(super) async fn connect(
        &self,
        connect_max: Duration,
    ) -> Result<SendRequest<Body>, UpstreamError> {
        let dial = TcpStream::connect((self.host.as_str(), self.port));
        let stream = tokio::time::timeout(connect_max, dial)
            .await
            .map_err(|_| UpstreamError::ConnectTimeout)?
            .map_err(UpstreamError::Connect)?;
        stream.set_nodelay(true).map_err(UpstreamError::Connect)?;
        let (sender, connection) = http1::Builder::new()
            .max_headers(HEAD_FIELDS_MAX)
            .max_buf_size(HEAD_BYTES_MAX)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(UpstreamError::Broken)?;
        #[expect(
            clippy::disallowed_methods,
            reason = "ends with its sender, so it needs no stop of its own"
        )]
        tokio::spawn(async move {
            if let Err(error) = connection.with_upgrades().await {
                tracing::debug!(%error, "a connection to a service behind us broke");
            }
        });
        Ok(sender)
    }

    /// Sees to it that the connection returns to the pool once the response's body has ended.
    pub(super) fn kept(
        self: &Arc<Self>,
        mut sender: SendRequest<Body>,
        response: Response<Incoming>,
    ) -> Response<Incoming> {
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            return response;
        }
        if sender.is_ready() {
            self.keep(sender);
            return response;
        }
        let origin = Arc::clone(self);
        #[expect(
            clippy::disallowed_methods,
            reason = "ends when the body does, or with its connection"
        )]
        tokio::spawn(async move {
            if sender.ready().await.is_ok() {
                origin.keep(sender);
            }
        });
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_http_host_and_port() {
        for good in ["http://127.0.0.1:3000", "http://shop.test/", "http://[::1]:80"] {
            assert!(Origin::parse(good).is_ok(), "{good}");
        }
        for bad in ["", "127.0.0.1:3000", "https://a", "http://a/b", "http://a?x", "ftp://a"] {
            assert!(Origin::parse(bad).is_err(), "{bad}");
        }
    }
}
