//! Composes a role from settings: which listeners and which background tasks a process has.

mod core;
mod gateway;
mod limits;
mod listeners;
mod probes;
mod reload;
mod serve;
mod settle;

pub use serve::{Role, serve};
