//! The ranges against lines that move: the real pacer and meter, absentees, a clock of their own.

use std::collections::{BTreeMap, VecDeque};

use proptest::prelude::*;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::*;
use crate::domain::demand::Decisions;
use crate::domain::meter::Meter;
use crate::domain::pacer::{Observation, Pacer};

const START_MS: u64 = 1_000_000;

/// Who waits, and what becomes of it.
struct Line {
    rate: Rate,
    /// Of those in line.
    present: f64,
    people: u64,
    seconds: u64,
    seed: u64,
}

/// Shoppers by how their first range turned out.
#[derive(Debug, Default)]
struct Turned {
    kept: Kept,
    /// Told within the first seconds, when nothing was measured yet.
    early: Kept,
}

impl Turned {
    fn share(kept: Kept) -> f64 {
        real(kept.inside) / real(kept.before + kept.inside + kept.after).max(1.0)
    }
}

impl Line {
    /// Whoever is there looks within 1.5 s of the opening; every tenth comes later and looks first then.
    fn run(&self) -> Turned {
        let mut rng = SmallRng::seed_from_u64(self.seed);
        let (mut meter, mut pacer) = (Meter::new(self.rate, 1), Pacer::default());
        let (mut tempo, mut cursor) = (Tempo::default(), 0_u64);
        let mut looks: Vec<Option<u64>> = (0..self.people)
            .map(|_| {
                let comes = rng.random_bool(self.present);
                let late = if rng.random_bool(0.1) { self.seconds * 500 } else { 1_500 };
                comes.then(|| START_MS + rng.random_range(0..late))
            })
            .collect();
        let mut told: Vec<Option<(u64, Eta)>> = vec![None; looks.len()];
        let mut claims: Vec<(u64, usize)> = Vec::new();
        let mut turned = Turned::default();
        for now_ms in (START_MS..START_MS + self.seconds * 1_000).step_by(100) {
            let now = real(now_ms);
            for at in usize::try_from(cursor).unwrap()..looks.len() {
                if looks[at].is_some_and(|look| look <= now_ms) && told[at].is_none() {
                    // Not known at this moment: told later.
                    let called = cursor.saturating_sub(meter.next());
                    let coming = coming(called, self.rate);
                    let range = wait(at as u64 - cursor, coming, self.rate, tempo.pace());
                    told[at] = range.map(|range| (now_ms, range));
                }
            }
            for (_, at) in claims.extract_if(.., |(due, _)| *due <= now_ms) {
                let number = meter.claim(now);
                let slot = whole(meter.slot_ms(number).unwrap());
                let Some((at_ms, range)) = told[at] else { continue };
                turned.note(at_ms, slot.saturating_sub(at_ms), range);
            }
            let seen = Observation {
                now_ms,
                cursor,
                claimed: meter.next(),
                unclaimed: cursor.saturating_sub(meter.next()),
                waiting: cursor < self.people,
                lead_ms: meter.lead_ms(now),
                rate: self.rate,
                demand: None,
                ordered_ms: START_MS,
                places: None,
            };
            let to = (cursor + pacer.step(seen, |from, to| to - from).call).min(self.people);
            for at in cursor..to {
                let at = usize::try_from(at).unwrap();
                if let Some(look) = looks[at].take() {
                    // Who was told to ask seldom is near enough by now to ask each second.
                    claims.push((look.max(now_ms) + rng.random_range(50..1_250), at));
                }
            }
            cursor = to;
            tempo.observe(Look {
                now_ms,
                run: 1,
                cursor,
                passed: cursor,
                is_moving: cursor < self.people,
                rate: self.rate,
            });
        }
        turned
    }
}

impl Turned {
    fn note(&mut self, told_ms: u64, took_ms: u64, range: Eta) {
        let mut shown = Shown::default();
        shown.note(0, 0, range);
        shown.passed(1, took_ms);
        for kept in [&mut self.kept, &mut self.early] {
            kept.before += shown.kept().before;
            kept.inside += shown.kept().inside;
            kept.after += shown.kept().after;
            if told_ms > START_MS + 10_000 {
                break;
            }
        }
    }
}

#[test]
fn wr_62_four_of_five_are_in_within_the_range_they_were_first_told_at_a_steady_rate() {
    for (absent, seed) in [(0.0, 1), (0.3, 2), (0.6, 3), (0.0, 4), (0.3, 5), (0.6, 6)] {
        for (per_second, people, seconds) in [(50.0, 5_000, 120), (5.0, 900, 200)] {
            let rate = Rate::per_second(per_second).unwrap();
            let line = Line { rate, present: 1.0 - absent, people, seconds, seed };
            let turned = line.run();
            let later = Kept {
                before: turned.kept.before - turned.early.before,
                inside: turned.kept.inside - turned.early.inside,
                after: turned.kept.after - turned.early.after,
            };
            for (told, kept) in [("at the opening", turned.early), ("later", later)] {
                assert!(kept.inside > 2, "{told}: {kept:?}");
                let share = Turned::share(kept);
                assert!(share >= 0.8, "{absent} absent at {rate}, seed {seed}, {told}: {kept:?}");
            }
        }
    }
}

