//! The shop's requests.

use std::sync::Arc;

use anyhow::{Context, Result};
use askama::Template;
use axum::Router;
use axum::body::Bytes;
use axum::extract::{Query, Request, State};
use axum::http::header::{AUTHORIZATION, CACHE_CONTROL, LOCATION, SET_COOKIE};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{Html, IntoResponse, Json, Response};
use axum::routing::get;
use serde::Deserialize;
use tokio::net::TcpListener;

use super::core_api::{CoreApi, Payment};
use super::journal::{Log, Visit};
use super::pages::{Checkout, Login, Notice, Pay, Product};
use super::sessions::Sessions;

/// A shop for one sale.
pub struct Shop {
    core: CoreApi,
    sale: String,
    key: String,
    sessions: Sessions,
    log: Log,
}

impl Shop {
    /// A shop that asks the core at `core_url` with `core_key`, and opens its journal to that key.
    pub fn new(core_url: &str, core_key: &str, sale: &str) -> Self {
        Self {
            core: CoreApi::new(core_url, core_key),
            sale: sale.to_owned(),
            key: core_key.to_owned(),
            sessions: Sessions::default(),
            log: Log::default(),
        }
    }

    /// Its routes.
    pub fn router(self) -> Router {
        let shop = Arc::new(self);
        Router::new()
            .route("/", get(product))
            .route("/login", get(login))
            .route("/whoami", get(whoami))
            .route("/checkout", get(checkout))
            .route("/checkout/pay", get(pay).post(paid))
            .route("/checkout/thanks", get(thanks))
            .route("/_shop/log", get(journal))
            .fallback(missing)
            .layer(from_fn_with_state(shop.clone(), note))
            .with_state(shop)
    }
}

/// Answers on `listener` until the other future is done.
pub async fn serve(
    listener: TcpListener,
    shop: Shop,
    until: impl Future<Output = ()> + Send + 'static,
) -> Result<()> {
    axum::serve(listener, shop.router())
        .with_graceful_shutdown(until)
        .await
        .context("the sample shop's listener")
}

type Shared = State<Arc<Shop>>;

