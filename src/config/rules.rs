//! Collects what the rules find.

use std::collections::BTreeSet;

use super::document::Document;
use super::problem::Problem;
use super::suggest::did_you_mean;

/// What has been found so far. Rules say which keys they read: what rests on a value that could
/// not be read, and was therefore exchanged for another, is not said.
pub(super) struct Findings<'d, 't> {
    document: &'d Document<'t>,
    repaired: &'d BTreeSet<String>,
    /// The file is refused for these.
    pub(super) problems: Vec<Problem>,
    /// To be known, and accepted.
    pub(super) warnings: Vec<Problem>,
}

impl<'d, 't> Findings<'d, 't> {
    /// Nothing yet.
    pub(super) fn new(document: &'d Document<'t>, repaired: &'d BTreeSet<String>) -> Self {
        Self { document, repaired, problems: vec![], warnings: vec![] }
    }

    /// Refuses unless it holds; the problem is told of `key`.
    pub(super) fn must(&mut self, holds: bool, key: &str, cure: impl Into<String>) {
        self.must_given(&[], holds, key, cure);
    }

    /// The same for a rule that reads other keys besides.
    pub(super) fn must_given(
        &mut self,
        reads: &[&str],
        holds: bool,
        key: &str,
        cure: impl Into<String>,
    ) {
        if !holds && self.read(key) && reads.iter().all(|key| self.read(key)) {
            let meant = did_you_mean(key, self.document.text_of(key));
            self.problems.push(self.document.problem(key, cure.into() + &meant));
        }
    }

    /// Warns if it does not hold.
    pub(super) fn should(&mut self, holds: bool, key: &str, advice: impl Into<String>) {
        if !holds && self.read(key) {
            self.warnings.push(self.document.problem(key, advice));
        }
    }

    /// Whether the key, and every table around it, is as the file has it.
    fn read(&self, key: &str) -> bool {
        let parents = key.match_indices(['.', '[']).map(|(end, _)| &key[..end]);
        !std::iter::once(key).chain(parents).any(|path| self.repaired.contains(path))
    }
}
