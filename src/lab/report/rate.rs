//! The judge of the meter: exact-rate.

use std::collections::BTreeSet;

use super::allowed::Allowed;
use super::evidence::Evidence;
use super::promise::Verdict;
use crate::lab::crowd::Observations;

/// The slots of all admissions seen, ascending; one for each (id, slot).
pub(super) fn slots(seen: &Observations) -> Vec<u64> {
    let distinct: BTreeSet<_> =
        seen.admissions().map(|admission| (admission.slot_ms, admission.jti.as_str())).collect();
    distinct.into_iter().map(|(slot, _)| slot).collect()
}

/// The most slots in any second.
pub(super) fn most_in_a_second(slots: &[u64]) -> usize {
    let mut from = 0;
    let mut most = 0;
    for (to, slot) in slots.iter().enumerate() {
        while slots[from] + 1_000 <= *slot {
            from += 1;
        }
        most = most.max(to + 1 - from);
    }
    most
}

/// How many slots lie in each whole second from the first on, for a day at most.
pub(super) fn per_second(slots: &[u64]) -> Vec<u64> {
    let (Some(first), Some(last)) = (slots.first(), slots.last()) else { return Vec::new() };
    let seconds = usize::try_from((last - first) / 1_000 + 1).unwrap_or(usize::MAX);
    let mut counts = vec![0; seconds.min(86_400)];
    for slot in slots {
        let second = usize::try_from((slot - first) / 1_000).unwrap_or(usize::MAX);
        if let Some(count) = counts.get_mut(second) {
            *count += 1;
        }
    }
    counts
}

/// The median of the slots in each whole second of the run.
pub(super) fn median_per_second(slots: &[u64]) -> u64 {
    let mut counts = per_second(slots);
    counts.sort_unstable();
    counts.get(counts.len() / 2).copied().unwrap_or(0)
}

/// exact-rate: in a window of any length, from any slot to any later one, no more slots than the
/// rate summed over the window + burst.
pub(super) fn exact_rate(seen: &Observations, evidence: &Evidence) -> Verdict {
    let set = match &evidence.rate {
        Ok(set) => *set,
        Err(reason) => return Verdict::unchecked(reason),
    };
    let slots = slots(seen);
    if slots.is_empty() {
        return Verdict::unchecked("nobody was admitted");
    }
    let most = most_in_a_second(&slots);
    let steps = seen.steering.as_ref().map_or(0, |steering| steering.steps.len());
    let changed = if steps > 0 { format!(", changed {steps} times") } else { String::new() };
    let said = format!(
        "{} admissions, at most {most} in any second, {} set{changed}, burst {}",
        slots.len(),
        set.per_second,
        set.burst
    );
    let allowed = Allowed::of(set, seen.steering.as_ref());
    match first_excess(&slots, &allowed, set.burst) {
        None => Verdict::kept(said),
        Some(slot) => Verdict::broken(format!("{said}; too many up to the slot {slot}")),
    }
}

/// The slot that ends the first window with too many.
///
/// Slots are whole milliseconds rounded down, so those in `[a, b]` lie in a window from `a` to
/// `b + 1` ms. Windows of every length are covered in one pass: slot j may follow slot i only if
/// `j - i + 1 <= allowed(b + 1) - allowed(a) + burst`, that is, if j's height at its end is not
/// above the lowest height at a beginning before it by more than `burst - 1`.
pub(super) fn first_excess(slots: &[u64], allowed: &Allowed, burst: u32) -> Option<u64> {
    let mut lowest = f64::INFINITY;
    for (number, slot) in slots.iter().enumerate() {
        #[expect(clippy::cast_precision_loss, reason = "a run has far fewer admissions than 2^53")]
        let number = number as f64;
        lowest = lowest.min(number - allowed.until(*slot));
        if number - allowed.until(slot + 1) - lowest > f64::from(burst) - 1.0 + 1e-6 {
            return Some(*slot);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::evidence::RateSet;
    use super::*;

    fn excess(slots: &[u64], per_second: f64, burst: u32) -> Option<u64> {
        let set = RateSet { per_second, burst, max_active: 0 };
        first_excess(slots, &Allowed::of(set, None), burst)
    }

    #[test]
    fn an_even_meter_is_within_its_rate_at_every_rate() {
        for rate in [0.2, 3.0, 7.5, 100.0, 333.3, 3_000.0] {
            let slots: Vec<u64> = (0..500)
                .map(|n| {
                    #[expect(
                        clippy::cast_possible_truncation,
                        clippy::cast_sign_loss,
                        reason = "test"
                    )]
                    let slot = (1_700_000_000_000.4 + f64::from(n) * 1_000.0 / rate) as u64;
                    slot
                })
                .collect();
            assert_eq!(excess(&slots, rate, 1), None, "{rate}");
        }
    }

    #[test]
    fn one_more_than_the_burst_at_once_is_one_too_many() {
        let together = |n: usize| vec![5_000; n];
        assert_eq!(excess(&together(3), 10.0, 3), None);
        assert_eq!(excess(&together(4), 10.0, 3), Some(5_000));
    }

    #[test]
    fn a_slow_drift_above_the_rate_is_found_though_each_second_looks_right() {
        let slots: Vec<u64> = (0..1_000).map(|n| n * 95).collect();
        assert_eq!(most_in_a_second(&slots), 11);
        assert!(excess(&slots, 10.0, 1).is_some());
    }

    #[test]
    fn seconds_are_counted_half_open() {
        assert_eq!(most_in_a_second(&[0, 500, 999, 1_000]), 3);
        assert_eq!(median_per_second(&[0, 10, 1_000, 1_010, 1_020]), 3);
        assert_eq!((most_in_a_second(&[]), median_per_second(&[])), (0, 0));
    }
}
