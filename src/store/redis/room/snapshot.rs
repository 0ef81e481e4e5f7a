//! One look at the room.

use std::collections::HashMap;
use std::sync::LazyLock;

use redis::Script;

use super::super::RedisFailure;
use super::{Ceilings, Opening, RoomStore, garbled, instant_ms, number, record, script};
use crate::domain::beacon;
use crate::domain::holes::Holes;
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
    /// Open admissions.
    pub active: u64,
    /// The meter, for its lead.
    pub meter: Meter,
    /// The figures last written.
    pub figures: Option<Figures>,
    /// Places given up that were not known before.
    pub left: LeftNews,
}

/// Places given up, in the order of leaving.
#[derive(Debug, Clone, Default)]
pub struct LeftNews {
    /// All there are.
    pub count: u64,
    /// Those of the run among them that follow the known ones, a bounded number at a look.
    pub numbers: Vec<Cohort>,
    /// How many were read, those of other runs included.
    pub read: u64,
}

/// So many at a look.
const LEFT_MAX: usize = 500;

type Hash = HashMap<String, String>;
type Raw = (String, bool, Hash, Hash, Hash, String, u64, u64, Vec<String>);

impl RoomStore {
    /// Redis' clock (Unix milliseconds), and the room if it is loaded.
    pub async fn look(&self) -> Result<(u64, Option<RoomState>), RedisFailure> {
        self.look_at(0, 0).await
    }

    /// The same, with the places given up that follow the first `known` of them.
    pub async fn look_beyond(&self, known: u64) -> Result<(u64, Option<RoomState>), RedisFailure> {
        self.look_at(known, LEFT_MAX).await
    }

    async fn look_at(
        &self,
        left_known: u64,
        left_more: usize,
    ) -> Result<(u64, Option<RoomState>), RedisFailure> {
        let keys = &self.keys;
        let mut call = SNAPSHOT.prepare_invoke();
        call.key(keys.control()).key(keys.room()).key(keys.meter());
        call.key(keys.active()).key(keys.figures()).key(keys.left());
        call.arg(left_known).arg(left_more);
        let raw: Raw = self.store.run(&call).await?;
        let (now, is_loaded, control, room, meter, figures, active, left, numbers) = raw;
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
            active,
            meter: parse_meter(&meter)?,
            figures: serde_json::from_str(&figures).ok(),
            left: left_news(left, &numbers, control.get("run").map_or("", String::as_str)),
        };
        Ok((now_ms, Some(state)))
    }
}

fn left_news(count: u64, raw: &[String], run: &str) -> LeftNews {
    let of_run = |raw: &String| Cohort::parse(raw.strip_prefix(run)?.strip_prefix(':')?);
    LeftNews { count, numbers: raw.iter().filter_map(of_run).collect(), read: raw.len() as u64 }
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
