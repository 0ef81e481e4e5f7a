//! Controls that do not act, or not in time.

use super::*;
use crate::lab::crowd::{Act, NodeSeen, Steering, Step};

fn step(act: Act, at: u64) -> Step {
    let node = |name: &str| NodeSeen {
        name: name.into(),
        stale_ms: Some(T0 + at + 100),
        fresh_ms: Some(T0 + at + 150),
    };
    let nodes = vec![node("gateway 1"), node("gateway 2")];
    Step { act, sent_ms: T0 + at, acked_ms: T0 + at + 10, nodes }
}

/// Slots at 10 a second until 1 s, 5 a second until 3 s, none until 6 s, none until 9 s, then 10
/// a second again; the steps lie a second and more apart.
fn steered() -> Observations {
    let mut seen = seen();
    seen.steering = Some(Steering {
        rate_before: 10.0,
        steps: vec![
            step(Act::Rate(5.0), 300),
            step(Act::Pause, 3_000),
            step(Act::Resume, 5_900),
            step(Act::Stop, 6_000),
            step(Act::Resume, 8_900),
            step(Act::Rate(10.0), 9_000),
        ],
        trouble: None,
    });
    for shopper in &mut seen.shoppers {
        shopper.admissions[0].slot_ms = T0 + (shopper.admissions[0].slot_ms - T0) * 2;
        shopper.sold_out.clear();
    }
    seen
}

fn steering(seen: &mut Observations) -> &mut Steering {
    seen.steering.as_mut().unwrap()
}

fn admit(seen: &mut Observations, at: u64, epoch: u64) {
    let admission = AdmissionSeen { jti: format!("j{at}"), slot_ms: T0 + at, epoch };
    seen.shoppers[0].admissions.push(admission);
}

#[test]
fn a_sale_that_followed_every_step_is_good_and_says_how_soon() {
    let mut seen = steered();
    admit(&mut seen, 9_200, 2);
    let report = judge(&seen, &evidence());
    assert!(report.is_good(), "{}", table(&report));
    let verdict = &report.promises["stop-in-a-second"];
    assert_eq!(verdict.holds, Some(true));
    assert!(verdict.evidence.contains("stop within 90 ms on 2 nodes"), "{}", verdict.evidence);
    assert_eq!(report.steering.len(), 6);
    assert_eq!(report.steering[3].late_ms["gateway 2"], Some(90));

    let page = page(&report).unwrap();
    for said in ["All promises that were checked", "stop-in-a-second", "gateway 2", "<rect "] {
        assert!(page.contains(said), "{said}");
    }
}

#[test]
fn a_node_that_follows_late_or_never_breaks_stop_in_a_second() {
    for number in [0, 1, 3] {
        let mut late = steered();
        let step = &mut steering(&mut late).steps[number];
        step.nodes[1].stale_ms = Some(step.acked_ms + 1_001);
        assert_eq!(broken(&late, &evidence()), ["stop-in-a-second"], "{number}");

        let mut never = steered();
        steering(&mut never).steps[number].nodes[0].fresh_ms = None;
        assert_eq!(broken(&never, &evidence()), ["stop-in-a-second"], "{number}");
    }
}

#[test]
fn a_slot_in_a_pause_breaks_stop_in_a_second_and_exact_rate() {
    let mut admitted = steered();
    admit(&mut admitted, 4_500, 1);
    assert!(broken(&admitted, &evidence()).contains(&"stop-in-a-second"));

    let mut flooded = steered();
    (0..12).for_each(|n| admit(&mut flooded, 4_500 + n, 1));
    assert_eq!(broken(&flooded, &evidence()), ["exact-rate", "stop-in-a-second"]);
}

#[test]
fn slots_above_the_new_rate_break_stop_in_a_second() {
    let mut fast = steered();
    (0..8).for_each(|n| admit(&mut fast, 2_000 + n * 100 + 50, 1));
    assert_eq!(broken(&fast, &evidence()), ["exact-rate", "stop-in-a-second"]);
}

#[test]
fn an_admission_of_the_old_epoch_breaks_stop_in_a_second() {
    let mut old = steered();
    admit(&mut old, 9_200, 1);
    assert_eq!(broken(&old, &evidence()), ["stop-in-a-second"]);
}

#[test]
fn who_is_not_let_in_again_breaks_stop_in_a_second() {
    let mut left_out = steered();
    left_out.shoppers[0].voided = true;
    assert!(judge(&left_out, &evidence()).is_good());
    left_out.shoppers[0].ending = Ending::Refused;
    assert_eq!(broken(&left_out, &evidence()), ["stop-in-a-second"]);
}

#[test]
fn a_steering_that_failed_proves_nothing_and_is_not_good() {
    let mut failed = steered();
    steering(&mut failed).trouble = Some("404".into());
    let report = judge(&failed, &evidence());
    assert_eq!(report.promises["stop-in-a-second"].holds, None);
    assert!(!report.is_good());
}
