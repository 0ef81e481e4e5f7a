//! Quotas and connections.

use serde::{Deserialize, Serialize};

use crate::config::span::Span;
use crate::domain::limits::Quota;
use crate::domain::rate::Rate;

/// `[limits]`; the quotas are per node, and begin anew when one of them is changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Open connections; lowered to what the file limit carries. Restart-only.
    pub max_connections: usize,
    /// Open connections of one address (IPv6 /64), ticket holders and trusted proxies not
    /// counted. Restart-only.
    pub max_connections_per_ip: usize,
    /// Connections of one address in a TLS handshake, trusted proxies not counted; more wait a
    /// moment for their turn. Restart-only.
    pub max_handshakes_per_ip: usize,
    /// Connections of one address past it whose first request has not been read, trusted proxies
    /// not counted; of more the oldest is closed. Restart-only.
    pub max_spare_per_ip: usize,
    /// Requests of one address under way to the shop, the admitted not counted. Restart-only.
    pub max_requests_per_ip: usize,
    /// Requests of one admitted visitor under way to the shop. Restart-only.
    pub max_requests_per_admission: usize,
    /// Joins of one sale that may wait to be written down; more are told when to come again.
    /// Restart-only.
    pub max_joins_waiting: usize,
    /// What one connection or request of a client may take.
    pub client: ClientLimits,
    /// Anonymous visitors on gated paths and joins; IPv6 by /64.
    pub per_ip: QuotaSettings,
    /// Accounts that are signed in and have no place yet.
    pub per_account: QuotaSettings,
    /// What one visitor does: claims, orders, and whatever is asked of the shop's protected paths
    /// under an admission.
    pub per_admission: QuotaSettings,
    /// What one visitor looks at: status polls and pages, by ticket and never by address.
    pub poll: QuotaSettings,
}

/// `[limits.client]`. All restart-only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ClientLimits {
    /// For the PROXY header. Restart-only.
    pub proxy_header_timeout: Span,
    /// For the TLS handshake. Restart-only.
    pub handshake_timeout: Span,
    /// From there to the first whole request head. Restart-only.
    pub first_request_timeout: Span,
    /// For each later head of HTTP/1.1, and how long an idle connection is kept. Restart-only.
    pub head_timeout: Span,
    /// The same for connections of trusted proxies. Restart-only.
    pub trusted_head_timeout: Span,
    /// How long an HTTP/2 connection that asks for nothing is kept, or up to twice that.
    /// Restart-only.
    pub h2_idle_timeout: Span,
    /// The longest pause in a request's body. Restart-only.
    pub body_idle_timeout: Span,
    /// The longest pause in taking an answer. Restart-only.
    pub write_timeout: Span,
    /// Bytes a second that make up for pauses, both ways; 0 = any byte does. Restart-only.
    pub min_rate: u32,
    /// Longest request target, in bytes; at most 65534. Restart-only.
    pub max_target_bytes: usize,
    /// Longest request head, in bytes; at least 8192. Restart-only.
    pub max_head_bytes: usize,
    /// Most header fields, HTTP/2's pieces of cookies not counted. Restart-only.
    pub max_fields: usize,
    /// Most header fields, those pieces counted. Restart-only.
    pub max_fields_and_crumbs: usize,
    /// Longest request body, in bytes. Restart-only.
    pub max_body_bytes: u64,
    /// Requests at once on an HTTP/2 connection. Restart-only.
    pub max_streams: u32,
    /// Requests after which a connection is ended softly. Restart-only.
    pub max_requests: u64,
    /// Age at which a connection is ended softly, give or take a tenth. Restart-only.
    pub max_age: Span,
    /// Upgraded connections at once, over all clients. Restart-only.
    pub max_upgraded: usize,
}

/// A quota as the file writes it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QuotaSettings {
    /// On average. Hot.
    pub rate: Rate,
    /// At once; at least 1. Hot.
    pub burst: u32,
}

impl From<QuotaSettings> for Quota {
    fn from(settings: QuotaSettings) -> Self {
        Self { rate: settings.rate, burst: settings.burst }
    }
}
