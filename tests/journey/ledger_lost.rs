//! Postgres refused, killed and restarted: what was acknowledged is there.

use std::sync::Arc;

use futures_util::future::join_all;
use stanchion::domain::refusal::Problem;
use stanchion::domain::reservation::Status;
use stanchion::reservations::Reserved;
use stanchion::servers::PrivatePostgres;
use stanchion::store::postgres::{Database, Options, Which};

use crate::fixture::core::{Core, Plan, problem};
use crate::fixture::{Ground, no_deadlock};

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_would_lose_commits_is_refused() {
    let postgres = PrivatePostgres::start().unwrap();
    let url = postgres.url();
    Database::open(&url, Options::default()).await.unwrap();
    // The role's own setting: the command line of the private server goes before any file.
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
    let connection = tokio::spawn(connection);
    let lossy = "ALTER ROLE CURRENT_USER SET synchronous_commit = off";
    client.batch_execute(lossy).await.unwrap();
    drop(client);
    connection.await.unwrap().unwrap();

    let refused = Database::open(&url, Options::default()).await.err().unwrap();
    assert!(refused.to_string().contains("synchronous_commit"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn holds_that_were_acknowledged_survive_a_crash_of_postgres_under_load() {
    let postgres = PrivatePostgres::start().unwrap();
    let mut ground = Ground::new("pgdies");
    ground.database_url = postgres.url();
    let redis_url = ground.redis_url.clone();
    let house = Arc::new(Core::on(ground, &redis_url, &Plan::of("pgdies", 500)).await);
    house.held("ann", "first", 1).await;

    let orders = (0..120).map(|n| {
        let house = Arc::clone(&house);
        tokio::spawn(async move { house.reserve("bob", &format!("k{n}"), 1).await })
    });
    let orders: Vec<_> = orders.collect();
    house.sql_says("SELECT least(count(*), 20) FROM reservation", 20).await;
    postgres.kill().unwrap();
    let outcomes: Vec<_> =
        join_all(orders).await.into_iter().map(|joined| joined.unwrap()).collect();
    let down = house.reserve("bob", "while-down", 1).await;
    assert_eq!(problem(down), Problem::CoreUnavailable);
    postgres.restart().unwrap();

    let mut acknowledged = 0;
    for (n, outcome) in outcomes.into_iter().enumerate() {
        let again = house.reserve("bob", &format!("k{n}"), 1).await.unwrap();
        let (Reserved::New(now) | Reserved::Replay(now)) = again;
        if let Ok(Reserved::New(then)) = outcome {
            acknowledged += 1;
            assert_eq!(now, then, "an acknowledged hold is another one now");
        }
    }
    assert!(acknowledged > 0, "the crash came before any answer");
    let first = house.ledger.reservation(&Which::Key(house.whose("ann", "first"))).await.unwrap();
    assert_eq!(first.unwrap().status, Status::Held);
    house.reserve("bob", "while-down", 1).await.unwrap();
    assert_eq!(house.stock().await.available, 500 - 122);
    house.sound().await;
    no_deadlock(&postgres, "postgres");
}
