//! A storm of joins at nodes that hold few: everybody gets a place, and nobody better odds.

use std::time::Duration;

use futures_util::future::join_all;
use stanchion::domain::refusal::Problem;
use stanchion::domain::ticket::{Cohort, Ticket};
use stanchion::room::{ControlChange, Publish, Room};

use crate::fixture::now_ms;
use crate::room_ground::{RoomGround, anonymous, joined, until_open};

const PEOPLE: usize = 20_000;
const HELD: usize = 512;

/// Somebody who got a place, and what was told before that.
struct Came {
    ticket: Ticket,
    waits: Vec<u64>,
}

/// Joins as the page does: the same key again, when told to.
async fn come(room: &Room, number: usize) -> Came {
    let mut waits = vec![];
    loop {
        match room.join(anonymous(&key(number))).await {
            Ok(place) => return Came { ticket: place.ticket, waits },
            Err(refusal) => {
                let passes = matches!(refusal.problem, Problem::Overloaded | Problem::Paused);
                assert!(passes, "{refusal:?}");
                let wait = refusal.retry_after_ms.expect("every refusal names its cure");
                waits.push(wait);
                tokio::time::sleep(Duration::from_millis(wait)).await;
            }
        }
    }
}

fn key(number: usize) -> String {
    format!("visitor-{number}")
}

fn entry(ticket: &Ticket) -> u64 {
    match ticket.cohort {
        Cohort::Entry(entry) => entry,
        Cohort::Late(_) => panic!("{ticket:?} is late"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn wr_77_twenty_thousand_at_two_nodes_that_hold_512_each_lose_nobody_and_no_odds() {
    let mut ground = RoomGround::new("storm", 600_000, 100.0).await;
    ground.joins_waiting_max = HELD;
    ground.keep().await;
    let rooms = [ground.room().await, ground.room().await];

    let came = join_all((0..PEOPLE).map(|number| come(&rooms[number % 2], number))).await;

    let mut entries: Vec<_> = came.iter().map(|came| entry(&came.ticket)).collect();
    entries.sort_unstable();
    assert!(entries.iter().copied().eq(0..PEOPLE as u64), "a number is missing, or given twice");
    let first: Vec<_> = came.iter().filter_map(|came| came.waits.first().copied()).collect();
    assert!(first.len() > PEOPLE / 2, "only {} were refused", first.len());
    spread_out(&first);

    let soon = ControlChange { opens_ms: Some(now_ms() + 300), ..ControlChange::default() };
    assert!(matches!(rooms[0].publish("ops", &soon).await.unwrap(), Publish::Changed(_)));
    until_open(&rooms[0]).await;
    let draw = rooms[0].snapshot().draw.clone().unwrap();
    assert_eq!(draw.n(), PEOPLE as u64);
    let position = |came: &Came| came.ticket.cohort.position(&draw).unwrap();
    let (at_once, later): (Vec<_>, Vec<_>) = came.iter().partition(|came| came.waits.is_empty());
    for group in [at_once, later] {
        drawn_anywhere(&group.into_iter().map(position).collect::<Vec<_>>());
    }
    // Nobody is lost, and a key is one place on any node, also after the opening.
    for number in (0..PEOPLE).step_by(101) {
        let again = joined(&rooms[(number + 1) % 2], anonymous(&key(number))).await;
        assert!(again.known && again.ticket.cohort == came[number].ticket.cohort, "{number}");
    }
}

/// No tenth of a second is told to many. A fast machine has few to spread, over a second or so.
fn spread_out(waits: &[u64]) {
    let mut tenths = vec![0; 301];
    for wait in waits {
        assert!((500..=30_000).contains(wait), "{wait}");
        tenths[usize::try_from(wait / 100).unwrap()] += 1;
    }
    let most = tenths.iter().max().unwrap();
    assert!(most * 3 < waits.len(), "{most} of {} in one tenth: {tenths:?}", waits.len());
}

/// The middle of a group is the middle of the line, within six standard deviations.
fn drawn_anywhere(positions: &[u64]) {
    #[expect(clippy::cast_precision_loss, reason = "twenty thousand")]
    let (sum, count) = (positions.iter().sum::<u64>() as f64, positions.len() as f64);
    #[expect(clippy::cast_precision_loss, reason = "twenty thousand")]
    let people = PEOPLE as f64;
    let deviation = people / (12.0 * count).sqrt();
    let off = (sum / count - people / 2.0).abs();
    assert!(off < 6.0 * deviation, "{count} are off the middle by {off}");
}
