//! The crowd: simulated shoppers over real HTTP. It drives and observes; `report` judges.

mod answers;
mod jar;
mod observations;
mod plan;
mod run;
mod shopper;
mod trespasser;
mod wire;
mod witness;

pub use observations::{
    AdmissionSeen, AheadSeen, Ending, Latencies, Observations, OrderAnswer, OrderSeen, ShopperSeen,
    Sighting, Trespass,
};
pub use plan::{CoreAccess, Mix, Plan, Role};
pub(crate) use run::proof;
pub use run::run;
pub(crate) use witness::takes;
pub use witness::{SkuSample, StockSample, Witness};
