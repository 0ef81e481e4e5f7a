//! The public edge: rooms, the way to the core, the way to the shop.

use tokio::net::TcpListener;

use super::probes;
use super::serve::Parts;
use crate::config::settings::Listener;
use crate::ops::health::Health;

/// Starts everything of the role.
pub(super) async fn start(
    parts: &Parts,
    _public: Vec<(TcpListener, Listener)>,
    core_url: &str,
    health: &mut Health,
) -> anyhow::Result<()> {
    let core = vec![core_url.to_owned()];
    health.add("core", false, move || probes::any_listens(core.clone()));
    let shop = parts.settings.shop.origins.clone();
    health.add("shop", false, move || probes::any_listens(shop.clone()));
    Ok(())
}
