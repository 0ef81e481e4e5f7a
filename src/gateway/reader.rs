//! What a request's headers say about who will read the answer. They choose the form of a refusal
//! and keep machines from taking places; whether to refuse is never theirs to say.

use hyper::HeaderMap;
use hyper::header::{self, HeaderName, HeaderValue};

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

/// Where browsers say that they fetch ahead.
const PURPOSES: [HeaderName; 4] = [
    HeaderName::from_static("sec-purpose"),
    HeaderName::from_static("purpose"),
    HeaderName::from_static("x-purpose"),
    HeaderName::from_static("x-moz"),
];

/// What crawlers and the previews of links call themselves, in lower case; at most as many as a mask
/// has bits.
const CRAWLERS: [&[u8]; 36] = [
    b"googlebot",
    b"google-inspectiontool",
    b"storebot-google",
    b"adsbot-google",
    b"googleother",
    b"bingbot",
    b"yandexbot",
    b"baiduspider",
    b"duckduckbot",
    b"applebot",
    b"slurp",
    b"petalbot",
    b"seznambot",
    b"facebookexternalhit",
    b"meta-externalagent",
    b"twitterbot",
    b"linkedinbot",
    b"pinterestbot",
    b"slackbot",
    b"discordbot",
    b"telegrambot",
    b"amazonbot",
    b"bytespider",
    b"gptbot",
    b"ccbot",
    b"ahrefsbot",
    b"semrushbot",
    b"mj12bot",
    b"google-pagerenderer",
    b"bingpreview",
    b"skypeuripreview",
    b"slack-imgproxy",
    b"redditbot",
    b"mattermost-bot",
    b"snap url preview",
    b"iframely",
];

/// What begins the names of apps that look at a link before it is shown; browsers inside them name
/// the app as well, later on.
const APPS: [&[u8]; 2] = [b"whatsapp/", b"viber/"];

/// For each of the first three letters: which crawlers, as a mask, have which letter there.
const BEGINNINGS: [[u64; 32]; 3] = beginnings();

const fn beginnings() -> [[u64; 32]; 3] {
    let mut masks = [[0; 32]; 3];
    let mut crawler = 0;
    while crawler < CRAWLERS.len() {
        let mut at = 0;
        while at < masks.len() {
            masks[at][folded(CRAWLERS[crawler][at])] |= 1 << crawler;
            at += 1;
        }
        crawler += 1;
    }
    masks
}

/// The same for a letter in either case.
const fn folded(byte: u8) -> usize {
    (byte & 31) as usize
}

/// Browsers say what they are about; others by what they would rather have.
pub(super) fn reader(headers: &HeaderMap) -> Reader {
    if let Some(mode) = headers.get(SEC_FETCH_MODE) {
        return if mode == "navigate" { Reader::Person } else { Reader::Script };
    }
    let [page, json] = wishes(headers, ["text/html", "application/json"]);
    let is_asked_for = page > 0.0 && page >= json;
    // Browsers inside apps send the app's name there.
    let is_fetched = || headers.get(X_REQUESTED_WITH).is_some_and(|by| by == "XMLHttpRequest");
    if is_asked_for && !is_fetched() { Reader::Person } else { Reader::Script }
}

/// How much each type is wanted by name, from 0 to 1.
fn wishes<const N: usize>(headers: &HeaderMap, wanted: [&str; N]) -> [f32; N] {
    let mut wishes = [0.0_f32; N];
    let lines = headers.get_all(header::ACCEPT).iter().filter_map(|line| line.to_str().ok());
    for range in lines.flat_map(|line| line.split(',')) {
        let mut parts = range.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default();
        let Some(which) = wanted.iter().position(|wanted| name.eq_ignore_ascii_case(wanted)) else {
            continue;
        };
        let q = parts.find_map(|part| part.strip_prefix("q=").or(part.strip_prefix("Q=")));
        wishes[which] = wishes[which].max(q.map_or(1.0, |q| q.parse().unwrap_or(0.0)));
    }
    wishes
}

/// A browser that fetches ahead of its user, who may never look.
pub(super) fn is_prefetch(headers: &HeaderMap) -> bool {
    let says = |said: &[u8], word: &[u8]| {
        said.windows(word.len()).any(|part| part.eq_ignore_ascii_case(word))
    };
    PURPOSES.iter().filter_map(|name| headers.get(name)).any(|said| {
        let words: [&[u8]; 3] = [b"prefetch", b"prerender", b"preview"];
        words.iter().any(|word| says(said.as_bytes(), word))
    })
}

