//! Stock: loaded once, restocked by delta, shown with what is held and sold.

use tokio_postgres::Row;
use tokio_postgres::error::SqlState;

use super::database::DatabaseError;
use super::ledger::{Ledger, column, count, instant_ms, parsed, sku};
use crate::domain::id::{BuyerId, SaleId, Sku};
use crate::domain::stock::SkuFigures;

/// One snapshot for all of it, so that the numbers of a SKU always add up. Nothing here grows with
/// what was sold: the earliest release is looked for among the holds that end first.
const STOCK: &str = "
    SELECT k.sku, k.sale, k.loaded, k.generation, k.frozen, k.shards, s.available, s.version,
           greatest(k.loaded - s.available - c.units, 0) AS held, c.units AS confirmed,
           r.at AS earliest_release
    FROM sku k
    JOIN LATERAL (
        SELECT sum(available)::bigint AS available, sum(version)::bigint AS version
        FROM stock WHERE sku = k.sku) s ON true
    JOIN LATERAL (
        SELECT coalesce(sum(units), 0)::bigint AS units FROM sold WHERE sku = k.sku) c ON true
    LEFT JOIN earliest_release() r ON r.sku = k.sku
    WHERE ($1::text IS NULL OR k.sale = $1) AND ($2::text IS NULL OR k.sku = $2)
    ORDER BY k.sku";

/// Each kind of hold by the index that has it.
const HOLDERS: &str = "
    SELECT buyer FROM reservation WHERE sale = $1 AND status = 'held' AND NOT settling
    UNION
    SELECT buyer FROM reservation WHERE sale = $1 AND status = 'held' AND settling";

/// A SKU as the settings describe it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkuLoad {
    /// The SKU.
    pub sku: Sku,
    /// Its sale.
    pub sale: SaleId,
    /// Loaded when first seen.
    pub units: u64,
    /// The most that one buyer may hold and own; 0 = no cap.
    pub units_per_buyer: u32,
    /// How long a hold lasts, in milliseconds.
    pub hold_ms: u64,
    /// Rows that the units are spread over when first seen, 1 to [`SHARDS_MAX`](crate::domain::stock::SHARDS_MAX).
    pub shards: u32,
}

/// What became of loading a SKU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loaded {
    /// First seen: its units are there now.
    New,
    /// Known: its units stay as they are.
    Known,
    /// It belongs to another sale.
    OtherSale,
}

/// What became of a change of stock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StockChange {
    /// Done.
    Done,
    /// Done before under this operation key.
    Replay,
    /// The operation key was used for something else.
    KeyReused,
    /// No such SKU.
    Unknown,
    /// Fewer units are available than would be taken away.
    BelowTaken,
    /// Somebody changed the stock meanwhile.
    VersionMismatch,
}

/// A SKU's stock.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Stock {
    /// The SKU.
    pub sku: Sku,
    /// Its sale.
    pub sale: SaleId,
    /// Units ever loaded, restocks included.
    pub loaded: u64,
    /// Units that can be held now.
    pub available: u64,
    /// Units in live holds.
    pub held: u64,
    /// Units sold.
    pub confirmed: u64,
    /// Rows that takes look at, at least 1.
    pub shards: u32,
    /// Raised by every change of what is available.
    pub version: u64,
    /// Raised by freeze and thaw.
    pub generation: u64,
    /// Not for sale.
    pub frozen: bool,
    /// When the first hold lapses, Unix milliseconds.
    #[serde(skip)]
    pub earliest_release_ms: Option<u64>,
}

impl From<Stock> for SkuFigures {
    fn from(stock: Stock) -> Self {
        Self {
            sku: stock.sku,
            loaded: stock.loaded,
            available: stock.available,
            held: stock.held,
            confirmed: stock.confirmed,
            earliest_release_ms: stock.earliest_release_ms,
        }
    }
}

impl Ledger {
    /// Loads a SKU's units if it is seen for the first time; its terms follow the settings.
    pub async fn load_sku(&self, load: &SkuLoad) -> Result<Loaded, DatabaseError> {
        let sql = "SELECT load_sku($1, $2, $3, $4, $5, $6) AS verdict";
        let (sku, sale) = (load.sku.as_str(), load.sale.as_str());
        let units = parsed("units", i64::try_from(load.units))?;
        let hold = parsed("hold", i64::try_from(load.hold_ms))?;
        let cap = i64::from(load.units_per_buyer);
        let shards = parsed("shards", i32::try_from(load.shards))?;
        let found = self.query(sql, &[&sku, &sale, &units, &cap, &hold, &shards]).await?;
        Ok(match verdict(&found)? {
            "loaded" => Loaded::New,
            "known" => Loaded::Known,
            _ => Loaded::OtherSale,
        })
    }

