//! What a run of the simulation is made of: people, nodes, and what happens to them.

use crate::domain::rate::Rate;

/// One run.
#[derive(Debug, Clone)]
pub(super) struct Scenario {
    pub(super) name: String,
    pub(super) rate: Rate,
    pub(super) burst: u32,
    /// How long it is watched from the opening on.
    pub(super) seconds: u64,
    /// How long after the opening the draw is made: its beacon is late.
    pub(super) draw_ms: u64,
    /// Places given before the opening.
    pub(super) people: u64,
    pub(super) crowd: Crowd,
    pub(super) nodes: usize,
    pub(super) max_active: usize,
    pub(super) window_ms: u64,
    pub(super) stock: Option<Stock>,
    /// In order of time, milliseconds from the opening.
    pub(super) changes: Vec<(u64, Change)>,
}

/// Who the people are, as shares of all.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Crowd {
    /// Gone before the opening.
    pub(super) away: f64,
    /// The first so many of the line are gone before the opening, whatever the share.
    pub(super) gone_in_front: u64,
    pub(super) mute: f64,
    pub(super) hidden: f64,
    /// Nobody keeps a stream open, and all ask for the first time so long after the opening.
    pub(super) asks_first_ms: Option<(u64, u64)>,
}

/// What is on sale, and what becomes of those who are let in.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stock {
    pub(super) units: u64,
    /// Of those who are in, how many take one.
    pub(super) buy: f64,
    /// Of the holds, how many lapse.
    pub(super) abandon: f64,
    pub(super) order_ms: (u64, u64),
    pub(super) pay_ms: (u64, u64),
    pub(super) hold_ms: u64,
}

/// What happens in mid-sale.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Change {
    /// From now on so many of those still to be called are away: tabs close, or open again.
    Away(f64),
    /// The same for everybody who is not in yet, those called long ago among them.
    AllAway(f64),
    /// So many latecomers at once.
    Join(u64),
    Rate(Rate),
    Pause,
    Resume,
    Stop,
    /// Node, for so long.
    Restart(usize, u64),
    Sleep(usize, u64),
    /// Node, by how much.
    ClockStep(usize, i64),
    /// Redis is away for so long and comes back as an older copy.
    StoreLoss(u64),
    /// So many who are in have paid.
    Confirm(u64),
}

impl Scenario {
    /// Three nodes, and a line as long as the rate can call in the time and then some.
    pub(super) fn new(name: impl Into<String>, rate: f64, seconds: u64) -> Self {
        #[expect(clippy::expect_used, reason = "scenarios are constants")]
        let rate = Rate::per_second(rate).expect("a rate of the simulation's own");
        Self {
            name: name.into(),
            rate,
            burst: 1,
            seconds,
            draw_ms: 0,
            people: people_for(rate, seconds, 0.0),
            crowd: Crowd::default(),
            nodes: 3,
            max_active: 0,
            window_ms: 120_000,
            stock: None,
            changes: Vec::new(),
        }
    }

    /// With so many away from the beginning.
    pub(super) fn away(mut self, share: f64) -> Self {
        self.crowd.away = share;
        self.people = people_for(self.rate, self.seconds, share);
        self
    }

    /// With a line long enough for so many to be away.
    pub(super) fn long_enough_for(mut self, share: f64) -> Self {
        self.people = self.people.max(people_for(self.rate, self.seconds, share));
        self
    }

    pub(super) fn at(mut self, second: u64, change: Change) -> Self {
        self.changes.push((second * 1_000, change));
        self
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a line that fits into memory"
)]
fn people_for(rate: Rate, seconds: u64, away: f64) -> u64 {
    ((rate.get() * (seconds + 20) as f64 / (1.0 - away).max(0.02)).ceil() as u64).max(20)
}
