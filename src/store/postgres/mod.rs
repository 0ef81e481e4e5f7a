//! The ledger's store: pool, migrations, and the statements beside the code that runs them.

mod audit;
mod control;
mod database;
mod events;
mod journal;
mod ledger;
mod life;
mod markers;
mod migrate;
mod passes;
mod read;
mod retention;
mod room;
mod signs;
mod stock;
mod take;
mod take_batch;
mod trail;
mod webhook;

pub use audit::Finding;
pub use database::{Client, Database, DatabaseError, Mishap, Options};
pub use events::{Event, EventCursor, EventPage};
pub use journal::PlaceRecord;
pub use ledger::{Ledger, Push};
pub use life::{Cancelled, Confirmed, Extended, Released, Settled, Swept, Which};
pub use markers::{GateTruth, MARKERS_PAGE, Marker, STANDSTILL_MAX, Still, TURN_MAX};
pub use passes::PassRecord;
pub use read::{Change, Page, Search, View};
pub use room::{DrawRecord, OpeningRecord};
pub use signs::Signs;
pub use stock::{Loaded, SkuLoad, Stock, StockChange};
pub use take::{NoUnits, Take, Taken};
pub use take_batch::{BATCH_MAX, TakenBatch};
pub use trail::{TrailEntry, TrailPage, Trailed};
