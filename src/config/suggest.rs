//! "Did you mean": what somebody probably wanted to write.

/// The values of the keys that take one of a few words.
const WORDS: [(&str, &[&str]); 6] = [
    ("source", &["none", "forward_auth", "jwt"]),
    ("mode", &["single", "sentinel", "cluster"]),
    ("format", &["text", "json"]),
    ("before", &["pass", "gate"]),
    ("after", &["pass", "gate"]),
    ("late_payment", &["refuse", "honour"]),
];

/// What the text at a key was probably meant to be, without its quotes.
pub(super) fn suggestion(key: &str, found: &str) -> Option<String> {
    let last = key.rsplit('.').next().unwrap_or(key);
    let plain = last.split('[').next().unwrap_or(last);
    if let Some((_, words)) = WORDS.iter().find(|(key, _)| *key == plain) {
        let found = found.to_ascii_lowercase().replace(['-', ' '], "_");
        return nearest(&found, words.iter().copied()).map(str::to_owned);
    }
    let fixed = match plain {
        "rate" => rate(found),
        "lobby_opens" | "opens" | "closes" => time(found),
        "paths" | "login_url" => path(found),
        "hostnames" => host(found),
        "origins" | "cors_origins" => origin(found),
        "id" => id(found),
        _ => span(found),
    };
    fixed.filter(|fixed| fixed != found)
}

/// ` ; did you mean "…"?`, or nothing.
pub(super) fn did_you_mean(key: &str, found: Option<&str>) -> String {
    let wanted = found.and_then(|found| suggestion(key, found));
    wanted.map_or_else(String::new, |wanted| format!("; did you mean {wanted:?}?"))
}

/// The word that is nearest to the one that was found, if it is near.
pub(super) fn nearest<'w>(found: &str, words: impl Iterator<Item = &'w str>) -> Option<&'w str> {
    let nearest = words.map(|word| (distance(found, word), word)).min();
    nearest.filter(|(far, _)| *far <= 1 + found.len() / 4).map(|(_, word)| word)
}

/// A number and the word after it.
fn number_and_word(found: &str) -> Option<(&str, String)> {
    let found = found.trim();
    let split = found.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, word) = found.split_at(split);
    (!number.is_empty()).then(|| (number, word.trim().to_ascii_lowercase()))
}

fn unit(word: &str) -> Option<&'static str> {
    Some(match word {
        "ms" | "msec" | "milliseconds" | "millis" => "ms",
        "s" | "sec" | "secs" | "second" | "seconds" => "s",
        "m" | "min" | "mins" | "minute" | "minutes" => "m",
        "h" | "hr" | "hrs" | "hour" | "hours" => "h",
        "d" | "day" | "days" => "d",
        _ => return None,
    })
}

fn span(found: &str) -> Option<String> {
    let (number, word) = number_and_word(found)?;
    let whole = number.bytes().all(|b| b.is_ascii_digit());
    whole.then_some(())?;
    Some(format!("{number}{}", unit(&word)?))
}

fn rate(found: &str) -> Option<String> {
    let (number, rest) = number_and_word(found)?;
    let word = rest.trim_start_matches(['/', ' ']).trim_start_matches("per").trim();
    match unit(word)? {
        "s" => Some(format!("{number}/s")),
        "m" => Some(format!("{number}/min")),
        _ => None,
    }
}

fn time(found: &str) -> Option<String> {
    let with_t = found.trim().replacen(' ', "T", 1);
    [with_t.clone(), format!("{with_t}Z"), format!("{with_t}:00Z"), format!("{with_t}T00:00:00Z")]
        .into_iter()
        .find_map(|time| time.parse::<jiff::Timestamp>().ok())
        .map(|time| time.to_string())
}

fn path(found: &str) -> Option<String> {
    let below = found
        .split_once("://")
        .map_or(found, |(_, rest)| rest.find('/').map_or("/", |start| &rest[start..]));
    let plain = below.split(['?', '#']).next()?.trim_end_matches('*');
    let plain = if below.ends_with("/*") { format!("{plain}**") } else { below.to_owned() };
    let plain = plain.split(['?', '#']).next()?;
    Some(format!("/{}", plain.trim_start_matches('/')))
}

fn host(found: &str) -> Option<String> {
    let rest = found.split_once("://").map_or(found, |(_, rest)| rest);
    let host = rest.split(['/', '?']).next()?;
    let host = host.rsplit_once(':').map_or(host, |(host, _)| host);
    (!host.is_empty()).then(|| host.to_ascii_lowercase())
}

fn origin(found: &str) -> Option<String> {
    let (scheme, rest) = found.split_once("://").unwrap_or(("http", found));
    let host = rest.split(['/', '?', '#']).next()?;
    (!host.is_empty() && host != "*").then(|| format!("{scheme}://{host}"))
}

fn id(found: &str) -> Option<String> {
    let plain = found.trim().to_ascii_lowercase().replace([' ', '_'], "-");
    crate::domain::id::SaleId::parse(&plain).ok().map(|_| plain)
}

/// Letters to add, remove or exchange to get from one word to the other.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in to.iter().enumerate() {
            let exchanged = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = exchanged.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_near_miss_is_understood_and_a_far_one_is_left_alone() {
        for (key, found, wanted) in [
            ("account.source", "forward-auth", Some("forward_auth")),
            ("redis.mode", "sentinal", Some("sentinel")),
            ("redis.mode", "fast", None),
            ("sale[0].rate", "200/sec", Some("200/s")),
            ("sale[0].rate", "200 per minute", Some("200/min")),
            ("sale[0].rate", "fast", None),
            ("sale[0].hold", "10 minutes", Some("10m")),
            ("sale[0].hold", "a while", None),
            ("sale[0].opens", "2027-03-01 12:00:00Z", Some("2027-03-01T12:00:00Z")),
            ("sale[0].opens", "2027-03-01T12:00", Some("2027-03-01T12:00:00Z")),
            ("sale[0].opens", "tomorrow", None),
            ("sale[0].paths[0]", "checkout", Some("/checkout")),
            ("sale[0].paths[0]", "/checkout/*", Some("/checkout/**")),
            ("sale[0].paths[0]", "https://a.example/checkout?x=1", Some("/checkout")),
            ("public.hostnames[0]", "https://Shop.example:443/", Some("shop.example")),
            ("shop.origins[0]", "127.0.0.1:3000", Some("http://127.0.0.1:3000")),
            ("public.cors_origins[0]", "*", None),
            ("sale[0].id", "Spring Drop", Some("spring-drop")),
        ] {
            assert_eq!(suggestion(key, found).as_deref(), wanted, "{key} = {found}");
        }
    }
}
