//! The draw: a seed committed to beforehand, a key fixed at the opening, and a permutation that
//! anybody can recompute.
//!
//! The permutation is `compute_shuffled_index` of the Ethereum consensus specification
//! (swap-or-not, Hoang, Morris, Rogaway 2012), 90 rounds of SHA-256, so that independent
//! implementations can check ours.

use std::sync::OnceLock;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::shuffle::Positions;

use super::beacon::{self, BeaconError, SignatureBytes};
use super::id::SaleId;

/// The name of the algorithm in a proof.
pub const ALGORITHM: &str = "swap-or-not-90-sha256";

const ROUNDS: u8 = 90;
const COMMIT_TAG: &[u8] = b"stanchion/commit/v1";
const DRAW_TAG: &[u8] = b"stanchion/draw/v1";

/// The published hash of a seed, shown before anybody can join. `round` 0 = no beacon.
pub fn commitment(sale: &SaleId, run: u64, round: u64, seed: &[u8; 32]) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update(COMMIT_TAG);
    hash.update([0]);
    hash.update(sale.as_str());
    hash.update([0]);
    hash.update(run.to_le_bytes());
    hash.update(round.to_le_bytes());
    hash.update(seed);
    hash.finalize().into()
}

/// The key of the permutation of `n` entries, with the round's signature if the draw has a beacon.
pub fn key(sale: &SaleId, seed: &[u8; 32], n: u64, signature: Option<&SignatureBytes>) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update(DRAW_TAG);
    hash.update([0]);
    hash.update(sale.as_str());
    hash.update([0]);
    hash.update(seed);
    hash.update(n.to_le_bytes());
    if let Some(signature) = signature {
        hash.update(beacon::randomness(signature));
    }
    hash.finalize().into()
}

/// The permutation of `0..n` under one key, with what every position needs computed once.
#[derive(Debug, Clone)]
pub struct Draw {
    n: u64,
    key: [u8; 32],
    pivots: Vec<u64>,
    /// All positions, once they were worked out; nothing if there are too many.
    all: OnceLock<Option<Positions>>,
}

impl Draw {
    /// Prepares the permutation of `0..n`.
    pub fn new(n: u64, key: [u8; 32]) -> Self {
        Self::with_rounds(n, key, ROUNDS)
    }

    fn with_rounds(n: u64, key: [u8; 32], rounds: u8) -> Self {
        let pivots = (0..rounds).map(|round| pivot(&key, round, n)).collect();
        Self { n, key, pivots, all: OnceLock::new() }
    }

    /// Works all positions out at once, a tenth of a microsecond each where one by itself takes
    /// five. From then on they are looked up: four bytes an entry. Blocks.
    pub fn prepare(&self) {
        self.all.get_or_init(|| Positions::of(self.n, &self.key, &self.pivots));
    }

    /// How many entries were drawn.
    pub fn n(&self) -> u64 {
        self.n
    }

    /// The position of an entry; nothing for an entry that was not drawn.
    pub fn position(&self, entry: u64) -> Option<u64> {
        if entry >= self.n {
            return None;
        }
        if let Some(Some(all)) = self.all.get() {
            return all.of_entry(entry);
        }
        let mut index = entry;
        for (round, pivot) in (0u8..).zip(&self.pivots) {
            index = self.swapped(round, *pivot, index);
        }
        Some(index)
    }

    /// The entry that has a position: the same rounds backwards, since each is its own inverse.
    pub fn entry(&self, position: u64) -> Option<u64> {
        if position >= self.n {
            return None;
        }
        let mut index = position;
        for (round, pivot) in (0..ROUNDS).zip(&self.pivots).rev() {
            index = self.swapped(round, *pivot, index);
        }
        Some(index)
    }

    /// One round: the index, or its opposite about the pivot.
    fn swapped(&self, round: u8, pivot: u64, index: u64) -> u64 {
        let flip = pivot.wrapping_add(self.n).wrapping_sub(index) % self.n;
        if self.bit(round, index.max(flip)) { flip } else { index }
    }

    fn bit(&self, round: u8, at: u64) -> bool {
        let byte = block(&self.key, round, at / 256)[usize::try_from(at % 256 / 8).unwrap_or(0)];
        byte >> (at % 8) & 1 == 1
    }
}

/// The bits of 256 indices in one round.
pub(super) fn block(key: &[u8; 32], round: u8, number: u64) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update(key);
    hash.update([round]);
    // The specification hashes the block number as four bytes; n is far below 2^40.
    hash.update(u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes());
    hash.finalize().into()
}

fn pivot(key: &[u8; 32], round: u8, n: u64) -> u64 {
    let mut hash = Sha256::new();
    hash.update(key);
    hash.update([round]);
    let digest = hash.finalize();
    let mut head = [0; 8];
    head.copy_from_slice(&digest[..8]);
    u64::from_le_bytes(head).checked_rem(n).unwrap_or(0)
}

