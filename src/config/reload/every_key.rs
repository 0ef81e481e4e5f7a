//! One test for each key: changed in the file, the node does what the table says of it.

use std::collections::BTreeSet;

use toml::Value;

use super::{Look, Watcher};
use crate::config::keys::{Effect, KEYS, effect};
use crate::config::load::load;
use crate::config::settings::Settings;

const EXAMPLE: &str = include_str!("../../../config/sale.example.toml");

/// Every optional table and a list element for every list of tables.
const MORE: &str = r#"
[[public.listener]]
addr = "127.0.0.1:8443"
tls = true
[public]
certificates = [{ cert_file = "cert.pem", key_file = "key.pem" }]
trusted_proxies = ["10.0.0.0/8"]
cdn = [{ networks = ["192.0.2.0/24"], header = "X-Real-IP" }]
[[core.webhook]]
url = "http://shop.internal/events"
secret_env = "WEBHOOK_SECRET"
[redis]
mode = "cluster"
[account]
source = "jwt"
forward_auth = { url = "http://127.0.0.1:3000/whoami" }
jwt = { cookie = "session", jwks_file = "jwks.json" }
"#;

/// When the example sale is on: between its lobby and its draw.
const LOBBY: &str = "2027-03-01T11:45:00Z";
/// And long before.
const BEFORE: &str = "2026-12-01T12:00:00Z";

fn at(time: &str) -> jiff::Timestamp {
    time.parse().unwrap()
}

/// The path's place in the first element of every list of tables on the way.
fn set(root: &mut Value, path: &str, value: &Value) {
    let (parent, last) = path.rsplit_once('.').unwrap();
    let table = parent.split('.').fold(root, |at, step| {
        let at = at.get_mut(step).unwrap();
        if at.is_array() { at.get_mut(0).unwrap() } else { at }
    });
    table.as_table_mut().unwrap().insert(last.to_owned(), value.clone());
}

fn base(given: &[(&str, Value)]) -> Value {
    let mut settings: toml::Table = EXAMPLE.parse().unwrap();
    settings.extend(MORE.parse::<toml::Table>().unwrap());
    let settings: Settings = Value::Table(settings).try_into().unwrap();
    let mut base = Value::try_from(settings).unwrap();
    for (path, value) in given {
        set(&mut base, path, value);
    }
    base
}

fn text(value: &Value) -> String {
    toml::to_string(value).unwrap()
}

/// Changes one key in the file of a node that runs, and says what the node makes of it.
fn look(
    path: &str,
    value: &Value,
    given: &[(&str, Value)],
    now: &str,
) -> (Settings, Look, Watcher) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("stanchion.toml");
    let mut changed = base(given);
    std::fs::write(&file, text(&changed)).unwrap();
    let loaded = load(&file, at(now)).unwrap_or_else(|refused| panic!("{refused}"));
    let mut watcher = Watcher::new(&loaded);
    set(&mut changed, path, value);
    std::fs::write(&file, text(&changed)).unwrap();
    assert!(matches!(watcher.look(at(now)), Look::Unsettled));
    let look = watcher.look(at(now));
    (loaded.settings, look, watcher)
}

fn check(path: &str, value: impl Into<Value>, given: &[(&str, Value)]) {
    let value = value.into();
    let listed = effect(path);
    let (before, looked, watcher) = look(path, &value, given, LOBBY);
    let Look::Good(diff) = looked else { panic!("{path}: {looked:?}") };
    let running = watcher.settings();

    // Another id is another sale, and another SKU another SKU: the old one goes, a new one comes.
    let renamed = matches!(path, "sale.id" | "sale.sku.sku");
    assert_eq!(diff.differences.len(), 1 + usize::from(renamed), "{path}: {diff:?}");
    let difference = &diff.differences[0];
    assert!(difference.effect == listed || renamed, "{path}: {difference:?}");
    let in_sale = path.starts_with("sale.");
    if matches!(listed, Effect::Hot | Effect::UntilDraw) {
        assert_ne!(*running, before, "{path} is not in force");
        assert_eq!(diff.changes.len(), usize::from(in_sale), "{path} is not published");
        assert_eq!(diff.node, !in_sale, "{path}");
        let key = path.rsplit('.').next().unwrap();
        assert!(diff.changes.iter().all(|change| change.keys() == [key]), "{path}");
    } else {
        assert_eq!(*running, before, "{path} is in force");
        assert!(diff.changes.is_empty() && !diff.node, "{path}");
    }
    if listed == Effect::Refused {
        let (_, looked, _) = look(path, &value, given, BEFORE);
        let Look::Good(diff) = looked else { panic!("{path}: {looked:?}") };
        assert_eq!(diff.differences[0].effect, Effect::Restart, "{path}: nothing is on yet");
    }
}

