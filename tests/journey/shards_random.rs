//! Two cores and an operator do whatever comes, over SKUs of several rows; then everything adds up.

use std::sync::Arc;

use futures_util::future::join_all;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use stanchion::domain::id::Sku;
use stanchion::domain::refusal::Problem;
use stanchion::domain::reservation::Reservation;
use stanchion::reservations::{Reservations, Reserved};
use stanchion::store::postgres::Which;

use crate::fixture::core::{Core, Plan};

const SHOPPERS: u64 = 16;
const ROUNDS: u32 = 14;
const SKUS: [&str; 3] = ["S", "T", "U"];

/// What a refusal may be when everything is going on at once.
fn expected(problem: Problem) -> bool {
    matches!(
        problem,
        Problem::SoldOut
            | Problem::Insufficient
            | Problem::OverCap
            | Problem::Frozen
            | Problem::Overloaded
    )
}

fn cart(rng: &mut SmallRng) -> Vec<(&'static str, i64)> {
    let mut skus = SKUS.to_vec();
    let many = if rng.random_bool(0.3) { 2 } else { 1 };
    let mut lines = vec![];
    for _ in 0..many {
        let sku = skus.swap_remove(rng.random_range(0..skus.len()));
        lines.push((sku, rng.random_range(1..=3)));
    }
    lines
}

async fn live_on(core: &Arc<Reservations>, house: &Core, mine: &Reservation, rng: &mut SmallRng) {
    let which = Which::Id(mine.id);
    match rng.random_range(0..6) {
        0 => drop(core.release(&which).await.unwrap()),
        1 => drop(core.confirm(&which, &format!("pay-{}", mine.id)).await.unwrap()),
        2 => {
            core.confirm(&which, &format!("pay-{}", mine.id)).await.unwrap();
            core.cancel(&which).await.unwrap();
        }
        3 => {
            let lapse = "UPDATE reservation SET expires_at = now() - interval '1 s' \
                         WHERE status = 'held' AND id =";
            house.sql(&format!("{lapse} '{}'", mine.id)).await;
            core.sweep().await.unwrap();
            // Late: taken again if it can be, and refunded if not.
            match core.confirm(&which, &format!("pay-{}", mine.id)).await {
                Ok(_) => {}
                Err(refusal) => assert_eq!(refusal.problem, Problem::HoldExpired),
            }
        }
        _ => {}
    }
}

async fn shop(house: Arc<Core>, core: Arc<Reservations>, number: u64) {
    let mut rng = SmallRng::seed_from_u64(number);
    for round in 0..ROUNDS {
        let buyer = format!("buyer-{}", number % 5);
        let order = house.order(&buyer, &format!("{number}-{round}"), &cart(&mut rng));
        match core.reserve(order.clone()).await {
            Ok(Reserved::New(mine)) => live_on(&core, &house, &mine, &mut rng).await,
            Ok(Reserved::Replay(known)) => panic!("a new key is a replay of {known:?}"),
            Err(refusal) => assert!(expected(refusal.problem), "{refusal:?}"),
        }
        if rng.random_bool(0.2) {
            // A retry never costs a second time, whatever became of the first.
            if let Ok(Reserved::New(again)) = core.reserve(order).await {
                live_on(&core, &house, &again, &mut rng).await;
            }
        }
    }
}

async fn operate(house: &Core, core: &Arc<Reservations>) {
    let mut rng = SmallRng::seed_from_u64(99);
    for round in 0.. {
        let sku = Sku::parse(SKUS[rng.random_range(0..SKUS.len())]).unwrap();
        core.freeze(&sku, true).await.unwrap();
        core.set_shards(&sku, rng.random_range(1..=6)).await.unwrap();
        core.freeze(&sku, false).await.unwrap();
        let delta = if rng.random_bool(0.5) { 2 } else { -2 };
        // Fewer may be there than would be taken away.
        let _either = core.restock(&sku, delta, &format!("op-{round}")).await;
        core.sweep().await.unwrap();
        assert_eq!(house.ledger.audit().await.unwrap(), []);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn i1_to_i6_hold_whatever_two_cores_and_an_operator_do_to_sharded_skus() {
    let plan = Plan::of("random", 40).cap(6).sku("T", 30).sku("U", 12).shards(4);
    let house = Arc::new(Core::start(&Plan { late_payment: "honour", ..plan }).await);
    let second = house.second().await;

    let shoppers = (0..SHOPPERS).map(|number| {
        let core = if number % 2 == 0 { &house.orders } else { &second };
        tokio::spawn(shop(Arc::clone(&house), Arc::clone(core), number))
    });
    let shoppers: Vec<_> = shoppers.collect();
    tokio::select! {
        () = operate(&house, &second) => unreachable!(),
        done = join_all(shoppers) => done.into_iter().for_each(Result::unwrap),
    }

    for sku in SKUS {
        house.orders.freeze(&Sku::parse(sku).unwrap(), false).await.unwrap();
    }
    house.sound().await;
}
