//! The journal of accounts, and the holes that store losses leave.

use std::ops::Range;

use super::database::{Database, DatabaseError};
use super::ledger::parsed;
use super::room::{signed, unsigned};
use crate::domain::holes::Holes;
use crate::domain::id::{AccountId, SaleId};
use crate::domain::ticket::Cohort;

/// A number that an account has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlaceRecord {
    /// The run of the number.
    pub run: u64,
    /// Who.
    pub account: AccountId,
    /// The number.
    pub number: Cohort,
    /// Of two words about one account the higher version counts.
    pub version: u64,
    /// Unix milliseconds.
    pub joined_at_ms: u64,
}

impl Database {
    /// Writes accounts' numbers down; a later word that is known already stays.
    pub async fn keep_places(
        &self,
        sale: &SaleId,
        places: &[PlaceRecord],
    ) -> Result<(), DatabaseError> {
        let client = self.client().await?;
        // Sorted, so that two cores never wait for each other in a circle.
        let sql = "INSERT INTO place (sale, run, account, number, joined_at_ms, version) \
                   SELECT DISTINCT ON (run, account) $1, run, account, number, joined, version \
                   FROM unnest($2::bigint[], $3::text[], $4::text[], $5::bigint[], $6::bigint[]) \
                        AS new (run, account, number, joined, version) \
                   ORDER BY run, account, version DESC \
                   ON CONFLICT (sale, run, account) \
                   DO UPDATE SET number = excluded.number, version = excluded.version \
                   WHERE place.version < excluded.version";
        let statement = client.prepare_cached(sql).await?;
        let runs: Vec<_> = places.iter().map(|place| signed(place.run)).collect();
        let accounts: Vec<_> = places.iter().map(|place| place.account.as_str()).collect();
        let numbers: Vec<_> = places.iter().map(|place| place.number.to_string()).collect();
        let joined: Vec<_> = places.iter().map(|place| signed(place.joined_at_ms)).collect();
        let versions: Vec<_> = places.iter().map(|place| signed(place.version)).collect();
        client
            .execute(&statement, &[&sale.as_str(), &runs, &accounts, &numbers, &joined, &versions])
            .await?;
        Ok(())
    }

    /// The accounts of a run behind `after` in the order of their bytes, at most `max`.
    pub async fn places_after(
        &self,
        sale: &SaleId,
        run: u64,
        after: &str,
        max: i64,
    ) -> Result<Vec<(AccountId, Cohort)>, DatabaseError> {
        let client = self.client().await?;
        let sql = "SELECT account, number FROM place \
                   WHERE sale = $1 AND run = $2 AND account > $3 ORDER BY account LIMIT $4";
        let statement = client.prepare_cached(sql).await?;
        let rows = client.query(&statement, &[&sale.as_str(), &signed(run), &after, &max]).await?;
        let read = |row: &tokio_postgres::Row| {
            let account = parsed("account", AccountId::parse(row.try_get(0)?))?;
            let number: &str = row.try_get(1)?;
            let number = Cohort::parse(number);
            let number = number.ok_or_else(|| DatabaseError::Garbled("place.number".into()))?;
            Ok((account, number))
        };
        rows.iter().map(read).collect()
    }

    /// Writes holes down. Of two cores that saw the same loss, the one that saw more numbers
    /// handed out is right.
    pub async fn keep_holes(
        &self,
        sale: &SaleId,
        run: u64,
        holes: &[(&str, Range<u64>)],
    ) -> Result<(), DatabaseError> {
        let client = self.client().await?;
        let sql = "INSERT INTO hole (sale, run, cohort, first, past) \
                   SELECT $1, $2, cohort, first, past \
                   FROM unnest($3::text[], $4::bigint[], $5::bigint[]) AS new (cohort, first, past) \
                   WHERE first < past ORDER BY cohort, past \
                   ON CONFLICT (sale, run, cohort, past) \
                   DO UPDATE SET first = greatest(hole.first, excluded.first)";
        let statement = client.prepare_cached(sql).await?;
        let cohorts: Vec<_> = holes.iter().map(|(cohort, _)| *cohort).collect();
        let firsts: Vec<_> = holes.iter().map(|(_, range)| signed(range.start)).collect();
        let pasts: Vec<_> = holes.iter().map(|(_, range)| signed(range.end)).collect();
        client
            .execute(&statement, &[&sale.as_str(), &signed(run), &cohorts, &firsts, &pasts])
            .await?;
        Ok(())
    }

    /// The holes of a run.
    pub async fn holes(&self, sale: &SaleId, run: u64) -> Result<Holes, DatabaseError> {
        let client = self.client().await?;
        let sql = "SELECT cohort, first, past FROM hole WHERE sale = $1 AND run = $2";
        let statement = client.prepare_cached(sql).await?;
        let (mut entries, mut late) = (Vec::new(), Vec::new());
        for row in client.query(&statement, &[&sale.as_str(), &signed(run)]).await? {
            let range = unsigned(row.try_get(1)?)..unsigned(row.try_get(2)?);
            let of = if row.try_get::<_, &str>(0)? == "e" { &mut entries } else { &mut late };
            of.push(range);
        }
        Ok(Holes::of(entries, late))
    }
}
