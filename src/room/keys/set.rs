//! One reading of the key folder, ready for use.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{DecodingKey, EncodingKey};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::pki_types::pem::PemObject;
use serde_json::json;
use sha2::{Digest, Sha256};

use super::super::ticket_token::TicketKey;
use super::super::verified::Verified;
use super::files::{Folder, Kind, not_before_ms, secret};
use super::{KeysError, now_ms};

/// A key that signs from some time on.
pub(in crate::room) struct Signer<K> {
    /// The thumbprint; of a ticket key, a short hash.
    pub(in crate::room) kid: String,
    pub(in crate::room) key: K,
    pub(super) not_before_ms: u64,
}

impl<K> Signer<K> {
    /// Tells it from others, with the time from which on it signs.
    fn name(&self) -> String {
        format!("{} {}\0", self.kid, self.not_before_ms)
    }
}

/// The keys of one folder.
pub(in crate::room) struct KeySet {
    /// In the order of their names.
    admissions: Vec<Signer<EncodingKey>>,
    pub(in crate::room) verifying: HashMap<String, DecodingKey>,
    /// In the order of their names.
    tickets: Vec<Signer<TicketKey>>,
    /// The newest first.
    pub(in crate::room) ticket_readers: Vec<(DecodingKey, TicketKey)>,
    /// Staff passes: of the place key, so that a rotation spoils none.
    pub(in crate::room) passes: (EncodingKey, DecodingKey),
    pub(in crate::room) verified: Verified,
    pub(super) place: [u8; 32],
    pub(super) seal: [u8; 32],
    pub(super) jwks: Arc<str>,
    pub(super) fingerprint: Arc<str>,
}

impl KeySet {
    /// Reads a folder; every fault names its file.
    pub(super) fn read(folder: &Folder) -> Result<Self, KeysError> {
        let (admissions, verifying, jwks) = admission_keys(folder)?;
        let (tickets, ticket_readers) = ticket_keys(folder)?;
        for (kind, found) in [(Kind::Admission, admissions.len()), (Kind::Tickets, tickets.len())] {
            if found == 0 {
                return Err(KeysError::Missing(folder.dir.clone(), kind.pattern()));
            }
        }
        let named = |name: &'static str| secret(&folder.dir.join(name), folder.text(name)?);
        let (place, seal) = (named("place.key")?, named("seal.key")?);
        let mut hash = Sha256::new();
        hash.update(b"stanchion/keys/v1\0");
        for named in admissions.iter().map(Signer::name).chain(tickets.iter().map(Signer::name)) {
            hash.update(named);
        }
        hash.update(Sha256::digest([place, seal].concat()));
        let mut pass_secret = Sha256::new();
        pass_secret.update(b"stanchion/passes/v1\0");
        pass_secret.update(place);
        Ok(Self {
            admissions,
            verifying,
            tickets,
            ticket_readers,
            passes: hmac_pair(&folder.dir.join("place.key"), &pass_secret.finalize())?,
            verified: Verified::default(),
            place,
            seal,
            jwks: jwks.into(),
            fingerprint: hex::encode(&hash.finalize()[..8]).into(),
        })
    }

    /// The key that signs admissions now.
    pub(in crate::room) fn admission_signer(&self) -> &Signer<EncodingKey> {
        signing(&self.admissions)
    }

    /// The key that signs tickets now.
    pub(in crate::room) fn ticket_signer(&self) -> &Signer<TicketKey> {
        signing(&self.tickets)
    }
}

/// The last whose time has come; a folder is never without one.
fn signing<K>(signers: &[Signer<K>]) -> &Signer<K> {
    let now_ms = now_ms();
    let due = signers.iter().rev().find(|signer| signer.not_before_ms <= now_ms);
    due.unwrap_or(&signers[0])
}

type Tickets = (Vec<Signer<TicketKey>>, Vec<(DecodingKey, TicketKey)>);
type Admissions = (Vec<Signer<EncodingKey>>, HashMap<String, DecodingKey>, String);

fn admission_keys(folder: &Folder) -> Result<Admissions, KeysError> {
    let (mut signers, mut verifying, mut published) = (vec![], HashMap::new(), vec![]);
    for (name, text) in folder.of(Kind::Admission) {
        let path = folder.dir.join(name);
        let key = AdmissionKey::read(&path, text)?;
        published.push(json!({
            "kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "use": "sig",
            "kid": key.kid, "x": URL_SAFE_NO_PAD.encode(&key.public),
        }));
        verifying.insert(key.kid.clone(), DecodingKey::from_ed_der(&key.public));
        let not_before_ms = not_before_ms(&path, text)?;
        signers.push(Signer { kid: key.kid, key: key.private, not_before_ms });
    }
    Ok((signers, verifying, json!({ "keys": published }).to_string()))
}

fn ticket_keys(folder: &Folder) -> Result<Tickets, KeysError> {
    let (mut signers, mut readers) = (vec![], vec![]);
    for (name, text) in folder.of(Kind::Tickets) {
        let path = folder.dir.join(name);
        let bytes = secret(&path, text)?;
        let (_, reader) = hmac_pair(&path, &bytes)?;
        let key = TicketKey::new(&bytes);
        readers.insert(0, (reader, key.clone()));
        let not_before_ms = not_before_ms(&path, text)?;
        signers.push(Signer { kid: secret_name(&bytes), key, not_before_ms });
    }
    Ok((signers, readers))
}

/// Names a secret without telling it.
pub(super) fn secret_name(bytes: &[u8; 32]) -> String {
    let mut hash = Sha256::new();
    hash.update(b"stanchion/secret/v1\0");
    hash.update(bytes);
    hex::encode(&hash.finalize()[..8])
}

fn hmac_pair(path: &Path, key: &[u8]) -> Result<(EncodingKey, DecodingKey), KeysError> {
    let unusable = |_| KeysError::Unusable(path.to_owned(), "cannot be used for HMAC");
    let sign = EncodingKey::from_secret(key).map_err(unusable)?;
    Ok((sign, DecodingKey::from_secret(key).map_err(unusable)?))
}

/// An Ed25519 key and its name.
pub(super) struct AdmissionKey {
    pub(super) kid: String,
    public: Vec<u8>,
    private: EncodingKey,
}

impl AdmissionKey {
    pub(super) fn read(path: &Path, text: &str) -> Result<Self, KeysError> {
        let unusable = |what| KeysError::Unusable(path.to_owned(), what);
        let der = PrivatePkcs8KeyDer::from_pem_slice(text.as_bytes())
            .map_err(|_| unusable("must be a readable PKCS#8 PEM private key"))?;
        let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(der.secret_pkcs8_der())
            .map_err(|_| unusable("must be an Ed25519 key"))?;
        let public = pair.public_key().as_ref().to_vec();
        let private = EncodingKey::from_ed_der(der.secret_pkcs8_der());
        Ok(Self { kid: thumbprint(&public), public, private })
    }
}

/// RFC 7638: the hash of the required members, in order, without white space.
fn thumbprint(public: &[u8]) -> String {
    let x = URL_SAFE_NO_PAD.encode(public);
    let members = format!(r#"{{"crv":"Ed25519","kty":"OKP","x":"{x}"}}"#);
    URL_SAFE_NO_PAD.encode(Sha256::digest(members))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_named_by_its_thumbprint() {
        // The example of RFC 8037, appendix A.3.
        let public = URL_SAFE_NO_PAD.decode("11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo").unwrap();
        assert_eq!(thumbprint(&public), "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k");
    }
}
