//! The judge of the controls: stop-in-a-second.

use super::allowed::{Allowed, EFFECT_MS};
use super::evidence::{Evidence, RateSet};
use super::promise::Verdict;
use super::{place, rate};
use crate::lab::crowd::{Act, Ending, Event, Observations, ShopperSeen, Steering, Step};

/// stop-in-a-second: a second after each step no node does as before, no slot lies in a pause, and
/// whoever lost the admission by the stop has the place still and claimed anew.
pub(super) fn stop_in_a_second(seen: &Observations, evidence: &Evidence) -> Verdict {
    let Some(steering) = &seen.steering else {
        return Verdict::unchecked("nobody steered the sale; --try-controls does");
    };
    let burst = evidence.rate.as_ref().map_or(1, |set| set.burst);
    let mut faults: Vec<String> = Vec::new();
    for (number, step) in steering.steps.iter().enumerate() {
        let next = steering.steps.get(number + 1);
        faults.extend(late_nodes(step));
        faults.extend(slots(seen, step, next, burst));
        if step.act == Act::Stop {
            faults.extend(old_epochs(seen, step));
        }
    }
    let stopped = || seen.shoppers.iter().flat_map(|s| &s.kept).filter(|k| k.event == Event::Stop);
    faults.extend(stopped().filter_map(place::difference));
    faults.extend((1..).zip(&seen.shoppers).filter_map(left_out));
    if let (Some(trouble), true) = (&steering.trouble, faults.is_empty()) {
        return Verdict::unchecked(format!("the steering did not come to its end: {trouble}"));
    }
    let voided = seen.shoppers.iter().filter(|shopper| shopper.voided).count();
    Verdict::of(
        &faults,
        format!(
            "{}; {} places seen before and after the stop; {voided} had to claim anew",
            said(steering),
            stopped().count()
        ),
    )
}

/// Each step with the time that the last node needed.
fn said(steering: &Steering) -> String {
    let steps = steering.steps.iter().map(|step| {
        let late = step.nodes.iter().map(|node| node.late_ms(step)).max().unwrap_or(0);
        format!("{} within {late} ms on {} nodes", step.act.name(), step.nodes.len())
    });
    steps.collect::<Vec<_>>().join(", ")
}

fn late_nodes(step: &Step) -> Vec<String> {
    let mut faults = Vec::new();
    for node in &step.nodes {
        let (name, late_ms) = (&node.name, node.late_ms(step));
        if node.fresh_ms.is_none() {
            faults.push(format!("{}: {name} never followed", step.act.name()));
        } else if late_ms > EFFECT_MS {
            faults.push(format!("{}: {name} did as before for {late_ms} ms", step.act.name()));
        }
    }
    faults
}

/// Slots that a step forbids, between a second after it and the next one.
fn slots(seen: &Observations, step: &Step, next: Option<&Step>, burst: u32) -> Option<String> {
    let from = step.acked_ms + EFFECT_MS;
    let to = next.map_or(u64::MAX, |next| next.sent_ms);
    let within: Vec<u64> =
        rate::slots(seen).into_iter().filter(|slot| (from..to).contains(slot)).collect();
    let name = step.act.name();
    match step.act {
        Act::Pause | Act::Stop => {
            let slot = within.first()?;
            Some(format!("{name}: a slot {} ms after it", slot - step.acked_ms))
        }
        Act::Rate(per_second) => {
            let allowed = Allowed::of(RateSet { per_second, burst, max_active: 0 }, None);
            let slot = rate::first_excess(&within, &allowed, burst)?;
            Some(format!("{name}: too many slots {} ms after it", slot - step.acked_ms))
        }
        Act::Resume => None,
    }
}

/// Admissions of an epoch that was over.
fn old_epochs(seen: &Observations, stop: &Step) -> Option<String> {
    let before = seen.admissions().filter(|admission| admission.slot_ms <= stop.sent_ms);
    let epoch = before.map(|admission| admission.epoch).max()?;
    let over = stop.acked_ms + EFFECT_MS;
    let old = seen.admissions().find(|a| a.slot_ms > over && a.epoch <= epoch)?;
    Some(format!("stop: an admission of the old epoch, {} ms after it", old.slot_ms - over))
}

/// Somebody whose admission became void and who was never let in again.
fn left_out((number, shopper): (u64, &ShopperSeen)) -> Option<String> {
    let ended = matches!(shopper.ending, Ending::Refused | Ending::Unfinished);
    (shopper.voided && ended).then(|| format!("shopper {number}: was not let in again"))
}
