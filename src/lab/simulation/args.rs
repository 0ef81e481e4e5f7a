//! The arguments of `stanchion simulate`.

use clap::Args;

/// Arguments of the simulation.
#[derive(Args, Debug)]
pub struct Simulate {
    /// The first seed; the same seed is the same run.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many seeds; the worst of each figure is printed.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    seeds: u16,
    /// Print JSON, and nothing else, on standard output.
    #[arg(long)]
    pub(super) json: bool,
}

impl Simulate {
    pub(super) fn seeds(&self) -> Vec<u64> {
        (self.seed..=u64::MAX).take(usize::from(self.seeds)).collect()
    }
}
