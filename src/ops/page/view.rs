//! What the page shows, worked out from pulse, roster and file: no rendering here.

use crate::config::reload::Reloaded;
use crate::domain::node::{NodeSeen, Nodes, SILENT_MS};
use crate::domain::standing::Standing;
use crate::domain::stock::SkuFigures;
use crate::ops::pulse::{Beat, SECONDS_KEPT};
use crate::room::Room;

use super::format::{ago, grouped, number, time, until};

/// One number with its word.
pub(super) struct Tile {
    pub(super) word: &'static str,
    pub(super) number: String,
    pub(super) note: String,
}

/// One bar of the chart, in units of its view box.
pub(super) struct Bar {
    pub(super) x: u64,
    pub(super) y: u64,
    pub(super) height: u64,
}

/// Admissions per second over the last minute.
pub(super) struct Chart {
    pub(super) bars: Vec<Bar>,
    /// Where the set rate lies.
    pub(super) rate_y: u64,
    /// The top of the scale.
    pub(super) top: String,
    /// For who cannot see it.
    pub(super) text: String,
}

/// The height of the chart.
const CHART_HEIGHT: u64 = 64;
/// The width of a bar with its gap.
const BAR_STEP: u64 = 5;

/// One SKU.
pub(super) struct SkuRow {
    pub(super) sku: String,
    pub(super) free: String,
    pub(super) held: String,
    pub(super) sold: String,
    pub(super) loaded: String,
    /// Widths in thousandths.
    pub(super) widths: [u64; 3],
}

/// One sale.
pub(super) struct SaleCard {
    pub(super) id: String,
    pub(super) light: &'static str,
    pub(super) title: &'static str,
    pub(super) sentence: std::borrow::Cow<'static, str>,
    pub(super) phase: &'static str,
    pub(super) is_paused: bool,
    pub(super) is_bypassed: bool,
    /// Before the draw the opening can be moved.
    pub(super) is_ahead: bool,
    pub(super) rate_set: String,
    pub(super) tiles: Vec<Tile>,
    pub(super) chart: Chart,
    pub(super) skus: Vec<SkuRow>,
    /// Name and value.
    pub(super) facts: Vec<(&'static str, String)>,
}

impl SaleCard {
    pub(super) fn of(room: &Room, beat: &Beat) -> Self {
        let (seen, now_ms) = (room.snapshot(), beat.sight.now_ms);
        let control = &seen.control;
        let rate = control.rate.get();
        let standing = beat.standing;
        let skus = seen.figures.iter().flat_map(|figures| &figures.skus).map(sku_row).collect();
        let mut facts = vec![
            ("Opens", format!("{} ({})", time(control.opens_ms), until(control.opens_ms, now_ms))),
            (
                "Closes",
                format!("{} ({})", time(control.closes_ms), until(control.closes_ms, now_ms)),
            ),
            ("Record", format!("version {} by {}", control.version, control.author)),
            ("Run, epoch", format!("{}, {}", control.run, control.epoch)),
        ];
        if control.bypass_until_ms > now_ms {
            facts.push(("Bypass ends", until(control.bypass_until_ms, now_ms)));
        }
        if let Some(figures) = &seen.figures {
            facts.push(("Stock told", ago(figures.at_ms, now_ms)));
        }
        Self {
            id: room.sale().to_string(),
            light: standing.light().as_str(),
            title: standing.title(),
            sentence: standing.sentence(),
            phase: beat.sight.phase.as_str(),
            is_paused: control.paused,
            is_bypassed: control.bypass_until_ms > now_ms,
            is_ahead: matches!(
                standing,
                Standing::Upcoming | Standing::Lobby | Standing::PausedBeforeOpening
            ),
            rate_set: format!("{}/s", number(rate)),
            tiles: tiles(room, beat),
            chart: chart(&beat.seconds, rate),
            skus,
            facts,
        }
    }
}

fn tiles(room: &Room, beat: &Beat) -> Vec<Tile> {
    let seen = room.snapshot();
    let (control, counts) = (&seen.control, seen.line_counts());
    let tile = |word, number, note: String| Tile { word, number, note };
    #[expect(clippy::cast_precision_loss, reason = "milliseconds stay below 2^53")]
    let lead_ms = seen.meter.lead_ms(beat.sight.now_ms as f64);
    let undecided = grouped(counts.undecided);
    let open = if control.max_active > 0 {
        format!("of at most {}; {undecided} undecided", grouped(control.max_active.into()))
    } else {
        format!("admissions; {undecided} undecided")
    };
    vec![
        tile(
            "Let in per second",
            number(beat.rate),
            format!("{}/s set, burst {}", number(control.rate.get()), control.burst),
        ),
        tile("Waiting", grouped(counts.waiting), "not called yet".to_owned()),
        tile("Present", grouped(counts.present), "of those near the front".to_owned()),
        tile("Called", grouped(counts.called), format!("booked {} s ahead", number(lead_ms / 1e3))),
        tile("Admitted", grouped(counts.admitted), "since the last stop".to_owned()),
        tile("Missed", grouped(counts.missed), "let their window lapse".to_owned()),
        tile("Open", grouped(counts.open_admissions), open),
    ]
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a picture of small numbers"
)]
fn chart(seconds: &[u64], rate: f64) -> Chart {
    let most = seconds.iter().copied().max().unwrap_or(0);
    let top = (rate * 1.25).max(most as f64).max(1.0);
    let height = |value: f64| ((value / top) * CHART_HEIGHT as f64).round() as u64;
    let empty = SECONDS_KEPT.saturating_sub(seconds.len()) as u64;
    let bars = seconds.iter().zip(empty..).filter(|(count, _)| **count > 0);
    let bars = bars.map(|(count, at)| {
        let height = height(*count as f64).max(1);
        Bar { x: at * BAR_STEP, y: CHART_HEIGHT.saturating_sub(height), height }
    });
    let sum: u64 = seconds.iter().sum();
    Chart {
        bars: bars.collect(),
        rate_y: CHART_HEIGHT.saturating_sub(height(rate)),
        top: number(top),
        text: format!(
            "{} let in over the last {} seconds, at most {} in one of them; {} a second are set",
            grouped(sum),
            seconds.len(),
            grouped(most),
            number(rate)
        ),
    }
}

