//! The real `redis-server` and `postgres`, run by us: for a shop on one machine in a folder that
//! stays, for tests and the demo in a fresh private folder of the system's temp dir. They end with
//! their owner, however it ends.

mod binaries;
mod cluster;
mod durable;
mod folder;
mod identity;
mod pair;
mod postgres;
mod redis;
mod residents;
mod sentinel;
mod server;

pub use cluster::PrivateCluster;
pub use durable::DurableStores;
pub use pair::PrivateStores;
pub use postgres::PrivatePostgres;
pub use redis::PrivateRedis;
pub use sentinel::PrivateSentinel;
