//! Changing a sale's control record: what may change when, and what the record is then.
//!
//! `store/redis/room/control.lua` holds these same rules on Redis' clock; a test drives both side
//! by side.

use serde_json::{Map, Value, json};

use super::beacon;
use super::rate::Rate;
use super::refusal::{Problem, Refusal};
use super::sale::Control;
use super::status::rfc3339;

/// What to change; what is `None` or false stays as it is. What is as asked already is no change.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ControlChange {
    /// Pause or resume.
    pub paused: Option<bool>,
    /// Admissions per second.
    pub rate: Option<Rate>,
    /// Admissions at once after an idle moment.
    pub burst: Option<u32>,
    /// Cap on open admissions; 0 = none.
    pub max_active: Option<u32>,
    /// How long a called visitor may take to claim.
    pub claim_window_ms: Option<u64>,
    /// Unix milliseconds; not after the draw.
    pub lobby_opens_ms: Option<u64>,
    /// Unix milliseconds, ahead; not after the draw.
    pub opens_ms: Option<u64>,
    /// Unix milliseconds, ahead; not after the draw.
    pub closes_ms: Option<u64>,
    /// Ends the sale at the instant of the change, whatever `closes_ms` says.
    pub close: bool,
    /// Everybody is let through for so long from the change on; 0 ends a bypass.
    pub bypass_for_ms: Option<u64>,
    /// Raise the epoch: all admissions are void.
    pub next_epoch: bool,
    /// Raise run and epoch: all tickets are void as well, and there will be another draw.
    pub next_run: bool,
}

/// How far the clock of who closes a sale may be ahead of who judges that, in milliseconds.
const CLOCKS_MS: u64 = 2_000;

/// When a change is made.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    /// The room's clock, Unix milliseconds.
    pub now_ms: u64,
    /// Whether the entries of the record's run are closed.
    pub frozen: bool,
    /// The beacon round that the record's run has committed to; 0 = none.
    pub round: u64,
}

/// Why a change is not made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.row().3)]
pub enum ControlNo {
    /// The times cannot move any more.
    Drawn,
    /// No reset between opening and close.
    Running,
    /// The times would be out of order.
    LobbyAfterOpens,
    /// The times would be out of order.
    OpensAfterCloses,
    /// The opening would be in the past.
    OpensPassed,
    /// The close would be in the past.
    ClosesPassed,
    /// Who joins before the opening could know this round, which decides the draw.
    BeaconPassed(u64),
}

use ControlNo as No;

impl ControlNo {
    const ALL: [Self; 7] = [
        No::Drawn,
        No::Running,
        No::LobbyAfterOpens,
        No::OpensAfterCloses,
        No::OpensPassed,
        No::ClosesPassed,
        No::BeaconPassed(0),
    ];

    /// Its word in scripts, the field, the HTTP status, and the cure.
    fn row(self) -> (&'static str, &'static str, u16, &'static str) {
        match self {
            No::Drawn => (
                "drawn",
                "opens",
                409,
                "the draw has begun: the times cannot be moved any more; pause the sale, or close \
                 it and reset it",
            ),
            No::Running => (
                "running",
                "reset",
                409,
                "the sale is between its opening and its close; close it first",
            ),
            No::LobbyAfterOpens => (
                "lobby-after-opens",
                "lobby_opens",
                400,
                "must not be after opens: move one of them",
            ),
            No::OpensAfterCloses => {
                ("opens-after-closes", "closes", 400, "must be after opens: move closes as well")
            }
            No::OpensPassed => ("opens-passed", "opens", 400, "has passed; name a time ahead"),
            No::ClosesPassed => (
                "closes-passed",
                "closes",
                400,
                "has passed; name a time ahead, or close the sale to end it now",
            ),
            No::BeaconPassed(_) => (
                "beacon-passed",
                "opens",
                400,
                "must be 3 s before the beacon round that this run has committed to is published",
            ),
        }
    }

    /// The one that a script has named; a round stands behind its name.
    pub fn named(name: &str) -> Option<Self> {
        let (name, round) = name.split_once(' ').unwrap_or((name, ""));
        let no = Self::ALL.into_iter().find(|no| no.row().0 == name)?;
        match no {
            No::BeaconPassed(_) => round.parse().ok().map(No::BeaconPassed),
            other => Some(other),
        }
    }

    /// As an answer that names the field and the cure.
    pub fn refusal(self) -> Refusal {
        let (_, field, status, cure) = self.row();
        let detail = match self {
            No::BeaconPassed(round) => format!(
                "{field}: must be 3 s before {} at the latest: beacon round {round}, which this \
                 run has committed to, is published then; a reset with another beacon_round opens \
                 later",
                rfc3339(beacon::published_at_ms(round))
            ),
            _ => format!("{field}: {cure}"),
        };
        Refusal::new(Problem::BadRequest, detail).with("field", field).status(status)
    }
}

