//! Leaving, coming back by a code, and being sent on: what a visitor does beside waiting.

use super::{Place, Room, out_of_reach};
use crate::domain::limits::AddressKey;
use crate::domain::recovery::Recovered;
use crate::domain::refusal::{Problem, Refusal};
use crate::domain::ticket::Ticket;
use crate::store::redis::room::{Leave, SentOn};

/// Of a browser that shows no cookie at all: it is back at once if it keeps none, and others who
/// look just like it come later.
const WITHOUT_COOKIES: SentOn = SentOn { pause_ms: 2_500, most: 8, within_ms: 60_000 };
/// Of any other: far below the twenty at which browsers give up, above what a person does.
const WITH_COOKIES: SentOn = SentOn { pause_ms: 0, ..WITHOUT_COOKIES };

impl Room {
    /// Gives a place up; again and again is the same as once.
    pub async fn leave(&self, ticket: &Ticket, address: Option<AddressKey>) -> Result<(), Refusal> {
        let places_per_ip = self.options.places_per_ip;
        let is_counted = ticket.account.is_none() && places_per_ip > 0;
        let address = address.filter(|_| is_counted).map(|address| self.blind(address));
        let (run, number) = (ticket.run, ticket.cohort);
        let left = self.store.leave(run, number, address.as_deref(), places_per_ip).await;
        match left.map_err(|error| self.failed("room.leave", &error))? {
            Leave::Left => {
                // So that this node knows at once; the others know at their next look.
                if !self.has_left(ticket)
                    && let Err(error) = self.has_looked().await
                {
                    tracing::debug!(sale = %self.options.sale, %error, "room.leave: no look");
                }
                Ok(())
            }
            Leave::Void => {
                let detail = "this place is of an earlier drawing of the sale; join again";
                Err(Refusal::new(Problem::Missed, detail))
            }
            Leave::Unloaded => Err(out_of_reach()),
        }
    }

    /// Whether a place was given up, as far as this node knows.
    pub fn has_left(&self, ticket: &Ticket) -> bool {
        self.snapshot.load().left.contains(ticket.cohort)
    }

    /// The code that leads back to a place.
    pub fn recovery_code(&self, ticket: &Ticket) -> Option<String> {
        self.keys.recovery_code(ticket)
    }

    /// The place that a code leads to, in this run.
    pub fn recovered(&self, code: &str) -> Option<Recovered> {
        let run = self.snapshot.load().control.run;
        self.keys.read_recovery(&self.options.sale, run, code)
    }

    /// The anonymous place of a code, as it was when it was joined.
    pub fn restored(&self, recovered: Recovered) -> Place {
        let (sale, run) = (self.options.sale.clone(), self.snapshot.load().control.run);
        let ticket = Ticket {
            sub: self.keys.subject(&sale, run, recovered.cohort),
            sale,
            run,
            cohort: recovered.cohort,
            account: None,
            issued_at: self.now_ms() / 1000,
        };
        Place { token: self.keys.mint_ticket(ticket.clone()), ticket, known: true }
    }

    /// Whether a browser may be answered by a redirect once more, on all nodes together. `whose`
    /// is all that tells it from others.
    pub async fn may_send_on(&self, whose: &str, has_cookies: bool) -> Result<bool, Refusal> {
        let bounds = if has_cookies { WITH_COOKIES } else { WITHOUT_COOKIES };
        let whose = self.keys.blind(&self.options.sale, whose);
        let allowed = self.store.may_send_on(&whose, bounds).await;
        allowed.map_err(|error| self.failed("room.send_on", &error))
    }

    pub(super) fn blind(&self, address: AddressKey) -> String {
        self.keys.blind(&self.options.sale, &address.to_string())
    }
}
