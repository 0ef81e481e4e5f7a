//! The meter: claims are numbered, not timed, and a number's slot follows from an anchor.
//!
//! `store/redis/room/meter.lua` holds these same rules on Redis' clock; a test drives both side by side.
//! Instants are milliseconds, fractions kept, since at 3,000/s two slots share one.

use super::rate::Rate;

/// How many superseded anchors are remembered; a number older than all of them books anew.
pub const ANCHORS_MAX: usize = 16;

/// From a number on, slots are `instant + (number - from) / rate`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Anchor {
    /// The first number that this anchor governs.
    pub from: u64,
    /// Its slot; nothing while paused.
    pub instant_ms: Option<f64>,
    /// Slots per second from here on.
    pub rate: Rate,
}

impl Anchor {
    fn slot_ms(&self, number: u64) -> Option<f64> {
        self.instant_ms.map(|at| at + steps(self.from, number) * self.rate.interval_ms())
    }
}

#[expect(clippy::cast_precision_loss, reason = "numbers of one sale stay far below 2^53")]
fn steps(from: u64, to: u64) -> f64 {
    to.saturating_sub(from) as f64
}

/// Hands out numbers, each with one slot, never more than rate × t + burst of them in any t.
#[derive(Debug, Clone, PartialEq)]
pub struct Meter {
    next: u64,
    burst: u32,
    anchors: Vec<Anchor>,
}

impl Meter {
    /// A meter without credit: the first slot is the instant of the first claim.
    pub fn new(rate: Rate, burst: u32) -> Self {
        let first = Anchor { from: 0, instant_ms: Some(0.0), rate };
        Self { next: 0, burst: burst.max(1), anchors: vec![first] }
    }

    /// A meter as it was kept elsewhere; `anchors` oldest first.
    pub fn restored(next: u64, burst: u32, anchors: Vec<Anchor>) -> Self {
        Self { next, burst, anchors }
    }

    /// The number that the next claim gets.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// The slot of a number as things stand; nothing while paused, or when its anchor is forgotten.
    pub fn slot_ms(&self, number: u64) -> Option<f64> {
        self.anchors.iter().rev().find(|anchor| anchor.from <= number)?.slot_ms(number)
    }

    /// How far the booked slots reach ahead of `now_ms`; 0 for an idle line.
    pub fn lead_ms(&self, now_ms: f64) -> f64 {
        self.slot_ms(self.next).map_or(0.0, |slot| (slot - now_ms).max(0.0))
    }

    /// Takes the next number. An idle line has saved up nothing: a slot earlier than
    /// `now - (burst - 1) / rate` moves there.
    pub fn claim(&mut self, now_ms: f64) -> u64 {
        let number = self.next;
        if let Some(last) = self.anchors.last().copied()
            && let Some(slot) = last.slot_ms(number)
        {
            let earliest = now_ms - f64::from(self.burst - 1) * last.rate.interval_ms();
            if slot < earliest {
                self.push(Anchor { from: number, instant_ms: Some(earliest), ..last });
            }
        }
        self.next += 1;
        number
    }

    /// A new rate acts on the first number not yet due, at `now + 1 / rate`.
    pub fn set_rate(&mut self, now_ms: f64, rate: Rate, burst: u32) {
        self.burst = burst.max(1);
        let paused = self.anchors.last().is_some_and(|anchor| anchor.instant_ms.is_none());
        let instant_ms = (!paused).then(|| now_ms + rate.interval_ms());
        self.push(Anchor { from: self.first_not_due(now_ms), instant_ms, rate });
    }

    /// Numbers not yet due are handed out anew: the claims that had booked them are void.
    pub fn void(&mut self, now_ms: f64) {
        self.next = self.next.min(self.first_not_due(now_ms));
    }

    /// From the first number not yet due on nothing has a slot.
    pub fn pause(&mut self, now_ms: f64) {
        if let Some(last) = self.anchors.last().copied() {
            self.push(Anchor { from: self.first_not_due(now_ms), instant_ms: None, ..last });
        }
    }

