//! Rules of a node's own sections that go beyond the type of one key.

use std::collections::BTreeSet;

use http::HeaderName;
use http::uri::{Scheme, Uri};

use super::rules::Findings;
use super::settings::{
    Account, AccountSource, Core, Limits, Public, QuotaSettings, Settings, Shop,
};
use super::span::Span;

/// Checks everything; what is found goes into `findings`.
pub(super) fn validate(settings: &Settings, now: jiff::Timestamp, findings: &mut Findings<'_, '_>) {
    public(&settings.public, findings);
    shop(&settings.shop, findings);
    core(&settings.core, findings);
    env_name("redis.urls_env", &settings.redis.urls_env, findings);
    env_name("ops.key_env", &settings.ops.key_env, findings);
    let dir = settings.keys.dir.as_os_str();
    findings.must(!dir.is_empty(), "keys.dir", "must name a folder, as \"keys\"");
    account(&settings.account, findings);
    limits(&settings.limits, findings);
    super::sales::validate(settings, now, findings);
}

fn public(public: &Public, findings: &mut Findings<'_, '_>) {
    let some = !public.listeners.is_empty();
    findings.must(some, "public.listener", "must be at least one: [[public.listener]]");
    let mut taken = BTreeSet::new();
    for (at, listener) in public.listeners.iter().enumerate() {
        let key = format!("public.listener[{at}].addr");
        let own = listener.addr.port() == 0 || taken.insert(listener.addr);
        findings.must(own, &key, "is the address of another listener; choose another port");
        findings.must_given(
            &["public.certificates"],
            !listener.tls || !public.certificates.is_empty(),
            &format!("public.listener[{at}].tls"),
            "needs a certificate: public.certificates = [{ cert_file = \"…\", key_file = \"…\" }]",
        );
    }
    let some = !public.hostnames.is_empty();
    findings.must(
        some,
        "public.hostnames",
        "must name the host that shoppers type, or all get 421",
    );
    for (at, name) in public.hostnames.iter().enumerate() {
        findings.must(
            is_hostname(name),
            &format!("public.hostnames[{at}]"),
            "must be a host name in ASCII without scheme, port or path, as \"shop.example\"",
        );
    }
    for (at, network) in public.trusted_proxies.iter().enumerate() {
        findings.must(
            network.prefix_len() > 0,
            &format!("public.trusted_proxies[{at}]"),
            "would believe anybody who claims another address; name your proxies' networks",
        );
    }
    for (at, origin) in public.cors_origins.iter().enumerate() {
        findings.must(
            is_origin(origin, &["http", "https"]),
            &format!("public.cors_origins[{at}]"),
            "must be scheme and host without a path, as \"https://shop.example\"",
        );
    }
}

fn shop(shop: &Shop, findings: &mut Findings<'_, '_>) {
    let some = !shop.origins.is_empty();
    findings.must(some, "shop.origins", "must name the shop, as [\"http://127.0.0.1:3000\"]");
    for (at, origin) in shop.origins.iter().enumerate() {
        findings.must(
            is_origin(origin, &["http"]),
            &format!("shop.origins[{at}]"),
            "must be http://HOST:PORT without a path (https to the shop is not supported yet)",
        );
    }
    for (key, span) in [
        ("shop.connect_timeout", shop.connect_timeout),
        ("shop.response_timeout", shop.response_timeout),
        ("shop.body_idle_timeout", shop.body_idle_timeout),
    ] {
        at_least(key, span, Span::millis(100), findings);
    }
    if !shop.secret_env.is_empty() {
        env_name("shop.secret_env", &shop.secret_env, findings);
    }
}

fn core(core: &Core, findings: &mut Findings<'_, '_>) {
    findings.must(
        core.url.split(',').all(|url| is_origin(url.trim(), &["http"])),
        "core.url",
        "must be http://HOST:PORT without a path (or several, separated by commas)",
    );
    env_name("core.key_env", &core.key_env, findings);
    env_name("core.database_url_env", &core.database_url_env, findings);
    at_least("core.sweep_every", core.sweep_every, Span::millis(100), findings);
    at_least("core.reconcile_every", core.reconcile_every, Span::millis(100), findings);
}

fn account(account: &Account, findings: &mut Findings<'_, '_>) {
    let asks = account.source == AccountSource::ForwardAuth;
    findings.must_given(
        &["account.forward_auth"],
        !asks || account.forward_auth.is_some(),
        "account.source",
        "needs forward_auth = { url = \"http://127.0.0.1:3000/whoami\", header = \"x-account-id\" }",
    );
    let login = &account.login_url;
    let goes = login.starts_with('/') && !login.starts_with("//")
        || login.starts_with("https://")
        || login.starts_with("http://");
    findings.must(
        goes && login.bytes().all(|b| b.is_ascii_graphic()),
        "account.login_url",
        "must be a path as \"/login\" or a full URL",
    );
    let Some(forward_auth) = &account.forward_auth else { return };
    let url = forward_auth.url.parse::<Uri>();
    findings.must(
        url.is_ok_and(|url| url.scheme() == Some(&Scheme::HTTP) && url.authority().is_some()),
        "account.forward_auth.url",
        "must be http://HOST:PORT/PATH of the shop's answer to who is signed in",
    );
    findings.must(
        HeaderName::from_bytes(forward_auth.header.as_bytes()).is_ok(),
        "account.forward_auth.header",
        "must be a header name, as \"x-account-id\"",
    );
}

fn limits(limits: &Limits, findings: &mut Findings<'_, '_>) {
    let some = limits.max_connections > 0;
    findings.must(some, "limits.max_connections", "must be at least 1");
    let quota = |key: &str, quota: QuotaSettings, findings: &mut Findings<'_, '_>| {
        let key = format!("limits.{key}.burst");
        findings.must(quota.burst > 0, &key, "must be at least 1, or nothing would ever pass");
    };
    quota("per_ip", limits.per_ip, findings);
    quota("per_account", limits.per_account, findings);
    quota("per_admission", limits.per_admission, findings);
    quota("poll", limits.poll, findings);
}

/// A span that may not be shorter than `min`.
pub(super) fn at_least(key: &str, span: Span, min: Span, findings: &mut Findings<'_, '_>) {
    findings.must(span >= min, key, format!("must be at least \"{min}\""));
}

fn env_name(key: &str, name: &str, findings: &mut Findings<'_, '_>) {
    let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    let first = name.bytes().next().is_some_and(|b| !b.is_ascii_digit());
    findings.must(
        first && name.bytes().all(word),
        key,
        "must be the name of an environment variable (the secret itself does not belong here)",
    );
}

fn is_hostname(name: &str) -> bool {
    let label = |label: &str| {
        let edge = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_alphanumeric());
        label.len() <= 63
            && edge(label.bytes().next())
            && edge(label.bytes().last())
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
    };
    let bracketed = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    match bracketed {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => name.len() <= 253 && name.split('.').all(label),
    }
}

/// `scheme://host[:port]` and nothing more.
fn is_origin(raw: &str, schemes: &[&str]) -> bool {
    let Some((scheme, rest)) = raw.split_once("://") else { return false };
    let bare = !rest.is_empty() && !rest.contains(['/', '?', '#', '@']);
    schemes.contains(&scheme) && bare && rest.parse::<http::uri::Authority>().is_ok()
}
