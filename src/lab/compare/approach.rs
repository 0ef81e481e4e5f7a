//! The approaches to stock that are compared, in the order of the article; ours comes last.

use clap::ValueEnum;
use serde::Serialize;

/// One way of taking units.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Approach {
    /// SELECT, check in the program, UPDATE to the new value, three statements of their own.
    ReadThenWrite,
    /// The same in one Read Committed transaction.
    ReadCommitted,
    /// The same with SELECT … FOR UPDATE.
    ForUpdate,
    /// One guarded UPDATE, and nothing else.
    AtomicUpdate,
    /// A counter and a hold marker in Redis, by one Lua script.
    RedisLua,
    /// The article's transaction, its schema with the foreign key, its four round trips.
    ReservationTtl,
    /// One function call per order that writes the rows that lanes write.
    OneRoundTrip,
    /// A guarded UPDATE on one of several rows, walking on where it misses.
    Shards,
    /// Ours: what waits is taken in one call.
    Lanes,
}

impl Approach {
    /// As the command line and the report call it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::ReadThenWrite => "read-then-write",
            Self::ReadCommitted => "read-committed",
            Self::ForUpdate => "for-update",
            Self::AtomicUpdate => "atomic-update",
            Self::RedisLua => "redis-lua",
            Self::ReservationTtl => "reservation-ttl",
            Self::OneRoundTrip => "one-round-trip",
            Self::Shards => "shards",
            Self::Lanes => "lanes",
        }
    }

    /// Those that were asked for, each once and in this order; all if none was.
    pub(super) fn asked_for(asked: &[Self]) -> Vec<Self> {
        let all = Self::value_variants().iter().copied();
        all.filter(|approach| asked.is_empty() || asked.contains(approach)).collect()
    }

    /// Rows, or what else lets one in at a time, that takes are spread over.
    pub(super) fn locks(self, shards: u16) -> f64 {
        if self == Self::Shards { f64::from(shards) } else { 1.0 }
    }

    /// Whether two buyers may be given the same unit, however fast it goes.
    pub(super) fn is_wrong(self) -> bool {
        matches!(self, Self::ReadThenWrite | Self::ReadCommitted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_approach_is_called_the_same_everywhere() {
        for approach in Approach::value_variants() {
            let typed = approach.to_possible_value().unwrap();
            assert_eq!(typed.get_name(), approach.name());
            assert_eq!(serde_json::to_value(approach).unwrap(), approach.name());
        }
    }

    #[test]
    fn those_asked_for_come_once_and_in_the_articles_order() {
        let asked = [Approach::Lanes, Approach::ForUpdate, Approach::Lanes];
        assert_eq!(Approach::asked_for(&asked), [Approach::ForUpdate, Approach::Lanes]);
        assert_eq!(Approach::asked_for(&[]).len(), 9);
    }
}
