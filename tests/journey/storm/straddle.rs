//! Joins around the opening second at nodes whose clocks disagree: Redis' clock decides.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use stanchion::clock::{Clock, SystemClock};
use stanchion::domain::ticket::Cohort;
use stanchion::room::Room;

use crate::fixture::now_ms;
use crate::room_ground::{RoomGround, anonymous, join_all as join_many, joined, until, until_open};

/// A machine's clock that is off.
struct Off(i64);

impl Clock for Off {
    fn now_ms(&self) -> u64 {
        SystemClock.now_ms().saturating_add_signed(self.0)
    }
}

/// One visitor, who asks some of the nodes at once; what each has answered.
async fn asks(rooms: Vec<Arc<Room>>, key: String) -> Vec<Cohort> {
    let places = rooms.iter().map(|room| joined(room, anonymous(&key)));
    join_all(places).await.into_iter().map(|place| place.ticket.cohort).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn joins_within_50_ms_of_the_opening_on_three_nodes_200_ms_apart_are_one_cohort_each() {
    let ground = RoomGround::new("straddling", 2_500, 50.0).await;
    ground.keep().await;
    let mut rooms = vec![];
    for off_ms in [-200, 0, 200] {
        rooms.push(ground.room_by(Arc::new(Off(off_ms))).await);
    }
    let agree = || rooms.iter().all(|room| room.now_ms().abs_diff(now_ms()) < 50);
    until("the nodes tell one time", agree).await;
    let mut cohorts: Vec<_> = join_many(&rooms[1], "early", 5)
        .await
        .into_iter()
        .map(|place| place.ticket.cohort)
        .collect();

    let opens_ms = ground.file.opens_ms;
    until("the opening is near", || now_ms() + 50 >= opens_ms).await;
    let mut asking = vec![];
    for tick in 0.. {
        for (number, room) in rooms.iter().enumerate() {
            for visitor in 0..4 {
                let key = format!("{tick}-{number}-{visitor}");
                asking.push(tokio::spawn(asks(vec![Arc::clone(room)], key)));
            }
        }
        // Somebody whose taps reach all three.
        asking.push(tokio::spawn(asks(rooms.clone(), format!("{tick}-everywhere"))));
        if now_ms() >= opens_ms + 50 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    for answers in join_all(asking).await {
        let answers = answers.unwrap();
        assert!(answers.iter().all(|cohort| *cohort == answers[0]), "one cohort: {answers:?}");
        cohorts.push(answers[0]);
    }
    until_open(&rooms[1]).await;
    cohorts.extend(join_many(&rooms[2], "late", 5).await.into_iter().map(|p| p.ticket.cohort));

    let numbers: HashSet<_> = cohorts.iter().collect();
    assert_eq!(numbers.len(), cohorts.len(), "no number twice");
    for room in &rooms {
        until_open(room).await;
        let draw = room.snapshot().draw.clone().unwrap();
        let (entries, late): (Vec<_>, Vec<_>) =
            cohorts.iter().partition(|cohort| matches!(cohort, Cohort::Entry(_)));
        assert_eq!(draw.n(), entries.len() as u64, "whoever was told of the draw is in it");
        let at = |cohort: &Cohort| cohort.position(&draw).unwrap();
        let drawn: HashSet<_> = entries.into_iter().map(at).collect();
        assert!(drawn.iter().all(|position| *position < draw.n()));
        let mut behind: Vec<_> = late.into_iter().map(at).collect();
        behind.sort_unstable();
        let all = cohorts.len() as u64;
        assert!(behind.into_iter().eq(draw.n()..all), "the late are behind all drawn");
        assert_eq!(drawn.len() as u64, draw.n());
    }
}
