//! Rules of a node's own sections that go beyond the type of one key.

use std::collections::BTreeSet;

use http::HeaderName;
use http::uri::{Scheme, Uri};

use super::rules::Findings;
use super::settings::{
    Account, AccountSource, Core, Limits, Public, QuotaSettings, Redis, RedisMode, Settings, Shop,
};
use super::span::Span;

/// Each has a deliverer and a cursor of its own.
const WEBHOOKS_MAX: usize = 16;

/// Checks everything; what is found goes into `findings`.
pub(super) fn validate(settings: &Settings, now: jiff::Timestamp, findings: &mut Findings<'_, '_>) {
    public(&settings.public, findings);
    shop(&settings.shop, findings);
    core(&settings.core, findings);
    redis(&settings.redis, findings);
    env_name("ops.key_env", &settings.ops.key_env, findings);
    let dir = settings.keys.dir.as_os_str();
    findings.must(!dir.is_empty(), "keys.dir", "must name a folder, as \"keys\"");
    account(&settings.account, findings);
    limits(&settings.limits, findings);
    super::sales::validate(settings, now, findings);
    super::crossed::validate(settings, findings);
}

fn public(public: &Public, findings: &mut Findings<'_, '_>) {
    findings.must(
        public.stream_drain_timeout >= public.drain_timeout,
        "public.stream_drain_timeout",
        "must be no less than drain_timeout",
    );
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
        findings.must_given(
            &["public.trusted_proxies", "public.cdn"],
            !listener.proxy_protocol || super::proxies::any(public),
            &format!("public.listener[{at}].proxy_protocol"),
            "would let nobody in: name the load balancer in public.trusted_proxies",
        );
    }
    let secure =
        public.listeners.iter().any(|listener| listener.tls) || super::proxies::any(public);
    findings.must_given(
        &["public.listener", "public.trusted_proxies", "public.cdn"],
        secure || !public.redirect_https,
        "public.redirect_https",
        "would redirect for ever: nothing speaks https; add a listener with tls = true, or name \
         the proxy that does in public.trusted_proxies",
    );
    let whole = public.hsts.ms().is_multiple_of(1_000);
    findings.must(whole, "public.hsts", "must be whole seconds, as \"1d\"");
    findings.should(
        secure || public.hsts.ms() == 0,
        "public.hsts",
        "has no effect: nothing speaks https, neither a listener nor a trusted proxy",
    );
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
    super::proxies::validate(public, findings);
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
        ("shop.stream_idle_timeout", shop.stream_idle_timeout),
    ] {
        at_least(key, span, Span::millis(100), findings);
    }
    findings.must(shop.max_requests > 0, "shop.max_requests", "must be at least 1");
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
    let few = core.webhooks.len() <= WEBHOOKS_MAX;
    findings.must(few, "core.webhook", format!("must be at most {WEBHOOKS_MAX} receivers"));
    let mut taken = BTreeSet::new();
    for (at, webhook) in core.webhooks.iter().enumerate() {
        let key = format!("core.webhook[{at}]");
        let url = webhook.url.parse::<Uri>();
        findings.must(
            url.is_ok_and(|url| url.scheme() == Some(&Scheme::HTTP) && url.authority().is_some()),
            &format!("{key}.url"),
            "must be http://HOST:PORT/PATH (for a receiver behind https, put a proxy of yours between)",
        );
        let own = taken.insert(webhook.url.as_str());
        findings.must(own, &format!("{key}.url"), "is the receiver of another [[core.webhook]]");
        env_name(&format!("{key}.secret_env"), &webhook.secret_env, findings);
    }
}

fn redis(redis: &Redis, findings: &mut Findings<'_, '_>) {
    env_name("redis.urls_env", &redis.urls_env, findings);
    let sentinel = redis.mode == RedisMode::Sentinel;
    findings.must_given(
        &["redis.mode"],
        !sentinel || !redis.master.is_empty(),
        "redis.master",
        "must be the name of the primary at the Sentinels, as \"mymaster\"",
    );
    findings.must_given(
        &["redis.mode"],
        sentinel || redis.master.is_empty(),
        "redis.master",
        "is only for mode = \"sentinel\"; leave it out",
    );
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
    let signed = account.source == AccountSource::Jwt;
    findings.must_given(
        &["account.jwt"],
        !signed || account.jwt.is_some(),
        "account.source",
        "needs jwt = { cookie = \"session\", jwks_file = \"keys/jwks.json\", claim = \"sub\" }",
    );
    if let Some(jwt) = &account.jwt {
        findings.must(
            HeaderName::from_bytes(jwt.cookie.as_bytes()).is_ok(),
            "account.jwt.cookie",
            "must be the name of a cookie, as \"session\"",
        );
        let file = !jwt.jwks_file.as_os_str().is_empty();
        findings.must(file, "account.jwt.jwks_file", "must name a file with the public keys");
        let claim = !jwt.claim.is_empty();
        findings.must(claim, "account.jwt.claim", "must name a claim, as \"sub\"");
    }
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
    for (key, most) in [
        ("limits.max_connections", limits.max_connections),
        ("limits.max_connections_per_ip", limits.max_connections_per_ip),
        ("limits.max_handshakes_per_ip", limits.max_handshakes_per_ip),
        ("limits.max_spare_per_ip", limits.max_spare_per_ip),
        ("limits.max_requests_per_ip", limits.max_requests_per_ip),
        ("limits.max_requests_per_admission", limits.max_requests_per_admission),
        ("limits.max_joins_waiting", limits.max_joins_waiting),
    ] {
        findings.must(most > 0, key, "must be at least 1");
    }
    super::clients::validate(&limits.client, findings);
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
