//! A certificate as most sites have it now: P-256, for loopback names.

use std::path::{Path, PathBuf};

use anyhow::Result;
use rcgen::{CertifiedKey, generate_simple_self_signed};

/// The files of one certificate.
#[derive(Debug, Clone)]
pub(crate) struct Certificate {
    pub(crate) cert: PathBuf,
    pub(crate) key: PathBuf,
    /// Both in one, as haproxy wants it.
    pub(crate) both: PathBuf,
}

impl Certificate {
    /// Makes one in a folder.
    pub(crate) fn make(folder: &Path) -> Result<Self> {
        // rcgen's own choice is P-256.
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let CertifiedKey { cert, signing_key } = generate_simple_self_signed(names)?;
        let (cert, key) = (cert.pem(), signing_key.serialize_pem());
        let files = Self {
            cert: folder.join("cert.pem"),
            key: folder.join("key.pem"),
            both: folder.join("both.pem"),
        };
        std::fs::write(&files.cert, &cert)?;
        std::fs::write(&files.key, &key)?;
        std::fs::write(&files.both, format!("{cert}{key}"))?;
        Ok(files)
    }
}
