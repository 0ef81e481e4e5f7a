//! Every "no" of the core, with its numbers and its cure.

use serde_json::{Value, json};

use super::lane::LaneError;
use super::shelf::Shelf;
use super::state::Reservations;
use crate::domain::id::Sku;
use crate::domain::refusal::{Problem, Refusal};
use crate::domain::reservation::{OrderRef, Reservation, Status};
use crate::store::postgres::{DatabaseError, NoUnits};

/// When trying again makes sense after something that passes soon, in milliseconds.
const SOON_MS: u64 = 1_000;
/// How often somebody who was told "sold out" may ask whether a hold has lapsed.
const HELD_AGAIN_MS: u64 = 2_000;

/// The ledger did not answer: whether something was done is unknown, and the same key will tell.
pub(super) fn unavailable(error: &DatabaseError) -> Refusal {
    tracing::error!(%error, "the ledger did not decide");
    unknown_end()
}

/// Nobody knows yet: the same key will tell.
pub(super) fn unknown_end() -> Refusal {
    Refusal::new(
        Problem::CoreUnavailable,
        "the ledger is not answering; try again with the same order key",
    )
    .retry_after_ms(SOON_MS)
}

/// A lane has no answer from the ledger.
pub(super) fn no_answer(error: &LaneError) -> Refusal {
    match error {
        LaneError::Full | LaneError::Unsent => overloaded(),
        LaneError::Undone(error) | LaneError::Unknown(error) => unavailable(error),
    }
}

/// As many are being served as can be.
pub(super) fn overloaded() -> Refusal {
    Refusal::new(
        Problem::Overloaded,
        "too many orders at once; nothing was taken, try again with the same order key",
    )
    .retry_after_ms(SOON_MS)
}

/// No such order, or none yet.
pub(super) fn unknown_order() -> Refusal {
    Refusal::new(Problem::UnknownOrder, "no such order; if it is on its way, try again")
        .retry_after_ms(SOON_MS)
}

/// The key was used for another body.
pub(super) fn key_reused(order: &OrderRef) -> Refusal {
    let detail = "this order key was used for another order; use a new key for a new order";
    Refusal::new(Problem::KeyReused, detail).with("order_key", order.order_key.as_str())
}

/// What the reservation of a known key says to a retry: itself, or why it is over.
pub(super) fn over(reservation: &Reservation, lapsed: bool) -> Option<Refusal> {
    let (problem, detail) = match reservation.status {
        Status::Held if lapsed => (Problem::HoldExpired, "the hold has run out; order anew"),
        Status::Held | Status::Confirmed => return None,
        Status::Expired => (Problem::HoldExpired, "the hold has run out; order with a new key"),
        Status::Released => (Problem::Released, "the order was released; order with a new key"),
        Status::Cancelled => (Problem::Released, "the order was cancelled"),
    };
    Some(Refusal::new(problem, detail).with("reservation", json!(reservation)))
}

impl Reservations {
    /// Why no units were given. Runs no SQL for a buyer without a live hold.
    pub(super) async fn no_units(
        &self,
        order: &OrderRef,
        why: NoUnits,
        sku: &Sku,
        remaining: u64,
    ) -> Refusal {
        let goods = self.shelves.of(&order.sale);
        let refusal = match why {
            NoUnits::UnknownSku => Refusal::new(
                Problem::UnknownSku,
                format!("sku {sku} is not sold in sale {}", order.sale),
            ),
            NoUnits::Frozen => {
                Refusal::new(Problem::Frozen, format!("sku {sku} is not for sale just now"))
            }
            NoUnits::Closed => Refusal::new(Problem::Closed, "the sale is over"),
            NoUnits::OverCap => Refusal::new(
                Problem::OverCap,
                format!("with this order you would have more of {sku} than one buyer may"),
            ),
            // A big order that came when others had taken the rest.
            NoUnits::Insufficient if remaining == 0 => self.sold_out(&goods, sku),
            NoUnits::Insufficient => Refusal::new(
                Problem::Insufficient,
                format!("{remaining} of {sku} are left; ask for no more than that"),
            )
            .with("available", remaining),
            NoUnits::SoldOut => self.sold_out(&goods, sku),
        };
        let refusal = refusal.with("sku", sku.as_str());
        let stands_in_his_own_way = match why {
            NoUnits::OverCap => true,
            NoUnits::SoldOut | NoUnits::Insufficient => goods.holders.contains(&order.buyer),
            NoUnits::UnknownSku | NoUnits::Frozen | NoUnits::Closed => false,
        };
        if !stands_in_his_own_way {
            return refusal;
        }
        match self.ledger.live_holds(&order.sale, &order.buyer).await {
            Ok(own) => refusal.with("own", own.iter().map(|held| json!(held)).collect::<Value>()),
            Err(error) => {
                tracing::warn!(%error, "a buyer's own holds could not be read");
                refusal
            }
        }
    }

    /// Sold out: what is only held may come back, and when at the earliest.
    fn sold_out(&self, goods: &Shelf, sku: &Sku) -> Refusal {
        let stock = goods.stock.get(sku);
        let held = stock.map_or(0, |stock| stock.loaded.saturating_sub(stock.confirmed));
        let detail = match held {
            0 => format!("{sku} is sold out"),
            held => format!("all of {sku} is taken; {held} units are only held and may come back"),
        };
        let now = self.clock.now_ms();
        let release = stock
            .and_then(|stock| stock.earliest_release_ms)
            .filter(|_| held > 0)
            .map(|at_ms| at_ms.max(now));
        let at = release
            .and_then(|ms| jiff::Timestamp::from_millisecond(i64::try_from(ms).ok()?).ok())
            .map_or(Value::Null, |at| json!(at));
        let refusal =
            Refusal::new(Problem::SoldOut, detail).with("held", held).with("earliest_release", at);
        match release {
            // Others may release earlier, so that nobody is told to stay away for long.
            Some(at) => refusal.retry_after_ms((at - now).clamp(SOON_MS, HELD_AGAIN_MS)),
            None if held > 0 => refusal.retry_after_ms(HELD_AGAIN_MS),
            None => refusal,
        }
    }
}