macro_rules! every_key {
    ([$($name:ident $path:literal $(given $($key:literal = $given:expr),+)? => $value:expr;)*]) => {
        $(#[test] fn $name() {
            check($path, $value, &[$($(($key, Value::from($given))),+)?]);
        })*
        const TESTED: &[&str] = &[$($path,)*];
    };
}

every_key! {[
    public_listener_addr "public.listener.addr" => "127.0.0.1:8444";
    public_listener_tls "public.listener.tls" => false;
    public_listener_proxy_protocol "public.listener.proxy_protocol" => true;
    public_hostnames "public.hostnames" => vec!["shop.example"];
    public_trusted_proxies "public.trusted_proxies" => vec!["192.0.2.0/24"];
    public_cdn_networks "public.cdn.networks" => vec!["198.51.100.0/24"];
    public_cdn_header "public.cdn.header" => "CF-Connecting-IP";
    public_cors_origins "public.cors_origins" => vec!["https://shop.example"];
    public_certificates_cert_file "public.certificates.cert_file" => "other.pem";
    public_certificates_key_file "public.certificates.key_file" => "other.pem";
    public_redirect_https "public.redirect_https" => true;
    public_drain_timeout "public.drain_timeout" => "7s";
    public_stream_drain_timeout "public.stream_drain_timeout" => "70s";
    public_hsts "public.hsts" => "1d";
    shop_origins "shop.origins" => vec!["http://127.0.0.1:3001"];
    shop_connect_timeout "shop.connect_timeout" => "4s";
    shop_response_timeout "shop.response_timeout" => "4s";
    shop_body_idle_timeout "shop.body_idle_timeout" => "4s";
    shop_stream_idle_timeout "shop.stream_idle_timeout" => "5m";
    shop_max_requests "shop.max_requests" => 7;
    shop_pool_idle "shop.pool_idle" => "5s";
    shop_http2 "shop.http2" => true;
    shop_secret_env "shop.secret_env" => "SHOP_SECRET";
    core_listen "core.listen" => "127.0.0.1:7171";
    core_url "core.url" => "http://127.0.0.1:7171";
    core_key_env "core.key_env" => "OTHER";
    core_database_url_env "core.database_url_env" => "OTHER";
    core_sweep_every "core.sweep_every" => "10s";
    core_reconcile_every "core.reconcile_every" => "10s";
    core_accept_lost_commits "core.accept_lost_commits" => true;
    core_webhook_url "core.webhook.url" => "http://shop.internal/other";
    core_webhook_secret_env "core.webhook.secret_env" => "OTHER";
    redis_mode "redis.mode" => "single";
    redis_urls_env "redis.urls_env" => "OTHER";
    redis_master "redis.master" given "redis.mode" = "sentinel", "redis.master" = "a" => "b";
    ops_listen "ops.listen" => "127.0.0.1:9191";
    ops_key_env "ops.key_env" => "OTHER";
    keys_dir "keys.dir" => "other";
    account_source "account.source" => "forward_auth";
    account_login_url "account.login_url" => "/sign-in";
    account_forward_auth_url "account.forward_auth.url" => "http://127.0.0.1:3000/me";
    account_forward_auth_header "account.forward_auth.header" => "x-me";
    account_forward_auth_cache "account.forward_auth.cache" => "5s";
    account_jwt_cookie "account.jwt.cookie" => "other";
    account_jwt_jwks_file "account.jwt.jwks_file" => "other.json";
    account_jwt_claim "account.jwt.claim" => "email";
    limits_max_connections "limits.max_connections" => 7;
    limits_max_connections_per_ip "limits.max_connections_per_ip" => 7;
    limits_max_handshakes_per_ip "limits.max_handshakes_per_ip" => 7;
    limits_max_spare_per_ip "limits.max_spare_per_ip" => 7;
    limits_max_requests_per_ip "limits.max_requests_per_ip" => 7;
    limits_max_requests_per_admission "limits.max_requests_per_admission" => 7;
    limits_max_joins_waiting "limits.max_joins_waiting" => 7;
    limits_client_proxy_header_timeout "limits.client.proxy_header_timeout" => "7s";
    limits_client_handshake_timeout "limits.client.handshake_timeout" => "7s";
    limits_client_first_request_timeout "limits.client.first_request_timeout" => "7s";
    limits_client_head_timeout "limits.client.head_timeout" => "7s";
    limits_client_trusted_head_timeout "limits.client.trusted_head_timeout" => "7s";
    limits_client_h2_idle_timeout "limits.client.h2_idle_timeout" => "7s";
    limits_client_body_idle_timeout "limits.client.body_idle_timeout" => "7s";
    limits_client_write_timeout "limits.client.write_timeout" => "7s";
    limits_client_min_rate "limits.client.min_rate" => 7;
    limits_client_max_target_bytes "limits.client.max_target_bytes" => 700;
    limits_client_max_head_bytes "limits.client.max_head_bytes" => 70_000;
    limits_client_max_fields "limits.client.max_fields" => 70;
    limits_client_max_fields_and_crumbs "limits.client.max_fields_and_crumbs" => 700;
    limits_client_max_body_bytes "limits.client.max_body_bytes" => 7;
    limits_client_max_streams "limits.client.max_streams" => 7;
    limits_client_max_requests "limits.client.max_requests" => 7;
    limits_client_max_age "limits.client.max_age" => "7s";
    limits_client_max_upgraded "limits.client.max_upgraded" => 7;
    limits_per_ip_rate "limits.per_ip.rate" => "7/s";
    limits_per_ip_burst "limits.per_ip.burst" => 7;
    limits_per_account_rate "limits.per_account.rate" => "7/s";
    limits_per_account_burst "limits.per_account.burst" => 7;
    limits_per_admission_rate "limits.per_admission.rate" => "7/s";
    limits_per_admission_burst "limits.per_admission.burst" => 7;
    limits_poll_rate "limits.poll.rate" => "7/s";
    limits_poll_burst "limits.poll.burst" => 7;
    log_format "log.format" => "json";
    sale_id "sale.id" => "summer-drop";
    sale_lobby_opens "sale.lobby_opens" => "2027-03-01T11:31:00Z";
    sale_opens "sale.opens" => "2027-03-01T12:01:00Z";
    sale_closes "sale.closes" => "2027-03-01T14:01:00Z";
    sale_paths "sale.paths" => vec!["/buy"];
    sale_never_gate "sale.never_gate" => vec!["POST /notify"];
    sale_before "sale.before" => "gate";
    sale_after "sale.after" => "gate";
    sale_require_account "sale.require_account" => true;
    sale_rate "sale.rate" => "7/s";
    sale_burst "sale.burst" => 7;
    sale_paused "sale.paused" => true;
    sale_max_active "sale.max_active" => 7;
    sale_claim_window "sale.claim_window" => "7s";
    sale_token_ttl "sale.token_ttl" => "70s";
    sale_places_per_ip "sale.places_per_ip" => 7;
    sale_max_places "sale.max_places" => 7;
    sale_stock_aware "sale.stock_aware" => false;
    sale_queue_status "sale.queue_status" => 503;
    sale_late_payment "sale.late_payment" => "honour";
    sale_hold "sale.hold" => "7m";
    sale_hold_extension "sale.hold_extension" => "7m";
    sale_retention "sale.retention" => "7d";
    sale_beacon_round "sale.beacon_round" => 90_000_000;
    sale_sku_sku "sale.sku.sku" => "OTHER";
    sale_sku_units "sale.sku.units" => 7;
    sale_sku_units_per_buyer "sale.sku.units_per_buyer" => 7;
    sale_sku_shards "sale.sku.shards" => 7;
]}

#[test]
fn every_row_of_the_table_is_tested() {
    let rows = KEYS.iter().map(|(key, _)| *key).filter(|key| !matches!(*key, "sale" | "sale.sku"));
    assert_eq!(rows.collect::<BTreeSet<_>>(), TESTED.iter().copied().collect());
}

#[test]
fn sales_and_skus_in_another_order_are_no_difference() {
    let second = |name: &str, path: &str| {
        EXAMPLE
            .replace("spring-drop", name)
            .replace("SKU-FLASH-01", &name.to_uppercase())
            .replace("/checkout", path)
    };
    let (a, b) = (second("a", "/a"), second("b", "/b"));
    let read = |text: String| crate::config::load::read(&text, at(BEFORE)).unwrap().0;
    let (one, other) = (read(a.clone() + &b), read(b + &a));
    assert!(super::diff(&one, &other, at(BEFORE)).is_empty());
    assert_eq!(super::version(&one), super::version(&other));
}
