//! Who was heard from in the last seconds of the lobby, by entry and on this node alone: nobody
//! knows yet who will stand in front. Once the draw is made the front is told to the other nodes,
//! so that those who never came back cost the opening nothing.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::domain::draw::Draw;

/// One bitmap stands for so long, in milliseconds: everybody asks within it before the opening.
const SLICE_MS: u64 = 8_000;
/// Entries from here on are not noted, and count as heard: 128 KB a bitmap.
const ENTRIES_MAX: u64 = 1 << 20;

/// Entries heard from; without a lock, since every poll of the lobby comes by here.
#[derive(Default)]
pub(super) struct Lobby([Slice; 2]);

#[derive(Default)]
struct Slice {
    /// Which slice of time the bits are of, from 1 on.
    of: AtomicU64,
    bits: OnceLock<Box<[AtomicU64]>>,
}

impl Slice {
    fn bits(&self) -> &[AtomicU64] {
        let words = ENTRIES_MAX / 64;
        self.bits.get_or_init(|| (0..words).map(|_| AtomicU64::new(0)).collect())
    }

    /// Bits of a time gone by are dropped by whoever comes first.
    fn turn_to(&self, slice: u64) {
        let of = self.of.load(Ordering::Relaxed);
        let turn = || self.of.compare_exchange(of, slice, Ordering::AcqRel, Ordering::Relaxed);
        // A clock that was set back begins anew as well.
        if of != slice && turn().is_ok() {
            self.bits().iter().for_each(|word| word.store(0, Ordering::Relaxed));
        }
    }

    fn has(&self, slice: u64, entry: u64) -> bool {
        let word = usize::try_from(entry / 64).ok();
        let bits = self.bits.get().filter(|_| self.of.load(Ordering::Acquire) == slice);
        let word = bits.zip(word).and_then(|(bits, word)| bits.get(word));
        word.is_some_and(|word| word.load(Ordering::Relaxed) >> (entry % 64) & 1 == 1)
    }
}

impl Lobby {
    /// Whoever has this entry has asked.
    pub(super) fn note(&self, entry: u64, now_ms: u64) {
        let slice = now_ms / SLICE_MS + 1;
        let at = &self.0[usize::from(slice % 2 == 1)];
        at.turn_to(slice);
        if let Some(word) = usize::try_from(entry / 64).ok().and_then(|word| at.bits().get(word)) {
            let bit = 1 << (entry % 64);
            // Most have asked before in the same slice.
            if word.load(Ordering::Relaxed) & bit == 0 {
                word.fetch_or(bit, Ordering::Relaxed);
            }
        }
    }

    /// Whether it was heard from in the last 8 to 16 s.
    fn has(&self, entry: u64, now_ms: u64) -> bool {
        let slice = now_ms / SLICE_MS + 1;
        let of = |slice: u64| self.0[usize::from(slice % 2 == 1)].has(slice, entry);
        entry >= ENTRIES_MAX || of(slice) || of(slice - 1)
    }

    /// Which of the first so many positions were heard from; microseconds for each.
    pub(super) fn front(&self, draw: &Draw, positions: u64, now_ms: u64) -> Vec<u64> {
        let is_heard = |at: &u64| draw.entry(*at).is_some_and(|entry| self.has(entry, now_ms));
        (0..positions).filter(is_heard).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asked_in_the_last_seconds_is_found_at_the_front_wherever_the_draw_puts_them() {
        let (lobby, draw, opens_ms) = (Lobby::default(), Draw::new(1_000, [5; 32]), 80_000_000);
        for entry in 0..1_000 {
            let ago_ms = if entry % 4 == 0 { 1_000 } else { 30_000 };
            lobby.note(entry, opens_ms - ago_ms);
        }
        lobby.note(ENTRIES_MAX + 7, opens_ms);

        let front = lobby.front(&draw, 200, opens_ms + 300);

        let expected: Vec<u64> = (0..200).filter(|at| draw.entry(*at).unwrap() % 4 == 0).collect();
        assert_eq!(front, expected);
        assert!(!expected.is_empty() && expected.len() < 200);
        assert!(lobby.has(ENTRIES_MAX, opens_ms), "who cannot be noted counts as heard");
        assert!(!lobby.has(4, opens_ms + 17_000), "that was long ago");
    }

    #[test]
    fn a_clock_that_leaps_ahead_and_is_set_right_again_leaves_nobody_unheard() {
        let (lobby, now_ms) = (Lobby::default(), 80_000_000);
        for leap_ms in [SLICE_MS, 3_600_000] {
            lobby.note(3, now_ms + leap_ms);
            lobby.note(3, now_ms);
            assert!(lobby.has(3, now_ms), "after {leap_ms} ms");
        }
    }
}