#[test]
fn wr_62_the_range_moves_at_once_with_the_rate_and_narrows_once_the_line_has_shown_its_pace() {
    let rate = |per_second| Rate::per_second(per_second).unwrap();
    let pace = |people| Some(Pace { people, trust: 1.0 });
    let told = |per_second, pace| wait(5_000, 0, rate(per_second), pace).unwrap();
    for pace in [None, pace(1.0), pace(2.5), pace(0.5)] {
        let (usual, half, double) = (told(50.0, pace), told(25.0, pace), told(100.0, pace));
        assert!(half.low > usual.low && half.high > usual.high, "{half:?} {usual:?}");
        assert!(double.low < usual.low && double.high < usual.high, "{double:?} {usual:?}");
        assert!(half.high >= 2 * usual.high - 10 && 2 * double.low <= usual.low + 1);
        let (just, long) = (pace.map(|pace| Pace { trust: 0.2, ..pace }), pace);
        let (wide, narrow) = (told(50.0, just), told(50.0, long));
        assert!(wide.low <= narrow.low && wide.high >= narrow.high, "{wide:?} {narrow:?}");
    }
    let (wide, narrow) = (told(50.0, None), told(50.0, pace(2.5)));
    assert!(narrow.low > wide.low && narrow.high < wide.high, "{narrow:?} in {wide:?}");
    assert_eq!(wait(5_000, 0, rate(50.0), pace(0.0)), None, "nobody goes in");
    assert!(wait(5_000, 900, rate(50.0), None).unwrap().high > wide.high, "the called come first");
}

#[test]
fn those_called_long_ago_make_no_wait_longer() {
    let rate = Rate::whole(50);
    let told = |called| wait(500, coming(called, rate), rate, None).unwrap();
    assert!(told(40).high >= told(0).high, "just called, and about to come");
    assert_eq!(told(1_000), told(400_000), "a gateway that was started in the middle of a sale");
    assert!(told(400_000).high < 30, "{:?}", told(400_000));
    assert_eq!(coming(3, Rate::per_second(0.2).unwrap()), 2, "never nobody");
}

fn watched(rate: Rate, looks: impl Iterator<Item = (u64, u64, bool)>) -> Option<f64> {
    let mut tempo = Tempo::default();
    for (now_ms, passed, is_moving) in looks {
        tempo.observe(Look { now_ms, run: 1, cursor: passed, passed, is_moving, rate });
    }
    tempo.pace().map(|pace| pace.people)
}

#[test]
fn the_pace_counts_only_while_the_line_is_to_move_and_has_got_going() {
    let rate = Rate::whole(10);
    let steady = |ticks: u64| (0..ticks).map(|tick| (tick * 100, tick * 2, true));
    assert_eq!(watched(rate, steady(120)), None, "two seconds after it got going");
    let pace = watched(rate, steady(300)).unwrap();
    assert!((pace - 2.0).abs() < 0.05, "{pace}");
    // It stands for half a minute, and then calls a whole crowd to get going.
    let stands = (300..600).map(|tick| (tick * 100, 600, false));
    let burst = (600..630).map(|tick| (tick * 100, 600 + (tick - 600) * 50, true));
    let pace = watched(rate, steady(300).chain(stands).chain(burst)).unwrap();
    assert!((pace - 2.0).abs() < 0.05, "{pace}");
    let slow = Rate::per_second(0.2).unwrap();
    let pace = watched(slow, (0..1_800).map(|tick| (tick * 100, tick / 50, true))).unwrap();
    assert!((pace - 1.0).abs() < 0.2, "one slot in five seconds: {pace}");
}

#[test]
fn whoever_can_hardly_be_in_before_the_end_is_told_of_no_wait_and_of_no_good_odds() {
    let wait = Eta { low: 3_600, high: 7_200 };
    let told = |left_seconds: u64| until_end(wait, left_seconds * 1_000);
    assert_eq!(told(600), (None, Odds::Unlikely));
    assert_eq!(told(3_600), (None, Odds::Unlikely));
    assert_eq!(told(5_400), (Some(wait), Odds::Unlikely), "rather not");
    assert_eq!(told(7_200), (Some(wait), Odds::Even), "rather, but not surely");
    assert_eq!(told(7_201), (Some(wait), Odds::Certain), "the end is no matter");
}

