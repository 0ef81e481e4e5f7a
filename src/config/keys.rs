//! What a change of each key does to a node that runs: the table that reload goes by, so that it
//! cannot say one thing and do another. A key without a row is refused by `tests/tidy.rs`.

use std::fmt;

use Effect::{Hot, Refused, Restart, UntilDraw};

/// What becomes of a key that differs between the file and the running node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effect {
    /// In force on every node within a second.
    Hot,
    /// Hot until the sale is drawn, refused afterwards.
    UntilDraw,
    /// Read when a node starts.
    Restart,
    /// Refused while the sale is on, from its lobby to its close; otherwise read at a start.
    Refused,
}

impl Effect {
    /// Its word in doc comments, logs and on the command line.
    pub const fn words(self) -> &'static str {
        match self {
            Hot => "hot",
            UntilDraw => "hot until the draw",
            Restart => "restart-only",
            Refused => "refused during a sale",
        }
    }
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.words())
    }
}

/// A row for every key; `sale` and `sale.sku` stand for a sale or SKU that comes or goes.
pub const KEYS: &[(&str, Effect)] = &[
    ("public.listener.addr", Restart),
    ("public.listener.tls", Restart),
    ("public.listener.proxy_protocol", Restart),
    ("public.hostnames", Restart),
    ("public.trusted_proxies", Hot),
    ("public.cdn.networks", Hot),
    ("public.cdn.header", Hot),
    ("public.cors_origins", Hot),
    ("public.certificates.cert_file", Hot),
    ("public.certificates.key_file", Hot),
    ("public.redirect_https", Restart),
    ("public.drain_timeout", Restart),
    ("public.stream_drain_timeout", Restart),
    ("public.hsts", Restart),
    ("shop.origins", Restart),
    ("shop.connect_timeout", Restart),
    ("shop.response_timeout", Restart),
    ("shop.body_idle_timeout", Restart),
    ("shop.stream_idle_timeout", Restart),
    ("shop.max_requests", Restart),
    ("shop.pool_idle", Restart),
    ("shop.secret_env", Restart),
    ("shop.http2", Restart),
    ("core.listen", Restart),
    ("core.url", Restart),
    ("core.key_env", Restart),
    ("core.database_url_env", Restart),
    ("core.sweep_every", Restart),
    ("core.reconcile_every", Restart),
    ("core.accept_lost_commits", Restart),
    ("core.webhook.url", Restart),
    ("core.webhook.secret_env", Restart),
    ("redis.mode", Restart),
    ("redis.urls_env", Restart),
    ("redis.master", Restart),
    ("ops.listen", Restart),
    ("ops.key_env", Restart),
    ("keys.dir", Restart),
    ("account.source", Restart),
    ("account.login_url", Restart),
    ("account.forward_auth.url", Restart),
    ("account.forward_auth.header", Restart),
    ("account.forward_auth.cache", Restart),
    ("account.jwt.cookie", Restart),
    ("account.jwt.jwks_file", Restart),
    ("account.jwt.claim", Restart),
    ("limits.max_connections", Restart),
    ("limits.max_connections_per_ip", Restart),
    ("limits.max_handshakes_per_ip", Restart),
    ("limits.max_spare_per_ip", Restart),
    ("limits.max_requests_per_ip", Restart),
    ("limits.max_requests_per_admission", Restart),
    ("limits.max_joins_waiting", Restart),
    ("limits.client.proxy_header_timeout", Restart),
    ("limits.client.handshake_timeout", Restart),
    ("limits.client.first_request_timeout", Restart),
    ("limits.client.head_timeout", Restart),
    ("limits.client.trusted_head_timeout", Restart),
    ("limits.client.h2_idle_timeout", Restart),
    ("limits.client.body_idle_timeout", Restart),
    ("limits.client.write_timeout", Restart),
    ("limits.client.min_rate", Restart),
    ("limits.client.max_target_bytes", Restart),
    ("limits.client.max_head_bytes", Restart),
    ("limits.client.max_fields", Restart),
    ("limits.client.max_fields_and_crumbs", Restart),
    ("limits.client.max_body_bytes", Restart),
    ("limits.client.max_streams", Restart),
    ("limits.client.max_requests", Restart),
    ("limits.client.max_age", Restart),
    ("limits.client.max_upgraded", Restart),
    ("limits.per_ip.rate", Hot),
    ("limits.per_ip.burst", Hot),
    ("limits.per_account.rate", Hot),
    ("limits.per_account.burst", Hot),
    ("limits.per_admission.rate", Hot),
    ("limits.per_admission.burst", Hot),
    ("limits.poll.rate", Hot),
    ("limits.poll.burst", Hot),
    ("log.format", Restart),
    ("sale", Restart),
    ("sale.id", Restart),
    ("sale.lobby_opens", UntilDraw),
    ("sale.opens", UntilDraw),
    ("sale.closes", UntilDraw),
    ("sale.paths", Restart),
    ("sale.never_gate", Restart),
    ("sale.before", Restart),
    ("sale.after", Restart),
    ("sale.require_account", Restart),
    ("sale.rate", Hot),
    ("sale.burst", Hot),
    ("sale.paused", Hot),
    ("sale.max_active", Hot),
    ("sale.claim_window", Hot),
    ("sale.token_ttl", Restart),
    ("sale.places_per_ip", Restart),
    ("sale.max_places", Restart),
    ("sale.stock_aware", Restart),
    ("sale.queue_status", Restart),
    ("sale.late_payment", Restart),
    ("sale.hold", Restart),
    ("sale.hold_extension", Restart),
    ("sale.retention", Restart),
    ("sale.beacon_round", Refused),
    ("sale.sku", Refused),
    ("sale.sku.sku", Refused),
    ("sale.sku.units", Refused),
    ("sale.sku.units_per_buyer", Refused),
    ("sale.sku.shards", Refused),
];

/// What a change at this path does, as `sale[0].rate`; of a whole table the strictest of its rows.
pub(super) fn effect(path: &str) -> Effect {
    let mut plain = String::with_capacity(path.len());
    let mut inside = false;
    for c in path.chars() {
        match c {
            '[' => inside = true,
            ']' => inside = false,
            c if !inside => plain.push(c),
            _ => {}
        }
    }
    let exact = KEYS.iter().find(|(key, _)| *key == plain);
    let below = |key: &str| key.strip_prefix(&plain).is_some_and(|rest| rest.starts_with('.'));
    if let Some((_, effect)) = exact {
        return *effect;
    }
    let below = KEYS.iter().filter(|(key, _)| below(key)).map(|(_, effect)| *effect);
    below.max().unwrap_or(Restart)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_found_by_its_path_and_a_table_is_as_strict_as_what_is_in_it() {
        assert_eq!(effect("sale[3].rate"), Hot);
        assert_eq!(effect("sale[0].sku[1].units"), Refused);
        assert_eq!(effect("sale[1]"), Restart);
        assert_eq!(effect("sale[1].sku"), Refused);
        assert_eq!(effect("account.forward_auth"), Restart);
    }

    #[test]
    fn no_key_has_two_rows() {
        let unique: std::collections::BTreeSet<_> = KEYS.iter().map(|(key, _)| key).collect();
        assert_eq!(unique.len(), KEYS.len());
    }
}