/// A search engine, an archive or a preview that names itself: it never buys.
pub(super) fn is_crawler(headers: &HeaderMap) -> bool {
    let agent = headers.get(header::USER_AGENT).map_or(&b""[..], HeaderValue::as_bytes);
    let begins =
        |name: &&[u8]| agent.get(..name.len()).is_some_and(|part| part.eq_ignore_ascii_case(name));
    APPS.iter().any(begins) || names_crawler(agent)
}

fn names_crawler(agent: &[u8]) -> bool {
    let [first, second, third] = &BEGINNINGS;
    agent.windows(BEGINNINGS.len()).enumerate().any(|(at, start)| {
        let mut likely =
            first[folded(start[0])] & second[folded(start[1])] & third[folded(start[2])];
        // All names are looked for at once, and few get this far.
        while likely != 0 {
            let name = CRAWLERS[likely.trailing_zeros() as usize];
            let is_it = |part: &[u8]| part.eq_ignore_ascii_case(name);
            if agent.get(at..at + name.len()).is_some_and(is_it) {
                return true;
            }
            likely &= likely - 1;
        }
        false
    })
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

    #[test]
    fn wr_64_the_preview_of_a_link_takes_no_place_and_a_browser_inside_the_same_app_may() {
        let of = |agent| is_crawler(&headers(&[("user-agent", agent)]));
        for preview in [
            "WhatsApp/2.23.20.0 A",
            "WhatsApp/2",
            "Viber/21.0.0.5 CFNetwork/1410.0.3 Darwin/22.6.0",
            "Mozilla/5.0 (Windows NT 6.1; WOW64) SkypeUriPreview Preview/0.5 \
             skype-url-preview@microsoft.com",
            "Mozilla/5.0 (Windows NT 6.1) AppleWebKit/534+ (KHTML, like Gecko) BingPreview/1.0b",
            "Slackbot-LinkExpanding 1.0 (+https://api.slack.com/robots)",
            "TelegramBot (like TwitterBot)",
            "Mozilla/5.0 (compatible; Discordbot/2.0; +https://discordapp.com)",
            "facebookexternalhit/1.1 (+http://www.facebook.com/externalhit_uatext.php)",
            "LinkedInBot/1.0 (compatible; Mozilla/5.0; Apache-HttpClient +http://www.linkedin.com)",
            "Twitterbot/1.0",
            "Mozilla/5.0 (X11; Linux x86_64) Chrome/56.0.2924.87 Safari/537.36 Google-PageRenderer \
             Google (+https://developers.google.com/+/web/snippet/)",
            "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_11_1) AppleWebKit/601.2.4 (KHTML, like \
             Gecko) Version/9.0.1 Safari/601.2.4 facebookexternalhit/1.1 Facebot Twitterbot/1.0",
        ] {
            assert!(of(preview), "{preview}");
        }
        for shopper in [
            "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) Mobile/15E148 WhatsApp/2.24.1",
            "Mozilla/5.0 (Linux; Android 14) AppleWebKit/537.36 Mobile Safari/537.36 Viber/21.0",
            "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) Mobile/15E148 Snapchat/12.0",
            "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) [FBAN/FBIOS;FBAV/400.0]",
        ] {
            assert!(!of(shopper), "{shopper}");
        }
    }

    #[test]
    fn wr_64_every_crawler_is_known_wherever_its_name_stands_and_however_it_is_written() {
        for name in CRAWLERS {
            let name = std::str::from_utf8(name).unwrap();
            for text in [name.to_owned(), name.to_uppercase(), format!("a {name}/1.0 (+x)")] {
                let agent = |text: &str| {
                    let line = HeaderValue::from_str(text).unwrap();
                    is_crawler(&HeaderMap::from_iter([(header::USER_AGENT, line)]))
                };
                assert!(agent(&text), "{text}");
                let cut = text.replacen(&name[name.len() - 2..], "", 1);
                let cut = cut.replacen(&name.to_uppercase()[name.len() - 2..], "", 1);
                assert!(!agent(&cut), "{cut}");
            }
        }
    }
}
