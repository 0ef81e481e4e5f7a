//! The operators' page: is the line moving, and a way to change that.
//!
//! The server renders; a script only puts each second's rendering in place, and without one the
//! page loads itself again. It shows what the metrics show and nothing of any shopper, so it needs
//! no key; whatever changes something does.

mod act;
mod format;
mod live;
mod session;
mod trail;
mod view;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use bytes::Bytes;
use futures_util::StreamExt;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::Ops;
use super::health::Health;
use super::pulse::Pulse;
use super::roster::Roster;
use crate::config::reload::ReloadState;
use session::Sessions;
use trail::Trail;

/// Pages that follow at once.
const STREAMS_MAX: usize = 64;
const EVERY: Duration = Duration::from_secs(1);
/// The largest form, in bytes.
const FORM_BYTES_MAX: usize = 4 * 1024;

/// Our own files only; no inline script or style; nobody may frame it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
     connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// What the page is made from.
pub struct DashParts {
    /// The sales, the desk and the key.
    pub ops: Arc<Ops>,
    /// What is sampled.
    pub pulse: Arc<Pulse>,
    /// The nodes heard of.
    pub roster: Arc<Roster>,
    /// What is said of the settings file.
    pub reload: Arc<ReloadState>,
    /// What this node rests on.
    pub health: Arc<Health>,
    /// The machine's clock, Unix milliseconds: sessions go by it.
    pub now_ms: fn() -> u64,
    /// Ends the pages that follow.
    pub draining: CancellationToken,
}

/// The page's state.
pub struct Dash {
    parts: DashParts,
    sessions: Sessions,
    trail: Trail,
    streams: Arc<Semaphore>,
}

impl Dash {
    /// Nobody is signed in yet.
    pub fn new(parts: DashParts) -> Arc<Self> {
        let streams = Arc::new(Semaphore::new(STREAMS_MAX));
        Arc::new(Self { parts, sessions: Sessions::new(), trail: Trail::default(), streams })
    }
}

/// The page's routes.
pub(super) fn router(dash: Arc<Dash>) -> Router {
    Router::new()
        .route("/", get(page))
        .route("/live", get(follow))
        .route("/change", get(act::page))
        .route("/session", post(act::begin))
        .route("/session/end", post(act::end))
        .route("/act/{sale}", post(act::act))
        .layer(DefaultBodyLimit::max(FORM_BYTES_MAX))
        .with_state(dash)
        .route("/ops.css", get(async || file("text/css; charset=utf-8", CSS)))
        .route("/ops.js", get(async || file("text/javascript; charset=utf-8", JS)))
        .route("/mark.svg", get(async || file("image/svg+xml", MARK)))
}

const CSS: &[u8] = include_bytes!("../../../static/ops.css");
const JS: &[u8] = include_bytes!("../../../static/ops.js");
const MARK: &[u8] = include_bytes!("../../../static/mark.svg");

fn file(kind: &'static str, bytes: &'static [u8]) -> Response {
    // A new program brings new files under these names.
    with(StatusCode::OK, kind, "no-cache", Body::from(bytes))
}

fn html(status: StatusCode, rendered: Result<String, askama::Error>) -> Response {
    match rendered {
        Ok(text) => with(status, "text/html; charset=utf-8", "private, no-store", text.into()),
        Err(error) => {
            tracing::error!(%error, "the operators' page could not be written");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

fn with(status: StatusCode, kind: &'static str, keep: &'static str, body: Body) -> Response {
    let mut response = (status, body).into_response();
    let headers: [(HeaderName, &'static str); 5] = [
        (CONTENT_TYPE, kind),
        (CACHE_CONTROL, keep),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "same-origin"),
    ];
    for (name, value) in headers {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// `GET /`
async fn page(State(dash): State<Arc<Dash>>) -> Response {
    let rendered = dash.live().await.and_then(|live| live::page(&dash.parts.ops.node, &live));
    html(StatusCode::OK, rendered)
}

/// `GET /live`: the changing part, once a second, as server-sent events.
async fn follow(State(dash): State<Arc<Dash>>) -> Response {
    let Ok(seat) = Arc::clone(&dash.streams).try_acquire_owned() else {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    };
    let ending = dash.parts.draining.clone().cancelled_owned();
    let mut ticks = tokio::time::interval(EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    let events =
        futures_util::stream::unfold((dash, ticks, seat), async |(dash, mut ticks, seat)| {
            ticks.tick().await;
            let live = dash.live().await.unwrap_or_default();
            let event = Bytes::from(event(&live));
            Some((Ok::<_, std::convert::Infallible>(event), (dash, ticks, seat)))
        });
    let body = Body::from_stream(events.take_until(ending));
    with(StatusCode::OK, "text/event-stream", "no-store", body)
}

/// One event; its lines come back with line breaks between them.
fn event(text: &str) -> String {
    let mut event = String::with_capacity(text.len() + 1024);
    for line in text.lines() {
        event.push_str("data: ");
        event.push_str(line);
        event.push('\n');
    }
    event.push('\n');
    event
}
