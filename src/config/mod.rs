//! Settings: one TOML file, validated whole before anything is bound.

mod advice;
mod clients;
mod crossed;
mod cure;
pub mod defaults;
mod document;
pub mod keys;
pub mod load;
pub mod problem;
#[cfg(test)]
mod property;
mod proxies;
pub mod reload;
mod rules;
mod sales;
pub mod secret;
pub mod settings;
mod shape;
pub mod span;
mod suggest;
mod validate;

pub use problem::{Problem, Refused};
pub use settings::Settings;
