//! Webhooks: every event of the outbox, in its order, at least once, signed as Standard Webhooks
//! say. One core at a time delivers to a receiver; the outbox itself is the queue.

mod sign;

use std::time::Duration;

use hyper::header::{CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Method, Request, StatusCode, Uri};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::clock::{Clock, SystemClock};
use crate::http::body;
use crate::http::paced::Progress;
use crate::http::upstream::{OriginError, Times, Upstream};
use crate::store::postgres::{DatabaseError, Event, EventCursor, Ledger};
pub use sign::Signer;

/// Between two looks for new events.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How long a receiver may take to answer.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// How long a deliverer is the only one without saying so again; longer than one delivery.
const LEASE: Duration = Duration::from_secs(30);
/// Between two tries of an event that was not received: doubled each time.
const BACK_OFF_MIN: Duration = Duration::from_secs(1);
const BACK_OFF_MAX: Duration = Duration::from_mins(5);
/// An event that a receiver refuses as malformed (4xx) so often is passed over.
const REFUSED_MAX: u32 = 20;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    outcome: &'static str,
}

/// What became of deliveries.
#[derive(Debug, Clone, Default)]
pub struct WebhookMetrics {
    tries: Family<Outcome, Counter>,
}

impl WebhookMetrics {
    /// Puts them into the registry.
    pub fn register(&self, registry: &mut Registry) {
        let help = "Deliveries of events to webhooks: received, failed, passed_over";
        registry.register("webhook_tries", help, self.tries.clone());
    }

    fn count(&self, outcome: &'static str) {
        self.tries.get_or_create_owned(&Outcome { outcome }).inc();
    }
}

/// Delivers to one receiver.
pub struct Webhook {
    ledger: Ledger,
    url: String,
    uri: Uri,
    upstream: Upstream,
    signer: Signer,
    holder: Uuid,
    metrics: WebhookMetrics,
}

/// What a receiver said.
enum Received {
    Yes,
    /// It will never take this one.
    Refused(StatusCode),
    No(String),
}

impl Webhook {
    /// To `http://HOST[:PORT]/PATH`.
    pub fn new(
        ledger: Ledger,
        url: &str,
        signer: Signer,
        metrics: WebhookMetrics,
    ) -> Result<Self, OriginError> {
        let uri: Uri = url.parse().map_err(|_| OriginError)?;
        let authority = uri.authority().ok_or(OriginError)?;
        let origin = format!("{}://{authority}", uri.scheme_str().unwrap_or("http"));
        let times = Times { response: ANSWER_MAX, ..Times::default() };
        let upstream = Upstream::new(&[origin], times)?;
        let (url, holder) = (url.to_owned(), Uuid::now_v7());
        Ok(Self { ledger, url, uri, upstream, signer, holder, metrics })
    }

    /// Delivers until `stop`.
    pub async fn run(self, stop: CancellationToken) {
        stop.run_until_cancelled(self.deliver_for_ever()).await;
    }

    async fn deliver_for_ever(&self) {
        let (mut failures, mut stuck) = (0_u32, EventCursor::default());
        loop {
            let wait = match self.deliver_page(&mut failures, &mut stuck).await {
                Ok(true) => {
                    failures = 0;
                    continue;
                }
                Ok(false) if failures == 0 => LOOK_EVERY,
                Ok(false) => back_off(failures),
                Err(error) => {
                    tracing::warn!(url = %self.url, %error, "webhook: the ledger does not answer");
                    BACK_OFF_MIN
                }
            };
            tokio::time::sleep(wait).await;
        }
    }

