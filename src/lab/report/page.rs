//! The judge of what people were told: honest-page.

use super::evidence::Evidence;
use super::promise::Verdict;
use crate::lab::crowd::{Observations, ShopperSeen, Sighting, SkuSample, StockSample};

/// How long "sold out" may outlive the truth.
const GRACE_MS: u64 = 2_000;
/// Between samples further apart a hold may have been made and lapsed, and nothing is proven.
const GAP_MS_MAX: u64 = 1_000;

/// honest-page: `ahead` never rose, and "sold out" was not said while units were free.
pub(super) fn honest_page(seen: &Observations, _: &Evidence) -> Verdict {
    let mut faults = Vec::new();
    for (number, shopper) in (1..).zip(&seen.shoppers) {
        faults.extend(rose(number, shopper));
    }
    let readings: usize = seen.shoppers.iter().map(|shopper| shopper.ahead.len()).sum();
    let sightings = || seen.shoppers.iter().flat_map(|shopper| &shopper.sold_out);
    let told = sightings().count();
    if seen.witness.samples.is_empty() {
        return match faults.as_slice() {
            [] => Verdict::unchecked("the stock was not watched, so \"sold out\" was not checked"),
            some => Verdict::of(some, ""),
        };
    }
    let samples = &seen.witness.samples;
    faults.extend(
        sightings().filter(|seen_at| was_false(seen_at, samples, &seen.sku)).map(|at| {
            format!("\"sold out\" was told at {} with units free for 2 s", at.received_ms)
        }),
    );
    Verdict::of(
        &faults,
        format!(
            "\"ahead\" never rose in {readings} readings; \"sold out\" was true {told} times by {} samples",
            samples.len()
        ),
    )
}

/// A reading that is higher than a comparable one before it.
fn rose(number: u64, shopper: &ShopperSeen) -> Option<String> {
    let second = shopper.second.iter().map(|device| &device.ahead);
    let mut devices = std::iter::once(&shopper.ahead).chain(second);
    let (before, after) = devices.find_map(|readings| {
        let mut later = readings.iter().enumerate();
        later.find_map(|(index, now)| {
            Some((readings[..index].iter().find(|before| before.rose_to(now))?, now))
        })
    })?;
    Some(format!("shopper {number}: ahead rose from {} to {}", before.ahead, after.ahead))
}

/// Whether units were free without a break from 2 s before the question to the answer: between
/// each two samples from the last before that stretch to the first after it.
fn was_false(at: &Sighting, samples: &[StockSample], sku: &str) -> bool {
    let from = at.sent_ms.saturating_sub(GRACE_MS);
    let first = samples.partition_point(|sample| sample.received_ms <= from).checked_sub(1);
    let last = samples.partition_point(|sample| sample.sent_ms < at.received_ms);
    let Some(stretch) = first.and_then(|first| samples.get(first..=last)) else { return false };
    stretch.windows(2).all(|pair| match (of(&pair[0], sku), of(&pair[1], sku)) {
        (Some(before), Some(after)) => {
            let gap_ms = pair[1].received_ms.saturating_sub(pair[0].sent_ms);
            before.version == after.version && before.available > 0
                || gap_ms <= GAP_MS_MAX && free_between(before, after)
        }
        _ => false,
    })
}

/// Whether there cannot have been a moment without a unit between two samples though the row moved:
/// fewer units were held before than are free afterwards, so that even if all holds had lapsed in
/// between, some of these were never taken.
fn free_between(before: &SkuSample, after: &SkuSample) -> bool {
    let free = before.available > 0 && after.available > 0;
    let held = i64::try_from(before.held).unwrap_or(i64::MAX);
    free && held < after.available && before.confirmed <= after.confirmed
}

fn of<'a>(sample: &'a StockSample, sku: &str) -> Option<&'a SkuSample> {
    sample.skus.iter().find(|other| other.sku == sku)
}
