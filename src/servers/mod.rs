//! The real `redis-server` and `postgres` for tests and the demo: on free loopback ports, in a
//! fresh private folder of the system's temp dir, gone when their owner is, however it ends.

mod binaries;
mod folder;
mod identity;
mod pair;
mod postgres;
mod redis;
mod server;

pub use pair::PrivateStores;
pub use postgres::PrivatePostgres;
pub use redis::PrivateRedis;
