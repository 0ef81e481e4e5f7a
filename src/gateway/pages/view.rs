//! What a page is made from: plain values, no lookups, nothing secret.

/// Which page to show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageState {
    /// Announced; joining is not possible yet.
    Upcoming,
    /// Joining is an entry for the draw; with or without one.
    Lobby,
    /// The moments between the opening second and the first positions.
    Drawing,
    /// The sale is open and this visitor has no place.
    Open,
    /// In line.
    Waiting,
    /// May go in: the claim is to be made.
    Called,
    /// Has claimed; the slot lies ahead.
    Booked,
    /// Holds an admission.
    Admitted,
    /// Called, and did not come in time.
    Missed,
    /// Nobody is let in just now; places stay.
    Paused,
    /// Nothing is free, but held units may come back.
    AllHeld,
    /// Every unit is sold.
    Gone,
    /// The sale is over.
    Closed,
    /// Joining needs an account.
    SignIn,
    /// The line takes no more visitors.
    Full,
    /// We cannot answer just now.
    Unavailable,
    /// We can, but the shop behind us does not.
    ShopUnavailable,
    /// A refusal, or the explanation of one: `PageView::problem` says which.
    Problem,
}

/// The chance of getting a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Odds {
    /// More units are free than people could take before this visitor.
    Certain,
    /// Rather yes.
    Likely,
    /// As likely as not.
    Even,
    /// Rather no.
    Unlikely,
    /// Nothing is left.
    None,
}

/// The visitor's place, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PlaceNumbers {
    /// The 0-based number of a lobby join.
    pub entry: Option<u64>,
    /// Joined at or after the opening.
    pub late: bool,
    /// The 0-based fixed position, once there is one.
    pub position: Option<u64>,
    /// How many are ahead.
    pub ahead: Option<u64>,
}

/// Units of the whole sale; nothing when the figures are stale.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StockNumbers {
    /// May be taken now.
    pub available: u64,
    /// In somebody's checkout.
    pub held: u64,
    /// Paid for.
    pub confirmed: u64,
}

/// A refusal to explain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProblemNote {
    /// The last part of the problem's type, like `rate-limited`.
    pub name: String,
    /// What exactly was wrong this time; empty on the page that only explains the type.
    pub detail: String,
}

/// Everything a page shows. Start from [`PageView::new`] and fill in what is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageView {
    /// Which page.
    pub state: PageState,
    /// The sale's id; none on pages that belong to no sale.
    pub sale: Option<String>,
    /// The time by Redis' clock, in ms since the epoch; the script counts from it.
    pub now_ms: u64,
    /// When joining begins.
    pub lobby_opens_ms: Option<u64>,
    /// When the draw is held and the line starts to move.
    pub opens_ms: Option<u64>,
    /// When the sale ends.
    pub closes_ms: Option<u64>,
    /// Where the shopper was going: a path with query, best a protected one. Anything else
    /// (another host, another scheme) becomes `/`.
    pub next: String,
    /// A fresh random key for the join form, so that a double click is one place.
    pub join_key: String,
    /// The visitor has a ticket for this run, or joined just now.
    pub has_ticket: bool,
    /// The place is tied to an account, so it survives a lost cookie and another device.
    pub account: bool,
    /// The numbers of the place.
    pub place: Option<PlaceNumbers>,
    /// The booked slot, in ms since the epoch.
    pub admitted_ms: Option<u64>,
    /// How long a called visitor may take, in ms.
    pub claim_window_ms: Option<u64>,
    /// The wait from here, in seconds: from, to.
    pub wait_seconds: Option<(u64, u64)>,
    /// The chance of a unit.
    pub odds: Option<Odds>,
    /// Units free, held and sold.
    pub stock: Option<StockNumbers>,
    /// When the script asks again, in ms.
    pub poll_after_ms: u64,
    /// When it makes sense to try again, in ms, on refusals and failures.
    pub retry_after_ms: Option<u64>,
    /// Where to sign in, for [`PageState::SignIn`]; a path of the shop or an http(s) address.
    pub login_url: Option<String>,
    /// What was refused, for [`PageState::Problem`].
    pub problem: Option<ProblemNote>,
    /// The request carried a body that did not reach the shop; the page says so.
    pub not_submitted: bool,
}

impl PageView {
    /// A page with nothing known but its state and the time.
    pub fn new(state: PageState, now_ms: u64) -> Self {
        Self {
            state,
            sale: None,
            now_ms,
            lobby_opens_ms: None,
            opens_ms: None,
            closes_ms: None,
            next: "/".to_owned(),
            join_key: String::new(),
            has_ticket: false,
            account: false,
            place: None,
            admitted_ms: None,
            claim_window_ms: None,
            wait_seconds: None,
            odds: None,
            stock: None,
            poll_after_ms: 5_000,
            retry_after_ms: None,
            login_url: None,
            problem: None,
            not_submitted: false,
        }
    }
}

/// The facts of the status body that choose the page of a sale that is open or over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts, each named as in the body")]
pub struct Situation {
    /// `phase` is `closed`.
    pub closed: bool,
    /// `paused`: by the operator, or because the figures are stale.
    pub paused: bool,
    /// `sold_out`: nothing is available.
    pub sold_out: bool,
    /// `stock.held` > 0.
    pub held: bool,
    /// `place.state`, as a page: Open (none), Waiting, Called, Admitted or Missed.
    pub place: PageState,
    /// A slot is booked: `place.admitted_at` is there.
    pub booked: bool,
}

impl Situation {
    /// Which page tells it best. `queue.js` decides the same way (`pageOf`).
    pub fn page(self) -> PageState {
        let gone = self.sold_out && !self.held;
        match self.place {
            PageState::Admitted => PageState::Admitted,
            _ if self.closed => PageState::Closed,
            _ if gone => PageState::Gone,
            PageState::Missed => PageState::Missed,
            _ if self.paused => PageState::Paused,
            PageState::Called if self.booked => PageState::Booked,
            PageState::Called => PageState::Called,
            _ if self.sold_out => PageState::AllHeld,
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALM: Situation = Situation {
        closed: false,
        paused: false,
        sold_out: false,
        held: false,
        place: PageState::Waiting,
        booked: false,
    };

    #[test]
    fn an_admitted_shopper_is_sent_on_whatever_else_is_true() {
        let at_the_end = Situation { closed: true, sold_out: true, paused: true, ..CALM };
        let admitted = Situation { place: PageState::Admitted, ..at_the_end };
        assert_eq!(admitted.page(), PageState::Admitted);
        assert_eq!(at_the_end.page(), PageState::Closed);
    }

    #[test]
    fn all_held_and_gone_are_told_apart() {
        let held = Situation { sold_out: true, held: true, ..CALM };
        assert_eq!(held.page(), PageState::AllHeld);
        assert_eq!(Situation { held: false, ..held }.page(), PageState::Gone);
        assert_eq!(Situation { place: PageState::Called, ..held }.page(), PageState::Called);
    }

    #[test]
    fn a_pause_hides_the_call_but_not_that_everything_is_gone() {
        let called = Situation { place: PageState::Called, booked: true, ..CALM };
        assert_eq!(called.page(), PageState::Booked);
        assert_eq!(Situation { paused: true, ..called }.page(), PageState::Paused);
        let gone = Situation { paused: true, sold_out: true, ..called };
        assert_eq!(gone.page(), PageState::Gone);
    }
}
