//! WR-80: keys are rotated and nodes restarted while a sale runs; no place is lost.

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use stanchion::lab::rig::{Answer, Client, ConfigFile, Installation, Layout};

use crate::fixture::shopper::Shopper;
use crate::fixture::{Ground, client, executable, quiet_shop};

const PATIENCE: Duration = Duration::from_secs(30);

struct House {
    installation: Installation,
    client: Client,
    sale: String,
    sku: String,
}

impl House {
    fn gateway(&self, number: usize) -> String {
        self.installation.gateways[number].url("public").unwrap()
    }

    fn keys(&self, args: &[&str]) -> Value {
        let folder = self.installation.folder().join("keys");
        let out = Command::new(executable())
            .arg("keys")
            .args(args)
            .args(["--json", "--dir"])
            .arg(folder)
            .output()
            .unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        serde_json::from_slice(&out.stdout).unwrap()
    }

    /// The key ids that a gateway publishes.
    async fn published(&self, number: usize) -> Vec<String> {
        let url = format!("{}/_stanchion/jwks.json", self.gateway(number));
        let set: Value = self.client.get(&url, &[]).await.unwrap().json().unwrap();
        let keys = set["keys"].as_array().unwrap().iter();
        keys.map(|key| key["kid"].as_str().unwrap().to_owned()).collect()
    }

    async fn joined(&self, number: u32) -> Shopper {
        Shopper::join(&self.client, &self.gateway(0), &self.sale, number).await
    }

    /// An order by this shopper's admission at a gateway.
    async fn order(&self, shopper: &Shopper, gateway: usize, key: &str) -> Answer {
        let url = format!("{}/_stanchion/{}/reservations", self.gateway(gateway), self.sale);
        let headers =
            [("stanchion-admission", shopper.admission.as_str()), ("idempotency-key", key)];
        let body = json!({"lines": [{"sku": self.sku, "qty": 1}]});
        self.client.post_json(&url, &headers, &body).await.unwrap()
    }
}

/// The key that signed a token.
fn kid(token: &str) -> String {
    use base64::Engine;
    let head = token.split('.').next().unwrap();
    let bytes = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(head).unwrap();
    let head: Value = serde_json::from_slice(&bytes).unwrap();
    head["kid"].as_str().unwrap().to_owned()
}

async fn until<F: Future<Output = bool>>(what: &str, mut check: impl FnMut() -> F) {
    let since = Instant::now();
    while !check().await {
        assert!(since.elapsed() < PATIENCE, "never: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn wr_80_a_rotation_and_rolling_restarts_lose_no_place_and_a_stop_ends_all() {
    let ground = Ground::new("rotate");
    let mut plan = ground.sale_opening_in(500, 50);
    plan.rate = "50/s".into();
    let sku = plan.skus[0].0.clone();
    let mut config = ConfigFile::new(quiet_shop(), std::slice::from_ref(&plan)).unwrap();
    config.set("public.trusted_proxies", vec!["127.0.0.1/32"]).unwrap();
    let installation = ground.install(Layout { gateways: 2, cores: 1 }, config);
    let mut house = House { installation, client: client(), sale: plan.id, sku };

    let old = house.joined(1).await.admitted().await;
    let waiting = house.joined(2).await;
    let place = waiting.status().await["place"]["entry"].clone();
    let before = house.published(0).await;
    assert_eq!(kid(&old.admission), before[0]);

    let rotated = house.keys(&["rotate", "--sign-after", "3s"]);
    assert_eq!(rotated["made"], json!(["admission-0002.pem", "tickets-0002.key"]));
    for gateway in [0, 1] {
        until("both keys verify", async || house.published(gateway).await.len() == 2).await;
    }
    let new_kid = house.published(1).await.into_iter().find(|kid| *kid != before[0]).unwrap();

    // The new key signs from its time on, and is understood everywhere.
    let mut number = 10;
    let new = loop {
        let shopper = house.joined(number).await.admitted().await;
        if kid(&shopper.admission) == new_kid {
            break shopper;
        }
        number += 1;
        assert!(number < 200, "the new key never signs");
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    assert_eq!(house.order(&new, 1, "new").await.status, 201);
    assert_eq!(house.order(&old, 1, "old").await.status, 201, "until its own end");

    for gateway in [0, 1] {
        house.installation.replace_gateway(gateway).unwrap();
    }
    assert_eq!(waiting.status().await["place"]["entry"], place);
    let waiting = waiting.admitted().await;
    assert_eq!(kid(&waiting.admission), new_kid);
    assert_eq!(house.order(&old, 0, "old").await.status, 200, "the same order");
    let listed = house.keys(&["list"]);
    let states: Vec<_> = listed["keys"].as_array().unwrap().iter().map(|k| &k["state"]).collect();
    assert_eq!(states, ["verifies", "signs", "verifies", "signs"]);

    let stop = format!(
        "{}/v1/sales/{}/stop",
        house.installation.gateways[0].url("ops").unwrap(),
        house.sale
    );
    let bearer = format!("Bearer {}", house.installation.secrets.ops_key);
    let headers = [("authorization", bearer.as_str())];
    let stopped = house.client.post_json(&stop, &headers, &json!({})).await.unwrap();
    assert_eq!(stopped.status, 200, "{}", stopped.text());
    for (shopper, gateway) in [(&old, 0), (&old, 1), (&new, 0), (&new, 1), (&waiting, 1)] {
        until("no admission counts", async || {
            house.order(shopper, gateway, "x").await.status == 403
        })
        .await;
    }
}

#[tokio::test]
async fn a_node_of_all_roles_makes_no_second_set_of_keys_beside_others() {
    let ground = Ground::new("secondkeys");
    let plan = ground.sale_opening_in(600_000, 5);
    let config = ConfigFile::new(quiet_shop(), std::slice::from_ref(&plan)).unwrap();
    let installation = ground.install(Layout { gateways: 1, cores: 1 }, config);
    let metrics = format!("{}/metrics", installation.gateways[0].url("ops").unwrap());
    until("the nodes have told", async || {
        client().get(&metrics, &[]).await.unwrap().text().contains("stanchion_nodes 2")
    })
    .await;

    let file = installation.folder().join("second.toml");
    let mut second = ConfigFile::new(quiet_shop(), std::slice::from_ref(&plan)).unwrap();
    let folder = installation.folder().join("second-keys");
    second.set("keys.dir", folder.to_str().unwrap()).unwrap();
    second.write(&file).unwrap();
    let out = Command::new(executable())
        .args(["serve", "--role", "all", "-c"])
        .arg(&file)
        .env("STANCHION_CORE_KEY", &installation.secrets.core_key)
        .env("REDIS_URL", &installation.redis_url)
        .env("DATABASE_URL", &installation.database_url)
        .output()
        .unwrap();

    let said = String::from_utf8_lossy(&out.stderr);
    assert!(!out.status.success() && said.contains("nodes with keys"), "{said}");
    assert!(!folder.exists());
}
