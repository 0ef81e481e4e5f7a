//! The report for people.

use std::fmt::Write;

use super::ratios::{Bar, Ratio};
use super::report::{LanesReport, Report};
use super::row::Row;

/// Tables and sentences, ready to be printed.
pub(super) fn table(report: &Report) -> String {
    let mut out = format!(
        "One hot SKU, {} clients, {} s each, synchronous_commit = on. Oversold and lost: {} units, \
         sold to the last.\n\n",
        report.clients, report.seconds, report.units
    );
    rows(&mut out, &report.rows);
    out.push_str(
        "\nlock: microseconds that the row is locked for a take, until the commit's answer;\n\
         ceiling: takes a second that this allows. atomic-update and shards write no order.\n\
         \nTo plan for, as measured here:\n",
    );
    for row in &report.rows {
        if let Some(failure) = &row.failure {
            line(&mut out, &format!("  {:<16} {failure}", row.approach.name()));
        }
    }
    if let Some(lanes) = &report.lanes {
        batches(&mut out, lanes, report.clients);
    }
    ratios(&mut out, "", &report.ratios);
    if let Some(slow) = &report.slow_flush {
        line(&mut out, &format!("\nWith every flush {} ms longer:\n", slow.delay_ms));
        rows(&mut out, &slow.rows);
        ratios(&mut out, " with slow flushes", &slow.ratios);
    }
    out
}

fn line(out: &mut String, text: &str) {
    out.push_str(text);
    out.push('\n');
}

fn rows(out: &mut String, rows: &[Row]) {
    let titles =
        ["clients", "oversold", "lost", "takes/s", "p50 ms", "p99 ms", "lock us", "ceiling/s"];
    let columns = |cells: [String; 8]| cells.map(|cell| format!("{cell:>10}")).concat();
    line(out, &format!("{:<16}{}", "approach", columns(titles.map(str::to_owned))));
    for row in rows {
        let unknown = || "-".to_owned();
        let cells = [
            row.clients.to_string(),
            row.oversold.to_string(),
            row.lost_updates.to_string(),
            format!("{:.0}", row.takes_per_second),
            format!("{:.2}", row.p50_ms),
            format!("{:.2}", row.p99_ms),
            row.lock_hold_us.map_or_else(unknown, |us| format!("{us:.1}")),
            row.ceiling_per_second.map_or_else(unknown, |most| format!("{most:.0}")),
        ];
        line(out, &format!("{:<16}{}", row.approach.name(), columns(cells)));
    }
}

fn batches(out: &mut String, lanes: &LanesReport, clients: u16) {
    let titles = ["takes", "batch us", "locked us", "lock us/take", "takes/s"];
    let columns = |cells: [String; 5]| cells.map(|cell| format!("{cell:>14}")).concat();
    line(out, "\nLanes by the size of a batch:");
    line(out, &columns(titles.map(str::to_owned)));
    for row in &lanes.batches {
        let cells = [
            row.takes.to_string(),
            format!("{:.0}", row.batch_us),
            format!("{:.0}", row.lock_us),
            format!("{:.2}", row.lock_hold_us),
            format!("{:.0}", row.takes_per_second),
        ];
        line(out, &columns(cells));
    }
    for (name, fit) in [("T(n)", lanes.batch_fit), ("locked(n)", lanes.lock_fit)] {
        if let Some(fit) = fit {
            line(out, &format!("  {name} = {:.0} us + {:.2} us x n", fit.a_us, fit.b_us));
        }
    }
    let capped = lanes.capped_takes_per_second;
    line(out, &format!("  with a cap of units per buyer, {clients} clients: {capped:.0} takes/s"));
}

fn ratios(out: &mut String, when: &str, ratios: &[Ratio]) {
    if ratios.is_empty() {
        return;
    }
    line(out, &format!("\nRatios{when}:"));
    for Ratio { name, times, bar, holds } in ratios {
        let bar = match bar {
            Bar::AtLeast(least) => format!("at least {least}"),
            Bar::AtMost(most) => format!("at most {most}"),
        };
        let word = if *holds { "as promised" } else { "MISSED" };
        // Writing into a string cannot fail.
        let _infallible = writeln!(out, "  {name:<64}{times:>8.2} x  ({bar}: {word})");
    }
}