/// What everybody may have to recompute the draw; bytes are lower-case hex.
/// `n`, `opened_at`, `seed` and `key` are there once the sale is open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Proof {
    /// The sale's id.
    pub sale: SaleId,
    /// Which drawing of the sale.
    pub run: u64,
    /// Always [`ALGORITHM`].
    pub algorithm: String,
    /// SHA-256 over sale, run, round and seed.
    pub commitment: String,
    /// The beacon round, 0 = none.
    pub round: u64,
    /// The beacon's signature, "" without a round.
    pub signature: String,
    /// The beacon's randomness, "" without a round.
    pub beacon: String,
    /// How many entries were drawn.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub n: Option<u64>,
    /// RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub opened_at: Option<String>,
    /// 32 bytes.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub seed: Option<String>,
    /// 32 bytes.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub key: Option<String>,
}

/// The step of a verification that failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProofError {
    /// The draw has not happened yet.
    #[error("{0}: missing; the proof is complete once the sale is open")]
    Missing(&'static str),
    /// Not 32 bytes of lower-case hex.
    #[error("{0}: must be 64 lower-case hex digits")]
    Hex(&'static str),
    /// Some other algorithm.
    #[error("algorithm: must be \"{ALGORITHM}\"")]
    Algorithm,
    /// Randomness of a draw that was committed to without any.
    #[error("round: is 0, and yet there is a signature or a beacon")]
    Round,
    /// The round's signature.
    #[error("{0}")]
    Signature(#[from] BeaconError),
    /// The randomness is not that of the round.
    #[error("beacon: is not the SHA-256 of the signature")]
    Beacon,
    /// The seed is not the one committed to.
    #[error("commitment: the seed revealed is not the one that was committed to")]
    Commitment,
    /// The key does not follow from seed and n.
    #[error("key: does not follow from sale, seed, n and beacon")]
    Key,
}

impl Proof {
    /// Recomputes commitment and key; the permutation that results is the proven one.
    pub fn verify(&self) -> Result<Draw, ProofError> {
        if self.algorithm != ALGORITHM {
            return Err(ProofError::Algorithm);
        }
        let n = self.n.ok_or(ProofError::Missing("n"))?;
        let seed = bytes32("seed", self.seed.as_deref())?;
        let stated = bytes32("key", self.key.as_deref())?;
        let committed = bytes32("commitment", Some(&self.commitment))?;
        if commitment(&self.sale, self.run, self.round, &seed) != committed {
            return Err(ProofError::Commitment);
        }
        let signature = self.verify_beacon()?;
        let key = key(&self.sale, &seed, n, signature.as_ref());
        if key != stated {
            return Err(ProofError::Key);
        }
        Ok(Draw::new(n, key))
    }

    fn verify_beacon(&self) -> Result<Option<SignatureBytes>, ProofError> {
        if self.round == 0 {
            let is_empty = self.signature.is_empty() && self.beacon.is_empty();
            return if is_empty { Ok(None) } else { Err(ProofError::Round) };
        }
        let signature = beacon::parse(&self.signature)?;
        beacon::verify(self.round, &signature)?;
        if self.beacon != hex::encode(beacon::randomness(&signature)) {
            return Err(ProofError::Beacon);
        }
        Ok(Some(signature))
    }
}

fn bytes32(field: &'static str, raw: Option<&str>) -> Result<[u8; 32], ProofError> {
    let raw = raw.ok_or(ProofError::Missing(field))?;
    if raw.bytes().any(|b| b.is_ascii_uppercase()) {
        return Err(ProofError::Hex(field));
    }
    let mut out = [0; 32];
    hex::decode_to_slice(raw, &mut out).map_err(|_| ProofError::Hex(field))?;
    Ok(out)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[derive(Deserialize)]
    struct Vectors {
        vectors: Vec<Vector>,
    }
    #[derive(Deserialize)]
    struct Vector {
        rounds: u8,
        seed: String,
        count: u64,
        /// Position of each entry, or of a sample of them where there are millions.
        #[serde(default)]
        shuffled: Vec<u64>,
        #[serde(default)]
        sample: BTreeMap<String, u64>,
    }

    #[test]
    fn every_published_shuffle_vector_comes_out() {
        let raw = include_str!("../../tests/data/shuffle-vectors.json");
        let vectors: Vectors = serde_json::from_str(raw).unwrap();
        assert!(vectors.vectors.len() >= 4);
        for vector in vectors.vectors {
            let key = bytes32("seed", Some(&vector.seed)).unwrap();
            let draw = Draw::with_rounds(vector.count, key, vector.rounds);
            let all = (0u64..).zip(vector.shuffled);
            let some = vector.sample.into_iter().map(|(i, to)| (i.parse().unwrap(), to));
            let expected: Vec<(u64, u64)> = all.chain(some).collect();
            assert!(!expected.is_empty());
            let check = |draw: &Draw| {
                for (entry, position) in &expected {
                    assert_eq!(draw.position(*entry), Some(*position), "{entry} of {}", draw.n);
                    assert_eq!(draw.entry(*position), Some(*entry), "{position} of {}", draw.n);
                }
            };
            check(&draw);
            // Of a million it takes a test's unoptimised code too long.
            if vector.count <= 100_000 {
                draw.prepare();
                check(&draw);
            }
        }
    }

    #[test]
    fn nobody_drawn_is_an_empty_permutation() {
        let nobody = Draw::new(0, [7; 32]);
        assert_eq!((nobody.position(0), nobody.entry(0)), (None, None));
    }

    fn proof(n: u64, seed: [u8; 32]) -> Proof {
        let sale = SaleId::parse("spring-drop").unwrap();
        Proof {
            run: 1,
            algorithm: ALGORITHM.into(),
            commitment: hex::encode(commitment(&sale, 1, 0, &seed)),
            round: 0,
            signature: String::new(),
            beacon: String::new(),
            n: Some(n),
            opened_at: Some("2027-03-01T12:00:00Z".into()),
            seed: Some(hex::encode(seed)),
            key: Some(hex::encode(key(&sale, &seed, n, None))),
            sale,
        }
    }

    #[test]
    fn wr_14_each_kind_of_tampering_fails_at_its_own_step() {
        let honest = proof(100, [9; 32]);
        assert!(honest.verify().is_ok());

        let other = Proof { seed: Some(hex::encode([8; 32])), ..honest.clone() };
        assert_eq!(other.verify().unwrap_err(), ProofError::Commitment);
        let more = Proof { n: Some(101), ..honest.clone() };
        assert_eq!(more.verify().unwrap_err(), ProofError::Key);
        let rekeyed = Proof { key: Some(hex::encode([1; 32])), ..honest.clone() };
        assert_eq!(rekeyed.verify().unwrap_err(), ProofError::Key);
        let rerun = Proof { run: 2, ..honest.clone() };
        assert_eq!(rerun.verify().unwrap_err(), ProofError::Commitment);
        let beacon = Proof { beacon: "00".into(), ..honest.clone() };
        assert_eq!(beacon.verify().unwrap_err(), ProofError::Round);
        let early = Proof { seed: None, ..honest };
        assert_eq!(early.verify().unwrap_err(), ProofError::Missing("seed"));
    }

    #[test]
    fn wr_14_a_beacon_is_checked_with_the_chains_key_and_enters_the_draw() {
        let signature = "b44679b9a59af2ec876b1a6b1ad52ea9b1615fc3982b19576350f93447cb1125\
            e342b73a8dd2bacbe47e4b6b63ed5e39";
        let bytes = beacon::parse(signature).unwrap();
        let plain = proof(100, [9; 32]);
        let honest = Proof {
            round: 1000,
            commitment: hex::encode(commitment(&plain.sale, 1, 1000, &[9; 32])),
            signature: signature.into(),
            beacon: hex::encode(beacon::randomness(&bytes)),
            key: Some(hex::encode(key(&plain.sale, &[9; 32], 100, Some(&bytes)))),
            ..plain.clone()
        };
        assert!(honest.verify().is_ok());
        assert_ne!(honest.key, plain.key);

        let fails = |tampered: Proof, step| assert_eq!(tampered.verify().unwrap_err(), step);
        let other = |round| Proof {
            round,
            commitment: hex::encode(commitment(&plain.sale, 1, round, &[9; 32])),
            ..honest.clone()
        };
        fails(Proof { round: 999, ..honest.clone() }, ProofError::Commitment);
        fails(other(999), ProofError::Signature(BeaconError::Signature));
        fails(other(0), ProofError::Round);
        fails(Proof { beacon: "00".into(), ..honest.clone() }, ProofError::Beacon);
        let cut = Proof { signature: String::new(), ..honest.clone() };
        fails(cut, ProofError::Signature(BeaconError::Hex));
        fails(Proof { key: plain.key, ..honest }, ProofError::Key);
    }

    proptest! {
        #[test]
        fn the_draw_is_a_permutation(n in 0u64..600, key: [u8; 32]) {
            let draw = Draw::new(n, key);
            let mut seen: Vec<_> = (0..n).map(|i| draw.position(i).unwrap()).collect();
            draw.prepare();
            prop_assert!((0..n).zip(&seen).all(|(i, at)| draw.position(i) == Some(*at)));
            prop_assert_eq!(draw.position(n), None);
            seen.sort_unstable();
            prop_assert!(seen.into_iter().eq(0..n));
        }

        #[test]
        fn the_draw_is_reproducible_from_its_proof(n in 1u64..500, seed: [u8; 32]) {
            let proof = proof(n, seed);
            let again: Proof = serde_json::from_str(&serde_json::to_string(&proof).unwrap()).unwrap();
            let (a, b) = (proof.verify().unwrap(), again.verify().unwrap());
            for entry in 0..n {
                prop_assert_eq!(a.position(entry), b.position(entry));
            }
        }
    }
}
