//! The status body. Its half that is everybody's is written once for each look at the room and then
//! shared, by polls and by event streams; a poll waits for no other core.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use serde::Serialize;
use tokio::sync::watch;

use crate::domain::admission::Admission;
use crate::domain::id::SaleId;
use crate::domain::rate::Rate;
use crate::domain::sale::Phase;
use crate::domain::status::{Own, rfc3339};
use crate::domain::stock::{StockSum, Supply};
use crate::domain::ticket::Cohort;
use crate::room::{Moment, Room};

/// What one visitor's half takes, in bytes.
const OWN_BYTES: usize = 320;

/// What a sale's visitors are told.
pub(super) struct Told {
    room: Arc<Room>,
    half: ArcSwapOption<Half>,
    urgent: watch::Sender<Urgent>,
}

/// The status of one visitor at one moment.
pub(super) struct News {
    moment: Moment,
    pub(super) own: Own,
}

impl News {
    /// What of it is urgent.
    pub(super) fn urgent(&self) -> Urgent {
        Urgent::at(&self.moment)
    }
}

/// `{"sale":…,` as of one moment.
struct Half {
    moment: Moment,
    text: Vec<u8>,
}

/// What everybody is told at once when it changes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Urgent {
    phase: Phase,
    paused: bool,
    /// All held and gone are different news.
    supply: Option<Supply>,
    epoch: u64,
    rate: Rate,
    opens_ms: u64,
}

impl Told {
    /// Of a room.
    pub(super) fn new(room: Arc<Room>) -> Self {
        let urgent = watch::Sender::new(Urgent::at(&room.moment()));
        Self { room, half: ArcSwapOption::empty(), urgent }
    }

    /// The room.
    pub(super) fn room(&self) -> &Room {
        &self.room
    }

    /// Comes to everybody who follows when what is urgent has changed.
    pub(super) fn follow(&self) -> watch::Receiver<Urgent> {
        self.urgent.subscribe()
    }

    /// Looks whether it has.
    pub(super) fn look(&self) {
        let now = Urgent::at(&self.room.moment());
        self.urgent.send_if_modified(|told| std::mem::replace(told, now) != now);
    }

    /// What the visitor with a number is told now, not written yet.
    pub(super) fn to(&self, number: Option<Cohort>, admission: Option<&Admission>) -> News {
        let moment = self.room.moment();
        let own = self.room.own(&moment, number, admission);
        News { moment, own }
    }

    /// Appends the body.
    pub(super) fn write(&self, out: &mut Vec<u8>, news: News) {
        self.write_open(out, news);
        out.push(b'}');
    }

    /// The same without its last brace.
    pub(super) fn write_open(&self, out: &mut Vec<u8>, News { moment, own }: News) {
        let known = self.half.load();
        if let Some(half) = known.as_ref().filter(|half| half.moment.is_like(&moment)) {
            return append(out, &half.text, &own);
        }
        let half = Half { text: self.common(&moment), moment: moment.kept() };
        append(out, &half.text, &own);
        self.half.store(Some(Arc::new(half)));
    }

    fn common(&self, moment: &Moment) -> Vec<u8> {
        let control = moment.control();
        let common = Common {
            sale: self.room.sale(),
            phase: moment.phase(),
            paused: moment.is_paused(),
            sold_out: moment.is_sold_out(),
            run: control.run,
            epoch: control.epoch,
            rate: control.rate.get(),
            stock: moment.stock(),
            opens_at: rfc3339(control.opens_ms),
        };
        let mut text = serde_json::to_vec(&common).unwrap_or_default();
        text.pop();
        text.push(b',');
        text
    }
}

impl Urgent {
    fn at(moment: &Moment) -> Self {
        Self {
            phase: moment.phase(),
            paused: moment.is_paused(),
            supply: moment.stock().map(|stock| stock.supply()),
            epoch: moment.control().epoch,
            rate: moment.control().rate,
            opens_ms: moment.control().opens_ms,
        }
    }

    /// Whether the sale is over.
    pub(super) fn is_closed(&self) -> bool {
        self.phase == Phase::Closed
    }
}

/// The halves together are one object, but for its last brace.
fn append(out: &mut Vec<u8>, common: &[u8], own: &Own) {
    out.reserve(common.len() + OWN_BYTES);
    out.extend_from_slice(common);
    own.write(out);
}

/// The fields of the status that are everybody's.
#[derive(Serialize)]
struct Common<'a> {
    sale: &'a SaleId,
    phase: Phase,
    paused: bool,
    sold_out: bool,
    run: u64,
    epoch: u64,
    rate: f64,
    stock: Option<StockSum>,
    opens_at: String,
}
