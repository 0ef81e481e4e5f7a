//! To the shop: with an admission, or with the proof that none is needed.

use std::fmt::Write;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Either, ready};
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{HeaderMap, Request, Response};
use secrecy::{ExposeSecret, SecretString};

use super::asked::Asked;
use super::core_client::STANCHION_ADMISSION;
use super::crowd::{Crowd, Whose};
use super::freshness;
use super::headers::{WRITTEN_BYTES, Writer, clean, from_shop, introduce, put};
use super::identify::{Pass, Visitor};
use super::route::Ungated;
use crate::domain::id::AccountId;
use crate::domain::limits::AddressKey;
use crate::domain::refusal::{Problem, Refusal, spread};
use crate::domain::status::rfc3339;
use crate::http::body::Body;
use crate::http::hop::elements;
use crate::http::proxy::Proxy;
use crate::http::under_way::Place;
use crate::http::upstream::{Upstream, UpstreamError};
use crate::room::Room;

const STANCHION_SALE: HeaderName = HeaderName::from_static("stanchion-sale");
const STANCHION_VISITOR: HeaderName = HeaderName::from_static("stanchion-visitor");
const STANCHION_ACCOUNT: HeaderName = HeaderName::from_static("stanchion-account");
const STANCHION_POSITION: HeaderName = HeaderName::from_static("stanchion-position");
const STANCHION_EXPIRES: HeaderName = HeaderName::from_static("stanchion-expires");
const CDN_LOOP: HeaderName = HeaderName::from_static("cdn-loop");
const STANCHION_ORIGIN_KEY: HeaderName = HeaderName::from_static("stanchion-origin-key");

/// When to try again after the shop did not answer, in milliseconds; up to a fifth more.
const RETRY_MS: u64 = 5_000;
/// How soon an upgraded connection ends after a stop, or an opening.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(250);

/// The way to the shop.
pub(super) struct Shop {
    proxy: Proxy,
    crowd: Arc<Crowd>,
    /// Lets the shop refuse whoever did not come through us.
    secret: Option<SecretString>,
    /// By which this node knows a request that it has sent to the shop before (RFC 8586).
    mark: HeaderValue,
}

/// Why a request may pass. Neither can be made up: one comes from a verified token, the other from
/// the routing rules.
pub(super) enum Permit<'a> {
    /// The visitor's turn has come, in this room.
    Admitted(&'a Pass, &'a Arc<Room>),
    /// The same by an admission whose name says nothing of who it is.
    Nameless(&'a Pass, &'a Arc<Room>),
    /// The path is free at this time.
    Free(Ungated<'a>),
}

impl<'a> Permit<'a> {
    /// By an admission of this visitor.
    pub(super) fn of(visitor: &Visitor, pass: &'a Pass, room: &'a Arc<Room>) -> Self {
        match visitor.name(pass) {
            Some(_) => Self::Admitted(pass, room),
            None => Self::Nameless(pass, room),
        }
    }

    /// Whom the request counts for while it is under way.
    fn whose(&self, address: IpAddr) -> Whose<'_> {
        match self {
            Self::Admitted(pass, _) => Whose::Admission(&pass.admission.sub),
            Self::Nameless(..) | Self::Free(_) => Whose::Address(AddressKey::of(address)),
        }
    }

    fn admission(&self) -> Option<(&Pass, &Arc<Room>)> {
        match self {
            Self::Admitted(pass, room) | Self::Nameless(pass, room) => Some((pass, room)),
            Self::Free(_) => None,
        }
    }

    /// Comes when the permit is void: a stop ends what was upgraded under an admission of before, a
    /// lobby what was upgraded where it opens.
    fn ends(&self) -> BoxFuture<'static, ()> {
        let (pass, room) = match self {
            Self::Admitted(pass, room) | Self::Nameless(pass, room) => (pass, room),
            Self::Free(free) => return free.ends(),
        };
        let (epoch, room) = (pass.admission.epoch, Arc::clone(room));
        Box::pin(async move {
            while room.snapshot().control.epoch == epoch {
                tokio::time::sleep(LOOK_EVERY).await;
            }
        })
    }
}

