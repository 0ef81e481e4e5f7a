//! The arguments of `stanchion compare`.

use std::time::Duration;

use clap::Args;

use super::approach::Approach;
use super::plan::Plan;
use crate::config::span::Span;

const SLOW_FLUSH_MS_MAX: u64 = 100;

/// Arguments of the comparison.
#[derive(Args, Debug)]
pub struct Compare {
    /// Clients of each approach, each with a connection of its own.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=512))]
    clients: u16,
    /// How long each is measured.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=60))]
    seconds: u32,
    /// Units on sale while it is watched who oversells; speed is measured with plenty.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    units: u16,
    /// Rows that the approach "shards" splits the stock over.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(2..=64))]
    shards: u16,
    /// Only this approach; may be given several times [default: all].
    #[arg(long = "approach", value_name = "NAME", value_enum, hide_default_value = true)]
    approaches: Vec<Approach>,
    /// Measure the ratios once more with every flush that much longer, as on a slow volume
    /// (Postgres' commit_delay stands in for it).
    #[arg(long, value_name = "TIME", value_parser = slow_flush)]
    slow_flush: Option<Duration>,
    /// Print JSON, and nothing else, on standard output.
    #[arg(long)]
    pub(super) json: bool,
}

impl Compare {
    pub(super) fn plan(&self) -> Plan {
        Plan {
            approaches: Approach::asked_for(&self.approaches),
            clients: self.clients,
            seconds: self.seconds,
            units: self.units,
            shards: self.shards,
            slow_flush: self.slow_flush,
        }
    }
}

fn slow_flush(raw: &str) -> Result<Duration, String> {
    match Span::parse(raw) {
        Ok(span) if (1..=SLOW_FLUSH_MS_MAX).contains(&span.ms()) => Ok(span.duration()),
        _ => Err(format!("must be from 1ms to {SLOW_FLUSH_MS_MAX}ms, as \"1ms\"")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flush_is_slowed_by_up_to_a_tenth_of_a_second() {
        assert_eq!(slow_flush("1ms"), Ok(Duration::from_millis(1)));
        for bad in ["0ms", "101ms", "1", "", "-1ms", "1s"] {
            assert!(slow_flush(bad).unwrap_err().contains("1ms to 100ms"), "{bad}");
        }
    }
}
