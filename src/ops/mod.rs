//! Health, metrics and the operators' API, in every role.

mod answer;
mod ask;
mod asked;
mod auth;
pub mod health;
mod page;
mod passes;
pub mod pulse;
mod roster;
mod routes;
mod sales;

pub use ask::{Answer, Asker, Refused, ask};
pub use auth::OpsKey;
pub use page::{Dash, DashParts};
pub use roster::Roster;
pub use routes::{Ops, router};