proptest! {
    #[test]
    fn a_longer_wait_or_an_earlier_end_makes_no_odds_better_and_none_are_better_than_without_an_end(
        low in 0_u64..10_000,
        width in 0_u64..10_000,
        later in 0_u64..10_000,
        left_ms in 0_u64..20_000_000,
        sooner_ms in 0_u64..20_000_000,
    ) {
        let wait = Eta { low, high: low + width };
        let longer = Eta { low: wait.low + later, high: wait.high + later };
        let (told, best) = until_end(wait, left_ms);
        for (fewer, worse) in
            [until_end(longer, left_ms), until_end(wait, left_ms.saturating_sub(sooner_ms))]
        {
            prop_assert_eq!(best.at_most(worse), worse);
            prop_assert!(told.is_some() || fewer.is_none());
        }
        prop_assert_eq!(told.is_some(), wait.low < left_ms / 1_000);
        for odds in [Odds::Certain, Odds::Likely, Odds::Even, Odds::Unlikely, Odds::None] {
            prop_assert_eq!(odds.at_most(odds.at_most(best)), odds.at_most(best));
        }
    }
}

#[test]
fn only_the_first_range_of_a_place_counts_and_only_so_many_are_kept() {
    let mut shown = Shown::default();
    for position in 0..5 {
        shown.note(position, 1_000, Eta { low: 2, high: 4 });
    }
    shown.note(2, 9_000, Eta { low: 100, high: 200 });
    shown.passed(2, 2_500);
    shown.passed(4, 4_000);
    shown.passed(5, 5_001);
    assert_eq!(shown.kept(), Kept { before: 2, inside: 2, after: 1 });
    shown.note(7, 0, Eta { low: 0, high: 1 });
    shown.forget();
    shown.passed(8, 9_999_999);
    assert_eq!(shown.kept().after, 1, "nothing is judged that was told before a change");

    for line in [1, 1_024, 1_025, 50_000, 1_000_000] {
        let sampled = (0..line).filter(|position| Shown::samples(*position, line)).count() as u64;
        assert!(sampled <= 1_024 && sampled > 511.min(line - 1), "{sampled} of {line}");
        let fewer = (0..line).filter(|position| Shown::samples(*position, line * 3));
        assert!(fewer.into_iter().all(|position| Shown::samples(position, line)));
    }
    (0..10_000).for_each(|position| shown.note(position, 0, Eta { low: 0, high: 1 }));
    shown.passed(u64::MAX, 0);
    assert!(shown.kept().inside < 3_000);
}

fn told(ahead: u64, available: u64, demand: (u64, u64, u64, u64), people: Option<f64>) -> Odds {
    let (undecided, count, took, units) = demand;
    let stock = StockSum { available, held: 1, confirmed: 0 };
    let decisions = Decisions { count, took, units };
    let before = Before { at_most: ahead + undecided, ahead, cap: 2 };
    let pace = people.map(|people| Pace { people, trust: 1.0 });
    odds(before, &stock, &Demand { available, undecided, decisions }, pace)
}

#[test]
fn the_odds_are_certain_only_if_everybody_before_can_be_served_in_full() {
    assert_eq!(told(99, 200, (0, 0, 0, 0), None), Odds::Certain);
    assert_eq!(told(99, 199, (0, 0, 0, 0), None), Odds::Likely);
    assert_eq!(told(99, 200, (50, 0, 0, 0), None), Odds::Even, "those inside take some too");
    assert_eq!(told(1_000, 412, (0, 0, 0, 0), None), Odds::Even, "perhaps a third turns up");
    assert_eq!(told(4_000, 412, (0, 0, 0, 0), None), Odds::Unlikely);
    assert_eq!(told(0, 0, (0, 0, 0, 0), None), Odds::Unlikely, "what is held may come back");
    let gone = StockSum { available: 0, held: 0, confirmed: 9 };
    let before = Before { at_most: 0, ahead: 0, cap: 1 };
    assert_eq!(odds(before, &gone, &Demand::default(), None), Odds::None);
    let endless = Before { at_most: 0, ahead: 0, cap: u32::MAX };
    let stock = StockSum { available: 9, held: 0, confirmed: 0 };
    assert_eq!(odds(endless, &stock, &Demand::default(), None), Odds::Likely, "nobody is before");
}

