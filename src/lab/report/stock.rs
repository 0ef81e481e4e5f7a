//! Judges of stock: never-oversell, no-unit-lost, one-click-one-order, ledger-shielded.

use std::collections::BTreeSet;

use super::evidence::{Evidence, GateSku, Ledger, LedgerSku};
use super::promise::Verdict;
use crate::lab::crowd::{Observations, OrderSeen};

/// Orders in flight per lane when the last unit goes, at most.
const LANE: u64 = 512;

/// Units sold and held beyond those loaded, over all SKUs.
pub(super) fn oversold(ledger: &Ledger) -> i64 {
    ledger.skus.iter().map(|sku| (sku.held + sku.confirmed - sku.loaded).max(0)).sum()
}

/// never-oversell: at the end by the ledger's rows, and at every sample during the run.
pub(super) fn never_oversell(seen: &Observations, evidence: &Evidence) -> Verdict {
    let ledger = match &evidence.ledger {
        Ok(ledger) => ledger,
        Err(reason) => return Verdict::unchecked(reason),
    };
    let mut faults: Vec<String> = ledger.skus.iter().filter_map(over).collect();
    for sample in &seen.witness.samples {
        for sku in &sample.skus {
            if sku.available < 0 || sku.held + sku.confirmed > sku.loaded {
                faults.push(format!(
                    "{} at {}: {} held + {} confirmed of {}",
                    sku.sku, sample.received_ms, sku.held, sku.confirmed, sku.loaded
                ));
            }
        }
    }
    let sums: Vec<_> = ledger
        .skus
        .iter()
        .map(|s| format!("{}: {} held + {} confirmed of {}", s.sku, s.held, s.confirmed, s.loaded))
        .collect();
    let samples = seen.witness.samples.len();
    Verdict::of(&faults, format!("{}; and in {samples} samples", sums.join(", ")))
}

fn over(sku: &LedgerSku) -> Option<String> {
    let taken = sku.held + sku.confirmed;
    (taken > sku.loaded || sku.available < 0)
        .then(|| format!("{}: {taken} held or confirmed of {} loaded", sku.sku, sku.loaded))
}

/// no-unit-lost: ledger adds up, gate equals it, audit and second reconcile found nothing.
pub(super) fn no_unit_lost(evidence: &Evidence) -> Verdict {
    let (ledger, gate, core) = match (&evidence.ledger, &evidence.gate, &evidence.core) {
        (Ok(ledger), Ok(gate), Ok(core)) => (ledger, gate, core),
        (Err(reason), ..) | (_, Err(reason), _) | (.., Err(reason)) => {
            return Verdict::unchecked(reason);
        }
    };
    let mut faults = Vec::new();
    for sku in &ledger.skus {
        let should = sku.loaded - sku.held - sku.confirmed;
        if sku.available != should {
            faults.push(format!("{}: {} available, {should} by the rows", sku.sku, sku.available));
        }
        faults.extend(gate_differs(sku, gate));
    }
    faults.extend(core.audit.iter().map(|row| format!("audit: {row}")));
    faults.extend(core.drift.iter().map(|row| format!("second reconcile: {row}")));
    let available: i64 = ledger.skus.iter().map(|sku| sku.available).sum();
    Verdict::of(&faults, format!("{available} available in Postgres and in Redis; audit empty"))
}

fn gate_differs(sku: &LedgerSku, gate: &[GateSku]) -> Option<String> {
    let count = gate.iter().find(|gate| gate.sku == sku.sku).and_then(|gate| gate.count);
    match count {
        None => Some(format!("{}: the gate is not loaded", sku.sku)),
        Some(count) if count != sku.available => {
            Some(format!("{}: gate {count}, ledger {}", sku.sku, sku.available))
        }
        Some(_) => None,
    }
}

/// one-click-one-order: one row and one taking per key, and every answer to a key named one
/// reservation.
pub(super) fn one_click_one_order(seen: &Observations, evidence: &Evidence) -> Verdict {
    let ledger = match &evidence.ledger {
        Ok(ledger) => ledger,
        Err(reason) => return Verdict::unchecked(reason),
    };
    let orders = || seen.shoppers.iter().flat_map(|shopper| &shopper.orders);
    let mut faults: Vec<String> = Vec::new();
    faults.extend(ledger.duplicates.iter().map(|(key, rows)| format!("{key}: {rows} rows")));
    faults.extend(ledger.taken_twice.iter().map(|id| format!("{id}: units taken twice")));
    faults.extend(orders().filter_map(split));
    if let Ok(gate) = &evidence.gate {
        let rows: u64 = ledger.by_status.iter().map(|(_, rows)| rows).sum();
        let markers: u64 = gate.iter().map(|gate| gate.markers).sum();
        let skus = u64::try_from(ledger.skus.len().max(1)).unwrap_or(1);
        if markers > rows.saturating_mul(skus) {
            faults.push(format!("{markers} order markers in Redis for {rows} orders in Postgres"));
        }
    }
    let clicks: usize = orders().map(|order| order.answers.len()).sum();
    let keys = orders().count();
    Verdict::of(&faults, format!("{clicks} requests under {keys} order keys, one row each"))
}

/// A key whose answers name more than one reservation.
fn split(order: &OrderSeen) -> Option<String> {
    let ids: BTreeSet<_> =
        order.answers.iter().filter_map(|answer| answer.reservation.as_ref()).collect();
    (ids.len() > 1).then(|| format!("{}: {} reservations were answered", order.key, ids.len()))
}

/// ledger-shielded: take attempts are explained by holds, replays, refusals and a bound.
pub(super) fn ledger_shielded(seen: &Observations, evidence: &Evidence) -> Verdict {
    let (takes, ledger) = match (&evidence.takes, &evidence.ledger) {
        (Ok(takes), Ok(ledger)) => (*takes, ledger),
        (Err(reason), _) | (_, Err(reason)) => return Verdict::unchecked(reason),
    };
    let before = seen.witness.takes_before.unwrap_or(0);
    let Some(attempts) = takes.checked_sub(before) else {
        return Verdict::unchecked("the core was restarted and its count with it");
    };
    let answers = || seen.shoppers.iter().flat_map(|s| &s.orders).flat_map(|o| &o.answers);
    let count = |is: &dyn Fn(&crate::lab::crowd::OrderAnswer) -> bool| {
        u64::try_from(answers().filter(|answer| is(answer)).count()).unwrap_or(u64::MAX)
    };
    let replays = count(&|answer| answer.replayed);
    let refusals = count(&|a| matches!(a.problem.as_str(), "over-cap" | "key-reused"));
    let lanes = u64::try_from(ledger.skus.len()).unwrap_or(u64::MAX);
    // No more can have been in a lane than were under way at all.
    let in_flight = lanes.saturating_mul(LANE).min(seen.reserving_peak);
    let bound = ledger.holds_granted + replays + refusals + in_flight;
    let said = format!(
        "{attempts} take attempts; bound {bound} = {} holds granted + {replays} replays + \
         {refusals} refusals + {in_flight} in flight",
        ledger.holds_granted
    );
    if attempts <= bound { Verdict::kept(said) } else { Verdict::broken(said) }
}
