//! Key names. All keys of a sale share the hash tag `{SALE}`, so that one sale lives in one slot
//! and every step is one script.

use crate::domain::id::{SaleId, Sku};

/// The keys of one sale.
#[derive(Debug, Clone)]
pub struct SaleKeys {
    prefix: String,
}

impl SaleKeys {
    /// `stanchion:{SALE}:…`.
    pub fn new(sale: &SaleId) -> Self {
        Self { prefix: format!("stanchion:{{{sale}}}:") }
    }

    fn named(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// Hash: the control record.
    pub fn control(&self) -> String {
        self.named("control")
    }

    /// List: changes of the control record, until a core has written them down.
    pub fn trail(&self) -> String {
        self.named("trail")
    }

    /// Hash: counters, cursor, opening, sale time.
    pub fn room(&self) -> String {
        self.named("room")
    }

    /// Hash: join key's hash → number.
    pub fn joins(&self) -> String {
        self.named("joins")
    }

    /// Hash: account → number.
    pub fn accounts(&self) -> String {
        self.named("accounts")
    }

    /// Stream: numbers of accounts that a core has yet to write down.
    pub fn journal(&self) -> String {
        self.named("journal")
    }

    /// List: whoever reached a ceiling wakes a core that waits on it.
    pub fn wake(&self) -> String {
        self.named("wake")
    }

    /// Hash: what one core gathers while it restores.
    pub fn restoring(&self, whose: u64) -> String {
        self.named(&format!("restoring:{whose:016x}"))
    }

    /// Hash: address → anonymous places.
    pub fn addresses(&self) -> String {
        self.named("addresses")
    }

    /// Hash: the meter's next number, burst and anchors.
    pub fn meter(&self) -> String {
        self.named("meter")
    }

    /// Hash: position → the record of its claims.
    pub fn claims(&self) -> String {
        self.named("claims")
    }

    /// Sorted set: `run:number` of places given up, in the order of leaving.
    pub fn left(&self) -> String {
        self.named("left")
    }

    /// Hash, short-lived: how often a browser was sent on to a page.
    pub fn sent(&self, whose: &str) -> String {
        self.named(&format!("sent:{whose}"))
    }

    /// Sorted set: buyers with an open admission, by its end.
    pub fn active(&self) -> String {
        self.named("active")
    }

    /// Sorted set: buyers whose number is booked and not collected, by when it is given up.
    pub fn booked(&self) -> String {
        self.named("booked")
    }

    /// Sorted set: buyers with a signed admission who have neither taken a hold nor been refused for
    /// stock, by its end.
    pub fn undecided(&self) -> String {
        self.named("undecided")
    }

    /// List: units that each of the admissions decided last has taken, the newest first.
    pub fn decisions(&self) -> String {
        self.named("decisions")
    }

    /// Sorted set: positions in their second window, by the sale time at which it began.
    pub fn second(&self) -> String {
        self.named("second")
    }

    /// Sorted set: positions that have missed both windows, in the order of missing.
    pub fn missed(&self) -> String {
        self.named("missed")
    }

    /// Bitmap, short-lived: positions that were heard from in a few seconds.
    pub fn heard(&self, seconds: u64) -> String {
        self.named(&format!("heard:{seconds}"))
    }

    /// Sorted set: marks of the calls, their sale time, by the cursor reached.
    pub fn calls(&self) -> String {
        self.named("calls")
    }

    /// String: the figures as JSON.
    pub fn figures(&self) -> String {
        self.named("figures")
    }

    /// Hash: node → when it was last heard of, and its word about itself.
    pub fn nodes(&self) -> String {
        self.named("nodes")
    }

    /// String: the installation that was here first, by its place key.
    pub fn identity(&self) -> String {
        self.named("identity")
    }

    /// Hash: the gate of a SKU.
    pub fn stock(&self, sku: &Sku) -> String {
        self.named(&format!("stock:{sku}"))
    }

    /// Hash: order marker → quantity.
    pub fn takes(&self, sku: &Sku) -> String {
        self.named(&format!("takes:{sku}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sale_is_the_hash_tag_of_all_its_keys() {
        let keys = SaleKeys::new(&SaleId::parse("spring-drop").unwrap());
        assert_eq!(keys.control(), "stanchion:{spring-drop}:control");
        assert_eq!(keys.stock(&Sku::parse("A 1").unwrap()), "stanchion:{spring-drop}:stock:A 1");
    }
}
