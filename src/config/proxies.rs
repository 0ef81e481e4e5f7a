//! Rules of whom the edge believes: `public.trusted_proxies` and `[[public.cdn]]`.

use super::rules::Findings;
use super::settings::Public;
use crate::domain::client_header::{CLIENT_HEADERS, names_a_client};

pub(super) fn validate(public: &Public, findings: &mut Findings<'_, '_>) {
    networks("public.trusted_proxies", &public.trusted_proxies, findings);
    for (at, cdn) in public.cdns.iter().enumerate() {
        let key = format!("public.cdn[{at}].networks");
        let some = !cdn.networks.is_empty();
        findings.must(some, &key, "must be at least one, as published by the CDN");
        networks(&key, &cdn.networks, findings);
        findings.must(
            names_a_client(&cdn.header),
            &format!("public.cdn[{at}].header"),
            format!(
                "must be one of {}; for X-Forwarded-For use public.trusted_proxies",
                CLIENT_HEADERS.join(", ")
            ),
        );
    }
}

fn networks(key: &str, networks: &[ipnet::IpNet], findings: &mut Findings<'_, '_>) {
    for (at, network) in networks.iter().enumerate() {
        findings.must(
            network.prefix_len() > 0,
            &format!("{key}[{at}]"),
            "would believe anybody who claims another address; name your proxies' networks",
        );
    }
}

/// Whether anybody is believed at all.
pub(super) fn any(public: &Public) -> bool {
    !public.trusted_proxies.is_empty() || !public.cdns.is_empty()
}
