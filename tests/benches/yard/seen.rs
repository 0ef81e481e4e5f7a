//! What was measured, and medians of it.

use crate::rounds::{median, say};
use anyhow::Result;

/// One measurement.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Seen {
    /// Answers per second.
    pub(crate) per_second: f64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    /// The server's time on a processor for one request.
    pub(crate) cpu_us: f64,
}

impl Seen {
    /// Of each figure the middle one.
    fn median(all: &[Self]) -> Self {
        let of = |figure: fn(&Self) -> f64| median(&all.iter().map(figure).collect::<Vec<_>>());
        Self {
            per_second: of(|seen| seen.per_second),
            p50_us: of(|seen| seen.p50_us),
            p99_us: of(|seen| seen.p99_us),
            cpu_us: of(|seen| seen.cpu_us),
        }
    }
}

/// Measurements by name, in the order in which they were first noted.
#[derive(Debug, Default)]
pub(crate) struct Table(Vec<(String, Vec<Seen>)>);

impl Table {
    pub(crate) fn note(&mut self, name: &str, seen: Seen) {
        match self.0.iter_mut().find(|(known, _)| known == name) {
            Some((_, all)) => all.push(seen),
            None => self.0.push((name.to_owned(), vec![seen])),
        }
    }

    /// The medians of a name; zeros if nothing was noted.
    pub(crate) fn of(&self, name: &str) -> Seen {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map_or_else(Seen::default, |(_, all)| Seen::median(all))
    }

    /// The median of a figure of one name to that of another in the same round, which is steadier
    /// than the ratio of their medians where a machine is not.
    pub(crate) fn ratio(&self, one: &str, other: &str, figure: fn(&Seen) -> f64) -> f64 {
        let all = |name: &str| {
            let found = self.0.iter().find(|(known, _)| known == name);
            found.map_or(&[][..], |(_, all)| all).iter().map(figure)
        };
        median(&all(one).zip(all(other)).map(|(one, other)| one / other).collect::<Vec<_>>())
    }

    /// Tells all medians, with the rates of each round.
    pub(crate) fn tell(&self) -> Result<()> {
        say(&format!("{:<44}{:>10}{:>9}{:>9}{:>9}", "", "per s", "p50 us", "p99 us", "cpu us"))?;
        for (name, all) in &self.0 {
            let Seen { per_second, p50_us, p99_us, cpu_us } = Seen::median(all);
            let rounds = all.iter().map(|seen| format!("{:.0}", seen.per_second));
            let rounds = rounds.collect::<Vec<_>>().join(", ");
            say(&format!(
                "{name:<44}{per_second:>10.0}{p50_us:>9.0}{p99_us:>9.0}{cpu_us:>9.1}   [{rounds}]"
            ))?;
        }
        Ok(())
    }
}
