//! What a set of scenarios came to, for people and for scripts.

use std::fmt::Write;

use serde::Serialize;

use super::measure::Figures;
use super::scenario::Scenario;
use super::world;
use crate::domain::number::{real, whole};

/// Slots are instants with fractions.
const EXCESS_MAX: f64 = 1e-3;

/// A scenario under several seeds: the worst of each figure.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Row {
    pub(super) scenario: String,
    pub(super) rate: f64,
    pub(super) seeds: usize,
    /// The least part of the rate used in a 10 s window that counts; nothing if none does.
    pub(super) use_least: Option<f64>,
    /// The most slots in any second.
    pub(super) most_in_a_second: usize,
    pub(super) allowed_in_a_second: f64,
    /// Who was passed by the most, for what is allowed to that one.
    pub(super) passed_by: Option<u64>,
    pub(super) passing_allowed: Option<f64>,
    /// Slots unused in the 15 s after the jump.
    pub(super) lost_at_jump: Option<f64>,
    /// The seed that broke a promise, and which.
    pub(super) broken: Option<(u64, &'static str)>,
}

/// All scenarios.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Report {
    pub(super) rows: Vec<Row>,
}

/// Which promise a run has broken.
pub(super) fn broken(figures: &Figures) -> Option<&'static str> {
    let passed = figures.passed_by.zip(figures.passing_allowed);
    if figures.excess > EXCESS_MAX {
        Some("exact-rate")
    } else if !figures.use_kept {
        Some("full-use")
    } else if passed.is_some_and(|(by, allowed)| by > whole(allowed)) {
        Some("passing")
    } else {
        None
    }
}

impl Row {
    fn of(scenario: &Scenario, seeds: &[u64]) -> Self {
        let mut row = Self {
            scenario: scenario.name.clone(),
            rate: scenario.rate.get(),
            seeds: seeds.len(),
            use_least: None,
            most_in_a_second: 0,
            allowed_in_a_second: scenario.rate.get() + f64::from(scenario.burst),
            passed_by: None,
            passing_allowed: None,
            lost_at_jump: None,
            broken: None,
        };
        for &seed in seeds {
            row.add(seed, &world::run(scenario, seed).figures());
        }
        row
    }

    fn add(&mut self, seed: u64, figures: &Figures) {
        self.use_least = match (self.use_least, figures.use_least) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        self.most_in_a_second = self.most_in_a_second.max(figures.most_in_a_second);
        let lost = figures.lost_at_jump;
        self.lost_at_jump = lost.map(|lost| lost.max(self.lost_at_jump.unwrap_or(0.0)));
        let part =
            |by: Option<u64>, of: Option<f64>| by.zip(of).map_or(-1.0, |(by, of)| real(by) / of);
        if part(figures.passed_by, figures.passing_allowed)
            > part(self.passed_by, self.passing_allowed)
        {
            (self.passed_by, self.passing_allowed) = (figures.passed_by, figures.passing_allowed);
        }
        let broken = broken(figures).map(|promise| (seed, promise));
        self.broken = self.broken.or(broken);
    }
}

impl Report {
    pub(super) fn of(scenarios: &[Scenario], seeds: &[u64]) -> Self {
        Self { rows: scenarios.iter().map(|scenario| Row::of(scenario, seeds)).collect() }
    }

    pub(super) fn is_good(&self) -> bool {
        self.rows.iter().all(|row| row.broken.is_none())
    }

    /// A table in Markdown, and what was broken by which seed.
    pub(super) fn table(&self) -> String {
        let mut out = String::from(
            "| the line | rate | rate used | most in 1 s | passed by | unused after the jump |\n\
             |---|---|---|---|---|---|\n",
        );
        let or_dash = |cell: Option<String>| cell.unwrap_or_else(|| "–".to_owned());
        for row in &self.rows {
            let used = row.use_least.map(|part| format!("{:.1} %", part * 100.0));
            let passed = row.passed_by.zip(row.passing_allowed);
            let passed = passed.map(|(by, of)| format!("{by} of {:.0}", of.floor()));
            let lost = row.lost_at_jump.map(|slots| format!("{:.1} s", slots / row.rate));
            let Row { scenario, rate, most_in_a_second, allowed_in_a_second, .. } = row;
            let (used, passed, lost) = (or_dash(used), or_dash(passed), or_dash(lost));
            // A String takes whatever is written to it.
            let _never = writeln!(
                out,
                "| {scenario} | {rate}/s | {used} | {most_in_a_second} of {allowed_in_a_second} | {passed} | {lost} |"
            );
        }
        for row in &self.rows {
            if let Some((seed, promise)) = row.broken {
                let name = &row.scenario;
                let _never =
                    writeln!(out, "\n{name} at {}/s: {promise} broken by seed {seed}", row.rate);
            }
        }
        out
    }
}
