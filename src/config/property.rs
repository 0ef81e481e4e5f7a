//! Property tests: what is written is read back, and whatever is broken is named.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use proptest::collection::{btree_set, vec};
use proptest::prelude::*;
use proptest::sample::subsequence;
use toml::Value;

use super::document::child;
use super::load::read;
use super::settings::{ForwardAuth, Listener, Outside, QuotaSettings, Sale, SaleSku};
use super::span::Span;
use super::{Settings, settings::AccountSource};
use crate::domain::id::{SaleId, Sku};
use crate::domain::rate::Rate;

const EXAMPLE: &str = include_str!("../../config/sale.example.toml");

fn now() -> jiff::Timestamp {
    "2026-12-01T12:00:00Z".parse().unwrap()
}

fn span(min_ms: u64) -> impl Strategy<Value = Span> {
    (min_ms..100_000_000).prop_map(Span::millis)
}

fn rate() -> impl Strategy<Value = Rate> {
    (Rate::MIN..Rate::MAX).prop_map(|rate| Rate::per_second(rate).unwrap())
}

prop_compose! {
    /// A sale with this number, which keeps its id, paths and SKUs apart from the others'.
    fn sale(number: usize)(
        at in vec(1_800_000_000_i64..1_900_000_000, 3),
        (rate, burst, paused) in (rate(), 1_u32.., any::<bool>()),
        (max_active, max_places) in (any::<u32>(), 0_u64..1 << 53),
        (claim_window, token_ttl, hold) in (span(1_000), span(10_000), span(1_000)),
        units in vec((1_u64..1_000_000_000_000_000, any::<u32>()), 1..4),
        (before, queue_status) in (any::<bool>(), prop::sample::select(vec![200, 202, 429, 503])),
        mut sale in Just(read(EXAMPLE, now()).unwrap().0.sales.remove(0)),
    ) -> Sale {
        let mut at: Vec<_> = at.into_iter().map(|s| jiff::Timestamp::from_second(s).unwrap()).collect();
        at.sort();
        sale.id = SaleId::parse(&format!("sale-{number}")).unwrap();
        (sale.lobby_opens, sale.opens) = (at[0], at[1]);
        sale.closes = at[2] + jiff::SignedDuration::from_millis(1);
        sale.paths = vec![format!("/{number}/**"), format!("/{number}")];
        (sale.rate, sale.burst, sale.paused) = (rate, burst, paused);
        (sale.max_active, sale.max_places, sale.queue_status) = (max_active, max_places, queue_status);
        (sale.claim_window, sale.token_ttl, sale.hold) = (claim_window, token_ttl, hold);
        sale.before = if before { Outside::Gate } else { Outside::Pass };
        sale.skus = (0..).zip(units).map(|(at, (units, units_per_buyer))| SaleSku {
            sku: Sku::parse(&format!("SKU {number}/{at} \"é\"")).unwrap(),
            units,
            units_per_buyer,
            shards: 1,
        }).collect();
        sale
    }
}

prop_compose! {
    fn settings()(
        sales in (0_usize..4).prop_flat_map(|n| (0..n).map(sale).collect::<Vec<_>>()),
        ports in btree_set(1_u16.., 1..4),
        networks in vec((any::<[u8; 4]>(), 1_u8..=32), 0..4),
        (timeout, sweep, cache) in (span(100), span(100), span(0)),
        quota in (rate(), 1_u32..),
        accounts in any::<bool>(),
    ) -> Settings {
        let mut settings = Settings { sales, ..Settings::default() };
        let listener = |port| Listener { addr: SocketAddr::from(([127, 0, 0, 1], port)), tls: false, proxy_protocol: false };
        settings.public.listeners = ports.into_iter().map(listener).collect();
        let network = |(address, length): ([u8; 4], u8)| {
            ipnet::Ipv4Net::new(address.into(), length).unwrap().into()
        };
        settings.public.trusted_proxies = networks.into_iter().map(network).collect();
        (settings.shop.response_timeout, settings.core.sweep_every) = (timeout, sweep);
        settings.limits.poll = QuotaSettings { rate: quota.0, burst: quota.1 };
        settings.limits.per_admission = settings.limits.poll;
        if accounts {
            settings.account.source = AccountSource::ForwardAuth;
            let (url, header) = ("http://shop.example/who".into(), "x-who".into());
            settings.account.forward_auth = Some(ForwardAuth { url, header, cache });
        }
        settings
    }
}