    /// The first number held back by the pause gets `now + 1 / rate`.
    pub fn resume(&mut self, now_ms: f64) {
        if let Some(last) = self.anchors.last_mut()
            && last.instant_ms.is_none()
        {
            last.instant_ms = Some(now_ms + last.rate.interval_ms());
        }
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "clamped to the numbers handed out before the cast"
    )]
    fn first_not_due(&self, now_ms: f64) -> u64 {
        let Some(last) = self.anchors.last() else { return self.next };
        let Some(instant) = last.instant_ms else { return last.from };
        if instant > now_ms {
            return last.from.min(self.next);
        }
        let due = ((now_ms - instant) / last.rate.interval_ms()).floor() + 1.0;
        let ahead = self.next.saturating_sub(last.from);
        let due = if due >= steps(0, ahead) { ahead } else { due as u64 };
        last.from + due
    }

    /// An anchor for the same first number replaces the old one, which governs nothing any more.
    fn push(&mut self, anchor: Anchor) {
        self.anchors.retain(|old| old.from < anchor.from);
        self.anchors.push(anchor);
        let surplus = self.anchors.len().saturating_sub(ANCHORS_MAX);
        self.anchors.drain(..surplus);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rate(per_second: f64) -> Rate {
        Rate::per_second(per_second).unwrap()
    }

    #[test]
    fn wr_12_an_idle_line_saves_up_no_credit() {
        let mut meter = Meter::new(rate(10.0), 1);
        let later = 600_000.0;
        let slots: Vec<_> = (0..30)
            .map(|_| {
                let number = meter.claim(later);
                meter.slot_ms(number).unwrap()
            })
            .collect();
        assert!((slots[0] - later).abs() < 1e-6);
        assert!((slots[10] - later - 1000.0).abs() < 1e-6);
    }

    #[test]
    fn a_slower_rate_acts_on_the_next_slot_not_on_the_two_seconds_booked() {
        let mut meter = Meter::new(rate(200.0), 1);
        (0..400).for_each(|_| {
            meter.claim(1000.0);
        });
        meter.set_rate(1500.0, rate(1.0), 1);

        assert!(meter.slot_ms(100).unwrap() <= 1500.0);
        assert!((meter.slot_ms(101).unwrap() - 2500.0).abs() < 1e-6);
        assert!((meter.slot_ms(102).unwrap() - 3500.0).abs() < 1e-6);
    }

    #[test]
    fn nothing_has_a_slot_between_pause_and_resume_and_order_is_kept() {
        let mut meter = Meter::new(rate(10.0), 1);
        (0..5).for_each(|_| {
            meter.claim(0.0);
        });
        meter.pause(150.0);
        assert_eq!(meter.slot_ms(2), None);
        assert!(meter.slot_ms(1).is_some());

        meter.resume(9_000.0);
        assert!((meter.slot_ms(2).unwrap() - 9_100.0).abs() < 1e-6);
        assert!((meter.slot_ms(4).unwrap() - 9_300.0).abs() < 1e-6);
    }

    #[derive(Debug, Clone)]
    enum Step {
        Wait(u32),
        Claim(u8),
        Rate(f64, u32),
        Void,
        Pause,
        Resume,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => (0u32..3_000).prop_map(Step::Wait),
            4 => (1u8..40).prop_map(Step::Claim),
            1 => ((0.2f64..300.0), 1u32..6).prop_map(|(r, b)| Step::Rate(r, b)),
            1 => Just(Step::Void),
            1 => Just(Step::Pause),
            1 => Just(Step::Resume),
        ]
    }

    /// What a run of steps admits: (number, slot), (from when, rate), and the largest burst.
    type Admitted = (Vec<(u64, f64)>, Vec<(f64, f64)>, u32);

    /// Each number is signed at its slot, read while it is due.
    fn admitted(steps: &[Step]) -> Admitted {
        let (mut now, mut burst_max) = (1_000.0, 3);
        let mut meter = Meter::new(rate(20.0), 3);
        let mut rates = vec![(now, 20.0)];
        let mut due: Vec<(u64, f64)> = Vec::new();
        let (mut collected, mut open) = (0, true);
        for step in steps {
            match step {
                Step::Wait(ms) => {
                    now += f64::from(*ms);
                }
                Step::Claim(count) => (0..*count).for_each(|_| {
                    meter.claim(now);
                }),
                Step::Rate(r, b) => {
                    collect(&meter, &mut collected, now, &mut due);
                    meter.set_rate(now, rate(*r), *b);
                    burst_max = burst_max.max(*b);
                    rates.push((now, *r));
                }
                Step::Void => {
                    collect(&meter, &mut collected, now, &mut due);
                    meter.void(now);
                }
                Step::Pause if open => {
                    collect(&meter, &mut collected, now, &mut due);
                    meter.pause(now);
                    open = false;
                }
                Step::Resume if !open => {
                    meter.resume(now);
                    open = true;
                }
                Step::Pause | Step::Resume => {}
            }
            collect(&meter, &mut collected, now, &mut due);
        }
        (due, rates, burst_max)
    }

    fn collect(meter: &Meter, collected: &mut u64, now: f64, due: &mut Vec<(u64, f64)>) {
        while *collected < meter.next() {
            match meter.slot_ms(*collected) {
                Some(slot) if slot <= now => due.push((*collected, slot)),
                _ => return,
            }
            *collected += 1;
        }
    }

    /// The integral of the rate over a window, the higher rate counted where a change falls in it.
    fn allowance(rates: &[(f64, f64)], from: f64, to: f64) -> f64 {
        let ends = rates.iter().skip(1).map(|(at, _)| *at).chain([f64::INFINITY]);
        rates
            .iter()
            .zip(ends)
            .map(|((start, rate), end)| (to.min(end) - from.max(*start)).max(0.0) * rate / 1000.0)
            .sum()
    }

    proptest! {
        #[test]
        fn slots_never_exceed_rate_times_t_plus_burst_and_keep_order(
            steps in proptest::collection::vec(step(), 1..60)
        ) {
            let (due, rates, burst) = admitted(&steps);
            for pair in due.windows(2) {
                prop_assert!(pair[0].1 <= pair[1].1 + 1e-6, "order: {pair:?}");
            }
            for (i, (_, from)) in due.iter().enumerate() {
                for (count, (_, to)) in (1u32..).zip(&due[i..]) {
                    let allowed = allowance(&rates, *from, *to) + f64::from(burst);
                    prop_assert!(
                        f64::from(count) <= allowed + 1e-6,
                        "{count} slots in [{from}, {to}], allowed {allowed}"
                    );
                }
            }
        }
    }
}
