//! Two sales on one host: what is done to the one is not felt in the other.

use std::time::Duration;

use serde_json::json;
use stanchion::lab::rig::{Layout, SalePlan};

use crate::control_ground::{Steered, config_of, until};
use crate::fixture::Ground;
use crate::fixture::shopper::Shopper;

/// A member of a sale's status body.
async fn says(steered: &Steered, sale: &str, member: &str) -> serde_json::Value {
    let url = format!("{}/_stanchion/{sale}/status", steered.gateways()[0]);
    steered.client.get(&url, &[]).await.unwrap().json::<serde_json::Value>().unwrap()[member]
        .clone()
}

fn second(first: &SalePlan) -> SalePlan {
    let mut second = first.clone();
    second.id = format!("{}-b", first.id);
    second.skus = vec![(format!("{}-B", first.skus[0].0), 100, 0)];
    second
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_a_full_line_and_a_used_up_quota_of_one_sale_leave_the_other_alone() {
    let ground = Ground::new("apart");
    let first = ground.sale_opening_in(1_000, 100);
    let plans = [first.clone(), second(&first)];
    let mut config = config_of(&plans);
    config.set("sale.1.paths", vec!["/other", "/other/**"]).unwrap();
    config.set("sale.0.max_places", 3).unwrap();
    // Five strangers' deeds from one address and one sale, and no more for an hour.
    config.set("limits.per_ip.rate", "0.001/s").unwrap();
    config.set("limits.per_ip.burst", 5).unwrap();
    let house = ground.install(Layout { gateways: 1, cores: 1 }, config);
    let steered = Steered::around(house, &plans[0]);
    let (one, two) = (plans[0].id.as_str(), plans[1].id.as_str());
    for sale in [one, two] {
        until("the sale opens", async || says(&steered, sale, "phase").await == "open").await;
    }
    let gateway = &steered.gateways()[0];
    let client = &steered.client;
    for number in 0..3 {
        Shopper::join(client, gateway, one, number).await;
    }
    let full = Shopper::try_to_join(client, gateway, one, 9).await.err().unwrap();
    assert_eq!(full.status, 409, "{}", full.text());

    steered.act("pause", json!({})).await;
    until("the pause", async || says(&steered, one, "paused").await == true).await;
    // The address of number 9 has used up what it has in the first sale.
    let mut used_up = 0;
    while Shopper::try_to_join(client, gateway, one, 9).await.err().unwrap().status != 429 {
        used_up += 1;
        assert!(used_up < 10, "the quota never ends");
    }

    assert_eq!(says(&steered, two, "paused").await, false);
    for number in [0, 9, 10, 11] {
        let shopper = Shopper::join(client, gateway, two, number).await;
        let within = tokio::time::timeout(Duration::from_secs(20), shopper.admitted()).await;
        assert!(!within.expect("admitted in the sale that runs").admission.is_empty());
    }
    assert_eq!(says(&steered, one, "paused").await, true);
}
