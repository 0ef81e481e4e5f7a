//! Ceilings: Redis hands out no number at or above what Postgres knows of, so that nothing is
//! given twice after Redis was lost. What was handed out is noted each second as well: what lies
//! between is a hole after a loss.

use super::{Keeper, KeeperError};
use crate::domain::rate::Rate;
use crate::store::redis::room::{Ceilings, RoomState};

/// The least that the ceilings of entries and latecomers are ahead.
const LEAD_MIN: u64 = 1_000;
/// The least that the cursor's ceiling is ahead.
const CURSOR_LEAD_MIN: u64 = 10;
/// How long the lead lasts at the speed last seen, in milliseconds.
const LEAD_MS: u64 = 4_000;

/// What was handed out is written down this often while it moves, in milliseconds.
const GIVEN_EVERY_MS: u64 = 1_000;

const NAMES: [&str; 3] = ["entries", "late", "cursor"];
const GIVEN_NAMES: [&str; 2] = ["entries_given", "late_given"];

/// The lead of the cursor at its usual speed: the set rate.
fn cursor_lead_min(rate: Rate) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rate is positive and at most a million"
    )]
    let per_second = rate.get().ceil() as u64;
    CURSOR_LEAD_MIN.saturating_add(per_second.saturating_mul(LEAD_MS) / 1_000)
}

/// How far one counter's ceiling is kept ahead.
#[derive(Debug, Default, Clone, Copy)]
struct Lead {
    seen: u64,
    lead: u64,
}

impl Lead {
    /// The new ceiling, if it is time to raise it: half of the lead is used up.
    fn raised(&mut self, counter: u64, ceiling: u64, took_ms: u64, least: u64) -> Option<u64> {
        let moved = counter.saturating_sub(self.seen);
        self.seen = counter;
        let ahead = moved.saturating_mul(LEAD_MS) / took_ms.max(1);
        // Who reached the ceiling would have moved further.
        let stopped = moved > 0 && counter >= ceiling;
        let doubled = if stopped { self.lead.saturating_mul(2) } else { 0 };
        self.lead = least.max(ahead).max(doubled);
        let left = ceiling.saturating_sub(counter);
        (left < self.lead.div_ceil(2)).then(|| counter.saturating_add(self.lead))
    }
}

/// The leads of one sale's counters.
#[derive(Debug, Default)]
pub(super) struct Leads {
    run: u64,
    loaded_ms: u64,
    at_ms: Option<u64>,
    /// What was handed out, as written down last, and when.
    given: (u64, Ceilings),
    entries: Lead,
    late: Lead,
    cursor: Lead,
}

impl Leads {
    /// The counters as last seen.
    fn seen(&self) -> Ceilings {
        let (entries, late, cursor) = (self.entries.seen, self.late.seen, self.cursor.seen);
        Ceilings { entries, late, cursor }
    }

    /// The ceilings that are due; equal to those in force where none is.
    fn due(&mut self, now_ms: u64, state: &RoomState) -> Ceilings {
        let (at, limit) = (state.counters, state.ceilings);
        if self.run != state.control.run {
            *self = Self { run: state.control.run, ..Self::default() };
        }
        if self.loaded_ms != state.loaded_ms {
            // Counters that jumped to their ceilings have not moved.
            self.loaded_ms = state.loaded_ms;
            self.entries.seen = at.entries;
            self.late.seen = at.late;
            self.cursor.seen = at.cursor;
        }
        // The first look knows no speed.
        let took_ms = self.at_ms.map_or(u64::MAX, |then| now_ms.saturating_sub(then));
        self.at_ms = Some(now_ms);
        let mut entries = None;
        if !state.frozen {
            entries = self.entries.raised(at.entries, limit.entries, took_ms, LEAD_MIN);
        }
        let late = self.late.raised(at.late, limit.late, took_ms, LEAD_MIN);
        let least = cursor_lead_min(state.control.rate);
        let cursor = self.cursor.raised(at.cursor, limit.cursor, took_ms, least);
        Ceilings {
            entries: entries.unwrap_or(limit.entries),
            late: late.unwrap_or(limit.late),
            cursor: cursor.unwrap_or(limit.cursor),
        }
    }
}

