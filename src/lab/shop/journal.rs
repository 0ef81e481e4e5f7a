//! What reached the shop's checkout, so that a run can prove that only the admitted did.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

/// The most visits that are kept one by one; the counts go on.
pub const JOURNAL_MAX: usize = 500_000;

/// One request to `/checkout` or below.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Visit {
    /// `METHOD /path`, without the query.
    pub request: String,
    /// The visitor that the gateway vouched for, "" for none.
    pub visitor: String,
}

/// All of them.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Journal {
    /// How many of each `METHOD /path`.
    pub counts: BTreeMap<String, u64>,
    /// The first [`JOURNAL_MAX`], in order.
    pub visits: Vec<Visit>,
}

/// The journal of a running shop.
#[derive(Default)]
pub(super) struct Log(Mutex<Journal>);

impl Log {
    pub(super) fn note(&self, visit: Visit) {
        let mut journal = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Paths of strangers are unbounded, so rare ones are counted together once there are many.
        let known = journal.counts.contains_key(&visit.request) || journal.counts.len() < 200;
        let name = if known { visit.request.clone() } else { "other".to_owned() };
        *journal.counts.entry(name).or_default() += 1;
        if journal.visits.len() < JOURNAL_MAX {
            journal.visits.push(visit);
        }
    }

    pub(super) fn read(&self) -> Journal {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_strangers_are_counted_without_growing_for_ever() {
        let log = Log::default();
        for number in 0..1_000 {
            let request = format!("GET /checkout/{number}");
            log.note(Visit { request, visitor: String::new() });
        }
        let journal = log.read();
        assert_eq!(journal.visits.len(), 1_000);
        assert_eq!(journal.counts.len(), 201);
        assert_eq!(journal.counts["other"], 800);
    }
}
