//! The room's steps in Redis, as far as the pace depends on them, on a clock of the simulation. The
//! meter is the domain's own; a journey holds the real steps to the same rules.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Range;

use crate::domain::demand::{Decisions, Demand};
use crate::domain::holes::Gaps;
use crate::domain::line::{Lapses, OpenAdmissions};
use crate::domain::meter::Meter;
use crate::domain::number::real;
use crate::domain::pacer::TICK_MS;
use crate::domain::presence::{Presence, SLICE_MS, SLICES};
use crate::domain::rate::Rate;

/// How long a number waits to be collected, as in the step.
pub(super) const COLLECT_MS: f64 = 2_000.0;
const GAP_MS_MAX: u64 = 1_000;
const DECISIONS_MAX: usize = 200;

/// What a claim got.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Claim {
    /// Signed at this slot.
    Admitted(f64),
    /// Its slot is ahead; nothing while nobody can be admitted.
    Wait(Option<f64>),
    NotCalled,
    Missed,
}

#[derive(Debug, Clone, Copy)]
struct Record {
    epoch: u64,
    windows: u8,
    since_ms: u64,
    number: Option<u64>,
    booked_ms: f64,
    slot: Option<f64>,
}

/// One room.
#[derive(Debug)]
pub(super) struct Store {
    pub(super) rate: Rate,
    pub(super) burst: u32,
    pub(super) paused: bool,
    pub(super) max_active: usize,
    pub(super) window_ms: u64,
    pub(super) token_ttl_ms: f64,
    pub(super) line: u64,
    /// Of them, those of the lobby.
    pub(super) drawn: u64,
    pub(super) cursor: u64,
    pub(super) meter: Meter,
    pub(super) claimed: u64,
    pub(super) gaps: Gaps,
    pub(super) loaded_ms: u64,
    /// Units that can be held; nothing if the sale does not look at its stock.
    pub(super) available: Option<u64>,
    /// Units in live holds.
    pub(super) held: u64,
    epoch: u64,
    epoch_sale_ms: u64,
    resumed_ms: f64,
    sale_ms: u64,
    sale_at: Option<u64>,
    tick: u64,
    claims: HashMap<u64, Record>,
    /// Open admissions and when they end; numbers that are booked; who has not decided.
    active: HashMap<u64, f64>,
    booked: HashMap<u64, f64>,
    undecided: HashMap<u64, f64>,
    decisions: VecDeque<u64>,
    /// Where the cursor went, in sale time.
    calls: Vec<(u64, u64)>,
    /// By the beginning of a slice: bytes, the highest bit first.
    heard: BTreeMap<u64, Vec<u8>>,
}

impl Store {
    pub(super) fn new(rate: Rate, burst: u32) -> Self {
        Self {
            rate,
            burst,
            paused: false,
            max_active: 0,
            window_ms: 120_000,
            token_ttl_ms: 600_000.0,
            line: 0,
            drawn: 0,
            cursor: 0,
            meter: Meter::new(rate, burst),
            claimed: 0,
            gaps: Gaps::default(),
            loaded_ms: super::world::OPENS_MS,
            available: None,
            held: 0,
            epoch: 1,
            epoch_sale_ms: 0,
            resumed_ms: 0.0,
            sale_ms: 0,
            sale_at: None,
            tick: 0,
            claims: HashMap::new(),
            active: HashMap::new(),
            booked: HashMap::new(),
            undecided: HashMap::new(),
            decisions: VecDeque::new(),
            calls: Vec::new(),
            heard: BTreeMap::new(),
        }
    }

    fn end_admissions(&mut self, now: f64) {
        self.active.retain(|_, ends| *ends >= now);
        self.booked.retain(|_, ends| *ends >= now);
        let before = self.undecided.len();
        self.undecided.retain(|_, ends| *ends >= now);
        (self.undecided.len()..before).for_each(|_| self.note(0));
    }

    fn note(&mut self, units: u64) {
        self.decisions.push_front(units);
        self.decisions.truncate(DECISIONS_MAX);
    }

