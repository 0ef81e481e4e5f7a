//! The keys of a node, in memory: read from `keys.dir`, the same on all nodes, and read again
//! when the folder changes.
//!
//! `admission-*.pem` sign admissions (Ed25519, PKCS#8), `tickets-*.key` tickets (HMAC); of several
//! the last by name whose time has come signs, and all verify. `place.key` turns numbers into
//! subjects and is kept through rotations, as is `seal.key`, which seals the draw's seed.

mod files;
mod rotate;
mod set;
mod watch;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use sha2::{Digest, Sha256};

use crate::clock::{Clock, SystemClock};
use crate::domain::id::{AccountId, SaleId};
use crate::domain::recovery::{self, Recovered};
use crate::domain::ticket::{self, Cohort, Ticket};
pub use rotate::{Listed, Rotated, State, list, rotate};
pub(super) use set::KeySet;
pub use watch::Watch;

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
    /// Two rotations at once would leave nodes without the key that signs.
    #[error("{0}: signs only from {1}; rotate again after that")]
    NotSigningYet(PathBuf, String),
    /// The place key or the seal key is another one.
    #[error(
        "{0}: is another one than before; places are kept by place.key and draws by seal.key, \
         bring the old file back"
    )]
    Exchanged(PathBuf),
}

/// All keys of a node. Only the signing ones change while it runs.
pub struct Keys {
    set: ArcSwap<KeySet>,
    place: [u8; 32],
    seal: [u8; 32],
}

impl Keys {
    /// Reads all key files of a folder.
    pub fn load(dir: &Path) -> Result<Self, KeysError> {
        let set = KeySet::read(&files::Folder::read(dir)?)?;
        let (place, seal) = (set.place, set.seal);
        Ok(Self { set: ArcSwap::from_pointee(set), place, seal })
    }

    /// Makes new keys in a folder without any (made if it is not there), and reads them.
    pub fn generate(dir: &Path) -> Result<Self, KeysError> {
        rotate::make(dir)?;
        Self::load(dir)
    }

    /// Takes over what a folder holds now; what is wrong with it changes nothing.
    fn replace(&self, folder: &files::Folder) -> Result<(), KeysError> {
        let set = KeySet::read(folder)?;
        for (kept, new, name) in
            [(&self.place, &set.place, "place.key"), (&self.seal, &set.seal, "seal.key")]
        {
            if kept != new {
                return Err(KeysError::Exchanged(folder.dir.join(name)));
            }
        }
        self.set.store(Arc::new(set));
        Ok(())
    }

    /// The keys as they are now.
    pub(super) fn set(&self) -> Guard<Arc<KeySet>> {
        self.set.load()
    }

    /// The public admission keys as a JWK set.
    pub fn jwks(&self) -> Arc<str> {
        self.set.load().jwks.clone()
    }

    /// Names the whole set without telling anything of it: equal on nodes with equal keys.
    pub fn fingerprint(&self) -> Arc<str> {
        self.set.load().fingerprint.clone()
    }

    /// Names the installation: the place key, which is kept through rotations.
    pub fn identity(&self) -> String {
        let mut hash = Sha256::new();
        hash.update(b"stanchion/identity/v1\0");
        hash.update(self.place);
        hex::encode(&hash.finalize()[..8])
    }

    /// Seals the draw's seed in Postgres.
    pub fn seal_key(&self) -> &[u8; 32] {
        &self.seal
    }

    /// `sub` of a number.
    pub fn subject(&self, sale: &SaleId, run: u64, cohort: Cohort) -> String {
        ticket::subject(&self.place, sale, run, cohort)
    }

    /// `sub` of one use of a staff pass.
    pub fn pass_subject(&self, sale: &SaleId, pass: &str, number: u64) -> String {
        ticket::outside_subject(&self.place, sale, pass, number)
    }

    /// `sub` of an account without a place that is let past the line.
    pub fn account_subject(&self, sale: &SaleId, run: u64, account: &AccountId) -> String {
        ticket::account_subject(&self.place, sale, run, account)
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

/// The machine's clock: which key signs need not change at the same instant everywhere.
fn now_ms() -> u64 {
    SystemClock.now_ms()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_keys_are_private_read_back_the_same_and_never_overwritten() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("keys");
        let made = Keys::generate(&dir).unwrap();
        let again = Keys::load(&dir).unwrap();

        assert_eq!(made.jwks(), again.jwks());
        assert_eq!(made.fingerprint(), again.fingerprint());
        assert_eq!(made.identity(), again.identity());
        let open_to = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(open_to(&dir), 0o700);
        let files: Vec<_> = std::fs::read_dir(&dir).unwrap().map(|e| e.unwrap().path()).collect();
        assert_eq!(files.len(), 4, "{files:?}");
        assert!(files.iter().all(|path| open_to(path) == 0o600));
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
}
