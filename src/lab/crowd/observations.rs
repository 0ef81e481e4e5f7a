//! What the crowd saw. Nothing in here is a judgement.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;

use super::kept::{DeviceSeen, KeptSeen, TicketSeen, Upheaval};
use super::plan::Role;
use super::steered::Steering;
use super::witness::Witness;
use crate::domain::draw::Proof;

/// Errors kept of one shopper.
const ERRORS_MAX: usize = 20;

/// All that a run saw from outside.
#[derive(Debug, Clone)]
pub struct Observations {
    /// The sale's id.
    pub sale: String,
    /// What was bought.
    pub sku: String,
    /// The shoppers, by number.
    pub shoppers: Vec<ShopperSeen>,
    /// What became of those who tried without an admission.
    pub trespasses: Vec<Trespass>,
    /// How long answers took.
    pub latencies: Latencies,
    /// The stock over time, and what the core had counted before.
    pub witness: Witness,
    /// The draw's proof as it was shown before anybody joined.
    pub draw_before: Option<Proof>,
    /// The rate that the sale told of last, per second.
    pub rate_told: Option<f64>,
    /// The most reservation requests under way at any moment.
    pub reserving_peak: u64,
    /// Why nobody could be signed in, though some were to be.
    pub no_accounts: Option<String>,
    /// Whether the run is not good unless accounts were checked.
    pub accounts_asked: bool,
    /// What was done to the sale in its middle.
    pub upheavals: Vec<Upheaval>,
    /// How the sale was steered; nothing if it was not to be.
    pub steering: Option<Steering>,
}

/// One shopper's story.
#[derive(Debug, Clone, Default)]
pub struct ShopperSeen {
    /// The behaviour played.
    pub role: Role,
    /// Whether the join was acknowledged before the sale opened.
    pub joined_in_lobby: bool,
    /// Whether a join was acknowledged at all.
    pub joined: bool,
    /// The ticket's subject.
    pub visitor: Option<String>,
    /// The number of the lobby join.
    pub entry: Option<u64>,
    /// The fixed number in line, each different one that was told.
    pub positions: Vec<u64>,
    /// `ahead`, whenever it changed.
    pub ahead: Vec<AheadSeen>,
    /// Admissions received.
    pub admissions: Vec<AdmissionSeen>,
    /// Orders placed.
    pub orders: Vec<OrderSeen>,
    /// The reservation that was paid for.
    pub paid: Option<String>,
    /// Every time "sold out" was told.
    pub sold_out: Vec<Sighting>,
    /// Other refusals, by problem.
    pub refusals: BTreeMap<String, u64>,
    /// Answers lost and answers of 5xx without a problem's name, the first of them.
    pub errors: Vec<String>,
    /// How many of those there were.
    pub errors_count: u64,
    /// How it ended.
    pub ending: Ending,
    /// The account at the shop.
    pub account: Option<String>,
    /// The tickets received, each different one.
    pub tickets: Vec<TicketSeen>,
    /// What the account's second device saw.
    pub second: Option<DeviceSeen>,
    /// What the place has survived.
    pub kept: Vec<KeptSeen>,
    /// Whether an admission was refused as void while it was needed.
    pub voided: bool,
}

/// `ahead` at an instant of the crowd's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AheadSeen {
    /// Unix milliseconds.
    pub at_ms: u64,
    /// How many were said to be ahead.
    pub ahead: u64,
    /// Which gateway said so, by number.
    pub gateway: usize,
}

/// How far apart two gateways may be in what they have seen of the line, in milliseconds: older
/// views of it count as out of reach.
const VIEWS_APART_MS: u64 = 2_000;

impl AheadSeen {
    /// Whether somebody who was told this before was told of more people ahead now.
    pub fn rose_to(&self, now: &Self) -> bool {
        let comparable = self.gateway == now.gateway || now.at_ms >= self.at_ms + VIEWS_APART_MS;
        comparable && now.ahead > self.ahead
    }
}

/// An admission as received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdmissionSeen {
    /// Its id.
    pub jti: String,
    /// Its slot of the meter, Unix milliseconds of Redis' clock.
    pub slot_ms: u64,
    /// The epoch it counts in.
    pub epoch: u64,
}

/// One order key and all answers to it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OrderSeen {
    /// The order key.
    pub key: String,
    /// In order of arrival.
    pub answers: Vec<OrderAnswer>,
}

/// One answer to a reservation request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OrderAnswer {
    /// HTTP status.
    pub status: u16,
    /// The problem's name, "" for none.
    pub problem: String,
    /// The reservation's id, if one was answered.
    pub reservation: Option<String>,
    /// Whether it was said to be a replay.
    pub replayed: bool,
}

/// "Sold out" as somebody read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sighting {
    /// When the question was sent, Unix milliseconds.
    pub sent_ms: u64,
    /// When the answer was there.
    pub received_ms: u64,
}

/// Somebody without an admission at a protected door.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trespass {
    /// What was tried.
    pub request: String,
    /// HTTP status of the answer.
    pub status: u16,
    /// `Stanchion-Answer`; "" means that the answer was not ours.
    pub answered_by: String,
}

/// How a shopper's visit ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Ending {
    /// Was still at it when the run ended.
    #[default]
    Unfinished,
    /// Joined and went away, as planned.
    NoShow,
    /// Paid.
    Bought,
    /// Let the hold lapse, as planned.
    Abandoned,
    /// Was told that nothing is left.
    SoldOut,
    /// The hold lapsed before the payment.
    Lapsed,
    /// Was refused for good.
    Refused,
    /// The sale closed.
    Closed,
}

impl Observations {
    /// All admissions of all devices.
    pub fn admissions(&self) -> impl Iterator<Item = &AdmissionSeen> {
        self.shoppers.iter().flat_map(ShopperSeen::all_admissions)
    }
}

impl ShopperSeen {
    /// The admissions of all devices.
    pub fn all_admissions(&self) -> impl Iterator<Item = &AdmissionSeen> {
        let second = self.second.iter().flat_map(|device| &device.admissions);
        self.admissions.iter().chain(second)
    }

    /// Keeps the first few errors and counts the rest.
    pub(super) fn error(&mut self, error: String) {
        self.errors_count += 1;
        if self.errors.len() < ERRORS_MAX {
            self.errors.push(error);
        }
    }

    /// Counts a refusal.
    pub(super) fn refused(&mut self, problem: &str) {
        *self.refusals.entry(problem.to_owned()).or_default() += 1;
    }
}

/// Milliseconds by step, in microseconds inside.
#[derive(Debug, Clone)]
pub struct Latencies {
    /// `POST …/join`.
    pub join: Histogram<u64>,
    /// `GET …/status`.
    pub status: Histogram<u64>,
    /// `POST …/claim`.
    pub claim: Histogram<u64>,
    /// `POST …/reservations`.
    pub reserve: Histogram<u64>,
}

impl Default for Latencies {
    fn default() -> Self {
        Self { join: empty(), status: empty(), claim: empty(), reserve: empty() }
    }
}

/// One microsecond to two minutes, to three digits.
fn empty() -> Histogram<u64> {
    #[expect(clippy::expect_used, reason = "constants that the histogram accepts")]
    Histogram::new_with_bounds(1, 120_000_000, 3).expect("constants that the histogram accepts")
}
