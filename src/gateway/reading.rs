//! Reading the bodies of our own calls: JSON or a form, whole, bounded, and told what is wrong.

use std::time::Duration;

use bytes::Bytes;
use hyper::header;
use serde::de::DeserializeOwned;

use super::asked::Asked;
use super::fields;
use crate::domain::refusal::{Problem, Refusal};
use crate::http::body::{self, CollectError};
use crate::http::received::Received;

/// Longest body that our own endpoints read.
const OWN_BODY_BYTES_MAX: usize = 64 * 1024;
/// For such a body to arrive.
const OWN_BODY_TIME_MAX: Duration = Duration::from_secs(15);
/// How a body of ours is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wire {
    /// A browser's form: answered by 303.
    Form,
    /// JSON, or no body at all.
    Json,
}

impl Asked {
    /// How the body is written; 400 for anything that is neither.
    pub(super) fn wire(&self) -> Result<Wire, Refusal> {
        let content_type = self.text(header::CONTENT_TYPE).unwrap_or_default();
        let essence = content_type.split(';').next().unwrap_or_default().trim();
        match essence.to_ascii_lowercase().as_str() {
            "application/x-www-form-urlencoded" => Ok(Wire::Form),
            "" | "application/json" => Ok(Wire::Json),
            other => Err(Refusal::bad_request(
                "content-type",
                format!("'{other}' is not read here; send application/json or a form"),
            )),
        }
    }

    /// Reads the body whole.
    pub(super) async fn read(&mut self) -> Result<Bytes, Refusal> {
        let read = match self.body.take() {
            Some(Received::Coming(incoming)) => {
                body::collect(incoming, OWN_BODY_BYTES_MAX, OWN_BODY_TIME_MAX).await
            }
            Some(Received::Here(bytes)) if bytes.len() > OWN_BODY_BYTES_MAX => {
                Err(CollectError::TooLarge(OWN_BODY_BYTES_MAX))
            }
            Some(Received::Here(bytes)) => Ok(bytes),
            None => Ok(Bytes::new()),
        };
        read.map_err(|error| match error {
            CollectError::TooLarge(_) => Refusal::new(Problem::BodyTooLarge, error.to_string()),
            CollectError::Slow => Refusal::bad_request("body", error).status(408),
            CollectError::Broken(_) => Refusal::bad_request("body", "it broke off; send it again"),
        })
    }

    /// Reads a JSON object or a form; an empty body is an empty object.
    pub(super) async fn read_as<T: DeserializeOwned>(&mut self) -> Result<T, Refusal> {
        let wire = self.wire()?;
        let bytes = self.read().await?;
        match wire {
            Wire::Form => form_fields(&bytes),
            Wire::Json if bytes.trim_ascii().is_empty() => from_json(b"{}"),
            Wire::Json => from_json(&bytes),
        }
    }
}

fn from_json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Refusal> {
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let value: T = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let path = error.path().to_string();
        let field = if path == "." { "body" } else { &path };
        Refusal::bad_request(field, error.inner())
    })?;
    json.end().map_err(|error| Refusal::bad_request("body", error))?;
    Ok(value)
}

/// The fields of a form as the same struct reads them from JSON: all are text. Others are passed
/// over: what writes forms for shops adds fields of its own to each.
fn form_fields<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Refusal> {
    let mut fields = serde_json::Map::new();
    let known = fields::of::<T>();
    for (name, value) in form_urlencoded::parse(bytes) {
        if !known.contains(&name.as_ref()) {
            continue;
        }
        let twice = fields.insert(name.clone().into_owned(), value.into_owned().into()).is_some();
        if twice {
            return Err(Refusal::bad_request(&name, "must be given once"));
        }
    }
    serde_path_to_error::deserialize(serde_json::Value::Object(fields)).map_err(|error| {
        let path = error.path().to_string();
        let field = if path == "." { "body" } else { &path };
        Refusal::bad_request(field, error.inner())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(deny_unknown_fields)]
    struct Fields {
        sku: String,
    }

    #[test]
    fn a_body_that_cannot_be_read_is_told_the_field() {
        let unknown = from_json::<Fields>(br#"{"sku":"a","x":1}"#).unwrap_err();
        assert!(unknown.detail.contains("unknown field `x`"), "{}", unknown.detail);
        let wrong = from_json::<Fields>(br#"{"sku":1}"#).unwrap_err();
        assert!(wrong.detail.starts_with("sku: "), "{}", wrong.detail);
        for bad in [&b"{"[..], b"[]", b"{} {}", b"\xff", b""] {
            assert!(from_json::<Fields>(bad).is_err());
        }
        let twice = form_fields::<Fields>(b"sku=a&sku=b").unwrap_err();
        assert!(twice.detail.starts_with("sku: "), "{}", twice.detail);
        assert_eq!(form_fields::<Fields>(b"sku=a%20b").unwrap().sku, "a b");
        let more = b"utf8=%E2%9C%93&_csrf=abc&sku=a&commit=Buy&commit=Buy";
        assert_eq!(form_fields::<Fields>(more).unwrap().sku, "a", "a framework's own fields");
    }
}