fn sku_row(figures: &SkuFigures) -> SkuRow {
    let parts = [figures.available, figures.held, figures.confirmed];
    let whole: u64 = parts.iter().sum::<u64>().max(1);
    SkuRow {
        sku: figures.sku.to_string(),
        free: grouped(figures.available),
        held: grouped(figures.held),
        sold: grouped(figures.confirmed),
        loaded: grouped(figures.loaded),
        widths: parts.map(|part| part.saturating_mul(1000) / whole),
    }
}

/// One node.
pub(super) struct NodeRow {
    pub(super) id: String,
    pub(super) role: String,
    pub(super) version: String,
    pub(super) control: String,
    pub(super) settings: String,
    pub(super) settings_note: &'static str,
    pub(super) keys: String,
    pub(super) keys_note: &'static str,
    pub(super) heard: String,
    pub(super) reach: &'static str,
    pub(super) reach_is_fine: bool,
}

pub(super) fn node_rows(nodes: &Nodes) -> Vec<NodeRow> {
    let usual = nodes.usual(|report| &report.keys);
    nodes.seen.iter().map(|node| node_row(node, nodes, usual)).collect()
}

fn node_row(node: &NodeSeen, nodes: &Nodes, usual_keys: &str) -> NodeRow {
    let report = &node.report;
    let is_silent = nodes.now_ms.saturating_sub(node.at_ms) > SILENT_MS;
    let (reach, reach_is_fine) = match report.reach.as_str() {
        _ if is_silent => ("silent: a stop may not reach it", false),
        "redis" => ("yes", true),
        "core" => ("yes, by the core", true),
        _ => ("a stop cannot reach it", false),
    };
    NodeRow {
        id: node.id.clone(),
        role: report.role.clone(),
        version: report.version.clone(),
        control: report.control.to_string(),
        settings: report.settings.clone(),
        settings_note: match (report.settings_refused, report.settings_differ) {
            (true, _) => "file refused",
            (false, true) => "file differs",
            (false, false) => "",
        },
        keys: report.keys.clone(),
        keys_note: if report.identity != nodes.identity {
            "of another installation"
        } else if report.keys == usual_keys {
            ""
        } else {
            "differ"
        },
        heard: ago(node.at_ms, nodes.now_ms),
        reach,
        reach_is_fine,
    }
}

/// What is to be said of this node's file.
pub(super) struct FileNote {
    pub(super) file: String,
    pub(super) version: String,
    /// Headline and text, worst first.
    pub(super) notes: Vec<(&'static str, String)>,
}

impl FileNote {
    pub(super) fn of(reloaded: &Reloaded) -> Self {
        let mut notes = vec![];
        if let Some(error) = &reloaded.error {
            notes.push(("Refused; the settings before it stay", error.clone()));
        }
        for (head, list) in [
            ("Refused while the sale is on", &reloaded.refused),
            ("Read only at a start", &reloaded.restart),
            ("The record in force goes before the file", &reloaded.differs),
        ] {
            if !list.is_empty() {
                notes.push((head, list.join("\n")));
            }
        }
        Self { file: reloaded.file.clone(), version: reloaded.version.clone(), notes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chart_is_as_high_as_the_rate_and_its_newest_second_is_at_the_right() {
        let chart = chart(&[0, 10, 20], 20.0);
        assert_eq!(chart.bars.len(), 2, "nothing is drawn for nothing");
        let last = chart.bars.last().unwrap();
        assert_eq!(last.x, (SECONDS_KEPT as u64 - 1) * BAR_STEP);
        assert_eq!((last.y, chart.rate_y), (chart.rate_y, CHART_HEIGHT - last.height));
        assert!(chart.text.starts_with("30 let in over the last 3 seconds"), "{}", chart.text);
    }

    #[test]
    fn the_bar_of_a_sku_adds_up() {
        let figures = SkuFigures {
            sku: crate::domain::id::Sku::parse("A").unwrap(),
            loaded: 10,
            available: 5,
            held: 2,
            confirmed: 3,
            earliest_release_ms: None,
        };
        assert_eq!(sku_row(&figures).widths, [500, 200, 300]);
    }
}