#[test]
fn who_is_inside_may_take_more_and_nobody_is_gone_twice() {
    assert_eq!(gone(50, 0, 50), 0, "all of them have a hold, and may order up to the cap");
    assert_eq!(gone(50, 0, 10), 40, "the others are out again");
    assert_eq!(gone(50, 50, 0), 50, "everybody was in, and gave the place up afterwards");
    assert_eq!(gone(0, 7, 0), 7, "nobody of them was in");
    assert_eq!(gone(1, 1, 1), 0, "a place was given up, and the admission is still good");
    assert_eq!(gone(3, 0, 9), 0, "let in from outside the line");
}

#[test]
fn what_the_line_has_shown_makes_the_odds_sharper() {
    // One in four turns up, every other one of them takes a unit: an eighth of a unit each.
    let shown = (0, 200, 100, 100);
    assert_eq!(told(1_000, 170, shown, Some(4.0)), Odds::Likely);
    assert_eq!(told(1_000, 125, shown, Some(4.0)), Odds::Even);
    assert_eq!(told(1_000, 80, shown, Some(4.0)), Odds::Unlikely);
}

/// A line of 4,000 at 20/s, 600 units: of each kind of odds told, how many were told it, and for
/// how many of them a unit was left.
fn told_and_left(absent: f64, takes: f64, seed: u64) -> BTreeMap<&'static str, (u64, u64)> {
    let mut rng = SmallRng::seed_from_u64(seed);
    let rate = Rate::whole(20);
    let (mut tempo, mut available, mut cursor) = (Tempo::default(), 600_u64, 0_usize);
    // When each looks first, in seconds; every tenth later than the others.
    let looks: Vec<Option<u64>> = (0..4_000)
        .map(|_| {
            let look = if rng.random_bool(0.1) { rng.random_range(0..150) } else { 1 };
            (!rng.random_bool(absent)).then_some(look)
        })
        .collect();
    let mut told: Vec<Option<Odds>> = vec![None; looks.len()];
    let mut decided: VecDeque<u64> = VecDeque::new();
    let mut found = BTreeMap::new();
    for second in 0.. {
        if cursor == looks.len() {
            return found;
        }
        tempo.observe(Look {
            now_ms: second * 1_000,
            run: 1,
            cursor: cursor as u64,
            passed: cursor as u64,
            is_moving: true,
            rate,
        });
        let decisions = Decisions {
            count: decided.len() as u64,
            took: decided.iter().filter(|units| **units > 0).count() as u64,
            units: decided.iter().sum(),
        };
        let demand = Demand { available, undecided: 0, decisions };
        let stock = StockSum { available, held: 1, confirmed: 0 };
        for at in cursor..looks.len() {
            if looks[at] == Some(second) {
                let ahead = (at - cursor) as u64;
                let before = Before { at_most: ahead, ahead, cap: 2 };
                told[at] = Some(odds(before, &stock, &demand, tempo.pace()));
            }
        }
        let mut slots = 20;
        while slots > 0 && cursor < looks.len() {
            if looks[cursor].is_some() {
                slots -= 1;
                if let Some(odds) = told[cursor] {
                    let (count, left) = found.entry(word(odds)).or_insert((0, 0));
                    (*count, *left) = (*count + 1, *left + u64::from(available > 0));
                }
                let wanted = if rng.random_bool(takes) { rng.random_range(1..=2) } else { 0 };
                let units = available.min(wanted);
                available -= units;
                decided.push_back(units);
                if decided.len() > 200 {
                    decided.pop_front();
                }
            }
            cursor += 1;
        }
    }
    found
}

fn word(odds: Odds) -> &'static str {
    match odds {
        Odds::Certain => "certain",
        Odds::Likely => "likely",
        Odds::Even => "even",
        Odds::Unlikely => "unlikely",
        Odds::None => "none",
    }
}

#[test]
fn who_is_told_of_good_odds_finds_a_unit_and_few_do_who_are_told_of_bad_ones() {
    for (absent, takes) in [(0.0, 1.0), (0.0, 0.5), (0.3, 0.9), (0.6, 0.6), (0.6, 1.0)] {
        for seed in 1..4 {
            let found = told_and_left(absent, takes, seed);
            let share = |odds: &str| {
                found.get(odds).map(|(count, left)| (*count, real(*left) / real(*count)))
            };
            let what = format!("{absent} absent, {takes} take, seed {seed}: {found:?}");
            let (certain, sure) = share("certain").expect("somebody is certain of a unit");
            assert!(certain > 50 && sure > 0.999_9, "{what}");
            assert!(share("likely").is_none_or(|(_, likely)| likely >= 0.8), "{what}");
            let (many, unlikely) = share("unlikely").expect("somebody is not");
            assert!(many > 50 && unlikely <= 0.2, "{what}");
        }
    }
}
