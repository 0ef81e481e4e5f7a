//! What a request's headers say about who will read the answer. They choose the form of a refusal
//! and keep machines from taking places; whether to refuse is never theirs to say.

use hyper::HeaderMap;
use hyper::header::{self, HeaderName};

/// Who reads the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reader {
    /// A person: the browser is on its way to a page.
    Person,
    /// A script or an app.
    Script,
}

const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const X_REQUESTED_WITH: HeaderName = HeaderName::from_static("x-requested-with");

/// Browsers say what they are about; others by what they would rather have.
pub(super) fn reader(headers: &HeaderMap) -> Reader {
    if let Some(mode) = headers.get(SEC_FETCH_MODE) {
        return if mode == "navigate" { Reader::Person } else { Reader::Script };
    }
    let page = wish(headers, "text/html");
    let is_asked_for = page > 0.0 && page >= wish(headers, "application/json");
    // Browsers inside apps send the app's name there.
    let is_fetched = headers.get(X_REQUESTED_WITH).is_some_and(|by| by == "XMLHttpRequest");
    if is_asked_for && !is_fetched { Reader::Person } else { Reader::Script }
}

/// How much a type is wanted by name, from 0 to 1.
fn wish(headers: &HeaderMap, wanted: &str) -> f32 {
    let lines = headers.get_all(header::ACCEPT).iter().filter_map(|line| line.to_str().ok());
    lines
        .flat_map(|line| line.split(','))
        .filter_map(|range| {
            let mut parts = range.split(';').map(str::trim);
            let is_it = parts.next()?.eq_ignore_ascii_case(wanted);
            let q = parts.find_map(|part| part.strip_prefix("q=").or(part.strip_prefix("Q=")));
            is_it.then(|| q.map_or(1.0, |q| q.parse().unwrap_or(0.0)))
        })
        .fold(0.0, f32::max)
}

/// A browser that fetches ahead of its user, who may never look.
pub(super) fn is_prefetch(headers: &HeaderMap) -> bool {
    ["sec-purpose", "purpose", "x-purpose", "x-moz"].iter().any(|name| {
        let says = headers.get(*name).and_then(|value| value.to_str().ok());
        let says = says.unwrap_or_default().to_ascii_lowercase();
        ["prefetch", "prerender", "preview"].iter().any(|word| says.contains(word))
    })
}

/// A search engine, an archive or a preview that names itself: it never buys.
pub(super) fn is_crawler(headers: &HeaderMap) -> bool {
    const KNOWN: [&str; 28] = [
        "googlebot",
        "google-inspectiontool",
        "storebot-google",
        "adsbot-google",
        "googleother",
        "bingbot",
        "yandexbot",
        "baiduspider",
        "duckduckbot",
        "applebot",
        "slurp",
        "petalbot",
        "seznambot",
        "facebookexternalhit",
        "meta-externalagent",
        "twitterbot",
        "linkedinbot",
        "pinterestbot",
        "slackbot",
        "discordbot",
        "telegrambot",
        "amazonbot",
        "bytespider",
        "gptbot",
        "ccbot",
        "ahrefsbot",
        "semrushbot",
        "mj12bot",
    ];
    let agent = headers.get(header::USER_AGENT).and_then(|agent| agent.to_str().ok());
    let agent = agent.unwrap_or_default().to_ascii_lowercase();
    KNOWN.iter().any(|name| agent.contains(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        let line = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), value.parse().unwrap())
        };
        lines.iter().map(line).collect()
    }

    #[test]
    fn wr_50_a_navigation_is_a_person_and_whatever_else_asks_is_a_script() {
        let of = |lines: &[(&'static str, &'static str)]| reader(&headers(lines));
        let browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
        for person in [
            &[("sec-fetch-mode", "navigate"), ("accept", "*/*")][..],
            &[("accept", browser)],
            &[("accept", "text/html,*/*")],
            &[("accept", "TEXT/HTML ; charset=utf-8")],
            &[("accept", "application/json;q=0.5, text/html")],
        ] {
            assert_eq!(of(person), Reader::Person, "{person:?}");
        }
        for script in [
            &[("sec-fetch-mode", "cors"), ("accept", "text/html")][..],
            &[("sec-fetch-mode", "cors"), ("accept", "*/*")],
            &[("accept", "application/json")],
            &[("accept", "application/json, text/plain, */*")],
            &[("accept", "application/json, text/html;q=0.9")],
            &[("accept", "text/html;q=0, */*")],
            &[("accept", "text/html;q=x")],
            &[("accept", "text/html, */*; q=0.01"), ("x-requested-with", "XMLHttpRequest")],
            &[("accept", "*/*")],
            &[],
        ] {
            assert_eq!(of(script), Reader::Script, "{script:?}");
        }
    }

    #[test]
    fn who_fetches_ahead_says_so_in_one_way_or_another() {
        for line in [
            ("sec-purpose", "prefetch;prerender"),
            ("sec-purpose", "prefetch"),
            ("purpose", "prefetch"),
            ("x-purpose", "preview"),
            ("x-moz", "Prefetch"),
        ] {
            assert!(is_prefetch(&headers(&[line])), "{line:?}");
        }
        assert!(!is_prefetch(&headers(&[("sec-purpose", "")])));
    }

    #[test]
    fn wr_64_a_crawler_is_known_by_its_name_and_a_shopper_is_none() {
        let of = |agent| is_crawler(&headers(&[("user-agent", agent)]));
        assert!(of("Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"));
        assert!(of("LinkedInBot/1.0"));
        assert!(!of("Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"));
        assert!(!of(""));
    }
}