    /// Stock of one sale, of one SKU, or of all.
    pub async fn stock(
        &self,
        sale: Option<&SaleId>,
        sku: Option<&Sku>,
    ) -> Result<Vec<Stock>, DatabaseError> {
        let (sale, sku) = (sale.map(SaleId::as_str), sku.map(Sku::as_str));
        self.query(STOCK, &[&sale, &sku]).await?.iter().map(stock).collect()
    }

    /// The sale's figures at one instant.
    pub async fn figures(&self, sale: &SaleId) -> Result<Vec<SkuFigures>, DatabaseError> {
        let stock = self.stock(Some(sale), None).await?;
        Ok(stock.into_iter().map(SkuFigures::from).collect())
    }

    /// The buyers who have a live hold in a sale.
    pub async fn holders(&self, sale: &SaleId) -> Result<Vec<BuyerId>, DatabaseError> {
        let found = self.query(HOLDERS, &[&sale.as_str()]).await?;
        let buyer = |row| parsed("buyer", BuyerId::parse(column(row, "buyer")?));
        found.iter().map(buyer).collect()
    }

    /// How many they are.
    pub async fn holders_count(&self, sale: &SaleId) -> Result<u64, DatabaseError> {
        let sql = "SELECT count(DISTINCT buyer) AS holders FROM reservation \
                   WHERE sale = $1 AND status = 'held'";
        let found = self.query(sql, &[&sale.as_str()]).await?;
        found.first().map_or(Ok(0), |row| count(row, "holders"))
    }

    /// Adds units, or takes available ones away, once for each operation key.
    pub async fn restock(
        &self,
        sku: &Sku,
        delta: i64,
        op_key: &str,
    ) -> Result<StockChange, DatabaseError> {
        let sql = "SELECT restock($1, $2, $3) AS verdict";
        match self.query(sql, &[&sku.as_str(), &delta, &op_key]).await {
            Ok(found) => change(&found),
            // The same key at the same moment for another SKU: that one has it.
            Err(DatabaseError::Statement(error))
                if error.code() == Some(&SqlState::UNIQUE_VIOLATION) =>
            {
                Ok(StockChange::KeyReused)
            }
            Err(error) => Err(error),
        }
    }

    /// Sets what was ever loaded, if the stock still has the version that the caller saw.
    pub async fn set_loaded(
        &self,
        sku: &Sku,
        loaded: u64,
        version: u64,
    ) -> Result<StockChange, DatabaseError> {
        let sql = "SELECT set_loaded($1, $2, $3) AS verdict";
        let loaded = i64::try_from(loaded).unwrap_or(i64::MAX);
        let version = i64::try_from(version).unwrap_or(i64::MAX);
        // Not sent again: the second try would find the version that the first one made.
        change(&self.query_once(sql, &[&sku.as_str(), &loaded, &version]).await?)
    }
}

fn stock(row: &Row) -> Result<Stock, DatabaseError> {
    Ok(Stock {
        sku: sku(row)?,
        sale: parsed("sale", SaleId::parse(column(row, "sale")?))?,
        loaded: count(row, "loaded")?,
        available: count(row, "available")?,
        held: count(row, "held")?,
        confirmed: count(row, "confirmed")?,
        shards: parsed("shards", u32::try_from(column::<i32>(row, "shards")?))?,
        version: count(row, "version")?,
        generation: count(row, "generation")?,
        frozen: column(row, "frozen")?,
        earliest_release_ms: instant_ms(row, "earliest_release")?,
    })
}

fn verdict(found: &[Row]) -> Result<&str, DatabaseError> {
    let row = found.first().ok_or_else(|| DatabaseError::Garbled("no answer".into()))?;
    column(row, "verdict")
}

fn change(found: &[Row]) -> Result<StockChange, DatabaseError> {
    Ok(match verdict(found)? {
        "restocked" => StockChange::Done,
        "replay" => StockChange::Replay,
        "key-reused" => StockChange::KeyReused,
        "unknown-sku" => StockChange::Unknown,
        "below-taken" => StockChange::BelowTaken,
        "version-mismatch" => StockChange::VersionMismatch,
        other => return Err(DatabaseError::Garbled(format!("verdict {other}"))),
    })
}
