//! Stock and calling: people are called for what is left, by way of the real steps and orders.

use std::sync::Arc;
use std::time::{Duration, Instant};

use stanchion::domain::control::ControlChange;
use stanchion::domain::id::{BuyerId, OrderKey, Sku};
use stanchion::domain::quantity::Quantity;
use stanchion::domain::queue::PlaceState;
use stanchion::domain::reservation::{Cart, Line, OrderRef, Reservation};
use stanchion::domain::ticket::Ticket;
use stanchion::reservations::{Order, Reservations, Reserved};
use stanchion::room::{Claimed, Room};
use stanchion::store::postgres::Which;
use stanchion::store::redis::room::RoomStore;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::room_ground::{RoomGround, admitted_at, join_all, until, until_open};

/// A hold, or why there is none.
type Got = Result<Reservation, String>;

const PATIENCE: Duration = Duration::from_secs(30);

/// An order of some units by whoever has this ticket.
pub(crate) fn order(ground: &RoomGround, ticket: &Ticket, qty: i64) -> Order {
    let buyer = BuyerId::parse(&ticket.sub).unwrap();
    let order_key = OrderKey::parse("first").unwrap();
    let line = Line { sku: Sku::parse("SKU-1").unwrap(), qty: Quantity::new(qty).unwrap() };
    Order {
        order: OrderRef { sale: ground.sale.clone(), buyer, order_key },
        cart: Cart::new(vec![line]).unwrap(),
        settling: false,
    }
}

/// The hold of such an order, which must be granted.
async fn held(
    ground: &RoomGround,
    orders: &Arc<Reservations>,
    ticket: &Ticket,
    qty: i64,
) -> Reservation {
    match orders.reserve(order(ground, ticket, qty)).await.unwrap() {
        Reserved::New(reservation) | Reserved::Replay(reservation) => reservation,
    }
}

