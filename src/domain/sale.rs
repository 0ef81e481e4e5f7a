//! A sale as it runs: its control record, and the phase that follows from it and the clock.

use serde::{Deserialize, Serialize};

use super::rate::Rate;

/// Where a sale stands. *Paused* and *sold out* are flags on an open sale, not phases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Announced; no joining.
    Upcoming,
    /// Joining is an entry to the draw.
    Lobby,
    /// The moments while n is made durable.
    Drawing,
    /// Positions are fixed; the line moves.
    Open,
    /// Over.
    Closed,
}

impl Phase {
    /// Its word in APIs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Upcoming => "upcoming",
            Self::Lobby => "lobby",
            Self::Drawing => "drawing",
            Self::Open => "open",
            Self::Closed => "closed",
        }
    }
}

/// What may change during a sale: one record, the truth in Postgres, a mirror in Redis.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Control {
    /// Raised by every change.
    pub version: u64,
    /// Who wrote it: `config@NODE`, `ops`.
    pub author: String,
    /// One drawing of the sale.
    pub run: u64,
    /// Raised by stop; voids admissions.
    pub epoch: u64,
    /// The line stands still.
    pub paused: bool,
    /// Admissions per second.
    pub rate: Rate,
    /// Admissions at once after an idle moment; at least 1.
    pub burst: u32,
    /// Cap on open admissions; 0 = none.
    pub max_active: u32,
    /// How long a called visitor may take to claim.
    pub claim_window_ms: u64,
    /// Unix milliseconds.
    pub lobby_opens_ms: u64,
    /// Unix milliseconds.
    pub opens_ms: u64,
    /// Unix milliseconds.
    pub closes_ms: u64,
    /// Everybody is let through until then; 0 = no bypass. Unix milliseconds.
    pub bypass_until_ms: u64,
}

impl Control {
    /// The phase at an instant of the room's clock. `frozen`: a room step saw the opening second;
    /// `drawn`: n is durable and known.
    pub fn phase(&self, now_ms: u64, frozen: bool, drawn: bool) -> Phase {
        if now_ms >= self.closes_ms {
            Phase::Closed
        } else if drawn {
            Phase::Open
        } else if frozen || now_ms >= self.opens_ms {
            Phase::Drawing
        } else if now_ms >= self.lobby_opens_ms {
            Phase::Lobby
        } else {
            Phase::Upcoming
        }
    }

    /// Two stores' records of one sale become one: the higher version, of equal versions the paused
    /// one, and always the highest epoch and run, so that no stop or reset is undone by a merge.
    #[must_use]
    pub fn merged(&self, other: &Self) -> Self {
        let newer = (other.version, other.paused) > (self.version, self.paused);
        let mut merged = if newer { other.clone() } else { self.clone() };
        merged.epoch = self.epoch.max(other.epoch);
        merged.run = self.run.max(other.run);
        merged
    }

    /// The same where both stores have changed at once: of equal versions with other words, the
    /// merged one gets the next version, so that both stores and all nodes come to agree on it.
    #[must_use]
    pub fn reconciled(&self, mirrored: &Self) -> Self {
        let mut merged = self.merged(mirrored);
        let (run, epoch) = (merged.run, merged.epoch);
        let alike = Self { run, epoch, ..mirrored.clone() };
        if self.version == mirrored.version && self.paused == mirrored.paused && merged != alike {
            merged.version += 1;
        }
        merged
    }

    /// Whether protected paths are gated at this instant: from the lobby to the close.
    pub fn gates(&self, now_ms: u64) -> bool {
        (self.lobby_opens_ms..self.closes_ms).contains(&now_ms)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn control() -> Control {
        Control {
            version: 1,
            author: "test".into(),
            run: 1,
            epoch: 1,
            paused: false,
            rate: Rate::per_second(10.0).unwrap(),
            burst: 1,
            max_active: 0,
            claim_window_ms: 120_000,
            lobby_opens_ms: 1_000,
            opens_ms: 2_000,
            closes_ms: 3_000,
            bypass_until_ms: 0,
        }
    }

    #[test]
    fn the_sale_is_drawing_from_the_opening_second_until_n_is_durable() {
        let control = control();
        assert_eq!(control.phase(999, false, false), Phase::Upcoming);
        assert_eq!(control.phase(1_000, false, false), Phase::Lobby);
        assert_eq!(control.phase(1_999, false, false), Phase::Lobby);
        assert_eq!(control.phase(1_999, true, false), Phase::Drawing);
        assert_eq!(control.phase(2_000, false, false), Phase::Drawing);
        assert_eq!(control.phase(2_500, true, true), Phase::Open);
        assert_eq!(control.phase(3_000, true, true), Phase::Closed);
    }

    #[test]
    fn merging_keeps_the_newer_record_a_pause_and_the_highest_epoch() {
        let old = Control { epoch: 7, ..control() };
        let newer = Control { version: 2, ..control() };
        assert_eq!(old.merged(&newer), Control { epoch: 7, ..newer.clone() });
        assert_eq!(newer.merged(&old), old.merged(&newer));

        let (slow, close) = (
            Control { rate: Rate::whole(1), ..control() },
            Control { closes_ms: 2_500, epoch: 2, ..control() },
        );
        let agreed = Control { version: 2, epoch: 2, ..slow.clone() };
        assert_eq!(slow.reconciled(&close), agreed);
        assert_eq!(agreed.reconciled(&close), agreed);
        assert_eq!(slow.reconciled(&slow), slow);

        let paused = Control { paused: true, ..control() };
        assert!(control().merged(&paused).paused && paused.merged(&control()).paused);
    }
}
