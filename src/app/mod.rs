//! Composes a role from settings: which listeners and which background tasks a process has.

mod core;
mod eviction;
mod gateway;
mod inherited;
mod keys;
mod limits;
mod listeners;
mod migrate;
mod nodes;
mod probes;
mod reload;
mod secrets;
mod serve;
mod settle;
mod steer;

pub use migrate::migrate;
pub use secrets::{CORE_KEY_FILE, OPS_KEY_FILE, Secrets, Stores};
pub use serve::{Role, serve};
