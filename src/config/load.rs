//! Finds the settings file and reads it: everything that is wrong comes at once.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::document::Document;
use super::problem::{Problem, Refused};
use super::rules::Findings;
use super::settings::Settings;
use super::shape::shape;
use super::validate::validate;

/// Looked for, in this order, when neither `--config` nor `STANCHION_CONFIG` says otherwise.
pub const PLACES: [&str; 2] = ["config/stanchion.toml", "/etc/stanchion/stanchion.toml"];

/// Longer than any settings; not a disk image named by mistake.
const BYTES_MAX: u64 = 1 << 20;

/// Settings that were accepted.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// From this file.
    pub file: PathBuf,
    /// Checked.
    pub settings: Settings,
    /// To be known, though accepted.
    pub warnings: Vec<Problem>,
    /// What the file's bytes are told apart by.
    pub(super) digest: [u8; 32],
}

/// The file to read: the one named, else the first that is there.
pub fn find(named: Option<&Path>) -> Result<PathBuf, Refused> {
    if let Some(named) = named {
        return Ok(named.to_owned());
    }
    let there = PLACES.iter().map(Path::new).find(|place| place.is_file());
    there.map(Path::to_owned).ok_or_else(|| {
        let cure = "is not there, nor is ./config/stanchion.toml; name a file with -c FILE";
        Refused::whole(Path::new(PLACES[1]), cure)
    })
}

/// Reads and checks a file.
pub fn load(file: &Path, now: jiff::Timestamp) -> Result<Loaded, Refused> {
    parse(file, bytes(file)?, now)
}

/// The content of a settings file, if it is of a size to be one.
pub(super) fn bytes(file: &Path) -> Result<Vec<u8>, Refused> {
    let mut bytes = vec![];
    let read = File::open(file).and_then(|file| file.take(BYTES_MAX + 1).read_to_end(&mut bytes));
    match read {
        Ok(_) if bytes.len() as u64 <= BYTES_MAX => Ok(bytes),
        Ok(_) => Err(Refused::whole(file, format!("is longer than {BYTES_MAX} bytes"))),
        Err(error) => Err(Refused::whole(file, format!("cannot be read: {error}"))),
    }
}

/// Checks the bytes of a file.
pub(super) fn parse(file: &Path, bytes: Vec<u8>, now: jiff::Timestamp) -> Result<Loaded, Refused> {
    let digest = super::reload::digest(&bytes);
    let text = String::from_utf8(bytes)
        .map_err(|_| Refused::whole(file, "is not UTF-8 text; save it as UTF-8"))?;
    match read(&text, now) {
        Ok((settings, warnings)) => {
            Ok(Loaded { file: file.to_owned(), settings, warnings, digest })
        }
        Err(problems) => Err(Refused::new(file, problems)),
    }
}

