//! Each promise is broken on purpose: it turns false, and no other with it.

mod places;
mod steering;
mod usage;

use std::collections::BTreeMap;

use super::*;
use crate::domain::draw::{ALGORITHM, Draw, Proof, commitment, key};
use crate::domain::id::SaleId;
use crate::lab::crowd::{
    AdmissionSeen, AheadSeen, DeviceSeen, Ending, Latencies, Observations, OrderAnswer, OrderSeen,
    ShopperSeen, Sighting, SkuSample, StockSample, Trespass, Witness,
};
use crate::lab::shop::{Journal, Visit};

const T0: u64 = 1_800_000_000_000;
const N: u64 = 10;

fn proof() -> Proof {
    let (sale, seed) = (SaleId::parse("drop").unwrap(), [5; 32]);
    Proof {
        run: 1,
        algorithm: ALGORITHM.into(),
        commitment: hex::encode(commitment(&sale, 1, 0, &seed)),
        round: 0,
        signature: String::new(),
        beacon: String::new(),
        n: Some(N),
        opened_at: Some("2027-01-15T08:00:00Z".into()),
        seed: Some(hex::encode(seed)),
        key: Some(hex::encode(key(&sale, &seed, N, None))),
        sale,
    }
}

fn draw() -> Draw {
    proof().verify().unwrap()
}

/// Shopper `entry` of ten; four units; those at the positions 0 to 3 buy one each.
fn shopper(entry: u64) -> ShopperSeen {
    let position = draw().position(entry).unwrap();
    let slot_ms = T0 + position * 100;
    let bought = position < 4;
    let held = OrderAnswer {
        status: 201,
        reservation: Some(format!("r{position}")),
        ..OrderAnswer::default()
    };
    let none = OrderAnswer { status: 409, problem: "sold-out".into(), ..OrderAnswer::default() };
    let sold_out = Sighting { sent_ms: slot_ms, received_ms: slot_ms + 5 };
    ShopperSeen {
        joined: true,
        joined_in_lobby: true,
        visitor: Some(format!("v{entry}")),
        entry: Some(entry),
        positions: vec![position],
        ahead: vec![
            AheadSeen { at_ms: T0, ahead: position, gateway: 0 },
            AheadSeen { at_ms: T0 + 1_000, ahead: 0, gateway: 0 },
        ],
        admissions: vec![AdmissionSeen { jti: format!("j{entry}"), slot_ms, epoch: 1 }],
        orders: vec![OrderSeen {
            key: format!("k{entry}"),
            answers: vec![if bought { held } else { none }],
        }],
        paid: bought.then(|| format!("r{position}")),
        sold_out: if bought { vec![] } else { vec![sold_out] },
        ending: if bought { Ending::Bought } else { Ending::SoldOut },
        ..ShopperSeen::default()
    }
}

fn sample(at_ms: u64, available: i64) -> StockSample {
    let confirmed = u64::try_from(4 - available).unwrap();
    let sku =
        SkuSample { sku: "A".into(), loaded: 4, available, held: 0, confirmed, version: confirmed };
    StockSample { sent_ms: at_ms, received_ms: at_ms + 2, skus: vec![sku] }
}

fn seen() -> Observations {
    let left = [4, 4, 2, 0, 0, 0, 0, 0, 0, 0, 0];
    let refused = |answered_by: &str| Trespass {
        request: "GET /checkout".into(),
        status: 429,
        answered_by: answered_by.into(),
    };
    Observations {
        sale: "drop".into(),
        sku: "A".into(),
        shoppers: (0..N).map(shopper).collect(),
        trespasses: vec![refused("queue"), refused("refused")],
        latencies: Latencies::default(),
        witness: Witness {
            samples: (0..).zip(left).map(|(i, left)| sample(T0 - 200 + i * 200, left)).collect(),
            takes_before: Some(7),
        },
        draw_before: Some(Proof { n: None, opened_at: None, seed: None, key: None, ..proof() }),
        rate_told: Some(10.0),
        reserving_peak: 1,
        no_accounts: None,
        accounts_asked: false,
        upheavals: Vec::new(),
        steering: None,
    }
}

