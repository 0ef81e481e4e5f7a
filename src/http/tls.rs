//! One certificate for the public listener: TLS 1.2 and 1.3, HTTP/2 or 1.1 by ALPN.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Why a certificate cannot be served; the text names the file and the cure.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The file is missing, unreadable, or not PEM.
    #[error("{path}: not readable as PEM ({reason}); give a file made of BEGIN/END blocks")]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// What the reader said.
        reason: rustls::pki_types::pem::Error,
    },
    /// No certificate in it.
    #[error("{0}: holds no certificate; give the full chain, leaf first")]
    Empty(PathBuf),
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
}

/// Reads a chain and its key and offers `h2` and `http/1.1`.
pub fn load(cert_file: &Path, key_file: &Path) -> Result<Arc<ServerConfig>, TlsError> {
    let chain = CertificateDer::pem_file_iter(cert_file)
        .map_err(|reason| unreadable(cert_file, reason))?
        .collect::<Result<Vec<_>, _>>()
        .map_err(|reason| unreadable(cert_file, reason))?;
    if chain.is_empty() {
        return Err(TlsError::Empty(cert_file.to_owned()));
    }
    let key =
        PrivateKeyDer::from_pem_file(key_file).map_err(|reason| unreadable(key_file, reason))?;
    let pair =
        |reason| TlsError::Pair { cert: cert_file.to_owned(), key: key_file.to_owned(), reason };
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])
        .map_err(pair)?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(pair)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn unreadable(path: &Path, reason: rustls::pki_types::pem::Error) -> TlsError {
    TlsError::Unreadable { path: path.to_owned(), reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(folder: &tempfile::TempDir, name: &str, text: &str) -> PathBuf {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    #[test]
    fn ed_80_a_pair_that_does_not_match_or_is_empty_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let one = rcgen::generate_simple_self_signed(vec!["shop.test".into()]).unwrap();
        let other = rcgen::generate_simple_self_signed(vec!["shop.test".into()]).unwrap();
        let cert = write(&folder, "cert.pem", &one.cert.pem());
        let key = write(&folder, "key.pem", &one.signing_key.serialize_pem());
        let foreign = write(&folder, "foreign.pem", &other.signing_key.serialize_pem());
        let empty = write(&folder, "empty.pem", "");

        assert!(load(&cert, &key).is_ok());
        assert!(matches!(load(&cert, &foreign), Err(TlsError::Pair { .. })));
        assert!(matches!(load(&empty, &key), Err(TlsError::Empty(_))));
        let text = load(&cert, &empty).unwrap_err().to_string();
        assert!(text.contains("empty.pem"), "{text}");
    }
}
