//! Losses while people are being admitted.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use stanchion::domain::admission::Admission;
use stanchion::domain::ticket::Ticket;
use stanchion::room::{Claimed, Room};
use stanchion::servers::{PrivateCluster, PrivateSentinel};
use tokio::sync::mpsc;

use super::{Loss, Servers, Watch, all_different, loaded, open_now, position, until_back};
use crate::room_ground::{RoomGround, join_all, until_open};

const PER_SECOND: f64 = 40.0;
const PATIENCE: Duration = Duration::from_secs(90);

/// Claims until admitted, as often as the line allows.
async fn admitted(room: &Room, ticket: &Ticket) -> Box<Admission> {
    let since = Instant::now();
    loop {
        assert!(since.elapsed() < PATIENCE, "{} was never admitted", ticket.cohort);
        let wait_ms = match room.claim(ticket).await {
            Ok(Claimed::Admitted { admission, .. }) => return admission,
            Ok(Claimed::Wait { retry_after_ms, .. }) => retry_after_ms.unwrap_or(50),
            Err(_) => 50,
        };
        tokio::time::sleep(Duration::from_millis(wait_ms.clamp(1, 500))).await;
    }
}

/// Everybody claims at once; admissions arrive as they are signed.
fn all_claim(room: &Arc<Room>, tickets: &[Ticket]) -> mpsc::Receiver<Box<Admission>> {
    let (sender, admissions) = mpsc::channel(tickets.len().max(1));
    for ticket in tickets {
        let (room, sender, ticket) = (Arc::clone(room), sender.clone(), ticket.clone());
        tokio::spawn(async move {
            drop(sender.send(admitted(&room, &ticket).await).await);
        });
    }
    admissions
}

/// No window of the meter has more slots than the rate and one more.
fn rate_holds(slots: &mut [u64]) {
    slots.sort_unstable();
    for (first, from) in slots.iter().enumerate() {
        for (count, to) in (1_u32..).zip(&slots[first..]) {
            #[expect(clippy::cast_precision_loss, reason = "milliseconds of one test")]
            let window = (to - from + 1) as f64;
            let allowed = PER_SECOND * window / 1000.0 + 1.0;
            assert!(f64::from(count) <= allowed + 1e-6, "{count} slots in {window} ms");
        }
    }
}

/// Redis' clock, as soon as it answers.
async fn redis_ms(ground: &RoomGround) -> u64 {
    loop {
        if let Ok((now_ms, _)) = ground.store().look().await {
            return now_ms;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn in_mid_sale(servers: Servers, loss: Loss, waiting: usize) {
    let ground = servers.ground("losesale", PER_SECOND).await;
    ground.keep().await;
    let room = ground.room().await;
    let places = join_all(&room, "a", waiting).await;
    let mut tickets: Vec<Ticket> = places.into_iter().map(|place| place.ticket).collect();
    open_now(&ground).await;
    until_open(&room).await;
    loss.prepare(&ground).await;
    // After the copy: it knows of none of these.
    tickets.extend(join_all(&room, "late", 50).await.into_iter().map(|place| place.ticket));
    let before = loaded(&ground, 0).await;
    let positions: HashMap<_, _> =
        tickets.iter().map(|ticket| (ticket.cohort, position(&room, ticket))).collect();
    let mut front = tickets.clone();
    front.sort_by_key(|ticket| positions[&ticket.cohort]);
    let watch = Watch::over(&room, &front.iter().step_by(25).cloned().collect::<Vec<_>>());
    let mut admissions = all_claim(&room, &front[..120]);
    let mut first = Vec::new();
    while first.len() < 40 {
        first.push(admissions.recv().await.unwrap());
    }
    let seed = room.snapshot().proof(&ground.sale);
    let cursor = room.snapshot().cursor;

    loss.strike(&ground, &servers).await;
    // A failover takes its time; nobody can have been admitted while it lasted.
    let struck_ms = if loss == Loss::FailOver { u64::MAX } else { redis_ms(&ground).await };
    let restored = until_back(&ground, &room, before.loaded_ms).await;

    assert_eq!(room.snapshot().proof(&ground.sale), seed, "the draw stands");
    assert!(restored.counters.cursor >= cursor, "nobody who was called is called back");
    let new = join_all(&room, "new", 100).await;
    let new: Vec<Ticket> = new.into_iter().map(|place| place.ticket).collect();
    let last = positions.values().max().unwrap();
    assert!(new.iter().all(|ticket| position(&room, ticket) > *last), "a newcomer jumped");
    assert!(tickets.iter().all(|ticket| position(&room, ticket) == positions[&ticket.cohort]));
    tickets.extend(new);
    all_different(&tickets);

    let mut all = first.clone();
    while let Some(admission) = admissions.recv().await {
        all.push(admission);
    }
    assert_eq!(all.len(), 120, "everybody called was admitted");
    let mut slots: Vec<_> = all.iter().map(|admission| admission.slot_ms().unwrap()).collect();
    // Who was admitted before the loss may be so once more: the same buyer, the same order key.
    for old in &first[..5] {
        let ticket = front.iter().find(|ticket| ticket.sub == old.sub).unwrap();
        let again = admitted(&room, ticket).await;
        assert_eq!((&again.sub, &again.jti), (&old.sub, &old.jti));
        slots.push(again.slot_ms().unwrap());
    }
    let gap = struck_ms.saturating_add(1)..restored.loaded_ms;
    assert!(!slots.iter().any(|slot| gap.contains(slot)), "somebody was admitted meanwhile");
    slots.sort_unstable();
    slots.dedup();
    rate_holds(&mut slots);
    watch.nobody_fell_back();
}

#[tokio::test(flavor = "multi_thread")]
async fn wr_24_a_flush_in_mid_sale_keeps_the_order_and_newcomers_stay_behind() {
    in_mid_sale(Servers::single(), Loss::Flush, 5_000).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_in_mid_sale_keeps_the_order_and_the_rate() {
    in_mid_sale(Servers::single(), Loss::Restart, 300).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_copy_in_mid_sale_keeps_the_order_and_the_rate() {
    in_mid_sale(Servers::single(), Loss::OlderCopy, 300).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failover_by_sentinels_in_mid_sale_keeps_the_order_and_the_rate() {
    let servers = Servers::Sentinel(Box::new(PrivateSentinel::start().unwrap()));
    in_mid_sale(servers, Loss::FailOver, 300).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failover_in_a_cluster_in_mid_sale_keeps_the_order_and_the_rate() {
    let servers = Servers::Cluster(PrivateCluster::start().unwrap());
    in_mid_sale(servers, Loss::FailOver, 300).await;
}
