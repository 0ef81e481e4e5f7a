//! Strict reading of what comes from outside: every mistake names its field and the cure.

use std::str::FromStr;

use axum::extract::rejection::BytesRejection;
use axum::extract::{FromRequest, Request};
use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use serde::de::DeserializeOwned;
use uuid::Uuid;

use super::BODY_MAX;
use super::answer::Refused;
use crate::domain::id::{IdError, OrderKey, TEXT_BYTES_MAX};
use crate::domain::reading::read_json;
use crate::domain::refusal::{Problem, Refusal};
use crate::store::postgres::Which;

/// A JSON body. Unknown fields mean nothing; known ones must be right.
pub(super) struct Body<T>(pub(super) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = Refused;

    async fn from_request(request: Request, state: &S) -> Result<Self, Refused> {
        let bytes = Bytes::from_request(request, state).await.map_err(|e| unread(&e))?;
        Ok(Self(read_json(&bytes)?))
    }
}

fn unread(rejection: &BytesRejection) -> Refusal {
    if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE {
        let detail = format!("the body must be at most {BODY_MAX} bytes");
        return Refusal::new(Problem::BodyTooLarge, detail);
    }
    Refusal::bad_request("body", "could not be read; send it whole")
}

/// The order key of `Idempotency-Key`, quoted as a structured string or bare.
pub(super) fn order_key(headers: &HeaderMap) -> Result<OrderKey, Refusal> {
    const NAME: &str = "Idempotency-Key";
    let mut values = headers.get_all(NAME).iter();
    let (Some(value), None) = (values.next(), values.next()) else {
        return Err(Refusal::bad_request(NAME, "exactly one is needed: a key of yours per order"));
    };
    let raw = std::str::from_utf8(value.as_bytes())
        .map_err(|_| Refusal::bad_request(NAME, "must be UTF-8"))?
        .trim();
    let bare = match raw.strip_prefix('"') {
        None => raw.to_owned(),
        Some(rest) => unquoted(rest)
            .ok_or_else(|| Refusal::bad_request(NAME, "has a quote that is not closed"))?,
    };
    OrderKey::parse(&bare).map_err(|e: IdError| Refusal::bad_request(NAME, e))
}

/// What a structured string says, its opening quote taken off.
fn unquoted(rest: &str) -> Option<String> {
    let inner = rest.strip_suffix('"')?;
    let mut said = String::with_capacity(inner.len());
    let mut characters = inner.chars();
    while let Some(character) = characters.next() {
        match character {
            '"' => return None,
            '\\' => said.push(characters.next().filter(|c| matches!(c, '"' | '\\'))?),
            other => said.push(other),
        }
    }
    Some(said)
}

/// A payment's reference.
#[derive(Debug, serde::Deserialize)]
#[serde(try_from = "String")]
pub(super) struct PaymentRef(pub(super) String);

impl TryFrom<String> for PaymentRef {
    type Error = IdError;
    fn try_from(raw: String) -> Result<Self, IdError> {
        // The rule is that of order keys.
        OrderKey::parse(&raw).map(|key| Self(key.as_str().to_owned()))
    }
}

/// A reservation's id from a path.
pub(super) fn by_id(raw: &str) -> Result<Which, Refusal> {
    let id = Uuid::parse_str(raw).map_err(|_| {
        Refusal::bad_request(
            "id",
            "must be a reservation's id, as 0190d5a0-0000-7000-8000-000000000000",
        )
    })?;
    Ok(Which::Id(id))
}

/// The named parameters of a query; others are refused, so that no typo widens a search.
pub(super) fn query<const N: usize>(
    raw: Option<&str>,
    names: [&str; N],
) -> Result<[Option<String>; N], Refusal> {
    let mut found = [const { None }; N];
    for (name, value) in form_urlencoded::parse(raw.unwrap_or_default().as_bytes()) {
        let known = names.iter().position(|known| *known == name);
        let slot = known.and_then(|index| found.get_mut(index)).ok_or_else(|| {
            Refusal::bad_request(&name, format!("is no parameter; there are {}", names.join(", ")))
        })?;
        if value.len() > TEXT_BYTES_MAX {
            return Err(Refusal::bad_request(&name, IdError::TooLong));
        }
        if slot.replace(value.into_owned()).is_some() {
            return Err(Refusal::bad_request(&name, "is given twice"));
        }
    }
    Ok(found)
}

/// Reads one parameter.
pub(super) fn parse<T, E: std::fmt::Display>(
    name: &str,
    value: Option<String>,
    read: impl FnOnce(&str) -> Result<T, E>,
) -> Result<Option<T>, Refusal> {
    value.map(|raw| read(&raw).map_err(|e| Refusal::bad_request(name, e))).transpose()
}

/// Reads one parameter that has a standard form.
pub(super) fn standard<T: FromStr>(
    name: &str,
    value: Option<String>,
    cure: &str,
) -> Result<Option<T>, Refusal> {
    parse(name, value, |raw| raw.parse().map_err(|_| cure))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn key(value: &[u8]) -> Result<OrderKey, Refusal> {
        let mut headers = HeaderMap::new();
        headers.insert("idempotency-key", HeaderValue::from_bytes(value).unwrap());
        order_key(&headers)
    }

    #[test]
    fn an_order_key_is_the_same_quoted_or_bare() {
        assert_eq!(key(b"\"abc\"").unwrap(), key(b"abc").unwrap());
        assert_eq!(key(br#""a\"b\\c""#).unwrap().as_str(), r#"a"b\c"#);
    }

    #[test]
    fn rs_64_invalid_bytes_and_broken_quotes_are_refused_for_this_request_only() {
        let bad: [&[u8]; 5] = [b"\xff\xfe", b"\"abc", b"\"a\"b\"", br#""a\n""#, b"  "];
        for raw in bad {
            assert_eq!(key(raw).unwrap_err().problem, Problem::BadRequest, "{raw:?}");
        }
        assert_eq!(key("заказ 🎟".as_bytes()).unwrap().as_str(), "заказ 🎟");
        assert_eq!(order_key(&HeaderMap::new()).unwrap_err().http_status(), 400);
    }

    #[test]
    fn a_search_with_an_unknown_parameter_is_refused_rather_than_widened() {
        let [sale] = query(Some("sale=a%20b"), ["sale"]).unwrap();
        assert_eq!(sale.as_deref(), Some("a b"));
        for raw in ["buyr=x", "sale=a&sale=b"] {
            assert!(query(Some(raw), ["sale", "buyer"]).is_err(), "{raw}");
        }
    }
}
