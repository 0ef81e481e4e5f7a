//! Every key of the settings file. Whether a key is hot, restart-only or refused during a sale is
//! said on its field.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::span::Span;
use crate::domain::id::{SaleId, Sku};
use crate::domain::limits::Quota;
use crate::domain::rate::Rate;
use crate::domain::sale::Control;

/// The whole file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[derive(Default)]
pub struct Settings {
    /// The public edge.
    pub public: Public,
    /// The existing shop.
    pub shop: Shop,
    /// The reservation core.
    pub core: Core,
    /// Redis.
    pub redis: Redis,
    /// Health, metrics and admin.
    pub ops: Ops,
    /// Signing keys.
    pub keys: Keys,
    /// Who vouches for accounts.
    pub account: Account,
    /// Quotas.
    pub limits: Limits,
    /// Logs.
    pub log: Log,
    /// The sales.
    #[serde(rename = "sale")]
    pub sales: Vec<Sale>,
}

/// `[public]`. Restart-only, but for `trusted_proxies` and `cors_origins`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Public {
    /// Sockets to listen on.
    #[serde(rename = "listener")]
    pub listeners: Vec<Listener>,
    /// What we answer to, port ignored; other Hosts: 421.
    pub hostnames: Vec<String>,
    /// Networks whose `Forwarded`, `X-Forwarded-For` and `-Proto` are believed.
    pub trusted_proxies: Vec<ipnet::IpNet>,
    /// Origins whose scripts may read our refusals and statuses.
    pub cors_origins: Vec<String>,
    /// The certificate of the TLS listeners.
    pub certificates: Vec<Certificate>,
}

/// `[[public.listener]]`. Restart-only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Listener {
    /// Address and port.
    pub addr: SocketAddr,
    /// Whether it speaks TLS.
    #[serde(default)]
    pub tls: bool,
}

/// One certificate. Restart-only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Certificate {
    /// PEM chain.
    pub cert_file: PathBuf,
    /// PEM key.
    pub key_file: PathBuf,
}

/// `[shop]`. Restart-only.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Shop {
    /// `http://HOST:PORT` of the shop; several: round robin.
    pub origins: Vec<String>,
    /// To connect.
    pub connect_timeout: Span,
    /// From the request's end to the response's head.
    pub response_timeout: Span,
    /// Between two pieces of a body.
    pub body_idle_timeout: Span,
    /// How long an idle connection is kept; below the shop's own keep-alive.
    pub pool_idle: Span,
    /// Environment variable whose value is sent as `Stanchion-Origin-Key`; "" = none.
    pub secret_env: String,
}

/// `[core]`. Restart-only.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Core {
    /// Where the core listens.
    pub listen: SocketAddr,
    /// Where gateways find it.
    pub url: String,
    /// Environment variable of the bearer key for reservations and reads.
    pub key_env: String,
    /// Environment variable of the Postgres URL.
    pub database_url_env: String,
    /// How often lapsed holds are swept.
    pub sweep_every: Span,
    /// How often gate and ledger are compared.
    pub reconcile_every: Span,
}

/// `[redis]`. Restart-only.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Redis {
    /// Environment variable of the Redis URL.
    pub urls_env: String,
}

/// `[ops]`. Restart-only.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Ops {
    /// Where health and metrics listen.
    pub listen: SocketAddr,
    /// Environment variable of the key for whatever changes stock or a sale.
    pub key_env: String,
}

/// `[keys]`. Restart-only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Keys {
    /// The folder of the signing keys, the same on all nodes.
    pub dir: PathBuf,
}

/// Who vouches for accounts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AccountSource {
    /// Nobody: a buyer is a place in line.
    #[default]
    None,
    /// The shop, asked with the visitor's cookies.
    ForwardAuth,
}

/// `[account]`. Restart-only.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Account {
    /// Who vouches.
    pub source: AccountSource,
    /// Where "sign in" goes.
    pub login_url: String,
    /// For `source = "forward_auth"`.
    pub forward_auth: Option<ForwardAuth>,
}

