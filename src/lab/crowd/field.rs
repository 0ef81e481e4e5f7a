//! What all shoppers of a crowd share.

use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::kept::{Event, Upheaval};
use super::observations::Latencies;
use super::plan::Plan;
use super::wire::Step;
use crate::clock::{Clock, SystemClock};
use crate::lab::client::Client;

/// How many admissions the steering looks through.
const IN_HAND_MAX: usize = 6;
/// Of a payment while the sale is steered, so that there are holds to be paid at any time.
const PAYING_MAX: Duration = Duration::from_millis(1_500);

/// What all shoppers share.
pub(super) struct Field {
    pub(super) client: Client,
    pub(super) gateways: Vec<String>,
    pub(super) sale: String,
    pub(super) sku: String,
    pub(super) qty: u32,
    pub(super) latencies: Mutex<Latencies>,
    pub(super) reserving: AtomicU64,
    pub(super) reserving_peak: AtomicU64,
    /// What has been done to the sale so far.
    pub(super) upheavals: Mutex<Vec<Upheaval>>,
    /// Whether Redis is going to lose everything.
    pub(super) flush_planned: bool,
    /// How long a payment may take.
    pub(super) paying_max: Duration,
    /// Admissions in hand that the steering may look through.
    pub(super) in_hand: Mutex<Vec<String>>,
}

impl Field {
    pub(super) fn new(client: Client, plan: &Plan, sku: &str) -> Self {
        Self {
            client,
            gateways: plan.gateways.clone(),
            sale: plan.sale.clone(),
            sku: sku.to_owned(),
            qty: plan.qty,
            latencies: Mutex::default(),
            reserving: AtomicU64::new(0),
            reserving_peak: AtomicU64::new(0),
            upheavals: Mutex::default(),
            flush_planned: plan.flush.is_some(),
            paying_max: if plan.controls.is_some() { PAYING_MAX } else { Duration::ZERO },
            in_hand: Mutex::default(),
        }
    }

    /// What has been done to the sale so far.
    pub(super) fn upheavals(&self) -> Vec<Upheaval> {
        self.upheavals.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// It begins now.
    pub(super) fn upheaval_begins(&self, event: Event) {
        let begun = Upheaval { event, from_ms: SystemClock.now_ms(), over_ms: None };
        self.upheavals.lock().unwrap_or_else(PoisonError::into_inner).push(begun);
    }

    /// The last one of this kind is over now.
    pub(super) fn upheaval_ends(&self, event: Event) {
        let mut all = self.upheavals.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(last) = all.iter_mut().rfind(|upheaval| upheaval.event == event) {
            last.over_ms = Some(SystemClock.now_ms());
        }
    }

    /// Admissions shown to the steering.
    pub(super) fn in_hand(&self) -> Vec<String> {
        self.in_hand.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Shows an admission to the steering.
    pub(super) fn hand(&self, admission: String) {
        let mut in_hand = self.in_hand.lock().unwrap_or_else(PoisonError::into_inner);
        if in_hand.len() < IN_HAND_MAX {
            in_hand.push(admission);
        }
    }

    pub(super) fn note(&self, step: Step, micros: u64) {
        let mut all = self.latencies.lock().unwrap_or_else(PoisonError::into_inner);
        match step {
            Step::Join => all.join.saturating_record(micros),
            Step::Status => all.status.saturating_record(micros),
            Step::Claim => all.claim.saturating_record(micros),
            Step::Reserve => all.reserve.saturating_record(micros),
            Step::Other => {}
        }
    }
}
