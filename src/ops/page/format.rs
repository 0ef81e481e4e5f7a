//! Numbers and times for people.

use crate::domain::status::rfc3339;

/// 1234567 as `1 234 567`, with narrow spaces that do not break.
pub(super) fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

/// A rate or the like with at most one decimal.
pub(super) fn number(value: f64) -> String {
    let text = if value.abs() < 1.0 { format!("{value:.2}") } else { format!("{value:.1}") };
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

/// `2027-03-01 12:00:00 UTC`
pub(super) fn time(at_ms: u64) -> String {
    let text = rfc3339(at_ms);
    let seconds = text.get(..19).unwrap_or(&text);
    format!("{} UTC", seconds.replace('T', " "))
}

/// `2 s ago`
pub(super) fn ago(at_ms: u64, now_ms: u64) -> String {
    match now_ms.saturating_sub(at_ms) / 1000 {
        0 => "now".to_owned(),
        seconds => format!("{} ago", span(seconds)),
    }
}

/// `in 4 min` or `4 min ago`
pub(super) fn until(at_ms: u64, now_ms: u64) -> String {
    match at_ms.checked_sub(now_ms) {
        Some(left) => format!("in {}", span(left.div_ceil(1000))),
        None => ago(at_ms, now_ms),
    }
}

fn span(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_times_are_short_and_plain() {
        assert_eq!(grouped(1_234_567), "1\u{202f}234\u{202f}567");
        assert_eq!(grouped(999), "999");
        assert_eq!(
            [number(200.0), number(7.5), number(0.2), number(0.0)],
            ["200", "7.5", "0.2", "0"]
        );
        assert_eq!(time(1_800_000_005_000), "2027-01-15 08:00:05 UTC");
        assert_eq!([ago(1_000, 1_500), ago(1_000, 61_000)], ["now", "60 s ago"]);
        assert_eq!([until(9_000_000, 0), until(0, 9_000_000)], ["in 2 h", "2 h ago"]);
    }
}
