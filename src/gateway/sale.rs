//! One sale as the edge sees it: what it protects, and its room.

use std::sync::Arc;

use hyper::Method;

use super::cookies::Names;
use super::forward::LOOK_EVERY;
use super::renewal::Holds;
use super::shelf::Shelf;
use super::told::Told;
use crate::config::settings::{Outside, Sale};
use crate::domain::id::SaleId;
use crate::domain::path::Canonical;
use crate::domain::pattern::{Pattern, PatternError, Rule};
use crate::domain::refusal::Refusal;
use crate::domain::renewal::Lasting;
use crate::domain::ticket::Ticket;
use crate::room::{self, Claimed, Room, Turn};

/// A sale's settings, patterns and room.
pub(super) struct SaleGate {
    /// The room.
    pub(super) room: Arc<Room>,
    /// The settings.
    pub(super) settings: Sale,
    /// Who holds what.
    pub(super) holds: Arc<Holds>,
    /// What its visitors are told.
    pub(super) told: Arc<Told>,
    /// What newcomers are answered.
    pub(super) shelf: Shelf,
    /// What its cookies are called.
    pub(super) cookies: Names,
    protected: Vec<Pattern>,
    never_gate: Vec<Rule>,
}

/// A pattern of the settings that is none; the text names the key.
#[derive(Debug, thiserror::Error)]
#[error("sale {sale}: {pattern:?} {error}")]
pub struct SaleError {
    sale: SaleId,
    pattern: String,
    error: PatternError,
}

impl SaleGate {
    /// Reads the patterns.
    pub(super) fn new(
        settings: Sale,
        room: Arc<Room>,
        holds: Arc<Holds>,
    ) -> Result<Self, SaleError> {
        let bad = |pattern: &str, error| SaleError {
            sale: settings.id.clone(),
            pattern: pattern.to_owned(),
            error,
        };
        let protected = settings.paths.iter();
        let protected = protected
            .map(|raw| Pattern::parse(raw).map_err(|error| bad(raw, error)))
            .collect::<Result<_, _>>()?;
        let never_gate = settings.never_gate.iter();
        let never_gate = never_gate
            .map(|raw| Rule::parse(raw).map_err(|error| bad(raw, error)))
            .collect::<Result<_, _>>()?;
        let cookies = Names::of(&settings.id);
        let told = Arc::new(Told::new(Arc::clone(&room)));
        let shelf = Shelf::default();
        Ok(Self { room, settings, holds, told, shelf, cookies, protected, never_gate })
    }

    /// The sale's id.
    pub(super) fn id(&self) -> &SaleId {
        &self.settings.id
    }

    /// Whether the sale is about this path.
    pub(super) fn protects(&self, path: &Canonical) -> bool {
        self.protected.iter().any(|pattern| pattern.matches(path))
    }

    /// Whether a request is on the list of those that pass at any time.
    pub(super) fn never_gates(&self, method: &Method, path: &Canonical) -> bool {
        self.never_gate.iter().any(|rule| rule.matches(method, path))
    }

    /// Whether protected paths are closed at this instant of the room's clock.
    pub(super) fn is_gating(&self, now_ms: u64) -> bool {
        gates_at(&self.room, self.outside(), now_ms)
    }

    /// Comes when protected paths are closed.
    pub(super) fn gates(&self) -> impl Future<Output = ()> + Send + 'static {
        let (room, outside) = (Arc::clone(&self.room), self.outside());
        async move {
            while !gates_at(&room, outside, room.now_ms()) {
                tokio::time::sleep(LOOK_EVERY).await;
            }
        }
    }

    /// What protected paths do before and after the sale.
    fn outside(&self) -> [Outside; 2] {
        [self.settings.before, self.settings.after]
    }

    /// Run and epoch in force: tickets of another run and admissions of another epoch are void.
    pub(super) fn run_and_epoch(&self) -> (u64, u64) {
        let seen = self.room.glance();
        (seen.control.run, seen.control.epoch)
    }

    /// How long admissions and holds last here.
    pub(super) fn lasting(&self) -> Lasting {
        Lasting {
            token_ttl_ms: self.settings.token_ttl.ms(),
            hold_ms: self.settings.hold.ms(),
            hold_extension_ms: self.settings.hold_extension.ms(),
        }
    }

    /// Claims with a ticket. Who has used the turn up and still holds something goes on with that,
    /// also on another device; anybody else has missed it.
    pub(super) async fn claim(&self, ticket: &Ticket) -> Result<Claimed, Refusal> {
        let spent = match self.room.turn(ticket).await? {
            Turn::Claimed(claimed) => return Ok(claimed),
            Turn::Spent(admission) => admission,
        };
        let pass = self.prolonged(&spent).await?.ok_or_else(room::missed)?;
        let admission = Box::new(Arc::unwrap_or_clone(pass.admission));
        Ok(Claimed::Admitted { admission, token: pass.token })
    }

    /// The queue page.
    pub(super) fn queue_url(&self) -> String {
        format!("/_stanchion/{}", self.id())
    }

    /// The queue page, on the way to somewhere.
    pub(super) fn queue_url_to(&self, next: &str) -> String {
        let query =
            form_urlencoded::Serializer::new(String::new()).append_pair("next", next).finish();
        format!("{}?{query}", self.queue_url())
    }

    /// A protected path to go on to, when the visitor named none.
    pub(super) fn way_in(&self) -> String {
        let first = self.settings.paths.first().map_or("/", String::as_str);
        let path = first.strip_suffix("/**").unwrap_or(first);
        if path.is_empty() { "/".to_owned() } else { path.to_owned() }
    }
}

fn gates_at(room: &Room, [before, after]: [Outside; 2], now_ms: u64) -> bool {
    let seen = room.glance();
    let control = &seen.control;
    if now_ms < control.lobby_opens_ms {
        before == Outside::Gate
    } else if now_ms >= control.closes_ms {
        after == Outside::Gate
    } else {
        true
    }
}
