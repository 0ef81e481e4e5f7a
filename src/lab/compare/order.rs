//! What is ordered: one unit of the one hot SKU, by somebody who never ordered before.

/// The hot SKU.
pub(super) const SKU: &str = "SKU-FLASH-01";
/// The sale that it belongs to in our own tables.
pub(super) const SALE: &str = "compare";

/// One order.
pub(super) struct Order {
    /// Names it for ever.
    pub(super) key: String,
    /// Whose it is.
    pub(super) buyer: String,
    /// How many units.
    pub(super) qty: i32,
}

impl Order {
    /// Somebody's first, for one unit.
    pub(super) fn new() -> Self {
        let (key, buyer) = (rand::random::<u128>(), rand::random::<u64>());
        Self { key: format!("{key:032x}"), buyer: format!("{buyer:016x}"), qty: 1 }
    }
}
