//! A core that is asked and gives no answer in time is left alone, but for one question now and
//! then: shoppers are told at once, and only so many wait in vain. Their order keys make it safe to
//! come again.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Watches the questions under way.
pub(super) struct Breaker {
    patience: Patience,
    seen: Mutex<Seen>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    /// An answer within it is in time; without one for so long, no more is asked.
    pub(super) answer: Duration,
    /// Then a question is tried so often.
    pub(super) retry: Duration,
}

#[derive(Debug, Default)]
struct Seen {
    under_way: usize,
    /// Since when an answer in time is owed.
    owed_since: Option<Instant>,
    /// When the last question was tried, while it is broken.
    tried_at: Option<Instant>,
    is_told: bool,
}

impl Breaker {
    pub(super) fn new(patience: Patience) -> Self {
        Self { patience, seen: Mutex::default() }
    }

    /// A question may begin; nothing while it would wait in vain.
    pub(super) fn begin(&self) -> Option<Question<'_>> {
        let now = Instant::now();
        let mut seen = self.seen();
        if !seen.begin(now, self.patience) {
            if !std::mem::replace(&mut seen.is_told, true) {
                tracing::warn!("the core gives no answer in time: it is asked now and then only");
            }
            return None;
        }
        Some(Question { breaker: self, began: now })
    }

    /// Whether what is asked now would wait in vain.
    pub(super) fn is_open(&self) -> bool {
        self.seen().is_owed(Instant::now(), self.patience)
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One question. Dropped without an answer, it says nothing good of the core.
pub(super) struct Question<'a> {
    breaker: &'a Breaker,
    began: Instant,
}

impl Question<'_> {
    /// An answer came.
    pub(super) fn answered(&self) {
        let (now, patience) = (Instant::now(), self.breaker.patience);
        let mut seen = self.breaker.seen();
        let took = now.saturating_duration_since(self.began);
        if seen.answer(took, now, patience) && std::mem::take(&mut seen.is_told) {
            tracing::info!("the core answers in time again");
        }
    }
}

impl Drop for Question<'_> {
    fn drop(&mut self) {
        self.breaker.seen().end();
    }
}

impl Seen {
    /// Whether one more may begin.
    fn begin(&mut self, now: Instant, patience: Patience) -> bool {
        if self.is_owed(now, patience) {
            let is_early = |at: Instant| now.saturating_duration_since(at) < patience.retry;
            if self.tried_at.is_some_and(is_early) {
                return false;
            }
            self.tried_at = Some(now);
        }
        self.under_way += 1;
        self.owed_since.get_or_insert(now);
        true
    }

    /// Whether an answer in time has been owed for too long.
    fn is_owed(&self, now: Instant, patience: Patience) -> bool {
        self.owed_since.is_some_and(|since| now.saturating_duration_since(since) >= patience.answer)
    }

    /// Whether it was in time. Only then it proves anything: a core that answers all too late would
    /// be asked for ever.
    fn answer(&mut self, took: Duration, now: Instant, patience: Patience) -> bool {
        let in_time = took < patience.answer;
        if in_time {
            (self.owed_since, self.tried_at) = (Some(now), None);
        }
        in_time
    }

    /// Where nobody waits nothing is owed.
    fn end(&mut self) {
        self.under_way = self.under_way.saturating_sub(1);
        if self.under_way == 0 {
            (self.owed_since, self.tried_at) = (None, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Patience =
        Patience { answer: Duration::from_secs(2), retry: Duration::from_secs(1) };
    const QUICK: Duration = Duration::from_millis(5);

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn without_an_answer_in_time_one_question_a_second_is_tried_until_one_is_in_time() {
        let (mut seen, now) = (Seen::default(), Instant::now());
        for _ in 0..100 {
            assert!(seen.begin(now, PATIENCE));
        }
        assert!(seen.begin(now + ms(1_999), PATIENCE), "not yet");

        let tried: Vec<u64> =
            (2_000..5_000).filter(|at| seen.begin(now + ms(*at), PATIENCE)).collect();
        assert_eq!(tried, [2_000, 3_000, 4_000]);

        let late = now + ms(5_000);
        assert!(!seen.answer(ms(5_000), late, PATIENCE));
        assert!(seen.begin(late, PATIENCE) && !seen.begin(late, PATIENCE), "too late to count");
        assert!(seen.answer(QUICK, late, PATIENCE));
        assert!((0..100).all(|_| seen.begin(late + ms(1_999), PATIENCE)));
    }

    #[test]
    fn a_core_that_answers_is_asked_whatever_its_slowest_answer() {
        let (mut seen, now) = (Seen::default(), Instant::now());
        assert!(seen.begin(now, PATIENCE), "this one waits all the time");
        for at in 0..100 {
            let now = now + ms(at * 1_000);
            assert!(seen.begin(now, PATIENCE), "at {at} s");
            assert!(seen.answer(QUICK, now, PATIENCE));
            seen.end();
        }
    }

    #[test]
    fn where_nobody_waits_nothing_is_owed() {
        let (mut seen, now) = (Seen::default(), Instant::now());
        assert!(seen.begin(now, PATIENCE));
        seen.end();
        let later = now + ms(60_000);
        assert!(seen.begin(later, PATIENCE) && seen.begin(later, PATIENCE));
    }
}
