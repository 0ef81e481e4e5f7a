//! Signs of trouble that the ledger shows without being wrong: somebody should look.

use uuid::Uuid;

use super::database::DatabaseError;
use super::ledger::{Ledger, column, columns, count};
use super::life::Which;

/// Versions of rows that an open snapshot may still want to see are not cleaned away, so a long
/// transaction makes every take slower: the hot row's dead versions pile up.
const SIGNS: &str = "
    SELECT (SELECT coalesce(max(extract(epoch FROM clock_timestamp() - s.since)), 0)::float8
            FROM (SELECT xact_start AS since FROM pg_stat_activity
                  WHERE datname = current_database() AND backend_xmin IS NOT NULL
                    AND pid <> pg_backend_pid()
                  UNION ALL
                  SELECT prepared FROM pg_prepared_xacts
                  WHERE database = current_database()) s) AS oldest_snapshot_s,
           (SELECT count(*) FROM reservation r
            WHERE r.status = 'held' AND r.settling AND r.expires_at <= clock_timestamp())
            AS unsettled,
           (SELECT count(*) FROM outbox o
            WHERE o.type = 'payment_unmatched' AND o.at < clock_timestamp() - interval '1 min'
              AND NOT EXISTS (SELECT 1 FROM reservation r
                              WHERE r.payment_ref = o.detail ->> 'payment_ref')) AS unmatched";

const UNMATCHED: &str = "
    INSERT INTO outbox (at, type, detail)
    VALUES (clock_timestamp(), 'payment_unmatched', jsonb_strip_nulls(jsonb_build_object(
        'payment_ref', $1::text, 'reservation', $2::uuid,
        'sale', $3::text, 'buyer', $4::text, 'order_key', $5::text)))
    ON CONFLICT DO NOTHING";

/// What somebody should look at.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Signs {
    /// For how long the oldest transaction has kept old versions of rows alive, in seconds.
    pub oldest_snapshot_s: f64,
    /// Holds past their end for which the shop has not answered.
    pub unsettled: u64,
    /// Payments told of a minute ago or more whose order has still not come.
    pub unmatched: u64,
}

impl Ledger {
    /// Looks for them.
    pub async fn signs(&self) -> Result<Signs, DatabaseError> {
        let found = self.query(SIGNS, &[]).await?;
        let row = found.first().ok_or_else(|| DatabaseError::Garbled("no answer".into()))?;
        Ok(Signs {
            oldest_snapshot_s: column(row, "oldest_snapshot_s")?,
            unsettled: count(row, "unsettled")?,
            unmatched: count(row, "unmatched")?,
        })
    }

    /// Writes down, once, that a payment came for an order that nobody knows.
    pub async fn note_unmatched(
        &self,
        which: &Which,
        payment_ref: &str,
    ) -> Result<(), DatabaseError> {
        let id: Option<Uuid> = match which {
            Which::Id(id) => Some(*id),
            Which::Key(_) => None,
        };
        let [sale, buyer, key] = match which {
            Which::Id(_) => [None; 3],
            Which::Key(order) => columns(order).map(Some),
        };
        self.query(UNMATCHED, &[&payment_ref, &id, &sale, &buyer, &key]).await?;
        Ok(())
    }
}
