//! The scenarios of the table.

use super::scenario::{Change, Scenario};
use crate::domain::rate::Rate;

const RATE: f64 = 50.0;
const STEADY_SECONDS: u64 = 60;
const JUMP_AT: u64 = 30;
const JUMP_SECONDS: u64 = 80;

/// So many away all the time.
pub(super) fn steady(share: f64) -> Scenario {
    let name = format!("{} % away", percent(share));
    Scenario::new(name, RATE, STEADY_SECONDS).away(share)
}

/// The draw waits for its beacon.
pub(super) fn late_draw(share: f64) -> Scenario {
    let name = format!("{} % away, drawn 5 s late", percent(share));
    let mut scenario = Scenario::new(name, RATE, STEADY_SECONDS).away(share);
    scenario.draw_ms = 5_000;
    scenario
}

/// The share of those away jumps from one second to the next.
pub(super) fn jump(from: f64, to: f64, per_second: f64) -> Scenario {
    let seconds = if per_second < 1.0 { 240 } else { JUMP_SECONDS };
    let name = format!("{} % away, then {} %", percent(from), percent(to));
    let scenario = Scenario::new(name, per_second, seconds).away(from).long_enough_for(to);
    scenario.at(JUMP_AT, Change::Away(to))
}

/// Six of ten away, and then all of them come back, those called long ago among them.
pub(super) fn all_come_back() -> Scenario {
    let scenario = Scenario::new("60 % away, and all come back", RATE, JUMP_SECONDS).away(0.6);
    scenario.at(JUMP_AT, Change::AllAway(0.0))
}

/// Some ask for ever and never claim.
pub(super) fn mute(share: f64, per_second: f64) -> Scenario {
    let name = format!("{} % ask and never claim", percent(share));
    let mut scenario = Scenario::new(name, per_second, STEADY_SECONDS).long_enough_for(share);
    scenario.crowd.mute = share;
    scenario
}

/// Some look at another tab for a while.
pub(super) fn hidden(share: f64) -> Scenario {
    let name = format!("{} % hide the tab for up to 3 min", percent(share));
    let mut scenario = Scenario::new(name, RATE, STEADY_SECONDS).long_enough_for(share);
    scenario.crowd.hidden = share;
    scenario
}

/// The first 900 of 1,000 never come back.
pub(super) fn nine_hundred_gone() -> Scenario {
    let mut scenario = Scenario::new("900 gone before 100 who are there", 20.0, 30);
    scenario.people = 1_000;
    scenario.crowd.gone_in_front = 900;
    scenario
}

/// All are there and nobody asks in the first three seconds, as on a node that has too much to do.
pub(super) fn late_front(per_second: f64) -> Scenario {
    let mut scenario = Scenario::new("all ask first after 3 s", per_second, STEADY_SECONDS);
    scenario.crowd.asks_first_ms = Some((3_000, 3_300));
    scenario
}

/// Nodes die, sleep, and have their clocks moved; nothing of the line follows them.
pub(super) fn troubled_nodes() -> Scenario {
    Scenario::new("nodes die, sleep, jump in time", RATE, JUMP_SECONDS)
        .away(0.3)
        .at(12, Change::Restart(0, 3_000))
        .at(18, Change::ClockStep(1, -45_000))
        .at(22, Change::ClockStep(2, 3_600_000))
        .at(28, Change::Sleep(1, 20_000))
        .at(45, Change::Restart(2, 500))
        .at(50, Change::ClockStep(0, 90_000))
        .at(60, Change::Restart(0, 8_000))
}

/// 200/s, 1/s with two seconds booked, and 200/s again.
pub(super) fn rate_changes() -> Scenario {
    let scenario = Scenario::new("200/s, then 1/s, then 200/s", 200.0, 70);
    scenario.at(20, Change::Rate(Rate::whole(1))).at(40, Change::Rate(Rate::whole(200)))
}

/// A pause or a stop, and on again.
pub(super) fn interrupted(by: Change) -> Scenario {
    let scenario = Scenario::new(format!("{by:?} for 15 s"), RATE, 70).away(0.3);
    scenario.at(20, by).at(35, Change::Resume)
}

/// Redis is away for two seconds and comes back as an older copy.
pub(super) fn fail_over() -> Scenario {
    let scenario = Scenario::new("Redis fails over", RATE, 70).away(0.3);
    scenario.at(25, Change::StoreLoss(2_000))
}

/// Nobody for ten minutes, then 5,000 at once.
pub(super) fn sudden() -> Scenario {
    let mut scenario = Scenario::new("nobody for 10 min, then 5,000", 10.0, 640);
    (scenario.people, scenario.burst) = (0, 3);
    scenario.at(600, Change::Join(5_000))
}

/// Ten inside at most; five pay, none, and five.
pub(super) fn ten_inside() -> Scenario {
    let mut scenario = Scenario::new("10 inside, 5 pay, 0, 5", 20.0, 45);
    (scenario.people, scenario.max_active) = (200, 10);
    scenario.at(10, Change::Confirm(5)).at(18, Change::Confirm(0)).at(26, Change::Confirm(5))
}

/// All of the table.
pub(super) fn table() -> Vec<Scenario> {
    let mut all: Vec<_> = [0.0, 0.3, 0.6, 0.9].map(steady).into();
    let jumps = [(0.0, 0.6), (0.6, 0.0), (0.3, 0.9), (0.9, 0.3), (0.0, 0.9), (0.9, 0.0)];
    all.extend(jumps.map(|(from, to)| jump(from, to, RATE)));
    all.extend([late_draw(0.0), late_draw(0.6)]);
    all.extend([all_come_back(), hidden(0.3), nine_hundred_gone(), mute(0.3, RATE)]);
    all.extend([1.0, 2.0, 5.0, RATE].map(|rate| mute(0.9, rate)));
    all.extend([5.0, 50.0, 200.0].map(late_front));
    all.extend([0.2, 7.5, 200.0].map(|rate| jump(0.0, 0.6, rate)));
    all.extend([1.0, 2.0, 5.0].map(|rate| jump(0.0, 0.9, rate)));
    all.extend([troubled_nodes(), fail_over(), rate_changes()]);
    all.extend([interrupted(Change::Pause), interrupted(Change::Stop), sudden(), ten_inside()]);
    all
}

fn percent(share: f64) -> String {
    format!("{:.0}", share * 100.0)
}
