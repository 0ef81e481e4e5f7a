//! Absentees, jumps of them, and rates.

use super::super::scenario::Scenario;
use super::super::{report, sets, world};
use super::{kept, seconds};
use crate::domain::number::{real, whole};
use crate::domain::rate::Rate;

#[test]
fn the_rate_is_used_in_order_and_never_exceeded_at_any_share_of_absentees() {
    for share in [0.0, 0.3, 0.6, 0.9] {
        for (seed, log) in kept(&sets::steady(share)) {
            let figures = log.figures();
            assert!(figures.windows > 300, "{share}, seed {seed}: {figures:?}");
            assert!(figures.passed_by.is_some(), "{share}, seed {seed}");
        }
    }
}

#[test]
fn a_draw_that_waits_for_its_beacon_passes_nobody_by_who_is_there() {
    for share in [0.0, 0.6] {
        for (seed, log) in kept(&sets::late_draw(share)) {
            assert!(log.figures().windows > 250, "{share}, seed {seed}: {:?}", log.figures());
            let first = seconds(log.slots()[0]);
            assert!((5.0..6.5).contains(&first), "{share}, seed {seed}: {first}");
        }
    }
}

#[test]
fn wr_05_a_jump_of_absentees_costs_seconds_at_most_and_nobody_is_passed_for_it() {
    for (from, to) in [(0.0, 0.6), (0.6, 0.0), (0.3, 0.9), (0.9, 0.3)] {
        for (seed, log) in kept(&sets::jump(from, to, 50.0)) {
            let figures = log.figures();
            assert!(figures.windows > 300, "{from} to {to}, seed {seed}: {figures:?}");
        }
    }
}

#[test]
fn wr_05_at_a_slow_rate_too_it_is_known_in_time_who_has_gone() {
    for per_second in [1.0, 2.0, 5.0] {
        for (from, to) in [(0.0, 0.9), (0.9, 0.0)] {
            for (seed, log) in kept(&sets::jump(from, to, per_second)) {
                let figures = log.figures();
                assert!(figures.windows > 300, "{per_second}, seed {seed}: {figures:?}");
            }
        }
    }
}

#[test]
fn wr_05_when_all_absentees_come_back_at_once_they_are_held_and_let_in_at_the_rate() {
    for (seed, log) in kept(&sets::all_come_back()) {
        let figures = log.figures();
        assert!(figures.admitted > 3_900, "seed {seed}: {figures:?}");
    }
}

#[test]
fn mute_bots_and_hidden_tabs_starve_nobody() {
    kept(&sets::mute(0.3, 50.0));
    kept(&sets::hidden(0.3));
    for per_second in [2.0, 5.0, 50.0] {
        for (seed, log) in kept(&sets::mute(0.9, per_second)) {
            assert!(log.figures().windows > 300, "{per_second}, seed {seed}: {:?}", log.figures());
        }
    }
    // A slot a second is too few for every seed: under one in fifty a window lacks two of its ten.
    for seed in 1..6 {
        let figures = world::run(&sets::mute(0.9, 1.0), seed).figures();
        assert_eq!(report::broken(&figures), None, "seed {seed}: {figures:?}");
    }
}

#[test]
fn wr_04_the_living_behind_nine_hundred_dead_places_are_in_by_the_rate_and_one_poll() {
    let scenario = sets::nine_hundred_gone();
    for (seed, log) in kept(&scenario) {
        assert_eq!(log.admitted.len(), 100, "seed {seed}");
        // The last of them may have been told to ask seldom, with so many ahead.
        let polls = log.admitted.iter().map(|one| one.claimed_ms - one.asked_ms).max().unwrap();
        let last = *log.slots().last().unwrap();
        let in_ms = (seconds(last) * 1_000.0).ceil();
        let allowed_ms = 100.0 / scenario.rate.get() * 1_000.0 + real(polls);
        assert!(in_ms <= allowed_ms, "seed {seed}: {in_ms} ms, allowed {allowed_ms}");
    }
}

#[test]
fn nobody_is_called_away_over_those_whose_first_question_comes_late() {
    for per_second in [5.0, 50.0, 200.0] {
        let scenario = sets::late_front(per_second);
        for (seed, log) in kept(&scenario) {
            let first_ms = world::OPENS_MS + 3_400;
            let called = log.calls.iter().filter(|(_, at_ms)| *at_ms <= first_ms).map(|(to, _)| to);
            let called = real(*called.max().unwrap());
            assert!(called <= per_second * 4.0, "{per_second}, seed {seed}: {called}");
        }
    }
}

#[test]
fn wr_09_rates_below_one_and_with_fractions_are_met_exactly() {
    for (per_second, most) in [(0.2, 12), (1.0, 60), (7.5, 450)] {
        kept(&sets::jump(0.0, 0.6, per_second));
        for (seed, log) in kept(&Scenario::new("all there", per_second, 75)) {
            let from = log.slots()[0];
            let within = log.slots().iter().filter(|slot| **slot < from + 60_000.0).count();
            let less = if per_second > 2.0 { 10 } else { 1 };
            assert!((most - less..=most).contains(&within), "{per_second}, seed {seed}: {within}");
        }
    }
}

#[test]
fn wr_08_six_hundred_a_minute_are_ten_in_each_second() {
    let mut scenario = Scenario::new("all there", 10.0, 60);
    scenario.rate = Rate::parse("600/min").unwrap();
    for (seed, log) in kept(&scenario) {
        assert!(log.most_in_a_second() <= 11, "seed {seed}");
        let slots = log.slots();
        for second in 3..59 {
            let within = |slot: &&f64| (second..second + 1).contains(&whole(seconds(**slot)));
            let used = slots.iter().filter(within).count();
            assert!((9..=11).contains(&used), "seed {seed}: {used} in second {second}");
        }
    }
}

#[test]
fn wr_12_an_empty_line_saves_up_no_credit() {
    for (seed, log) in kept(&sets::sudden()) {
        let slots = log.slots();
        let first = slots.partition_point(|slot| *slot < slots[0] + 1_000.0);
        assert!(first <= 13, "seed {seed}: {first} in the first second");
        assert!(slots.len() > 300, "seed {seed}: {}", slots.len());
    }
}
