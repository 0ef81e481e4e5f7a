//! What a difference between gate and ledger means, and what is done about it: the pure rule.

use serde::{Deserialize, Serialize};

use crate::store::redis::gate_compare::{Correction, Counter, Mark};

/// Marks remembered from one comparison to the next.
const REMEMBERED_MAX: usize = 1_000;

/// A take that is younger may still be under way, in milliseconds: it waits in a lane and is sent
/// again when a link breaks, longer than its client waits. Older ones are dead, and the ledger
/// decides in any case.
const UNDER_WAY_MS: u64 = 30_000;

/// One SKU at one instant: no unit was taken or put back in the ledger while the gate was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sight {
    /// Units available in the ledger.
    pub(super) available: i64,
    /// The gate's counter.
    pub(super) counter: Counter,
    /// Marks with units set aside that are no reservation: takes under way, or dead.
    pub(super) pending: Vec<Mark>,
    /// When it was seen, Unix milliseconds.
    pub(super) at_ms: u64,
}

/// What was seen last time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Gap {
    /// Units missing at the gate that no pending mark explains.
    missing: i64,
    /// Pending marks.
    pending: Vec<String>,
}

/// Why gate and ledger are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reason {
    /// The round of every minute: a difference is a surprise.
    Round,
    /// The ledger is known to have moved without the gate, which now follows.
    Follow,
}

/// What a comparison comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// Nothing to do.
    None,
    /// The gate was empty, or of an older generation.
    Loaded,
    /// The gate was above the ledger.
    Lowered,
    /// Units are missing at the gate; the next comparison decides.
    Noted,
    /// Units had been missing twice.
    Raised,
    /// The gate does not answer.
    Unreachable,
    /// Orders came too thick to compare; the next round tries again.
    Busy,
}

/// Decides. Above the ledger is corrected at once, below it only if the same stands twice.
pub(super) fn judge(sight: &Sight, reason: Reason) -> (Action, Option<Correction>) {
    let Sight { available, counter, pending, at_ms } = sight;
    let missing = available - units(pending) - counter.count;
    let remembered: Gap =
        counter.gap.as_deref().and_then(|gap| serde_json::from_str(gap).ok()).unwrap_or_default();
    let (dead, alive): (Vec<Mark>, Vec<Mark>) = match reason {
        Reason::Round => pending.iter().cloned().partition(|mark| {
            remembered.pending.contains(&mark.field)
                && made_ms(mark).saturating_add(UNDER_WAY_MS) <= *at_ms
        }),
        Reason::Follow => (Vec::new(), pending.clone()),
    };
    let stands = reason == Reason::Follow || missing == remembered.missing;
    let shift = if missing < 0 || stands { missing } else { 0 };
    let gap = match reason {
        Reason::Follow => counter.gap.clone(),
        Reason::Round => remember(missing - shift, &alive),
    };
    let action = match (shift, missing - shift) {
        (..0, _) => Action::Lowered,
        (0, 0) if dead.is_empty() && alive.is_empty() => Action::None,
        (0, _) if dead.is_empty() => Action::Noted,
        _ => Action::Raised,
    };
    let correction =
        Correction { generation: counter.generation, shift: shift + units(&dead), gap, drop: dead };
    let flag_is_right = counter.flag == (counter.count <= 0);
    let idle = correction.shift == 0 && correction.gap == counter.gap && flag_is_right;
    (action, (!idle || !correction.drop.is_empty()).then_some(correction))
}

/// When the core that made the mark did so: its id begins with that instant.
fn made_ms(mark: &Mark) -> u64 {
    let (seconds, nanos) = mark.id.get_timestamp().map_or((0, 0), |at| at.to_unix());
    seconds.saturating_mul(1_000).saturating_add(u64::from(nanos / 1_000_000))
}

fn units(marks: &[Mark]) -> i64 {
    marks.iter().map(|mark| i64::try_from(mark.qty).unwrap_or(i64::MAX)).sum()
}

fn remember(missing: i64, alive: &[Mark]) -> Option<String> {
    let pending = alive.iter().take(REMEMBERED_MAX).map(|mark| mark.field.clone()).collect();
    let gap = Gap { missing, pending };
    if gap == Gap::default() { None } else { serde_json::to_string(&gap).ok() }
}