fn evidence() -> Evidence {
    let sku =
        |name: &str| LedgerSku { sku: name.into(), loaded: 4, available: 0, held: 0, confirmed: 4 };
    let visit = Visit { request: "POST /checkout/pay".into(), visitor: "v1".into() };
    Evidence {
        rate: Ok(RateSet { per_second: 10.0, burst: 1, max_active: 0 }),
        draw: Ok(proof()),
        core: Ok(CoreView::default()),
        ledger: Ok(Ledger {
            skus: vec![sku("A")],
            holds_granted: 4,
            by_status: vec![("confirmed".into(), 4)],
            ..Ledger::default()
        }),
        gate: Ok(vec![GateSku { sku: "A".into(), count: Some(0), markers: 4 }]),
        takes: Ok(7 + 4),
        journal: Ok(Journal { counts: BTreeMap::new(), visits: vec![visit] }),
    }
}

/// The promises found broken.
fn broken(seen: &Observations, evidence: &Evidence) -> Vec<&'static str> {
    let report = judge(seen, evidence);
    assert!(!report.is_good());
    let broken = report.promises.iter().filter(|(_, verdict)| verdict.holds == Some(false));
    broken.map(|(name, _)| *name).collect()
}

fn ledger(evidence: &mut Evidence) -> &mut Ledger {
    evidence.ledger.as_mut().unwrap()
}

#[test]
fn an_honest_run_is_good_and_says_what_it_did_not_check() {
    let report = judge(&seen(), &evidence());
    assert!(report.is_good(), "{}", table(&report));
    assert_eq!(report.promises.len(), 12);
    let unchecked: Vec<_> =
        report.promises.iter().filter(|(_, verdict)| verdict.holds.is_none()).collect();
    assert_eq!(unchecked.len(), 4);
    assert!(report.required.len() == 8);
    assert!(unchecked.iter().all(|(_, verdict)| !verdict.evidence.is_empty()));
    assert_eq!((report.shoppers, report.joined, report.admitted), (10, 10, 10));
    assert_eq!((report.confirmed, report.sold_out, report.oversold), (4, 6, Some(0)));
    assert_eq!(report.ledger_attempts, Some(4));
    assert_eq!(report.admissions_per_second.max_1s, 10);
}

#[test]
fn the_report_has_the_shape_that_scripts_read() {
    let json = serde_json::to_value(judge(&seen(), &evidence())).unwrap();
    for pointer in [
        "/shoppers",
        "/joined",
        "/admitted",
        "/held",
        "/confirmed",
        "/expired",
        "/sold_out",
        "/refused",
        "/errors",
        "/oversold",
        "/ledger_attempts",
        "/admissions_per_second/set",
        "/admissions_per_second/p50",
        "/admissions_per_second/max_1s",
        "/admissions_per_second/seconds/0",
        "/latency_ms/join/p50",
        "/latency_ms/status/p99",
        "/latency_ms/claim/p50",
        "/latency_ms/reserve/p99",
        "/draw/commitment",
        "/accounts/signed_in",
        "/accounts/two_devices",
        "/places_kept",
        "/flushed_ms",
        "/steering",
        "/promises/never-oversell/holds",
        "/promises/stop-in-a-second/evidence",
    ] {
        assert!(json.pointer(pointer).is_some(), "{pointer}");
    }
    assert_eq!(json.pointer("/promises/full-use/holds"), Some(&serde_json::Value::Null));
}

#[test]
fn an_extra_row_breaks_never_oversell_and_no_unit_lost() {
    let mut evidence = evidence();
    ledger(&mut evidence).skus[0].confirmed = 5;
    ledger(&mut evidence).holds_granted = 5;
    ledger(&mut evidence).by_status[0].1 = 5;
    assert_eq!(broken(&seen(), &evidence), ["never-oversell", "no-unit-lost"]);
}

#[test]
fn an_oversale_that_healed_before_the_end_is_still_one() {
    let mut seen = seen();
    seen.witness.samples[4].skus[0].held = 1;
    assert_eq!(broken(&seen, &evidence()), ["never-oversell"]);
}

