//! Absentees on real stores: two nodes, a line of which a part is not there, and a part that changes
//! from one second to the next.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use stanchion::domain::queue::PlaceState;
use stanchion::room::{Claimed, Place, Room};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::fixture::now_ms;
use crate::room_change::is_within;
use crate::room_ground::{RoomGround, join_all, until_open};

const RATE: u64 = 20;
const WINDOW_MS: u64 = 10_000;
/// How long the line gets to find its pace, from the opening and from a change.
const SETTLES_MS: u64 = 10_000;
const RECOVERS_MS: u64 = 15_000;
/// The page asks later than told by up to this, in percent; a busy machine by half a second more.
const LATE_PERCENT: u64 = 30;
const LATE_MS: u64 = 500;

/// Which part of the line is there, in tenths, and when that changes.
#[derive(Debug, Clone, Copy)]
struct There {
    first: usize,
    then: usize,
    changes_ms: u64,
}

/// Somebody who was there all the time.
#[derive(Debug, Clone, Copy)]
struct Visit {
    position: u64,
    /// What it was told last before its turn.
    told_ms: u64,
    slot_ms: Option<u64>,
}

/// What became of everybody.
type Log = Arc<Mutex<Vec<Visit>>>;

/// One visitor, who is there before the change, after it, or both.
struct Visitor {
    room: Arc<Room>,
    place: Place,
    is_there: [bool; 2],
    log: Log,
    number: usize,
}

impl Visitor {
    /// Asks as told, claims when called, until let in or until it goes.
    async fn visits(self, mut changed: watch::Receiver<bool>) {
        loop {
            let has_changed = *changed.borrow();
            if !self.is_there[usize::from(has_changed)] {
                if has_changed || changed.wait_for(|is| *is).await.is_err() {
                    return;
                }
                continue;
            }
            let told = self.room.status(Some(&self.place.ticket), None);
            let mut wait_ms = told.poll_after_ms;
            if told.place.state == PlaceState::Called {
                match self.room.claim(&self.place.ticket).await {
                    Ok(Claimed::Admitted { admission, .. }) => {
                        return self.note(|visit| visit.slot_ms = Some(admission.since_ms()));
                    }
                    Ok(Claimed::Wait { retry_after_ms: Some(ms), .. }) => wait_ms = ms.min(1_000),
                    Ok(Claimed::Wait { .. }) | Err(_) => {}
                }
            } else {
                self.note(|visit| visit.told_ms = wait_ms);
            }
            let late_ms = rand::random_range(0..=wait_ms * LATE_PERCENT / 100);
            tokio::time::sleep(Duration::from_millis(wait_ms + late_ms)).await;
        }
    }

    fn note(&self, change: impl FnOnce(&mut Visit)) {
        change(&mut self.log.lock().unwrap()[self.number]);
    }
}

/// Runs a line of `people` for `lasts_ms` from the opening: when it opened, and who was there.
async fn line(
    topic: &str,
    people: usize,
    there: There,
    lasts_ms: u64,
) -> (u64, Vec<Visit>, Vec<u64>) {
    let ground = RoomGround::new(topic, 4_000, 20.0).await;
    ground.keep().await;
    let rooms = [ground.room().await, ground.room().await];
    let places = join_all(&rooms[0], "a", people).await;
    for room in &rooms {
        until_open(room).await;
    }
    let draw = rooms[0].snapshot().draw.clone().unwrap();
    let position = |place: &Place| place.ticket.cohort.position(&draw).unwrap();
    let visit = |place| Visit { position: position(place), told_ms: 0, slot_ms: None };
    let log: Log = Arc::new(Mutex::new(places.iter().map(visit).collect()));
    let (change, changed) = watch::channel(false);
    let mut visitors = JoinSet::new();
    let is_there = |number| [number % 10 < there.first, number % 10 < there.then];
    for (number, place) in places.into_iter().enumerate() {
        let (room, log) = (Arc::clone(&rooms[number % 2]), Arc::clone(&log));
        let visitor = Visitor { room, place, is_there: is_there(number), log, number };
        visitors.spawn(visitor.visits(changed.clone()));
    }
    let opened_ms = ground.file.opens_ms;
    // That time passes is what is asked about.
    let until = async |at_ms: u64| {
        tokio::time::sleep(Duration::from_millis((opened_ms + at_ms).saturating_sub(now_ms())))
            .await;
    };
    until(there.changes_ms.min(lasts_ms)).await;
    change.send_replace(true);
    until(lasts_ms).await;
    visitors.shutdown().await;
    let all = log.lock().unwrap().clone();
    let slots = all.iter().filter_map(|visit| visit.slot_ms).collect();
    let stayed = all.into_iter().enumerate().filter(|(number, _)| is_there(*number) == [true; 2]);
    (opened_ms, stayed.map(|(_, visit)| visit).collect(), slots)
}

/// Never above the rate; nearly all of it used in the ten seconds from `from_ms` after the opening
/// on; and whoever was there all the time passed by no more than a question's worth.
async fn holds(topic: &str, people: usize, there: There, from_ms: u64) {
    let (opened_ms, stayed, mut slots) = line(topic, people, there, from_ms + WINDOW_MS).await;
    slots.sort_unstable();
    is_within(&slots, RATE);

    let window = opened_ms + from_ms..opened_ms + from_ms + WINDOW_MS;
    let used = slots.iter().filter(|slot| window.contains(slot)).count() as u64;
    let whole = RATE * WINDOW_MS / 1_000;
    assert!(used * 100 >= whole * 98, "{there:?}: {used} of {whole}");

    let least = u64::try_from(there.first.min(there.then)).unwrap();
    for one in &stayed {
        let asks_ms = one.told_ms * (100 + LATE_PERCENT) / 100 + LATE_MS;
        let allowed = 1 + asks_ms * RATE * 10 / least / 1_000;
        let is_ahead = |slot_ms| one.slot_ms.is_none_or(|own| slot_ms < own);
        let passed = stayed
            .iter()
            .filter(|other| other.position > one.position && other.slot_ms.is_some_and(is_ahead))
            .count() as u64;
        assert!(passed <= allowed, "{there:?}: {one:?} was passed by {passed} of {allowed}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn wr_04_the_rate_is_used_and_nobody_present_is_passed_whatever_part_of_the_line_is_away() {
    let mut lines = JoinSet::new();
    for there in [10, 7, 4, 1] {
        // As many are there as come in, and some.
        let people = usize::try_from(RATE).unwrap() * 24 * 10 / there;
        let there = There { first: there, then: there, changes_ms: u64::MAX };
        lines.spawn(async move {
            holds(&format!("away{}", 10 - there.first), people, there, SETTLES_MS).await;
        });
    }
    lines.join_all().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn wr_05_the_rate_is_used_again_soon_after_nine_of_ten_go_or_come() {
    let mut lines = JoinSet::new();
    for (topic, first, then) in [("go", 10, 1), ("come", 1, 10)] {
        lines.spawn(async move {
            let there = There { first, then, changes_ms: SETTLES_MS };
            holds(topic, 6_000, there, SETTLES_MS + RECOVERS_MS).await;
        });
    }
    lines.join_all().await;
}
