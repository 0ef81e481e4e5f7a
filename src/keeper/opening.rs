//! The opening: a seed committed to before anybody can join, and n made durable before any
//! position exists.

use subtle::ConstantTimeEq;

use super::{Keeper, KeeperError, seal};
use crate::domain::beacon::{self, SignatureBytes};
use crate::domain::draw;
use crate::domain::id::SaleId;
use crate::domain::sale::Control;
use crate::store::postgres::{DrawRecord, OpeningRecord};
use crate::store::redis::room::{Freeze, Opening, RoomState};

/// What a run's draw is made from, besides n.
pub(super) struct Secret {
    seed: [u8; 32],
    /// The beacon round committed to; 0 = none.
    pub(super) round: u64,
    /// Its signature, once somebody has told it.
    signature: Option<SignatureBytes>,
    /// The published hash.
    pub(super) commitment: [u8; 32],
}

impl Secret {
    /// What an opening record means; nothing while the beacon is not there.
    pub(super) fn opening(&self, sale: &SaleId, record: OpeningRecord) -> Option<Opening> {
        if self.round > 0 && self.signature.is_none() {
            return None;
        }
        let OpeningRecord { n, opened_at_ms } = record;
        let (seed, signature) = (self.seed, self.signature);
        let key = draw::key(sale, &seed, n, signature.as_ref());
        Some(Opening { n, opened_at_ms, seed, key, signature })
    }
}

impl Keeper {
    /// The run's secret; made, sealed and kept when the run is first seen. From then on its round
    /// is the one committed to, whatever a file says.
    pub(super) async fn secret(&self, control: &Control) -> Result<Secret, KeeperError> {
        let (database, run) = (self.ledger.database(), control.run);
        let mut record = database.draw(&self.sale, run).await?;
        if record.is_none() {
            // Another core may have been first: what is kept counts.
            let draw = match self.mirrored(run).await? {
                Some(mirrored) => mirrored,
                None => self.fresh(control)?,
            };
            database.keep_draw(&self.sale, run, &draw).await?;
            if let Some(signature) = &draw.signature {
                database.keep_beacon(&self.sale, run, signature).await?;
            }
            record = database.draw(&self.sale, run).await?;
        }
        let sealed = || KeeperError::Sealed(self.sale.clone());
        let record = record.ok_or_else(sealed)?;
        let seed = seal::unseal(&self.seal_key, &self.sale, run, &record.sealed_seed)
            .ok_or_else(sealed)?;
        let commitment = draw::commitment(&self.sale, run, record.round, &seed);
        let is_kept = bool::from(commitment[..].ct_eq(&record.commitment));
        let DrawRecord { round, signature, .. } = record;
        if is_kept { Ok(Secret { seed, round, signature, commitment }) } else { Err(sealed()) }
    }

    /// A draw whose round nobody can know before the opening.
    fn fresh(&self, control: &Control) -> Result<DrawRecord, KeeperError> {
        let (run, round) = (control.run, self.beacon_round);
        if round > 0 && beacon::is_too_early(round, control.opens_ms) {
            return Err(KeeperError::BeaconEarly {
                sale: self.sale.clone(),
                round,
                run,
                first: beacon::first_for(control.opens_ms),
            });
        }
        let mut seed = [0; 32];
        aws_lc_rs::rand::fill(&mut seed).map_err(|_| KeeperError::NoSeed)?;
        self.sealed(run, round, &seed)
    }

    fn sealed(&self, run: u64, round: u64, seed: &[u8; 32]) -> Result<DrawRecord, KeeperError> {
        let sealed_seed =
            seal::seal(&self.seal_key, &self.sale, run, seed).ok_or(KeeperError::NoSeed)?;
        let commitment = draw::commitment(&self.sale, run, round, seed).to_vec();
        Ok(DrawRecord { sealed_seed, commitment, round, signature: None })
    }

    /// The draw that the room in Redis has published a commitment of, if it has: a ledger from an
    /// older backup may lack it. Only once it is open is the seed there to be read.
    async fn mirrored(&self, run: u64) -> Result<Option<DrawRecord>, KeeperError> {
        // A Redis that is not there has published nothing that an opening would not be held against.
        let Ok((_, Some(state))) = self.room.look().await else { return Ok(None) };
        if state.control.run != run || state.commitment.is_empty() {
            return Ok(None);
        }
        let other = || KeeperError::OtherDraw(self.sale.clone(), run);
        let opening = state.opening.ok_or_else(other)?;
        let draw = self.sealed(run, state.round, &opening.seed)?;
        if hex::encode(&draw.commitment) != state.commitment {
            return Err(other());
        }
        Ok(Some(DrawRecord { signature: opening.signature, ..draw }))
    }

    /// Sees to it that the ledger has the opening that Redis has.
    pub(super) async fn carry_opening(
        &self,
        state: &RoomState,
        opening: &Opening,
    ) -> Result<(), KeeperError> {
        let run = state.control.run;
        self.published(state).await?;
        let Opening { n, opened_at_ms, .. } = *opening;
        let asked = OpeningRecord { n, opened_at_ms };
        self.ledger.database().keep_opening(&self.sale, run, asked).await?;
        Ok(())
    }

    /// The secret whose commitment the room has published.
    async fn published(&self, state: &RoomState) -> Result<Secret, KeeperError> {
        let secret = self.secret(&state.control).await?;
        if hex::encode(secret.commitment) == state.commitment {
            Ok(secret)
        } else {
            Err(KeeperError::OtherDraw(self.sale.clone(), state.control.run))
        }
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
        let secret = self.published(state).await?;
        let kept = self.ledger.database().keep_opening(&self.sale, run, asked).await?;
        // Without its beacon the sale waits: everybody sees that it is drawing.
        let Some(opening) = secret.opening(&self.sale, kept) else {
            return Ok(());
        };
        if self.room.open(run, &opening).await? {
            tracing::info!(sale = %self.sale, run, n = opening.n, "keeper.opened");
        }
        Ok(())
    }
}
