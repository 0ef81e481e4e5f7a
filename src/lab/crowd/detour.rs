//! What shoppers do in line that must not cost the place.

use std::time::Duration;

use rand::RngExt;
use tokio::time::sleep;

use super::kept::{Event, PlaceSeen};
use super::plan::Detour;
use super::shopper::{Next, Shopper, Waypoint};
use crate::domain::sale::Phase;

impl Shopper {
    /// The detour to be made now, if any.
    pub(super) fn due_detour(&self) -> Option<(Detour, PlaceSeen)> {
        let detour = self.role.detour.filter(|_| !self.detoured)?;
        let (_, before) = self.last.clone()?;
        let field = self.wire.field();
        let due = if !self.role.detours_late {
            true
        } else if field.flush_planned {
            let flushed = |u: &super::Upheaval| u.event == Event::Flush && u.over_ms.is_some();
            field.upheavals().iter().any(flushed)
        } else {
            self.phase == Some(Phase::Open)
        };
        let detour = match detour {
            // The shop may know the account, and the gateway none.
            Detour::LostCookies if !self.has_account() => Detour::Reload,
            other => other,
        };
        due.then_some((detour, before))
    }

    /// Whether the place is tied to the account.
    pub(super) fn has_account(&self) -> bool {
        self.seen.tickets.iter().any(|ticket| ticket.account.is_some())
    }

    /// Makes it, and looks for the place afterwards.
    pub(super) async fn make(&mut self, detour: Detour, before: PlaceSeen) -> Next {
        self.detoured = true;
        match detour {
            Detour::Reload => {
                let sent = self.wire.page().await;
                self.answered("page", sent).await;
            }
            Detour::NewTab => {
                let away_ms = rand::rng().random_range(200..1_500);
                sleep(Duration::from_millis(away_ms)).await;
                self.wire = self.wire.in_new_tab();
            }
            Detour::Restart => self.wire = self.wire.restarted(),
            Detour::LostCookies => {
                self.wire = self.wire.without_cookies();
                self.sign_in().await;
                if let Next::Ends(ending) = self.join().await {
                    return Next::Ends(ending);
                }
            }
        }
        loop {
            match self.look().await {
                Ok(_) => break,
                Err(Next::Goes(_)) => {}
                Err(Next::Ends(ending)) => return Next::Ends(ending),
            }
        }
        if let Some((_, after)) = self.last.clone() {
            self.keep(Event::Detour(detour), before, after);
        }
        Next::Goes(Waypoint::Waiting)
    }
}
