//! The ledger's store: pool, migrations, and the statements beside the code that runs them.

mod database;
mod migrate;

pub use database::{Client, Database, DatabaseError, Options};
