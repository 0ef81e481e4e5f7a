//! The join step.

use std::sync::LazyLock;

use redis::Script;

use super::super::RedisFailure;
use super::{RoomStore, garbled, instant_ms, number, script};
use crate::domain::id::AccountId;
use crate::domain::ticket::Cohort;

static JOIN: LazyLock<Script> = script!("prelude.lua", "join.lua");

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
    /// What the asker's valid ticket says: the number, and the account it is tied to.
    pub ticket: Option<(Cohort, Option<AccountId>)>,
    /// A number of the asker's that was missed: it is not found again.
    pub lapsed: Option<Cohort>,
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

impl RoomStore {
    /// Joins up to [`JOINS_MAX`] at once. Nothing while the room is not loaded.
    pub async fn join(
        &self,
        steps: &[JoinStep],
        places_per_ip: u32,
        max_places: u64,
    ) -> Result<Option<Joins>, RedisFailure> {
        let keys = &self.keys;
        let mut call = JOIN.prepare_invoke();
        call.key(keys.control()).key(keys.room()).key(keys.joins()).key(keys.accounts());
        call.key(keys.addresses()).key(keys.left()).key(keys.journal()).key(keys.wake());
        call.arg(places_per_ip).arg(max_places);
        for step in steps {
            let (number, owner) = match &step.ticket {
                Some((cohort, owner)) => (cohort.to_string(), owner.as_ref()),
                None => (String::new(), None),
            };
            call.arg(&step.key).arg(step.account.as_ref().map_or("", AccountId::as_str));
            call.arg(step.address.as_deref().unwrap_or_default()).arg(number);
            call.arg(owner.map_or("", AccountId::as_str));
            call.arg(step.lapsed.map(|lapsed| lapsed.to_string()).unwrap_or_default());
        }
        let raw: Vec<String> = self.store.run(&call).await?;
        parse(&raw, steps.len())
    }
}

fn parse(raw: &[String], asked: usize) -> Result<Option<Joins>, RedisFailure> {
    let (now, run, answers) = match raw {
        [outcome] if outcome == "unloaded" => return Ok(None),
        [now, run, answers @ ..] if answers.len() == asked * 3 => (now, run, answers),
        _ => return Err(garbled(format!("{} fields for {asked} joins", raw.len()))),
    };
    let answers = answers.chunks_exact(3).map(|triple| answer(&triple[0], &triple[1], &triple[2]));
    Ok(Some(Joins {
        now_ms: instant_ms(now)?,
        run: number(run)?,
        answers: answers.collect::<Result<_, _>>()?,
    }))
}

fn answer(outcome: &str, known: &str, account: &str) -> Result<JoinAnswer, RedisFailure> {
    Ok(match outcome {
        "not-open" => JoinAnswer::NotOpen,
        "closed" => JoinAnswer::Closed,
        "full" => JoinAnswer::Full,
        "too-many" => JoinAnswer::TooMany,
        "ceiling" => JoinAnswer::Ceiling,
        number => {
            let cohort = Cohort::parse(number).ok_or_else(|| garbled(number))?;
            let account = match account {
                "" => None,
                text => Some(AccountId::parse(text).map_err(|_| garbled("an account"))?),
            };
            JoinAnswer::Joined(Joined { cohort, known: known == "1", account })
        }
    })
}
