//! Changing something from the page: the key is typed once an hour, every form is checked to be
//! ours, and what it asks for goes the way of the API.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use askama::Template;
use axum::body::Bytes;
use axum::extract::{Path, RawQuery, State};
use axum::http::header::{AUTHORIZATION, LOCATION, SET_COOKIE};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};

use super::session::{Sessions, refuse_foreign};
use super::view::SaleCard;
use super::{Dash, html};
use crate::domain::control::ControlChange;
use crate::domain::rate::Rate;
use crate::domain::refusal::{Problem, Refusal};

#[derive(Template)]
#[template(path = "ops/change.html", whitespace = "minimize")]
struct Page<'a> {
    node: &'a str,
    has_key: bool,
    is_signed_in: bool,
    sales: Vec<SaleCard>,
    done: Option<&'static str>,
    refused: Option<String>,
}

/// What was done, by the word in the address of the page that says so.
const DONE: [(&str, &str); 7] = [
    ("pause", "Paused. Every node follows within a second."),
    ("resume", "Resumed. Every node follows within a second."),
    ("stop", "Stopped: no admission counts any more, places are kept."),
    ("rate", "The new rate is set. It acts on the next turn."),
    ("delay", "The opening is later now."),
    ("bypass", "Everybody is let in from now on, until the bypass ends."),
    ("bypass-end", "The bypass has ended."),
];

type Form = BTreeMap<String, String>;

/// How long a page waits until this node has seen what it did, and how often it looks.
const SEEN_MAX: Duration = Duration::from_secs(1);
const LOOK_EVERY: Duration = Duration::from_millis(20);

fn form(bytes: &Bytes) -> Form {
    form_urlencoded::parse(bytes).into_owned().collect()
}

/// `GET /change`
pub(super) async fn page(
    State(dash): State<Arc<Dash>>,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Response {
    let word = query.as_deref().and_then(|query| query.strip_prefix("done="));
    let done = word.and_then(|word| DONE.into_iter().find(|(known, _)| *known == word));
    dash.show(&headers, done.map(|(_, text)| text), None)
}

/// `POST /session` {key}
pub(super) async fn begin(
    State(dash): State<Arc<Dash>>,
    headers: HeaderMap,
    bytes: Bytes,
) -> Response {
    let typed = form(&bytes).remove("key").unwrap_or_default();
    let given = || {
        refuse_foreign(&headers)?;
        let wrong =
            || Refusal::new(Problem::NotAdmitted, "this is not the operators' key").status(401);
        let mut as_header = HeaderMap::new();
        let bearer = HeaderValue::from_str(&format!("Bearer {typed}")).map_err(|_| wrong())?;
        as_header.insert(AUTHORIZATION, bearer);
        dash.parts.ops.key.check(&as_header).map_err(|refusal| match refusal.http_status() {
            401 => wrong(),
            _ => refusal,
        })
    };
    match given() {
        Ok(()) => moved("/change", Some(&dash.sessions.begin((dash.parts.now_ms)()))),
        Err(refusal) => dash.show(&headers, None, Some(&refusal)),
    }
}

/// `POST /session/end`
pub(super) async fn end(State(dash): State<Arc<Dash>>, headers: HeaderMap) -> Response {
    match refuse_foreign(&headers) {
        Ok(()) => moved("/", Some(&Sessions::end())),
        Err(refusal) => dash.show(&headers, None, Some(&refusal)),
    }
}

/// `POST /act/{sale}` {action, …}
pub(super) async fn act(
    State(dash): State<Arc<Dash>>,
    headers: HeaderMap,
    Path(sale): Path<String>,
    bytes: Bytes,
) -> Response {
    match dash.apply(&headers, &sale, &form(&bytes)).await {
        Ok(done) => moved(&format!("/change?done={done}"), None),
        Err(refusal) => dash.show(&headers, None, Some(&refusal)),
    }
}

impl Dash {
    async fn apply(
        &self,
        headers: &HeaderMap,
        sale: &str,
        form: &Form,
    ) -> Result<&'static str, Refusal> {
        refuse_foreign(headers)?;
        if !self.sessions.is_on(headers, (self.parts.now_ms)()) {
            let detail = "type the operators' key first; it is asked for once an hour";
            return Err(Refusal::new(Problem::NotAdmitted, detail).status(401));
        }
        let ops = &self.parts.ops;
        let room = ops.room(sale)?;
        let word = form.get("action").map_or("", String::as_str);
        let known = DONE.into_iter().find(|(known, _)| *known == word);
        let (word, _) =
            known.ok_or_else(|| Refusal::bad_request("action", "is not one of this page's"))?;
        let change = change(word, form, &room.snapshot().control)?;
        let applied = ops.desk.apply(room.sale(), &format!("page@{}", ops.node), &change).await?;
        // What is shown next is what this node has seen: else the page offers "Pause" once more.
        let seen = async {
            while room.snapshot().control.version < applied.control.version {
                tokio::time::sleep(LOOK_EVERY).await;
            }
        };
        let _in_time = tokio::time::timeout(SEEN_MAX, seen).await;
        Ok(word)
    }

    fn show(
        &self,
        headers: &HeaderMap,
        done: Option<&'static str>,
        refused: Option<&Refusal>,
    ) -> Response {
        let status = refused.and_then(|refusal| StatusCode::from_u16(refusal.http_status()).ok());
        let page = Page {
            node: &self.parts.ops.node,
            has_key: self.parts.ops.key.is_set(),
            is_signed_in: self.sessions.is_on(headers, (self.parts.now_ms)()),
            sales: self.cards(),
            done,
            refused: refused.map(|refusal| refusal.detail.clone()),
        };
        html(status.unwrap_or(StatusCode::OK), page.render())
    }
}

fn change(
    word: &str,
    form: &Form,
    control: &crate::domain::sale::Control,
) -> Result<ControlChange, Refusal> {
    let mut change = ControlChange::default();
    let minutes_ms = || {
        let raw = form.get("minutes").map_or("", |raw| raw.trim());
        let minutes: Option<u64> = raw.parse().ok().filter(|m| (1..=10_080).contains(m));
        let cure = "must be a whole number from 1 to 10080";
        minutes.map(|m| m * 60_000).ok_or_else(|| Refusal::bad_request("minutes", cure))
    };
    match word {
        "pause" => change.paused = Some(true),
        "resume" => change.paused = Some(false),
        "stop" if form.get("sure").is_some_and(|sure| sure == "yes") => {
            (change.paused, change.next_epoch) = (Some(true), true);
        }
        "stop" => return Err(Refusal::bad_request("sure", "tick the box: a stop voids everybody")),
        "rate" => {
            let raw = form.get("rate").map_or("", String::as_str);
            change.rate =
                Some(Rate::parse(raw).map_err(|error| Refusal::bad_request("rate", error))?);
        }
        "delay" => {
            let later_ms = minutes_ms()?;
            change.opens_ms = Some(control.opens_ms.saturating_add(later_ms));
            change.closes_ms = Some(control.closes_ms.saturating_add(later_ms));
        }
        "bypass" => change.bypass_for_ms = Some(minutes_ms()?),
        _ => change.bypass_for_ms = Some(0),
    }
    Ok(change)
}

/// 303, so that loading the page again does nothing again.
fn moved(to: &str, cookie: Option<&str>) -> Response {
    let mut response = StatusCode::SEE_OTHER.into_response();
    for (name, value) in [(LOCATION, Some(to)), (SET_COOKIE, cookie)] {
        if let Some(value) = value.and_then(|value| HeaderValue::from_str(value).ok()) {
            response.headers_mut().insert(name, value);
        }
    }
    response
}
