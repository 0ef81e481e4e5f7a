//! Whether an address of a service answers: by what requests have met there, and by asking it.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Failed connections in a row until an address counts as down.
const UNREACHED_MAX: u32 = 2;
/// Requests in a row without an answer until an address counts as down.
const UNANSWERED_MAX: u32 = 3;
/// … and for how long none may have had one: requests that a well service closes in a row are no
/// outage, and who is asked meanwhile answers.
const MUTE_FOR: Duration = Duration::from_secs(3);
/// After this long a request may try an address that is down, if nobody has asked it since.
const RETRY: Duration = Duration::from_secs(2);

/// What is known of one address.
#[derive(Debug, Default)]
pub(super) struct Well(Mutex<Seen>);

#[derive(Debug, Default)]
struct Seen {
    unreached: u32,
    unanswered: u32,
    /// When the first of these requests got no answer.
    mute_since: Option<Instant>,
    failed_at: Option<Instant>,
    answered_at: Option<Instant>,
}

impl Seen {
    fn is_down(&self, now: Instant) -> bool {
        let is_mute = |since| now.saturating_duration_since(since) >= MUTE_FOR;
        self.unreached >= UNREACHED_MAX
            || self.unanswered >= UNANSWERED_MAX && self.mute_since.is_some_and(is_mute)
    }
}

impl Well {
    /// An answer came; true if the address was down.
    pub(super) fn answered(&self, now: Instant) -> bool {
        self.note(now, |seen| {
            *seen = Seen { answered_at: Some(now), ..Seen::default() };
        })
    }

    /// A connection was made; true if the address was down and is no more. One that takes
    /// connections and does not answer stays down.
    pub(super) fn connected(&self, now: Instant) -> bool {
        self.note(now, |seen| seen.unreached = 0)
    }

    /// No connection; true if the address is down from now on.
    pub(super) fn unreached(&self, now: Instant) -> bool {
        self.note(now, |seen| {
            seen.unreached = seen.unreached.saturating_add(1);
            seen.failed_at = Some(now);
        })
    }

    /// A request got no answer; true if the address is down from now on.
    pub(super) fn unanswered(&self, now: Instant) -> bool {
        self.note(now, |seen| {
            seen.unanswered = seen.unanswered.saturating_add(1);
            seen.mute_since.get_or_insert(now);
            seen.failed_at = Some(now);
        })
    }

    /// Whether requests should go elsewhere, if they can.
    pub(super) fn is_shunned(&self, now: Instant) -> bool {
        let seen = self.seen();
        seen.is_down(now)
            && seen.failed_at.is_some_and(|at| now.saturating_duration_since(at) < RETRY)
    }

    /// Whether it is known not to be there.
    pub(super) fn is_down(&self, now: Instant) -> bool {
        self.seen().is_down(now)
    }

    /// Whether only an answer proves it well.
    pub(super) fn is_mute(&self) -> bool {
        self.seen().unanswered >= UNANSWERED_MAX
    }

    /// Whether an answer came within this time.
    pub(super) fn answered_within(&self, now: Instant, time: Duration) -> bool {
        self.seen().answered_at.is_some_and(|at| now.saturating_duration_since(at) < time)
    }

    /// Changes what is known; true if down became up or up down.
    fn note(&self, now: Instant, change: impl FnOnce(&mut Seen)) -> bool {
        let mut seen = self.seen();
        let before = seen.is_down(now);
        change(&mut seen);
        before != seen.is_down(now)
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_down_after_failures_in_a_row_and_is_tried_again_later() {
        let (well, now) = (Well::default(), Instant::now());
        assert!(!well.unreached(now) && well.unreached(now));
        assert!(well.is_shunned(now) && well.is_down(now));
        assert!(well.connected(now) && !well.is_shunned(now));

        well.unreached(now);
        assert!(!well.answered(now));
        assert!(!well.unreached(now), "an answer between them: not in a row");
        assert!(well.unreached(now) && well.is_down(now));
        assert!(!well.is_shunned(now + RETRY) && well.is_down(now));
    }

    #[test]
    fn who_takes_connections_and_does_not_answer_is_down_until_an_answer() {
        let (well, now) = (Well::default(), Instant::now());
        well.answered(now);
        for _ in 0..2 * UNANSWERED_MAX {
            assert!(!well.unanswered(now), "three in a moment are no outage");
        }
        assert!(well.is_mute() && !well.is_down(now), "it is asked");
        let later = now + MUTE_FOR;
        assert!(well.is_down(later) && !well.connected(later) && well.is_down(later));
        assert!(well.answered(later) && !well.is_down(later));
        assert!(!well.unanswered(later) && !well.is_down(later + MUTE_FOR), "once is no row");
    }
}
