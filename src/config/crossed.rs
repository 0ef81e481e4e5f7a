//! Settings that are right each by itself and lead in a circle together.

use http::Method;

use super::rules::Findings;
use super::settings::{AccountSource, Sale, Settings};
use crate::domain::path::Canonical;
use crate::domain::pattern::{Pattern, Rule};

/// What others than shoppers fetch, where a queue page in place of it does harm.
const FETCHED: [&str; 2] = ["/robots.txt", "/.well-known/acme-challenge/**"];

/// Checks.
pub(super) fn validate(settings: &Settings, findings: &mut Findings<'_, '_>) {
    shop_is_not_us(settings, findings);
    let login = login_path(settings);
    for (at, sale) in settings.sales.iter().enumerate() {
        let (gate, key) = (Gate::of(sale), format!("sale[{at}].never_gate"));
        if let Some(path) = login.as_ref().filter(|path| gate.keeps(path)) {
            let cure = format!(
                "must let people sign in, or they would wait for it in the line that asks for it: \
                 add \"GET {path}\" and \"POST {path}\"",
                path = path.as_str(),
            );
            let signed_in = settings.account.source != AccountSource::None;
            findings.must(!sale.require_account, &key, &cure);
            findings.should(sale.require_account || !signed_in, &key, cure);
        }
        for pattern in FETCHED {
            let Ok(path) = Canonical::parse(&pattern.replace("**", "x")) else { continue };
            let advice = format!(
                "leaves {pattern} behind the line, for crawlers or certificates to wait for; add \
                 \"GET {pattern}\""
            );
            findings.should(!gate.protects(&Method::GET, &path), &key, advice);
        }
    }
}

/// The page to sign in at, if it is on this host.
fn login_path(settings: &Settings) -> Option<Canonical> {
    let url = settings.account.login_url.as_str();
    let path = match url.split_once("://") {
        None => url,
        Some((_, rest)) => {
            let (host, path) = rest.split_once('/').map(|(host, _)| (host, &rest[host.len()..]))?;
            let name = host.split(':').next().unwrap_or_default();
            let is_ours = settings.public.hostnames.iter().any(|it| it.eq_ignore_ascii_case(name));
            is_ours.then_some(path)?
        }
    };
    Canonical::parse(path.split(['?', '#']).next().unwrap_or_default()).ok()
}

/// What a sale keeps behind its line.
struct Gate {
    paths: Vec<Pattern>,
    free: Vec<Rule>,
}

impl Gate {
    fn of(sale: &Sale) -> Self {
        Self {
            paths: sale.paths.iter().filter_map(|raw| Pattern::parse(raw).ok()).collect(),
            free: sale.never_gate.iter().filter_map(|raw| Rule::parse(raw).ok()).collect(),
        }
    }

    /// Whether it keeps a form from being seen or sent.
    fn keeps(&self, path: &Canonical) -> bool {
        [Method::GET, Method::POST].iter().any(|method| self.protects(method, path))
    }

    fn protects(&self, method: &Method, path: &Canonical) -> bool {
        self.paths.iter().any(|pattern| pattern.matches(path))
            && !self.free.iter().any(|rule| rule.matches(method, path))
    }
}

/// A shop at our own address would be asked by us, and ask us, until nothing is left.
fn shop_is_not_us(settings: &Settings, findings: &mut Findings<'_, '_>) {
    for (at, origin) in settings.shop.origins.iter().enumerate() {
        let Some(authority) = origin.split("://").nth(1) else { continue };
        let (host, port) = authority.rsplit_once(':').unwrap_or((authority, "80"));
        let host = host.trim_matches(['[', ']']);
        let is_local = host.eq_ignore_ascii_case("localhost")
            || settings.public.hostnames.iter().any(|name| name.eq_ignore_ascii_case(host));
        let ip = host.parse::<std::net::IpAddr>().ok();
        let is_us = settings.public.listeners.iter().any(|listener| {
            let own = listener.addr.ip();
            let is_here = is_local || ip.is_some_and(|ip| ip.is_loopback() || ip == own);
            let is_open = own.is_unspecified() || own.is_loopback() || ip == Some(own);
            port.parse() == Ok(listener.addr.port())
                && listener.addr.port() != 0
                && is_here
                && is_open
        });
        findings.must(
            !is_us,
            &format!("shop.origins[{at}]"),
            "is where we listen ourselves (public.listener): name the address of the shop behind us",
        );
    }
}

#[cfg(test)]
mod tests {
    use crate::config::load::read;

    const EXAMPLE: &str = include_str!("../../config/sale.example.toml");

    /// What is told of these settings: all that is wrong, or the keys warned of.
    fn told(sections: &str, sale: &str) -> Result<Vec<String>, String> {
        let text = format!("{sections}\n{}", EXAMPLE.replacen(PATHS, sale, 1));
        match read(&text, "2026-12-01T12:00:00Z".parse().unwrap()) {
            Ok((_, warnings)) => Ok(warnings.into_iter().map(|warning| warning.key).collect()),
            Err(faults) => Err(faults.iter().map(|fault| fault.message.clone()).collect()),
        }
    }

    const PATHS: &str = r#"paths = ["/checkout", "/checkout/**"]"#;

    #[test]
    fn a_shop_at_our_own_address_is_refused_and_a_neighbour_is_not() {
        let shop = |origin: &str| {
            format!(
                "[public]\nhostnames = [\"shop.test\"]\n[[public.listener]]\naddr = \
                 \"0.0.0.0:8080\"\n[shop]\norigins = [\"http://{origin}\"]"
            )
        };
        for origin in ["127.0.0.1:8080", "localhost:8080", "shop.test:8080", "[::1]:8080"] {
            let fault = told(&shop(origin), PATHS).unwrap_err();
            assert!(fault.contains("where we listen ourselves"), "{origin}: {fault}");
        }
        for origin in ["127.0.0.1:3000", "10.0.0.7:8080", "backend:8080", "shop.test"] {
            assert!(told(&shop(origin), PATHS).is_ok(), "{origin}");
        }
    }

    #[test]
    fn a_line_in_front_of_the_page_to_sign_in_at_is_refused_where_signing_in_is_asked_for() {
        let account = |login: &str| {
            format!(
                "[account]\nsource = \"forward_auth\"\nlogin_url = \"{login}\"\nforward_auth = \
                 {{ url = \"http://127.0.0.1:3000/whoami\", header = \"x-account-id\" }}"
            )
        };
        let all = r#"paths = ["/**"]"#;
        let asks = |paths: &str| told(&account("/login?a=1"), paths).map(|keys| keys.join(" "));
        assert!(asks(all).unwrap().contains("sale[0].never_gate"), "only warned of");
        assert!(!asks(PATHS).unwrap().contains("never_gate"));
        assert!(told(&account("https://id.test/login"), PATHS).is_ok());

        let required = |rules: &str| {
            let sale = EXAMPLE.replace(r#"["POST /payment/notify"]"#, rules);
            let sale = sale.replace("require_account = false", "require_account = true");
            let text = format!("{}\n{}", account("/login"), sale.replacen(PATHS, all, 1));
            read(&text, "2026-12-01T12:00:00Z".parse().unwrap()).is_ok()
        };
        assert!(!required(r#"["GET /login"]"#));
        assert!(required(r#"["GET /login", "POST /login"]"#));
    }
}
