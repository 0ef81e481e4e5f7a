//! Orders that the ledger took while no gate answered. The gate is told of their keys once it is
//! back, or a retry would hear "sold out" instead of its reservation.

use std::sync::{Mutex, PoisonError};

use uuid::Uuid;

use super::reserve::Order;
use super::state::Reservations;
use crate::store::redis::RedisFailure;

/// Orders remembered through one outage.
const UNMARKED_MAX: usize = 100_000;

/// What the gate has to be told.
#[derive(Default)]
pub(super) struct Unmarked(Mutex<Vec<(Order, Uuid)>>);

impl Unmarked {
    pub(super) fn note(&self, more: impl IntoIterator<Item = (Order, Uuid)>) {
        let mut orders = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let room = UNMARKED_MAX.saturating_sub(orders.len());
        orders.extend(more.into_iter().take(room));
    }

    fn take(&self) -> Vec<(Order, Uuid)> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Reservations {
    /// Tells the gate; what it does not hear is kept for the next time.
    pub(super) async fn mark_unmarked(&self) {
        let mut left = self.unmarked.take().into_iter();
        while let Some((order, id)) = left.next() {
            if self.mark(&order, id).await.is_err() {
                self.unmarked.note(std::iter::once((order, id)).chain(left));
                return;
            }
        }
    }

    async fn mark(&self, order: &Order, id: Uuid) -> Result<(), RedisFailure> {
        let sale = &order.order.sale;
        let marks = [(order.order.marker(), id)];
        for line in order.cart.lines() {
            self.gate.mark(sale, &line.sku, self.closes_ms(sale), &marks).await?;
        }
        Ok(())
    }
}
