//! The core's work: takes, payments, releases, sweeps, and the API in front of them.
//!
//! An order goes through [`reserve`]: the gate advises (Redis), the ledger decides (Postgres), and a
//! [`lane`] sends many orders for one stock row as one call.
//! [`sweep`] brings lapsed units back, [`reconcile`] keeps gate and ledger equal, and [`shelf`]
//! remembers what "sold out" is answered from without asking either.

pub mod api;
mod batcher;
mod compare;
mod confirming;
mod freeze;
mod gating;
mod import;
pub mod lane;
mod loading;
mod metrics;
mod news;
mod passes;
mod payment;
mod reconcile;
mod refuse;
mod reserve;
mod restock;
pub mod retention;
mod shards;
mod shelf;
mod signs;
mod state;
mod sweep;
mod unmarked;
pub mod webhook;

pub use import::{ImportAnswer, ImportChange, ImportOrder};
pub use metrics::ReservationMetrics;
pub use reconcile::{Action, Reconciled};
pub use reserve::{Order, Reserved};
pub use state::{ReadAdmission, Reservations, Terms};
pub use sweep::SweepReport;
