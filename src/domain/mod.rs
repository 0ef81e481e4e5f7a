//! The rules of the sale: pure, no async, no I/O; time and randomness come in as arguments.

pub mod admission;
pub mod control;
pub mod draw;
pub mod holes;
pub mod id;
pub mod left;
pub mod limits;
pub mod meter;
pub mod node;
pub mod pacer;
pub mod pass;
pub mod path;
pub mod pattern;
pub mod quantity;
pub mod queue;
pub mod rate;
pub mod reading;
pub mod recovery;
pub mod refusal;
pub mod renewal;
pub mod reservation;
pub mod sale;
pub mod standing;
pub mod status;
pub mod stock;
pub mod ticket;