impl Shop {
    /// The shop behind a proxy.
    pub(super) fn new(proxy: Proxy, crowd: Arc<Crowd>, secret: Option<SecretString>) -> Self {
        let mark = HeaderValue::from_str(&format!("edge-{:016x}", rand::random::<u64>()));
        let mark = mark.unwrap_or_else(|_| HeaderValue::from_static("edge"));
        Self { proxy, crowd, secret, mark }
    }

    /// What is known of its addresses.
    pub(super) fn upstream(&self) -> &Upstream {
        self.proxy.upstream()
    }

    /// Forwards a request and streams the answer.
    pub(super) fn forward<'a>(
        &'a self,
        asked: &'a mut Asked,
        permit: &'a Permit<'_>,
    ) -> impl Future<Output = Result<Response<Body>, Refusal>> + Send + 'a {
        match self.crowd.enter(permit.whose(asked.client.ip)) {
            Ok(place) => Either::Left(self.forward_in(asked, permit, place)),
            Err(refusal) => Either::Right(ready(Err(refusal))),
        }
    }

    /// The same where a place among those under way has been taken. No `async`: the request would
    /// be held twice.
    pub(super) fn forward_in<'a>(
        &'a self,
        asked: &'a mut Asked,
        permit: &'a Permit<'_>,
        place: Place,
    ) -> impl Future<Output = Result<Response<Body>, Refusal>> + Send + 'a {
        if asked.headers().get_all(CDN_LOOP).iter().any(|hop| *hop == self.mark) {
            return Either::Right(ready(Err(round_in_circles())));
        }
        let Some(body) = asked.body.take() else {
            return Either::Right(ready(Err(Refusal::bad_request("body", "was read before"))));
        };
        let Asked { parts, head, client, spoilt, failure, .. } = asked;
        let mut request = Request::new(body);
        parts.method.clone_into(request.method_mut());
        parts.uri.clone_into(request.uri_mut());
        *request.version_mut() = parts.version;
        *request.headers_mut() = std::mem::take(&mut parts.headers);
        *request.extensions_mut() = std::mem::take(&mut parts.extensions);
        let (client, authority) = (&*client, &head.authority);
        let add = |headers: &mut HeaderMap| {
            clean(headers);
            let mut writer = Writer::on(headers, WRITTEN_BYTES);
            introduce(&mut writer, client, authority);
            if let Some((pass, _)) = permit.admission() {
                vouch(&mut writer, pass);
            }
            headers.append(CDN_LOOP, self.mark.clone());
            if let Some(secret) = &self.secret {
                put(headers, STANCHION_ORIGIN_KEY, secret.expose_secret());
            }
        };
        let answering = self.proxy.forward(request, head, || permit.ends(), place, add);
        Either::Left(answering.map(|answer| match answer {
            Ok(mut response) => {
                from_shop(response.headers_mut());
                match permit {
                    Permit::Admitted(..) | Permit::Nameless(..) => {
                        keep_private(response.headers_mut());
                    }
                    Permit::Free(free) => {
                        if let Some(ms) = free.until_lobby_ms() {
                            freshness::cap(response.headers_mut(), ms);
                        }
                    }
                }
                Ok(response)
            }
            Err(error) => {
                *spoilt = error.is_of_body();
                *failure = error.proxy_status().map(HeaderValue::from_static);
                Err(refusal(&error))
            }
        }))
    }
}

/// What an admitted shopper was shown is nobody else's: no shared cache may give it to a visitor
/// who is waiting, whatever the shop thought of it. The shopper's own browser may keep it.
fn keep_private(headers: &mut HeaderMap) {
    forget_shared(headers);
    let vary = HeaderValue::from_static("Cookie, Stanchion-Admission");
    headers.append(header::VARY, vary);
    let said = || elements(headers, &header::CACHE_CONTROL);
    if said().next().is_none() {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private"));
        return;
    }
    let is = |word: &str, name: &str| {
        word.split('=').next().is_some_and(|told| told.trim().eq_ignore_ascii_case(name))
    };
    if said().any(|word| is(word, "private") || is(word, "no-store")) {
        return;
    }
    let kept = said().filter(|word| !is(word, "public") && !is(word, "s-maxage"));
    let words: Vec<&str> = std::iter::once("private").chain(kept).collect();
    let words = words.join(", ");
    put(headers, header::CACHE_CONTROL, &words);
}

