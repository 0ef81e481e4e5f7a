//! Lanes of two processes against each other: caps, the last units, shared keys, a frozen SKU.

use std::collections::HashMap;

use futures_util::future::join_all;
use stanchion::reservations::lane::Patience;
use stanchion::store::postgres::{NoUnits, Taken, Which};

use crate::fixture::core::{Core, Plan};

fn units_held(taken: &[Taken]) -> i64 {
    let units = |taken: &Taken| match taken {
        Taken::Held(reservation) => {
            reservation.lines.iter().map(|line| i64::from(line.qty.get())).sum()
        }
        _ => 0,
    };
    taken.iter().map(units).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn rs_08_two_processes_never_give_a_buyer_more_than_the_cap() {
    let house = Core::start(&Plan::of("twocaps", 5_000).cap(3)).await;
    let (one, two) = (house.lanes().0, house.lanes().0);
    let patience = Patience::default();

    let orders = (0..600).map(|n| {
        let lanes = if n % 2 == 0 { &one } else { &two };
        let take = house.take(&format!("buyer-{}", n % 40), &format!("k{n}"), 1 + n % 2);
        async { lanes.take(0, 1, take, &patience).await.unwrap() }
    });
    let taken = join_all(orders).await;

    let mut has: HashMap<String, u32> = HashMap::new();
    for taken in &taken {
        match taken {
            Taken::Held(made) => {
                *has.entry(made.buyer.to_string()).or_default() += made.lines[0].qty.get();
            }
            Taken::No { why, .. } => assert_eq!(*why, NoUnits::OverCap),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(has.len(), 40);
    assert!(has.values().all(|units| (2..=3).contains(units)), "{has:?}");
    let left = house.stock().await.available;
    assert_eq!(i64::try_from(left).unwrap(), 5_000 - units_held(&taken));
    house.sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rs_01_the_last_units_go_once_whoever_asks() {
    for (topic, cap) in [("lastfree", 0), ("lastcapped", 4)] {
        let house = Core::start(&Plan::of(topic, 300).cap(cap)).await;
        let lanes = [house.lanes().0, house.lanes().0, house.lanes().0];
        let patience = Patience::default();

        let orders = (0..420_usize).map(|n| {
            let units = 1 + i64::try_from(n % 3).unwrap();
            let take = house.take(&format!("b{n}"), "k", units);
            let lanes = &lanes[n % 3];
            let patience = &patience;
            async move { (units, lanes.take(0, 1, take, patience).await.unwrap()) }
        });
        let (units, taken): (Vec<_>, Vec<_>) = join_all(orders).await.into_iter().unzip();

        let left = i64::try_from(house.stock().await.available).unwrap();
        assert_eq!(units_held(&taken) + left, 300);
        // A unit may be left if all who asked for one have theirs; nobody was refused what was left.
        for (units, taken) in units.iter().zip(&taken) {
            match taken {
                Taken::Held(_) => {}
                Taken::No { why: NoUnits::SoldOut | NoUnits::Insufficient, .. } => {
                    assert!(*units > left, "{units} were refused while {left} are left");
                }
                other => panic!("{other:?}"),
            }
        }
        house.sound().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rs_26_two_processes_with_the_same_orders_make_each_once() {
    let house = Core::start(&Plan::of("sameorders", 1_000).cap(2)).await;
    let lanes = [house.lanes().0, house.lanes().0];
    let patience = Patience::default();

    let orders = (0..400_usize).map(|n| {
        // The second process hears of them in the opposite order.
        let number = if n % 2 == 0 { n / 2 } else { 199 - n / 2 };
        let take = house.take(&format!("b{}", number / 2), &format!("k{number}"), 1);
        let (lanes, patience) = (&lanes[n % 2], &patience);
        async move { lanes.take(0, 1, take, patience).await.unwrap() }
    });
    let taken = join_all(orders).await;

    let replays = taken.iter().filter(|taken| matches!(taken, Taken::Replay { .. })).count();
    assert_eq!((units_held(&taken), replays), (200, 200));
    assert_eq!(house.stock().await.available, 800);
    house.sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rs_05_takes_releases_and_sweeps_of_two_processes_stay_exact() {
    let house = Core::start(&Plan::of("mingled", 60).cap(5)).await;
    let lanes = [house.lanes().0, house.lanes().0];
    let patience = Patience::default();

    let churn = (0..48_usize).map(|n| {
        let (house, lanes, patience) = (&house, &lanes[n % 2], &patience);
        async move {
            for round in 0..8 {
                let take = house.take(&format!("b{}", n % 16), &format!("{n}-{round}"), 2);
                match lanes.take(0, 1, take, patience).await.unwrap() {
                    Taken::Held(made) if round % 3 == 0 => {
                        let confirmed = house.orders.confirm(&Which::Id(made.id), "paid").await;
                        confirmed.unwrap();
                        house.orders.cancel(&Which::Id(made.id)).await.unwrap();
                    }
                    Taken::Held(made) => {
                        house.orders.release(&Which::Id(made.id)).await.unwrap();
                    }
                    Taken::No { .. } => {}
                    other => panic!("{other:?}"),
                }
            }
        }
    });
    let sweeping = async {
        loop {
            house.orders.sweep().await.unwrap();
            assert_eq!(house.ledger.audit().await.unwrap(), []);
        }
    };
    tokio::select! {
        () = sweeping => unreachable!(),
        _ = join_all(churn) => {}
    }

    assert_eq!(house.stock().await.available, 60);
    house.sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_freeze_that_comes_while_a_batch_waits_is_obeyed() {
    let house = Core::start(&Plan::of("freezing", 10)).await;
    let (lanes, _) = house.lanes();
    let client = house.database.client().await.unwrap();
    client.batch_execute("BEGIN; SELECT 1 FROM stock FOR NO KEY UPDATE").await.unwrap();
    let waiting = super::lanes::taking(&lanes, house.take("ann", "k", 1), &Patience::default());
    let blocked = "SELECT count(*) FROM pg_stat_activity \
                   WHERE datname = current_database() AND wait_event_type = 'Lock'";
    house.sql_says(blocked, 1).await;

    let freeze = "SELECT freeze_sku('S', true); COMMIT";
    client.batch_execute(freeze).await.unwrap();

    let taken = waiting.await.unwrap().unwrap();
    assert!(matches!(taken, Taken::No { why: NoUnits::Frozen, .. }), "{taken:?}");
    assert_eq!(house.stock().await.available, 10);
    assert_eq!(house.sql("SELECT count(*) FROM reservation").await, 0);
    house.sound().await;
}
