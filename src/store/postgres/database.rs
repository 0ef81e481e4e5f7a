//! The pool of connections, and what is demanded of the server before anything is sold.

use std::time::Duration;

use deadpool_postgres::{Manager, ManagerConfig, Pool, RecyclingMethod, Runtime};
use tokio_postgres::NoTls;
use tokio_postgres::error::SqlState;

use super::{connections, migrate};

/// A connection lent by the pool.
pub type Client = deadpool_postgres::Object;

/// How the pool is made.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// The most connections of this process, those of the lanes not counted.
    pub connections: usize,
    /// The most connections of its lanes: so many stock rows are busy at once.
    pub lane_connections: usize,
    /// Whether several hosts without a synchronous standby are accepted: a fail-over may then lose
    /// acknowledged holds.
    pub accept_lost_commits: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { connections: 16, lane_connections: 16, accept_lost_commits: false }
    }
}

/// A statement never runs longer than this, so that no lock is held for ever.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(5);
/// A wait for a lock beyond this is answered as "busy".
const LOCK_TIMEOUT: Duration = Duration::from_secs(3);
/// The same for a batch of a lane, in which many wait for one row.
const LANE_STATEMENT_TIMEOUT: Duration = Duration::from_secs(3);
const LANE_LOCK_TIMEOUT: Duration = Duration::from_secs(2);
/// Waiting for a free connection beyond this is answered as "busy".
const POOL_WAIT: Duration = Duration::from_secs(3);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// What may go wrong between us and Postgres.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseError {
    /// The URL cannot be read.
    #[error("the database URL is not understood: {0}")]
    Url(tokio_postgres::Error),
    /// The server's settings would lose what was acknowledged.
    #[error("{0}")]
    Unsafe(String),
    /// The schema could not be brought up to date.
    #[error("migrating the ledger failed: {0}")]
    Migration(String),
    /// No connection could be had.
    #[error("no connection to the ledger: {0}")]
    Pool(#[from] deadpool_postgres::PoolError),
    /// A row that this program would not have written.
    #[error("the ledger holds something unreadable: {0}")]
    Garbled(String),
    /// Others were faster, several times in a row.
    #[error("the ledger is too contended just now")]
    Contended,
    /// The link broke, and the same sent again found nothing: the first may be committed yet.
    #[error("the link to the ledger broke, and what was sent over it may still be done")]
    Unsure,
    /// A statement failed.
    #[error("the ledger's answer: {}", told(.0))]
    Statement(#[from] tokio_postgres::Error),
}

/// The server's own words; `tokio_postgres` says only "db error".
fn told(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(db) => format!("{} ({})", db.message(), db.code().code()),
        None => error.to_string(),
    }
}

impl DatabaseError {
    /// What it leaves to do.
    pub fn mishap(&self) -> Mishap {
        let error = match self {
            Self::Statement(error) => error,
            Self::Pool(_) => return Mishap::Unsent,
            Self::Url(_)
            | Self::Unsafe(_)
            | Self::Migration(_)
            | Self::Garbled(_)
            | Self::Contended
            | Self::Unsure => return Mishap::Other,
        };
        let Some(code) = error.code() else {
            let broken = error.is_closed()
                || std::error::Error::source(error)
                    .is_some_and(<dyn std::error::Error>::is::<std::io::Error>);
            // Else the encoder refused a value, before anything was sent.
            return if broken { Mishap::LinkLost } else { Mishap::Refused };
        };
        match (code.code(), &code.code()[..2]) {
            ("57014" | "53200" | "55P03", _) => Mishap::TooMuch,
            ("57P01" | "57P02", _) | (_, "08") => Mishap::LinkLost,
            ("40P01" | "40001" | "57P03", _) => Mishap::Undone,
            (_, "22" | "23" | "54") => Mishap::Refused,
            _ => Mishap::Other,
        }
    }

    /// Whether sending the same again is right: the server undid everything (deadlock, time-out),
    /// or the link broke and nobody knows; order keys make both safe.
    pub fn is_worth_a_retry(&self) -> bool {
        match self {
            Self::Statement(error) => match error.code() {
                None => true,
                Some(code) => [
                    SqlState::T_R_DEADLOCK_DETECTED,
                    SqlState::T_R_SERIALIZATION_FAILURE,
                    SqlState::QUERY_CANCELED,
                    SqlState::LOCK_NOT_AVAILABLE,
                    SqlState::ADMIN_SHUTDOWN,
                    SqlState::CRASH_SHUTDOWN,
                    SqlState::CANNOT_CONNECT_NOW,
                ]
                .contains(code),
            },
            Self::Pool(_) => true,
            Self::Url(_)
            | Self::Unsafe(_)
            | Self::Migration(_)
            | Self::Garbled(_)
            | Self::Contended
            | Self::Unsure => false,
        }
    }
}

