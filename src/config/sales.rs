//! Rules of the sales, each by itself and among each other.

use std::collections::BTreeMap;

use super::rules::Findings;
use super::settings::{AccountSource, Sale, Settings};
use super::span::Span;
use super::validate::at_least;
use crate::domain::beacon;
use crate::domain::near::Lookalikes;
use crate::domain::pattern::{Pattern, Rule};
use crate::domain::stock::SHARDS_MAX;

/// The most that the gate counts exactly; JSON numbers carry more.
const UNITS_MAX: u64 = 999_999_999_999_999;

/// What earlier sales have taken.
#[derive(Default)]
struct Taken<'s> {
    ids: BTreeMap<&'s str, usize>,
    skus: BTreeMap<&'s str, &'s str>,
    patterns: Vec<(Pattern, &'s str)>,
    alike: Lookalikes,
}

/// Checks all sales.
pub(super) fn validate(settings: &Settings, now: jiff::Timestamp, findings: &mut Findings<'_, '_>) {
    findings.should(
        !settings.sales.is_empty(),
        "",
        "there is no [[sale]]: everything passes to the shop",
    );
    let mut taken = Taken::default();
    for (at, sale) in settings.sales.iter().enumerate() {
        let key = format!("sale[{at}]");
        let new = taken.ids.insert(sale.id.as_str(), at).is_none();
        findings.must(new, &format!("{key}.id"), "is the id of another sale; choose another");
        times(sale, now, &key, findings);
        line(sale, &key, findings);
        paths(sale, &key, &mut taken, findings);
        never_gate(sale, &key, findings);
        let accounts = settings.account.source != AccountSource::None;
        findings.must_given(
            &["account.source"],
            accounts || !sale.require_account,
            &format!("{key}.require_account"),
            "nobody could join: set account.source = \"forward_auth\", or leave this out",
        );
        stock(sale, accounts, &key, &mut taken, findings);
        super::advice::advise(sale, &key, findings);
    }
}

fn times(sale: &Sale, now: jiff::Timestamp, key: &str, findings: &mut Findings<'_, '_>) {
    let opens = format!("{key}.opens");
    findings.must_given(
        &[&format!("{key}.lobby_opens")],
        sale.lobby_opens <= sale.opens,
        &opens,
        "must not be before lobby_opens: move one of them",
    );
    findings.must_given(
        &[&opens],
        sale.opens < sale.closes,
        &format!("{key}.closes"),
        "must be after opens: move one of them",
    );
    let epoch = sale.lobby_opens.as_millisecond() > 0;
    findings.must(epoch, &format!("{key}.lobby_opens"), "must be after 1970");
    let over = sale.closes <= now;
    findings.should(!over, &format!("{key}.closes"), "has passed: the sale will not open again");
    findings.should(
        over || sale.opens > now,
        &opens,
        "has passed: the draw is over, whoever joins now stands behind it",
    );
    findings.should(
        sale.lobby_opens < sale.opens,
        &format!("{key}.lobby_opens"),
        "is the opening itself: without a lobby nobody takes part in the draw",
    );
}

fn line(sale: &Sale, key: &str, findings: &mut Findings<'_, '_>) {
    findings.must(sale.burst > 0, &format!("{key}.burst"), "must be at least 1");
    let key_of = |name: &str| format!("{key}.{name}");
    let (second, ten) = (Span::seconds(1), Span::seconds(10));
    at_least(&key_of("claim_window"), sale.claim_window, second, findings);
    at_least(&key_of("token_ttl"), sale.token_ttl, ten, findings);
    at_least(&key_of("hold"), sale.hold, second, findings);
    findings.must(
        matches!(sale.queue_status, 200 | 202 | 429 | 503),
        &key_of("queue_status"),
        "must be 200, 202, 429 or 503",
    );
    let opens_ms = u64::try_from(sale.opens.as_millisecond()).unwrap_or(0);
    findings.must(
        sale.beacon_round == 0 || !beacon::is_too_early(sale.beacon_round, opens_ms),
        &key_of("beacon_round"),
        format!(
            "is published before 3 s after the opening, when people could still join; the first \
             round for this opening is {} (0: no beacon)",
            beacon::first_for(opens_ms)
        ),
    );
    findings.should(
        sale.retention >= Span::seconds(86_400),
        &key_of("retention"),
        "is short: refunds and disputes of later days will find no buyer and no payment reference",
    );
}