/// Everybody asks twice a second, and claims and orders one unit as soon as called; positions and
/// holds in the order of the orders.
fn all_shop(
    ground: &RoomGround,
    room: &Arc<Room>,
    orders: &Arc<Reservations>,
    tickets: &[Ticket],
) -> mpsc::UnboundedReceiver<(u64, Got)> {
    let (tell, told) = mpsc::unbounded_channel();
    for ticket in tickets {
        let (room, orders, tell) = (room.clone(), orders.clone(), tell.clone());
        let (order, ticket) = (order(ground, ticket, 1), ticket.clone());
        tokio::spawn(async move {
            let position = loop {
                let place = room.status(Some(&ticket), None).place;
                if place.state == PlaceState::Called {
                    break place.position.unwrap();
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            };
            admitted_at(&room, &ticket).await;
            let got = match orders.reserve(order).await {
                Ok(Reserved::New(reservation) | Reserved::Replay(reservation)) => Ok(reservation),
                Err(refusal) => Err(refusal.detail),
            };
            drop(tell.send((position, got)));
        });
    }
    told
}

/// The holds of the next who order, by position.
async fn next_holds(
    told: &mut mpsc::UnboundedReceiver<(u64, Got)>,
    count: usize,
) -> Vec<(u64, Reservation)> {
    let mut holds = Vec::new();
    while holds.len() < count {
        let (position, got) =
            tokio::time::timeout(PATIENCE, told.recv()).await.expect("an order").unwrap();
        let hold = got.unwrap_or_else(|why| panic!("position {position} was called for: {why}"));
        holds.push((position, hold));
    }
    holds.sort_by_key(|(position, _)| *position);
    holds
}

fn positions(holds: &[(u64, Reservation)]) -> Vec<u64> {
    holds.iter().map(|(position, _)| *position).collect()
}

/// The line stands: nobody is called for longer than the figures take.
async fn stands(room: &Room, cursor: u64) {
    let since = Instant::now();
    while since.elapsed() < Duration::from_millis(1_500) {
        assert_eq!(room.snapshot().cursor, cursor, "nobody is called for what others have");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn wr_65_wr_66_the_line_waits_when_all_is_held_goes_on_with_what_lapses_and_ends_when_gone() {
    let ground = RoomGround::stocked("stockaware", 900, 200.0, 30).await;
    ground.keep().await;
    let (room, other) = (ground.room().await, ground.room().await);
    let orders = ground.orders().await;
    let places = join_all(&room, "a", 80).await;
    let tickets: Vec<_> = places.into_iter().map(|place| place.ticket).collect();
    until_open(&room).await;

    let mut told = all_shop(&ground, &room, &orders, &tickets);

    let holds = next_holds(&mut told, 30).await;
    assert_eq!(positions(&holds), (0..30).collect::<Vec<_>>(), "the first thirty, and nobody else");
    stands(&room, 30).await;
    let waiting = tickets.iter().map(|ticket| other.status(Some(ticket), None));
    let waiting: Vec<_> = waiting.filter(|told| told.place.state == PlaceState::Waiting).collect();
    assert_eq!(waiting.len(), 50);
    for told in &waiting {
        assert!(told.sold_out && !told.paused && told.stock.unwrap().held == 30, "{told:?}");
        assert_eq!(told.eta_seconds, None, "nobody knows when held units come back");
    }

    // Twelve lapse: the next twelve in order are called.
    let client = ground.ledger.database().client().await.unwrap();
    for (_, hold) in &holds[..12] {
        let lapse = "UPDATE reservation SET expires_at = now() - interval '1 s' WHERE id = $1";
        assert_eq!(client.execute(lapse, &[&hold.id]).await.unwrap(), 1);
    }
    drop(client);
    assert_eq!(orders.sweep().await.unwrap().units, 12);
    let next = next_holds(&mut told, 12).await;
    assert_eq!(positions(&next), (30..42).collect::<Vec<_>>());
    stands(&room, 42).await;

    for (_, hold) in holds[12..].iter().chain(&next) {
        orders.confirm(&Which::Id(hold.id), &format!("paid-{}", hold.id)).await.unwrap();
    }
    let since = Instant::now();
    for node in [&room, &other] {
        until("it is gone", || {
            let told = node.status(Some(&tickets[0]), None);
            told.sold_out && told.stock.is_some_and(|stock| stock.held == 0)
        })
        .await;
    }
    assert!(since.elapsed() < Duration::from_secs(2), "{:?}", since.elapsed());
    stands(&room, 42).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_stock_awareness_people_are_called_whatever_is_left() {
    let mut ground = RoomGround::stocked("regardless", 0, 500.0, 2).await;
    ground.stock_aware = false;
    ground.keep().await;
    let room = ground.room().await;
    let orders = ground.orders().await;
    until_open(&room).await;
    let places = join_all(&room, "late", 12).await;
    for place in &places[..2] {
        admitted_at(&room, &place.ticket).await;
        held(&ground, &orders, &place.ticket, 1).await;
    }

    for place in &places[2..] {
        admitted_at(&room, &place.ticket).await;
        assert!(orders.reserve(order(&ground, &place.ticket, 1)).await.is_err());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_came_in_and_was_refused_or_takes_several_is_learned_from() {
    let ground = RoomGround::stocked("learned", 0, 200.0, 8).await;
    ground.keep().await;
    let room = ground.room().await;
    let orders = ground.orders().await;
    until_open(&room).await;
    let places = join_all(&room, "late", 20).await;
    // Eight are called for eight units; one takes four, another wants more than there is.
    until("eight are called", || room.snapshot().cursor >= 8).await;
    for place in &places[..8] {
        admitted_at(&room, &place.ticket).await;
    }
    assert_eq!(room.snapshot().line_counts().called, 8);

    held(&ground, &orders, &places[0].ticket, 4).await;
    assert!(orders.reserve(order(&ground, &places[1].ticket, 9)).await.is_err());

    let store = ground.store();
    let seen = decided(&store, 2).await;
    assert_eq!((seen.decisions.took, seen.decisions.units), (1, 4));
    assert_eq!((seen.open.all, seen.open.undecided), (8, 6));
    stands(&room, 8).await;
}

/// The room once that many admissions were decided.
async fn decided(store: &RoomStore, count: u64) -> stanchion::store::redis::room::RoomState {
    let since = Instant::now();
    loop {
        if let Ok((_, Some(state))) = store.look().await
            && state.decisions.count >= count
        {
            return state;
        }
        assert!(since.elapsed() < PATIENCE, "never: {count} are decided");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payment_frees_the_place_that_max_active_counts_and_a_hold_does_not() {
    let mut ground = RoomGround::new("freed", 0, 1_000.0).await;
    ground.file.max_active = 1;
    ground.keep().await;
    let room = ground.room().await;
    let orders = ground.orders().await;
    until_open(&room).await;
    let places = join_all(&room, "late", 3).await;
    admitted_at(&room, &places[0].ticket).await;
    let hold = held(&ground, &orders, &places[0].ticket, 1).await;
    decided(&ground.store(), 1).await;
    let second = room.claim(&places[1].ticket).await;
    assert!(!matches!(second, Ok(Claimed::Admitted { .. })), "{second:?}");

    orders.confirm(&Which::Id(hold.id), "paid").await.unwrap();

    // The admission itself would last for ten minutes.
    admitted_at(&room, &places[1].ticket).await;
    orders.confirm(&Which::Id(hold.id), "paid").await.unwrap();
    until("one is in", || room.snapshot().line_counts().open_admissions == 1).await;
    let third = room.claim(&places[2].ticket).await;
    assert!(!matches!(third, Ok(Claimed::Admitted { .. })), "a notice sent twice frees one place");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_does_not_wait_for_a_room_that_does_not_hear_and_it_is_told_later() {
    let ground = RoomGround::new("unheard", 0, 1_000.0).await;
    ground.keep().await;
    let room = ground.room().await;
    let orders = ground.deaf_orders().await;
    until_open(&room).await;
    let places = join_all(&room, "late", 3).await;
    for place in &places {
        admitted_at(&room, &place.ticket).await;
    }
    let nowhere = stanchion::store::redis::connect("redis://127.0.0.1:1").unwrap();
    let deaf = vec![(ground.sale.clone(), RoomStore::new(nowhere, &ground.sale))];
    let stop = CancellationToken::new();
    let telling = tokio::spawn(orders.clone().keep_telling(deaf, stop.clone()));

    let since = Instant::now();
    let holds = [
        held(&ground, &orders, &places[0].ticket, 1).await,
        held(&ground, &orders, &places[1].ticket, 2).await,
    ];
    orders.confirm(&Which::Id(holds[1].id), "paid").await.unwrap();
    assert!(since.elapsed() < Duration::from_secs(5), "{:?}", since.elapsed());
    stop.cancel();
    telling.await.unwrap();
    assert_eq!(ground.store().look().await.unwrap().1.unwrap().open.undecided, 3);

    let rooms = vec![(ground.sale.clone(), ground.store())];
    tokio::spawn(orders.clone().keep_telling(rooms, CancellationToken::new()));
    held(&ground, &orders, &places[2].ticket, 1).await;
    let seen = decided(&ground.store(), 3).await;
    assert_eq!((seen.decisions.took, seen.decisions.units), (3, 4));
    assert_eq!((seen.open.all, seen.open.undecided), (2, 0), "one has paid");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_core_that_died_has_not_told_is_told_by_the_next() {
    let ground = RoomGround::new("untold", 0, 1_000.0).await;
    ground.keep().await;
    let room = ground.room().await;
    let dead = ground.deaf_orders().await;
    until_open(&room).await;
    let place = join_all(&room, "late", 1).await.remove(0);
    admitted_at(&room, &place.ticket).await;
    held(&ground, &dead, &place.ticket, 1).await;
    drop(dead);
    assert_eq!(ground.store().look().await.unwrap().1.unwrap().open.undecided, 1);

    let _next = ground.orders().await;

    let seen = decided(&ground.store(), 1).await;
    assert_eq!((seen.open.all, seen.open.undecided), (1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn wr_01_those_who_went_away_hold_nobody_up_once_the_first_have_paid() {
    let mut ground = RoomGround::new("gone", 700, 100.0).await;
    ground.file.max_active = 10;
    ground.keep().await;
    let room = ground.room().await;
    let orders = ground.orders().await;
    let places = join_all(&room, "a", 30).await;
    until_open(&room).await;
    let draw = room.snapshot().draw.clone().unwrap();
    let mut tickets: Vec<_> = places.into_iter().map(|place| place.ticket).collect();
    tickets.sort_by_key(|ticket| ticket.cohort.position(&draw));
    let mut holds = Vec::new();
    for ticket in &tickets[..10] {
        admitted_at(&room, ticket).await;
        holds.push(held(&ground, &orders, ticket, 1).await);
    }
    let early = room.claim(&tickets[20]).await;
    assert!(!matches!(early, Ok(Claimed::Admitted { .. })), "{early:?}");

    for hold in &holds {
        orders.confirm(&Which::Id(hold.id), &format!("paid-{}", hold.id)).await.unwrap();
    }

    // Ten never come back; the ten behind them are in at once, and no more than ten at a time.
    let last = tickets[20..].iter().map(|ticket| admitted_at(&room, ticket));
    futures_util::future::join_all(last).await;
    until("all are counted", || room.snapshot().line_counts().admitted == 20).await;
    assert_eq!(room.snapshot().line_counts().open_admissions, 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_booked_before_a_pause_stay_counted_while_they_stand() {
    let ground = RoomGround::new("bookedpause", 500, 1.0).await;
    ground.keep().await;
    let room = ground.room().await;
    let places = join_all(&room, "a", 4).await;
    until_open(&room).await;
    let store = ground.store();
    let booked = async || store.look().await.unwrap().1.unwrap().open.booked;
    let since = Instant::now();
    let before = loop {
        for place in &places {
            drop(room.claim(&place.ticket).await);
        }
        match booked().await {
            0 => assert!(since.elapsed() < PATIENCE, "nobody booked a number"),
            some => break some,
        }
    };
    let paused = |paused| ControlChange { paused: Some(paused), ..ControlChange::default() };
    store.publish("test", &paused(true)).await.unwrap();
    let left = booked().await;
    assert!(left <= before && left > 0, "{left} of {before}");
    // Longer than a number would have been kept without the pause.
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert_eq!(booked().await, left);

    store.publish("test", &paused(false)).await.unwrap();
    for place in &places {
        admitted_at(&room, &place.ticket).await;
    }
    assert_eq!(booked().await, 0);
}
