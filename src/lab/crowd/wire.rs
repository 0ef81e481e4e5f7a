//! One shopper's requests: cookies, address, and a stopwatch.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use anyhow::Result;
use bytes::Bytes;
use http::{Method, StatusCode};
use serde::Deserialize;
use serde_json::json;

use super::field::Field;
use super::jar::Jar;
use super::plan::address;
use crate::clock::{Clock, SystemClock};
use crate::domain::status::Status;
use crate::lab::client::{Answer, Client, request};

/// From here on the addresses of those who come back from another network.
const OTHER_NETWORK: usize = 1 << 23;

/// The steps whose time is taken.
#[derive(Debug, Clone, Copy)]
pub(super) enum Step {
    Join,
    Status,
    Claim,
    Reserve,
    Other,
}

/// One shopper's browser.
pub(super) struct Wire {
    field: Arc<Field>,
    /// Its sockets; most browsers share them, as behind a CDN.
    client: Client,
    shopper: usize,
    requests: AtomicUsize,
    jar: Mutex<Jar>,
}

/// An answer, with when it was asked for and when it was there.
pub(super) struct Timed {
    pub(super) answer: Answer,
    pub(super) sent_ms: u64,
    pub(super) received_ms: u64,
    /// Which gateway answered, by number.
    pub(super) gateway: usize,
}

/// A refusal as read from a problem's body.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Problem {
    #[serde(rename = "type")]
    kind: String,
    pub(super) retry_after_ms: Option<u64>,
    /// Of `sold-out`: units that may come back.
    pub(super) held: Option<u64>,
}

impl Problem {
    /// Reads the body of any answer that is not a success.
    pub(super) fn of(answer: &Answer) -> Self {
        answer.json().unwrap_or_default()
    }

    /// The last part of its type, "" for none.
    pub(super) fn name(&self) -> &str {
        self.kind.rsplit('/').next().unwrap_or("")
    }
}

impl Wire {
    pub(super) fn new(field: Arc<Field>, shopper: usize) -> Self {
        Self::with_jar(field, shopper, Jar::default())
    }

    fn with_jar(field: Arc<Field>, shopper: usize, jar: Jar) -> Self {
        let client = field.client.clone();
        Self { field, client, shopper, requests: AtomicUsize::new(0), jar: Mutex::new(jar) }
    }

    /// A browser without cookies, as of somebody's other device.
    pub(super) fn without_cookies(&self) -> Self {
        Self::new(self.field.clone(), self.shopper)
    }

    /// The place's ticket and the session, seen from another network.
    pub(super) fn in_new_tab(&self) -> Self {
        let jar = self.jar().without("stanchion-pass");
        Self::with_jar(self.field.clone(), self.shopper | OTHER_NETWORK, jar)
    }

    /// The same cookies over sockets of its own.
    pub(super) fn restarted(&self) -> Self {
        let again = Self::with_jar(self.field.clone(), self.shopper, self.jar().clone());
        Self { client: Client::new(1), ..again }
    }

    pub(super) fn field(&self) -> &Field {
        &self.field
    }

    pub(super) async fn join(&self, key: &str) -> Result<Timed> {
        self.post(Step::Join, &self.ours("join"), Some(key), &json!({})).await
    }

    /// Signs in at the shop, which is behind the gateway.
    pub(super) async fn sign_in(&self, account: &str) -> Result<()> {
        let path = format!("/login?user={account}&next=/");
        let timed = self.call(Step::Other, Method::GET, &path, &[], Bytes::new()).await?;
        let vouched = self.call(Step::Other, Method::GET, "/whoami", &[], Bytes::new()).await?;
        anyhow::ensure!(
            vouched.is_success() && vouched.answer.header("x-account-id") == account,
            "signing in at the shop was answered by {} and then {}",
            timed.status_code(),
            vouched.status_code()
        );
        Ok(())
    }

    /// The queue page, as a browser loads it.
    pub(super) async fn page(&self) -> Result<Timed> {
        let headers = [("accept", "text/html"), ("sec-fetch-mode", "navigate")];
        let path = format!("/_stanchion/{}", self.field.sale);
        self.call(Step::Other, Method::GET, &path, &headers, Bytes::new()).await
    }

    pub(super) async fn status(&self) -> Result<Timed> {
        self.call(Step::Status, Method::GET, &self.ours("status"), &[], Bytes::new()).await
    }

    pub(super) async fn claim(&self) -> Result<Timed> {
        self.post(Step::Claim, &self.ours("claim"), None, &json!({})).await
    }

    pub(super) async fn reserve(&self, key: &str) -> Result<Timed> {
        let field = self.field();
        let now = field.reserving.fetch_add(1, Ordering::Relaxed) + 1;
        field.reserving_peak.fetch_max(now, Ordering::Relaxed);
        let body = json!({ "lines": [{ "sku": field.sku, "qty": field.qty }] });
        let answer = self.post(Step::Reserve, &self.ours("reservations"), Some(key), &body).await;
        field.reserving.fetch_sub(1, Ordering::Relaxed);
        answer
    }

    /// Pays at the shop, through the gateway.
    pub(super) async fn pay(&self, reservation: &str) -> Result<Timed> {
        let form = [("content-type", "application/x-www-form-urlencoded")];
        let body = format!("reservation={reservation}").into();
        self.call(Step::Other, Method::POST, "/checkout/pay", &form, body).await
    }

    fn ours(&self, what: &str) -> String {
        format!("/_stanchion/{}/{what}", self.field.sale)
    }

    async fn post(
        &self,
        step: Step,
        path: &str,
        key: Option<&str>,
        body: &serde_json::Value,
    ) -> Result<Timed> {
        let mut headers = vec![("content-type", "application/json")];
        headers.extend(key.map(|key| ("idempotency-key", key)));
        self.call(step, Method::POST, path, &headers, body.to_string().into()).await
    }

    /// Sends one request to the next gateway and takes over the cookies of the answer.
    pub(super) async fn call(
        &self,
        step: Step,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Bytes,
    ) -> Result<Timed> {
        let turn = self.requests.fetch_add(1, Ordering::Relaxed).wrapping_add(self.shopper);
        let gateway = turn % self.field.gateways.len();
        let (address, cookies) = (address(self.shopper).to_string(), self.jar().header());
        let mut all = vec![("x-forwarded-for", address.as_str())];
        if !headers.iter().any(|(name, _)| *name == "accept") {
            all.push(("accept", "application/json"));
        }
        all.extend(cookies.as_deref().map(|cookies| ("cookie", cookies)));
        all.extend(headers);
        let request =
            request(method, &format!("{}{path}", self.field.gateways[gateway]), &all, body)?;

        let (sent_ms, watch) = (SystemClock.now_ms(), Instant::now());
        let answer = self.client.send(request).await?;
        self.field.note(step, u64::try_from(watch.elapsed().as_micros()).unwrap_or(u64::MAX));
        self.jar().absorb(&answer.headers);
        Ok(Timed { answer, sent_ms, received_ms: SystemClock.now_ms(), gateway })
    }

    fn jar(&self) -> MutexGuard<'_, Jar> {
        self.jar.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Timed {
    pub(super) fn is_success(&self) -> bool {
        self.answer.status.is_success()
    }

    pub(super) fn status_code(&self) -> StatusCode {
        self.answer.status
    }

    /// The status body, also where it has more beside it.
    pub(super) fn place(&self) -> Result<Status> {
        self.answer.json()
    }
}
