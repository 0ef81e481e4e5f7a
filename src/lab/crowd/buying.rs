//! With an admission in hand: an order, and its payment.

use std::time::Duration;

use anyhow::Result;
use rand::RngExt;
use tokio::time::sleep;

use super::observations::{Ending, OrderSeen};
use super::shopper::{Next, Shopper, Waypoint, fresh_key};
use super::wire::{Problem, Timed};

/// Between two tries of somebody who was told that held units may come back.
const ASK_AGAIN: Duration = Duration::from_secs(2);

impl Shopper {
    /// Whether an answer says that the admission counts no more: back to the line, to claim anew.
    fn is_void(&mut self, timed: &Timed) -> bool {
        let problem = Problem::of(&timed.answer);
        let void = matches!(problem.name(), "waiting" | "not-admitted");
        if void {
            self.seen.voided = true;
            self.seen.refused(problem.name());
        }
        void
    }

    /// Asks for a unit under one order key, until there is one or none can come back.
    pub(super) async fn order(&mut self) -> Next {
        let key = match self.seen.orders.last() {
            Some(begun) => begun.key.clone(),
            None => fresh_key(),
        };
        if self.seen.orders.is_empty() {
            self.seen.orders.push(OrderSeen { key: key.clone(), ..OrderSeen::default() });
        }
        loop {
            let first = self.ask(&key).await;
            let Some(timed) = self.answered("reserve", first).await else { continue };
            let problem = Problem::of(&timed.answer);
            if timed.is_success() {
                self.holding = self.last_reservation();
                return match &self.holding {
                    Some(_) => self.admitted(),
                    None => Next::Ends(Ending::Refused),
                };
            }
            if self.is_void(&timed) {
                return Next::Goes(Waypoint::Waiting);
            }
            if problem.name() != "sold-out" {
                match self.refusal(&timed).await {
                    Some(ending) => return Next::Ends(ending),
                    None => continue,
                }
            }
            if self.nothing_left(problem.held == Some(0)) {
                return Next::Ends(Ending::SoldOut);
            }
            sleep(ASK_AGAIN).await;
        }
    }

    /// Sends the reservation, twice at once for who double-clicks; the first answer counts.
    async fn ask(&mut self, key: &str) -> Result<Timed> {
        if !self.role.double_clicks {
            let answer = self.wire.reserve(key).await;
            return answer.inspect(|timed| self.note_order(timed));
        }
        let (first, second) = tokio::join!(self.wire.reserve(key), self.wire.reserve(key));
        for timed in [&first, &second].into_iter().flatten() {
            self.note_order(timed);
        }
        match (first, second) {
            (Ok(first), Ok(second)) if second.is_success() && !first.is_success() => Ok(second),
            (first, _) => first,
        }
    }

    /// Pays through the gateway at the shop, which confirms.
    pub(super) async fn pay(&mut self, reservation: &str) -> Next {
        let paying_ms = u64::try_from(self.wire.field().paying_max.as_millis()).unwrap_or(0);
        let takes_ms = rand::rng().random_range(0..=paying_ms);
        sleep(Duration::from_millis(takes_ms)).await;
        let sent = self.wire.pay(reservation).await;
        let again = || Next::Goes(Waypoint::Holding(reservation.to_owned()));
        let Some(timed) = self.answered("pay", sent).await else { return again() };
        let to = timed.answer.header("location");
        match timed.status_code().as_u16() {
            303 if to.starts_with("/checkout/thanks") => {
                self.seen.paid = Some(reservation.to_owned());
                Next::Ends(Ending::Bought)
            }
            409 if timed.answer.header("stanchion-answer").is_empty() => Next::Ends(Ending::Lapsed),
            _ if self.is_void(&timed) => Next::Goes(Waypoint::Waiting),
            _ => self.refusal(&timed).await.map_or_else(again, Next::Ends),
        }
    }

    fn last_reservation(&self) -> Option<String> {
        let answers = &self.seen.orders.last()?.answers;
        answers.iter().rev().find_map(|answer| answer.reservation.clone())
    }
}
