//! Admissions whose signature was checked of late, by their token.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError};

use crate::domain::admission::Admission;

/// How many verified admissions are remembered in each of two halves.
const VERIFIED_MAX: usize = 8_192;
/// Of a token's end, which is of its signature, so much is looked up by: no two differ elsewhere
/// alone.
const LOOKED_UP: usize = 32;

/// Verified admissions by their token. When the young half is full it becomes the old one, and the
/// old one is forgotten.
#[derive(Default)]
pub(super) struct Verified {
    hasher: RandomState,
    halves: Mutex<Halves>,
}

/// By a hash that nobody outside can compute.
#[derive(Default)]
struct Halves {
    young: HashMap<u64, Known>,
    old: HashMap<u64, Known>,
}

struct Known {
    token: Box<str>,
    admission: Arc<Admission>,
}

impl Verified {
    pub(super) fn get(&self, token: &str) -> Option<Arc<Admission>> {
        let key = self.key(token);
        let halves = self.halves.lock().unwrap_or_else(PoisonError::into_inner);
        let known = halves.young.get(&key).or_else(|| halves.old.get(&key));
        known.filter(|known| *known.token == *token).map(|known| Arc::clone(&known.admission))
    }

    pub(super) fn put(&self, token: &str, admission: Arc<Admission>) {
        let (key, known) = (self.key(token), Known { token: token.into(), admission });
        let mut halves = self.halves.lock().unwrap_or_else(PoisonError::into_inner);
        if halves.young.len() >= VERIFIED_MAX {
            halves.old = std::mem::take(&mut halves.young);
        }
        halves.young.insert(key, known);
    }

    fn key(&self, token: &str) -> u64 {
        let token = token.as_bytes();
        self.hasher.hash_one(&token[token.len().saturating_sub(LOOKED_UP)..])
    }
}