    /// Calls the line on, once a tick; keeps sale time. Whether the cursor moved.
    pub(super) fn advance(&mut self, from: u64, to: u64, now_ms: u64) -> bool {
        let now = real(now_ms);
        self.end_admissions(now);
        let is_full = self.max_active > 0 && self.active.len() >= self.max_active;
        let moves = !self.paused && !is_full;
        if let Some(at) = self.sale_at.filter(|_| moves) {
            self.sale_ms += now_ms.saturating_sub(at).min(GAP_MS_MAX);
        }
        self.sale_at = Some(now_ms);
        let (to, tick) = (to.min(self.line), now_ms / TICK_MS);
        if !moves || from != self.cursor || to <= self.cursor || tick <= self.tick {
            return false;
        }
        (self.cursor, self.tick) = (to, tick);
        self.calls.push((to, self.sale_ms));
        true
    }

    fn called_at(&self, position: u64) -> u64 {
        let mark = self.calls.partition_point(|(to, _)| *to <= position);
        self.calls.get(mark).map_or(self.sale_ms, |(_, sale_ms)| *sale_ms)
    }

    /// Turns a called place into an admission, once per epoch, at its slot.
    pub(super) fn claim(&mut self, position: u64, now_ms: u64) -> Claim {
        let now = real(now_ms);
        if position >= self.cursor {
            return Claim::NotCalled;
        }
        let known = self.claims.get(&position).copied();
        let is_first = known.is_none_or(|record| record.epoch != self.epoch);
        let mut record = match known {
            Some(record) if !is_first => record,
            known => Record {
                epoch: self.epoch,
                windows: 1,
                since_ms: known.map_or_else(|| self.called_at(position), |_| self.epoch_sale_ms),
                number: None,
                booked_ms: 0.0,
                slot: None,
            },
        };
        if let Some(slot) = record.slot {
            return Claim::Admitted(slot);
        }
        self.end_admissions(now);
        let is_open = self.active.contains_key(&position);
        if self.paused || (self.max_active > 0 && !is_open && self.active.len() >= self.max_active)
        {
            return Claim::Wait(None);
        }
        if let Some(slot) = record.number.and_then(|number| self.meter.slot_ms(number)) {
            if slot > now {
                return Claim::Wait(Some(slot));
            } else if now <= slot.max(record.booked_ms).max(self.resumed_ms) + COLLECT_MS {
                return self.collect(position, record, slot, now);
            }
        }
        if self.sale_ms.saturating_sub(record.since_ms) > self.window_ms {
            if record.windows >= 2 {
                return Claim::Missed;
            }
            (record.windows, record.since_ms) = (2, self.sale_ms);
        }
        let number = self.meter.claim(now);
        (record.number, record.booked_ms) = (Some(number), now);
        self.claimed += u64::from(is_first);
        let slot = self.meter.slot_ms(number).unwrap_or(now);
        if slot <= now {
            return self.collect(position, record, slot, now);
        }
        self.active.insert(position, slot + COLLECT_MS);
        self.booked.insert(position, slot + COLLECT_MS);
        self.claims.insert(position, record);
        Claim::Wait(Some(slot))
    }

    fn collect(&mut self, position: u64, record: Record, slot: f64, now: f64) -> Claim {
        self.claims.insert(position, Record { slot: Some(slot), ..record });
        self.booked.remove(&position);
        let since = if now - slot <= COLLECT_MS { slot } else { now };
        self.active.insert(position, since + self.token_ttl_ms);
        self.undecided.insert(position, since + self.token_ttl_ms);
        Claim::Admitted(slot)
    }

    /// A hold of so many units, or a refusal for stock.
    pub(super) fn decided(&mut self, position: u64, units: u64) {
        if self.undecided.remove(&position).is_some() {
            self.note(units);
        }
    }

    /// The first confirm: the place in the checkout is free again.
    pub(super) fn paid(&mut self, position: u64) {
        self.active.remove(&position);
        self.booked.remove(&position);
        self.undecided.remove(&position);
    }

    pub(super) fn set_rate(&mut self, rate: Rate, now_ms: u64) {
        self.rate = rate;
        self.meter.set_rate(real(now_ms), rate, self.burst);
    }

    pub(super) fn pause(&mut self, now_ms: u64) {
        self.paused = true;
        self.meter.pause(real(now_ms));
    }

