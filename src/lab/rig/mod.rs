//! A whole installation as child processes of one executable: cores and gateways on one Redis
//! and one Postgres, as the journeys and the demo run it.

mod config;
mod installation;
mod node;

pub use super::client::{Answer, Client, request};
pub(crate) use config::rfc3339;
pub use config::{ConfigFile, SalePlan};
pub use installation::{Installation, Layout, Secrets};
pub use node::{Bound, Node};
