//! Requests under way, counted by whoever has them there: nobody takes all the places.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::{Arc, Mutex, PoisonError};

/// Counts are spread over so many locks, by key.
const SHARDS: usize = 64;

/// Counts by key of what is under way now; it holds no other keys.
#[derive(Debug)]
pub struct UnderWay {
    hasher: RandomState,
    shards: [Mutex<HashMap<u64, u32>>; SHARDS],
}

/// Too many are under way for the same key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Crowded;

impl UnderWay {
    /// Nothing is under way yet.
    pub fn new() -> Arc<Self> {
        let shards = std::array::from_fn(|_| Mutex::default());
        Arc::new(Self { hasher: RandomState::new(), shards })
    }

    /// One more of `who`, unless `most` are under way; it ends when the place is dropped. Who is
    /// known by a hash that nobody outside can compute.
    pub fn enter(self: &Arc<Self>, who: &impl Hash, most: usize) -> Result<Place, Crowded> {
        let key = self.hasher.hash_one(who);
        let mut counts = self.counts(key);
        let count = counts.entry(key).or_default();
        if usize::try_from(*count).unwrap_or(usize::MAX) >= most {
            return Err(Crowded);
        }
        *count += 1;
        drop(counts);
        Ok(Place { under_way: Arc::clone(self), key })
    }

    fn counts(&self, key: u64) -> std::sync::MutexGuard<'_, HashMap<u64, u32>> {
        let shard = usize::try_from(key % SHARDS as u64).unwrap_or(0);
        self.shards[shard].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One request under way.
#[derive(Debug)]
pub struct Place {
    under_way: Arc<UnderWay>,
    key: u64,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = self.under_way.counts(self.key);
        if let Some(count) = counts.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_so_many_at_once_and_nothing_is_kept_of_who_has_none() {
        let under_way = UnderWay::new();
        let (one, two) = (under_way.enter(&"a", 2), under_way.enter(&"a", 2));
        assert!(one.is_ok() && two.is_ok());
        assert_eq!(under_way.enter(&"a", 2).unwrap_err(), Crowded);
        assert!(under_way.enter(&"b", 2).is_ok(), "another pays for itself");

        drop(one);
        assert!(under_way.enter(&"a", 2).is_ok());

        drop(two);
        assert!(under_way.shards.iter().all(|shard| shard.lock().unwrap().is_empty()));
    }
}