impl Control {
    /// The record after a change, nothing if nothing differs.
    pub fn changed(
        &self,
        change: &ControlChange,
        author: &str,
        at: Moment,
    ) -> Result<Option<Self>, ControlNo> {
        let keep = |asked: Option<u64>, is: u64| asked.unwrap_or(is);
        let mut next = Self {
            paused: change.paused.unwrap_or(self.paused),
            rate: change.rate.unwrap_or(self.rate),
            burst: change.burst.map_or(self.burst, |burst| burst.max(1)),
            max_active: change.max_active.unwrap_or(self.max_active),
            claim_window_ms: keep(change.claim_window_ms, self.claim_window_ms),
            lobby_opens_ms: keep(change.lobby_opens_ms, self.lobby_opens_ms),
            opens_ms: keep(change.opens_ms, self.opens_ms),
            closes_ms: keep(change.closes_ms, self.closes_ms),
            bypass_until_ms: match change.bypass_for_ms {
                None => self.bypass_until_ms,
                Some(0) => 0,
                Some(for_ms) => at.now_ms.saturating_add(for_ms),
            },
            run: self.run + u64::from(change.next_run),
            epoch: self.epoch + u64::from(change.next_epoch || change.next_run),
            ..self.clone()
        };
        if change.close {
            next.closes_ms = self.closes_ms.min(at.now_ms);
        } else if next.closes_ms != self.closes_ms && next.closes_ms <= at.now_ms {
            let opens_passed = next.opens_ms != self.opens_ms && next.opens_ms <= at.now_ms;
            return Err(if opens_passed { No::OpensPassed } else { No::ClosesPassed });
        }
        self.allows(&next, at)?;
        if next == *self {
            return Ok(None);
        }
        (next.version, next.author) = (self.version + 1, author.to_owned());
        Ok(Some(next))
    }

    /// Whether this record may be followed by that one. A close in the past ends the sale.
    pub fn allows(&self, next: &Self, at: Moment) -> Result<(), ControlNo> {
        let (now_ms, is_over) = (at.now_ms, at.now_ms >= self.closes_ms);
        let is_reset = next.run != self.run;
        let is_drawn = at.frozen || (now_ms >= self.opens_ms && !is_over);
        if is_reset && is_drawn && !is_over {
            return Err(No::Running);
        }
        let opens_moves = next.opens_ms != self.opens_ms;
        let lobby_moves = next.lobby_opens_ms != self.lobby_opens_ms;
        let closes_moves = next.closes_ms != self.closes_ms;
        let is_close = closes_moves && next.closes_ms <= now_ms + CLOCKS_MS && !is_over;
        if !is_reset && is_drawn && (opens_moves || lobby_moves || (closes_moves && !is_close)) {
            return Err(No::Drawn);
        }
        if is_close || !(opens_moves || lobby_moves || closes_moves) {
            return Ok(());
        }
        if next.lobby_opens_ms > next.opens_ms {
            Err(No::LobbyAfterOpens)
        } else if next.opens_ms >= next.closes_ms {
            Err(No::OpensAfterCloses)
        } else if opens_moves && next.opens_ms <= now_ms {
            Err(No::OpensPassed)
        } else if opens_moves
            && !is_reset
            && at.round > 0
            && beacon::is_too_early(at.round, next.opens_ms)
        {
            // Another run commits to another round.
            Err(No::BeaconPassed(at.round))
        } else {
            Ok(())
        }
    }

    /// What differs in the later record, field by field `{from, to}`; version and author go
    /// without saying.
    pub fn differences(&self, later: &Self) -> Map<String, Value> {
        let (Value::Object(from), Value::Object(to)) = (json!(self), json!(later)) else {
            return Map::new();
        };
        let said = |name: &str| !matches!(name, "version" | "author");
        to.into_iter()
            .filter(|(name, value)| said(name) && from.get(name) != Some(value))
            .map(|(name, value)| {
                let change = json!({ "from": from.get(&name), "to": value });
                (name, change)
            })
            .collect()
    }

