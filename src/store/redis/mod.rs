//! Redis: the gate and the room, atomic steps in Lua.

mod connection;
pub mod gate;
pub mod gate_compare;
pub mod keys;
pub mod room;

pub use connection::{RedisFailure, RedisStore, connect};
