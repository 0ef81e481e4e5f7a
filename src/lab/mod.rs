//! What runs and measures the system: private stores, the sample shop, the crowd and the demo.

mod assess;
mod behaviour;
pub mod cli;
pub mod client;
pub mod crowd;
mod demo;
pub mod report;
pub mod rig;
pub mod shop;
