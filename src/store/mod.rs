//! Adapters to the stores; each script and statement lies beside the code that runs it.

pub mod postgres;
pub mod redis;
