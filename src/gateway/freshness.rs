//! A page that the shop lets caches keep before a lobby must not be shown when the lobby is open:
//! whoever sees it sees no queue.

use std::time::{Duration, UNIX_EPOCH};

use hyper::HeaderMap;
use hyper::header::{self, HeaderValue};

use super::forward::forget_shared;
use super::headers::put;
use crate::clock::{Clock, SystemClock};

/// Farther from its lobby than this nobody minds: an age of a year means "for ever" to the shop.
const FAR_SECONDS: u64 = 7 * 86_400;

/// Lets nobody keep an answer for longer than the time until the lobby.
pub(super) fn cap(headers: &mut HeaderMap, until_lobby_ms: u64) {
    let most = until_lobby_ms / 1000;
    if most > FAR_SECONDS {
        return;
    }
    forget_shared(headers);
    let lines = headers.get_all(header::CACHE_CONTROL).iter();
    let said: Vec<String> = lines
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| line.split(','))
        .map(|word| capped(word.trim(), most))
        .filter(|word| !word.is_empty())
        .collect();
    let says = |name: &str| said.iter().any(|word| word.split('=').next() == Some(name));
    let is_bounded = ["max-age", "no-cache", "no-store"].iter().any(|name| says(name));
    let mut words = said.clone();
    if !is_bounded {
        // Caches guess where nothing is said.
        words.push(match lasts(headers) {
            Some(seconds) => format!("max-age={}", seconds.min(most)),
            None => "no-cache".to_owned(),
        });
    }
    headers.remove(header::EXPIRES);
    put(headers, header::CACHE_CONTROL, &words.join(", "));
}

/// A word of `Cache-Control` whose seconds, if it has any, are no more than `most`.
fn capped(word: &str, most: u64) -> String {
    let Some((name, seconds)) = word.split_once('=') else { return word.to_ascii_lowercase() };
    let name = name.trim().to_ascii_lowercase();
    match seconds.trim().trim_matches('"').parse::<u64>() {
        Ok(seconds) => format!("{name}={}", seconds.min(most)),
        Err(_) => word.to_owned(),
    }
}

/// The seconds that `Expires` gives it.
fn lasts(headers: &HeaderMap) -> Option<u64> {
    let expires = headers.get(header::EXPIRES).map(HeaderValue::to_str)?.ok()?;
    let at = httpdate::parse_http_date(expires).ok()?.duration_since(UNIX_EPOCH).ok()?;
    let now = Duration::from_millis(SystemClock.now_ms());
    Some(at.saturating_sub(now).as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(lines: &[(&'static str, &str)], until_lobby_ms: u64) -> String {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, value.parse().unwrap());
        }
        cap(&mut headers, until_lobby_ms);
        assert_eq!(headers.contains_key("surrogate-control"), until_lobby_ms / 1000 > FAR_SECONDS);
        assert!(!headers.contains_key("expires") || until_lobby_ms / 1000 > FAR_SECONDS);
        let lines = headers.get_all("cache-control").iter().map(|line| line.to_str().unwrap());
        lines.collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn nobody_keeps_a_page_of_before_the_lobby_into_the_sale() {
        let shared = ("surrogate-control", "max-age=9");
        let date = httpdate::fmt_http_date(
            UNIX_EPOCH + Duration::from_millis(SystemClock.now_ms()) + Duration::from_hours(1),
        );
        for (said, left) in [
            ("public, max-age=3600", "public, max-age=90"),
            ("Max-Age=30, s-maxage=600", "max-age=30, s-maxage=90"),
            (
                "public, max-age=60, stale-while-revalidate=600",
                "public, max-age=60, stale-while-revalidate=90",
            ),
            ("public", "public, max-age=90"),
            ("no-store", "no-store"),
        ] {
            let lines = [shared, ("cache-control", said), ("expires", &date)];
            assert_eq!(told(&lines, 90_900), left, "{said}");
        }
        assert_eq!(told(&[shared, ("expires", "0")], 90_900), "no-cache");
        assert_eq!(told(&[shared], 90_900), "no-cache");
        let far = [shared, ("cache-control", "public, max-age=31536000, immutable")];
        assert_eq!(told(&far, 8 * 86_400_000), "public, max-age=31536000, immutable");
    }
}
