//! full-use: judged where people and stock allow it, and found broken where the line stood.

use super::*;
use crate::lab::crowd::{Event, Upheaval};

/// 400 shoppers for plenty of units at 10/s; `slot` says when the one at a position was let in.
fn long_run(slot: impl Fn(u64) -> u64) -> (Observations, Evidence) {
    let shopper = |position: u64| ShopperSeen {
        joined: true,
        joined_in_lobby: true,
        admissions: vec![AdmissionSeen {
            jti: format!("j{position}"),
            slot_ms: slot(position),
            epoch: 1,
        }],
        ..ShopperSeen::default()
    };
    let sku = |at: u64| SkuSample {
        sku: "A".into(),
        loaded: 1_000,
        available: i64::try_from(1_000 - at.min(80) * 5).unwrap(),
        held: 0,
        confirmed: at.min(80) * 5,
        version: 1,
    };
    let sample = |at: u64| StockSample {
        sent_ms: T0 + at * 500,
        received_ms: T0 + at * 500 + 2,
        skus: vec![sku(at)],
    };
    let mut seen = seen();
    seen.shoppers = (0..400).map(shopper).collect();
    seen.witness.samples = (0..200).map(sample).collect();
    (seen, evidence())
}

fn at_the_rate(position: u64) -> u64 {
    T0 + 300 + position * 100
}

fn verdict((seen, evidence): &(Observations, Evidence)) -> Verdict {
    judge(seen, evidence).promises["full-use"].clone()
}

#[test]
fn a_line_that_moves_at_its_rate_uses_it() {
    let told = verdict(&long_run(at_the_rate));
    assert_eq!(told.holds, Some(true), "{told:?}");
    assert!(told.evidence.starts_with("at least 100.0 % of the rate"), "{told:?}");
}

#[test]
fn a_second_lost_in_the_middle_breaks_full_use() {
    let lost = |at: u64| at_the_rate(at) + if at > 200 { 1_000 } else { 0 };
    let told = verdict(&long_run(lost));
    assert_eq!(told.holds, Some(false), "{told:?}");
    assert!(told.evidence.contains("90.0 %"), "{told:?}");
}

#[test]
fn a_line_that_stood_with_people_waiting_to_the_end_breaks_full_use() {
    let mut run = long_run(|at| if at < 150 { at_the_rate(at) } else { T0 + 90_000 + at });
    for shopper in &mut run.0.shoppers[150..] {
        shopper.admissions.clear();
        shopper.ending = Ending::Unfinished;
    }
    assert_eq!(verdict(&run).holds, Some(false));
}

#[test]
fn what_cannot_be_told_is_not_judged() {
    let unjudged = |run: &(Observations, Evidence), what: &str| {
        let told = verdict(run);
        assert!(told.holds.is_none() && !told.evidence.is_empty(), "{what}: {told:?}");
    };
    let slow = |at: u64| at_the_rate(at) * 2 - T0;
    assert_eq!(
        verdict(&long_run(slow)).holds,
        Some(false),
        "half the rate, and nothing excuses it"
    );
    let mut without_stock = long_run(slow);
    for sample in &mut without_stock.0.witness.samples {
        sample.skus[0].available = 20;
    }
    unjudged(&without_stock, "no stock for 10 s of people");
    let mut unwatched = long_run(slow);
    unwatched.0.witness.samples.retain(|sample| sample.sent_ms % 5_000 == 0);
    unjudged(&unwatched, "the core was not seen for seconds");
    let mut upset = long_run(slow);
    let flush = Upheaval { event: Event::Flush, from_ms: T0, over_ms: None };
    upset.0.upheavals.push(flush);
    unjudged(&upset, "Redis never came back");
    unjudged(&(seen(), evidence()), "a run of one second");
    let mut unopened = long_run(slow);
    unopened.1.draw.as_mut().unwrap().opened_at = None;
    unjudged(&unopened, "the sale did not open");
    let mut capped = long_run(slow);
    capped.1.rate.as_mut().unwrap().max_active = 10;
    unjudged(&capped, "whoever is inside holds the line");
}
