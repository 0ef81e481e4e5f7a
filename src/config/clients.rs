//! Rules of `[limits.client]`.

use super::rules::Findings;
use super::settings::ClientLimits;
use super::span::Span;
use super::validate::at_least;

/// hyper refuses longer ones before we see them.
const TARGET_BYTES_MAX: usize = 65_534;
/// hyper reads in pieces of this size.
const HEAD_BYTES_MIN: usize = 8 * 1024;

pub(super) fn validate(client: &ClientLimits, findings: &mut Findings<'_, '_>) {
    for (key, span) in [
        ("proxy_header_timeout", client.proxy_header_timeout),
        ("handshake_timeout", client.handshake_timeout),
        ("first_request_timeout", client.first_request_timeout),
        ("head_timeout", client.head_timeout),
        ("trusted_head_timeout", client.trusted_head_timeout),
        ("h2_idle_timeout", client.h2_idle_timeout),
        ("body_idle_timeout", client.body_idle_timeout),
        ("write_timeout", client.write_timeout),
        ("max_age", client.max_age),
    ] {
        at_least(&format!("limits.client.{key}"), span, Span::millis(100), findings);
    }
    for (key, some) in [
        ("max_fields", client.max_fields > 0),
        ("max_body_bytes", client.max_body_bytes > 0),
        ("max_streams", client.max_streams > 0),
        ("max_requests", client.max_requests > 0),
        ("max_upgraded", client.max_upgraded > 0),
    ] {
        findings.must(some, &format!("limits.client.{key}"), "must be at least 1");
    }
    findings.must(
        (1..=TARGET_BYTES_MAX).contains(&client.max_target_bytes),
        "limits.client.max_target_bytes",
        format!("must be from 1 to {TARGET_BYTES_MAX}"),
    );
    findings.must(
        client.max_head_bytes >= HEAD_BYTES_MIN.max(client.max_target_bytes),
        "limits.client.max_head_bytes",
        format!("must be at least {HEAD_BYTES_MIN}, and no less than max_target_bytes"),
    );
    findings.must(
        client.max_fields_and_crumbs >= client.max_fields,
        "limits.client.max_fields_and_crumbs",
        "must be no less than max_fields",
    );
}
