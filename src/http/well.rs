//! Whether an address of a service answers: by what requests have met there, and by asking it.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Failed connections in a row until an address counts as down.
const UNREACHED_MAX: u32 = 2;
/// Requests in a row without an answer until an address counts as down.
const UNANSWERED_MAX: u32 = 3;
/// After this long a request may try an address that is down, if nobody has asked it since.
const RETRY: Duration = Duration::from_secs(2);

/// What is known of one address.
#[derive(Debug, Default)]
pub(super) struct Well(Mutex<Seen>);

#[derive(Debug, Default)]
struct Seen {
    unreached: u32,
    unanswered: u32,
    failed_at: Option<Instant>,
    answered_at: Option<Instant>,
}

impl Seen {
    fn is_down(&self) -> bool {
        self.unreached >= UNREACHED_MAX || self.unanswered >= UNANSWERED_MAX
    }
}

impl Well {
    /// An answer came; true if the address was down.
    pub(super) fn answered(&self, now: Instant) -> bool {
        self.note(|seen| {
            *seen = Seen { answered_at: Some(now), ..Seen::default() };
        })
    }

    /// A connection was made; true if the address was down and is no more. One that takes
    /// connections and does not answer stays down.
    pub(super) fn connected(&self) -> bool {
        self.note(|seen| seen.unreached = 0)
    }

    /// No connection; true if the address is down from now on.
    pub(super) fn unreached(&self, now: Instant) -> bool {
        self.note(|seen| {
            seen.unreached = seen.unreached.saturating_add(1);
            seen.failed_at = Some(now);
        })
    }

    /// A request got no answer; true if the address is down from now on.
    pub(super) fn unanswered(&self, now: Instant) -> bool {
        self.note(|seen| {
            seen.unanswered = seen.unanswered.saturating_add(1);
            seen.failed_at = Some(now);
        })
    }

    /// Whether requests should go elsewhere, if they can.
    pub(super) fn is_shunned(&self, now: Instant) -> bool {
        let seen = self.seen();
        seen.is_down() && seen.failed_at.is_some_and(|at| now.saturating_duration_since(at) < RETRY)
    }

    /// Whether it is known not to be there.
    pub(super) fn is_down(&self) -> bool {
        self.seen().is_down()
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
    fn note(&self, change: impl FnOnce(&mut Seen)) -> bool {
        let mut seen = self.seen();
        let before = seen.is_down();
        change(&mut seen);
        before != seen.is_down()
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
        assert!(well.is_shunned(now) && well.is_down());
        assert!(well.connected() && !well.is_shunned(now));

        well.unreached(now);
        assert!(!well.answered(now));
        assert!(!well.unreached(now), "an answer between them: not in a row");
        assert!(well.unreached(now) && well.is_down());
        assert!(!well.is_shunned(now + RETRY) && well.is_down());
    }

    #[test]
    fn who_takes_connections_and_does_not_answer_is_down_until_an_answer() {
        let (well, now) = (Well::default(), Instant::now());
        well.answered(now);
        assert!(!well.unanswered(now) && !well.unanswered(now) && well.unanswered(now));
        assert!(!well.connected());
        assert!(well.is_down() && well.is_mute());
        assert!(well.answered(now) && !well.is_down());
    }
}
