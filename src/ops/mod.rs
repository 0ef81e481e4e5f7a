//! Health, metrics and the operators' API, in every role.

mod answer;
mod ask;
mod asked;
mod auth;
pub mod health;
mod routes;
mod sales;

pub use ask::{Answer, Asker, Refused, ask};
pub use auth::{AUTHOR, OpsKey};
pub use routes::{Ops, router};
