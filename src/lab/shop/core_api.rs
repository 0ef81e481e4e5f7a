//! The reservation core, as a shop's back end calls it.

use std::sync::Arc;

use anyhow::{Context, Result, bail};
use http::StatusCode;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::Mutex;

use crate::clock::{Clock, SystemClock};
use crate::lab::client::Client;

/// How old the stock on a product page may be.
const STOCK_FRESH_MS: u64 = 1_000;

/// One SKU's figures.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct SkuStock {
    /// The SKU.
    pub sku: String,
    /// Units ever loaded.
    pub loaded: u64,
    /// Units that can be held now.
    pub available: u64,
    /// Units in live holds.
    pub held: u64,
    /// Units sold.
    pub confirmed: u64,
}

/// A reservation, as far as a shop cares.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Order {
    /// Its id.
    pub id: String,
    /// Whose it is.
    pub buyer: String,
    /// `held`, `confirmed` and so on.
    pub status: String,
    /// What is in it.
    pub lines: Vec<OrderLine>,
    /// RFC 3339; until when a hold is kept.
    #[serde(default)]
    pub expires_at: Option<String>,
}

/// Units of one SKU.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct OrderLine {
    /// The SKU.
    pub sku: String,
    /// Units.
    pub qty: u64,
}

/// What came of a payment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Payment {
    /// Sold.
    Confirmed,
    /// Refused for this reason, a problem's name; nothing is sold.
    Refused(String),
}

#[derive(Deserialize)]
struct Stock {
    skus: Vec<SkuStock>,
}

#[derive(Deserialize)]
struct Found {
    reservations: Vec<Order>,
}

/// When the stock was asked for, and what it was.
type LastStock = Option<(u64, Arc<[SkuStock]>)>;

/// A client of one core.
pub struct CoreApi {
    client: Client,
    url: String,
    authorization: String,
    /// Also held while asking, so that a thousand page views are one question.
    stock: Mutex<LastStock>,
}

impl CoreApi {
    /// `url` as `http://HOST:PORT`; `key` is the bearer key of the shop's back end.
    pub fn new(url: &str, key: &str) -> Self {
        Self {
            client: Client::new(32),
            url: url.trim_end_matches('/').to_owned(),
            authorization: format!("Bearer {key}"),
            stock: Mutex::new(None),
        }
    }

    /// All SKUs, at most a second old.
    pub async fn stock(&self) -> Result<Arc<[SkuStock]>> {
        let mut last = self.stock.lock().await;
        let now = SystemClock.now_ms();
        if let Some((at, skus)) = last.as_ref()
            && now.saturating_sub(*at) < STOCK_FRESH_MS
        {
            return Ok(skus.clone());
        }
        let stock: Stock = self.read("/v1/stock").await?.context("the core knows no stock")?;
        let skus: Arc<[SkuStock]> = stock.skus.into();
        *last = Some((now, skus.clone()));
        Ok(skus)
    }

    /// The newest hold of a buyer.
    pub async fn held_by(&self, sale: &str, buyer: &str) -> Result<Option<Order>> {
        let query = form_urlencoded::Serializer::new(String::new())
            .extend_pairs([("sale", sale), ("buyer", buyer), ("status", "held")])
            .finish();
        let found: Option<Found> = self.read(&format!("/v1/reservations?{query}")).await?;
        Ok(found.and_then(|found| found.reservations.into_iter().next_back()))
    }

    /// One reservation; `id` must be a UUID.
    pub async fn order(&self, id: &str) -> Result<Option<Order>> {
        self.read(&format!("/v1/reservations/{id}")).await
    }

    /// Confirms after payment. Sent again with the same reference it is the same payment.
    pub async fn confirm(&self, id: &str, payment_ref: &str) -> Result<Payment> {
        let url = format!("{}/v1/reservations/{id}/confirm", self.url);
        let headers = [("authorization", self.authorization.as_str())];
        let body = json!({ "payment_ref": payment_ref });
        let answer = self.client.post_json(&url, &headers, &body).await?;
        match answer.status {
            StatusCode::OK => {
                // The buyer comes back to the product page and should find the unit sold.
                *self.stock.lock().await = None;
                Ok(Payment::Confirmed)
            }
            StatusCode::CONFLICT | StatusCode::NOT_FOUND => {
                let problem: Problem = answer.json()?;
                Ok(Payment::Refused(problem.name().to_owned()))
            }
            other => bail!("the core answered a confirm with {other}: {}", answer.text()),
        }
    }

    async fn read<T: serde::de::DeserializeOwned>(&self, path: &str) -> Result<Option<T>> {
        let headers = [("authorization", self.authorization.as_str())];
        let answer = self.client.get(&format!("{}{path}", self.url), &headers).await?;
        match answer.status {
            StatusCode::OK => Ok(Some(answer.json()?)),
            StatusCode::NOT_FOUND => Ok(None),
            other => bail!("the core answered {path} with {other}: {}", answer.text()),
        }
    }
}

/// The part of a problem that says which one.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Problem {
    #[serde(rename = "type", default)]
    kind: String,
}

impl Problem {
    /// The last part of its type.
    pub(crate) fn name(&self) -> &str {
        self.kind.rsplit('/').next().unwrap_or("")
    }
}
