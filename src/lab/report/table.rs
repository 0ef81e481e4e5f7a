//! The report for people.

use std::fmt::Write;

use super::judge::{Percentiles, Report};

/// A plain table, its last line saying whether all is well.
pub fn table(report: &Report) -> String {
    let mut out = String::new();
    // Writing into a string cannot fail.
    let mut row = |name: &str, value: String| {
        let _infallible = writeln!(out, "  {name:<22}{value}");
    };
    row(
        "shoppers",
        format!("{} ({} joined, {} admitted)", report.shoppers, report.joined, report.admitted),
    );
    row("orders held", report.held.to_string());
    row("units confirmed", report.confirmed.to_string());
    row("holds run out", report.expired.to_string());
    row("left at sold out", report.sold_out.to_string());
    let named: Vec<_> = report.refused_by.iter().map(|(name, n)| format!("{n} {name}")).collect();
    let named = if named.is_empty() { String::new() } else { format!(" ({})", named.join(", ")) };
    row("refused", format!("{}{named}", report.refused));
    row("errors", report.errors.to_string());
    row("oversold", report.oversold.map_or("not checked".into(), |units| units.to_string()));
    row(
        "takes in Postgres",
        report.ledger_attempts.map_or("not checked".into(), |n| n.to_string()),
    );
    let accounts = report.accounts;
    row("accounts", format!("{} ({} on two devices)", accounts.signed_in, accounts.two_devices));
    let rate = &report.admissions_per_second;
    let set = rate.set.map_or("?".into(), |set| set.to_string());
    row("admissions a second", format!("{} median, {} at most, {set} set", rate.p50, rate.max_1s));
    let wait = |w: &Percentiles| format!("{} ms median, {} ms p99", w.p50, w.p99);
    row("join", wait(&report.latency_ms.join));
    row("status", wait(&report.latency_ms.status));
    row("claim", wait(&report.latency_ms.claim));
    row("reserve", wait(&report.latency_ms.reserve));
    for (name, verdict) in &report.promises {
        let mark = match verdict.holds {
            Some(true) => "kept    ",
            Some(false) => "BROKEN  ",
            None => "        ",
        };
        row(name, format!("{mark}{}", verdict.evidence));
    }
    let last = if report.is_good() {
        "All promises that were checked were kept."
    } else {
        "NOT GOOD: a promise was broken, or one that had to be checked was not."
    };
    out.push_str(last);
    out.push('\n');
    out
}
