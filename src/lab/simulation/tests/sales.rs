//! Whole sales: stock, show-up, sold out.

use std::collections::HashSet;

use super::super::scenario::{Scenario, Stock};
use super::kept;

const STOCK: Stock = Stock {
    units: 3_000,
    buy: 1.0,
    abandon: 0.0,
    order_ms: (500, 2_000),
    pay_ms: (1_000, 4_000),
    hold_ms: 600_000,
};

#[test]
fn wr_13_with_four_of_ten_showing_up_all_is_sold_without_a_pause_and_the_unshown_are_counted() {
    let mut scenario = Scenario::new("10,000 in line, 40 % come", 50.0, 110).away(0.6);
    scenario.people = 10_000;
    scenario.window_ms = 20_000;
    scenario.stock = Some(STOCK);
    for (seed, log) in kept(&scenario) {
        assert_eq!((log.orders.len(), log.available), (3_000, Some(0)), "seed {seed}");
        let slots = log.slots();
        // For the last units the line waits for what those who are inside will take.
        let gaps = slots[..2_900].windows(2).map(|pair| pair[1] - pair[0]);
        let gap = gaps.fold(0.0, f64::max);
        let took_ms = slots[slots.len() - 1] - slots[0];
        assert!(gap < 500.0, "seed {seed}: a pause of {gap} ms");
        assert!(took_ms < 80_000.0, "3,000 at 50/s: seed {seed}: {took_ms} ms");
        // All who were called and did not come are known to have missed their turn.
        let none = crate::domain::holes::Gaps::default();
        let missed = log.lapses.missed(&none, &crate::domain::left::Left::default());
        let away = log.lapses.to - log.lapses.admitted;
        assert!(
            missed == away && missed > 3_500,
            "seed {seed}: {missed} missed of {:?}",
            log.lapses
        );
    }
}

#[test]
fn wr_26_a_sale_of_two_seconds_is_sold_in_the_order_of_the_draw_and_all_others_are_told() {
    let mut scenario = Scenario::new("200 units, 100,000 in line", 500.0, 30);
    scenario.people = 100_000;
    let pay_ms = (300, 600);
    scenario.stock = Some(Stock { units: 200, order_ms: (50, 300), pay_ms, ..STOCK });
    for (seed, log) in kept(&scenario) {
        assert_eq!(log.orders.len(), 200, "seed {seed}");
        let buyers: HashSet<u64> = log.orders.iter().copied().collect();
        assert_eq!(
            buyers,
            (0..200).collect(),
            "the first of the draw and nobody else: seed {seed}"
        );
        assert_eq!(log.refused, 0, "nobody was called for nothing: seed {seed}");
        assert_eq!(log.told_sold_out.len(), 99_800, "seed {seed}");
        let gone_ms = log.gone_ms.unwrap();
        let late = |(told, asked): &(u64, u64)| told.saturating_sub(gone_ms.max(*asked));
        let late_ms = log.told_sold_out.iter().map(late).max().unwrap();
        assert!(late_ms <= 2_000, "by their own poll: seed {seed}: {late_ms} ms");
    }
}