/// Reads and checks a text: settings and warnings, or every problem in the order of lines.
pub fn read(text: &str, now: jiff::Timestamp) -> Result<(Settings, Vec<Problem>), Vec<Problem>> {
    let (document, mut problems) = Document::parse(text);
    let whole = problems.is_empty();
    let shaped = shape(&document);
    let mut findings = Findings::new(&document, &shaped.repaired);
    validate(&shaped.settings, now, &mut findings);
    let (found, mut warnings) = (findings.problems, findings.warnings);
    if whole {
        problems.extend(shaped.problems);
        problems.extend(found);
    } else {
        // What stands on a broken line is missing from the values: nothing is said about that.
        let broken: Vec<usize> = problems.iter().map(|problem| problem.line).collect();
        let sound = |problem: &Problem| {
            !broken.contains(&problem.line) && !problem.message.starts_with("is missing")
        };
        problems.extend(shaped.problems.into_iter().filter(sound));
    }
    problems.sort_by_key(|problem| (problem.line, problem.column));
    warnings.sort_by_key(|problem| (problem.line, problem.column));
    if problems.is_empty() { Ok((shaped.settings, warnings)) } else { Err(problems) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: &str = "2026-12-01T12:00:00Z";
    const DEFAULT: &str = include_str!("../../config/stanchion.toml");
    const SALE: &str = include_str!("../../config/sale.example.toml");
    const DEMO: &str = include_str!("../../config/demo.toml");

    fn now() -> jiff::Timestamp {
        NOON.parse().unwrap()
    }

    /// `LINE key: message` of each.
    fn said(text: &str) -> Vec<String> {
        let problems = read(text, now()).expect_err("the settings were accepted");
        problems.iter().map(ToString::to_string).collect()
    }

    fn sale(keys: &str) -> String {
        let times = "lobby_opens = \"2027-01-01T00:00:00Z\"\nopens = \"2027-01-01T00:10:00Z\"\n\
                     closes = \"2027-01-01T01:00:00Z\"\n";
        let sku = "sku = [{ sku = \"A\", units = 5 }]\n";
        format!("[[sale]]\nid = \"a\"\npaths = [\"/checkout\"]\nrate = \"1/s\"\n{times}{sku}{keys}")
    }

    #[test]
    fn the_commented_default_says_what_the_defaults_are() {
        let (settings, warnings) = read(DEFAULT, now()).unwrap();
        assert_eq!(settings, Settings::default());
        assert!(warnings[0].message.contains("there is no [[sale]]"));
    }

    #[test]
    fn the_example_sale_names_every_key_of_a_sale() {
        let (settings, _) = read(SALE, now()).unwrap();
        let every = toml::Value::try_from(&settings.sales[0]).unwrap();
        let written: toml::Table = toml::from_str(SALE).unwrap();
        let keys =
            |value: &toml::Value| -> Vec<_> { value.as_table().unwrap().keys().cloned().collect() };
        assert_eq!(keys(&written["sale"][0]), keys(&every));
        read(DEMO, now()).unwrap();
    }

    #[test]
    fn the_warnings_say_what_a_merchant_should_know() {
        let (_, warnings) = read(SALE, now()).unwrap();
        let keys: Vec<_> = warnings.iter().map(|warning| warning.key.as_str()).collect();
        assert_eq!(keys, ["sale[0].sku[0].units", "sale[0].sku[0].units_per_buyer"]);
        assert!(warnings[0].message.contains("(5000 unit-minutes)"), "{}", warnings[0]);
    }

    #[test]
    fn all_problems_come_at_once_each_at_its_line() {
        let text = "\
[shop]
orgins = [\"http://127.0.0.1:3000\"]
connect_timeout = 3
[limits.poll]
rate = \"fast\"
[[sale]]
id = \"Spring\"
lobby_opens = \"2027-03-01T11:30:00Z\"
opens = \"tomorrow\"
paths = []
rate = \"200/s\"
require_account = \"yes\"
queue_status = 404
[[sale.sku]]
sku = \"A\"
units = -1
";
        let expected = [
            "2: shop.orgins: is not a key; did you mean origins?",
            "3: shop.connect_timeout: must be a text in quotes, as \"10s\", found integer `3`",
            "4: limits.poll.burst: is missing; add burst = 20",
            "5: limits.poll.rate: must be a number per unit of time, as \"200/s\", \"600/min\" or \"0.2/s\", above 0 and at most 1000000/s",
            "6: sale[0].closes: is missing; add closes = \"2027-03-01T14:00:00Z\"",
            "7: sale[0].id: must be 1 to 40 of a-z, 0-9 and '-', starting and ending with a letter or digit, like \"spring-drop\"; did you mean \"spring\"?",
            "9: sale[0].opens: must be a time with its offset, as \"2027-03-01T12:00:00Z\"",
            "10: sale[0].paths: protects nothing; name the checkout, as [\"/checkout\", \"/checkout/**\"]",
            "12: sale[0].require_account: must be true or false, found string \"yes\"",
            "13: sale[0].queue_status: must be 200, 202, 429 or 503",
            "16: sale[0].sku[0].units: must be a whole number, found integer `-1`",
        ];
        assert_eq!(said(text).join("\n"), expected.join("\n"));
    }

    /// The text is refused with a problem at `key` that says `cure`.
    fn refused(text: &str, key: &str, cure: &str) {
        let problems = read(text, now()).expect_err(text);
        let found = problems.iter().find(|problem| problem.key == key);
        let found =
            found.unwrap_or_else(|| panic!("{text}\nhas no problem at {key}: {problems:?}"));
        assert!(found.message.contains(cure), "{found}");
        assert!(found.line > 0);
    }

    #[test]
    #[rustfmt::skip]
    fn rules_of_a_sale_are_kept() {
        for (from, to, key, cure) in [
            ("00:10:00", "02:00:00", "closes", "after opens"),
            ("2027-01-01T00:00:00Z", "2028-01-01T00:00:00Z", "opens", "before lobby_opens"),
            ("units = 5", "units = 0", "sku[0].units", "from 1 to"),
            ("units = 5", "units = 5, shards = 65", "sku[0].shards", "from 1 to 64"),
            ("units = 5", "units = 5, shards = 0", "sku[0].shards", "from 1 to 64"),
            ("units = 5", "units = 1000000000000000", "sku[0].units", "from 1 to"),
            ("\"/checkout\"", "\"checkout\"", "paths[0]", "start with"),
            ("\"/checkout\"", "", "paths", "protects nothing"),
            ("[{ sku = \"A\", units = 5 }]", "{ sku = \"A\", units = 5 }", "sku", "[[sale.sku]]"),
            ("[{ sku = \"A\", units = 5 }]", "[]", "sku", "sells nothing"),
        ] {
            refused(&sale("").replace(from, to), &format!("sale[0].{key}"), cure);
        }
        for (line, key, cure) in [
            ("require_account = true", "require_account", "nobody could join"),
            ("burst = 0", "burst", "at least 1"),
            ("hold = \"999ms\"", "hold", "at least \"1s\""),
            ("never_gate = [\"/notify\"]", "never_gate[0]", "a method"),
            ("never_gate = [\"POST /checkout/**\"]", "never_gate", "nothing is protected"),
            ("queue_status = 302", "queue_status", "200, 202, 429 or 503"),
            ("beacon_round = 7", "beacon_round", "first round for this opening"),
        ] {
            refused(&sale(line), &format!("sale[0].{key}"), cure);
        }
    }

    #[test]
    fn rules_between_sales_are_kept() {
        let second = sale("").replace("id = \"a\"", "id = \"b\"");
        refused(&(sale("") + &sale("")), "sale[1].id", "id of another");
        refused(&(sale("") + &second), "sale[1].sku[0].sku", "belongs to one sale");
        refused(&(sale("") + &second), "sale[1].paths[0]", "protected by sale \"a\"");
    }

    #[test]
    #[rustfmt::skip]
    fn rules_of_a_node_are_kept() {
        for (text, key, cure) in [
            ("[[public.listener]]\naddr=\"[::]:443\"\ntls=true", "public.listener[0].tls", "a certificate"),
            ("public.listener = []", "public.listener", "at least one"),
            ("public.hostnames = []", "public.hostnames", "421"),
            ("public.hostnames = [\"https://a.example\"]", "public.hostnames[0]", "host name"),
            ("public.trusted_proxies = [\"0.0.0.0/0\"]", "public.trusted_proxies[0]", "believe anybody"),
            ("public.trusted_proxies = [\"::/0\"]", "public.trusted_proxies[0]", "believe anybody"),
            ("public.trusted_proxies = [3, \"::1\"]", "public.trusted_proxies[1]", "a network"),
            ("public.cdn = [{ networks = [], header = \"X-Real-IP\" }]", "public.cdn[0].networks", "at least one"),
            ("public.cdn = [{ networks = [\"::/0\"], header = \"X-Real-IP\" }]", "public.cdn[0].networks[0]", "believe anybody"),
            ("public.cdn = [{ networks = [\"::1/128\"], header = \"X-Forwarded-For\" }]", "public.cdn[0].header", "cf-connecting-ip"),
            ("public.cdn = [{ networks = [\"::1/128\"] }]", "public.cdn[0].header", "is missing"),
            ("public.cors_origins = [\"*\"]", "public.cors_origins[0]", "scheme and host"),
            ("shop.origins = [\"127.0.0.1:3000\"]", "shop.origins[0]", "http://HOST:PORT"),
            ("core.url = \"http://core:7070/\"", "core.url", "without a path"),
            ("core.sweep_every = \"0s\"", "core.sweep_every", "at least"),
            ("account.source = \"forward_auth\"", "account.source", "needs forward_auth"),
            ("redis.urls_env = \"redis://127.0.0.1\"", "redis.urls_env", "name of an environment"),
            ("limits.poll = { rate = \"1/s\", burst = 0 }", "limits.poll.burst", "at least 1"),
            ("shop = []", "shop", "must be a table"),
            ("[[public.listener]]\naddr=\"[::]:80\"\nproxy_protocol=true", "public.listener[0].proxy_protocol", "trusted_proxies"),
            ("public.redirect_https = true", "public.redirect_https", "redirect for ever"),
            ("public.hsts = \"1500ms\"", "public.hsts", "whole seconds"),
            ("public.stream_drain_timeout = \"9s\"", "public.stream_drain_timeout", "no less than"),
            ("redis.mode = \"sentinel\"", "redis.master", "the primary"),
            ("redis.master = \"mymaster\"", "redis.master", "only for mode"),
            ("redis.mode = \"fast\"", "redis.mode", "\"sentinel\" or"),
            ("account.source = \"jwt\"", "account.source", "needs jwt"),
            ("account.jwt = { cookie = \"a b\", jwks_file = \"k\" }", "account.jwt.cookie", "name of a cookie"),
            ("account.jwt = { cookie = \"a\" }", "account.jwt.jwks_file", "is missing"),
            ("core.webhook = [{ url = \"https://a\", secret_env = \"A\" }]", "core.webhook[0].url", "http://HOST"),
            ("core.webhook = [{ url = \"http://a\", secret_env = \"whsec_x=\" }]", "core.webhook[0].secret_env", "name of an environment"),
            ("core.webhook = [{ url = \"http://a/\" }]", "core.webhook[0].secret_env", "is missing"),
            ("limits.max_handshakes_per_ip = 0", "limits.max_handshakes_per_ip", "at least 1"),
            ("limits.max_spare_per_ip = 0", "limits.max_spare_per_ip", "at least 1"),
            ("limits.max_requests_per_ip = 0", "limits.max_requests_per_ip", "at least 1"),
            ("limits.max_joins_waiting = 0", "limits.max_joins_waiting", "at least 1"),
            ("limits.max_connections_per_ip = 0", "limits.max_connections_per_ip", "at least 1"),
            ("limits.client.max_age = \"0s\"", "limits.client.max_age", "at least"),
            ("limits.client.max_body_bytes = 0", "limits.client.max_body_bytes", "at least 1"),
            ("limits.client.max_head_bytes = 99", "limits.client.max_head_bytes", "at least 8192"),
            ("limits.client.max_fields = 201", "limits.client.max_fields_and_crumbs", "no less than"),
            ("limits.client.max_target_bytes = 0", "limits.client.max_target_bytes", "from 1 to"),
            ("shop.max_requests = 0", "shop.max_requests", "at least 1"),
            ("sale = 3", "sale", "[[sale]]"),
            ("\"core.url\" = 3\nshop.pool_idle = 3", "shop.pool_idle", "in quotes"),
            ("\"core.url\" = 3\nshop.pool_idle = 3", "core.url", "not a key"),
        ] {
            refused(text, key, cure);
        }
    }

    #[test]
    fn nothing_is_said_that_rests_on_what_could_not_be_read() {
        let unreadable = sale("").replace("opens = \"2027-01-01T00:10:00Z\"", "opens = \"9999\"");
        assert_eq!(said(&unreadable).len(), 1, "{:?}", said(&unreadable));
        let broken = sale("").replace("rate = \"1/s\"", "rate = ");
        assert_eq!(said(&broken).len(), 1, "{:?}", said(&broken));
    }

    #[test]
    fn times_may_be_written_without_quotes() {
        let bare = sale("").replace("\"2027-01-01T00:10:00Z\"", "2027-01-01T00:10:00Z");
        assert_eq!(read(&bare, now()).unwrap().0, read(&sale(""), now()).unwrap().0);
    }
}
