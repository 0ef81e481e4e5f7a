//! What to do after a call that failed. Pure.

use std::time::Duration;

use crate::store::postgres::Mishap;

/// How often a batch is sent in all.
const TRIES: u32 = 4;
const RETRY_DELAY: Duration = Duration::from_millis(40);

/// What to do with the orders of a call that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// Send the same again after this pause.
    Again(Duration),
    /// Send each half alone: one bad order must not spoil its neighbours.
    Halves,
    /// Tell everybody.
    GiveUp,
}

/// What to do when the `tries`-th call of so many orders failed.
pub(super) fn after(mishap: Mishap, orders: usize, tries: u32) -> Next {
    match mishap {
        Mishap::Refused | Mishap::TooMuch if orders > 1 => Next::Halves,
        Mishap::Refused | Mishap::Other => Next::GiveUp,
        Mishap::Unsent | Mishap::LinkLost | Mishap::Undone | Mishap::TooMuch => {
            if tries < TRIES {
                Next::Again(RETRY_DELAY * tries)
            } else {
                Next::GiveUp
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rs_29_what_was_refused_is_halved_until_the_bad_one_is_alone() {
        assert_eq!(after(Mishap::Refused, 256, 1), Next::Halves);
        assert_eq!(after(Mishap::Refused, 2, 1), Next::Halves);
        assert_eq!(after(Mishap::Refused, 1, 1), Next::GiveUp);
    }

    #[test]
    fn rs_73_what_took_too_long_is_halved_and_one_alone_is_sent_again() {
        assert_eq!(after(Mishap::TooMuch, 512, 1), Next::Halves);
        assert!(matches!(after(Mishap::TooMuch, 1, 1), Next::Again(_)));
        assert_eq!(after(Mishap::TooMuch, 1, TRIES), Next::GiveUp);
    }

    #[test]
    fn a_lost_link_and_a_deadlock_are_sent_again_but_not_for_ever() {
        for mishap in [Mishap::LinkLost, Mishap::Undone, Mishap::Unsent] {
            let pauses: Vec<_> = (1..TRIES).map(|tries| after(mishap, 512, tries)).collect();
            assert!(pauses.iter().all(|next| matches!(next, Next::Again(_))), "{pauses:?}");
            assert_eq!(after(mishap, 512, TRIES), Next::GiveUp);
        }
        assert_eq!(after(Mishap::Other, 512, 1), Next::GiveUp);
    }
}
