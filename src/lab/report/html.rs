//! The report as a page, with a chart.

use askama::Template;

use super::judge::Report;
use super::table::{numbers, verdict};

/// From one bar to the next.
const STEP: usize = 10;
/// Of the chart.
const HEIGHT: u64 = 100;

#[derive(Template)]
#[template(path = "lab/report.html")]
struct Page<'a> {
    report: &'a Report,
    verdict: &'static str,
    numbers: Vec<(&'static str, String)>,
    bars: Vec<Bar>,
    width: usize,
    highest: u64,
}

struct Bar {
    second: usize,
    count: u64,
    x: usize,
    y: u64,
    height: u64,
}

/// A page that needs nothing beside it.
pub fn page(report: &Report) -> Result<String, askama::Error> {
    let seconds = &report.admissions_per_second.seconds;
    let highest = seconds.iter().copied().max().unwrap_or(0);
    let bars = seconds.iter().enumerate().map(|(index, &count)| {
        let height = count * HEIGHT / highest.max(1);
        Bar { second: index + 1, count, x: index * STEP, y: HEIGHT - height, height }
    });
    let page = Page {
        report,
        verdict: verdict(report),
        numbers: numbers(report),
        bars: bars.collect(),
        width: (seconds.len() * STEP).max(STEP),
        highest,
    };
    page.render()
}
