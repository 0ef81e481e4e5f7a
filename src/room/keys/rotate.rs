//! Making keys, putting new ones beside old ones, and saying what is there.
//!
//! A new key verifies as soon as a node has read it, and signs later, when all nodes have it. An
//! old one verifies until the last token that it signed must have ended.

use std::path::Path;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::Ed25519KeyPair;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;

use super::files::{self, Folder, Kind, not_before_ms, secret, write_new};
use super::set::{AdmissionKey, KeySet, secret_name};
use super::{KeysError, now_ms};
use crate::domain::status::rfc3339;

/// What a rotation did.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Rotated {
    /// The new files.
    pub made: Vec<String>,
    /// From when on they sign, RFC 3339.
    pub signs_from: String,
    /// Files taken away: nothing that they signed can still count.
    pub removed: Vec<String>,
}

/// What a key does now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It verifies, and will sign.
    New,
    /// It signs.
    Signs,
    /// It verifies what it has signed.
    Verifies,
}

impl State {
    /// Its word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Signs => "signs",
            Self::Verifies => "verifies",
        }
    }
}

/// One key file.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Listed {
    /// Its name.
    pub file: String,
    /// `kid` of admissions; of other keys a short hash.
    pub id: String,
    /// What it does.
    pub state: State,
    /// From when on it signs, RFC 3339; nothing if from the start.
    pub signs_from: Option<String>,
}

/// Makes the first keys of a folder. The admission key comes last, so that a folder without one is
/// no whole set, and a making that was cut off is taken up.
pub(super) fn make(dir: &Path) -> Result<(), KeysError> {
    files::make_folder(dir)?;
    if Folder::read(dir)?.of(Kind::Admission).last().is_some() {
        return Err(KeysError::Present(dir.to_owned()));
    }
    for name in [Kind::Tickets.next_name(None).as_str(), "place.key", "seal.key"] {
        if !dir.join(name).exists() {
            write_new(dir, name, &random_secret(dir)?)?;
        }
    }
    write_new(dir, &Kind::Admission.next_name(None), &admission_pem(dir)?)
}

/// Puts a new admission key and a new ticket key beside the old ones; they sign `after_ms` from
/// now. Keys replaced more than `keep_ms` ago go.
pub fn rotate(dir: &Path, after_ms: u64, keep_ms: u64) -> Result<Rotated, KeysError> {
    let folder = Folder::read(dir)?;
    KeySet::read(&folder)?;
    let now_ms = now_ms();
    for kind in Kind::ALL {
        if let Some((name, text)) = folder.of(kind).last() {
            let path = dir.join(name);
            let from_ms = not_before_ms(&path, text)?;
            if from_ms > now_ms {
                return Err(KeysError::NotSigningYet(path, rfc3339(from_ms)));
            }
        }
    }
    let signs_from_ms = now_ms.saturating_add(after_ms);
    let line = files::not_before_line(signs_from_ms);
    let (mut made, mut removed) = (vec![], vec![]);
    for kind in Kind::ALL {
        let name = kind.next_name(folder.of(kind).last().map(|(name, _)| name));
        let text = match kind {
            // Text before the armour is a comment to every reader of PEM.
            Kind::Admission => format!("{line}{}", admission_pem(dir)?),
            Kind::Tickets => format!("{}{line}", random_secret(dir)?),
        };
        write_new(dir, &name, &text)?;
        made.push(name);
        for name in outlived(&folder, kind, now_ms, keep_ms)? {
            files::remove(dir, &name)?;
            removed.push(name);
        }
    }
    Ok(Rotated { made, signs_from: rfc3339(signs_from_ms), removed })
}

/// Keys whose successor has been signing for longer than anything they signed can last.
fn outlived(
    folder: &Folder,
    kind: Kind,
    now_ms: u64,
    keep_ms: u64,
) -> Result<Vec<String>, KeysError> {
    let keys: Vec<_> = folder.of(kind).collect();
    let mut found = vec![];
    for pair in keys.windows(2) {
        let (successor, text) = pair[1];
        let since_ms = not_before_ms(&folder.dir.join(successor), text)?;
        if since_ms.saturating_add(keep_ms) <= now_ms {
            found.push(pair[0].0.to_owned());
        }
    }
    Ok(found)
}