#[cfg(test)]
mod tests {
    use uuid::{NoContext, Timestamp, Uuid};

    use super::*;

    fn sight(available: i64, count: i64, pending: &[(&str, u64)]) -> Sight {
        let mark = |(field, qty): &(&str, u64)| {
            let id = Uuid::new_v7(Timestamp::from_unix(NoContext, 1_000, 0));
            Mark { field: (*field).to_owned(), qty: *qty, id }
        };
        Sight {
            available,
            counter: Counter { generation: 1, count, flag: count <= 0, gap: None },
            pending: pending.iter().map(mark).collect(),
            at_ms: 1_000_000 + UNDER_WAY_MS,
        }
    }

    /// The same sight at the next round, after what the first one did.
    fn again(first: &Sight) -> (Action, Option<Correction>) {
        let (_, correction) = judge(first, Reason::Round);
        let mut next = first.clone();
        if let Some(correction) = correction {
            next.counter.count += correction.shift;
            next.counter.gap = correction.gap;
            next.counter.flag = next.counter.count <= 0;
            next.pending.retain(|mark| !correction.drop.contains(mark));
        }
        judge(&next, Reason::Round)
    }

    #[test]
    fn equal_is_left_alone() {
        assert_eq!(judge(&sight(5, 5, &[]), Reason::Round), (Action::None, None));
    }

    #[test]
    fn a_gate_above_the_ledger_is_lowered_at_once() {
        let (action, correction) = judge(&sight(5, 25, &[]), Reason::Round);
        assert_eq!((action, correction.unwrap().shift), (Action::Lowered, -20));
    }

    #[test]
    fn missing_units_are_given_back_only_if_the_same_gap_stands_twice() {
        let first = sight(25, 5, &[]);
        let (action, correction) = judge(&first, Reason::Round);
        assert_eq!((action, correction.unwrap().shift), (Action::Noted, 0));

        let (action, correction) = again(&first);
        let correction = correction.unwrap();
        assert_eq!((action, correction.shift, correction.gap), (Action::Raised, 20, None));
    }

    #[test]
    fn a_take_under_way_explains_its_units() {
        let (action, correction) = judge(&sight(5, 3, &[("f", 2)]), Reason::Round);
        assert_eq!((action, correction.unwrap().shift), (Action::Noted, 0));
    }

    #[test]
    fn a_mark_that_is_still_no_reservation_at_the_next_round_is_dead() {
        let (action, correction) = again(&sight(5, 3, &[("f", 2)]));
        let correction = correction.unwrap();
        assert_eq!((action, correction.shift), (Action::Raised, 2));
        assert_eq!((correction.drop.len(), correction.gap), (1, None));
    }

    #[test]
    fn a_young_mark_is_under_way_however_often_the_rounds_come() {
        let mut young = sight(5, 3, &[("f", 2)]);
        young.at_ms -= 1;
        let (action, correction) = again(&young);
        assert_eq!((action, correction), (Action::Noted, None));
    }

    #[test]
    fn units_set_aside_count_as_gone_when_a_gate_is_lowered() {
        let (action, correction) = judge(&sight(5, 5, &[("f", 2)]), Reason::Round);
        assert_eq!((action, correction.unwrap().shift), (Action::Lowered, -2));
    }

    #[test]
    fn a_gate_that_follows_is_corrected_both_ways_and_keeps_what_was_remembered() {
        let mut low = sight(25, 5, &[("f", 2)]);
        low.counter.gap = Some("{}".into());
        let (action, correction) = judge(&low, Reason::Follow);
        let correction = correction.unwrap();
        assert_eq!((action, correction.shift), (Action::Raised, 18));
        assert_eq!((correction.gap.as_deref(), correction.drop.len()), (Some("{}"), 0));
    }

    #[test]
    fn rs_57_a_flag_left_on_while_units_are_there_is_cleared() {
        let mut stuck = sight(5, 5, &[]);
        stuck.counter.flag = true;
        assert!(judge(&stuck, Reason::Round).1.is_some());
    }
}
