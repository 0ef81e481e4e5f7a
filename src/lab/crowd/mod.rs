//! The crowd: simulated shoppers over real HTTP. It drives and observes; `report` judges.

mod answers;
mod buying;
mod detour;
mod device;
mod field;
mod flush;
mod jar;
mod kept;
mod noting;
mod observations;
mod plan;
mod probe;
mod run;
mod shopper;
mod steer;
mod steered;
mod trespasser;
mod wire;
mod witness;

pub use kept::{DeviceSeen, Event, KeptSeen, PlaceSeen, TicketSeen, Upheaval};
pub use observations::{
    AdmissionSeen, AheadSeen, Ending, Latencies, Observations, OrderAnswer, OrderSeen, ShopperSeen,
    Sighting, Trespass,
};
pub use plan::{Controls, CoreAccess, Detour, Flush, Mix, Plan, Role};
pub(crate) use run::proof;
pub use run::run;
pub use steered::{Act, NodeSeen, Steering, Step};
pub(crate) use witness::takes;
pub use witness::{SkuSample, StockSample, Witness};
