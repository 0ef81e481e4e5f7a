//! Events: what happened, in an order in which none can be skipped.

use std::fmt;

use serde::Serialize;
use serde_json::{Map, Value};
use tokio_postgres::Row;
use uuid::Uuid;

use super::database::DatabaseError;
use super::ledger::{Ledger, column, instant};

/// Events on one page.
const PAGE: i64 = 500;

/// Transactions below the oldest running one are over: nothing can appear among them any more.
const EVENTS: &str = "
    SELECT o.txid::text AS txid, o.id, o.at, o.type, o.reservation, o.detail,
           r.sale, r.buyer, r.order_key
    FROM outbox o LEFT JOIN reservation r ON r.id = o.reservation
    WHERE o.txid < pg_snapshot_xmin(pg_current_snapshot())
      AND (o.txid, o.id) > ($1::text::xid8, $2)
    ORDER BY o.txid, o.id LIMIT $3";

/// Where a reader of events stands: after this one. Written `TRANSACTION-NUMBER`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct EventCursor {
    transaction: u64,
    number: i64,
}

impl EventCursor {
    /// Reads what [`fmt::Display`] wrote.
    pub fn parse(raw: &str) -> Option<Self> {
        let (transaction, number) = raw.split_once('-')?;
        Some(Self { transaction: transaction.parse().ok()?, number: number.parse().ok()? })
    }
}

impl fmt::Display for EventCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.transaction, self.number)
    }
}

impl Serialize for EventCursor {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Event {
    /// Stable, and where to go on from.
    pub id: EventCursor,
    /// held, confirmed, expired, released, cancelled, refund_due or restocked.
    #[serde(rename = "type")]
    pub kind: String,
    /// When.
    pub at: jiff::Timestamp,
    /// To what.
    pub data: Value,
}

/// A page of events.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EventPage {
    /// At most 500.
    pub events: Vec<Event>,
    /// What to ask after next.
    pub next: EventCursor,
}

impl Ledger {
    /// The events after a place, oldest first.
    pub async fn events(&self, after: EventCursor) -> Result<EventPage, DatabaseError> {
        let transaction = after.transaction.to_string();
        let found = self.query(EVENTS, &[&transaction, &after.number, &PAGE]).await?;
        let events = found.iter().map(event).collect::<Result<Vec<_>, _>>()?;
        let next = events.last().map_or(after, |event| event.id);
        Ok(EventPage { events, next })
    }
}

fn event(row: &Row) -> Result<Event, DatabaseError> {
    let id = format!("{}-{}", column::<&str>(row, "txid")?, column::<i64>(row, "id")?);
    let mut data = match column::<Option<Value>>(row, "detail")? {
        Some(Value::Object(detail)) => detail,
        _ => Map::new(),
    };
    if let Some(reservation) = column::<Option<Uuid>>(row, "reservation")? {
        data.insert("reservation".into(), reservation.to_string().into());
    }
    for name in ["sale", "buyer", "order_key"] {
        if let Some(text) = column::<Option<String>>(row, name)? {
            data.insert(name.into(), text.into());
        }
    }
    Ok(Event {
        id: EventCursor::parse(&id)
            .ok_or_else(|| DatabaseError::Garbled(format!("event id {id}")))?,
        kind: column(row, "type")?,
        at: instant(row, "at")?,
        data: Value::Object(data),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_among_events_reads_back_as_it_was_written() {
        let cursor = EventCursor { transaction: u64::MAX, number: 7 };
        assert_eq!(EventCursor::parse(&cursor.to_string()), Some(cursor));
        for raw in ["", "7", "-", "a-1", "1-b", "-1-1"] {
            assert_eq!(EventCursor::parse(raw), None, "{raw}");
        }
    }
}
