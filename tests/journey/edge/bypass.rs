//! While everybody is let past the line: who asks again and again gets no more than others.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::passes::claims;
use super::wire::{ask, status};
use super::{Edge, no_limits};
use crate::fixture::{Ground, now_ms};

const PATIENCE: Duration = Duration::from_secs(30);

/// An edge that lets everybody past the line; each name there may do one thing.
async fn bypassed(topic: &str) -> Edge {
    let ground = Ground::new(topic);
    let plan = ground.sale_opening_in(600_000, 10);
    let edge = Edge::on(&ground, plan, 1, |config, shop| {
        no_limits(config);
        config.set("limits.per_admission.rate", "0.001/s").unwrap();
        config.set("limits.per_admission.burst", 1).unwrap();
        config.set("account.source", "forward_auth").unwrap();
        config.set("account.forward_auth.url", format!("{}/whoami", shop.url())).unwrap();
    });
    edge.await_lobby();
    edge.control(&[("bypass_until_ms", json!(now_ms() + 600_000))]).await;
    let since = Instant::now();
    while status(&ask(&edge.url(), "GET /checkout/script", &["Sec-Fetch-Mode: cors"])) != 200 {
        assert!(since.elapsed() < PATIENCE, "no bypass");
    }
    edge
}

impl Edge {
    /// The admission that a claim gets, with more header lines.
    fn claimed(&self, lines: &[&str]) -> String {
        let path = format!("POST /_stanchion/{}/claim", self.plan.id);
        let kind = ["Content-Type: application/json", "Content-Length: 2"];
        let answer = ask(&self.url(), &path, &[&kind, lines, &["", "{}"]].concat());
        assert_eq!(status(&answer), 200, "{answer}");
        let body = &answer[answer.find('{').unwrap()..=answer.rfind('}').unwrap()];
        let body: Value = serde_json::from_str(body).unwrap();
        body["admission"].as_str().unwrap().to_owned()
    }

    fn enters(&self, admission: &str, lines: &[&str]) -> u16 {
        let pass = format!("Stanchion-Admission: {admission}");
        status(&ask(&self.url(), "GET /checkout/in", &[&[pass.as_str()], lines].concat()))
    }
}

#[tokio::test]
async fn a_stranger_who_claims_again_and_again_has_no_quota_for_each_name() {
    let edge = bypassed("names").await;

    let served = (0..300).filter(|_| edge.enters(&edge.claimed(&[]), &[]) == 200).count();

    assert!((2..=64).contains(&served), "{served} of 300");
}

#[tokio::test]
async fn an_account_that_claims_again_is_the_same_visitor() {
    let edge = bypassed("account").await;
    let (ann, bob) = (["Cookie: user=ann"], ["Cookie: user=bob"]);
    let name = |admission: &str| claims(admission)["sub"].clone();

    let (first, again) = (edge.claimed(&ann), edge.claimed(&ann));
    let other = edge.claimed(&bob);

    assert_eq!(name(&first), name(&again));
    assert_ne!(name(&first), name(&other));
    let entered = [(&first, &ann), (&again, &ann), (&other, &bob)];
    assert_eq!(entered.map(|(admission, who)| edge.enters(admission, who)), [200, 429, 200]);
}
