//! Many orders for one stock row in one call: one round trip, one transaction, one flush.

use std::time::SystemTime;

use jiff::Timestamp;
use tokio_postgres::types::ToSql;

use super::database::{Client, DatabaseError};
use super::ledger::{Ledger, column, columns, instant, parsed};
use super::take::{NoUnits, Take, Taken, closes, known, refused};
use crate::domain::reservation::{Line, Reservation, Status};

/// The most orders in one call.
pub const BATCH_MAX: usize = 512;
/// The most orders in one call for a SKU of several rows: a cap takes a lock for each buyer, from a
/// table that all of the server's transactions share.
pub const SHARDED_BATCH_MAX: usize = 64;

const ONE: &str = "SELECT * FROM take_one($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";
/// The terms of a SKU changed under a call, which wrote nothing.
const TERMS_CHANGED: &str = "ST001";
const TAKE: &str = "SELECT * FROM take_batch($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";

/// What became of a batch.
#[derive(Debug, Clone, PartialEq)]
pub struct TakenBatch {
    /// One for each order. None: another transaction was faster with its key; send it again.
    pub answers: Vec<Option<Taken>>,
    /// How long the stock row was waited for and changed, in microseconds; 0 if nothing was taken.
    pub row_us: u64,
    /// When the stock row was locked, by Postgres' clock; none if nothing was to be taken.
    pub locked_at: Option<SystemTime>,
}

impl Ledger {
    /// Takes the units of many orders from one stock row, each order of its own SKU line alone, in
    /// this order; of one sale and SKU, no key twice, at most [`BATCH_MAX`]. With each: whether it
    /// was sent before, so that what it finds may be its own.
    pub async fn take_batch(
        &self,
        client: &Client,
        shard: i32,
        takes: &[(&Take, bool)],
    ) -> Result<TakenBatch, DatabaseError> {
        let Some((last, line)) = takes.last().and_then(|(last, _)| Some((last, line(last)?)))
        else {
            return Ok(TakenBatch { answers: vec![], row_us: 0, locked_at: None });
        };
        if let [(take, false)] = takes
            && let Some(taken) = take_one(client, shard, take).await?
        {
            return Ok(taken);
        }
        let (sku, sale) = (line.sku.as_str(), last.order.sale.as_str());
        let closes = closes(last);
        let each = || takes.iter().map(|(take, _)| take);
        let ids: Vec<_> = each().map(|take| take.id).collect();
        let buyers: Vec<_> = each().map(|take| take.order.buyer.as_str()).collect();
        let keys: Vec<_> = each().map(|take| take.order.order_key.as_str()).collect();
        let units = |take: &&Take| line_units(take);
        let quantities: Vec<_> = each().map(units).collect();
        let hashes: Vec<_> = each().map(|take| take.cart.body_hash()).collect();
        let hashes: Vec<_> = hashes.iter().map(<[u8; 32]>::as_slice).collect();
        let settling: Vec<_> = each().map(|take| take.settling).collect();
        let arguments: [&(dyn ToSql + Sync); 10] =
            [&sku, &shard, &sale, &closes, &ids, &buyers, &keys, &quantities, &hashes, &settling];
        let statement = client.prepare_cached(TAKE).await?;
        read(&client.query(&statement, &arguments).await?, takes)
    }
}