impl Keeper {
    /// Raises in Postgres first, then in Redis.
    pub(super) async fn raise_ceilings(
        &self,
        leads: &mut Leads,
        now_ms: u64,
        state: &RoomState,
    ) -> Result<(), KeeperError> {
        let due = leads.due(now_ms, state);
        let run = state.control.run;
        if due != state.ceilings {
            self.keep_ceilings(run, due).await?;
            self.room.raise_ceilings(due).await?;
        }
        let (at_ms, given) = leads.given;
        let moved = (given.entries, given.late) != (state.counters.entries, state.counters.late);
        if moved && now_ms.abs_diff(at_ms) >= GIVEN_EVERY_MS {
            self.keep_given(run, state.counters).await?;
            leads.given = (now_ms, state.counters);
        }
        Ok(())
    }

    /// Writes down what was handed out; a look behind it is no harm.
    pub(super) async fn keep_given(&self, run: u64, to: Ceilings) -> Result<(), KeeperError> {
        let named: Vec<_> = GIVEN_NAMES.into_iter().zip([to.entries, to.late]).collect();
        Ok(self.ledger.database().keep_ceilings(&self.sale, run, &named).await?)
    }

    /// The most that is known to have been handed out: by this core's looks, ten a second, and by
    /// what was written down.
    pub(super) async fn last_given(
        &self,
        run: u64,
        leads: &Leads,
    ) -> Result<Ceilings, KeeperError> {
        let kept = self.ledger.database().ceilings(&self.sale, run).await?;
        let [entries, late] = GIVEN_NAMES.map(|name| value(&kept, name));
        let written = Ceilings { entries, late, cursor: 0 };
        Ok(if leads.run == run { written.max(leads.seen()) } else { written })
    }

    pub(super) async fn keep_ceilings(&self, run: u64, to: Ceilings) -> Result<(), KeeperError> {
        let values = [to.entries, to.late, to.cursor];
        let named: Vec<_> = NAMES.into_iter().zip(values).collect();
        Ok(self.ledger.database().keep_ceilings(&self.sale, run, &named).await?)
    }

    /// What Postgres knows of; zero for a run that was never loaded.
    pub(super) async fn kept_ceilings(&self, run: u64) -> Result<Ceilings, KeeperError> {
        let kept = self.ledger.database().ceilings(&self.sale, run).await?;
        let [entries, late, cursor] = NAMES.map(|name| value(&kept, name));
        Ok(Ceilings { entries, late, cursor })
    }
}

fn value(kept: &[(String, u64)], name: &str) -> u64 {
    kept.iter().find(|(kept, _)| kept == name).map_or(0, |(_, value)| *value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ceiling_is_raised_before_it_is_reached_and_follows_the_speed() {
        let mut lead = Lead::default();
        assert_eq!(lead.raised(0, 1_000, 100, LEAD_MIN), None);
        assert_eq!(lead.raised(400, 1_000, 100, LEAD_MIN), Some(16_400));
        assert_eq!(lead.raised(410, 16_400, 100, LEAD_MIN), None);
    }

    #[test]
    fn a_ceiling_that_was_reached_doubles_its_lead() {
        let mut lead = Lead::default();
        assert_eq!(lead.raised(10, 10, u64::MAX, 50), Some(60));
        assert_eq!(lead.raised(60, 60, u64::MAX, 50), Some(160));
        assert_eq!(lead.raised(160, 160, u64::MAX, 50), Some(360));
    }

    #[test]
    fn the_cursor_has_seconds_of_the_rate_ahead() {
        assert_eq!(cursor_lead_min(Rate::per_second(100.0).unwrap()), 410);
        assert_eq!(cursor_lead_min(Rate::per_second(0.2).unwrap()), 14);
    }
}
