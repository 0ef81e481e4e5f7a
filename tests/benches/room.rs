//! The waiting room's speed: polls and joins beside nginx, the opening with a million entries, what
//! a waiting visitor costs, event streams. Real processes and stores, the load on the same cores.
//! Nothing is asserted.
//!
//! Run: `cargo bench --bench room [-- polls|opening|streams]` (`CARGO_PROFILE_BENCH_LTO=off` builds
//! sooner). About three minutes; `polls` needs the programs `nginx` and `wrk`.

mod line;
mod load;
mod rounds;
mod wire;
mod yard;

use anyhow::{Result, bail};
use rounds::run;

fn main() -> Result<()> {
    // Cargo adds options of its own.
    let wanted: Vec<_> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    for part in &wanted {
        if !["polls", "opening", "streams"].contains(&part.as_str()) {
            bail!("there is no part '{part}'; parts are polls, opening and streams");
        }
    }
    let is_wanted = |part: &str| wanted.is_empty() || wanted.iter().any(|word| word == part);
    run(async {
        if is_wanted("polls") {
            line::polls::measure()?;
        }
        if is_wanted("opening") {
            line::opening::measure().await?;
        }
        if is_wanted("streams") {
            line::streams::measure().await?;
        }
        Ok(())
    })
}
