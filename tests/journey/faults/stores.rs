//! Redis frozen, and lying either way; Postgres crashing at full load.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ::redis::cmd;
use futures_util::future::join_all;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use stanchion::reservations::{Action, Reserved};
use stanchion::servers::{PrivatePostgres, PrivateRedis};
use stanchion::store::postgres::Which;

use super::{PATIENCE, addr_of, insist, is_try_again, link_to};
use crate::fixture::core::{Core, Plan, grants};
use crate::fixture::{Ground, no_deadlock};

const FROZEN_FOR: Duration = Duration::from_secs(3);

#[tokio::test(flavor = "multi_thread")]
async fn rs_22_a_redis_that_stands_still_for_three_seconds_takes_no_unit_twice() {
    let redis = PrivateRedis::start().unwrap();
    let house = Core::on(Ground::new("stands"), &redis.url(), &Plan::of("stands", 300)).await;
    house.held("ann", "first", 1).await;

    redis.freeze().unwrap();
    let keys: Vec<_> = (0..100).map(|n| format!("k{n}")).collect();
    let ordering = join_all(keys.iter().map(|key| house.reserve("bob", key, 1)));
    let thawing = async {
        tokio::time::sleep(FROZEN_FOR).await;
        redis.thaw().unwrap();
    };
    let (outcomes, ()) = tokio::join!(ordering, thawing);
    let refused = outcomes.iter().filter_map(|outcome| outcome.as_ref().err());
    refused.for_each(|refusal| assert!(is_try_again(refusal), "{refusal:?}"));
    assert!(grants(&outcomes) > 0, "the ledger goes on alone");

    for key in &keys {
        insist(&house, key, &[("S", 1)]).await;
    }
    assert_eq!(house.stock().await.available, 300 - 101);
    // What was asked of the frozen Redis may have been done, once a key and never twice.
    let count = house.count().await.unwrap();
    assert!(count >= 300 - 101, "the gate is at {count}");
    house.sound().await;
    assert_eq!(house.count().await, Some(199));
}

/// Asks the server itself one thing.
fn tell(redis: &PrivateRedis, words: &[&str]) -> ::redis::Value {
    let client = ::redis::Client::open(redis.url()).unwrap();
    let mut connection = client.get_connection().unwrap();
    ::redis::Cmd::new().arg(words).query(&mut connection).unwrap()
}

fn offset(redis: &PrivateRedis, field: &str) -> Option<u64> {
    let ::redis::Value::BulkString(told) = tell(redis, &["INFO", "replication"]) else {
        return None;
    };
    let told = String::from_utf8(told).unwrap();
    told.lines().find_map(|line| line.strip_prefix(field)?.trim().parse().ok())
}

