//! Forgetting who bought what, some time after each sale.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::config::settings::Sale;
use crate::store::postgres::{Database, DatabaseError};

/// Between two rounds at most; a shorter retention is looked after more often.
const ROUND_MAX: Duration = Duration::from_hours(1);
const ROUND_MIN: Duration = Duration::from_secs(1);

/// Remembers how long names are kept, and forgets them in time, until `stop`.
pub async fn keep_forgetting(database: Database, sales: Vec<Sale>, stop: CancellationToken) {
    let shortest = sales.iter().map(|sale| sale.retention.duration()).min();
    let every = shortest.map_or(ROUND_MAX, |keep| (keep / 4).clamp(ROUND_MIN, ROUND_MAX));
    let mut grid = tokio::time::interval(every);
    grid.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    while stop.run_until_cancelled(grid.tick()).await.is_some() {
        if let Err(error) = round(&database, &sales).await {
            tracing::warn!(%error, "forgetting will be tried again");
        }
    }
}

async fn round(database: &Database, sales: &[Sale]) -> Result<(), DatabaseError> {
    for sale in sales {
        database.keep_names(&sale.id, sale.retention.ms()).await?;
    }
    for sale in database.forgettable().await? {
        let forgotten = database.forget_names(&sale).await?;
        if forgotten > 0 {
            tracing::info!(%sale, forgotten, "names of buyers are forgotten");
        }
    }
    Ok(())
}
