//! ledger-shielded: a crowd costs the ledger what it sells, not what it is asked for.

use std::sync::Arc;

use futures_util::stream::{self, StreamExt};
use stanchion::domain::refusal::Problem;
use stanchion::reservations::{Reservations, Reserved};
use stanchion::servers::PrivatePostgres;

use crate::fixture::Ground;
use crate::fixture::core::{Core, Plan};

/// Orders of so many strangers, a thousand of them at once; how many were granted.
async fn crowd(
    house: &Core,
    cores: &[&Arc<Reservations>],
    strangers: std::ops::Range<usize>,
) -> usize {
    let orders = strangers.map(|n| {
        let (core, order) =
            (cores[n % cores.len()], house.order(&format!("b{n}"), "k", &[("S", 1)]));
        async move {
            match core.reserve(order).await {
                Ok(Reserved::New(_)) => true,
                Ok(Reserved::Replay(replay)) => panic!("nobody ordered {replay:?}"),
                Err(refusal) => {
                    assert_eq!(refusal.problem, Problem::SoldOut);
                    false
                }
            }
        }
    });
    let granted = stream::iter(orders).buffer_unordered(1_000).filter(|granted| {
        let granted = *granted;
        async move { granted }
    });
    granted.count().await
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_thousand_shoppers_for_500_units_cost_the_ledger_some_500_takes() {
    let postgres = PrivatePostgres::start().unwrap();
    let mut ground = Ground::new("shielded");
    ground.database_url = postgres.url();
    let redis_url = ground.redis_url.clone();
    let house = Core::on(ground, &redis_url, &Plan::of("shielded", 500)).await;
    let second = house.second().await;
    let cores = [&house.orders, &second];

    assert_eq!(crowd(&house, &cores, 0..20_000).await, 500);

    let attempts = house.attempts() + second.metrics().lanes.attempts.get();
    assert!((500..=500 + 1_024).contains(&attempts), "{attempts} takes reached the ledger");
    assert_eq!(house.stock().await.available, 0);
    house.sound().await;

    // Sold out runs no SQL: it is said while there is no ledger at all.
    postgres.kill().unwrap();
    assert_eq!(crowd(&house, &cores, 20_000..21_000).await, 0);
}