#[test]
fn a_unit_that_went_astray_breaks_no_unit_lost() {
    let mut lost = evidence();
    ledger(&mut lost).skus[0].confirmed = 3;
    assert_eq!(broken(&seen(), &lost), ["no-unit-lost"]);

    let mut low_gate = evidence();
    low_gate.gate.as_mut().unwrap()[0].count = Some(1);
    assert_eq!(broken(&seen(), &low_gate), ["no-unit-lost"]);

    let mut audited = evidence();
    audited.core.as_mut().unwrap().audit.push("A: a row".into());
    assert_eq!(broken(&seen(), &audited), ["no-unit-lost"]);

    let mut drifting = evidence();
    drifting.core.as_mut().unwrap().drift.push("A".into());
    assert_eq!(broken(&seen(), &drifting), ["no-unit-lost"]);
}

#[test]
fn a_key_sold_twice_breaks_one_click_one_order() {
    let mut twice = evidence();
    ledger(&mut twice).duplicates.push(("v1 / k1".into(), 2));
    assert_eq!(broken(&seen(), &twice), ["one-click-one-order"]);

    let mut taken = evidence();
    ledger(&mut taken).taken_twice.push("r1".into());
    assert_eq!(broken(&seen(), &taken), ["one-click-one-order"]);

    let mut answered = seen();
    let buyer = answered.shoppers.iter_mut().find(|s| s.paid.is_some()).unwrap();
    let other = OrderAnswer { reservation: Some("other".into()), ..OrderAnswer::default() };
    buyer.orders[0].answers.push(other);
    assert_eq!(broken(&answered, &evidence()), ["one-click-one-order"]);

    let mut marked = evidence();
    marked.gate.as_mut().unwrap()[0].markers = 9;
    assert_eq!(broken(&seen(), &marked), ["one-click-one-order"]);
}

#[test]
fn takes_that_nothing_explains_break_ledger_shielded() {
    let mut evidence = evidence();
    evidence.takes = Ok(7 + 4 + 1);
    assert!(judge(&seen(), &evidence).is_good(), "one may have been in flight");
    evidence.takes = Ok(7 + 4 + 2);
    assert_eq!(broken(&seen(), &evidence), ["ledger-shielded"]);

    let mut replayed = seen();
    replayed.shoppers[0].orders[0].answers[0].replayed = true;
    assert!(judge(&replayed, &evidence).is_good(), "a replay explains one");
}

#[test]
fn an_admission_past_the_meter_breaks_exact_rate() {
    let mut seen = seen();
    let minted = AdmissionSeen { jti: "minted".into(), slot_ms: T0 + 350, epoch: 1 };
    seen.shoppers[0].admissions.push(minted);
    assert_eq!(broken(&seen, &evidence()), ["exact-rate"]);
}

#[test]
fn places_that_the_proof_does_not_give_break_fair_draw() {
    let mut swapped = seen();
    let first = swapped.shoppers[0].positions.clone();
    swapped.shoppers[0].positions = swapped.shoppers[1].positions.clone();
    swapped.shoppers[1].positions = first;
    assert_eq!(broken(&swapped, &evidence()), ["fair-draw"]);

    let mut reseeded = evidence();
    reseeded.draw.as_mut().unwrap().seed = Some("00".repeat(32));
    assert_eq!(broken(&seen(), &reseeded), ["fair-draw"]);

    let mut recommitted = seen();
    recommitted.draw_before.as_mut().unwrap().commitment = "00".repeat(32);
    assert_eq!(broken(&recommitted, &evidence()), ["fair-draw"]);

    let mut uncommitted = seen();
    uncommitted.draw_before = None;
    assert_eq!(broken(&uncommitted, &evidence()), ["fair-draw"]);

    let mut passed_over = seen();
    passed_over.shoppers[0].entry = None;
    passed_over.shoppers[0].positions = vec![N];
    assert_eq!(broken(&passed_over, &evidence()), ["fair-draw"]);

    let mut ahead_of_the_drawn = seen();
    ahead_of_the_drawn.shoppers[0].joined_in_lobby = false;
    ahead_of_the_drawn.shoppers[0].entry = None;
    assert_eq!(broken(&ahead_of_the_drawn, &evidence()), ["fair-draw"]);

    let mut shared = seen();
    shared.shoppers[1] = shared.shoppers[0].clone();
    assert!(broken(&shared, &evidence()).contains(&"fair-draw"));
}

