//! The meter under change, and nodes and stores in trouble.

use super::super::scenario::Change;
use super::super::sets;
use super::{kept, seconds};

#[test]
fn nodes_that_die_sleep_or_jump_in_time_change_nothing() {
    for (seed, log) in kept(&sets::troubled_nodes()) {
        let figures = log.figures();
        assert!(
            figures.windows > 500,
            "no window is left out for a node: seed {seed}: {figures:?}"
        );
    }
}

#[test]
fn a_rate_change_acts_on_the_next_slot_with_two_seconds_booked() {
    for (seed, log) in kept(&sets::rate_changes()) {
        let slots: Vec<f64> = log.slots().into_iter().map(seconds).collect();
        let slowly: Vec<_> = slots.iter().filter(|at| (20.001..40.0).contains(*at)).collect();
        assert!((19..=20).contains(&slowly.len()), "seed {seed}: {slowly:?}");
        assert!((20.99..21.01).contains(slowly[0]), "seed {seed}: {slowly:?}");
        let again = slots.iter().filter(|at| (55.0..65.0).contains(*at)).count();
        assert!(again >= 1_960, "seed {seed}: {again} of 2000");
    }
}

#[test]
fn nobody_is_let_in_while_paused_and_nothing_is_made_up_for_afterwards() {
    for pause in [Change::Pause, Change::Stop] {
        for (seed, log) in kept(&sets::interrupted(pause)) {
            let slots: Vec<f64> = log.slots().into_iter().map(seconds).collect();
            let meanwhile = slots.iter().filter(|at| (20.001..35.0).contains(*at)).count();
            assert_eq!(meanwhile, 0, "{pause:?}, seed {seed}");
            let first = slots.iter().find(|at| **at > 35.0).unwrap();
            assert!((35.02..37.0).contains(first), "{pause:?}, seed {seed}: {first}");
        }
    }
}

#[test]
fn a_store_that_fails_over_gives_no_credit_and_the_line_is_at_its_pace_soon() {
    for (seed, log) in kept(&sets::fail_over()) {
        let slots: Vec<f64> = log.slots().into_iter().map(seconds).collect();
        let first = slots.iter().find(|at| **at > 25.1).unwrap();
        assert!(*first >= 27.02 - 1e-6, "a slot at least 1 / rate after it: seed {seed}: {first}");
        assert!(log.figures().windows > 200, "seed {seed}");
    }
}

#[test]
fn wr_10_exactly_the_places_that_were_freed_are_taken_and_none_is_carried_over() {
    for (seed, log) in kept(&sets::ten_inside()) {
        let slots: Vec<f64> = log.slots().into_iter().map(seconds).collect();
        let within = |from: f64, to| slots.iter().filter(|at| (from..to).contains(*at)).count();
        let freed =
            [(0.0, 10.0), (10.0, 18.0), (18.0, 26.0), (26.0, 45.0)].map(|(a, b)| within(a, b));
        assert_eq!(freed, [10, 5, 0, 5], "seed {seed}");
        assert_eq!(log.open_most, 10, "seed {seed}");
    }
}
