//! What people are told of their wait while the line is steered, and how it turns out.

use stanchion::domain::queue::{Eta, Odds};
use stanchion::domain::rate::Rate;
use stanchion::domain::status::Status;
use stanchion::room::ControlChange;
use stanchion::room::metrics::RoomMetrics;
use stanchion::telemetry::Metrics;

use crate::fixture::now_ms;
use crate::room_ground::{RoomGround, join_all, until, until_open};

#[tokio::test(flavor = "multi_thread")]
async fn wr_62_the_wait_follows_the_rate_at_once_and_is_unknown_while_paused() {
    let ground = RoomGround::new("estimates", 4_000, 1.0).await;
    ground.keep().await;
    let room = ground.room().await;
    let metrics = Metrics::new("gateway");
    metrics.register(|registry| RoomMetrics::register(registry, vec![room.clone()]));
    let places = join_all(&room, "e", 5_000).await;
    until_open(&room).await;
    let told = |at: usize| room.status(Some(&places[at].ticket), None);
    let last = (0..places.len()).max_by_key(|at| told(*at).place.position).unwrap();
    // From the first status with what was asked for on, none tells a wait of before.
    let steer = async |change: ControlChange, is_done: &dyn Fn(&Status) -> bool| {
        ground.store().publish("test", &change).await.unwrap();
        let mut status = told(last);
        until("it is steered", || {
            status = told(last);
            is_done(&status)
        })
        .await;
        status
    };
    let at = |per_second: f64| {
        let rate = Some(Rate::per_second(per_second).unwrap());
        (ControlChange { rate, ..ControlChange::default() }, per_second)
    };
    let real = |count: u64| f64::from(u32::try_from(count).unwrap());
    let holds = |status: &Status, per_second: f64| {
        // Everybody ahead may turn up, and most may not.
        let Eta { low, high } = status.eta_seconds.expect("a wait");
        let (low, high) = (real(low), real(high));
        let all = real(status.place.ahead.unwrap()) / per_second;
        assert!(low < 0.5 * all && all <= high && high < 2.0 * all, "{status:?}");
    };
    until("a wait is told", || told(last).eta_seconds.is_some()).await;
    holds(&told(last), 1.0);
    for per_second in [0.5, 2.0] {
        let (change, per_second) = at(per_second);
        let status = steer(change, &|status| (status.rate - per_second).abs() < 0.01).await;
        holds(&status, per_second);
    }
    let pause = |paused| ControlChange { paused: Some(paused), ..ControlChange::default() };
    let paused = steer(pause(true), &|status| status.paused).await;
    assert_eq!(paused.eta_seconds, None);
    let resumed = steer(pause(false), &|status| !status.paused).await;
    holds(&resumed, 2.0);

    // Those told of a wait are counted once they are called.
    (0..places.len()).for_each(|at| drop(told(at)));
    let sum = || {
        let text = metrics.text();
        let lines = text.lines().filter(|line| line.starts_with("stanchion_room_waits_total{"));
        lines.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum::<u64>()
    };
    until("waits that came to an end are counted", || sum() > 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_can_hardly_be_in_before_the_end_is_told_so_until_the_rate_rises() {
    let mut ground = RoomGround::new("rushed", 1_500, 0.2).await;
    // 200 at 0.2/s, and plenty for all.
    ground.file.closes_ms = now_ms() + 120_000;
    ground.keep().await;
    let room = ground.room().await;
    let places = join_all(&room, "r", 200).await;
    until_open(&room).await;
    // All are there: nobody is passed.
    let last = || {
        let told = places.iter().map(|place| room.status(Some(&place.ticket), None));
        told.max_by_key(|told| told.place.position).unwrap()
    };

    until("the stock is known", || last().odds.is_some()).await;
    let told = last();
    assert_eq!((told.eta_seconds, told.odds), (None, Some(Odds::Unlikely)), "{told:?}");
    let rate = Some(Rate::per_second(100.0).unwrap());
    let change = ControlChange { rate, ..ControlChange::default() };
    ground.store().publish("test", &change).await.unwrap();

    until("there is time", || {
        let told = last();
        told.eta_seconds.is_some() && told.odds == Some(Odds::Certain)
    })
    .await;
}