/// The keys of a folder, in the order of their names.
pub fn list(dir: &Path) -> Result<Vec<Listed>, KeysError> {
    let folder = Folder::read(dir)?;
    KeySet::read(&folder)?;
    let now_ms = now_ms();
    let mut listed = vec![];
    for kind in Kind::ALL {
        let mut keys = vec![];
        for (name, text) in folder.of(kind) {
            let path = dir.join(name);
            let id = match kind {
                Kind::Admission => AdmissionKey::read(&path, text)?.kid,
                Kind::Tickets => secret_name(&secret(&path, text)?),
            };
            keys.push((name.to_owned(), id, not_before_ms(&path, text)?));
        }
        let signing = keys.iter().rposition(|(_, _, from_ms)| *from_ms <= now_ms).unwrap_or(0);
        listed.extend(keys.into_iter().enumerate().map(|(at, (file, id, from_ms))| Listed {
            file,
            id,
            state: match at.cmp(&signing) {
                std::cmp::Ordering::Less => State::Verifies,
                std::cmp::Ordering::Equal => State::Signs,
                std::cmp::Ordering::Greater => State::New,
            },
            signs_from: (from_ms > 0).then(|| rfc3339(from_ms)),
        }));
    }
    Ok(listed)
}

fn admission_pem(dir: &Path) -> Result<String, KeysError> {
    // Version 1 of PKCS#8: what is made here can be read by every other tool.
    let pkcs8 = Ed25519KeyPair::generate_pkcs8v1(&SystemRandom::new()).map_err(no_chance(dir))?;
    let body = STANDARD.encode(pkcs8.as_ref());
    Ok(format!("-----BEGIN PRIVATE KEY-----\n{body}\n-----END PRIVATE KEY-----\n"))
}

fn random_secret(dir: &Path) -> Result<String, KeysError> {
    let mut bytes = [0; 32];
    aws_lc_rs::rand::fill(&mut bytes).map_err(no_chance(dir))?;
    Ok(format!("{}\n", hex::encode(bytes)))
}

fn no_chance(dir: &Path) -> impl Fn(aws_lc_rs::error::Unspecified) -> KeysError {
    move |_| KeysError::Unusable(dir.to_owned(), "the system gives no randomness")
}

#[cfg(test)]
mod tests {
    use super::super::Keys;
    use super::*;

    const MONTH_MS: u64 = 30 * 86_400_000;

    fn states(dir: &Path) -> Vec<(String, State)> {
        list(dir).unwrap().into_iter().map(|key| (key.file, key.state)).collect()
    }

    fn folder() -> (tempfile::TempDir, std::path::PathBuf) {
        let outer = tempfile::tempdir().unwrap();
        let dir = outer.path().join("keys");
        Keys::generate(&dir).unwrap();
        (outer, dir)
    }

    #[test]
    fn a_new_key_signs_only_after_its_time_and_is_not_rotated_before_it_does() {
        let (_outer, dir) = folder();
        let rotated = rotate(&dir, 60_000, MONTH_MS).unwrap();
        assert_eq!(rotated.made, ["admission-0002.pem", "tickets-0002.key"]);
        assert!(rotated.removed.is_empty());
        assert_eq!(
            states(&dir),
            [
                ("admission-0001.pem".to_owned(), State::Signs),
                ("admission-0002.pem".to_owned(), State::New),
                ("tickets-0001.key".to_owned(), State::Signs),
                ("tickets-0002.key".to_owned(), State::New),
            ]
        );
        let again = rotate(&dir, 60_000, MONTH_MS);
        assert!(matches!(again, Err(KeysError::NotSigningYet(..))));
    }

    #[test]
    fn a_replaced_key_verifies_until_nothing_that_it_signed_can_count() {
        let (_outer, dir) = folder();
        rotate(&dir, 0, MONTH_MS).unwrap();
        assert_eq!(states(&dir)[0].1, State::Verifies);
        assert_eq!(states(&dir)[1].1, State::Signs);

        let rotated = rotate(&dir, 0, 0).unwrap();

        assert_eq!(rotated.removed, ["admission-0001.pem", "tickets-0001.key"]);
        assert_eq!(rotated.made, ["admission-0003.pem", "tickets-0003.key"]);
    }
}