async fn note(State(shop): Shared, request: Request, next: Next) -> Response {
    let path = request.uri().path();
    if path == "/checkout" || path.starts_with("/checkout/") {
        let request_line = format!("{} {path}", request.method());
        let visitor = text(request.headers(), "stanchion-visitor").to_owned();
        shop.log.note(Visit { request: request_line, visitor });
    }
    let mut response = next.run(request).await;
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

async fn product(State(shop): Shared, headers: HeaderMap) -> Response {
    let stock = shop.core.stock().await.inspect_err(warn).ok();
    page(
        StatusCode::OK,
        &Product { account: shop.sessions.account(&headers), stock: stock.as_deref() },
    )
}

#[derive(Deserialize)]
struct LoginQuery {
    #[serde(default)]
    user: String,
    #[serde(default)]
    next: String,
}

/// Signing in by GET is this sample's shortcut, so that a link is enough for a try.
async fn login(State(shop): Shared, Query(query): Query<LoginQuery>) -> Response {
    // Only paths of this shop: `//host` and `/\host` lead elsewhere.
    let inside = query.next.starts_with('/') && !query.next[1..].starts_with(['/', '\\']);
    let next = if inside { query.next } else { "/".to_owned() };
    match (shop.sessions.sign_in(&query.user), HeaderValue::from_str(&next)) {
        (Some(session), Ok(next)) => {
            let Ok(session) = HeaderValue::from_str(&session) else {
                return StatusCode::BAD_REQUEST.into_response();
            };
            (StatusCode::SEE_OTHER, [(LOCATION, next), (SET_COOKIE, session)]).into_response()
        }
        _ => page(StatusCode::OK, &Login { account: None, next }),
    }
}

async fn whoami(State(shop): Shared, headers: HeaderMap) -> Response {
    let account = shop.sessions.account(&headers);
    match account.and_then(|name| HeaderValue::from_str(&name).ok()) {
        Some(name) => {
            (StatusCode::OK, [(HeaderName::from_static("x-account-id"), name)]).into_response()
        }
        None => StatusCode::UNAUTHORIZED.into_response(),
    }
}

async fn checkout(State(shop): Shared, headers: HeaderMap) -> Response {
    let account = shop.sessions.account(&headers);
    match shop.core.stock().await {
        Ok(stock) => {
            let order_key = format!("{:032x}", rand::random::<u128>());
            let (sale, stock) = (shop.sale.as_str(), &*stock);
            page(StatusCode::OK, &Checkout { account, sale, stock, order_key })
        }
        Err(error) => unavailable(&error, account),
    }
}

/// Whom the gateway vouches for: the account, else the visitor.
fn buyer(headers: &HeaderMap) -> &str {
    let account = text(headers, "stanchion-account");
    if account.is_empty() { text(headers, "stanchion-visitor") } else { account }
}

async fn pay(State(shop): Shared, headers: HeaderMap) -> Response {
    let account = shop.sessions.account(&headers);
    let buyer = buyer(&headers);
    if buyer.is_empty() {
        return page(StatusCode::OK, &Pay { account, order: None });
    }
    match shop.core.held_by(&shop.sale, buyer).await {
        Ok(order) => page(StatusCode::OK, &Pay { account, order }),
        Err(error) => unavailable(&error, account),
    }
}

/// The pretended payment always succeeds; whether the order stands is the core's word.
async fn paid(State(shop): Shared, headers: HeaderMap, body: Bytes) -> Response {
    let account = shop.sessions.account(&headers);
    let id = form_urlencoded::parse(&body).find(|(name, _)| name == "reservation");
    let Some(id) = id.and_then(|(_, raw)| raw.parse::<uuid::Uuid>().ok()) else {
        let text = "The form names no reservation.";
        return notice(StatusCode::BAD_REQUEST, account, "That did not work", text);
    };
    match settle(&shop, buyer(&headers), &id.to_string()).await {
        Ok(Payment::Confirmed) => {
            let to = HeaderValue::from_static("/checkout/thanks");
            (StatusCode::SEE_OTHER, [(LOCATION, to)]).into_response()
        }
        Ok(Payment::Refused(reason)) => {
            let text = format!("Nothing was charged and nothing was sold ({reason}).");
            notice(StatusCode::CONFLICT, account, "The hold has run out", &text)
        }
        Err(error) => unavailable(&error, account),
    }
}

async fn settle(shop: &Shop, buyer: &str, id: &str) -> Result<Payment> {
    let order = shop.core.order(id).await?;
    if order.is_none_or(|order| buyer.is_empty() || order.buyer != buyer) {
        return Ok(Payment::Refused("unknown-order".into()));
    }
    // One reference per order: a second click is the same payment, not another.
    shop.core.confirm(id, &format!("pretended-{id}")).await
}

async fn thanks(State(shop): Shared, headers: HeaderMap) -> Response {
    let text = "It is yours. A real shop would now send it.";
    notice(StatusCode::OK, shop.sessions.account(&headers), "Thank you", text)
}

async fn journal(State(shop): Shared, headers: HeaderMap) -> Response {
    if text(&headers, AUTHORIZATION.as_str()) != format!("Bearer {}", shop.key) {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    Json(shop.log.read()).into_response()
}

async fn missing(State(shop): Shared, headers: HeaderMap) -> Response {
    let text = "There is no such page in this shop.";
    notice(StatusCode::NOT_FOUND, shop.sessions.account(&headers), "Not here", text)
}

fn notice(status: StatusCode, account: Option<String>, title: &str, text: &str) -> Response {
    page(status, &Notice { account, title, text })
}

fn unavailable(error: &anyhow::Error, account: Option<String>) -> Response {
    warn(error);
    let text = "The shop's back end is not answering; please try again in a moment.";
    notice(StatusCode::SERVICE_UNAVAILABLE, account, "One moment", text)
}

fn warn(error: &anyhow::Error) {
    tracing::warn!(error = format!("{error:#}"), "the sample shop could not ask the core");
}

fn page(status: StatusCode, template: &impl Template) -> Response {
    match template.render() {
        Ok(html) => (status, Html(html)).into_response(),
        Err(error) => {
            tracing::error!(%error, "a page of the sample shop failed");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::client::Client;

    /// A shop whose core does not answer; the rest is as always.
    async fn open() -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let shop = Shop::new("http://127.0.0.1:9", "secret", "drop");
        tokio::spawn(serve(listener, shop, std::future::pending()));
        url
    }

    #[tokio::test]
    async fn the_product_page_stays_up_without_the_core_and_the_checkout_says_so() {
        let (url, client) = (open().await, Client::new(4));
        let front = client.get(&url, &[]).await.unwrap();
        assert_eq!(front.status, 200);
        assert!(front.text().contains("not known just now"));
        let checkout = client.get(&format!("{url}/checkout"), &[]).await.unwrap();
        assert_eq!(checkout.status, 503);
    }

    #[tokio::test]
    async fn a_session_is_vouched_for_and_no_login_leads_off_the_shop() {
        let (url, client) = (open().await, Client::new(4));
        let whoami = format!("{url}/whoami");
        assert_eq!(client.get(&whoami, &[]).await.unwrap().status, 401);
        for elsewhere in ["//evil.example", "/%5Cevil.example", "https://evil.example"] {
            let login = format!("{url}/login?user=ada&next={elsewhere}");
            let answer = client.get(&login, &[]).await.unwrap();
            assert_eq!((answer.status.as_u16(), answer.header("location")), (303, "/"));
        }
        let login = format!("{url}/login?user=ada&next=/checkout");
        let answer = client.get(&login, &[]).await.unwrap();
        assert_eq!(answer.header("location"), "/checkout");
        let (cookie, _) = answer.header("set-cookie").split_once(';').unwrap();
        let answer = client.get(&whoami, &[("cookie", cookie)]).await.unwrap();
        assert_eq!((answer.status.as_u16(), answer.header("x-account-id")), (200, "ada"));
    }

    #[tokio::test]
    async fn whatever_reaches_the_checkout_is_in_the_journal_for_the_key_only() {
        let (url, client) = (open().await, Client::new(4));
        let vouched = [("stanchion-visitor", "v1")];
        client.get(&format!("{url}/checkout/thanks?x=1"), &vouched).await.unwrap();
        client.post_form(&format!("{url}/checkout/pay"), &[], &[]).await.unwrap();
        client.get(&url, &[]).await.unwrap();

        let log = format!("{url}/_shop/log");
        assert_eq!(client.get(&log, &[]).await.unwrap().status, 401);
        let answer = client.get(&log, &[("authorization", "Bearer secret")]).await.unwrap();
        let journal: crate::lab::shop::Journal = answer.json().unwrap();
        let visits: Vec<_> =
            journal.visits.iter().map(|v| (v.request.as_str(), v.visitor.as_str())).collect();
        assert_eq!(visits, [("GET /checkout/thanks", "v1"), ("POST /checkout/pay", "")]);
    }
}
