//! Redis: the gate and the room, atomic steps in Lua.

mod cluster;
mod connection;
mod eviction;
pub mod gate;
pub mod gate_compare;
pub mod keys;
pub mod room;
mod sentinel;
mod topology;

pub use connection::{RedisFailure, RedisStore, connect, connect_as};
