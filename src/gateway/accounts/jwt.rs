//! A token in a cookie of the shop's, signed by the shop: who is signed in is read from it.

use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;

use arc_swap::ArcSwap;
use hyper::HeaderMap;
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyOperations, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::Vouched;
use crate::config::settings::Jwt;
use crate::domain::admission::LEEWAY_MS;
use crate::domain::id::AccountId;
use crate::gateway::cookies;

/// Longer tokens are refused unread.
const TOKEN_BYTES_MAX: usize = 8_192;
/// A longer file of keys is refused.
const FILE_BYTES_MAX: u64 = 1024 * 1024;
/// Keys beyond these are not looked at.
const KEYS_MAX: usize = 64;
/// How often the file is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Why a file of keys was refused.
#[derive(Debug, thiserror::Error)]
pub enum KeysFault {
    /// It cannot be read.
    #[error("{path}: {error}", path = .0.display(), error = .1)]
    Unreadable(PathBuf, std::io::Error),
    /// It is no JSON Web Key Set.
    #[error("{path}: is not a JSON Web Key Set: {error}", path = .0.display(), error = .1)]
    Malformed(PathBuf, serde_json::Error),
    /// None of its keys can verify a token.
    #[error(
        "{path}: has no key that signs tokens; it needs RSA, EC P-256 or P-384, Ed25519 or oct keys",
        path = .0.display()
    )]
    NoKey(PathBuf),
}

/// Reads the account from the shop's cookie.
pub(in crate::gateway) struct SignedCookie {
    cookie: String,
    claim: String,
    file: PathBuf,
    keys: ArcSwap<KeySet>,
}

struct KeySet {
    /// What the keys were read from.
    text: Vec<u8>,
    keys: Vec<Key>,
}

/// A key, and the algorithms that it is for: the token has no say in that.
struct Key {
    kid: Option<String>,
    verifier: DecodingKey,
    rules: Validation,
}

impl SignedCookie {
    /// Reads the keys; they must be there at the start.
    pub(super) fn new(settings: &Jwt) -> Result<Self, KeysFault> {
        let file = settings.jwks_file.clone();
        let keys = parse(&file, read(&file)?)?;
        let (cookie, claim) = (settings.cookie.clone(), settings.claim.clone());
        Ok(Self { cookie, claim, file, keys: ArcSwap::from_pointee(keys) })
    }

    /// Who is signed in at `now_ms`, Unix milliseconds.
    pub(super) fn read(&self, headers: &HeaderMap, now_ms: u64) -> Vouched {
        let keys = self.keys.load();
        let account = cookies::values(headers, &self.cookie)
            .find_map(|token| self.account(&keys.keys, token, now_ms));
        account.map_or(Vouched::Nobody, Vouched::For)
    }

    fn account(&self, keys: &[Key], token: &str, now_ms: u64) -> Option<AccountId> {
        if token.len() > TOKEN_BYTES_MAX {
            return None;
        }
        let kid = jsonwebtoken::decode_header(token).ok()?.kid;
        // A token that names no key may be by any; one that does, by that one only.
        let mut fitting = keys.iter().filter(|key| kid.is_none() || key.kid == kid);
        let claims = fitting.find_map(|key| {
            let token =
                jsonwebtoken::decode::<Map<String, Value>>(token, &key.verifier, &key.rules);
            token.ok().map(|token| token.claims)
        })?;
        if !is_current(&claims, now_ms) {
            return None;
        }
        match claims.get(&self.claim)? {
            Value::String(name) => AccountId::parse(name).ok(),
            Value::Number(number) => AccountId::parse(&number.to_string()).ok(),
            _ => None,
        }
    }

    /// Takes over the file's keys whenever it changes, for ever. A bad file keeps the old keys.
    pub(super) async fn follow(&self) {
        let mut refused = Vec::new();
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let file = self.file.clone();
            // Off the runtime's threads: the folder may be a network's.
            let Ok(text) = tokio::task::spawn_blocking(move || read(&file)).await else { continue };
            match text.and_then(|text| self.look(text)) {
                Ok(true) => tracing::info!("account.jwt.jwks_file: the new keys are in force"),
                Ok(false) => refused.clear(),
                Err(fault) => {
                    let why = fault.to_string().into_bytes();
                    if why != refused {
                        tracing::error!(%fault, "account.jwt.jwks_file: the old keys stay");
                    }
                    refused = why;
                }
            }
        }
    }

    /// Whether the text is new and was taken over.
    fn look(&self, text: Vec<u8>) -> Result<bool, KeysFault> {
        if text == self.keys.load().text {
            return Ok(false);
        }
        self.keys.store(parse(&self.file, text)?.into());
        Ok(true)
    }
}

