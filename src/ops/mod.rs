//! Health and metrics, in every role.

pub mod health;
mod routes;

pub use routes::router;
