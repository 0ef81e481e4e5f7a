//! After the take: confirmed by a payment, extended, released, cancelled.

use std::sync::Arc;

use super::confirming::Unconfirmed;
use super::refuse::{overloaded, unavailable, unknown_order};
use super::state::Reservations;
use crate::config::settings::LatePayment;
use crate::domain::id::SaleId;
use crate::domain::refusal::{Problem, Refusal};
use crate::domain::reservation::Reservation;
use crate::store::postgres::{Cancelled, Confirmed, Extended, Released, Settled, Which};

impl Reservations {
    /// Confirms an order by its payment. Safe to repeat for days.
    pub async fn confirm(
        self: &Arc<Self>,
        which: &Which,
        payment_ref: &str,
    ) -> Result<Reservation, Refusal> {
        let (this, which, payment_ref) = (Arc::clone(self), which.clone(), payment_ref.to_owned());
        self.to_its_end(async move { this.confirm_fully(&which, &payment_ref).await }).await
    }

    async fn confirm_fully(
        &self,
        which: &Which,
        payment_ref: &str,
    ) -> Result<Reservation, Refusal> {
        let late = self.late_payment(which).await?;
        let done = self.confirms.confirm(which, payment_ref, late).await;
        let done = done.map_err(|error| match error {
            Unconfirmed::Full => overloaded(),
            Unconfirmed::Unknown(error) => unavailable(&error),
        })?;
        let (problem, detail) = match done {
            Confirmed::Replay => return self.replayed(which).await,
            Confirmed::Done => {
                let reservation = self.now(which).await?;
                self.tell_of_payment(&reservation);
                return Ok(reservation);
            }
            Confirmed::Retaken => {
                let reservation = self.now(which).await?;
                self.tell_of_payment(&reservation);
                // Those units went past the gate.
                self.stray_lines(&reservation);
                return Ok(reservation);
            }
            Confirmed::Unknown => {
                tracing::warn!(?which, "a payment came for an order that is not known (yet)");
                let noted = self.ledger.note_unmatched(which, payment_ref).await;
                noted.map_err(|e| unavailable(&e))?;
                return Err(unknown_order());
            }
            Confirmed::OtherPayment => (
                Problem::PaymentConflict,
                "this order was paid by another payment; refund this one",
            ),
            Confirmed::Expired => {
                (Problem::HoldExpired, "the hold had run out; refund this payment")
            }
            Confirmed::Released => {
                (Problem::Released, "the order was released; refund this payment")
            }
            Confirmed::Cancelled => {
                (Problem::Released, "the order was cancelled; its payment is to be refunded once")
            }
        };
        Err(Refusal::new(problem, detail).with("payment_ref", payment_ref))
    }

    /// Gives an order's units back early. By key: closes the key even if no order is known.
    pub async fn release(self: &Arc<Self>, which: &Which) -> Result<Reservation, Refusal> {
        let (this, which) = (Arc::clone(self), which.clone());
        self.to_its_end(async move { this.release_fully(&which).await }).await
    }

    async fn release_fully(&self, which: &Which) -> Result<Reservation, Refusal> {
        let done = self.ledger.release(which).await;
        let (released, pushes) = done.map_err(|e| unavailable(&e))?;
        self.tell_gate(&pushes).await;
        match released {
            Released::Done => self.now(which).await,
            Released::Replay => self.replayed(which).await,
            Released::Unknown => Err(unknown_order()),
            Released::Ordered => Err(Refusal::new(
                Problem::AlreadyOrdered,
                "the order is confirmed; cancel it if the payment was refunded",
            )),
        }
    }

    /// Moves a hold's end while the payment is pending.
    pub async fn extend(&self, which: &Which) -> Result<Reservation, Refusal> {
        let reservation = self.now(which).await?;
        let most = self.terms.get(&reservation.sale).map_or(0, |terms| terms.hold_extension_ms);
        let done = self.ledger.extend(reservation.id, most).await;
        match done.map_err(|e| unavailable(&e))? {
            Extended::Done | Extended::Confirmed => self.now(which).await,
            Extended::Unknown => Err(unknown_order()),
            Extended::Expired => Err(Refusal::new(
                Problem::HoldExpired,
                "the hold has run out; order with a new key",
            )),
            Extended::Released => {
                Err(Refusal::new(Problem::Released, "the order was released or cancelled"))
            }
        }
    }

    /// The shop has answered: an order that waited for it is an ordinary hold from now on.
    pub async fn settle(&self, which: &Which) -> Result<Reservation, Refusal> {
        let reservation = self.now(which).await?;
        let done = self.ledger.settle(reservation.id).await;
        match done.map_err(|e| unavailable(&e))? {
            Settled::Done | Settled::Replay => self.now(which).await,
            Settled::Unknown => Err(unknown_order()),
            Settled::Expired => Err(Refusal::new(Problem::HoldExpired, "the hold has run out")),
            Settled::Released => {
                Err(Refusal::new(Problem::Released, "the order was released or cancelled"))
            }
        }
    }

    /// Undoes a confirmed order after its payment was refunded.
    pub async fn cancel(self: &Arc<Self>, which: &Which) -> Result<Reservation, Refusal> {
        let (this, which) = (Arc::clone(self), which.clone());
        self.to_its_end(async move { this.cancel_fully(&which).await }).await
    }

    async fn cancel_fully(&self, which: &Which) -> Result<Reservation, Refusal> {
        let reservation = self.now(which).await?;
        let done = self.ledger.cancel(reservation.id).await;
        let (cancelled, pushes) = done.map_err(|e| unavailable(&e))?;
        self.tell_gate(&pushes).await;
        let (problem, detail) = match cancelled {
            Cancelled::Done => return self.now(which).await,
            Cancelled::Replay => return self.replayed(which).await,
            Cancelled::Unknown => return Err(unknown_order()),
            Cancelled::NotPaid => {
                (Problem::InProgress, "the order is not paid yet; release it instead")
            }
            Cancelled::Expired => (Problem::HoldExpired, "the hold has run out; nothing to cancel"),
            Cancelled::Released => (Problem::Released, "the order was released before"),
        };
        Err(Refusal::new(problem, detail))
    }

    /// The reservation as it is now.
    async fn now(&self, which: &Which) -> Result<Reservation, Refusal> {
        let read = self.ledger.reservation(which).await;
        read.map_err(|e| unavailable(&e))?.ok_or_else(unknown_order)
    }

    /// The same after a statement that had been done before: if that was this very call, sent over
    /// a link that broke, the gate has not heard of it.
    async fn replayed(&self, which: &Which) -> Result<Reservation, Refusal> {
        let reservation = self.now(which).await?;
        self.stray_lines(&reservation);
        Ok(reservation)
    }

    async fn late_payment(&self, which: &Which) -> Result<LatePayment, Refusal> {
        let of_sale = |sale: &SaleId| {
            self.terms.get(sale).map_or(LatePayment::Refuse, |terms| terms.late_payment)
        };
        match which {
            Which::Key(order) => Ok(of_sale(&order.sale)),
            Which::Id(_) => {
                let mut policies = self.terms.values().map(|terms| terms.late_payment);
                let first = policies.next().unwrap_or_default();
                if policies.all(|policy| policy == first) {
                    return Ok(first);
                }
                let read = self.ledger.reservation(which).await.map_err(|e| unavailable(&e))?;
                // Of an order that is not known nothing is confirmed; the payment is written down.
                Ok(read.map_or(LatePayment::Refuse, |reservation| of_sale(&reservation.sale)))
            }
        }
    }
}
