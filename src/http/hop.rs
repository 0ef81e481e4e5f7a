//! Hop-by-hop headers: removed before anything of ours is added, in both directions.

use hyper::HeaderMap;
use hyper::header::{self, HeaderName, HeaderValue};

/// Removed wherever they are found; `TE` is handled apart, because `trailers` may pass.
static FIXED: [HeaderName; 8] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    HeaderName::from_static("proxy-connection"),
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    HeaderName::from_static("http2-settings"),
];

/// The elements of all lines of a comma-separated header, trimmed, empty ones left out.
pub fn elements<'a>(
    headers: &'a HeaderMap,
    name: &HeaderName,
) -> impl Iterator<Item = &'a str> + use<'a> {
    headers
        .get_all(name)
        .iter()
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| line.split(','))
        .map(str::trim)
        .filter(|element| !element.is_empty())
}

/// Removes the fixed set and whatever `Connection` names, on all its lines. `TE: trailers` stays,
/// since trailers are passed on.
pub fn strip(headers: &mut HeaderMap) {
    let is_fixed =
        |name: &&str| FIXED.iter().any(|known| name.eq_ignore_ascii_case(known.as_str()));
    let nominated: Vec<HeaderName> = elements(headers, &header::CONNECTION)
        .filter(|name| !is_fixed(name))
        .filter_map(|name| name.parse().ok())
        .collect();
    let trailers_wanted = elements(headers, &header::TE).any(names_trailers);
    for name in nominated {
        headers.remove(name);
    }
    // Most have one of them at most, so what is there is looked for and not each of them.
    while let Some(name) = headers.keys().find(|name| is_hop(name)).cloned() {
        headers.remove(name);
    }
    if trailers_wanted {
        headers.insert(header::TE, HeaderValue::from_static("trailers"));
    }
}

fn is_hop(name: &HeaderName) -> bool {
    *name == header::TE || FIXED.contains(name)
}

fn names_trailers(element: &str) -> bool {
    let coding = element.split(';').next().unwrap_or_default();
    coding.trim().eq_ignore_ascii_case("trailers")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn map(lines: &[(&str, &str)]) -> HeaderMap {
        lines
            .iter()
            .map(|(name, value)| (name.parse::<HeaderName>().unwrap(), value.parse().unwrap()))
            .collect()
    }

    #[test]
    fn ed_22_an_empty_first_connection_line_hides_nothing() {
        let mut headers = map(&[
            ("connection", ""),
            ("connection", "X-Secret, close"),
            ("x-secret", "1"),
            ("keep-alive", "5"),
            ("proxy-authorization", "x"),
            ("te", "gzip"),
            ("x-kept", "1"),
        ]);

        strip(&mut headers);

        assert_eq!(headers, map(&[("x-kept", "1")]));
    }

    #[test]
    fn ed_30_te_trailers_passes_in_any_case_and_place() {
        let mut headers = map(&[("te", "Gzip;q=0.5, Trailers"), ("trailer", "X-Sum")]);

        strip(&mut headers);

        assert_eq!(headers, map(&[("te", "trailers"), ("trailer", "X-Sum")]));
    }

    proptest! {
        #[test]
        fn stripping_twice_is_stripping_once(names in "[a-zA-Z, -]{0,40}", te in "[a-z, ]{0,20}") {
            let mut once = map(&[("connection", &names), ("te", &te), ("close", "1"), ("x", "2")]);
            strip(&mut once);
            let mut twice = once.clone();
            strip(&mut twice);
            prop_assert_eq!(once, twice);
        }
    }
}
