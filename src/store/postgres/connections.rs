//! Whether a process' connections fit into the server, before anything is sold.

use super::database::{Client, DatabaseError, Options};
use super::ledger::column;
use super::take_batch::SHARDED_BATCH_MAX;

/// Locks that one transaction takes on tables and indices, at most.
const LOCKS_OF_TABLES: usize = 32;
/// Cores that share the server's lock table, at least.
const CORES: usize = 2;

/// What the server, the database and the role allow, and what is in use, this question included.
const ROOM: &str = "
    SELECT current_setting('max_connections')::int8
               - current_setting('superuser_reserved_connections')::int8 AS server,
           (SELECT sum(numbackends) FROM pg_stat_database WHERE datname IS NOT NULL)::int8 AS used,
           CASE WHEN r.rolsuper THEN -1 ELSE d.datconnlimit END::int8 AS database,
           (SELECT numbackends FROM pg_stat_database WHERE datid = d.oid)::int8 AS database_used,
           CASE WHEN r.rolsuper THEN -1 ELSE r.rolconnlimit END::int8 AS role,
           (SELECT count(*) FROM pg_stat_activity WHERE usesysid = r.oid) AS role_used,
           current_setting('max_locks_per_transaction')::int8
               * current_setting('max_connections')::int8 AS locks
    FROM pg_database d, pg_roles r
    WHERE d.datname = current_database() AND r.rolname = current_user";

/// One of the limits.
#[derive(Debug, Clone, Copy)]
struct Limit {
    name: &'static str,
    /// Connections at once; below zero: no limit.
    most: i64,
    /// Those of others.
    used: i64,
}

/// How a number of connections fits.
#[derive(Debug, PartialEq, Eq)]
enum Fit {
    /// There is room for all of them.
    Good,
    /// There is not while others keep theirs; what is left.
    Tight(&'static str, i64),
    /// There never is.
    Never(&'static str, i64),
}

fn fit(wanted: i64, limits: &[Limit]) -> Fit {
    let limits = || limits.iter().filter(|limit| limit.most >= 0);
    if let Some(limit) = limits().filter(|limit| limit.most < wanted).min_by_key(|l| l.most) {
        return Fit::Never(limit.name, limit.most);
    }
    let left = |limit: &Limit| limit.most.saturating_sub(limit.used).max(0);
    match limits().min_by_key(|limit| left(limit)) {
        Some(limit) if left(limit) < wanted => Fit::Tight(limit.name, left(limit)),
        _ => Fit::Good,
    }
}

/// What the cores' transactions may lock at once; a lane locks a buyer for each order.
fn locks_wanted(options: Options) -> usize {
    let Options { connections, lane_connections, .. } = options;
    let lanes = lane_connections * (SHARDED_BATCH_MAX + LOCKS_OF_TABLES);
    CORES * (lanes + connections * LOCKS_OF_TABLES)
}

/// Refuses a server that can never carry a core's connections; warns of one that cannot now, and of
/// one whose lock table may overflow.
pub(super) async fn check(client: &Client, options: Options) -> Result<(), DatabaseError> {
    let wanted = options.connections + options.lane_connections;
    let row = client.query_one(ROOM, &[]).await?;
    let (locks, needed): (i64, usize) = (column(&row, "locks")?, locks_wanted(options));
    if usize::try_from(locks).is_ok_and(|locks| locks < needed) {
        tracing::warn!(
            locks,
            needed,
            "max_locks_per_transaction times max_connections is small: a sale of many rows may run \
             out of locks, and orders are sent again in smaller calls; raise \
             max_locks_per_transaction"
        );
    }
    let limit = |name: &'static str, most: &str, used: &str| {
        let used: i64 = column(&row, used)?;
        Ok::<_, DatabaseError>(Limit { name, most: column(&row, most)?, used: used - 1 })
    };
    let limits = [
        limit("max_connections less superuser_reserved_connections", "server", "used")?,
        limit("the database's CONNECTION LIMIT", "database", "database_used")?,
        limit("the role's CONNECTION LIMIT", "role", "role_used")?,
    ];
    match fit(i64::try_from(wanted).unwrap_or(i64::MAX), &limits) {
        Fit::Good => Ok(()),
        Fit::Tight(name, left) => {
            tracing::warn!(
                wanted,
                left,
                limit = name,
                "others use so many of the ledger's connections that not all of this core's can be \
                 had; then orders are told to come again: raise the limit, or run fewer cores"
            );
            Ok(())
        }
        Fit::Never(name, most) => Err(DatabaseError::Unsafe(format!(
            "this core needs up to {wanted} connections and {name} is {most}: raise it"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(rows: [(i64, i64); 3]) -> [Limit; 3] {
        let names = ["server", "database", "role"];
        let mut all = names.into_iter().zip(rows);
        std::array::from_fn(|_| {
            let (name, (most, used)) = all.next().unwrap();
            Limit { name, most, used }
        })
    }

    #[test]
    fn a_server_as_it_comes_has_locks_enough_for_two_cores_as_they_come() {
        assert!(
            locks_wanted(Options::default()) <= 64 * 100,
            "{}",
            locks_wanted(Options::default())
        );
    }

    #[test]
    fn rs_70_a_pool_that_can_never_be_filled_is_refused_and_a_tight_one_is_told() {
        for (rows, wanted, fits) in [
            ([(97, 3), (-1, 3), (-1, 3)], 16, Fit::Good),
            ([(97, 81), (-1, 3), (-1, 3)], 16, Fit::Good),
            ([(97, 82), (-1, 3), (-1, 3)], 16, Fit::Tight("server", 15)),
            ([(97, 120), (-1, 3), (-1, 3)], 16, Fit::Tight("server", 0)),
            ([(97, 3), (20, 5), (18, 4)], 16, Fit::Tight("role", 14)),
            ([(12, 0), (-1, 3), (-1, 3)], 16, Fit::Never("server", 12)),
            ([(97, 82), (15, 0), (10, 0)], 16, Fit::Never("role", 10)),
            ([(97, 0), (0, 0), (-1, 0)], 1, Fit::Never("database", 0)),
        ] {
            assert_eq!(fit(wanted, &limits(rows)), fits, "{rows:?}");
        }
    }
}
