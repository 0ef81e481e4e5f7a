//! What an operator asks for, read strictly.

use axum::extract::{FromRequest, Request};
use bytes::Bytes;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::answer::Refused;
use crate::config::span::Span;
use crate::domain::control::ControlChange;
use crate::domain::rate::{Rate, RateError};
use crate::domain::reading::read_json;
use crate::domain::refusal::{Problem, Refusal};

/// A longer bypass is a sale without a waiting room.
const BYPASS_MAX: Span = Span::seconds(24 * 3600);
/// The highest burst.
const BURST_MAX: u32 = 1_000_000;

/// A JSON body; a field that is not known is refused, so that no typo is overlooked.
pub(super) struct Body<T>(pub(super) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = Refused;

    async fn from_request(request: Request, state: &S) -> Result<Self, Refused> {
        let bytes = Bytes::from_request(request, state).await.map_err(|error| {
            if error.status().as_u16() == 413 {
                return Refusal::new(Problem::BodyTooLarge, "the body is too long");
            }
            Refusal::bad_request("body", "could not be read; send it whole")
        })?;
        Ok(Self(read_json(&bytes)?))
    }
}

/// No words are needed.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Nothing {}

/// `{rate, burst?}`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AskedRate {
    rate: PerSecond,
    burst: Option<u32>,
}

/// `"200/s"`, or a number per second.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(try_from = "Value")]
struct PerSecond(Rate);

impl TryFrom<Value> for PerSecond {
    type Error = RateError;

    fn try_from(value: Value) -> Result<Self, RateError> {
        match value {
            Value::String(text) => Rate::parse(&text).map(Self),
            value => Rate::per_second(value.as_f64().unwrap_or(0.0)).map(Self),
        }
    }
}

impl AskedRate {
    pub(super) fn change(&self) -> Result<ControlChange, Refusal> {
        if self.burst.is_some_and(|burst| !(1..=BURST_MAX).contains(&burst)) {
            let cure = format!("must be from 1 to {BURST_MAX}");
            return Err(Refusal::bad_request("burst", cure));
        }
        let PerSecond(rate) = self.rate;
        Ok(ControlChange { rate: Some(rate), burst: self.burst, ..ControlChange::default() })
    }
}

/// `{lobby_opens?, opens?, closes?}`, each RFC 3339.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AskedTimes {
    lobby_opens: Option<jiff::Timestamp>,
    opens: Option<jiff::Timestamp>,
    closes: Option<jiff::Timestamp>,
}

impl AskedTimes {
    pub(super) fn change(&self) -> ControlChange {
        let ms = |at: jiff::Timestamp| u64::try_from(at.as_millisecond()).unwrap_or(0);
        ControlChange {
            lobby_opens_ms: self.lobby_opens.map(ms),
            opens_ms: self.opens.map(ms),
            closes_ms: self.closes.map(ms),
            ..ControlChange::default()
        }
    }
}

/// `{for}`; `"0s"` ends a bypass.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AskedBypass {
    #[serde(rename = "for")]
    length: Span,
}

impl AskedBypass {
    pub(super) fn for_ms(&self) -> Result<u64, Refusal> {
        if self.length > BYPASS_MAX {
            let cure = format!("must be at most {BYPASS_MAX}; begin it anew when it ends");
            return Err(Refusal::bad_request("for", cure));
        }
        Ok(self.length.ms())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused<T: DeserializeOwned + std::fmt::Debug>(raw: &str, field: &str) {
        let refusal = read_json::<T>(raw.as_bytes()).unwrap_err();
        assert_eq!(refusal.to_json()["field"], field, "{raw}: {}", refusal.detail);
    }

    #[test]
    fn a_rate_is_a_text_with_its_unit_or_a_number_a_second() {
        let rate = |raw: &str| {
            read_json::<AskedRate>(raw.as_bytes()).unwrap().change().map(|c| c.rate.unwrap())
        };
        assert_eq!(rate(r#"{"rate":"600/min"}"#), Ok(Rate::whole(10)));
        assert_eq!(rate(r#"{"rate":0.2}"#), Ok(Rate::per_second(0.2).unwrap()));
        for raw in ["\"fast\"", "\"0/s\"", "-1", "0", "null", "[1]", "\"NaN/s\""] {
            refused::<AskedRate>(&format!("{{\"rate\":{raw}}}"), "rate");
        }
        refused::<AskedRate>(r#"{"rate":"5/s","brust":2}"#, "brust");
        refused::<AskedRate>("{}", "rate");
        let burst = read_json::<AskedRate>(br#"{"rate":"5/s","burst":0}"#).unwrap().change();
        assert_eq!(burst.unwrap_err().to_json()["field"], "burst");
    }

    #[test]
    fn times_and_lengths_are_read_strictly() {
        refused::<AskedTimes>(r#"{"opens":"tomorrow"}"#, "opens");
        refused::<AskedTimes>(r#"{"open":"2027-03-01T12:00:00Z"}"#, "open");
        let times = read_json::<AskedTimes>(br#"{"opens":"2027-01-15T08:00:05Z"}"#).unwrap();
        assert_eq!(times.change().opens_ms, Some(1_800_000_005_000));
        refused::<AskedBypass>(r#"{"for":"long"}"#, "for");
        let long = read_json::<AskedBypass>(br#"{"for":"25h"}"#).unwrap().for_ms();
        assert_eq!(long.unwrap_err().to_json()["field"], "for");
        assert_eq!(
            read_json::<AskedBypass>(br#"{"for":"10m"}"#).unwrap().for_ms().unwrap(),
            600_000
        );
    }
}
