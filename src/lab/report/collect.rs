//! Collects the evidence once the crowd has gone.

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use http::Method;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::evidence::{CoreView, Evidence, RateSet, Seen};
use super::stores;
use crate::domain::rate::Rate;
use crate::lab::client::{Client, request};
use crate::lab::crowd::{self, CoreAccess, SkuSample};

/// Where to look; what is missing leaves promises unchecked.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// A gateway, `http://HOST:PORT`.
    pub gateway: String,
    /// The sale's id.
    pub sale: String,
    /// The core, with the ops key: it is asked for a sweep and two reconciles.
    pub core: Option<CoreAccess>,
    /// The core's ops listener, `http://HOST:PORT`.
    pub core_ops: Option<String>,
    /// The ledger.
    pub database_url: Option<String>,
    /// The gate.
    pub redis_url: Option<String>,
    /// The sample shop with the key that opens its journal.
    pub shop: Option<CoreAccess>,
}

/// Reads everything there is. What cannot be read says why.
pub async fn collect(sources: &Sources) -> Evidence {
    let client = Client::new(4);
    // First of all: it settles what is read afterwards.
    let core = match &sources.core {
        Some(core) => said(settle(&client, core).await),
        None => Err("no core and ops key were given".to_owned()),
    };
    let ledger = match &sources.database_url {
        Some(url) => said(stores::ledger(url, &sources.sale).await),
        None => Err("no DATABASE_URL was given".to_owned()),
    };
    let skus = match &ledger {
        Ok(ledger) => ledger.skus.iter().map(|sku| sku.sku.clone()).collect(),
        Err(_) => Vec::new(),
    };
    let gate = match &sources.redis_url {
        Some(url) => said(stores::gate(url, &sources.sale, &skus).await),
        None => Err("no REDIS_URL was given".to_owned()),
    };
    let rate = match &sources.core {
        Some(core) => said(rate(&client, core, &sources.sale).await),
        None => Err("no core key was given".to_owned()),
    };
    let takes = match &sources.core_ops {
        Some(ops) => crowd::takes(&client, ops).await.ok_or("the core tells of no takes".into()),
        None => Err("the core's ops listener was not given".to_owned()),
    };
    let journal = match &sources.shop {
        Some(shop) => said(read(&client, shop, Method::GET, "/_shop/log").await),
        None => Err("no sample shop was given".to_owned()),
    };
    let draw = said(crowd::proof(&client, &sources.gateway, &sources.sale).await);
    Evidence { rate, draw, core, ledger, gate, takes, journal }
}

fn said<T>(read: Result<T>) -> Seen<T> {
    read.map_err(|error| format!("{error:#}"))
}

/// A sweep and two reconciles, then what the core says of itself.
async fn settle(client: &Client, core: &CoreAccess) -> Result<CoreView> {
    let _swept: Value = read(client, core, Method::POST, "/v1/sweep").await?;
    let _first: Value = read(client, core, Method::POST, "/v1/reconcile").await?;
    let second: Value = read(client, core, Method::POST, "/v1/reconcile").await?;
    let audit: Value = read(client, core, Method::GET, "/v1/audit").await?;
    let stock: Value = read(client, core, Method::GET, "/v1/stock").await?;
    let skus: Vec<SkuSample> =
        serde_json::from_value(stock["skus"].clone()).context("/v1/stock has no skus")?;
    let rows = |list: &Value| list.as_array().cloned().context("a list was expected");
    let audit = rows(&audit["rows"]).context("/v1/audit")?;
    let differs = |row: &Value| row["ledger"] != row["gate"];
    let second = rows(&second["skus"]).context("/v1/reconcile")?;
    Ok(CoreView {
        skus,
        audit: audit.iter().map(ToString::to_string).collect(),
        drift: second.iter().filter(|row| differs(row)).map(ToString::to_string).collect(),
    })
}

async fn rate(client: &Client, core: &CoreAccess, sale: &str) -> Result<RateSet> {
    let control: Value = read(client, core, Method::GET, &format!("/v1/control/{sale}")).await?;
    let per_second = match &control["rate"] {
        Value::String(text) => Rate::parse(text)?.get(),
        other => other.as_f64().context("the control record has no rate")?,
    };
    let burst = control["burst"].as_u64().context("the control record has no burst")?;
    let max_active =
        control["max_active"].as_u64().context("the control record has no max_active")?;
    Ok(RateSet { per_second, burst: u32::try_from(burst)?, max_active })
}

async fn read<T: DeserializeOwned>(
    client: &Client,
    from: &CoreAccess,
    method: Method,
    path: &str,
) -> Result<T> {
    let (url, authorization) = (format!("{}{path}", from.url), format!("Bearer {}", from.key));
    let headers = [("authorization", authorization.as_str())];
    let answer = client.send(request(method, &url, &headers, Bytes::new())?).await?;
    if !answer.status.is_success() {
        bail!("{path} answered {}: {}", answer.status, answer.text());
    }
    answer.json()
}
