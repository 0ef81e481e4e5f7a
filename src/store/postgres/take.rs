//! Taking units: one round trip, one transaction, answered after its commit.

use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::database::{DatabaseError, Mishap};
use super::ledger::{Ledger, Tries, column, columns, count, parsed, reservation};
use crate::domain::id::Sku;
use crate::domain::reservation::{Cart, OrderRef, Reservation};

/// How often a take that lost its key to another transaction is sent again at once; the second
/// time it finds the winner.
const RACES_MAX: usize = 3;

const TAKE_CART: &str = "SELECT * FROM take_cart($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";

/// One order.
#[derive(Debug, Clone)]
pub struct Take {
    /// The id that the reservation gets if this very request makes it.
    pub id: Uuid,
    /// Whose order.
    pub order: OrderRef,
    /// What it asks for.
    pub cart: Cart,
    /// Held until the shop's answer is known, whatever its end.
    pub settling: bool,
    /// No new holds from this instant on, Unix milliseconds; by Postgres' clock.
    pub closes_ms: u64,
}

/// Why units were not given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoUnits {
    /// No such SKU in this sale.
    UnknownSku,
    /// Frozen by the operators.
    Frozen,
    /// The sale is over.
    Closed,
    /// More than one buyer may have.
    OverCap,
    /// None available.
    SoldOut,
    /// Fewer available than asked for.
    Insufficient,
}

/// What became of an order.
#[derive(Debug, Clone, PartialEq)]
pub enum Taken {
    /// The units are held.
    Held(Reservation),
    /// The key was known: nothing taken, this is what it stands for now.
    Replay {
        /// The reservation as it is now.
        reservation: Reservation,
        /// Held, but past its end: the next sweep takes it.
        lapsed: bool,
    },
    /// The key was used for another body, that of the reservation with this id.
    KeyReused(Uuid),
    /// Not from this stock row, but the SKU has others.
    Elsewhere,
    /// Nothing taken, and the key is free again.
    No {
        /// Why.
        why: NoUnits,
        /// For which SKU.
        sku: Sku,
        /// What is available of it.
        remaining: u64,
    },
}

/// From which rows of the SKUs.
#[derive(Clone, Copy)]
enum Rows<'s> {
    /// The first one, as a lane would.
    First,
    /// This one of each line's SKU.
    At(&'s [i32]),
    /// All.
    All,
}

impl Taken {
    /// Whether nothing was found under the key: then another call of the same order, whose link
    /// broke, may be committed after this one.
    pub fn is_open(&self) -> bool {
        matches!(self, Self::No { .. } | Self::Elsewhere)
    }
}

impl Ledger {
    /// Takes the units of one order, or none of them: of one SKU from its first row, of several from
    /// all of their rows.
    pub async fn take(&self, take: &Take) -> Result<Taken, DatabaseError> {
        match take.cart.lines() {
            [_] => self.take_from(take, Rows::First).await,
            _ => self.gather(take).await,
        }
    }

    /// The same from one row of each line's SKU, and from no other.
    pub async fn take_at(&self, take: &Take, shards: &[i32]) -> Result<Taken, DatabaseError> {
        self.take_from(take, Rows::At(shards)).await
    }

    /// The same from whichever rows have them: they are all locked, so that its "no" is the SKU's.
    pub async fn gather(&self, take: &Take) -> Result<Taken, DatabaseError> {
        self.take_from(take, Rows::All).await
    }

    async fn take_from(&self, take: &Take, rows: Rows<'_>) -> Result<Taken, DatabaseError> {
        let mut tries = Tries::default();
        let (mut races, mut unsure) = (0, false);
        while races < RACES_MAX {
            let resent = tries.again();
            let outcome = self.take_once(take, rows, resent).await;
            unsure |= matches!(&outcome, Err(error) if error.mishap() == Mishap::LinkLost);
            let Some(settled) = tries.settle(outcome).await else { continue };
            match settled? {
                Some(taken) if unsure && taken.is_open() => return Err(DatabaseError::Unsure),
                Some(taken) => return Ok(taken),
                None => races += 1,
            }
        }
        Err(DatabaseError::Contended)
    }

