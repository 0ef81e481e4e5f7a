//! The receipt of an entry: what its owner needs to check the draw later, as text to keep.

use super::words::{ENGLISH, grouped};

/// What makes an entry of the draw one that its owner can check afterwards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    /// The sale's id.
    pub sale: String,
    /// Which drawing of the sale.
    pub run: u64,
    /// Counted from 0.
    pub entry: u64,
    /// In hex.
    pub commitment: String,
    /// The beacon round that the draw is mixed with; 0 = none.
    pub round: u64,
    /// Where the visitor sees this site: scheme, host and port.
    pub origin: String,
}

impl Receipt {
    /// As text. The page that checks asks for the number as it is written here, counted from 1.
    pub fn text(&self) -> String {
        let t = &ENGLISH;
        let sale = format!("{}, {}", self.sale, t.receipt_run.replace("{}", &grouped(self.run)));
        let number = self.entry.saturating_add(1).to_string();
        let round = t.receipt_round_of.replace("{}", &self.round.to_string());
        let check = format!("{}/_stanchion/{}/draw/check", self.origin, self.sale);
        let lines = [
            (t.receipt_sale, &sale, true),
            (t.receipt_number, &number, true),
            (t.receipt_commitment, &self.commitment, true),
            (t.receipt_round, &round, self.round > 0),
            (t.receipt_check, &check, true),
        ];
        let there = lines.into_iter().filter(|(.., is_there)| *is_there);
        let lines: Vec<_> = there.map(|(name, value, _)| format!("{name}: {value}")).collect();
        let lines = lines.join("\n");
        format!("{}\n\n{lines}\n\n{}\n{}\n", t.receipt_title, t.receipt_chance, t.receipt_text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wr_18_a_receipt_has_all_that_the_check_asks_for_and_says_that_early_does_not_count() {
        let receipt = Receipt {
            sale: "spring-drop".into(),
            run: 3,
            entry: 1_017,
            commitment: "c0".repeat(32),
            round: 0,
            origin: "https://shop.example".into(),
        };
        let text = receipt.text();
        for line in [
            "Sale: spring-drop, run 3\n".to_owned(),
            "Your number: 1018\n".to_owned(),
            format!("Commitment: {}\n", "c0".repeat(32)),
            "Check it at: https://shop.example/_stanchion/spring-drop/draw/check\n".to_owned(),
            "Joining early does not count.".to_owned(),
        ] {
            assert!(text.contains(&line), "{line} {text}");
        }
        assert!(!text.contains("Beacon"), "{text}");
        let text = Receipt { round: 37_033_013, ..receipt }.text();
        assert!(text.contains("Beacon: round 37033013 of drand quicknet\n"), "{text}");
    }
}
