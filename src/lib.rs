//! Stanchion: a waiting-room edge gateway for flash sales.
//!
//! A request enters by one door, walks forward through named rooms and leaves as one response;
//! nothing calls back. ARCHITECTURE.md has the map; `tests/tidy.rs` checks the arrows.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic"))]
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests spawn what ends with them"))]

pub mod app;
pub mod cli;
pub mod clock;
pub mod config;
pub mod domain;
pub mod gateway;
pub mod http;
pub mod keeper;
#[cfg(feature = "lab")]
pub mod lab;
pub mod lifecycle;
pub mod ops;
pub mod reservations;
pub mod room;
pub mod servers;
pub mod store;
pub mod telemetry;