/// What a failure leaves to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mishap {
    /// Nothing was sent: no connection could be had.
    Unsent,
    /// The link broke: what was sent may be committed all the same.
    LinkLost,
    /// The server undid all of it, for a reason that may have passed: a deadlock, a restart.
    Undone,
    /// The server undid all of it because it took too long or needed too much.
    TooMuch,
    /// The server or the encoder refused something in it.
    Refused,
    /// Anything else; it will not be better the next time.
    Other,
}

/// The ledger's database; a clone shares the pools.
#[derive(Clone)]
pub struct Database {
    pool: Pool,
    lanes: Pool,
}

impl Database {
    /// Makes the pools, refuses a server that would lose commits, and migrates the schema.
    pub async fn open(url: &str, options: Options) -> Result<Self, DatabaseError> {
        let mut config: tokio_postgres::Config = url.parse().map_err(DatabaseError::Url)?;
        config.connect_timeout(CONNECT_TIMEOUT);
        let several_hosts = config.get_hosts().len() > 1;
        if several_hosts {
            config.target_session_attrs(tokio_postgres::config::TargetSessionAttrs::ReadWrite);
        }
        let pool = pool_of(
            config.clone().application_name("stanchion"),
            (STATEMENT_TIMEOUT, LOCK_TIMEOUT),
            options.connections,
        )?;
        let lanes = pool_of(
            config.application_name("stanchion lane"),
            (LANE_STATEMENT_TIMEOUT, LANE_LOCK_TIMEOUT),
            options.lane_connections,
        )?;
        let database = Self { pool, lanes };
        database.refuse_lossy_server(several_hosts && !options.accept_lost_commits).await?;
        connections::check(&database.client().await?, options).await?;
        migrate::run(database.client().await?).await?;
        Ok(database)
    }

    /// The most connections of the pool, those of the lanes not counted.
    pub fn connections(&self) -> usize {
        self.pool.status().max_size
    }

    /// A connection from the pool.
    pub async fn client(&self) -> Result<Client, DatabaseError> {
        Ok(self.pool.get().await?)
    }

    /// A connection of the lanes' own: it is kept as long as there is something to send.
    pub async fn lane_client(&self) -> Result<Client, DatabaseError> {
        Ok(self.lanes.get().await?)
    }

    /// Whether other lanes wait for a connection.
    pub fn lanes_wait(&self) -> bool {
        self.lanes.status().waiting > 0
    }

    /// Whether the server answers; for readiness.
    pub async fn ping(&self) -> Result<(), DatabaseError> {
        self.client().await?.simple_query("SELECT 1").await?;
        Ok(())
    }

    async fn refuse_lossy_server(&self, standby_needed: bool) -> Result<(), DatabaseError> {
        let row = self
            .client()
            .await?
            .query_one(
                "SELECT current_setting('fsync'), current_setting('synchronous_commit'), \
                 current_setting('synchronous_standby_names')",
                &[],
            )
            .await?;
        let refuse = |reason: &str| Err(DatabaseError::Unsafe(reason.to_owned()));
        match (row.get(0), row.get(1), row.get::<_, &str>(2)) {
            ("off", _, _) => {
                refuse("Postgres runs with fsync = off: a crash would lose sold units; turn it on")
            }
            (_, "off", _) => refuse(
                "Postgres runs with synchronous_commit = off: a crash would lose acknowledged \
                 holds; turn it on",
            ),
            (_, _, "") if standby_needed => refuse(
                "several database hosts without synchronous_standby_names: a fail-over would lose \
                 acknowledged holds; set it, or core.accept_lost_commits = true",
            ),
            _ => Ok(()),
        }
    }
}

fn pool_of(
    config: &mut tokio_postgres::Config,
    (statement, lock): (Duration, Duration),
    connections: usize,
) -> Result<Pool, DatabaseError> {
    // Compiling a plan takes longer than any statement of ours, some of it under a lock.
    config.options(format!(
        "-c jit=off -c statement_timeout={} -c lock_timeout={} \
         -c idle_in_transaction_session_timeout={}",
        statement.as_millis(),
        lock.as_millis(),
        statement.as_millis(),
    ));
    let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    Pool::builder(Manager::from_config(config.clone(), NoTls, recycling))
        .max_size(connections)
        .wait_timeout(Some(POOL_WAIT))
        .create_timeout(Some(CONNECT_TIMEOUT))
        .recycle_timeout(Some(CONNECT_TIMEOUT))
        .runtime(Runtime::Tokio1)
        .build()
        .map_err(|e| DatabaseError::Unsafe(format!("the pool cannot be made: {e}")))
}
