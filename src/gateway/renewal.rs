//! Admissions that last as long as the hold: the core is asked, the token is signed anew, so that
//! nobody is thrown out of a payment, however the hold was made.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::Method;
use hyper::Response;
use serde::Deserialize;
use tokio::sync::Semaphore;

use super::answers::Answers;
use super::asked::Asked;
use super::cookies::Kind as Token;
use super::core_client::{CoreCall, CoreClient, STANCHION_ADMISSION, no_core};
use super::forward::nobody_else;
use super::headers::put;
use super::identify::{Pass, Renewal, Visitor};
use super::respond;
use super::sale::SaleGate;
use super::waiting;
use crate::domain::admission::{Admission, CORE_GRACE_MS, LEEWAY_MS};
use crate::domain::id::{BuyerId, SaleId};
use crate::domain::refusal::Refusal;
use crate::domain::reservation::{Reservation, Status};
use crate::http::body::Body;

/// How long the core's answer is kept.
const KEEP: Duration = Duration::from_secs(5);
/// How long it is kept that the core gave none.
const KEEP_UNKNOWN: Duration = Duration::from_secs(1);
/// Buyers remembered in each of two halves.
const BUYERS_MAX: usize = 20_000;
/// Questions to the core at once; who waits longer than this for a seat goes on without an answer.
const ASKING_MAX: usize = 64;
const ASKING_TIME_MAX: Duration = Duration::from_secs(3);

/// What a buyer holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Held {
    /// Units, until then: Unix milliseconds.
    Until(u64),
    /// Units that were paid for before the hold's end, which would be then.
    Paid(u64),
    /// Nothing.
    Nothing,
    /// The core does not say.
    Unknown,
}

/// Who holds what, as far as it was asked lately.
pub(super) struct Holds {
    core: Arc<CoreClient>,
    known: Answers<(SaleId, BuyerId), Held>,
    asking: Semaphore,
}

/// The core's search, as far as it matters here.
#[derive(Deserialize)]
struct Found {
    reservations: Vec<Reservation>,
}

impl Holds {
    /// Nobody is known yet.
    pub(super) fn new(core: Arc<CoreClient>) -> Self {
        let (known, asking) = (Answers::new(BUYERS_MAX), Semaphore::new(ASKING_MAX));
        Self { core, known, asking }
    }

    /// What a buyer holds in a sale.
    async fn of(&self, sale: &SaleId, buyer: BuyerId, now_ms: u64) -> Held {
        let question = (sale.clone(), buyer.clone());
        let ask = async || match self.ask(sale, &buyer, now_ms).await {
            Held::Unknown => (Held::Unknown, KEEP_UNKNOWN),
            held => (held, KEEP),
        };
        let asking = tokio::time::timeout(ASKING_TIME_MAX, self.known.get(question, ask));
        asking.await.unwrap_or(Held::Unknown)
    }

    async fn ask(&self, sale: &SaleId, buyer: &BuyerId, now_ms: u64) -> Held {
        let Ok(_seat) = self.asking.acquire().await else { return Held::Unknown };
        match self.last_end(sale, buyer, Status::Held, now_ms).await {
            Ok(Some(ends_ms)) => return Held::Until(ends_ms),
            Ok(None) => {}
            Err(_) => return Held::Unknown,
        }
        // Paid a moment ago, perhaps at a provider's: the thank-you page is part of the payment.
        match self.last_end(sale, buyer, Status::Confirmed, now_ms).await {
            Ok(Some(ends_ms)) => Held::Paid(ends_ms),
            Ok(None) => Held::Nothing,
            Err(_) => Held::Unknown,
        }
    }

    /// The latest end ahead among a buyer's reservations of a status.
    async fn last_end(
        &self,
        sale: &SaleId,
        buyer: &BuyerId,
        status: Status,
        now_ms: u64,
    ) -> Result<Option<u64>, Refusal> {
        let query = form_urlencoded::Serializer::new(String::new())
            .append_pair("sale", sale.as_str())
            .append_pair("buyer", buyer.as_str())
            .append_pair("status", status.as_str())
            .finish();
        let call = CoreCall {
            method: Method::GET,
            target: format!("/v1/reservations?{query}"),
            admission: None,
            order_key: None,
            body: Bytes::new(),
        };
        let answer = self.core.call(call).await?;
        let found: Found = serde_json::from_slice(&answer.body).map_err(|_| no_core())?;
        let ends = found.reservations.iter().map(ends_ms);
        Ok(ends.filter(|ends_ms| *ends_ms > now_ms).max())
    }

