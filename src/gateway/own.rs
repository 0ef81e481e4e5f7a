//! What is ours and belongs to no sale: keys, health, assets, the catalogue of problems.

use hyper::header::{self, HeaderValue};
use hyper::{Response, StatusCode};

use super::asked::Asked;
use super::assets;
use super::pages::{PageState, PageView, ProblemNote};
use super::reader::Reader;
use super::respond::{self, Kind};
use super::route::not_found;
use crate::domain::refusal::{Problem, Refusal};
use crate::http::body::Body;

/// For load balancers; exempt from Host and limits.
pub(super) const HEALTH_PATH: &str = "/_stanchion/health";

/// 200 while this node takes requests, 503 once it drains.
pub(super) fn health(ready: bool) -> Response<Body> {
    let (status, word) = if ready {
        (StatusCode::OK, "ok\n")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "stopping\n")
    };
    respond::bytes(status, "text/plain; charset=utf-8", word, Kind::Own)
}

/// The public admission keys.
pub(super) fn jwks(keys: &str) -> Response<Body> {
    let mut response =
        respond::bytes(StatusCode::OK, "application/jwk-set+json", keys.to_owned(), Kind::Own);
    respond::keepable(&mut response, "public, max-age=60");
    response
}

/// A file with a hashed name, to be kept for ever. During an upgrade pages of one node ask another
/// of another version: its own file does, and nobody keeps that by the wrong name.
pub(super) fn asset(asked: &Asked, name: &str) -> Result<Response<Body>, Refusal> {
    if let Some(asset) = assets::find(name) {
        return Ok(file(asked, asset, assets::CACHE_CONTROL));
    }
    let asset = assets::of_another_version(name)
        .ok_or_else(|| not_found("no such file; its name changes with every version"))?;
    Ok(file(asked, asset, "no-store"))
}

/// A script for the shop's own pages: its name stays, so it is looked after now and then.
pub(super) fn script(asked: &Asked, name: &str) -> Result<Response<Body>, Refusal> {
    let asset = assets::named(name).ok_or_else(|| not_found("no such script"))?;
    Ok(file(asked, asset, "public, max-age=300, must-revalidate"))
}

fn file(asked: &Asked, asset: assets::Asset, keep: &'static str) -> Response<Body> {
    let etag = HeaderValue::from_static(asset.etag);
    let known = asked.headers().get(header::IF_NONE_MATCH).is_some_and(|tags| *tags == etag);
    let mut response = if known {
        respond::bare(StatusCode::NOT_MODIFIED)
    } else {
        respond::bytes(StatusCode::OK, asset.content_type, asset.bytes, Kind::Own)
    };
    respond::keepable(&mut response, keep);
    response.headers_mut().insert(header::ETAG, etag);
    response
}

/// What a problem type means.
pub(super) fn problem(reader: Reader, name: &str, now_ms: u64) -> Result<Response<Body>, Refusal> {
    let problem = Problem::named(name).ok_or_else(|| not_found("no such problem type"))?;
    if reader == Reader::Script {
        let body = serde_json::json!({
            "type": format!("/_stanchion/problems/{name}"),
            "title": problem.title(),
            "status": problem.status(),
        });
        return Ok(respond::json(StatusCode::OK, &body, Kind::Own));
    }
    let mut view = PageView::new(PageState::Problem, now_ms);
    view.problem = Some(ProblemNote { problem, detail: String::new() });
    Ok(respond::page(StatusCode::OK, &view, Kind::Own))
}

/// Whether a script of the asking origin may ask; [`respond::share`] adds who may read.
pub(super) fn preflight() -> Response<Body> {
    let mut response = respond::bare(StatusCode::NO_CONTENT);
    let headers = response.headers_mut();
    let methods = HeaderValue::from_static("GET, POST");
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, methods);
    let names = HeaderValue::from_static(
        "Content-Type, Idempotency-Key, Stanchion-Ticket, Stanchion-Admission",
    );
    headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, names);
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    response
}