fn paths<'s>(sale: &'s Sale, key: &str, taken: &mut Taken<'s>, findings: &mut Findings<'_, '_>) {
    let all = format!("{key}.paths");
    findings.must(
        !sale.paths.is_empty(),
        &all,
        "protects nothing; name the checkout, as [\"/checkout\", \"/checkout/**\"]",
    );
    for (at, raw) in sale.paths.iter().enumerate() {
        let key = format!("{all}[{at}]");
        let pattern = match Pattern::parse(raw) {
            Ok(pattern) => pattern,
            Err(error) => {
                findings.must(false, &key, error.to_string());
                continue;
            }
        };
        let other = taken
            .patterns
            .iter()
            .find(|(taken, of)| *of != sale.id.as_str() && taken.overlaps(&pattern));
        if let Some((_, other)) = other {
            let cure = format!("is protected by sale \"{other}\" as well; a path has one line");
            findings.must(false, &key, cure);
        }
        taken.patterns.push((pattern, sale.id.as_str()));
    }
}

fn never_gate(sale: &Sale, key: &str, findings: &mut Findings<'_, '_>) {
    let mut rules = vec![];
    for (at, raw) in sale.never_gate.iter().enumerate() {
        match Rule::parse(raw) {
            Ok(rule) => rules.push(rule),
            Err(error) => {
                findings.must(false, &format!("{key}.never_gate[{at}]"), error.to_string());
            }
        }
    }
    // Orders are posted: a line that lets every post past it protects nothing.
    let post = http::Method::POST;
    let mut patterns = sale.paths.iter().filter_map(|raw| Pattern::parse(raw).ok());
    let freed = |pattern: &Pattern| rules.iter().any(|rule| rule.includes(&post, pattern));
    findings.must(
        rules.is_empty() || sale.paths.is_empty() || !patterns.all(|pattern| freed(&pattern)),
        &format!("{key}.never_gate"),
        "lets every POST to paths past the line: nothing is protected; name only payment returns",
    );
}

fn stock<'s>(
    sale: &'s Sale,
    accounts: bool,
    key: &str,
    taken: &mut Taken<'s>,
    findings: &mut Findings<'_, '_>,
) {
    let some = !sale.skus.is_empty();
    findings.must(
        some,
        &format!("{key}.sku"),
        "sells nothing; add [[sale.sku]] with sku and units",
    );
    for (at, item) in sale.skus.iter().enumerate() {
        let key = format!("{key}.sku[{at}]");
        let other = taken.skus.insert(item.sku.as_str(), sale.id.as_str());
        if let Some(other) = other {
            let cure = format!("is sold by sale \"{other}\" already; a SKU belongs to one sale");
            findings.must(false, &format!("{key}.sku"), cure);
        }
        findings.must(
            (1..=UNITS_MAX).contains(&item.units),
            &format!("{key}.units"),
            format!("must be from 1 to {UNITS_MAX}"),
        );
        findings.must(
            (1..=SHARDS_MAX).contains(&item.shards),
            &format!("{key}.shards"),
            format!("must be from 1 to {SHARDS_MAX}"),
        );
        if let Some(other) = taken.alike.note(&item.sku) {
            let warning = format!("might be taken for \"{other}\", which is another SKU");
            findings.should(false, &format!("{key}.sku"), warning);
        }
        findings.should(
            accounts || item.units_per_buyer == 0,
            &format!("{key}.units_per_buyer"),
            "without accounts a buyer is a place in line: this is no cap on a person",
        );
    }
}
