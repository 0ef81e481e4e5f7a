//! Questions to single nodes: do you do as was asked for?

use bytes::Bytes;
use http::Method;
use serde_json::json;

use super::plan::{CoreAccess, Plan};
use super::wire::Problem;
use crate::domain::status::Status;
use crate::lab::client::{Answer, Client, request};

/// One question to one node, gateways by number.
#[derive(Debug, Clone)]
pub(super) enum Probe {
    /// Tells of this rate?
    Rate(usize, f64),
    /// Tells of a pause, or of none?
    Paused(usize, bool),
    /// Tells of a later epoch?
    Epoch(usize, u64),
    /// Keeps this admission from the shop?
    Door(usize, String),
    /// The core: refuses this admission?
    Core(String),
}

/// Asks nodes.
pub(super) struct Prober {
    client: Client,
    gateways: Vec<String>,
    sale: String,
    core: Option<CoreAccess>,
}

impl Probe {
    pub(super) fn name(&self) -> String {
        match self {
            Self::Rate(gateway, _) | Self::Paused(gateway, _) => format!("gateway {}", gateway + 1),
            Self::Epoch(gateway, _) => format!("gateway {}: the epoch", gateway + 1),
            Self::Door(gateway, _) => format!("gateway {}: the checkout", gateway + 1),
            Self::Core(_) => "core: reservations".to_owned(),
        }
    }
}

impl Prober {
    pub(super) fn new(client: Client, plan: &Plan) -> Self {
        let (gateways, sale) = (plan.gateways.clone(), plan.sale.clone());
        Self { client, gateways, sale, core: plan.core.clone() }
    }

    pub(super) fn has_core(&self) -> bool {
        self.core.is_some()
    }

    /// What a gateway says to nobody in particular.
    pub(super) async fn status(&self, gateway: usize) -> Option<Status> {
        let url = format!("{}/_stanchion/{}/status", self.gateways[gateway], self.sale);
        let answer = self.client.get(&url, &[("accept", "application/json")]).await.ok()?;
        answer.json().ok()
    }

    /// The first of these admissions that still opens the first gateway's doors.
    pub(super) async fn one_that_counts(&self, admissions: &[String]) -> Option<String> {
        for admission in admissions {
            let door = Probe::Door(0, admission.clone());
            if self.follows(&door).await == Some(false) {
                return Some(admission.clone());
            }
        }
        None
    }

    /// Whether the node does as asked for; nothing if it did not say.
    pub(super) async fn follows(&self, probe: &Probe) -> Option<bool> {
        match probe {
            Probe::Rate(gateway, rate) => {
                Some((self.status(*gateway).await?.rate - rate).abs() <= rate * 1e-9)
            }
            Probe::Paused(gateway, paused) => Some(self.status(*gateway).await?.paused == *paused),
            Probe::Epoch(gateway, epoch) => Some(self.status(*gateway).await?.epoch > *epoch),
            Probe::Door(gateway, admission) => refused(&self.try_door(*gateway, admission).await?),
            Probe::Core(admission) => refused(&self.try_core(admission).await?),
        }
    }

    async fn try_door(&self, gateway: usize, admission: &str) -> Option<Answer> {
        let url = format!("{}/checkout/thanks", self.gateways[gateway]);
        let headers = [
            ("accept", "application/json"),
            ("sec-fetch-mode", "cors"),
            ("stanchion-admission", admission),
            ("x-forwarded-for", "10.255.255.254"),
        ];
        self.client.get(&url, &headers).await.ok()
    }

    /// An order that takes nothing: there is no such SKU.
    async fn try_core(&self, admission: &str) -> Option<Answer> {
        let core = self.core.as_ref()?;
        let authorization = format!("Bearer {}", core.key);
        let headers = [
            ("authorization", authorization.as_str()),
            ("content-type", "application/json"),
            ("idempotency-key", "steering"),
            ("stanchion-admission", admission),
        ];
        let body = json!({ "lines": [{ "sku": "no-such-sku", "qty": 1 }] });
        let url = format!("{}/v1/reservations", core.url);
        let request = request(Method::POST, &url, &headers, Bytes::from(body.to_string())).ok()?;
        self.client.send(request).await.ok()
    }
}

/// Whether an admission was refused for being void; a refusal for another reason says nothing.
fn refused(answer: &Answer) -> Option<bool> {
    match Problem::of(answer).name() {
        "waiting" | "not-admitted" => Some(true),
        "unknown-sku" => Some(false),
        "" if !answer.status.is_server_error() => Some(false),
        _ => None,
    }
}
