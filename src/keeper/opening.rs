//! The opening: a seed committed to before anybody can join, and n made durable before any
//! position exists.

use subtle::ConstantTimeEq;

use super::{Keeper, KeeperError, seal};
use crate::domain::draw;
use crate::store::postgres::{DrawRecord, OpeningRecord};
use crate::store::redis::room::{Freeze, Opening, RoomState};

/// No beacon.
const ROUND: u64 = 0;

impl Keeper {
    /// The run's seed; made, sealed and kept when the run is first seen.
    pub(super) async fn seed(&self, run: u64) -> Result<[u8; 32], KeeperError> {
        let database = self.ledger.database();
        let mut record = database.draw(&self.sale, run).await?;
        if record.is_none() {
            let mut seed = [0; 32];
            aws_lc_rs::rand::fill(&mut seed).map_err(|_| KeeperError::NoSeed)?;
            let sealed_seed =
                seal::seal(&self.seal_key, &self.sale, run, &seed).ok_or(KeeperError::NoSeed)?;
            let commitment = draw::commitment(&self.sale, run, ROUND, &seed).to_vec();
            // Another core may have been first: what is kept counts.
            database.keep_draw(&self.sale, run, &DrawRecord { sealed_seed, commitment }).await?;
            record = database.draw(&self.sale, run).await?;
        }
        let sealed = || KeeperError::Sealed(self.sale.clone());
        let record = record.ok_or_else(sealed)?;
        let seed = seal::unseal(&self.seal_key, &self.sale, run, &record.sealed_seed)
            .ok_or_else(sealed)?;
        let commitment = draw::commitment(&self.sale, run, ROUND, &seed);
        let is_kept = bool::from(commitment[..].ct_eq(&record.commitment));
        if is_kept { Ok(seed) } else { Err(sealed()) }
    }

    /// The published hash of a seed.
    pub(super) fn commitment(&self, run: u64, seed: &[u8; 32]) -> [u8; 32] {
        draw::commitment(&self.sale, run, ROUND, seed)
    }

    /// What an opening record means with its seed.
    pub(super) fn opening(&self, record: OpeningRecord, seed: [u8; 32]) -> Opening {
        let key = draw::key(&self.sale, &seed, record.n, &[]);
        Opening { n: record.n, opened_at_ms: record.opened_at_ms, seed, key }
    }

    /// Freezes the entries at the opening second, makes n durable, then opens. Any core may do
    /// any of it, and do it again.
    pub(super) async fn open_when_due(
        &self,
        now_ms: u64,
        state: &RoomState,
    ) -> Result<(), KeeperError> {
        let is_due = state.frozen || now_ms >= state.control.opens_ms;
        if state.opening.is_some() || !is_due {
            return Ok(());
        }
        let run = state.control.run;
        let Freeze::Frozen { n, at_ms: opened_at_ms } = self.room.freeze(run).await? else {
            return Ok(());
        };
        let asked = OpeningRecord { n, opened_at_ms };
        let kept = self.ledger.database().keep_opening(&self.sale, run, asked).await?;
        let opening = self.opening(kept, self.seed(run).await?);
        if self.room.open(run, &opening).await? {
            tracing::info!(sale = %self.sale, run, n = opening.n, "keeper.opened");
        }
        Ok(())
    }
}
