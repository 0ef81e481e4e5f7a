//! Receivers of events: who delivers, and how far each has come.

use std::time::Duration;

use uuid::Uuid;

use super::database::{Database, DatabaseError};
use super::events::EventCursor;

const KNOW: &str = "INSERT INTO webhook (url) VALUES ($1) ON CONFLICT DO NOTHING";
const LEASE: &str = "
    UPDATE webhook SET holder = $2, leased_until = clock_timestamp() + $3::bigint * interval '1 ms'
    WHERE url = $1 AND (holder IS NULL OR holder = $2 OR leased_until < clock_timestamp())
    RETURNING cursor";
const ADVANCE: &str = "UPDATE webhook SET cursor = $3 WHERE url = $1 AND holder = $2";

impl Database {
    /// Makes this deliverer the only one for a while; where the receiver stands, or `None` if
    /// another one is at it.
    pub async fn lease_webhook(
        &self,
        url: &str,
        holder: Uuid,
        lease: Duration,
    ) -> Result<Option<EventCursor>, DatabaseError> {
        let client = self.client().await?;
        let statement = client.prepare_cached(LEASE).await?;
        let ms = i64::try_from(lease.as_millis()).unwrap_or(i64::MAX);
        if let Some(row) = client.query_opt(&statement, &[&url, &holder, &ms]).await? {
            let cursor: String = row.try_get(0)?;
            let read = EventCursor::parse(&cursor);
            return read.map(Some).ok_or(DatabaseError::Garbled(format!("cursor {cursor}")));
        }
        // A receiver that is new begins with the first event; the next call leases it.
        client.execute(KNOW, &[&url]).await?;
        Ok(None)
    }

    /// The receiver has this event; false if another deliverer took over.
    pub async fn advance_webhook(
        &self,
        url: &str,
        holder: Uuid,
        cursor: EventCursor,
    ) -> Result<bool, DatabaseError> {
        let client = self.client().await?;
        let statement = client.prepare_cached(ADVANCE).await?;
        let moved = client.execute(&statement, &[&url, &holder, &cursor.to_string()]).await?;
        Ok(moved == 1)
    }
}
