//! The join step.

use std::sync::LazyLock;

use redis::Script;

use super::super::RedisFailure;
use super::{RoomStore, garbled, instant_ms, number, script};
use crate::domain::id::AccountId;
use crate::domain::ticket::{Cohort, Ticket};

static JOIN: LazyLock<Script> = script!("prelude.lua", "fields.lua", "goes_on.lua", "join.lua");

/// The most joins of one step.
pub const JOINS_MAX: usize = 512;

/// One join.
#[derive(Debug, Clone)]
pub struct JoinStep {
    /// Hash of the join key.
    pub key: String,
    /// The account vouched for, if any.
    pub account: Option<AccountId>,
    /// Blinded address, counted for anonymous places; nothing where it is not counted.
    pub address: Option<String>,
    /// The asker's valid ticket.
    pub ticket: Option<Ticket>,
    /// A place of the asker's that is over.
    pub lapsed: Option<Lapsed>,
}

/// A place that was missed, used up or left: it is not found again.
#[derive(Debug, Clone)]
pub struct Lapsed {
    /// What proves it.
    pub ticket: Ticket,
    /// Where it stood in line, once that is drawn.
    pub position: Option<u64>,
}

/// A place, new or known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Joined {
    /// The number.
    pub cohort: Cohort,
    /// Whether the asker had it before.
    pub known: bool,
    /// The account that the place is tied to.
    pub account: Option<AccountId>,
}

/// What became of one join.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JoinAnswer {
    /// A place.
    Joined(Joined),
    /// The lobby has not opened.
    NotOpen,
    /// The sale is over.
    Closed,
    /// `max_places` is reached.
    Full,
    /// `places_per_ip` is reached.
    TooMany,
    /// Numbers up to the ceiling are given; the core raises it in a moment.
    Ceiling,
}

/// The answers to one step, in the order asked.
#[derive(Debug)]
pub struct Joins {
    /// Redis' clock, Unix milliseconds.
    pub now_ms: u64,
    /// The run that the numbers belong to.
    pub run: u64,
    /// One per join.
    pub answers: Vec<JoinAnswer>,
}

impl AsRef<JoinStep> for JoinStep {
    fn as_ref(&self) -> &JoinStep {
        self
    }
}

impl RoomStore {
    /// Joins up to [`JOINS_MAX`] at once. Nothing while the room is not loaded.
    pub async fn join(
        &self,
        steps: &[impl AsRef<JoinStep>],
        places_per_ip: u32,
        max_places: u64,
    ) -> Result<Option<Joins>, RedisFailure> {
        let keys = &self.keys;
        let mut call = JOIN.prepare_invoke();
        call.key(keys.control()).key(keys.room()).key(keys.joins()).key(keys.accounts());
        call.key(keys.addresses()).key(keys.left()).key(keys.journal()).key(keys.wake());
        call.key(keys.missed());
        call.arg(steps.len()).arg(places_per_ip).arg(max_places);
        let steps = || steps.iter().map(AsRef::as_ref);
        for step in steps() {
            call.arg(&step.key);
        }
        if places_per_ip > 0 {
            for step in steps() {
                call.arg(step.address.as_deref().unwrap_or_default());
            }
        }
        for (index, step) in steps().enumerate().filter(|(_, step)| !step.is_newcomer()) {
            let owner = step.ticket.as_ref().and_then(|ticket| ticket.account.as_ref());
            call.arg(index + 1).arg(text(step.account.as_ref()));
            call.arg(number_of(step.ticket.as_ref())).arg(text(owner));
            let lapsed = step.lapsed.as_ref();
            call.arg(number_of(lapsed.map(|lapsed| &lapsed.ticket)));
            let position = lapsed.and_then(|lapsed| lapsed.position);
            call.arg(position.map(|position| position.to_string()).unwrap_or_default());
        }
        let raw: Vec<String> = self.store.run(&call).await?;
        parse(&raw, steps())
    }
}

impl JoinStep {
    /// Whether nothing is known of the asker but the key, and where it comes from.
    fn is_newcomer(&self) -> bool {
        self.account.is_none() && self.ticket.is_none() && self.lapsed.is_none()
    }
}

/// With the run that it is of: a reset may come in between.
fn number_of(ticket: Option<&Ticket>) -> String {
    ticket.map(|ticket| format!("{}:{}", ticket.run, ticket.cohort)).unwrap_or_default()
}

fn text(account: Option<&AccountId>) -> &str {
    account.map_or("", AccountId::as_str)
}

fn parse<'a>(
    raw: &[String],
    steps: impl ExactSizeIterator<Item = &'a JoinStep>,
) -> Result<Option<Joins>, RedisFailure> {
    let (now, run, lines) = match raw {
        [outcome] if outcome == "unloaded" => return Ok(None),
        // No account has an end of line in it.
        [now, run, lines] if lines.split('\n').count() == steps.len() => (now, run, lines),
        _ => return Err(garbled(format!("{} fields for {} joins", raw.len(), steps.len()))),
    };
    let answers = steps.zip(lines.split('\n')).map(|(step, line)| answer(step, line));
    Ok(Some(Joins {
        now_ms: instant_ms(now)?,
        run: number(run)?,
        answers: answers.collect::<Result<_, _>>()?,
    }))
}

fn answer(step: &JoinStep, line: &str) -> Result<JoinAnswer, RedisFailure> {
    let cohort = |raw| Cohort::parse(raw).ok_or_else(|| garbled(line));
    Ok(match line {
        "not-open" => JoinAnswer::NotOpen,
        "closed" => JoinAnswer::Closed,
        "full" => JoinAnswer::Full,
        "too-many" => JoinAnswer::TooMany,
        "ceiling" => JoinAnswer::Ceiling,
        place => JoinAnswer::Joined(match place.split_once(' ') {
            None => Joined { cohort: cohort(place)?, known: false, account: step.account.clone() },
            Some((number, "")) => Joined { cohort: cohort(number)?, known: true, account: None },
            Some((number, account)) => {
                let account = AccountId::parse(account).map_err(|_| garbled("an account"))?;
                Joined { cohort: cohort(number)?, known: true, account: Some(account) }
            }
        }),
    })
}
