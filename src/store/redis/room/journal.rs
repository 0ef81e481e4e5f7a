//! The journal of accounts: joins append to it, cores carry it to Postgres.

use super::super::RedisFailure;
use super::{RoomStore, garbled, number};
use crate::domain::id::AccountId;
use crate::domain::ticket::Cohort;

/// Sequence numbers that one millisecond of a stream can have, as far as versions go.
const PER_MS: u64 = 1_000_000;

/// An account that has a number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalEntry {
    /// The run of the number.
    pub run: u64,
    /// Who.
    pub account: AccountId,
    /// The number.
    pub number: Cohort,
    /// Of two words about one account the one with the higher version is the later.
    pub version: u64,
}

/// The oldest entries of a journal.
#[derive(Debug, Default)]
pub struct JournalPage {
    /// Oldest first.
    pub entries: Vec<JournalEntry>,
    /// Where the journal may be cut once they are durable.
    pub end: String,
}

type Raw = Vec<(String, Vec<String>)>;

impl RoomStore {
    /// The oldest entries, at most `max`, whether or not the room is loaded.
    pub async fn read_journal(&self, max: usize) -> Result<JournalPage, RedisFailure> {
        let mut ask = redis::cmd("XRANGE");
        ask.arg(self.keys.journal()).arg("-").arg("+").arg("COUNT").arg(max);
        parse(self.store.command(&ask).await?)
    }

    /// Forgets the entries of a page. Whatever came after stays, and so may several cores do it.
    pub async fn cut_journal(&self, page: &JournalPage) -> Result<(), RedisFailure> {
        let mut cut = redis::cmd("XTRIM");
        cut.arg(self.keys.journal()).arg("MINID").arg(&page.end);
        self.store.command::<u64>(&cut).await.map(|_| ())
    }
}

fn parse(raw: Raw) -> Result<JournalPage, RedisFailure> {
    let mut page = JournalPage::default();
    for (id, fields) in raw {
        let (ms, sequence) = id.split_once('-').ok_or_else(|| garbled(id.as_str()))?;
        let (ms, sequence): (u64, u64) = (number(ms)?, number(sequence)?);
        page.end = format!("{ms}-{}", sequence.saturating_add(1));
        let field = |name: &str| {
            let at = fields.iter().step_by(2).position(|field| field == name);
            at.and_then(|at| fields.get(2 * at + 1))
                .ok_or_else(|| garbled(format!("journal.{name}")))
        };
        page.entries.push(JournalEntry {
            run: number(field("run")?)?,
            account: AccountId::parse(field("account")?).map_err(|_| garbled("journal.account"))?,
            number: Cohort::parse(field("number")?).ok_or_else(|| garbled("journal.number"))?,
            version: ms.saturating_mul(PER_MS).saturating_add(sequence.min(PER_MS - 1)),
        });
    }
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(id: &str, account: &str, number: &str) -> (String, Vec<String>) {
        let fields = ["run", "1", "account", account, "number", number];
        (id.to_owned(), fields.map(str::to_owned).to_vec())
    }

    #[test]
    fn a_later_word_has_the_higher_version_and_the_cut_is_behind_the_last() {
        let page = parse(vec![
            entry("1800000000000-0", "ann", "e5"),
            entry("1800000000000-1", "ann", "l7"),
            entry("1800000000001-0", "bob", "e6"),
        ])
        .unwrap();
        let versions: Vec<_> = page.entries.iter().map(|entry| entry.version).collect();
        assert!(versions.is_sorted_by(|a, b| a < b), "{versions:?}");
        assert_eq!(page.entries[1].number, Cohort::Late(7));
        assert_eq!(page.end, "1800000000001-1");
        assert!(parse(vec![entry("1", "ann", "e5")]).is_err());
        assert!(parse(vec![entry("1-1", "ann", "x5")]).is_err());
    }
}
