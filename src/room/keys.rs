//! The key files in `keys.dir`, the same on all nodes.
//!
//! `admission-*.pem` sign admissions (Ed25519, PKCS#8), `tickets-*.key` tickets (HMAC);
//! of several the last by name signs and all verify. `place.key` turns numbers into subjects,
//! `seal.key` seals the draw's seed. The `.key` files hold 64 hex digits.

use std::collections::HashMap;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use jsonwebtoken::{DecodingKey, EncodingKey};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::pki_types::pem::PemObject;
use serde_json::json;
use sha2::{Digest, Sha256};

use super::token::Verified;
use crate::domain::id::SaleId;
use crate::domain::recovery::{self, Recovered};
use crate::domain::ticket::{self, Cohort, Ticket};

/// What is wrong with the key files, and the cure.
#[derive(Debug, thiserror::Error)]
pub enum KeysError {
    /// The folder or a file cannot be read or written.
    #[error("{path}: {source}")]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// There is no such key.
    #[error(
        "{0}: no {1} here; make keys with `stanchion keys new`, or copy them from another node"
    )]
    Missing(PathBuf, &'static str),
    /// The file holds something else.
    #[error("{0}: {1}")]
    Unusable(PathBuf, &'static str),
    /// Keys are never overwritten.
    #[error("{0}: keys are here already; they are never overwritten")]
    Present(PathBuf),
}

/// All keys of a node, in memory.
pub struct Keys {
    pub(super) signing: (String, EncodingKey),
    pub(super) verifying: HashMap<String, DecodingKey>,
    /// The one that signs, then those that still verify.
    pub(super) tickets: Vec<(EncodingKey, DecodingKey)>,
    pub(super) verified: Verified,
    place: [u8; 32],
    seal: [u8; 32],
    jwks: String,
}

impl Keys {
    /// Reads all key files of a folder.
    pub fn load(dir: &Path) -> Result<Self, KeysError> {
        let mut signing = None;
        let mut verifying = HashMap::new();
        let mut published = Vec::new();
        for path in files(dir, "admission-", ".pem")? {
            let key = admission_key(&path)?;
            published.push(json!({
                "kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "use": "sig",
                "kid": key.kid, "x": URL_SAFE_NO_PAD.encode(&key.public),
            }));
            verifying.insert(key.kid.clone(), DecodingKey::from_ed_der(&key.public));
            signing = Some((key.kid, key.private));
        }
        let mut tickets = Vec::new();
        for path in files(dir, "tickets-", ".key")?.iter().rev() {
            tickets.push(ticket_key(path)?);
        }
        if tickets.is_empty() {
            return Err(KeysError::Missing(dir.to_owned(), "tickets-*.key"));
        }
        Ok(Self {
            signing: signing
                .ok_or_else(|| KeysError::Missing(dir.to_owned(), "admission-*.pem"))?,
            verifying,
            tickets,
            verified: Verified::default(),
            place: secret(&dir.join("place.key"))?,
            seal: secret(&dir.join("seal.key"))?,
            jwks: json!({ "keys": published }).to_string(),
        })
    }

    /// Makes new keys in a folder without any (made if it is not there), and reads them.
    pub fn generate(dir: &Path) -> Result<Self, KeysError> {
        let at = |source| KeysError::Io { path: dir.to_owned(), source };
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(at)?;
        let present = !files(dir, "", ".key")?.is_empty() || !files(dir, "", ".pem")?.is_empty();
        if present {
            return Err(KeysError::Present(dir.to_owned()));
        }
        let unusable = |_| KeysError::Unusable(dir.to_owned(), "the system gives no randomness");
        // Version 1 of PKCS#8: what is made here can be read by every other tool.
        let pkcs8 = Ed25519KeyPair::generate_pkcs8v1(&SystemRandom::new()).map_err(unusable)?;
        let body = STANDARD.encode(pkcs8.as_ref());
        let pem = format!("-----BEGIN PRIVATE KEY-----\n{body}\n-----END PRIVATE KEY-----\n");
        write_new(&dir.join("admission-0001.pem"), &pem)?;
        for name in ["tickets-0001.key", "place.key", "seal.key"] {
            let mut bytes = [0; 32];
            aws_lc_rs::rand::fill(&mut bytes).map_err(unusable)?;
            write_new(&dir.join(name), &format!("{}\n", hex::encode(bytes)))?;
        }
        Self::load(dir)
    }

    /// The public admission keys as a JWK set.
    pub fn jwks(&self) -> &str {
        &self.jwks
    }

    /// Seals the draw's seed in Postgres.
    pub fn seal_key(&self) -> &[u8; 32] {
        &self.seal
    }

    /// `sub` of a number.
    pub fn subject(&self, sale: &SaleId, run: u64, cohort: Cohort) -> String {
        ticket::subject(&self.place, sale, run, cohort)
    }

    /// `jti` of the admissions of one `sub` in one epoch.
    pub fn admission_id(&self, sub: &str, epoch: u64) -> String {
        ticket::admission_id(&self.place, sub, epoch)
    }

    /// The recovery code of a ticket; nothing for a number that no code has room for.
    pub fn recovery_code(&self, ticket: &Ticket) -> Option<String> {
        let place = Recovered { cohort: ticket.cohort, tied: ticket.account.is_some() };
        recovery::code(&self.place, &ticket.sale, ticket.run, place)
    }

    /// The place that a recovery code leads to.
    pub fn read_recovery(&self, sale: &SaleId, run: u64, raw: &str) -> Option<Recovered> {
        recovery::read(&self.place, sale, run, raw)
    }

    /// A short keyed hash of an address: what Redis counts places by, of no use without the key.
    pub fn blind(&self, sale: &SaleId, address: &str) -> String {
        let mut hash = Sha256::new();
        for part in [b"stanchion/address/v1", &self.place[..], sale.as_str().as_bytes()] {
            hash.update(part);
            hash.update([0]);
        }
        hash.update(address);
        hex::encode(&hash.finalize()[..12])
    }
}

struct AdmissionKey {
    kid: String,
    public: Vec<u8>,
    private: EncodingKey,
}

fn admission_key(path: &Path) -> Result<AdmissionKey, KeysError> {
    let unusable = |what| KeysError::Unusable(path.to_owned(), what);
    let der = PrivatePkcs8KeyDer::from_pem_file(path)
        .map_err(|_| unusable("must be a readable PKCS#8 PEM private key"))?;
    let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(der.secret_pkcs8_der())
        .map_err(|_| unusable("must be an Ed25519 key"))?;
    let public = pair.public_key().as_ref().to_vec();
    let private = EncodingKey::from_ed_der(der.secret_pkcs8_der());
    Ok(AdmissionKey { kid: thumbprint(&public), public, private })
}

/// RFC 7638: the hash of the required members, in order, without white space.
fn thumbprint(public: &[u8]) -> String {
    let x = URL_SAFE_NO_PAD.encode(public);
    let members = format!(r#"{{"crv":"Ed25519","kty":"OKP","x":"{x}"}}"#);
    URL_SAFE_NO_PAD.encode(Sha256::digest(members))
}

fn ticket_key(path: &Path) -> Result<(EncodingKey, DecodingKey), KeysError> {
    let key = secret(path)?;
    let unusable = |_| KeysError::Unusable(path.to_owned(), "cannot be used for HMAC");
    let sign = EncodingKey::from_secret(&key).map_err(unusable)?;
    Ok((sign, DecodingKey::from_secret(&key).map_err(unusable)?))
}

fn secret(path: &Path) -> Result<[u8; 32], KeysError> {
    let text = std::fs::read_to_string(path)
        .map_err(|source| KeysError::Io { path: path.to_owned(), source })?;
    let mut key = [0; 32];
    hex::decode_to_slice(text.trim(), &mut key)
        .map_err(|_| KeysError::Unusable(path.to_owned(), "must hold 64 hex digits"))?;
    Ok(key)
}

/// Files by name, in order.
fn files(dir: &Path, prefix: &str, suffix: &str) -> Result<Vec<PathBuf>, KeysError> {
    let at = |source| KeysError::Io { path: dir.to_owned(), source };
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(at)? {
        let path = entry.map_err(at)?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.starts_with(prefix) && name.ends_with(suffix) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn write_new(path: &Path, text: &str) -> Result<(), KeysError> {
    let write = || {
        let mut options = std::fs::OpenOptions::new();
        let mut file = options.write(true).create_new(true).mode(0o600).open(path)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()
    };
    write().map_err(|source| KeysError::Io { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn new_keys_are_private_read_back_the_same_and_never_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("keys");
        let made = Keys::generate(&dir).unwrap();
        let again = Keys::load(&dir).unwrap();

        assert_eq!(made.jwks(), again.jwks());
        assert_eq!(made.signing.0, again.signing.0);
        for path in files(&dir, "", "").unwrap() {
            assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        }
        assert!(matches!(Keys::generate(&dir), Err(KeysError::Present(_))));
    }

    #[test]
    fn a_missing_or_broken_file_is_named() {
        let dir = tempfile::tempdir().unwrap();
        assert!(matches!(Keys::load(dir.path()), Err(KeysError::Missing(..))));
        let keys = dir.path().join("keys");
        Keys::generate(&keys).unwrap();
        std::fs::write(keys.join("seal.key"), "short").unwrap();
        let error = Keys::load(&keys).err().unwrap().to_string();
        assert!(error.contains("seal.key: must hold 64 hex digits"), "{error}");
    }

    #[test]
    fn a_key_is_named_by_its_thumbprint() {
        // The example of RFC 8037, appendix A.3.
        let public = URL_SAFE_NO_PAD.decode("11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo").unwrap();
        assert_eq!(thumbprint(&public), "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k");
    }
}