/// Every key and every element that is no table or list itself.
fn leaves(value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Table(table) => {
            table.iter().for_each(|(key, value)| leaves(value, &child(path, key), found));
        }
        Value::Array(items) => items
            .iter()
            .enumerate()
            .for_each(|(at, item)| leaves(item, &format!("{path}[{at}]"), found)),
        _ => found.push(path.to_owned()),
    }
}

fn slot<'v>(value: &'v mut Value, path: &str) -> &'v mut Value {
    path.split(['.', '[']).fold(value, |value, step| match step.strip_suffix(']') {
        Some(at) => &mut value[at.parse::<usize>().unwrap()],
        None => &mut value[step],
    })
}

fn example() -> (Value, Vec<String>) {
    let mut settings = read(EXAMPLE, now()).unwrap().0;
    settings.account.source = AccountSource::ForwardAuth;
    let (url, header) = ("http://shop.example/who".into(), "x-who".into());
    let cache = Span::seconds(1);
    settings.account.forward_auth = Some(ForwardAuth { url, header, cache });
    let value = Value::try_from(settings).unwrap();
    let mut found = vec![];
    leaves(&value, "", &mut found);
    (value, found)
}

fn problem_keys(value: &Value) -> BTreeSet<String> {
    let text = toml::to_string(value).unwrap();
    let problems = read(&text, now()).expect_err("broken settings were accepted");
    // A key that is missing is told at its table's line.
    for problem in problems.iter().filter(|problem| !problem.message.starts_with("is missing")) {
        let line = text.lines().nth(problem.line - 1).unwrap();
        let key = problem.key.rsplit('.').next().unwrap().split('[').next().unwrap();
        assert!(line.contains(key), "line {} is not that of {}", problem.line, problem.key);
    }
    problems.into_iter().map(|problem| problem.key).collect()
}

proptest! {
    #[test]
    fn settings_that_are_written_are_read_back(settings in settings()) {
        let text = toml::to_string(&settings).unwrap();
        let (read, _) = read(&text, now()).map_err(|problems| {
            TestCaseError::fail(format!("{problems:?}\n{text}"))
        })?;
        prop_assert_eq!(read, settings);
    }

    #[test]
    fn every_value_of_a_wrong_type_is_named(broken in subsequence(example().1, 1..12)) {
        let (mut value, _) = example();
        for path in &broken {
            let slot = slot(&mut value, path);
            *slot = match slot {
                Value::Boolean(_) => "no".into(),
                _ => true.into(),
            };
        }
        prop_assert_eq!(problem_keys(&value), broken.into_iter().collect::<BTreeSet<_>>());
    }

    #[test]
    fn whatever_is_read_there_is_no_panic(text in "(\\[\\[?[a-z.]{0,9}\\]?\\]?|[a-z.]{0,9} ?= ?[^\\n]{0,9}|\\PC{0,20}\n){0,9}") {
        if let Err(problems) = read(&text, now()) {
            prop_assert!(!problems.is_empty());
        }
    }
}

#[test]
fn every_misspelt_key_is_named() {
    let (whole, leaves) = example();
    for path in leaves.iter().filter(|path| !path.ends_with(']')) {
        let mut value = whole.clone();
        let (parent, key) = path.rsplit_once('.').unwrap();
        let table = slot(&mut value, parent).as_table_mut().unwrap();
        let moved = table.remove(key).unwrap();
        table.insert(format!("{key}x"), moved);
        let keys = problem_keys(&value);
        assert!(keys.contains(&format!("{path}x")), "{path}: {keys:?}");
    }
}
