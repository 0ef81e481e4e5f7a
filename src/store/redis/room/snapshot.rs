//! One look at the room.

use std::collections::HashMap;
use std::sync::LazyLock;

use redis::Script;

use super::super::RedisFailure;
use super::{Ceilings, Opening, RoomStore, garbled, instant_ms, number, record, script};
use crate::domain::beacon;
use crate::domain::demand::Decisions;
use crate::domain::holes::Holes;
use crate::domain::line::{Lapses, OpenAdmissions};
use crate::domain::meter::{Anchor, Meter};
use crate::domain::rate::Rate;
use crate::domain::sale::Control;
use crate::domain::stock::Figures;
use crate::domain::ticket::Cohort;

static SNAPSHOT: LazyLock<Script> = script!("prelude.lua", "snapshot.lua");

/// A loaded room at one instant.
#[derive(Debug, Clone)]
pub struct RoomState {
    /// The control record.
    pub control: Control,
    /// When this server got the room, Unix milliseconds.
    pub loaded_ms: u64,
    /// The published hash of the run's seed, in hex.
    pub commitment: String,
    /// The beacon round committed to; 0 = none.
    pub round: u64,
    /// Whether entries are closed.
    pub frozen: bool,
    /// The opening, once the draw is made.
    pub opening: Option<Opening>,
    /// Entries, latecomers and calls so far.
    pub counters: Ceilings,
    /// What they may not reach.
    pub ceilings: Ceilings,
    /// Numbers that nobody has.
    pub holes: Holes,
    /// Called positions that have claimed in this epoch.
    pub claimed: u64,
    /// Those whose admission was signed.
    pub admitted: u64,
    /// Open admissions.
    pub open: OpenAdmissions,
    /// What became of the last that were decided.
    pub decisions: Decisions,
    /// Units that the room was told were taken.
    pub units_told: u64,
    /// First windows that are over.
    pub lapses: Lapses,
    /// The meter, for its lead.
    pub meter: Meter,
    /// The figures last written.
    pub figures: Option<Figures>,
    /// Places given up that were not known before.
    pub left: News<Cohort>,
    /// Positions that have missed both windows and were not known before.
    pub missed: News<u64>,
}

/// What is new in a list that only grows.
#[derive(Debug, Clone)]
pub struct News<T> {
    /// All there are.
    pub count: u64,
    /// Those that concern this run, of those that follow the known ones, a bounded number at a look.
    pub items: Vec<T>,
    /// How many were read, those of other runs included.
    pub read: u64,
}

/// What a node knows already of the lists that only grow.
#[derive(Debug, Clone, Copy, Default)]
pub struct Known {
    /// Places given up.
    pub left: u64,
    /// Positions that have missed both windows.
    pub missed: u64,
}

/// So many at a look.
const NEWS_MAX: usize = 500;

type Hash = HashMap<String, String>;
type Counts = (u64, u64, u64);
type List = (u64, Vec<String>);
type Raw = (String, bool, Hash, Hash, Hash, String, Counts, Counts, List, List);

impl RoomStore {
    /// Redis' clock (Unix milliseconds), and the room if it is loaded.
    pub async fn look(&self) -> Result<(u64, Option<RoomState>), RedisFailure> {
        self.look_at(Known::default(), 0).await
    }

    /// The same, with what is new in the lists that only grow.
    pub async fn look_beyond(
        &self,
        known: Known,
    ) -> Result<(u64, Option<RoomState>), RedisFailure> {
        self.look_at(known, NEWS_MAX).await
    }