fn read(file: &std::path::Path) -> Result<Vec<u8>, KeysFault> {
    let unreadable = |error| KeysFault::Unreadable(file.to_owned(), error);
    let mut text = Vec::new();
    let opened = std::fs::File::open(file).map_err(unreadable)?;
    opened.take(FILE_BYTES_MAX).read_to_end(&mut text).map_err(unreadable)?;
    Ok(text)
}

/// Of a set, single keys of other kinds do not matter.
#[derive(Deserialize)]
struct Set {
    keys: Vec<Value>,
}

fn parse(file: &std::path::Path, text: Vec<u8>) -> Result<KeySet, KeysFault> {
    let set: Set = serde_json::from_slice(&text)
        .map_err(|error| KeysFault::Malformed(file.to_owned(), error))?;
    let keys: Vec<Key> = set.keys.into_iter().take(KEYS_MAX).filter_map(usable).collect();
    if keys.is_empty() {
        return Err(KeysFault::NoKey(file.to_owned()));
    }
    Ok(KeySet { text, keys })
}

fn usable(raw: Value) -> Option<Key> {
    let jwk: Jwk = serde_json::from_value(raw).ok()?;
    let common = &jwk.common;
    let for_signing = common.public_key_use.as_ref().is_none_or(|u| *u == PublicKeyUse::Signature)
        && common.key_operations.as_ref().is_none_or(|ops| ops.contains(&KeyOperations::Verify));
    let named = common.key_algorithm.map(Algorithm::try_from);
    let algorithms: Vec<Algorithm> = match named {
        Some(Ok(one)) => kind(&jwk)?.iter().copied().filter(|known| *known == one).collect(),
        Some(Err(_)) => return None,
        None => kind(&jwk)?.to_vec(),
    };
    if !for_signing || algorithms.is_empty() {
        return None;
    }
    let verifier = DecodingKey::from_jwk(&jwk).ok()?;
    let mut rules = Validation::new(algorithms[0]);
    rules.algorithms = algorithms;
    // Time is judged by our own clock and leeway; whom else the token is for is the shop's business.
    (rules.validate_exp, rules.validate_nbf, rules.validate_aud) = (false, false, false);
    rules.required_spec_claims.clear();
    Some(Key { kid: jwk.common.key_id, verifier, rules })
}

/// The algorithms that a kind of key is for.
fn kind(jwk: &Jwk) -> Option<&'static [Algorithm]> {
    use Algorithm::{
        ES256, ES384, EdDSA, HS256, HS384, HS512, PS256, PS384, PS512, RS256, RS384, RS512,
    };
    match &jwk.algorithm {
        AlgorithmParameters::RSA(_) => Some(&[RS256, RS384, RS512, PS256, PS384, PS512]),
        AlgorithmParameters::EllipticCurve(key) => match key.curve {
            EllipticCurve::P256 => Some(&[ES256]),
            EllipticCurve::P384 => Some(&[ES384]),
            _ => None,
        },
        AlgorithmParameters::OctetKeyPair(key) if key.curve == EllipticCurve::Ed25519 => {
            Some(&[EdDSA])
        }
        AlgorithmParameters::OctetKey(_) => Some(&[HS256, HS384, HS512]),
        _ => None,
    }
}

