//! What runs and measures the system: private stores, the sample shop, the crowd, the demo, the
//! comparison and the simulation.

mod assess;
mod behaviour;
pub mod cli;
pub mod client;
mod compare;
pub mod crowd;
mod demo;
pub mod fault_proxy;
pub mod report;
pub mod rig;
pub mod shop;
mod simulation;
