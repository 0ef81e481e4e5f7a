//! Quotas and connections.

use serde::{Deserialize, Serialize};

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
    /// Connections of one address whose first request has not been read, trusted proxies not
    /// counted. Restart-only.
    pub max_handshakes_per_ip: usize,
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
