//! The judge of the doors: only-the-admitted.

use super::evidence::Evidence;
use super::promise::Verdict;
use crate::lab::crowd::{Observations, Trespass};

/// only-the-admitted: whoever tried without was answered by us, and whatever reached the shop's
/// checkout had a visitor whom the gateway vouched for.
pub(super) fn only_the_admitted(seen: &Observations, evidence: &Evidence) -> Verdict {
    if seen.trespasses.is_empty() {
        return Verdict::unchecked("nobody tried without an admission");
    }
    let mut faults: Vec<String> = seen.trespasses.iter().filter_map(let_in).collect();
    let reached = match &evidence.journal {
        Ok(journal) => {
            let strangers = journal.visits.iter().filter(|visit| visit.visitor.is_empty());
            faults.extend(strangers.map(|v| format!("the shop got {} from a stranger", v.request)));
            format!("; {} admitted requests in the shop's journal", journal.visits.len())
        }
        Err(reason) => format!("; the shop's journal was not read: {reason}"),
    };
    Verdict::of(&faults, format!("{} tries refused{reached}", seen.trespasses.len()))
}

/// Anything that is not our own refusal; a bare 400 is our parser's.
fn let_in(tried: &Trespass) -> Option<String> {
    let ours = !tried.answered_by.is_empty() || tried.status == 400;
    let taken =
        tried.status == 201 || (tried.status == 200 && tried.request.contains("reservations"));
    (!ours || taken).then(|| {
        format!("{} without an admission got {} from the shop", tried.request, tried.status)
    })
}