#[tokio::test(flavor = "multi_thread")]
async fn rs_54_a_replica_that_lagged_behind_when_it_was_promoted_sells_nothing_twice() {
    let (primary, replica) = (PrivateRedis::start().unwrap(), PrivateRedis::start().unwrap());
    let (link, copying) = (link_to(&primary.url()).await, link_to(&primary.url()).await);
    let plan = Plan::of("promoted", 500);
    let house = Core::on(Ground::new("promoted"), &link.url(&primary.url()), &plan).await;
    let port = copying.addr().port().to_string();
    tell(&replica, &["REPLICAOF", "127.0.0.1", &port]);
    house.held("ann", "first", 450).await;
    let since = std::time::Instant::now();
    while offset(&replica, "slave_repl_offset:")
        .is_none_or(|copied| Some(copied) < offset(&primary, "master_repl_offset:") || copied == 0)
    {
        assert!(since.elapsed() < PATIENCE, "the replica never caught up");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }

    // What is sold from here on, the replica does not hear of.
    copying.freeze();
    assert_eq!(rush(&house, "before", 40).await, 40);
    primary.kill().unwrap();
    copying.cut();
    tell(&replica, &["REPLICAOF", "NO", "ONE"]);
    link.lead_to(addr_of(&replica.url()));
    let since = std::time::Instant::now();
    while house.redis.command::<String>(&cmd("PING")).await.is_err() {
        assert!(since.elapsed() < PATIENCE, "nobody found the new primary");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(house.count().await, Some(50), "it lags by forty");

    assert_eq!(
        rush(&house, "after", 60).await,
        10,
        "the ledger refuses what the gate lets through"
    );
    let (_, done) = house.orders.reconcile().await.unwrap();
    assert_eq!(done[0].action, Action::Lowered, "{done:?}");
    assert_eq!(house.orders.metrics().gate_too_high.get(), 1);
    assert_eq!(house.stock().await.available, 0);
    house.sound().await;
}

async fn shift_gate(house: &Core, by: i64) {
    let key = format!("stanchion:{{{}}}:stock:S", house.sale.id);
    let shift = cmd("HINCRBY").arg(key).arg("count").arg(by).clone();
    house.redis.command::<()>(&shift).await.unwrap();
}

async fn rush(house: &Core, topic: &str, orders: usize) -> usize {
    let keys: Vec<_> = (0..orders).map(|n| format!("{topic}-{n}")).collect();
    grants(&join_all(keys.iter().map(|key| house.reserve("bob", key, 1))).await)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gate_twenty_too_high_sells_no_unit_too_many() {
    let house = Core::start(&Plan::of("toohigh", 30)).await;
    house.held("ann", "first", 1).await;
    shift_gate(&house, 20).await;

    assert_eq!(rush(&house, "a", 25).await, 25);
    let (_, done) = house.orders.reconcile().await.unwrap();
    assert_eq!(done[0].action, Action::Lowered, "at once");
    assert_eq!(house.orders.metrics().gate_too_high.get(), 1, "and with an alarm");
    assert_eq!(rush(&house, "b", 25).await, 4);
    house.sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gate_twenty_too_low_gives_up_every_unit_in_the_end() {
    let house = Core::start(&Plan::of("toolow", 30)).await;
    house.held("ann", "first", 1).await;
    shift_gate(&house, -20).await;

    assert_eq!(rush(&house, "a", 25).await, 9, "what the gate knows of");
    for wanted in [Action::Noted, Action::Raised] {
        assert_eq!(house.orders.reconcile().await.unwrap().1[0].action, wanted);
    }
    assert_eq!(rush(&house, "b", 25).await, 20);
    house.sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn holds_survive_backends_of_postgres_killed_by_sigkill_at_full_load() {
    const CLIENTS: usize = 16;
    let postgres = PrivatePostgres::start().unwrap();
    let mut ground = Ground::new("sigkill");
    ground.database_url = postgres.url();
    let redis_url = ground.redis_url.clone();
    let house = Arc::new(Core::on(ground, &redis_url, &Plan::of("sigkill", 100_000)).await);
    house.held("ann", "first", 1).await;
    let stop = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let (house, stop) = (Arc::clone(&house), Arc::clone(&stop));
            tokio::spawn(async move {
                let (mut acknowledged, mut unsure) = (HashMap::new(), Vec::new());
                for n in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    let key = format!("{client}-{n}");
                    match house.reserve("bob", &key, 1).await {
                        Ok(Reserved::New(made)) => drop(acknowledged.insert(key, made)),
                        Ok(Reserved::Replay(replay)) => panic!("{replay:?}"),
                        Err(refusal) => {
                            assert!(is_try_again(&refusal), "{refusal:?}");
                            unsure.push(key);
                        }
                    }
                }
                (acknowledged, unsure)
            })
        })
        .collect();

    for _ in 0..2 {
        tokio::time::sleep(Duration::from_millis(700)).await;
        let pid = loop {
            // Whoever has the row: the server recovers from its log, all connections are lost.
            let busiest = "SELECT pid::bigint FROM pg_stat_activity WHERE state = 'active' \
                           AND query LIKE '%take%' AND pid <> pg_backend_pid() LIMIT 1";
            let Ok(client) = house.database.client().await else { continue };
            let Ok(rows) = client.query(busiest, &[]).await else { continue };
            if let Some(row) = rows.first() {
                break row.get::<_, i64>(0);
            }
        };
        kill(Pid::from_raw(i32::try_from(pid).unwrap()), Signal::SIGKILL).unwrap();
    }
    insist(&house, "after the crashes", &[("S", 1)]).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    stop.store(true, Ordering::Relaxed);

    let mut orders = 2;
    for client in clients {
        let (acknowledged, unsure) = client.await.unwrap();
        orders += acknowledged.len() + unsure.len();
        for (key, made) in acknowledged {
            let which = Which::Key(house.whose("bob", &key));
            let there = house.ledger.reservation(&which).await.unwrap();
            assert_eq!(there, Some(made), "I5: {key} was acknowledged");
        }
        for key in unsure {
            insist(&house, &key, &[("S", 1)]).await;
        }
    }
    let stock = house.stock().await;
    assert_eq!(stock.held, u64::try_from(orders).unwrap(), "each order took one unit");
    house.sound().await;
    no_deadlock(&postgres, "postgres");
    let crashes = postgres.said("was terminated by signal 9").unwrap();
    assert_eq!(crashes.len(), 2, "{crashes:?}");
}
