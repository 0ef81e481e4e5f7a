//! The report for people.

use std::fmt::Write;

use super::judge::{Percentiles, Report};

/// A plain table, its last line saying whether all is well.
pub fn table(report: &Report) -> String {
    let mut out = String::new();
    // Writing into a string cannot fail.
    let mut row = |name: &str, value: &str| {
        let _infallible = writeln!(out, "  {name:<22}{value}");
    };
    for (name, value) in numbers(report) {
        row(name, &value);
    }
    for (name, verdict) in &report.promises {
        let mark = match verdict.holds {
            Some(true) => "kept    ",
            Some(false) => "BROKEN  ",
            None => "        ",
        };
        row(name, &format!("{mark}{}", verdict.evidence));
    }
    out.push_str(verdict(report));
    out.push('\n');
    out
}

/// Whether all is well, in a sentence.
pub(super) fn verdict(report: &Report) -> &'static str {
    if report.is_good() {
        "All promises that were checked were kept."
    } else {
        "NOT GOOD: a promise was broken, or one that had to be checked was not."
    }
}

/// What was counted and measured.
pub(super) fn numbers(report: &Report) -> Vec<(&'static str, String)> {
    let named: Vec<_> = report.refused_by.iter().map(|(name, n)| format!("{n} {name}")).collect();
    let named = if named.is_empty() { String::new() } else { format!(" ({})", named.join(", ")) };
    let (rate, accounts) = (&report.admissions_per_second, report.accounts);
    let set = rate.set.map_or("?".into(), |set| set.to_string());
    let checked = |count: Option<String>| count.unwrap_or_else(|| "not checked".into());
    let wait = |w: &Percentiles| format!("{} ms median, {} ms p99", w.p50, w.p99);
    vec![
        (
            "shoppers",
            format!("{} ({} joined, {} admitted)", report.shoppers, report.joined, report.admitted),
        ),
        ("accounts", format!("{} ({} on two devices)", accounts.signed_in, accounts.two_devices)),
        ("orders held", report.held.to_string()),
        ("units confirmed", report.confirmed.to_string()),
        ("holds run out", report.expired.to_string()),
        ("left at sold out", report.sold_out.to_string()),
        ("refused", format!("{}{named}", report.refused)),
        ("errors", report.errors.to_string()),
        ("oversold", checked(report.oversold.map(|units| units.to_string()))),
        ("takes in Postgres", checked(report.ledger_attempts.map(|takes| takes.to_string()))),
        ("admissions a second", format!("{} median, {} at most, {set} set", rate.p50, rate.max_1s)),
        ("join", wait(&report.latency_ms.join)),
        ("status", wait(&report.latency_ms.status)),
        ("claim", wait(&report.latency_ms.claim)),
        ("reserve", wait(&report.latency_ms.reserve)),
    ]
}
