//! Settings: one TOML file, validated whole before anything is bound.

pub mod defaults;
pub mod settings;
pub mod span;

pub use settings::Settings;
