//! What each sight of a sale is told as.

use super::*;

fn sight() -> Sight {
    Sight {
        now_ms: 100_000,
        phase: Phase::Open,
        is_live: true,
        shop_is_down: false,
        round: 0,
        is_paused: false,
        is_bypassed: false,
        stock: Some(StockSum { available: 5, held: 1, confirmed: 2 }),
        waiting: 10,
        admitted: 3,
        is_full: false,
        is_spoken_for: false,
        rate: Rate::per_second(10.0).unwrap(),
        opens_ms: 50_000,
        closes_ms: 500_000,
    }
}

#[test]
fn each_reason_for_a_standing_line_has_its_own_words() {
    let stock = |available, held| Some(StockSum { available, held, confirmed: 9 });
    let cases = [
        (sight(), Standing::Moving),
        (Sight { waiting: 0, ..sight() }, Standing::NobodyWaits),
        (Sight { is_paused: true, ..sight() }, Standing::Paused),
        (Sight { is_paused: true, stock: None, ..sight() }, Standing::Paused),
        (Sight { stock: None, ..sight() }, Standing::NoCore),
        (Sight { shop_is_down: true, ..sight() }, Standing::ShopDown),
        (Sight { phase: Phase::Drawing, round: 9, ..sight() }, Standing::BeaconAhead(9)),
        (
            Sight { phase: Phase::Drawing, round: 9, now_ms: u64::MAX, ..sight() },
            Standing::BeaconDue(9),
        ),
        (Sight { stock: stock(0, 0), ..sight() }, Standing::Gone),
        (Sight { stock: stock(0, 1), ..sight() }, Standing::AllHeld),
        (Sight { is_full: true, ..sight() }, Standing::Full),
        (Sight { is_spoken_for: true, ..sight() }, Standing::SpokenFor),
        (Sight { is_spoken_for: true, waiting: 0, ..sight() }, Standing::NobodyWaits),
        (Sight { is_bypassed: true, ..sight() }, Standing::Bypassed),
        (Sight { is_live: false, ..sight() }, Standing::NoRoom),
        (Sight { phase: Phase::Closed, ..sight() }, Standing::Closed),
        (Sight { phase: Phase::Lobby, ..sight() }, Standing::Lobby),
        (Sight { phase: Phase::Lobby, is_paused: true, ..sight() }, Standing::PausedBeforeOpening),
        (Sight { phase: Phase::Drawing, opens_ms: 99_000, ..sight() }, Standing::Drawing),
        (Sight { phase: Phase::Drawing, ..sight() }, Standing::NotDrawn),
    ];
    for (sight, standing) in cases {
        assert_eq!(Standing::of(&sight, false), standing, "{sight:?}");
    }
    let said = Standing::BeaconDue(9).sentence();
    assert!(said.contains("round 9") && said.contains("stanchion draw beacon"), "{said}");
}

#[test]
fn wr_20_a_sale_whose_times_exclude_each_other_will_not_open() {
    for phase in [Phase::Upcoming, Phase::Lobby, Phase::Closed] {
        let sight = Sight { phase, opens_ms: 9, closes_ms: 9, ..sight() };
        let standing = Standing::of(&sight, false);
        assert_eq!((standing, standing.light()), (Standing::WillNotOpen, Light::Red));
    }
}

#[test]
fn wr_76_a_line_that_stands_for_nothing_is_an_alarm_within_five_seconds() {
    let mut watch = LineWatch::default();
    let mut at = |now_ms, change: &dyn Fn(&mut Sight)| {
        let mut sight = Sight { now_ms, ..sight() };
        change(&mut sight);
        watch.look(&sight)
    };
    assert!(!at(0, &|_| {}) && !at(3_000, &|_| {}));
    assert!(at(4_000, &|_| {}), "nobody was admitted");
    assert!(!at(5_000, &|sight| sight.admitted += 1), "somebody was");
    assert!(!at(8_000, &|sight| sight.admitted += 1));
    assert!(at(9_000, &|sight| sight.admitted += 1));
    assert!(!at(10_000, &|sight| sight.is_paused = true), "it stands by order");
    assert!(!at(11_000, &|_| {}), "and has its time again");
}

#[test]
fn at_a_low_rate_three_turns_must_have_passed() {
    assert_eq!(patience_ms(Rate::per_second(0.2).unwrap()), 15_000);
    assert_eq!(patience_ms(Rate::per_second(100.0).unwrap()), 4_000);
}
