//! Two gateways and a core, steered by way of their ops listeners.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};
use stanchion::lab::rig::{
    Answer, Client, ConfigFile, Installation, Layout, Node, SalePlan, request,
};

use crate::fixture::shopper::Shopper;
use crate::fixture::{Ground, client, quiet_shop};

pub(crate) const PAIR: Layout = Layout { gateways: 2, cores: 1 };
/// What a command may take until every node goes by it.
pub(crate) const EFFECTIVE_WITHIN: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(15);

/// A running installation, and what is needed to talk to it.
pub(crate) struct Steered {
    pub(crate) house: Installation,
    pub(crate) client: Client,
    pub(crate) sale: String,
    pub(crate) sku: String,
}

/// Limits out of the way: these journeys are about steering.
pub(crate) fn config(plan: &SalePlan) -> ConfigFile {
    config_of(std::slice::from_ref(plan))
}

/// The same for several sales.
pub(crate) fn config_of(plans: &[SalePlan]) -> ConfigFile {
    let mut config = ConfigFile::new(quiet_shop(), plans).unwrap();
    config.set("public.trusted_proxies", vec!["127.0.0.1/32"]).unwrap();
    for limit in ["per_ip", "per_account", "per_admission", "poll"] {
        config.set(&format!("limits.{limit}.rate"), "10000/s").unwrap();
        config.set(&format!("limits.{limit}.burst"), 10_000).unwrap();
    }
    config
}

impl Steered {
    pub(crate) fn start(ground: &Ground, plan: &SalePlan) -> Self {
        Self::around(ground.install(PAIR, config(plan)), plan)
    }

    pub(crate) fn around(house: Installation, plan: &SalePlan) -> Self {
        let (sale, sku) = (plan.id.clone(), plan.skus[0].0.clone());
        Self { house, client: client(), sale, sku }
    }

    pub(crate) fn gateways(&self) -> Vec<String> {
        self.house.gateways.iter().map(|node| node.url("public").unwrap()).collect()
    }

    /// A call of the operators' API of a node.
    pub(crate) async fn ops(&self, node: &Node, method: Method, path: &str, body: Value) -> Answer {
        let bearer = format!("Bearer {}", self.house.secrets.ops_key);
        self.call(&node.url("ops").unwrap(), method, path, &[("authorization", &bearer)], body)
            .await
    }

    pub(crate) async fn call(
        &self,
        base: &str,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Value,
    ) -> Answer {
        let bytes = if body.is_null() { Bytes::new() } else { body.to_string().into() };
        let request = request(method, &format!("{base}{path}"), headers, bytes).unwrap();
        self.client.send(request).await.unwrap()
    }

    /// `POST /v1/sales/{sale}/{action}` at the first gateway; the record after it.
    pub(crate) async fn act(&self, action: &str, body: Value) -> Value {
        done(&self.try_act(action, body).await)
    }

    pub(crate) async fn try_act(&self, action: &str, body: Value) -> Answer {
        let path = format!("/v1/sales/{}/{action}", self.sale);
        self.ops(&self.house.gateways[0], Method::POST, &path, body).await
    }

    /// `PUT /v1/sales/{sale}/{what}` at the second gateway.
    pub(crate) async fn put(&self, what: &str, body: Value) -> Answer {
        let path = format!("/v1/sales/{}/{what}", self.sale);
        self.ops(&self.house.gateways[1], Method::PUT, &path, body).await
    }

    /// The sale as an operator sees it on a node.
    pub(crate) async fn seen_by(&self, node: &Node) -> Value {
        let all = done(&self.ops(node, Method::GET, "/v1/sales", Value::Null).await);
        all["sales"][0].clone()
    }

    /// An order of an admission straight at the core.
    pub(crate) async fn order(&self, shopper: &Shopper, key: &str) -> Answer {
        let bearer = format!("Bearer {}", self.house.secrets.core_key);
        let headers = [
            ("authorization", bearer.as_str()),
            ("stanchion-admission", shopper.admission.as_str()),
            ("idempotency-key", key),
        ];
        let core = self.house.cores[0].url("core").unwrap();
        let body = json!({"lines": [{"sku": self.sku, "qty": 1}]});
        self.call(&core, Method::POST, "/v1/reservations", &headers, body).await
    }

    /// Whether both gateways' status has this member, for whoever asks without a place.
    pub(crate) async fn all_say(&self, member: &str, wanted: Value) -> bool {
        for gateway in self.gateways() {
            let url = format!("{gateway}/_stanchion/{}/status", self.sale);
            let status: Value = self.client.get(&url, &[]).await.unwrap().json().unwrap();
            if status[member] != wanted {
                return false;
            }
        }
        true
    }

    /// The whole audit trail of the sale, read by a node, once it has that many entries.
    pub(crate) async fn trail(&self, node: &Node, entries: usize) -> Vec<Value> {
        let path = format!("/v1/audit-trail?sale={}", self.sale);
        let since = Instant::now();
        loop {
            let page = done(&self.ops(node, Method::GET, &path, Value::Null).await);
            let found = page["entries"].as_array().unwrap().clone();
            if found.len() >= entries {
                return found;
            }
            assert!(since.elapsed() < PATIENCE, "{entries} entries never came: {page}");
            tokio::time::sleep(POLL).await;
        }
    }
}

/// The body of a 200.
pub(crate) fn done(answer: &Answer) -> Value {
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json().unwrap()
}

/// The problem that an answer of that status tells.
pub(crate) fn refused(answer: &Answer, status: u16) -> Value {
    assert_eq!(answer.status, status, "{}", answer.text());
    assert_eq!(answer.header("content-type"), "application/problem+json");
    answer.json().unwrap()
}

/// Waits until `wanted` holds.
pub(crate) async fn until<F: Future<Output = bool>>(what: &str, wanted: impl Fn() -> F) {
    let since = Instant::now();
    while !wanted().await {
        assert!(since.elapsed() < PATIENCE, "never: {what}");
        tokio::time::sleep(POLL).await;
    }
}

/// The same, and not later than a command may take that was given at `since`.
pub(crate) async fn soon<F: Future<Output = bool>>(
    since: Instant,
    what: &str,
    wanted: impl Fn() -> F,
) {
    until(what, wanted).await;
    let took = since.elapsed();
    assert!(took < EFFECTIVE_WITHIN, "{what} took {took:?}");
}
