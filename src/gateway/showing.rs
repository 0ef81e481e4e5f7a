//! What a queue page is made from: whatever it is to show of sale, place and visitor.

use super::cookies::Kind as Token;
use super::identify::Visitor;
use super::pages::{PageState, PageView, ProblemNote, Refresh, SPREAD_SECONDS};
use super::respond;
use super::sale::SaleGate;
use super::waiting;
use crate::domain::id::AccountId;
use crate::domain::queue::{Place, PlaceState};
use crate::domain::refusal::Refusal;
use crate::domain::sale::Phase;
use crate::domain::status::{Status, rfc3339};
use crate::domain::ticket::Ticket;
use crate::room::Moment;

/// A join that may be tried again as it is.
pub(super) struct NotJoined {
    pub(super) refusal: Refusal,
    pub(super) key: String,
    pub(super) next: Option<String>,
}

/// What a page is made from.
pub(super) struct Showing {
    /// Of sale and place.
    pub(super) status: Status,
    /// When the visitor goes in, once that is booked.
    pub(super) slot_ms: Option<u64>,
    /// Another page than the place's.
    pub(super) instead: Option<PageState>,
    /// To be set with the page.
    pub(super) cookies: Vec<(Token, String)>,
    /// The place, if there is one.
    pub(super) ticket: Option<Ticket>,
    /// It stands where the visitor was going, and not on the sale's own page.
    pub(super) at_gate: bool,
    /// The request was one to change something.
    pub(super) not_submitted: bool,
    /// It is shown in place of a join.
    pub(super) not_joined: Option<NotJoined>,
    /// As in [`PageView`].
    pub(super) spread: u64,
    /// As in [`PageView`].
    pub(super) refresh: Refresh,
    next: String,
    join_key: String,
    account: Option<AccountId>,
    is_anybodys: bool,
}

impl Showing {
    /// To a visitor, as things are now.
    pub(super) fn new(sale: &SaleGate, visitor: &Visitor, next: &str) -> Self {
        // A place of an account is shown as its own, though nobody was asked who is signed in.
        let owner = || visitor.ticket.as_ref()?.account.as_ref();
        Self {
            ticket: visitor.ticket.clone(),
            account: visitor.account_id().or_else(owner).cloned(),
            spread: spread(),
            ..Self::to_nobody(waiting::told(sale, visitor), next, &waiting::fresh_key())
        }
    }

    /// To somebody who has nothing.
    pub(super) fn to_nobody(status: Status, next: &str, join_key: &str) -> Self {
        Self {
            status,
            slot_ms: None,
            instead: None,
            cookies: Vec::new(),
            ticket: None,
            at_gate: false,
            not_submitted: false,
            not_joined: None,
            spread: 0,
            refresh: Refresh::ByItself,
            next: next.to_owned(),
            join_key: join_key.to_owned(),
            account: None,
            is_anybodys: false,
        }
    }

    /// The claim is made, and this is its slot.
    pub(super) fn book(&mut self, slot_ms: Option<u64>) {
        self.slot_ms = slot_ms;
        self.status.place.admitted_at = slot_ms.map(rfc3339);
    }

    /// A cache may keep a 5xx whatever we say and show it to others: nothing of one visitor is in
    /// it, and no join key, by which two would get one place.
    pub(super) fn be_anybodys(&mut self) {
        self.is_anybodys = true;
        self.cookies.clear();
        self.join_key.clear();
        (self.ticket, self.slot_ms, self.instead, self.account) = (None, None, None, None);
        self.status.place = Place::none();
        (self.status.eta_seconds, self.status.odds) = (None, None);
    }

    /// The page at a moment.
    pub(super) fn view(self, sale: &SaleGate, moment: &Moment, login_url: &str) -> PageView {
        let state = self.state(sale);
        let (seen, control) = (moment.seen(), moment.control());
        let mut view = PageView::new(state, moment.now_ms());
        if state == PageState::SignIn {
            view.login_url = Some(sign_in_link(login_url, sale, self.at_gate, &self.next));
        }
        view.sale = Some(sale.id().as_str().to_owned());
        view.lobby_opens_ms = Some(control.lobby_opens_ms);
        view.opens_ms = Some(control.opens_ms);
        view.closes_ms = Some(control.closes_ms);
        (view.next, view.join_key) = (self.next, self.join_key);
        if let Some(NotJoined { refusal, key, .. }) = self.not_joined {
            (view.not_joined, view.join_key) = (true, key);
            view.retry_after_ms = refusal.retry_after_ms;
            view.problem = Some(ProblemNote { problem: refusal.problem, detail: refusal.detail });
        }
        view.account = self.account.is_some();
        view.admitted_ms = self.slot_ms;
        view.claim_window_ms = Some(control.claim_window_ms);
        view.round = seen.round;
        let code = self.ticket.and_then(|ticket| sale.room.recovery_code(&ticket));
        let status = self.status;
        view.recovery = code.filter(|_| status.place.state != PlaceState::Left);
        view.not_submitted = self.not_submitted;
        view.wait = status.eta_seconds;
        view.odds = status.odds;
        view.stock = status.stock;
        view.poll_after_ms = status.poll_after_ms;
        (view.spread, view.refresh) = (self.spread, self.refresh);
        (view.run, view.place) = (status.run, status.place);
        view
    }

    fn state(&self, sale: &SaleGate) -> PageState {
        let status = &self.status;
        let needs_account = sale.settings.require_account
            && self.account.is_none()
            && !self.is_anybodys
            && status.place.state == PlaceState::None
            && matches!(status.phase, Phase::Lobby | Phase::Drawing | Phase::Open);
        match self.instead {
            Some(state) => state,
            None if needs_account => PageState::SignIn,
            None => {
                let stock = status.stock.as_ref();
                PageState::of(status.phase, status.paused, &status.place, stock)
            }
        }
    }
}

/// Of one page.
pub(super) fn spread() -> u64 {
    rand::random_range(0..SPREAD_SECONDS)
}

/// Where to sign in, and back from there to where the page stood.
pub(super) fn sign_in_link(login_url: &str, sale: &SaleGate, at_gate: bool, next: &str) -> String {
    if at_gate {
        respond::sign_in_link(login_url, next)
    } else {
        respond::sign_in_link(login_url, &sale.queue_url_to(next))
    }
}
