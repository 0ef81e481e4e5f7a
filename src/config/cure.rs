//! What serde said, in words of the file, with what to write instead.

use super::suggest::nearest;

/// The message for a key.
pub(super) fn cure(key: &str, said: &str) -> String {
    if let Some(rest) = said.strip_prefix("unknown field `") {
        return unknown(rest);
    }
    let last = key.rsplit('.').next().unwrap_or(key);
    if said.starts_with("missing field") {
        return format!("is missing; add {}", example(last));
    }
    let is_list = said.ends_with("expected a sequence");
    if let Some(form) = form(last.split('[').next().unwrap_or(last)).filter(|_| !is_list) {
        return format!("must be {form}");
    }
    let found = said.strip_prefix("invalid type: ").or(said.strip_prefix("invalid value: "));
    match found.and_then(|rest| rest.split_once(", expected ")) {
        Some((found, "u16" | "u32" | "u64" | "usize")) => {
            format!("must be a whole number, found {found}")
        }
        Some((found, "a string")) => {
            format!("must be a text in quotes, as {}, found {found}", example(last))
        }
        Some((found, "a boolean")) => format!("must be true or false, found {found}"),
        Some((found, "a sequence"))
            if matches!(last, "sale" | "sku" | "listener" | "webhook" | "cdn") =>
        {
            let name = if last == "sku" { "sale.sku" } else { key };
            format!("must be written [[{name}]], found {found}")
        }
        Some((found, "a sequence")) => format!("must be a list in [ ], found {found}"),
        Some((found, _)) => format!("must be a table, found {found}"),
        None => said.to_owned(),
    }
}

/// The only form of the value of some keys.
fn form(key: &str) -> Option<&'static str> {
    Some(match key {
        "lobby_opens" | "opens" | "closes" => "a time with its offset, as \"2027-03-01T12:00:00Z\"",
        "addr" | "listen" => "an address and a port, as \"127.0.0.1:8080\"",
        "trusted_proxies" | "networks" => "a network, as \"10.0.0.0/8\" or \"192.0.2.1/32\"",
        "source" => "\"none\", \"forward_auth\" or \"jwt\"",
        "format" => "\"text\" or \"json\"",
        "before" | "after" => "\"pass\" or \"gate\"",
        "late_payment" => "\"refuse\" or \"honour\"",
        "mode" => "\"single\", \"sentinel\" or \"cluster\"",
        _ => return None,
    })
}

fn example(key: &str) -> &'static str {
    match key {
        "id" => "id = \"spring-drop\"",
        "lobby_opens" => "lobby_opens = \"2027-03-01T11:30:00Z\"",
        "opens" => "opens = \"2027-03-01T12:00:00Z\"",
        "closes" => "closes = \"2027-03-01T14:00:00Z\"",
        "paths" => "paths = [\"/checkout\", \"/checkout/**\"]",
        "rate" => "rate = \"200/s\"",
        "burst" => "burst = 20",
        "sku" => "[[sale.sku]] with sku = \"SKU-FLASH-01\"",
        "units" => "units = 500",
        "addr" | "listen" => "addr = \"0.0.0.0:8080\"",
        "url" => "url = \"http://127.0.0.1:3000\"",
        "hold" | "claim_window" | "token_ttl" | "hold_extension" | "retention" => "\"10m\"",
        "sweep_every" | "reconcile_every" | "cache" | "hsts" => "\"30s\"",
        "connect_timeout" | "response_timeout" | "body_idle_timeout" | "pool_idle" => "\"10s\"",
        "cert_file" => "cert_file = \"tls/cert.pem\"",
        "key_file" => "key_file = \"tls/key.pem\"",
        "secret_env" => "secret_env = \"WEBHOOK_SECRET\"",
        "cookie" => "cookie = \"session\"",
        "jwks_file" => "jwks_file = \"keys/jwks.json\"",
        _ => "\"…\"",
    }
}

fn unknown(rest: &str) -> String {
    let mut words = rest.split('`').step_by(2);
    let found = words.next().unwrap_or_default();
    let known: Vec<&str> = rest.split('`').skip(2).step_by(2).collect();
    match nearest(found, known.iter().copied()) {
        Some(key) => format!("is not a key; did you mean {key}?"),
        None => format!("is not a key; those here are {}", known.join(", ")),
    }
}
