//! TLS 1.2 and 1.3, HTTP/2 or 1.1 by ALPN; the certificate by the name that the client asks for,
//! read again when its files change.

mod certificates;
mod expiry;
mod handshake;
mod metrics;
mod pair;
mod watch;

pub use certificates::Certificates;
pub use handshake::Presented;
pub(super) use handshake::shake;
pub use pair::{PairFiles, TlsError};