    pub(super) fn resume(&mut self, now_ms: u64) {
        self.paused = false;
        self.meter.resume(real(now_ms));
        self.resumed_ms = real(now_ms);
    }

    /// Pause, and every admission so far is void.
    pub(super) fn stop(&mut self, now_ms: u64) {
        self.epoch += 1;
        self.meter.void(real(now_ms));
        self.active.clear();
        self.booked.clear();
        self.undecided.clear();
        (self.claimed, self.epoch_sale_ms) = (0, self.sale_ms);
        self.pause(now_ms);
    }

    /// Everything but the line is lost: the cursor is at its ceiling, nothing has credit.
    pub(super) fn restored(&mut self, ceiling: u64, now_ms: u64) {
        self.cursor = ceiling.min(self.line);
        let mut meter = Meter::restored(0, self.burst, Vec::new());
        meter.set_rate(real(now_ms), self.rate, self.burst);
        self.meter = meter;
        self.calls = vec![(self.cursor, 0)];
        (self.claimed, self.sale_ms, self.epoch_sale_ms, self.sale_at) = (0, 0, 0, None);
        self.claims.clear();
        self.active.clear();
        self.booked.clear();
        self.undecided.clear();
        self.heard.clear();
        self.loaded_ms = now_ms;
    }

    /// Tells who was heard, and hears of all.
    pub(super) fn presence(
        &mut self,
        now_ms: u64,
        heard: impl Iterator<Item = u64>,
        judged: Range<u64>,
        to: u64,
    ) -> Presence {
        let slice = now_ms / SLICE_MS;
        self.heard.retain(|at, _| at + SLICES + 1 > slice);
        let bits = self.heard.entry(slice).or_default();
        for position in heard {
            let byte = index(position / 8);
            if bits.len() <= byte {
                bits.resize(byte + 1, 0);
            }
            bits[byte] |= 0x80 >> (position % 8);
        }
        let (first, past) = (index(judged.start / 8), index(to / 8 + 1));
        let within = |bits: &Vec<u8>| {
            let end = past.min(bits.len());
            bits.get(first.min(end)..end).unwrap_or_default().to_vec()
        };
        let of_late = self.heard.range(slice.saturating_sub(SLICES - 1)..=slice);
        let maps: Vec<_> = of_late.map(|(_, bits)| within(bits)).collect();
        Presence::new(judged.start / 8, &maps, judged.start..judged.end.min(to))
    }

    /// What is left to call for.
    pub(super) fn demand(&self) -> Option<Demand> {
        let took = self.decisions.iter().filter(|units| **units > 0).count();
        let decisions = Decisions {
            count: self.decisions.len() as u64,
            took: took as u64,
            units: self.decisions.iter().sum(),
        };
        let undecided = self.open().booked + self.open().undecided;
        self.available.map(|available| Demand { available, undecided, decisions })
    }

    /// How many more may be inside at once.
    pub(super) fn places(&self) -> Option<u64> {
        let left = self.max_active.saturating_sub(self.active.len());
        (self.max_active > 0).then_some(left as u64)
    }

    pub(super) fn open(&self) -> OpenAdmissions {
        OpenAdmissions {
            all: self.active.len() as u64,
            booked: self.booked.len() as u64,
            undecided: self.undecided.len() as u64,
        }
    }

    /// Who is in, in the order of the line.
    pub(super) fn open_positions(&self) -> Vec<u64> {
        let mut open: Vec<u64> = self.active.keys().copied().collect();
        open.sort_unstable();
        open
    }

    /// The calls whose first window is over.
    pub(super) fn lapses(&self) -> Lapses {
        let over = |(_, at): &&(u64, u64)| self.sale_ms.saturating_sub(*at) > self.window_ms;
        let to = self.calls.iter().take_while(over).map(|(to, _)| *to).last().unwrap_or(0);
        let admitted = |(at, record): &(&u64, &Record)| **at < to && record.slot.is_some();
        let admitted = self.claims.iter().filter(admitted).count();
        Lapses { from: 0, to, admitted: admitted as u64, stopped: 0 }
    }
}

pub(super) fn index(position: u64) -> usize {
    usize::try_from(position).unwrap_or(usize::MAX)
}
