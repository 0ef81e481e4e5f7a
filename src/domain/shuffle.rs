//! All positions of a draw at once: the rounds of the shuffle, each over the whole line, so that a
//! block of bits is hashed once for 256 entries and not once for each.

use std::fmt;

use super::draw::block;

/// More entries than this are worked out one by one as they are asked for: 64 MiB.
const ENTRIES_MAX: u64 = 1 << 24;
const BLOCK: usize = 256;

/// The position of every entry.
#[derive(Clone)]
pub(super) struct Positions(Box<[u32]>);

impl Positions {
    /// Under a key, by the pivots of all rounds; nothing if there are too many.
    pub(super) fn of(n: u64, key: &[u8; 32], pivots: &[u64]) -> Option<Self> {
        let count = u32::try_from(n.min(ENTRIES_MAX)).ok().filter(|_| n <= ENTRIES_MAX)?;
        // Who stands at an index; the shuffle swaps pairs of them.
        let mut line: Vec<u32> = (0..count).collect();
        for (round, pivot) in (0u8..).zip(pivots) {
            let pivot = usize::try_from(*pivot).ok()?;
            let middle = line.len().min(pivot + 1);
            let (first, second) = line.split_at_mut(middle);
            let bits = |number| block(key, round, number);
            mirror(first, 0, bits);
            mirror(second, middle, bits);
        }
        let mut positions = vec![0; line.len()].into_boxed_slice();
        for (position, entry) in (0..count).zip(line) {
            *positions.get_mut(usize::try_from(entry).ok()?)? = position;
        }
        Some(Self(positions))
    }

    /// The position of an entry.
    pub(super) fn of_entry(&self, entry: u64) -> Option<u64> {
        self.0.get(usize::try_from(entry).ok()?).copied().map(u64::from)
    }
}

/// Swaps the ends of a part of the line, and what stands between them, wherever the bit of the
/// higher index is set. `from` is the index of its first.
fn mirror(part: &mut [u32], from: usize, bits: impl Fn(u64) -> [u8; 32]) {
    let half = part.len() / 2;
    let (lower, rest) = part.split_at_mut(half);
    // The middle of an odd part is its own partner.
    let middle = rest.len() - half;
    let (mut lower, mut higher) = (lower.iter_mut().rev(), rest[middle..].iter_mut());
    let mut at = from + half + middle;
    while higher.len() > 0 {
        let block = bits((at / BLOCK) as u64);
        let first = at % BLOCK;
        for ((bit, higher), lower) in (first..BLOCK).zip(&mut higher).zip(&mut lower) {
            // Without a branch: nobody can guess the bits.
            let is_set = u32::from(block[bit / 8] >> (bit % 8) & 1);
            let change = (*higher ^ *lower) & is_set.wrapping_neg();
            *higher ^= change;
            *lower ^= change;
        }
        at += BLOCK - first;
    }
}

impl fmt::Debug for Positions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} positions", self.0.len())
    }
}
