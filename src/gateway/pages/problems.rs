//! What each problem type means and what to do about it, in plain words.

/// The words of one problem type.
#[derive(Debug, Clone, Copy)]
pub(super) struct ProblemWords {
    /// The last part of `/_stanchion/problems/NAME`.
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    /// What happened, and the cure.
    pub(super) text: &'static str,
}

const fn words(name: &'static str, title: &'static str, text: &'static str) -> ProblemWords {
    ProblemWords { name, title, text }
}

/// Whether `/_stanchion/problems/NAME` has a page.
pub fn knows(name: &str) -> bool {
    find(name).is_some()
}

pub(super) fn find(name: &str) -> Option<&'static ProblemWords> {
    ENGLISH.iter().find(|words| words.name == name)
}

#[rustfmt::skip]
pub(super) static ENGLISH: &[ProblemWords] = &[
    words("waiting", "There is a line for this page",
        "Only shoppers whose turn it is may go on. Join the line, or wait for your turn; nothing you sent was carried out."),
    words("not-open", "Not open yet",
        "Joining is possible once the waiting room opens. Coming earlier gives no advantage."),
    words("closed", "The sale is over",
        "Nobody can join or enter any more. A unit that you hold already stays yours to the end of its hold."),
    words("sign-in-required", "Please sign in",
        "This sale gives one place to each account. Sign in at the shop, then join; a place you have already is kept."),
    words("account-unavailable", "Sign-in is not answering",
        "We could not ask the shop who you are. Your place is kept; try again in a moment."),
    words("frozen", "This item is on hold for a moment",
        "The shop has stopped sales of this item for now. Nothing was taken; try again later."),
    words("version-mismatch", "Somebody changed this first",
        "The stock was changed since you read it. Read it again, then repeat the change."),
    words("below-taken", "More units are taken than that",
        "The stock cannot be set below what shoppers hold or have bought."),
    words("not-called", "It is not your turn yet",
        "Your place is kept. The waiting page takes you on when you are called."),
    words("missed", "Your turn has passed",
        "You were called and did not come in time. You can join again at the end of the line."),
    words("paused", "The sale is paused",
        "Nobody is let in at the moment, and nobody loses a place. It goes on by itself."),
    words("sold-out", "Nothing is free right now",
        "Every unit is held or sold. While units are held, some may come back."),
    words("insufficient", "Not enough units for that many",
        "Fewer units are free than you asked for. Ask for fewer."),
    words("over-cap", "That is more than one buyer may have",
        "Each buyer may have a limited number of units. What you hold already counts."),
    words("hold-expired", "Your hold has run out",
        "The units went back to the others because the time to pay was over. If some are free, start a new order."),
    words("released", "This order was given back",
        "Its units were released. If some are free, start a new order."),
    words("already-ordered", "You have bought this already",
        "This order is confirmed; it was not made a second time."),
    words("in-progress", "Your order is being worked on",
        "The same request is still running at the shop. Wait a moment, then look again; do not pay twice."),
    words("payment-conflict", "This order was paid in another way",
        "It is confirmed with a different payment. Please ask the shop."),
    words("key-reused", "This order key belongs to another order",
        "Each order needs its own key. Start the order again."),
    words("unknown-sku", "No such item in this sale",
        "The item is not sold here. Go back to the shop and choose it again."),
    words("unknown-order", "No such order",
        "We do not know this order, or not yet. If you have just made it, try again in a moment."),
    words("unknown-sale", "No such sale",
        "The address may be mistyped, or the sale may be gone."),
    words("not-admitted", "You are not in yet",
        "Ordering needs your turn in the line, and a turn lasts for a limited time. Go to the waiting room."),
    words("sale-full", "The line is full",
        "Every place in this line has been given out."),
    words("too-many-places", "Too many places from your network",
        "Your network has as many places as it may have without accounts. Use another connection, or ask the shop."),
    words("rate-limited", "That was a bit fast",
        "Too many requests came in a short time. Your place is kept; wait a moment and try again."),
    words("bad-request", "We did not understand that",
        "Something in the request is not right. Go back and try again."),
    words("body-too-large", "That was too much data",
        "The request is larger than we take. Nothing was carried out."),
    words("overloaded", "Very busy right now",
        "We had to turn this request away to keep the line moving. Your place is kept; try again in a moment."),
    words("shop-unavailable", "The shop is not answering",
        "Your place is kept. Try again in a moment."),
    words("core-unavailable", "Orders have to wait a moment",
        "The part that keeps count of the units is not answering. Nothing was taken and nothing is lost; try again in a moment."),
    words("config-refused", "The settings were refused",
        "The new settings have a mistake, so the old ones stay in force."),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_problem_type_has_a_page_of_its_own() {
        let promised = "waiting, not-open, closed, sign-in-required, account-unavailable, frozen, \
            version-mismatch, below-taken, not-called, missed, paused, sold-out, insufficient, \
            over-cap, hold-expired, released, already-ordered, in-progress, payment-conflict, \
            key-reused, unknown-sku, unknown-order, unknown-sale, not-admitted, sale-full, \
            too-many-places, rate-limited, bad-request, body-too-large, overloaded, \
            shop-unavailable, core-unavailable, config-refused";
        let names: Vec<_> = promised.split(',').map(str::trim).collect();
        for name in &names {
            assert!(knows(name), "{name}");
        }
        assert_eq!(names.len(), ENGLISH.len());
        assert!(!knows("") && !knows("../waiting"));
    }
}
