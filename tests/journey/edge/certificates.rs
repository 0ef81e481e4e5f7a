//! The certificate that is shown: by the name asked for, exchanged while the gateway runs.

use std::time::{Duration, Instant};

use super::secure::{Made, client, connect, make, make_until, pairs, request, shown};
use super::wire::{ask, status};
use super::{Edge, no_limits};
use crate::fixture::stores;

/// How soon changed files are served.
const FOLLOWED_WITHIN: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(20);

/// An edge with these certificates for hosts of its own.
fn secured(topic: &str, made: &[&Made]) -> Edge {
    Edge::start(topic, |config, _| {
        no_limits(config);
        config.set("public.certificates", pairs(made)).unwrap();
        config.set("public.listener.0.tls", true).unwrap();
        let hosts = vec!["localhost", "a.shop.test", "b.shop.test", "c.other.test"];
        config.set("public.hostnames", hosts).unwrap();
    })
}

/// Waits until this certificate is shown for a name; how long it took.
async fn until_shown(edge: &Edge, made: &Made, name: &str) -> Duration {
    let since = Instant::now();
    loop {
        if connect(&edge.url(), &client(&[made]), name).await.is_ok() {
            return since.elapsed();
        }
        assert!(since.elapsed() < PATIENCE, "never served");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A value of the gateway's metrics, of the line that contains all these words.
fn metric(edge: &Edge, words: &[&str]) -> Option<i64> {
    let ops = edge.installation.gateways[0].url("ops").unwrap();
    let text = ask(&ops, "GET /metrics", &[]);
    let mut values = text.lines().filter(|line| !line.starts_with('#'));
    let line = values.find(|line| words.iter().all(|word| line.contains(word)))?;
    line.rsplit(' ').next()?.parse().ok()
}

#[tokio::test]
async fn the_name_asked_for_chooses_and_an_unknown_one_ends_in_an_alert() {
    let folder = stores().workspace("names").unwrap();
    let first = make(&folder, "first", &["localhost"]);
    let wild = make(&folder, "wild", &["*.shop.test"]);
    let exact = make(&folder, "exact", &["b.shop.test"]);
    let edge = secured("names", &[&first, &wild, &exact]);
    let mut client = client(&[&first, &wild, &exact]);
    let url = edge.url();

    for (name, wanted) in [("localhost", &first), ("A.shop.test", &wild), ("b.shop.test", &exact)] {
        assert_eq!(shown(&connect(&url, &client, name).await.unwrap()), wanted.der, "{name}");
    }
    let refused = connect(&url, &client, "c.other.test").await.unwrap_err().to_string();
    assert!(refused.contains("UnrecognisedName"), "{refused}");

    client.enable_sni = false;
    let mut nameless = connect(&url, &client, "localhost").await.unwrap();
    assert_eq!(shown(&nameless), first.der);
    let head = request(&mut nameless, "GET /", "a.shop.test", &[]).await;
    assert_eq!(status(&head), 200, "who asks by no name is not held to one: {head}");
}

#[tokio::test]
async fn ed_81_a_host_that_the_certificate_is_not_good_for_is_misdirected() {
    let folder = stores().workspace("tenants").unwrap();
    let (shop, other) = (
        make(&folder, "shop", &["a.shop.test", "b.shop.test"]),
        make(&folder, "other", &["c.other.test"]),
    );
    let edge = secured("tenants", &[&shop, &other]);
    let mut stream = connect(&edge.url(), &client(&[&shop, &other]), "a.shop.test").await.unwrap();

    let mut of = async |host: &str| status(&request(&mut stream, "GET /", host, &[]).await);

    assert_eq!(of("a.shop.test").await, 200);
    assert_eq!(of("B.shop.test:8443").await, 200, "the same certificate is good for it");
    assert_eq!(of("c.other.test").await, 421, "another is");
    assert_eq!(of("localhost").await, 421);
    assert_eq!(of("a.shop.test").await, 200, "the connection is not harmed");
}

#[tokio::test]
async fn ed_80_a_renewed_certificate_is_served_and_a_bad_one_changes_nothing() {
    let folder = stores().workspace("renewed").unwrap();
    let old = make(&folder, "shop", &["localhost"]);
    let edge = secured("renewed", &[&old]);
    let url = edge.url();
    let mut open = connect(&url, &client(&[&old]), "localhost").await.unwrap();
    assert_eq!(status(&request(&mut open, "GET /1", "localhost", &[]).await), 200);
    let left = metric(&edge, &["certificate_expires_in_seconds{", "shop.crt"]).unwrap();
    assert!(left > 86_400 * 365, "{left}");

    let foreign = make(&folder, "foreign", &["localhost"]);
    std::fs::copy(&foreign.key, &old.key).unwrap();
    let since = Instant::now();
    while metric(&edge, &["certificate_last_reload_successful{", "shop.crt"]) != Some(0) {
        assert!(since.elapsed() < PATIENCE, "the bad pair was never seen");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(metric(&edge, &["certificate_reloads_refused_total"]), Some(1));
    let said = edge.installation.gateways[0].said();
    assert!(said.contains("shop.key") && said.contains("do not make a pair"), "{said}");
    assert!(connect(&url, &client(&[&old]), "localhost").await.is_ok(), "the old one stays");

    let new = make(&folder, "shop", &["localhost"]);
    let took = until_shown(&edge, &new, "localhost").await;
    assert!(took <= FOLLOWED_WITHIN + Duration::from_secs(2), "{took:?}");
    assert!(connect(&url, &client(&[&old]), "localhost").await.is_err());
    let head = request(&mut open, "GET /2", "localhost", &[]).await;
    assert_eq!(status(&head), 200, "what was open stays open: {head}");
    assert_eq!(metric(&edge, &["certificate_last_reload_successful{", "shop.crt"]), Some(1));
}

#[tokio::test]
async fn ed_80_one_that_ran_out_is_served_only_if_there_is_no_better() {
    let folder = stores().workspace("expired").unwrap();
    let old = make_until(&folder, "shop", &["localhost"], 2020);
    let edge = secured("expired", &[&old]);
    let said = edge.installation.gateways[0].said();
    assert!(said.contains("shop.crt") && said.contains("ran out"), "{said}");
    let left = metric(&edge, &["certificate_expires_in_seconds{", "shop.crt"]).unwrap();
    assert!(left < 0, "{left}");

    let good = make(&folder, "shop", &["localhost"]);
    until_shown(&edge, &good, "localhost").await;
    make_until(&folder, "shop", &["localhost"], 2021);
    let since = Instant::now();
    while metric(&edge, &["certificate_reloads_refused_total"]) != Some(1) {
        assert!(since.elapsed() < PATIENCE, "the expired one was never seen");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(connect(&edge.url(), &client(&[&good]), "localhost").await.is_ok());
}

#[tokio::test]
async fn certificates_that_the_settings_name_anew_are_served_within_a_second() {
    let folder = stores().workspace("listed").unwrap();
    let (first, second) =
        (make(&folder, "first", &["localhost"]), make(&folder, "second", &["a.shop.test"]));
    let mut edge = secured("listed", &[&first]);
    assert!(connect(&edge.url(), &client(&[&second]), "a.shop.test").await.is_err());

    edge.installation.reconfigure("public.certificates", pairs(&[&first, &second])).unwrap();
    let took = until_shown(&edge, &second, "a.shop.test").await;
    assert!(took <= FOLLOWED_WITHIN + Duration::from_secs(2), "{took:?}");
    assert!(connect(&edge.url(), &client(&[&first]), "localhost").await.is_ok());

    edge.installation.reconfigure("public.certificates", pairs(&[&second])).unwrap();
    let since = Instant::now();
    while connect(&edge.url(), &client(&[&first]), "localhost").await.is_ok() {
        assert!(since.elapsed() < PATIENCE, "what is not named any more is still served");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(metric(&edge, &["certificate_expires_in_seconds{", "first.crt"]).is_none());
}
