//! Joins that may not have been written are not acknowledged.

use stanchion::domain::refusal::Problem;
use stanchion::domain::ticket::Cohort;

use super::{Loss, Servers, join, loaded, signed_in, until_back, until_noted};
use crate::room_ground::{anonymous, join_all, until};

#[tokio::test(flavor = "multi_thread")]
async fn wr_74_a_join_that_redis_may_have_missed_is_refused_and_its_retry_gets_one_place() {
    let servers = Servers::single();
    let ground = servers.ground("unwritten", 10.0).await;
    ground.keep().await;
    let room = ground.room().await;
    join_all(&room, "before", 3).await;

    // Frozen: what was sent is read once it thaws. Read-only: it is refused.
    let Servers::Single(redis) = &servers else { panic!("it is a single one") };
    redis.freeze().unwrap();
    let unheard = room.join(anonymous("mine")).await.unwrap_err();
    redis.thaw().unwrap();
    assert_eq!(unheard.problem, Problem::Paused);
    let cut_off = |value: &str| {
        redis::cmd("CONFIG").arg("SET").arg("min-replicas-to-write").arg(value).to_owned()
    };
    until("Redis is back", || room.snapshot().is_live(room.now_ms())).await;
    ground.redis.command::<()>(&cut_off("1")).await.unwrap();
    let unwritten = room.join(signed_in("other", "ann")).await.unwrap_err();
    ground.redis.command::<()>(&cut_off("0")).await.unwrap();
    assert_eq!(unwritten.problem, Problem::Paused);

    let mine = join(&room, anonymous("mine")).await;
    let ann = join(&room, signed_in("other", "ann")).await;

    assert_eq!(join(&room, anonymous("mine")).await.cohort, mine.cohort);
    assert_eq!((mine.cohort, ann.cohort), (Cohort::Entry(3), Cohort::Entry(4)));
    assert_eq!(loaded(&ground, 0).await.counters.entries, 5, "one place each");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crowd_that_reaches_the_ceiling_wakes_the_core_and_everybody_gets_a_place() {
    let servers = Servers::single();
    let ground = servers.ground("ceiling", 10.0).await;
    ground.keep().await;
    let room = ground.room().await;

    let places = join_all(&room, "crowd", 8_000).await;

    assert_eq!(places.len(), 8_000);
    let state = loaded(&ground, 0).await;
    assert_eq!(state.counters.entries, 8_000);
    assert!(state.ceilings.entries > 8_000, "{:?}", state.ceilings);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sale_that_was_full_is_full_after_a_loss_too() {
    let servers = Servers::single();
    let mut ground = servers.ground("fullloss", 10.0).await;
    ground.max_places = 5;
    let core = ground.keep().await;
    let room = ground.room().await;
    join_all(&room, "a", 4).await;
    until_noted(&ground, "entries_given", 4).await;
    let before = loaded(&ground, 0).await;
    core.cancel();

    Loss::Flush.strike(&ground, &servers).await;
    ground.keep().await;
    until_back(&ground, &room, before.loaded_ms).await;

    join(&room, anonymous("the last")).await;
    let refused = room.join(anonymous("one more")).await.unwrap_err();
    assert_eq!(refused.problem, Problem::SaleFull);
}
