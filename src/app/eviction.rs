//! A Redis that evicts keys is refused at the start, and told of later: a server that was promoted
//! or reconfigured meanwhile is no reason to stop a running sale.

use std::time::Duration;

use prometheus_client::metrics::gauge::Gauge;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::serve::Parts;
use crate::store::redis::RedisStore;

const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Refuses to start on a Redis that may forget counters; one that is down is looked at later.
pub(super) async fn refuse(parts: &Parts) -> anyhow::Result<()> {
    match parts.redis.evicting().await {
        Ok(complaints) if complaints.is_empty() => {}
        Ok(complaints) => anyhow::bail!("redis.urls_env: {}", complaints.join("; ")),
        Err(error) => tracing::warn!(%error, "starting without Redis"),
    }
    let gauge = Gauge::default();
    parts.metrics.register(|registry| {
        let help = "Redis servers whose maxmemory-policy would forget counters; 0 is right";
        registry.register("redis_evicting_servers", help, gauge.clone());
    });
    let looking = keep_looking(parts.redis.clone(), gauge, parts.life.ending());
    parts.life.background("eviction watch", looking);
    Ok(())
}

async fn keep_looking(redis: RedisStore, gauge: Gauge, stop: CancellationToken) {
    let mut looks = tokio::time::interval(LOOK_EVERY);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut known = Vec::new();
    while stop.run_until_cancelled(looks.tick()).await.is_some() {
        // Who does not answer is told of elsewhere; what was last known stays.
        let Ok(complaints) = redis.evicting().await else { continue };
        gauge.set(i64::try_from(complaints.len()).unwrap_or(i64::MAX));
        if complaints != known {
            for complaint in &complaints {
                tracing::warn!("{complaint}");
            }
            known = complaints;
        }
    }
}
