//! One handshake: the name first, then the certificate for it.

use std::io;
use std::sync::Arc;

use rustls::server::Acceptor;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::TlsStream;

use super::certificates::Certificates;
use super::pair::Pair;

/// A fatal alert `unrecognized_name`, in a record of its own.
const UNKNOWN_NAME: [u8; 7] = [21, 3, 3, 0, 2, 2, 112];

/// What waits, encrypted, for a reader: not more than two records.
const UNSENT_MAX: usize = 32 * 1024;

/// The name that a client asked for, and the certificate that it was shown.
#[derive(Debug, Clone)]
pub struct Presented {
    name: String,
    pair: Arc<Pair>,
}

impl Presented {
    /// Whether requests for a host (lower case, no port, no trailing dot) may come in here: it is
    /// the name asked for, or the same certificate is good for it.
    pub fn covers(&self, host: &str) -> bool {
        self.name == host || self.pair.covers(host)
    }
}

/// Encrypts. A name that no certificate is good for ends in an alert that says so; without a
/// name, the first certificate is shown and nothing is presented for any.
pub(in crate::http) async fn shake<S>(
    stream: S,
    certificates: &Certificates,
) -> io::Result<(TlsStream<S>, Option<Presented>)>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut started = LazyConfigAcceptor::new(Acceptor::default(), stream).await?;
    let name = started.client_hello().server_name().map(|name| {
        let lower = name.to_ascii_lowercase();
        lower.trim_end_matches('.').to_owned()
    });
    let served = certificates.served();
    let pair = served.find(name.as_deref()).first().map(|pair| Arc::clone(pair));
    let Some(pair) = pair else {
        started.io.write_all(&UNKNOWN_NAME).await?;
        started.io.shutdown().await?;
        return Err(io::Error::other("no certificate for the name asked for"));
    };
    let shaking = started.into_stream_with(certificates.config(), |session| {
        session.set_buffer_limit(Some(UNSENT_MAX));
    });
    let stream = shaking.await?;
    Ok((stream, name.map(|name| Presented { name, pair })))
}