    /// None: another transaction was faster with this key.
    async fn take_once(
        &self,
        take: &Take,
        rows: Rows<'_>,
        resent: bool,
    ) -> Result<Option<Taken>, DatabaseError> {
        let lines = take.cart.lines();
        let shards: Vec<Option<i32>> = match rows {
            Rows::First => {
                let client = self.database.client().await?;
                let mut batch = self.take_batch(&client, 0, &[(take, resent)]).await?;
                return Ok(batch.answers.pop().flatten());
            }
            Rows::At(shards) => shards.iter().copied().map(Some).collect(),
            Rows::All => vec![None; lines.len()],
        };
        let hash = take.cart.body_hash();
        let hash = hash.as_slice();
        let [sale, buyer, key] = columns(&take.order);
        let closes = closes(take);
        let (skus, quantities): (Vec<_>, Vec<_>) =
            lines.iter().map(|line| (line.sku.as_str(), i64::from(line.qty.get()))).unzip();
        #[rustfmt::skip]
        let arguments: [&(dyn ToSql + Sync); 10] = [
            &sale, &closes, &take.id, &buyer, &key, &hash, &take.settling, &skus, &quantities, &shards,
        ];
        let found = self.query_once(TAKE_CART, &arguments).await?;
        let row = found.first().ok_or_else(|| DatabaseError::Garbled("no answer".into()))?;
        read(row, take, resent)
    }
}

/// When no new holds are made any more; Postgres knows of no instants beyond some millennia.
pub(super) fn closes(take: &Take) -> i64 {
    const YEAR_9999_MS: i64 = 253_402_300_799_000;
    i64::try_from(take.closes_ms).map_or(YEAR_9999_MS, |ms| ms.min(YEAR_9999_MS))
}

/// None: another transaction was faster with this key. `resent`: an earlier try may be committed.
fn read(row: &Row, take: &Take, resent: bool) -> Result<Option<Taken>, DatabaseError> {
    let verdict = column::<&str>(row, "verdict")?;
    if let Some(known) = known(verdict, row, take, resent)? {
        return Ok(Some(known));
    }
    let why = match verdict {
        "raced" => return Ok(None),
        "elsewhere" => return Ok(Some(Taken::Elsewhere)),
        "held" => return Ok(Some(Taken::Held(stands_for(row, take)?))),
        other => refused(other)?,
    };
    let sku = parsed("failed", Sku::parse(column(row, "failed")?))?;
    let remaining = match why {
        NoUnits::UnknownSku => 0,
        _ => count(row, "remaining")?,
    };
    Ok(Some(Taken::No { why, sku, remaining }))
}

/// The verdicts that tell of a reservation which was there before, from its row.
pub(super) fn known(
    verdict: &str,
    row: &Row,
    take: &Take,
    resent: bool,
) -> Result<Option<Taken>, DatabaseError> {
    Ok(match verdict {
        "key-reused" => Some(Taken::KeyReused(column(row, "id")?)),
        "replay" => {
            let reservation = stands_for(row, take)?;
            let lapsed = column(row, "lapsed")? && !reservation.settling;
            // The first try was committed after all; only its answer was lost.
            if resent && reservation.id == take.id {
                return Ok(Some(Taken::Held(reservation)));
            }
            Some(Taken::Replay { reservation, lapsed })
        }
        _ => None,
    })
}

/// The verdicts that refuse.
pub(super) fn refused(verdict: &str) -> Result<NoUnits, DatabaseError> {
    Ok(match verdict {
        "unknown-sku" => NoUnits::UnknownSku,
        "frozen" => NoUnits::Frozen,
        "closed" => NoUnits::Closed,
        "over-cap" => NoUnits::OverCap,
        "sold-out" => NoUnits::SoldOut,
        "insufficient" => NoUnits::Insufficient,
        other => return Err(DatabaseError::Garbled(format!("verdict {other}"))),
    })
}

fn stands_for(row: &Row, take: &Take) -> Result<Reservation, DatabaseError> {
    let OrderRef { sale, buyer, order_key } = take.order.clone();
    reservation(row, (sale, buyer, order_key), take.cart.lines().to_vec())
}