/// Gate and shop might take such a path for different ones.
pub(super) const DOTS: &str = "must not contain '.' or '..' segments; send the path they lead to";

/// What speaks to shared caches alone, and counts for them before `Cache-Control`.
static SHARED: [HeaderName; 5] = [
    HeaderName::from_static("cdn-cache-control"),
    HeaderName::from_static("cloudflare-cdn-cache-control"),
    HeaderName::from_static("surrogate-control"),
    HeaderName::from_static("x-accel-expires"),
    HeaderName::from_static("edge-control"),
];

pub(super) fn forget_shared(headers: &mut HeaderMap) {
    while let Some(name) = headers.keys().find(|name| SHARED.contains(name)).cloned() {
        headers.remove(name);
    }
}

/// An answer that hands out one visitor's pass: no cache may keep it.
pub(super) fn nobody_else(headers: &mut HeaderMap) {
    forget_shared(headers);
    headers.remove(header::EXPIRES);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-store"));
}

/// Tells the shop whose turn it is.
pub(super) fn vouch(writer: &mut Writer<'_>, pass: &Pass) {
    let admission = &pass.admission;
    writer.put(STANCHION_SALE, admission.sale.as_str());
    writer.put(STANCHION_VISITOR, &admission.sub);
    if let Some(account) = &admission.account {
        // Names in other scripts pass as UTF-8; an account that the shop does not hear of would
        // look like a visitor without one.
        writer.put(STANCHION_ACCOUNT, AccountId::as_str(account));
    }
    if let Some(position) = admission.position() {
        writer.write(STANCHION_POSITION, |text| write!(text, "{position}"));
    }
    writer.put(STANCHION_EXPIRES, rfc3339(admission.exp.saturating_mul(1000)));
    writer.put(STANCHION_ADMISSION, &pass.token);
}

/// What is at the shop's address sends requests back to us.
fn round_in_circles() -> Refusal {
    tracing::error!("shop.origins leads back to this gateway: name the shop behind it");
    let detail = "the shop's address leads back to its own gateway";
    Refusal::new(Problem::ShopUnavailable, detail).status(508)
}

/// What the visitor is told; the reason is for the log.
fn refusal(error: &UpstreamError) -> Refusal {
    let status = error.status().as_u16();
    match error {
        UpstreamError::Full => {
            Refusal::new(Problem::Overloaded, "too many requests are under way; try again")
                .retry_after_ms(spread(800, rand::random()))
        }
        UpstreamError::BodyTooLong => Refusal::new(Problem::BodyTooLarge, error.to_string()),
        UpstreamError::BodySlow | UpstreamError::BodyBroken => {
            Refusal::bad_request("body", error).status(status)
        }
        UpstreamError::Connect(_)
        | UpstreamError::ConnectTimeout
        | UpstreamError::ResponseTimeout
        | UpstreamError::Broken(_)
        | UpstreamError::Framing
        | UpstreamError::UnaskedUpgrade
        | UpstreamError::NoWebSocket => {
            tracing::warn!(%error, "the shop does not answer");
            let detail = "the shop behind this page is not answering; try again in a moment";
            let wait_ms = spread(RETRY_MS, rand::random());
            Refusal::new(Problem::ShopUnavailable, detail).status(status).retry_after_ms(wait_ms)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wr_56_no_shared_cache_may_keep_what_an_admitted_shopper_saw() {
        for (said, kept) in [
            ("", "private"),
            ("public, max-age=60", "private, max-age=60"),
            ("s-maxage=9 , Public", "private"),
            ("no-store", "no-store"),
            ("max-age=5, private", "max-age=5, private"),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert("surrogate-control", HeaderValue::from_static("max-age=60"));
            if !said.is_empty() {
                headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(said));
            }
            keep_private(&mut headers);
            assert_eq!(headers[header::CACHE_CONTROL], kept, "{said}");
            assert_eq!(headers[header::VARY], "Cookie, Stanchion-Admission");
        }
    }
}