/// A token without an end is nobody's: a cookie once stolen would be good for ever.
fn is_current(claims: &Map<String, Value>, now_ms: u64) -> bool {
    let instant = |name| claims.get(name).and_then(Value::as_f64).map(|seconds| seconds * 1000.0);
    #[expect(clippy::cast_precision_loss, reason = "milliseconds stay below 2^53")]
    let (now, leeway) = (now_ms as f64, LEEWAY_MS as f64);
    let has_begun = match (claims.get("nbf"), instant("nbf")) {
        (None, _) => true,
        (Some(_), begins) => begins.is_some_and(|begins| begins <= now + leeway),
    };
    has_begun && instant("exp").is_some_and(|ends| now < ends + leeway)
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::rand::SystemRandom;
    use aws_lc_rs::signature::{
        ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair,
    };
    use base64::Engine;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use jsonwebtoken::{EncodingKey, Header};
    use serde_json::json;

    use super::*;

    const NOW_MS: u64 = 1_000_000;

    /// A pair of keys: what signs, and the public one as the set has it.
    fn ed(kid: &str) -> (EncodingKey, Value) {
        let pkcs8 = Ed25519KeyPair::generate_pkcs8v1(&SystemRandom::new()).unwrap();
        let pair = Ed25519KeyPair::from_pkcs8(pkcs8.as_ref()).unwrap();
        let x = URL_SAFE_NO_PAD.encode(pair.public_key());
        let jwk = json!({"kty": "OKP", "crv": "Ed25519", "use": "sig", "kid": kid, "x": x});
        (EncodingKey::from_ed_der(pkcs8.as_ref()), jwk)
    }

    fn ec() -> (EncodingKey, Value) {
        let rules = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(rules, &SystemRandom::new()).unwrap();
        let pair = EcdsaKeyPair::from_pkcs8(rules, pkcs8.as_ref()).unwrap();
        let point = pair.public_key().as_ref()[1..].to_vec();
        let encode = |half: &[u8]| URL_SAFE_NO_PAD.encode(half);
        let (x, y) = (encode(&point[..32]), encode(&point[32..]));
        let jwk = json!({"kty": "EC", "crv": "P-256", "alg": "ES256", "x": x, "y": y});
        (EncodingKey::from_ec_der(pkcs8.as_ref()), jwk)
    }

    fn oct(secret: &[u8]) -> (EncodingKey, Value) {
        let jwk = json!({"kty": "oct", "k": URL_SAFE_NO_PAD.encode(secret)});
        (EncodingKey::from_secret(secret).unwrap(), jwk)
    }

    fn cookie(folder: &tempfile::TempDir, keys: &[&Value]) -> SignedCookie {
        let jwks_file = folder.path().join("jwks.json");
        std::fs::write(&jwks_file, json!({ "keys": keys }).to_string()).unwrap();
        let settings = Jwt { cookie: "session".into(), jwks_file, claim: "sub".into() };
        SignedCookie::new(&settings).unwrap()
    }

    fn sign(key: &EncodingKey, algorithm: Algorithm, kid: Option<&str>, claims: &Value) -> String {
        let header = Header { kid: kid.map(str::to_owned), ..Header::new(algorithm) };
        jsonwebtoken::encode(&header, claims, key).unwrap()
    }

    fn read(cookie: &SignedCookie, token: &str) -> Vouched {
        let line = format!("a=b; session={token}").parse().unwrap();
        cookie.read(&HeaderMap::from_iter([(hyper::header::COOKIE, line)]), NOW_MS)
    }

    fn ann() -> Value {
        json!({"sub": "ann", "exp": 2_000, "aud": "some-shop"})
    }

    fn for_ann() -> Vouched {
        Vouched::For(AccountId::parse("ann").unwrap())
    }

    #[test]
    fn a_token_by_one_of_the_keys_names_its_account() {
        let folder = tempfile::tempdir().unwrap();
        let ((first, one), (second, two)) = (ed("one"), ed("two"));
        let (curve, three) = ec();
        let cookie = cookie(&folder, &[&one, &two, &three]);
        for token in [
            sign(&first, Algorithm::EdDSA, Some("one"), &ann()),
            sign(&second, Algorithm::EdDSA, Some("two"), &ann()),
            sign(&second, Algorithm::EdDSA, None, &ann()),
            sign(&curve, Algorithm::ES256, None, &ann()),
        ] {
            assert_eq!(read(&cookie, &token), for_ann());
        }
        let wrong_kid = sign(&first, Algorithm::EdDSA, Some("two"), &ann());
        let unknown_kid = sign(&first, Algorithm::EdDSA, Some("three"), &ann());
        for token in [wrong_kid, unknown_kid, String::new(), "a.b.c".into()] {
            assert_eq!(read(&cookie, &token), Vouched::Nobody, "{token}");
        }
    }

    #[test]
    fn ed_90_the_key_says_the_algorithm_and_never_the_token() {
        let folder = tempfile::tempdir().unwrap();
        let (_, public) = ed("one");
        let cookie = cookie(&folder, &[&public]);

        // The public key, in every form that somebody could have at hand, as the secret of HMAC.
        let x = public["x"].as_str().unwrap();
        let raw = URL_SAFE_NO_PAD.decode(x).unwrap();
        for secret in [raw.as_slice(), x.as_bytes(), public.to_string().as_bytes()] {
            let key = EncodingKey::from_secret(secret).unwrap();
            for algorithm in [Algorithm::HS256, Algorithm::HS384, Algorithm::HS512] {
                for kid in [None, Some("one")] {
                    let token = sign(&key, algorithm, kid, &ann());
                    assert_eq!(read(&cookie, &token), Vouched::Nobody);
                }
            }
        }
        let part = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
        for alg in ["none", "None", "NONE", "", "EdDSA"] {
            let head = part(json!({"alg": alg, "typ": "JWT", "kid": "one"}));
            for signature in ["", "AA"] {
                let token = format!("{head}.{}.{signature}", part(ann()));
                assert_eq!(read(&cookie, &token), Vouched::Nobody, "{alg}");
            }
        }
    }

    #[test]
    fn hmac_counts_only_with_a_secret_in_the_set_and_only_as_its_key_says() {
        let folder = tempfile::tempdir().unwrap();
        let (key, mut jwk) = oct(&[7; 32]);
        let token = |algorithm| sign(&key, algorithm, None, &ann());
        let any = cookie(&folder, &[&jwk]);
        assert_eq!(read(&any, &token(Algorithm::HS256)), for_ann());
        assert_eq!(read(&any, &token(Algorithm::HS512)), for_ann());

        jwk["alg"] = "HS512".into();
        let one = cookie(&folder, &[&jwk]);
        assert_eq!(read(&one, &token(Algorithm::HS512)), for_ann());
        assert_eq!(read(&one, &token(Algorithm::HS256)), Vouched::Nobody);
    }

    #[test]
    fn a_token_counts_from_nbf_to_exp_and_not_without_an_end() {
        let folder = tempfile::tempdir().unwrap();
        let (key, jwk) = ed("k");
        let cookie = cookie(&folder, &[&jwk]);
        let of = |claims: Value| read(&cookie, &sign(&key, Algorithm::EdDSA, None, &claims));
        assert_eq!(of(json!({"sub": "ann", "exp": 999, "nbf": 1_001})), for_ann(), "leeway");
        assert_eq!(of(json!({"sub": "ann", "exp": 998})), Vouched::Nobody);
        assert_eq!(of(json!({"sub": "ann", "exp": 2_000, "nbf": 1_003})), Vouched::Nobody);
        assert_eq!(of(json!({"sub": "ann", "exp": 2_000, "nbf": "soon"})), Vouched::Nobody);
        assert_eq!(of(json!({"sub": "ann"})), Vouched::Nobody);
        assert_eq!(of(json!({"sub": "ann", "exp": "2000"})), Vouched::Nobody);
    }

    #[test]
    fn an_account_is_at_most_200_bytes_of_text_or_a_whole_number() {
        let folder = tempfile::tempdir().unwrap();
        let (key, jwk) = ed("k");
        let cookie = cookie(&folder, &[&jwk]);
        let of = |sub: Value| {
            let claims = json!({"sub": sub, "exp": 2_000});
            read(&cookie, &sign(&key, Algorithm::EdDSA, None, &claims))
        };
        let is = |name: &str| Vouched::For(AccountId::parse(name).unwrap());
        assert_eq!(of(json!("a".repeat(200))), is(&"a".repeat(200)));
        assert_eq!(of(json!(17)), is("17"));
        for bad in [json!("a".repeat(201)), json!(""), json!("a\nb"), json!(null), json!(["ann"])] {
            assert_eq!(of(bad), Vouched::Nobody);
        }
    }

    #[test]
    fn new_keys_are_taken_over_and_a_bad_file_keeps_the_old() {
        let folder = tempfile::tempdir().unwrap();
        let ((first, one), (second, two)) = (ed("one"), ed("two"));
        let cookie = cookie(&folder, &[&one]);
        let by = |key: &EncodingKey| read(&cookie, &sign(key, Algorithm::EdDSA, None, &ann()));
        assert_eq!((by(&first), by(&second)), (for_ann(), Vouched::Nobody));

        let encryption = json!({"kty": "oct", "k": "AAAA", "use": "enc"});
        for bad in ["", "{", "[]", r#"{"keys":[]}"#, &json!({"keys": [encryption]}).to_string()] {
            assert!(cookie.look(bad.as_bytes().to_vec()).is_err(), "{bad}");
            assert_eq!(by(&first), for_ann());
        }
        let text = json!({"keys": [{"kty": "new"}, two]}).to_string().into_bytes();
        assert!(cookie.look(text.clone()).unwrap());
        assert!(!cookie.look(text).unwrap(), "nothing new");
        assert_eq!((by(&first), by(&second)), (Vouched::Nobody, for_ann()));
    }
}
