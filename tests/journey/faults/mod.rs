//! Links cut and frozen, processes and stores killed, and everything at random: what was acknowledged
//! is there, and the six invariants hold. Cases by their ids.

mod killed;
mod links;
mod random;
mod stores;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use stanchion::domain::refusal::{Problem, Refusal};
use stanchion::lab::fault_proxy::FaultProxy;
use stanchion::reservations::Reserved;

use crate::fixture::core::Core;

/// How long anything may take before it counts as stuck.
const PATIENCE: Duration = Duration::from_secs(30);

/// Where the server of this URL listens.
pub(crate) fn addr_of(url: &str) -> SocketAddr {
    let authority = url.split('/').nth(2).unwrap().rsplit('@').next().unwrap();
    authority.parse().unwrap()
}

/// A link to the server of this URL.
pub(crate) async fn link_to(url: &str) -> FaultProxy {
    FaultProxy::to(addr_of(url)).await.unwrap()
}

/// Whether an answer says no more than "try again with the same key".
fn is_try_again(refusal: &Refusal) -> bool {
    let again = matches!(refusal.problem, Problem::CoreUnavailable | Problem::Overloaded);
    again && refusal.retry_after_ms.is_some()
}

/// Orders as a patient client does: the same key until there is an answer.
async fn insist(house: &Core, key: &str, lines: &[(&str, i64)]) -> Reserved {
    let since = Instant::now();
    loop {
        match house.reserve_lines("bob", key, lines).await {
            Ok(reserved) => return reserved,
            Err(refusal) => assert!(is_try_again(&refusal), "{key}: {refusal:?}"),
        }
        assert!(since.elapsed() < PATIENCE, "{key} is never answered");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