/// `account.forward_auth`. Restart-only.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ForwardAuth {
    /// Asked with the visitor's Cookie and Authorization; 200 = signed in.
    pub url: String,
    /// The answer's header that names the account.
    #[serde(default = "default_account_header")]
    pub header: String,
    /// How long an answer is remembered.
    #[serde(default = "default_account_cache")]
    pub cache: Span,
}

fn default_account_header() -> String {
    "x-account-id".to_owned()
}

const fn default_account_cache() -> Span {
    Span::seconds(60)
}

/// `[limits]`; the quotas are per node. Restart-only.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Open connections; lowered to what the file limit carries.
    pub max_connections: usize,
    /// Anonymous visitors on gated paths and joins; IPv6 by /64.
    pub per_ip: QuotaSettings,
    /// Signed-in accounts.
    pub per_account: QuotaSettings,
    /// Claims and orders of one visitor.
    pub per_admission: QuotaSettings,
    /// Status polls, by ticket and never by address.
    pub poll: QuotaSettings,
}

/// A quota as the file writes it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QuotaSettings {
    /// On average.
    pub rate: Rate,
    /// At once; at least 1.
    pub burst: u32,
}

impl From<QuotaSettings> for Quota {
    fn from(settings: QuotaSettings) -> Self {
        Self { rate: settings.rate, burst: settings.burst }
    }
}

/// How logs are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One object a line.
    Json,
}

/// `[log]`. Restart-only.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Log {
    /// Text or JSON.
    pub format: LogFormat,
}

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

/// `[[sale]]`. `rate` and `paused` are hot; the rest is restart-only for now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sale {
    /// Names the sale in paths, cookies and keys.
    pub id: SaleId,
    /// Joining begins.
    pub lobby_opens: jiff::Timestamp,
    /// The draw.
    pub opens: jiff::Timestamp,
    /// No claims and no new holds from here on.
    pub closes: jiff::Timestamp,
    /// Protected from `lobby_opens` to `closes`; a trailing `/**` = and all below.
    pub paths: Vec<String>,
    /// `METHOD /path` that pass ungated, for payment returns and webhooks.
    #[serde(default)]
    pub never_gate: Vec<String>,
    /// Protected paths before the lobby.
    #[serde(default)]
    pub before: Outside,
    /// Protected paths after the close.
    #[serde(default)]
    pub after: Outside,
    /// Only signed-in accounts may join.
    #[serde(default)]
    pub require_account: bool,
    /// Admissions per second. Hot.
    pub rate: Rate,
    /// Admissions at once after an idle moment.
    #[serde(default = "one")]
    pub burst: u32,
    /// The line stands still. Hot.
    #[serde(default)]
    pub paused: bool,
    /// Cap on open admissions; 0 = none.
    #[serde(default)]
    pub max_active: u32,
    /// How long a called visitor may take to claim.
    #[serde(default = "default_claim_window")]
    pub claim_window: Span,
    /// How long an admission lasts.
    #[serde(default = "default_token_ttl")]
    pub token_ttl: Span,
    /// Anonymous places per address (IPv6 /64); 0 = no cap.
    #[serde(default = "default_places_per_ip")]
    pub places_per_ip: u32,
    /// 0 = no cap; beyond it the page says "full".
    #[serde(default)]
    pub max_places: u64,
    /// HTTP status of the queue page: 200, 202, 429 or 503.
    #[serde(default = "default_queue_status")]
    pub queue_status: u16,
    /// What becomes of a payment after the hold's end.
    #[serde(default)]
    pub late_payment: LatePayment,
    /// How long a reservation is held.
    #[serde(default = "default_hold")]
    pub hold: Span,
    /// How much longer it may be extended in all.
    #[serde(default = "default_hold_extension")]
    pub hold_extension: Span,
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
    /// Belongs to one sale.
    pub sku: Sku,
    /// Loaded when first seen; later changes are restocks.
    pub units: u64,
    /// The most units of it that one buyer may hold and own; 0 = no cap.
    #[serde(default)]
    pub units_per_buyer: u32,
}

const fn one() -> u32 {
    1
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
