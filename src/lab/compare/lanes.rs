//! Ours: the lanes of the reservation core as the core runs them, without HTTP and without the gate.

use anyhow::{Context, Result, bail};
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use super::ground::Ground;
use super::order::{Order, SALE, SKU};
use super::tally::{Lock, Outcome};
use crate::domain::id::{BuyerId, OrderKey, SaleId, Sku};
use crate::domain::quantity::Quantity;
use crate::domain::reservation::{Cart, Line, OrderRef};
use crate::reservations::lane::{LaneMetrics, Lanes, Patience};
use crate::store::postgres::{Take, Taken};

/// No sale of this comparison closes.
const CLOSES_MS: u64 = 4_102_444_800_000;

/// One client of the lanes that all share.
pub(super) struct Lane(Lanes);

impl Lane {
    /// That many clients of one core's lanes.
    pub(super) fn crowd(ground: &Ground, of: u16) -> Vec<Self> {
        let lanes = Lanes::new(ground.ledger.clone(), TaskTracker::new(), LaneMetrics::default());
        (0..of).map(|_| Self(lanes.clone())).collect()
    }

    pub(super) async fn take(&self, order: &Order) -> Result<Outcome> {
        let patience = Patience::default();
        match self.0.take(0, 1, take(order)?, &patience).await? {
            // Nobody else has the key: a replay is of a call whose answer was cut off.
            Taken::Held(reservation) | Taken::Replay { reservation, .. } => {
                Ok(Outcome::Granted(Lock::Batch(reservation.created_at.as_microsecond())))
            }
            Taken::No { .. } => Ok(Outcome::SoldOut),
            other => bail!("a lane answered {other:?}"),
        }
    }
}

/// The order as the core has it.
pub(super) fn take(order: &Order) -> Result<Take> {
    let qty = Quantity::new(order.qty.into())?;
    let cart = Cart::new(vec![Line { sku: Sku::parse(SKU)?, qty }]).context("a cart")?;
    let order = OrderRef {
        sale: SaleId::parse(SALE)?,
        buyer: BuyerId::parse(&order.buyer)?,
        order_key: OrderKey::parse(&order.key)?,
    };
    Ok(Take { id: Uuid::now_v7(), order, cart, closes_ms: CLOSES_MS, settling: false })
}
