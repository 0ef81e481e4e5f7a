//! One certificate with its key, read and checked.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

use super::expiry;

/// Where a certificate and its key are.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PairFiles {
    /// The PEM chain, leaf first.
    pub cert: PathBuf,
    /// The PEM key.
    pub key: PathBuf,
}

/// Why a certificate cannot be served; the text names the file and the cure.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The file is missing or not ours to read.
    #[error("{path}: cannot be read ({reason}); give a file that this program may read")]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        reason: std::io::Error,
    },
    /// The file is not PEM.
    #[error("{path}: not readable as PEM ({reason}); give a file made of BEGIN/END blocks")]
    NotPem {
        /// Which file.
        path: PathBuf,
        /// What the reader said.
        reason: rustls::pki_types::pem::Error,
    },
    /// No certificate in it.
    #[error("{0}: holds no certificate; give the full chain, leaf first")]
    Empty(PathBuf),
    /// The first certificate is not one that can be served.
    #[error("{path}: its first certificate cannot be served ({reason}); the leaf comes first")]
    NotALeaf {
        /// Which file.
        path: PathBuf,
        /// What the parser said.
        reason: String,
    },
    /// The two do not belong together, or the key is of an unknown kind.
    #[error("{cert} and {key} do not make a pair: {reason}")]
    Pair {
        /// The certificate's file.
        cert: PathBuf,
        /// The key's file.
        key: PathBuf,
        /// What rustls said.
        reason: rustls::Error,
    },
    /// It ran out, and the one that is served has not.
    #[error("{0}: ran out already; the one served before stays")]
    Expired(PathBuf),
    /// The machinery itself.
    #[error("TLS cannot be set up: {0}")]
    Unsupported(rustls::Error),
}

/// A certificate that can be served.
#[derive(Debug)]
pub(super) struct Pair {
    pub(super) key: Arc<CertifiedKey>,
    /// Names in lower case, `*.` in front of a wildcard; none = it is served for every name.
    pub(super) names: Vec<String>,
    /// In seconds since the epoch; unreadable ends never come.
    pub(super) not_after: i64,
}

/// What the two files hold.
pub(super) struct Bytes {
    cert: Vec<u8>,
    key: Vec<u8>,
}

impl Bytes {
    /// Reads both.
    pub(super) fn read(files: &PairFiles) -> Result<Self, TlsError> {
        let read = |path: &Path| {
            std::fs::read(path)
                .map_err(|reason| TlsError::Unreadable { path: path.to_owned(), reason })
        };
        Ok(Self { cert: read(&files.cert)?, key: read(&files.key)? })
    }

    /// What they are told apart by.
    pub(super) fn digest(&self) -> [u8; 32] {
        use sha2::Digest;
        let mut hash = sha2::Sha256::new();
        hash.update((self.cert.len() as u64).to_be_bytes());
        hash.update(&self.cert);
        hash.update(&self.key);
        hash.finalize().into()
    }

    /// Checks that they can be served together.
    pub(super) fn pair(
        &self,
        files: &PairFiles,
        provider: &CryptoProvider,
    ) -> Result<Pair, TlsError> {
        let not_pem = |path: &PathBuf, reason| TlsError::NotPem { path: path.clone(), reason };
        let chain = CertificateDer::pem_slice_iter(&self.cert)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|reason| not_pem(&files.cert, reason))?;
        let Some(leaf) = chain.first() else {
            return Err(TlsError::Empty(files.cert.clone()));
        };
        let key = PrivateKeyDer::from_pem_slice(&self.key)
            .map_err(|reason| not_pem(&files.key, reason))?;
        let names = names(leaf).map_err(|reason| {
            let reason = reason.to_string();
            TlsError::NotALeaf { path: files.cert.clone(), reason }
        })?;
        let not_after = expiry::not_after(leaf).unwrap_or(i64::MAX);
        let (cert, key_file) = (files.cert.clone(), files.key.clone());
        let key = CertifiedKey::from_der(chain, key, provider)
            .map_err(|reason| TlsError::Pair { cert, key: key_file, reason })?;
        Ok(Pair { key: Arc::new(key), names, not_after })
    }
}

fn names(leaf: &CertificateDer<'_>) -> Result<Vec<String>, webpki::Error> {
    let leaf = webpki::EndEntityCert::try_from(leaf)?;
    Ok(leaf.valid_dns_names().map(str::to_ascii_lowercase).collect())
}

impl Pair {
    /// Whether it is good for a host: by a name of its own, by a wildcard for the first label, or
    /// because it names none.
    pub(super) fn covers(&self, host: &str) -> bool {
        let wildcard = wildcard_of(host);
        let is_one = |name: &String| name == host || Some(name.as_str()) == wildcard.as_deref();
        self.names.is_empty() || self.names.iter().any(is_one)
    }

    /// Whether it ran out before `now_ms`.
    pub(super) fn is_expired(&self, now_ms: u64) -> bool {
        self.seconds_left(now_ms) <= 0
    }

    /// Until it runs out, in seconds; negative after.
    pub(super) fn seconds_left(&self, now_ms: u64) -> i64 {
        self.not_after.saturating_sub(i64::try_from(now_ms / 1000).unwrap_or(i64::MAX))
    }
}

/// The wildcard that would stand for a host.
pub(super) fn wildcard_of(host: &str) -> Option<String> {
    host.split_once('.').map(|(_, parent)| format!("*.{parent}"))
}
