//! A round of drand's quicknet: public randomness that nobody knows before its second.
//!
//! Signatures are BLS on G1 of BLS12-381 over SHA-256(round as eight bytes, big-endian), hashed to
//! the curve as RFC 9380 has it (drand's scheme `bls-unchained-g1-rfc9380`); the randomness is the
//! SHA-256 of the signature.

use blst::BLST_ERROR;
use blst::min_sig::{PublicKey, Signature};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The chain's name, as drand lists it.
pub const CHAIN: &str = "quicknet";
/// When round 1 was published, Unix milliseconds.
const GENESIS_MS: u64 = 1_692_803_367_000;
const PERIOD_MS: u64 = 3_000;
/// How long after the opening a round must be published at the least, in milliseconds: whoever
/// could still join must not know it.
const MARGIN_MS: u64 = 3_000;
const DOMAIN: &[u8] = b"BLS_SIG_BLS12381G1_XMD:SHA-256_SSWU_RO_NUL_";
/// The chain's public key, a point of G2.
const PUBLIC_KEY: &str = "83cf0f2896adee7eb8b5f01fcad3912212c437e0073e911fb90022d3e760183c\
    8c4b450b6a0a6c3ac6a5776a2d1064510d1fec758c921cc22b0e17e63aaf4bcb5ed66304de9cf809bd274ca73bab4a\
    f5a6e9c76a4bc09e76eae8991ef5ece45a";

/// A signature as it is published.
pub type SignatureBytes = [u8; 48];

/// A published round, as drand's HTTP answers have it; bytes are lower-case hex.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Published {
    /// Its number, from 1.
    pub round: u64,
    /// 48 bytes.
    pub signature: String,
    /// SHA-256 of the signature; may be left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub randomness: Option<String>,
}

/// What is wrong with a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BeaconError {
    /// Not bytes.
    #[error("signature: must be 96 lower-case hex digits, as published by drand's quicknet")]
    Hex,
    /// Not of this round, or of another chain.
    #[error("signature: is not that of this round by the key of drand's quicknet")]
    Signature,
    /// Not the hash of the signature.
    #[error("randomness: is not the SHA-256 of the signature")]
    Randomness,
}

impl BeaconError {
    /// The member that is wrong.
    pub fn field(self) -> &'static str {
        match self {
            Self::Hex | Self::Signature => "signature",
            Self::Randomness => "randomness",
        }
    }
}

impl Published {
    /// The signature, checked with the chain's key.
    pub fn verified(&self) -> Result<SignatureBytes, BeaconError> {
        let signature = parse(&self.signature)?;
        verify(self.round, &signature)?;
        match &self.randomness {
            Some(told) if *told != hex::encode(randomness(&signature)) => {
                Err(BeaconError::Randomness)
            }
            Some(_) | None => Ok(signature),
        }
    }
}

/// A signature from lower-case hex.
pub fn parse(raw: &str) -> Result<SignatureBytes, BeaconError> {
    let mut bytes = [0; 48];
    if raw.bytes().any(|b| b.is_ascii_uppercase()) {
        return Err(BeaconError::Hex);
    }
    hex::decode_to_slice(raw, &mut bytes).map_err(|_| BeaconError::Hex)?;
    Ok(bytes)
}

/// Checks a round's signature with the chain's key.
pub fn verify(round: u64, signature: &SignatureBytes) -> Result<(), BeaconError> {
    let message = Sha256::digest(round.to_be_bytes());
    let wrong = |_| BeaconError::Signature;
    let key = hex::decode(PUBLIC_KEY).map_err(|_| BeaconError::Signature)?;
    let key = PublicKey::uncompress(&key).map_err(wrong)?;
    let signature = Signature::uncompress(signature).map_err(wrong)?;
    match signature.verify(true, &message, DOMAIN, &[], &key, true) {
        BLST_ERROR::BLST_SUCCESS => Ok(()),
        _ => Err(BeaconError::Signature),
    }
}

/// The 32 bytes that a round stands for.
pub fn randomness(signature: &SignatureBytes) -> [u8; 32] {
    Sha256::digest(signature).into()
}

/// When a round is published, Unix milliseconds.
pub fn published_at_ms(round: u64) -> u64 {
    GENESIS_MS.saturating_add(round.saturating_sub(1).saturating_mul(PERIOD_MS))
}

/// Whether a round would be known too early to decide a draw of those who join before `opens_ms`.
pub fn is_too_early(round: u64, opens_ms: u64) -> bool {
    published_at_ms(round) < opens_ms.saturating_add(MARGIN_MS)
}

/// The first round that may decide a draw at `opens_ms`.
pub fn first_for(opens_ms: u64) -> u64 {
    let after = opens_ms.saturating_add(MARGIN_MS).saturating_sub(GENESIS_MS);
    after.div_ceil(PERIOD_MS).saturating_add(1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ROUND_123: &str = "b75c69d0b72a5d906e854e808ba7e2accb1542ac355ae486d591aa9d43765482\
        e26cd02df835d3546d23c4b13e0dfc92";
    const ROUND_1000: &str = "b44679b9a59af2ec876b1a6b1ad52ea9b1615fc3982b19576350f93447cb1125\
        e342b73a8dd2bacbe47e4b6b63ed5e39";

    fn published(round: u64, signature: &str, randomness: Option<&str>) -> Published {
        let randomness = randomness.map(str::to_owned);
        Published { round, signature: signature.to_owned(), randomness }
    }

    #[test]
    fn published_rounds_verify_and_no_other_does() {
        let random = "fe290beca10872ef2fb164d2aa4442de4566183ec51c56ff3cd603d930e54fdd";
        let honest = published(1000, ROUND_1000, Some(random));
        assert_eq!(hex::encode(randomness(&honest.verified().unwrap())), random);
        assert!(published(123, ROUND_123, None).verified().is_ok());

        let wrong = |round, signature: &str, random| {
            published(round, signature, random).verified().unwrap_err()
        };
        assert_eq!(wrong(124, ROUND_123, None), BeaconError::Signature);
        assert_eq!(wrong(1000, ROUND_123, None), BeaconError::Signature);
        assert_eq!(wrong(1000, ROUND_1000, Some("00")), BeaconError::Randomness);
        assert_eq!(wrong(123, &ROUND_123.to_uppercase(), None), BeaconError::Hex);
        assert_eq!(wrong(123, &ROUND_123[2..], None), BeaconError::Hex);
        assert_eq!(wrong(123, &"c0".repeat(48), None), BeaconError::Signature);
        let infinity = format!("c0{}", "00".repeat(47));
        assert_eq!(wrong(123, &infinity, None), BeaconError::Signature);
    }

    proptest! {
        #[test]
        fn the_first_round_for_an_opening_is_late_enough_and_the_one_before_is_not(
            opens_ms in GENESIS_MS..GENESIS_MS + 1_000_000_000_000,
        ) {
            let first = first_for(opens_ms);
            prop_assert!(!is_too_early(first, opens_ms));
            prop_assert!(is_too_early(first - 1, opens_ms));
        }

        #[test]
        fn a_flipped_bit_is_no_signature(byte in 0usize..48, bit in 0u8..8) {
            let mut signature = parse(ROUND_123).unwrap();
            signature[byte] ^= 1 << bit;
            prop_assert!(verify(123, &signature).is_err());
        }
    }
}