    /// True if there may be more at once. `failures` counts tries of the event at `stuck`.
    async fn deliver_page(
        &self,
        failures: &mut u32,
        stuck: &mut EventCursor,
    ) -> Result<bool, DatabaseError> {
        let database = self.ledger.database();
        let Some(after) = database.lease_webhook(&self.url, self.holder, LEASE).await? else {
            return Ok(false);
        };
        let page = self.ledger.events(after).await?;
        for event in &page.events {
            if *stuck != event.id {
                (*failures, *stuck) = (0, event.id);
            }
            // Each delivery has the lease to itself, however long the page takes.
            let leased = database.lease_webhook(&self.url, self.holder, LEASE).await?;
            if leased.is_none() {
                return Ok(false);
            }
            match self.post(event).await {
                Received::Yes => self.metrics.count("received"),
                Received::Refused(status) if *failures >= REFUSED_MAX => {
                    let (url, id) = (&self.url, event.id);
                    tracing::error!(%url, %id, %status, "webhook: an event is passed over");
                    self.metrics.count("passed_over");
                }
                refused => {
                    *failures += 1;
                    self.metrics.count("failed");
                    self.say_failed(event, &refused, *failures);
                    return Ok(false);
                }
            }
            *failures = 0;
            if !database.advance_webhook(&self.url, self.holder, event.id).await? {
                return Ok(false);
            }
        }
        Ok(!page.events.is_empty())
    }

    fn say_failed(&self, event: &Event, received: &Received, failures: u32) {
        let why = match received {
            Received::Yes => return,
            Received::Refused(status) => format!("answered {status}"),
            Received::No(why) => why.clone(),
        };
        tracing::warn!(url = %self.url, id = %event.id, %why, failures, "webhook: not received");
    }

    async fn post(&self, event: &Event) -> Received {
        let Some(request) = self.request(event) else {
            return Received::No("the event cannot be written".to_owned());
        };
        match self.upstream.send(request, &Progress::default()).await {
            Ok(answer) => match answer.status() {
                status if status.is_success() => Received::Yes,
                status @ (StatusCode::REQUEST_TIMEOUT
                | StatusCode::TOO_MANY_REQUESTS
                | StatusCode::UNAUTHORIZED
                | StatusCode::FORBIDDEN
                | StatusCode::NOT_FOUND) => Received::No(format!("answered {status}")),
                status if status.is_client_error() => Received::Refused(status),
                status => Received::No(format!("answered {status}")),
            },
            Err(error) => Received::No(error.to_string()),
        }
    }

    fn request(&self, event: &Event) -> Option<Request<body::Body>> {
        let id = format!("evt_{}", event.id);
        let now = SystemClock.now_ms() / 1000;
        let text = json!({
            "id": id, "type": event.kind, "timestamp": event.at, "data": event.data,
        });
        let text = text.to_string();
        let signature = self.signer.sign(&id, now, &text)?;
        let path = self.uri.path_and_query().map_or("/", |path| path.as_str());
        let mut request = Request::new(body::full(text));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = path.parse().ok()?;
        let headers = request.headers_mut();
        let authority = self.uri.authority().map(ToString::to_string).unwrap_or_default();
        headers.insert(HOST, HeaderValue::from_str(&authority).ok()?);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert("webhook-id", HeaderValue::from_str(&id).ok()?);
        headers.insert("webhook-timestamp", HeaderValue::from(now));
        headers.insert("webhook-signature", HeaderValue::from_str(&signature).ok()?);
        Some(request)
    }
}

/// Doubled with each failure, a fifth of it at random, so that receivers are not hit in step.
fn back_off(failures: u32) -> Duration {
    let doubled = BACK_OFF_MIN.saturating_mul(1 << failures.saturating_sub(1).min(16));
    doubled.min(BACK_OFF_MAX).mul_f64(rand::random_range(0.8..=1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_does_not_receive_is_asked_ever_less_often_but_never_forgotten() {
        let waits: Vec<_> = (1..=12).map(back_off).collect();
        assert!(waits[0] <= BACK_OFF_MIN && waits[3] > waits[0]);
        assert!(waits.iter().all(|wait| *wait <= BACK_OFF_MAX));
    }
}