#[test]
fn an_ungated_path_breaks_only_the_admitted() {
    let mut let_in = seen();
    let_in.trespasses[0] =
        Trespass { request: "GET //checkout".into(), status: 200, answered_by: String::new() };
    assert_eq!(broken(&let_in, &evidence()), ["only-the-admitted"]);

    let mut reserved = seen();
    reserved.trespasses[0] = Trespass {
        request: "POST /_stanchion/drop/reservations".into(),
        status: 201,
        answered_by: "own".into(),
    };
    assert_eq!(broken(&reserved, &evidence()), ["only-the-admitted"]);

    let mut stranger = evidence();
    stranger.journal.as_mut().unwrap().visits[0].visitor.clear();
    assert_eq!(broken(&seen(), &stranger), ["only-the-admitted"]);
}

#[test]
fn a_number_that_rises_or_a_false_sold_out_breaks_honest_page() {
    let told = |at_ms, gateway| AheadSeen { at_ms: T0 + at_ms, ahead: 4, gateway };
    for rise in [told(1_010, 0), told(3_000, 0), told(3_000, 1)] {
        let mut rising = seen();
        rising.shoppers[0].ahead.push(rise);
        assert_eq!(broken(&rising, &evidence()), ["honest-page"]);

        let mut on_the_other = seen();
        let ahead = vec![AheadSeen { ahead: 0, gateway: rise.gateway, ..told(1_000, 0) }, rise];
        let second = DeviceSeen { ahead, ..DeviceSeen::default() };
        on_the_other.shoppers[0].second = Some(second);
        assert_eq!(broken(&on_the_other, &evidence()), ["honest-page"]);
    }
    let mut skewed = seen();
    skewed.shoppers[0].ahead.push(told(1_010, 1));
    assert!(judge(&skewed, &evidence()).is_good(), "another gateway has looked a moment before");

    let mut false_alarm = seen();
    let long_free = (0..20).map(|i| sample(T0 - 4_000 + i * 200, 4));
    let rest = false_alarm.witness.samples.split_off(1);
    false_alarm.witness.samples = long_free.chain(rest).collect();
    let told = Sighting { sent_ms: T0 - 1_000, received_ms: T0 - 990 };
    false_alarm.shoppers[0].sold_out.push(told);
    assert_eq!(broken(&false_alarm, &evidence()), ["honest-page"]);
}

#[test]
fn sold_out_may_outlive_the_truth_by_two_seconds_and_a_rush_proves_nothing() {
    let mut seen = seen();
    let told = |sent_ms| Sighting { sent_ms, received_ms: sent_ms + 5 };
    let sold = (0..3).map(|i| sample(T0 + i * 200, 0));
    let back = (3..30).map(|i| sample(T0 + i * 200, 2));
    seen.witness.samples = sold.chain(back).collect();
    seen.shoppers.iter_mut().for_each(|shopper| shopper.sold_out.clear());
    seen.shoppers[0].sold_out = vec![told(T0 + 2_300)];
    assert!(judge(&seen, &evidence()).is_good());

    seen.shoppers[0].sold_out = vec![told(T0 + 4_000)];
    assert_eq!(broken(&seen, &evidence()), ["honest-page"]);

    // Units move, but there were always more free than could have come back.
    for sample in &mut seen.witness.samples[12..] {
        (sample.skus[0].version, sample.skus[0].held) = (sample.skus[0].version + 1, 1);
        sample.skus[0].confirmed -= 1;
    }
    seen.witness.samples[11].skus[0].confirmed -= 1;
    assert_eq!(broken(&seen, &evidence()), ["honest-page"]);

    // All that is free may have come back just now: there may have been a moment without.
    for sample in &mut seen.witness.samples[11..] {
        (sample.skus[0].held, sample.skus[0].confirmed) = (2, 0);
    }
    assert!(judge(&seen, &evidence()).is_good());
}

#[test]
fn what_could_not_be_read_is_unchecked_and_the_run_is_not_good() {
    let mut evidence = evidence();
    evidence.ledger = Err("no DATABASE_URL was given".into());
    let report = judge(&seen(), &evidence);
    for name in ["never-oversell", "no-unit-lost", "one-click-one-order", "ledger-shielded"] {
        assert_eq!(report.promises[name].holds, None, "{name}");
    }
    assert!(!report.is_good());
    assert_eq!(report.oversold, None);
}
