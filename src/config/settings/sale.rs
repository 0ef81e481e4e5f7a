//! A sale and what it sells.

use serde::{Deserialize, Serialize};

use crate::config::span::Span;
use crate::domain::id::{SaleId, Sku};
use crate::domain::rate::Rate;
use crate::domain::sale::Control;

/// What a protected path does outside of lobby to close.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outside {
    /// Goes to the shop.
    #[default]
    Pass,
    /// Is gated too.
    Gate,
}

/// What becomes of a payment that comes after the hold's end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LatePayment {
    /// Refused, to be refunded.
    #[default]
    Refuse,
    /// Confirmed, if the units are still the hold's or can be taken again within the cap.
    Honour,
}

/// `[[sale]]`. What is hot is published to all nodes through the control record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sale {
    /// Names the sale in paths, cookies and keys. Restart-only.
    pub id: SaleId,
    /// Joining begins. Hot until the draw.
    pub lobby_opens: jiff::Timestamp,
    /// The draw. Hot until the draw.
    pub opens: jiff::Timestamp,
    /// No claims and no new holds from here on. Hot until the draw.
    pub closes: jiff::Timestamp,
    /// Protected from `lobby_opens` to `closes`; a trailing `/**` = and all below.
    /// Restart-only.
    pub paths: Vec<String>,
    /// `METHOD /path` that pass ungated, for payment returns and webhooks. Restart-only.
    #[serde(default)]
    pub never_gate: Vec<String>,
    /// Protected paths before the lobby. Restart-only.
    #[serde(default)]
    pub before: Outside,
    /// Protected paths after the close. Restart-only.
    #[serde(default)]
    pub after: Outside,
    /// Only signed-in accounts may join. Restart-only.
    #[serde(default)]
    pub require_account: bool,
    /// Admissions per second. Hot.
    pub rate: Rate,
    /// Admissions at once after an idle moment. Hot.
    #[serde(default = "one")]
    pub burst: u32,
    /// The line stands still. Hot.
    #[serde(default)]
    pub paused: bool,
    /// Cap on open admissions; 0 = none. Hot.
    #[serde(default)]
    pub max_active: u32,
    /// How long a called visitor may take to claim. Hot.
    #[serde(default = "default_claim_window")]
    pub claim_window: Span,
    /// How long an admission lasts. Restart-only.
    #[serde(default = "default_token_ttl")]
    pub token_ttl: Span,
    /// Anonymous places per address (IPv6 /64); 0 = no cap. Restart-only.
    #[serde(default = "default_places_per_ip")]
    pub places_per_ip: u32,
    /// 0 = no cap; beyond it the page says "full". Restart-only.
    #[serde(default)]
    pub max_places: u64,
    /// Nobody is called for units that those called and let in before will take; otherwise people
    /// are called whatever is left. Restart-only.
    #[serde(default = "yes")]
    pub stock_aware: bool,
    /// HTTP status of the queue page: 200, 202, 429 or 503. Restart-only.
    #[serde(default = "default_queue_status")]
    pub queue_status: u16,
    /// What becomes of a payment after the hold's end. Restart-only.
    #[serde(default)]
    pub late_payment: LatePayment,
    /// How long a reservation is held. Restart-only.
    #[serde(default = "default_hold")]
    pub hold: Span,
    /// How much longer it may be extended in all. Restart-only.
    #[serde(default = "default_hold_extension")]
    pub hold_extension: Span,
    /// How long after `closes` buyers, order keys and payment references are kept. Restart-only.
    #[serde(default = "default_retention")]
    pub retention: Span,
    /// Round of drand's quicknet that the draw mixes in, published 3 s after `opens` at the
    /// earliest; 0 = none. Refused during a sale.
    #[serde(default)]
    pub beacon_round: u64,
    /// What is sold.
    #[serde(rename = "sku")]
    pub skus: Vec<SaleSku>,
}

impl Sale {
    /// The control record that the file asks for, run and epoch at their beginning.
    pub fn control(&self, author: &str) -> Control {
        let ms = |at: jiff::Timestamp| u64::try_from(at.as_millisecond()).unwrap_or(0);
        Control {
            version: 1,
            author: author.to_owned(),
            run: 1,
            epoch: 1,
            paused: self.paused,
            rate: self.rate,
            burst: self.burst,
            max_active: self.max_active,
            claim_window_ms: self.claim_window.ms(),
            lobby_opens_ms: ms(self.lobby_opens),
            opens_ms: ms(self.opens),
            closes_ms: ms(self.closes),
            bypass_until_ms: 0,
        }
    }
}

/// `[[sale.sku]]`. `units` are loaded once, when the SKU is first seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SaleSku {
    /// Belongs to one sale; exact bytes after trimming: `A-1` and `a-1` are two. Refused during a
    /// sale.
    pub sku: Sku,
    /// Loaded when first seen; later changes are restocks. Refused during a sale.
    pub units: u64,
    /// The most units of it that one buyer may hold and own; 0 = no cap. Refused during a
    /// sale.
    #[serde(default)]
    pub units_per_buyer: u32,
    /// Rows that the units are split over when first seen, at most 64. Refused during a sale.
    #[serde(default = "one")]
    pub shards: u32,
}

const fn one() -> u32 {
    1
}
const fn yes() -> bool {
    true
}
const fn default_claim_window() -> Span {
    Span::seconds(120)
}
const fn default_token_ttl() -> Span {
    Span::seconds(600)
}
const fn default_places_per_ip() -> u32 {
    100
}
const fn default_queue_status() -> u16 {
    200
}
const fn default_hold() -> Span {
    Span::seconds(600)
}
const fn default_hold_extension() -> Span {
    Span::seconds(300)
}
const fn default_retention() -> Span {
    Span::seconds(90 * 86_400)
}
