//! Judges a run: pure functions of what the crowd saw and what the stores say afterwards.

mod allowed;
mod collect;
mod door;
mod evidence;
mod html;
mod judge;
mod line;
mod page;
mod place;
mod promise;
mod rate;
mod steering;
mod stock;
mod stores;
mod table;
#[cfg(test)]
mod tests;
mod usage;

pub use collect::{Sources, collect};
pub use evidence::{CoreView, Evidence, GateSku, Ledger, LedgerSku, RateSet, Seen};
pub use html::page;
pub use judge::{Accounts, AdmissionsPerSecond, Percentiles, Report, Steered, Waits, judge};
pub use promise::{Promise, Verdict};
pub use table::table;
