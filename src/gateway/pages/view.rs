//! What a page is made from: plain values, no lookups, nothing secret.

use crate::domain::queue::{Eta, Odds, Place, PlaceState};
use crate::domain::refusal::Problem;
use crate::domain::sale::Phase;
use crate::domain::stock::{StockSum, Supply};

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
    /// Gave the place up.
    Left,
    /// The place of the code that was typed in was missed or given up.
    CodeOver,
    /// The browser was sent on and came back without its cookies.
    Cookies,
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

impl PageState {
    /// The page that tells a sale and a place best; `stock` is none while the figures are stale.
    /// `queue.js` decides the same way (`pageOf`).
    pub fn of(phase: Phase, paused: bool, place: &Place, stock: Option<&StockSum>) -> Self {
        let supply = stock.map(StockSum::supply);
        match (phase, place.state) {
            (_, PlaceState::Admitted) => Self::Admitted,
            (Phase::Upcoming, _) => Self::Upcoming,
            (Phase::Lobby | Phase::Drawing, PlaceState::Left) => Self::Left,
            (Phase::Lobby, _) => Self::Lobby,
            (Phase::Drawing, _) => Self::Drawing,
            (Phase::Closed, _) => Self::Closed,
            (Phase::Open, _) if supply == Some(Supply::Gone) => Self::Gone,
            (Phase::Open, PlaceState::Missed) => Self::Missed,
            (Phase::Open, PlaceState::Left) => Self::Left,
            (Phase::Open, _) if paused => Self::Paused,
            (Phase::Open, PlaceState::Called) if place.admitted_at.is_some() => Self::Booked,
            (Phase::Open, PlaceState::Called) => Self::Called,
            (Phase::Open, _) if supply == Some(Supply::AllHeld) => Self::AllHeld,
            // Entered only until this node has the draw.
            (Phase::Open, PlaceState::Entered | PlaceState::Waiting) => Self::Waiting,
            (Phase::Open, PlaceState::None) => Self::Open,
        }
    }
}

/// Whether a page without a script comes again by itself: a reader may want to say when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refresh {
    /// It does.
    ByItself,
    /// Only when asked to.
    Paused,
}

/// A refusal to explain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProblemNote {
    /// Which "no".
    pub problem: Problem,
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
    /// Which drawing of the sale the place is of; the script tells by it that another has begun.
    pub run: u64,
    /// The visitor's place; [`Place::none`] without a ticket.
    pub place: Place,
    /// The place is tied to an account, so it survives a lost cookie and another device.
    pub account: bool,
    /// The beacon round that the draw is mixed with; 0 = none.
    pub round: u64,
    /// Sixteen characters that lead back to the place.
    pub recovery: Option<String>,
    /// The booked slot, in ms since the epoch.
    pub admitted_ms: Option<u64>,
    /// How long a called visitor may take, in ms.
    pub claim_window_ms: Option<u64>,
    /// The wait from here; nothing while paused or unknown.
    pub wait: Option<Eta>,
    /// The chance of a unit.
    pub odds: Option<Odds>,
    /// Units of the whole sale; nothing while the figures are stale.
    pub stock: Option<StockSum>,
    /// When the script asks again, in ms.
    pub poll_after_ms: u64,
    /// By how many seconds this page is later than others that wait for the same instant, where it
    /// reloads without a script.
    pub spread: u64,
    /// Whether it comes again where no script runs.
    pub refresh: Refresh,
    /// When it makes sense to try again, in ms, on refusals and failures.
    pub retry_after_ms: Option<u64>,
    /// Where to sign in, for [`PageState::SignIn`]; a path of the shop or an http(s) address.
    pub login_url: Option<String>,
    /// What was refused, for [`PageState::Problem`].
    pub problem: Option<ProblemNote>,
    /// The request carried a body that did not reach the shop; the page says so.
    pub not_submitted: bool,
    /// A join found no room; the page says so and comes again as the same join.
    pub not_joined: bool,
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
            run: 0,
            place: Place::none(),
            account: false,
            round: 0,
            recovery: None,
            admitted_ms: None,
            claim_window_ms: None,
            wait: None,
            odds: None,
            stock: None,
            poll_after_ms: 5_000,
            spread: 0,
            refresh: Refresh::ByItself,
            retry_after_ms: None,
            login_url: None,
            problem: None,
            not_submitted: false,
            not_joined: false,
        }
    }

    /// Whether the visitor has a place, lapsed or not.
    pub(super) fn has_place(&self) -> bool {
        !matches!(self.place.state, PlaceState::None | PlaceState::Left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(state: PlaceState) -> Place {
        Place { state, ..Place::none() }
    }

    fn stock(available: u64, held: u64) -> StockSum {
        StockSum { available, held, confirmed: 9 }
    }

    #[test]
    fn an_admitted_shopper_is_sent_on_whatever_else_is_true() {
        let admitted = place(PlaceState::Admitted);
        let page = PageState::of(Phase::Closed, true, &admitted, Some(&stock(0, 0)));
        assert_eq!(page, PageState::Admitted);
        let waiting = place(PlaceState::Waiting);
        assert_eq!(PageState::of(Phase::Closed, true, &waiting, None), PageState::Closed);
    }

    #[test]
    fn all_held_and_gone_are_told_apart() {
        let page = |state, stock| PageState::of(Phase::Open, false, &place(state), Some(&stock));
        assert_eq!(page(PlaceState::Waiting, stock(1, 0)), PageState::Waiting);
        assert_eq!(page(PlaceState::Waiting, stock(0, 1)), PageState::AllHeld);
        assert_eq!(page(PlaceState::Waiting, stock(0, 0)), PageState::Gone);
        assert_eq!(page(PlaceState::Called, stock(0, 1)), PageState::Called);
        assert_eq!(page(PlaceState::None, stock(1, 0)), PageState::Open);
    }

    #[test]
    fn a_pause_hides_the_call_but_not_that_everything_is_gone() {
        let booked = Place { admitted_at: Some("soon".into()), ..place(PlaceState::Called) };
        let page = |paused, stock| PageState::of(Phase::Open, paused, &booked, Some(&stock));
        assert_eq!(page(false, stock(5, 0)), PageState::Booked);
        assert_eq!(page(true, stock(5, 0)), PageState::Paused);
        assert_eq!(page(true, stock(0, 0)), PageState::Gone);
        assert_eq!(PageState::of(Phase::Lobby, true, &booked, None), PageState::Lobby);
    }
}