    /// Takes over what an order of ours got.
    fn note(&self, admission: &Admission, held: Held) {
        self.known.put((admission.sale.clone(), admission.buyer()), held, KEEP);
    }

    /// A hold was given back: the next who wants to know asks.
    pub(super) fn forget(&self, admission: &Admission) {
        self.known.forget(&(admission.sale.clone(), admission.buyer()));
    }
}

fn ends_ms(reservation: &Reservation) -> u64 {
    u64::try_from(reservation.expires_at.as_millisecond()).unwrap_or(0)
}

impl SaleGate {
    /// The admission as long as its buyer's hold, if that is longer; `None` if there is no such
    /// hold, a refusal if nobody knows.
    pub(super) async fn prolonged(&self, admission: &Admission) -> Result<Option<Pass>, Refusal> {
        let now_ms = self.room.now_ms();
        match self.holds.of(self.id(), admission.buyer(), now_ms).await {
            Held::Until(ends_ms) => {
                let longer = self.signed(admission, ends_ms);
                if let Some(longer) = &longer {
                    self.room.stays_active(&longer.admission).await;
                }
                Ok(longer)
            }
            // Whoever has paid is no longer counted by `max_active`.
            Held::Paid(ends_ms) => Ok(self.signed(admission, ends_ms)),
            Held::Nothing => Ok(None),
            Held::Unknown => Err(no_core()),
        }
    }

    fn signed(&self, admission: &Admission, hold_ends_ms: u64) -> Option<Pass> {
        let now_ms = self.room.now_ms();
        let longer = self.lasting().renewed(admission, hold_ends_ms, now_ms)?;
        let token = self.room.keys().mint_admission(&longer);
        Some(Pass { admission: Arc::new(longer), token })
    }

    /// Renews a visitor's pass that has little time left or none, if a hold says so. A pass that
    /// has run out counts for nothing while the core is away, but its visitor keeps it.
    pub(super) async fn renew(&self, visitor: &mut Visitor) {
        let now_ms = self.room.now_ms();
        let Some(pass) = visitor.pass.as_ref().or(visitor.lapsed.as_ref()) else { return };
        if !self.lasting().is_due(&pass.admission, now_ms) {
            return;
        }
        match Box::pin(self.prolonged(&pass.admission)).await {
            Ok(Some(longer)) => visitor.take_over(longer),
            Ok(None) => {}
            Err(_) => visitor.renewal = Renewal::Unknown,
        }
    }

    /// An order under way when its admission ran out goes on to the core, which has the same grace.
    pub(super) fn forgive(&self, visitor: &mut Visitor) {
        let (epoch, now_ms) = (self.run_and_epoch().1, self.room.now_ms());
        if visitor.pass.is_none() {
            visitor.pass = visitor.lapsed.take().filter(|pass| {
                // The core measures by another clock.
                let grace_ms = CORE_GRACE_MS - LEEWAY_MS;
                pass.admission.holds(self.id(), epoch, now_ms, grace_ms)
            });
        }
    }

    /// Our own call has made or extended a hold: the pass lasts as long at once.
    pub(super) async fn holds_now(&self, visitor: &mut Visitor, reservation: &Reservation) {
        let Some(pass) = &visitor.pass else { return };
        if reservation.status != Status::Held || reservation.buyer != pass.admission.buyer() {
            return;
        }
        self.holds.note(&pass.admission, Held::Until(ends_ms(reservation)));
        if let Some(longer) = self.signed(&pass.admission, ends_ms(reservation)) {
            self.room.stays_active(&longer.admission).await;
            visitor.take_over(longer);
        }
    }
}

/// Gives a renewed pass to its visitor: the cookie always, the header to whoever sent it so.
pub(super) fn hand_out(
    response: &mut Response<Body>,
    asked: &Asked,
    sale: &SaleGate,
    visitor: &Visitor,
) {
    let Some(pass) = visitor.pass.as_ref().filter(|_| visitor.renewal == Renewal::Done) else {
        return;
    };
    waiting::set_cookie(response, Token::Pass, sale, asked.client.https, &pass.token);
    if visitor.pass_by_header {
        put(response.headers_mut(), STANCHION_ADMISSION, &pass.token);
    }
    if !response.headers().contains_key(respond::STANCHION_ANSWER) {
        // The shop may have let everybody keep its page; nobody may keep this visitor's pass.
        nobody_else(response.headers_mut());
    }
}
