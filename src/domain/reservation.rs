//! Reservations: what is asked for, what became of it, and what a retry is compared with.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::id::{BuyerId, OrderKey, SaleId, Sku};
use super::quantity::{Quantity, QuantityError};

/// The most lines in one cart.
pub const LINES_MAX: usize = 50;

/// The life of a reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Units are set aside until `expires_at`.
    Held,
    /// Paid.
    Confirmed,
    /// The hold lapsed and a sweep took the units back.
    Expired,
    /// Given back early, or a release that came before its order.
    Released,
    /// Refunded after it was confirmed.
    Cancelled,
}

impl Status {
    /// Its word in tables and APIs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Confirmed => "confirmed",
            Self::Expired => "expired",
            Self::Released => "released",
            Self::Cancelled => "cancelled",
        }
    }

    /// The status of that word.
    pub fn named(word: &str) -> Option<Self> {
        [Self::Held, Self::Confirmed, Self::Expired, Self::Released, Self::Cancelled]
            .into_iter()
            .find(|status| status.as_str() == word)
    }
}

/// Units of one SKU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Line {
    /// Which SKU.
    pub sku: Sku,
    /// How many units.
    pub qty: Quantity,
}

/// Why lines are no cart.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CartError {
    /// Nothing asked for.
    #[error("lines: must name at least one sku and qty")]
    Empty,
    /// More than [`LINES_MAX`].
    #[error("lines: must be at most 50")]
    TooMany,
    /// Equal SKUs together ask for too much.
    #[error("lines: the quantities of sku {0} together {1}")]
    Sum(Sku, QuantityError),
}

/// What one order asks for: equal SKUs summed, in SKU order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cart(Vec<Line>);

impl Cart {
    /// Sums equal SKUs and sorts; `lines` as the client sent them.
    pub fn new(lines: Vec<Line>) -> Result<Self, CartError> {
        if lines.is_empty() {
            return Err(CartError::Empty);
        }
        if lines.len() > LINES_MAX {
            return Err(CartError::TooMany);
        }
        let mut sums: BTreeMap<Sku, Quantity> = BTreeMap::new();
        for Line { sku, qty } in lines {
            let sum = match sums.get(&sku) {
                None => qty,
                Some(sum) => sum.checked_add(qty).map_err(|e| CartError::Sum(sku.clone(), e))?,
            };
            sums.insert(sku, sum);
        }
        Ok(Self(sums.into_iter().map(|(sku, qty)| Line { sku, qty }).collect()))
    }

    /// The lines, one a SKU, in SKU order.
    pub fn lines(&self) -> &[Line] {
        &self.0
    }

    /// What a retry under the same order key must match; the order of lines does not matter.
    pub fn body_hash(&self) -> [u8; 32] {
        let mut hash = Sha256::new();
        for line in &self.0 {
            hash.update(u64::try_from(line.sku.as_str().len()).unwrap_or(u64::MAX).to_le_bytes());
            hash.update(line.sku.as_str());
            hash.update(line.qty.get().to_le_bytes());
        }
        hash.finalize().into()
    }
}

/// Whose order it is: the scope in which a key costs stock once.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OrderRef {
    /// The sale.
    pub sale: SaleId,
    /// The buyer.
    pub buyer: BuyerId,
    /// The client's key.
    pub order_key: OrderKey,
}

impl OrderRef {
    /// The gate's marker field: 32 hex digits over sale, buyer and order key.
    pub fn marker(&self) -> String {
        let mut hash = Sha256::new();
        for part in [self.sale.as_str(), self.buyer.as_str(), self.order_key.as_str()] {
            hash.update(part);
            // No part may contain a control character, so the boundary is unambiguous.
            hash.update([0]);
        }
        hex::encode(&hash.finalize()[..16])
    }
}

/// A reservation as APIs show it; times are RFC 3339.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reservation {
    /// Its id.
    pub id: Uuid,
    /// The sale.
    pub sale: SaleId,
    /// The buyer.
    pub buyer: BuyerId,
    /// The client's key.
    pub order_key: OrderKey,
    /// Where it stands.
    pub status: Status,
    /// What it holds.
    pub lines: Vec<Line>,
    /// When the hold lapses.
    pub expires_at: jiff::Timestamp,
    /// When it was made.
    pub created_at: jiff::Timestamp,
    /// The payment that confirmed it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub payment_ref: Option<String>,
    /// Held until the shop's answer is known: no sweep takes it, and a payment counts whenever it
    /// comes.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub settling: bool,
}

impl Reservation {
    /// Held, but past its end by that clock (Unix milliseconds): the next sweep takes it.
    pub fn has_lapsed(&self, now_ms: u64) -> bool {
        let now_ms = i64::try_from(now_ms).unwrap_or(i64::MAX);
        self.status == Status::Held && !self.settling && self.expires_at.as_millisecond() <= now_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(sku: &str, qty: i64) -> Line {
        Line { sku: Sku::parse(sku).unwrap(), qty: Quantity::new(qty).unwrap() }
    }

    #[test]
    fn rs_02_equal_skus_are_summed_before_anything_else() {
        let cart = Cart::new(vec![line("S", 2), line("A", 1), line("S", 2)]).unwrap();
        assert_eq!(cart.lines(), [line("A", 1), line("S", 4)]);
        let huge = Cart::new(vec![line("S", 1_000_000), line("S", 1)]);
        assert!(matches!(huge, Err(CartError::Sum(..))));
    }

    #[test]
    fn rs_18_reordered_lines_are_the_same_order_and_another_quantity_is_not() {
        let hash = |lines| Cart::new(lines).unwrap().body_hash();
        assert_eq!(hash(vec![line("A", 1), line("B", 2)]), hash(vec![line("B", 2), line("A", 1)]));
        assert_ne!(hash(vec![line("A", 1)]), hash(vec![line("A", 2)]));
        assert_ne!(hash(vec![line("A", 1)]), hash(vec![line("B", 1)]));
    }

    #[test]
    fn a_marker_is_of_one_sale_buyer_and_key() {
        let marker = |sale: &str, buyer: &str, key: &str| {
            OrderRef {
                sale: SaleId::parse(sale).unwrap(),
                buyer: BuyerId::parse(buyer).unwrap(),
                order_key: OrderKey::parse(key).unwrap(),
            }
            .marker()
        };
        assert_eq!(marker("s", "ab", "c"), marker("s", "ab", "c"));
        assert_ne!(marker("s", "ab", "c"), marker("s", "a", "bc"));
        assert_ne!(marker("s", "ab", "c"), marker("t", "ab", "c"));
    }
}