/// The short way of an order by itself; nothing if it is not as plain as that.
async fn take_one(
    client: &Client,
    shard: i32,
    take: &Take,
) -> Result<Option<TakenBatch>, DatabaseError> {
    let Some(line) = line(take) else { return Ok(None) };
    let [sale, buyer, key] = columns(&take.order);
    let (sku, closes, hash) = (line.sku.as_str(), closes(take), take.cart.body_hash());
    let (qty, hash) = (line_units(take), hash.as_slice());
    #[rustfmt::skip]
    let arguments: [&(dyn ToSql + Sync); 10] = [
        &sku, &shard, &sale, &closes, &take.id, &buyer, &key, &qty, &hash, &take.settling,
    ];
    let statement = client.prepare_cached(ONE).await?;
    let row = match client.query_one(&statement, &arguments).await {
        Ok(row) => row,
        Err(error) if error.code().is_some_and(|code| code.code() == TERMS_CHANGED) => {
            return Ok(None);
        }
        Err(error) => return Err(error.into()),
    };
    let Some(row_us) = column::<Option<i64>>(&row, "row_us")? else { return Ok(None) };
    let held = held(take, instant(&row, "created_at")?, instant(&row, "expires_at")?);
    Ok(Some(TakenBatch {
        answers: vec![Some(Taken::Held(held))],
        row_us: parsed("row_us", u64::try_from(row_us))?,
        locked_at: column(&row, "locked_at")?,
    }))
}

fn held(take: &Take, created_at: Timestamp, expires_at: Timestamp) -> Reservation {
    Reservation {
        id: take.id,
        sale: take.order.sale.clone(),
        buyer: take.order.buyer.clone(),
        order_key: take.order.order_key.clone(),
        status: Status::Held,
        lines: take.cart.lines().to_vec(),
        expires_at,
        created_at,
        payment_ref: None,
        settling: take.settling,
    }
}

fn line(take: &Take) -> Option<&Line> {
    take.cart.lines().first()
}

fn line_units(take: &Take) -> i64 {
    line(take).map_or(0, |line| line.qty.get().into())
}

fn read(
    rows: &[tokio_postgres::Row],
    takes: &[(&Take, bool)],
) -> Result<TakenBatch, DatabaseError> {
    let (first, rest) =
        rows.split_first().ok_or_else(|| DatabaseError::Garbled("no answer".into()))?;
    let verdicts: Option<Vec<&str>> = column(first, "verdicts")?;
    let (created_at, expires_at) = (instant(first, "created_at"), instant(first, "expires_at"));
    let remaining: Option<i64> = column(first, "remaining")?;
    let remaining = parsed("remaining", u64::try_from(remaining.unwrap_or(0)))?;
    let row_us: Option<i64> = column(first, "row_us")?;
    if verdicts.as_ref().is_some_and(|verdicts| verdicts.len() != takes.len()) {
        return Err(DatabaseError::Garbled("verdicts for other orders".into()));
    }
    let mut replays = vec![None; takes.len()];
    for row in rest {
        let place = column::<i32>(row, "ord")?.saturating_sub(1);
        if let Some(found) = usize::try_from(place).ok().and_then(|place| replays.get_mut(place)) {
            *found = Some(row);
        }
    }
    let mut answers = Vec::with_capacity(takes.len());
    for (place, (take, resent)) in takes.iter().enumerate() {
        let verdict = verdicts.as_ref().map_or("held", |verdicts| verdicts[place]);
        if let Some(row) = replays[place] {
            answers.push(known(verdict, row, take, *resent)?);
            continue;
        }
        answers.push(match verdict {
            "raced" | "replay" | "key-reused" => None,
            "elsewhere" => Some(Taken::Elsewhere),
            "held" => {
                let (created_at, expires_at) = (created_at.as_ref(), expires_at.as_ref());
                let (from, to) = (created_at.map_err(unread)?, expires_at.map_err(unread)?);
                Some(Taken::Held(held(take, *from, *to)))
            }
            other => Some(no(refused(other)?, take, remaining)?),
        });
    }
    let row_us = parsed("row_us", u64::try_from(row_us.unwrap_or(0)))?;
    Ok(TakenBatch { answers, row_us, locked_at: column(first, "locked_at")? })
}

fn no(why: NoUnits, take: &Take, remaining: u64) -> Result<Taken, DatabaseError> {
    let line = line(take).ok_or_else(|| DatabaseError::Garbled("an empty order".into()))?;
    let remaining = if why == NoUnits::UnknownSku { 0 } else { remaining };
    Ok(Taken::No { why, sku: line.sku.clone(), remaining })
}

fn unread(error: &DatabaseError) -> DatabaseError {
    DatabaseError::Garbled(error.to_string())
}