    /// One word for what the later record did.
    pub fn action(&self, later: &Self) -> &'static str {
        let closes_early = later.closes_ms < self.closes_ms;
        match () {
            () if later.run != self.run => "reset",
            () if later.epoch != self.epoch => "stop",
            () if later.paused != self.paused => {
                if later.paused {
                    "pause"
                } else {
                    "resume"
                }
            }
            () if later.rate != self.rate || later.burst != self.burst => "rate",
            () if later.opens_ms != self.opens_ms => "times",
            () if later.lobby_opens_ms != self.lobby_opens_ms => "times",
            () if closes_early => "close",
            () if later.closes_ms != self.closes_ms => "times",
            () if later.bypass_until_ms != self.bypass_until_ms => "bypass",
            () => "settings",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::sale::tests::control;
    use super::*;

    const LOBBY: Moment = Moment { now_ms: 1_500, frozen: false, round: 0 };
    const OPEN: Moment = Moment { now_ms: 2_500, frozen: true, round: 0 };
    const OVER: Moment = Moment { now_ms: 3_500, frozen: true, round: 0 };

    fn opens(ms: u64) -> ControlChange {
        ControlChange { opens_ms: Some(ms), ..ControlChange::default() }
    }

    #[test]
    fn a_stop_is_a_pause_and_the_next_epoch_in_one_record() {
        let stop =
            ControlChange { paused: Some(true), next_epoch: true, ..ControlChange::default() };
        let stopped = control().changed(&stop, "ops", OPEN).unwrap().unwrap();
        assert!(stopped.paused);
        assert_eq!((stopped.version, stopped.epoch, stopped.run), (2, 2, 1));
        assert_eq!(control().action(&stopped), "stop");
        assert_eq!(
            json!(control().differences(&stopped)),
            json!({"paused": {"from": false, "to": true}, "epoch": {"from": 1, "to": 2}})
        );
        let same = ControlChange { rate: Some(control().rate), ..ControlChange::default() };
        assert_eq!(control().changed(&same, "ops", OPEN), Ok(None));
    }

    #[test]
    fn the_opening_moves_until_the_draw_and_never_after() {
        let delayed = control().changed(&opens(2_900), "ops", LOBBY).unwrap().unwrap();
        assert_eq!((delayed.opens_ms, control().action(&delayed)), (2_900, "times"));
        for at in [OPEN, OVER, Moment { now_ms: 2_000, frozen: false, round: 0 }] {
            assert_eq!(control().changed(&opens(2_900), "ops", at), Err(No::Drawn), "{at:?}");
        }
        assert_eq!(control().changed(&opens(2_000), "ops", OPEN), Ok(None), "as it is");
        assert_eq!(control().changed(&opens(1_400), "ops", LOBBY), Err(No::OpensPassed));
        assert_eq!(control().changed(&opens(900), "ops", LOBBY), Err(No::LobbyAfterOpens));
        assert_eq!(control().changed(&opens(3_000), "ops", LOBBY), Err(No::OpensAfterCloses));
    }

    #[test]
    fn the_opening_never_moves_past_its_beacon_and_a_reset_may() {
        let round = beacon::first_for(beacon::published_at_ms(1));
        let last = beacon::published_at_ms(round) - 3_000;
        let record =
            Control { lobby_opens_ms: 0, opens_ms: last - 9, closes_ms: last + 9_000, ..control() };
        let at = Moment { now_ms: last - 60_000, frozen: false, round };
        assert_eq!(record.changed(&opens(last + 1), "ops", at), Err(No::BeaconPassed(round)));
        assert!(record.changed(&opens(last), "ops", at).is_ok());
        let reset = ControlChange { next_run: true, ..opens(last + 1) };
        assert!(record.changed(&reset, "ops", at).is_ok(), "another run, another round");
        let said = No::BeaconPassed(round).refusal().detail;
        assert!(said.starts_with("opens: ") && said.contains(&format!("round {round},")), "{said}");
    }

    #[test]
    fn wr_68_a_reset_is_refused_between_opening_and_close() {
        let reset = ControlChange { next_run: true, ..ControlChange::default() };
        for at in [OPEN, Moment { now_ms: 2_000, frozen: false, round: 0 }] {
            assert_eq!(control().changed(&reset, "ops", at), Err(No::Running), "{at:?}");
        }
        for at in [LOBBY, OVER] {
            let next = control().changed(&reset, "ops", at).unwrap().unwrap();
            assert_eq!((next.run, next.epoch, next.version), (2, 2, 2));
            assert_eq!(control().action(&next), "reset");
        }
        let anew = ControlChange { opens_ms: Some(5_000), closes_ms: Some(6_000), ..reset };
        assert_eq!(control().changed(&anew, "ops", OVER).unwrap().unwrap().opens_ms, 5_000);
    }

    #[test]
    fn a_close_is_now_and_only_a_reset_opens_a_sale_again() {
        let close = ControlChange { close: true, ..ControlChange::default() };
        let closed = control().changed(&close, "ops", OPEN).unwrap().unwrap();
        assert_eq!((closed.closes_ms, control().action(&closed)), (2_500, "close"));
        assert_eq!(closed.changed(&close, "ops", OVER), Ok(None));

        let longer = ControlChange { closes_ms: Some(9_000), ..ControlChange::default() };
        assert_eq!(closed.changed(&longer, "ops", OVER), Err(No::Drawn));
        assert_eq!(control().changed(&longer, "ops", OPEN), Err(No::Drawn));
        assert_eq!(control().changed(&longer, "ops", LOBBY).unwrap().unwrap().closes_ms, 9_000);
        let past = ControlChange { closes_ms: Some(2_400), ..ControlChange::default() };
        assert_eq!(control().changed(&past, "ops", OPEN), Err(No::ClosesPassed));
    }

    #[test]
    fn every_no_is_known_by_its_name_and_names_field_and_cure() {
        for no in No::ALL {
            let word = match no {
                No::BeaconPassed(round) => format!("{} {round}", no.row().0),
                _ => no.row().0.to_owned(),
            };
            assert_eq!(No::named(&word), Some(no));
            let refusal = no.refusal();
            assert!(matches!(refusal.http_status(), 400 | 409));
            assert!(refusal.detail.starts_with(no.row().1), "{}", refusal.detail);
        }
    }
}
