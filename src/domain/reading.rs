//! Strict reading of JSON from outside: every mistake names its field and the cure.

use serde::de::DeserializeOwned;

use super::refusal::Refusal;

/// Reads one JSON value; nothing at all is an empty object.
pub fn read_json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Refusal> {
    let bytes = if bytes.trim_ascii().is_empty() { b"{}" } else { bytes };
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let (path, told) = (error.path().to_string(), error.inner().to_string());
        let named = |from: &str| {
            told.strip_prefix(from).and_then(|rest| rest.split_once('`')).map(|(field, _)| field)
        };
        let field = match (path.as_str(), named("missing field `").or(named("unknown field `"))) {
            ("." | "?", Some(field)) => field.to_owned(),
            (path, Some(field)) if path.ends_with(field) => path.to_owned(),
            (path, Some(field)) => format!("{path}.{field}"),
            ("." | "?", None) => "body".to_owned(),
            (path, None) => path.to_owned(),
        };
        Refusal::bad_request(&field, told)
    })?;
    json.end().map_err(|_| Refusal::bad_request("body", "must be one JSON value and no more"))?;
    Ok(value)
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Sample {
        #[expect(dead_code, reason = "only its reading is of interest")]
        rate: Vec<u32>,
    }

    #[test]
    fn a_mistake_is_named_by_its_field() {
        let field = |raw: &str| {
            let refusal = read_json::<Sample>(raw.as_bytes()).unwrap_err();
            assert_eq!(refusal.http_status(), 400, "{raw}");
            refusal.to_json()["field"].as_str().unwrap().to_owned()
        };
        assert_eq!(field(r#"{"rate":[1,"2"]}"#), "rate[1]");
        assert_eq!(field(""), "rate");
        assert_eq!(field(r#"{"rate":[1],"brust":2}"#), "brust");
        for raw in ["[]", "{", "{\"rate\":[1]} x", "\"x\"", "{\"rate\":[1],\"rate\":[2]}"] {
            assert!(read_json::<Sample>(raw.as_bytes()).is_err(), "{raw}");
        }
    }
}