    async fn look_at(
        &self,
        known: Known,
        more: usize,
    ) -> Result<(u64, Option<RoomState>), RedisFailure> {
        let keys = &self.keys;
        let mut call = SNAPSHOT.prepare_invoke();
        call.key(keys.control()).key(keys.room()).key(keys.meter());
        call.key(keys.figures()).key(keys.left()).key(keys.missed());
        call.key(keys.active()).key(keys.booked()).key(keys.undecided()).key(keys.decisions());
        call.arg(known.left).arg(known.missed).arg(more);
        let raw: Raw = self.store.run(&call).await?;
        let (now, is_loaded, control, room, meter, figures, open, decided, left, missed) = raw;
        let now_ms = instant_ms(&now)?;
        if !is_loaded {
            return Ok((now_ms, None));
        }
        let field = |name: &str| room.get(name).map_or(Ok(0), |raw| number(raw));
        let state = RoomState {
            control: record::parse(&control)?,
            loaded_ms: room.get("loaded_ms").map_or(Ok(0), |raw| instant_ms(raw))?,
            commitment: room.get("commitment").cloned().unwrap_or_default(),
            round: field("round")?,
            frozen: room.contains_key("frozen"),
            opening: opening(&room)?,
            counters: Ceilings {
                entries: field("entries")?,
                late: field("late")?,
                cursor: field("cursor")?,
            },
            ceilings: Ceilings {
                entries: field("entries_ceiling")?,
                late: field("late_ceiling")?,
                cursor: field("cursor_ceiling")?,
            },
            holes: room.get("holes").map(|raw| Holes::parse(raw)).unwrap_or_default(),
            claimed: field("claimed")?,
            admitted: field("admitted")?,
            open: OpenAdmissions { all: open.0, booked: open.1, undecided: open.2 },
            decisions: Decisions { count: decided.0, took: decided.1, units: decided.2 },
            units_told: field("units_told")?,
            lapses: Lapses {
                from: field("lapse_from")?,
                to: field("lapse_cursor")?,
                admitted: field("lapse_admitted")?,
                stopped: field("epoch_cursor")?,
            },
            meter: parse_meter(&meter)?,
            figures: serde_json::from_str(&figures).ok(),
            left: left_news(&left, control.get("run").map_or("", String::as_str)),
            missed: news(&missed, |raw| raw.parse().ok()),
        };
        Ok((now_ms, Some(state)))
    }
}

fn left_news(list: &List, run: &str) -> News<Cohort> {
    news(list, |raw| Cohort::parse(raw.strip_prefix(run)?.strip_prefix(':')?))
}

fn news<T>((count, raw): &List, read: impl Fn(&str) -> Option<T>) -> News<T> {
    let items = raw.iter().filter_map(|raw| read(raw)).collect();
    News { count: *count, items, read: raw.len() as u64 }
}

fn opening(room: &Hash) -> Result<Option<Opening>, RedisFailure> {
    let Some(n) = room.get("n") else { return Ok(None) };
    let bytes = |name: &str| {
        let mut out = [0; 32];
        let raw = room.get(name).map(String::as_str).unwrap_or_default();
        hex::decode_to_slice(raw, &mut out).map_err(|_| garbled(format!("room.{name}")))?;
        Ok::<_, RedisFailure>(out)
    };
    let opened_at = room.get("opened_at_ms").ok_or_else(|| garbled("room.opened_at_ms"))?;
    Ok(Some(Opening {
        n: number(n)?,
        opened_at_ms: number(opened_at)?,
        seed: bytes("seed")?,
        key: bytes("key")?,
        signature: match room.get("signature").map(String::as_str) {
            None | Some("") => None,
            Some(raw) => Some(beacon::parse(raw).map_err(|_| garbled("room.signature"))?),
        },
    }))
}

fn parse_meter(raw: &Hash) -> Result<Meter, RedisFailure> {
    let field = |name: &str| raw.get(name).ok_or_else(|| garbled(format!("meter.{name}")));
    let anchors = field("anchors")?.split(';').map(|anchor| {
        let mut parts = anchor.split(',');
        let mut part = || parts.next().ok_or_else(|| garbled("an anchor"));
        let (from, at, rate) = (number(part()?)?, part()?, number(part()?)?);
        Ok(Anchor {
            from,
            instant_ms: (!at.is_empty()).then(|| number(at)).transpose()?,
            rate: Rate::per_second(rate).map_err(|_| garbled("an anchor's rate"))?,
        })
    });
    let anchors = anchors.collect::<Result<Vec<_>, RedisFailure>>()?;
    Ok(Meter::restored(number(field("next")?)?, number(field("burst")?)?, anchors))
}
