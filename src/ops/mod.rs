//! Health and metrics, in every role.

mod ask;
pub mod health;
mod routes;

pub use ask::{Answer, ask};
pub use routes::router;
