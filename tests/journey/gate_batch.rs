//! Several orders in one call at the gate: each is decided as if it had come alone.

use stanchion::domain::id::Sku;
use stanchion::store::redis::gate::{Pass, Word};
use uuid::Uuid;

use crate::fixture::core::{Core, Plan};
use crate::fixture::now_ms;

fn pass(house: &Core, key: &str, lines: &[(&str, i64)]) -> Pass {
    let order = house.order("ann", key, lines);
    Pass {
        sale: house.sale_id(),
        closes_ms: now_ms() + 60_000,
        marker: order.order.marker(),
        id: Uuid::now_v7(),
        lines: order.cart.lines().iter().map(|line| (line.clone(), 1)).collect(),
    }
}

async fn load(house: &Core, sku: &str, units: u64) {
    let sku = Sku::parse(sku).unwrap();
    assert!(house.gate.load(&house.sale_id(), &sku, (1, units), &[(0, 0)]).await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn orders_in_one_call_are_decided_in_their_order_carts_whole_and_marks_kept() {
    let house = Core::start(&Plan::of("together", 5).sku("T", 2).sku("U", 9)).await;
    load(&house, "S", 5).await;
    load(&house, "T", 2).await;
    let other_generation = {
        let mut pass = pass(&house, "g", &[("S", 1)]);
        pass.lines[0].1 = 7;
        pass
    };
    let first = pass(&house, "a", &[("S", 2)]);
    let passes = [
        first.clone(),
        // The same key again: its mark, made by this very call.
        pass(&house, "a", &[("S", 2)]),
        pass(&house, "b", &[("S", 1), ("T", 1)]),
        pass(&house, "c", &[("S", 3)]),
        // T has only one left, so S is not touched.
        pass(&house, "d", &[("S", 1), ("T", 2)]),
        pass(&house, "e", &[("U", 1)]),
        other_generation,
        pass(&house, "f", &[("S", 2)]),
        pass(&house, "h", &[("S", 1)]),
        pass(&house, "i", &[("T", 1)]),
    ];

    let words = house.gate.take_all(&passes.each_ref()).await.unwrap();

    let wanted = [
        Word::Try,
        Word::Seen(2, first.id),
        Word::Try,
        Word::Insufficient(0, 2),
        Word::Insufficient(1, 1),
        Word::NotLoaded(0),
        Word::OtherGeneration(0),
        Word::Try,
        Word::SoldOut(0),
        Word::Try,
    ];
    assert_eq!(words, wanted);
    assert_eq!((house.count().await, house.count_of("T").await), (Some(0), Some(0)));
    let flag = house.gate.counter(&house.sale_id(), &Sku::parse("T").unwrap()).await.unwrap();
    assert!(flag.unwrap().flag);

    // Each is given back once, alone, and opens the gate again.
    for (pass, units) in [(&first, 2), (&first, 0), (&passes[2], 2)] {
        assert_eq!(house.gate.give_back(pass, None).await.unwrap(), units);
    }
    assert_eq!((house.count().await, house.count_of("T").await), (Some(3), Some(1)));
    let again = house.gate.take(&pass(&house, "h", &[("S", 1)])).await.unwrap();
    assert_eq!(again, Word::Try);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_full_of_orders_takes_exactly_what_there_is() {
    let house = Core::start(&Plan::of("fullcall", 100)).await;
    load(&house, "S", 100).await;
    let passes: Vec<_> = (0..128).map(|n| pass(&house, &format!("{n}"), &[("S", 1)])).collect();
    let passes: Vec<_> = passes.iter().collect();

    let words = house.gate.take_all(&passes).await.unwrap();

    assert!(words[..100].iter().all(|word| *word == Word::Try));
    assert!(words[100..].iter().all(|word| *word == Word::SoldOut(0)));
    let again = house.gate.take_all(&passes).await.unwrap();
    assert_eq!(again[99], Word::Seen(1, passes[99].id));
    assert_eq!(again[100], Word::SoldOut(0));
}
