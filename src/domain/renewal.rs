//! Renewal: an admission lasts as long as its visitor's hold, but not for ever.

use super::admission::Admission;

/// With less than this left, in milliseconds, it is time to look for a hold.
pub const DUE_WITHIN_MS: u64 = 60_000;
/// How long a renewed admission outlives the hold, in milliseconds: time to see the thank-you page.
pub const PAST_HOLD_MS: u64 = 60_000;

/// How long a sale lets admissions and holds last, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lasting {
    /// An admission from its slot.
    pub token_ttl_ms: u64,
    /// A hold from its making.
    pub hold_ms: u64,
    /// All extensions of a hold together.
    pub hold_extension_ms: u64,
}

impl Lasting {
    /// No renewal leads past this instant, however many holds follow each other: Unix milliseconds
    /// from the slot, or from a late collection; of a staff pass or a bypass, from the signing.
    pub fn cap_ms(&self, admission: &Admission) -> u64 {
        admission
            .since_ms()
            .max(admission.iat.saturating_mul(1000))
            .saturating_add(self.token_ttl_ms)
            .saturating_add(self.hold_ms)
            .saturating_add(self.hold_extension_ms)
            .saturating_add(PAST_HOLD_MS)
    }

    /// Whether a hold could still make it last longer.
    pub fn can_last(&self, admission: &Admission, now_ms: u64) -> bool {
        let cap_ms = self.cap_ms(admission);
        now_ms < cap_ms && admission.exp < cap_ms / 1000
    }

    /// Whether to look for a hold: little is left, or nothing, and a hold could help.
    pub fn is_due(&self, admission: &Admission, now_ms: u64) -> bool {
        let ends_ms = admission.exp.saturating_mul(1000);
        ends_ms < now_ms.saturating_add(DUE_WITHIN_MS) && self.can_last(admission, now_ms)
    }

    /// The same admission, the same `jti`, ending with a hold; nothing if that is no gain.
    pub fn renewed(
        &self,
        admission: &Admission,
        hold_ends_ms: u64,
        now_ms: u64,
    ) -> Option<Admission> {
        let ends_ms = hold_ends_ms.saturating_add(PAST_HOLD_MS).min(self.cap_ms(admission));
        let exp = ends_ms / 1000;
        let is_gain = exp > admission.exp && now_ms < exp.saturating_mul(1000);
        is_gain.then(|| Admission { exp, ..admission.clone() })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::clock::{Clock, ManualClock};
    use crate::domain::admission::Origin;
    use crate::domain::id::SaleId;

    const SLOT_MS: u64 = 1_000_000;
    const LASTING: Lasting =
        Lasting { token_ttl_ms: 600_000, hold_ms: 600_000, hold_extension_ms: 300_000 };
    const CAP_MS: u64 = SLOT_MS + 1_560_000;

    fn admission(origin: Origin, iat: u64, exp: u64) -> Admission {
        Admission {
            sale: SaleId::parse("drop").unwrap(),
            sub: "s".into(),
            epoch: 1,
            account: None,
            origin,
            jti: "j".into(),
            iat,
            exp,
        }
    }

    fn of_the_line() -> Admission {
        let origin = Origin::Line { position: 7, slot_ms: SLOT_MS };
        admission(origin, SLOT_MS / 1000, (SLOT_MS + 600_000) / 1000)
    }

    #[test]
    fn an_admission_with_a_minute_left_is_not_due_and_one_with_less_is() {
        let ends_ms = SLOT_MS + 600_000;
        assert!(!LASTING.is_due(&of_the_line(), ends_ms - 60_000));
        assert!(LASTING.is_due(&of_the_line(), ends_ms - 59_999));
        assert!(LASTING.is_due(&of_the_line(), CAP_MS - 1), "run out long ago");
        assert!(!LASTING.is_due(&of_the_line(), CAP_MS));
    }

    #[test]
    fn wr_45_it_lasts_a_minute_past_the_hold_and_is_the_same_admission() {
        let now_ms = SLOT_MS + 590_000;
        let renewed = LASTING.renewed(&of_the_line(), SLOT_MS + 900_000, now_ms).unwrap();
        assert_eq!(renewed.exp, (SLOT_MS + 960_000) / 1000);
        assert_eq!(Admission { exp: of_the_line().exp, ..renewed }, of_the_line());
    }

    #[test]
    fn a_hold_that_ends_before_the_admission_changes_nothing() {
        assert_eq!(LASTING.renewed(&of_the_line(), SLOT_MS + 540_000, SLOT_MS + 1), None);
        assert_eq!(LASTING.renewed(&of_the_line(), 0, SLOT_MS + 700_000), None);
    }

    #[test]
    fn wr_46_a_tab_that_holds_again_and_again_ends_at_the_hard_cap() {
        let clock = ManualClock::at(SLOT_MS);
        let mut admission = of_the_line();
        // Every ten seconds for an hour, each time with a hold made just now.
        for step in 0..360 {
            clock.set(SLOT_MS + step * 10_000);
            let now_ms = clock.now_ms();
            if LASTING.is_due(&admission, now_ms)
                && let Some(renewed) = LASTING.renewed(&admission, now_ms + 600_000, now_ms)
            {
                admission = renewed;
            }
        }
        assert_eq!(admission.exp, CAP_MS / 1000);
        assert!(!LASTING.is_due(&admission, clock.now_ms()));
    }

    #[test]
    fn the_cap_of_a_slot_collected_late_counts_from_the_collection() {
        let late = Admission { iat: SLOT_MS / 1000 + 3_600, ..of_the_line() };
        assert_eq!(LASTING.cap_ms(&late), CAP_MS + 3_600_000);
    }

    #[test]
    fn past_the_line_the_cap_counts_from_the_signing() {
        let pass = admission(Origin::Pass, 2_000, 2_600);
        assert_eq!(LASTING.cap_ms(&pass), 2_000_000 + 1_560_000);
    }

    proptest! {
        #[test]
        fn no_renewal_shortens_revives_or_passes_the_cap(
            hold_ends_ms in 0..4_000_000_u64,
            now_ms in 0..4_000_000_u64,
            ttl_ms in 1_000..900_000_u64,
        ) {
            let lasting = Lasting { token_ttl_ms: ttl_ms, ..LASTING };
            let before = of_the_line();
            if let Some(after) = lasting.renewed(&before, hold_ends_ms, now_ms) {
                prop_assert!(after.exp > before.exp);
                prop_assert!(after.exp * 1000 > now_ms);
                prop_assert!(after.exp * 1000 <= lasting.cap_ms(&before));
                prop_assert!(after.exp * 1000 <= hold_ends_ms + PAST_HOLD_MS);
            }
        }
    }
}
