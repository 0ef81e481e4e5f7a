//! The node's heartbeat: look at the room, then call the line on as far as the pacer says.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::MissedTickBehavior;

use super::{Reach, Room};
use crate::domain::calling::{Call, Calling};
use crate::domain::draw::Draw;
use crate::domain::pacer::TICK_MS;
use crate::domain::sale::{Control, Phase};
use crate::store::redis::RedisFailure;
use crate::store::redis::room::Advance;

impl Room {
    /// Looks and calls on the tick's grid, for ever.
    pub(super) async fn pace(&self) {
        let mut ticks = tokio::time::interval(Duration::from_millis(TICK_MS));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut calling = Calling::default();
        let (mut is_failing, mut prepared) = (false, None);
        loop {
            ticks.tick().await;
            let outcome = self.beat(&mut calling).await;
            self.prepare_draw(&mut prepared);
            // Said once at each change, not ten times a second.
            match &outcome {
                Err(error) if !is_failing => {
                    tracing::warn!(sale = %self.options.sale, %error, "room.out_of_reach");
                }
                Ok(()) if is_failing => {
                    tracing::info!(sale = %self.options.sale, "room.back");
                }
                Err(_) | Ok(()) => {}
            }
            is_failing = outcome.is_err();
            self.out_of_reach.store(is_failing, Ordering::Relaxed);
        }
    }

    async fn beat(&self, calling: &mut Calling) -> Result<(), RedisFailure> {
        self.look().await?;
        let seen = self.snapshot();
        let now_ms = seen.seen_ms();
        // Without a shop sale time stands still too: nobody's turn passes meanwhile.
        if !seen.is_live(now_ms) || seen.phase(now_ms) != Phase::Open || seen.shop_is_down {
            return Ok(());
        }
        let mut call = Call { to: seen.cursor, spare: 0 };
        if !seen.is_paused(now_ms) {
            call = calling.decide(&seen.view(now_ms, self.options.stock_aware));
        }
        self.spare.store(call.spare, Ordering::Relaxed);
        // Asked even when nobody is called: the step keeps sale time.
        let advance = self.store.advance(seen.cursor, call.to).await?;
        if let Advance::Moved(cursor) = advance {
            tracing::trace!(sale = %self.options.sale, cursor, "room.called");
        }
        Ok(())
    }

    pub(super) async fn look(&self) -> Result<(), RedisFailure> {
        self.look_in_turn(&mut *self.looking.lock().await).await
    }

    /// Has seen what is written by now. One look does for all who wait for it: the heartbeat is not
    /// kept waiting by each.
    pub(super) async fn has_looked(&self) -> Result<(), RedisFailure> {
        let next = self.looks.load(Ordering::Relaxed) + 1;
        let mut done = self.looking.lock().await;
        if *done < next { self.look_in_turn(&mut done).await } else { Ok(()) }
    }

    async fn look_in_turn(&self, done: &mut u64) -> Result<(), RedisFailure> {
        let number = self.looks.fetch_add(1, Ordering::Relaxed) + 1;
        let asked_ms = self.clock.local_ms();
        let before = self.snapshot();
        let (now_ms, state) = self.store.look_beyond(before.read()).await?;
        self.clock.heard(now_ms, asked_ms);
        if self.snapshot().is_slow_to_follow(state.as_ref()) {
            let (known, state) = (self.snapshot(), state.clone());
            let follow = tokio::task::spawn_blocking(move || known.next(now_ms, state));
            // It fails only when the process is about to end.
            if let Ok(prepared) = follow.await {
                self.snapshot.rcu(|seen| seen.drawn_as(&prepared));
            }
        }
        let told = match &state {
            Some(state) => Some(state.control.clone()),
            // A stop holds in a room that waits for a core as well.
            None => self.store.control().await?,
        };
        self.snapshot.rcu(|seen| {
            let next = seen.next(now_ms, state.clone());
            match &told {
                Some(control) if state.is_none() => next.told(now_ms, Reach::Redis, control),
                Some(_) | None => next,
            }
        });
        self.forecast(&self.snapshot.load());
        let known = &self.snapshot.load().control;
        if told.is_some_and(|told| told != *known) {
            // Redis missed a change that this node has heard of: it is handed back.
            self.store.adopt(known).await?;
        }
        *done = number;
        Ok(())
    }

    /// Has all positions worked out once the draw is made; meanwhile each is, when it is asked for.
    fn prepare_draw(&self, prepared: &mut Option<Arc<Draw>>) {
        let draw = self.snapshot.load().draw.clone();
        let is_new = |draw: &Arc<Draw>| prepared.as_ref().is_none_or(|old| !Arc::ptr_eq(old, draw));
        if let Some(draw) = draw.filter(is_new) {
            *prepared = Some(draw.clone());
            drop(tokio::task::spawn_blocking(move || draw.prepare()));
        }
    }

    /// Takes over what a core says is in force, while Redis does not answer.
    pub fn told_by_core(&self, control: &Control) {
        let now_ms = self.now_ms();
        self.snapshot.rcu(|seen| seen.told(now_ms, Reach::Core, control));
    }

    /// Looks on the tick's grid, for ever, and calls nobody: for a node without a gateway.
    pub(super) async fn look_on(&self) {
        let mut ticks = tokio::time::interval(Duration::from_millis(TICK_MS));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            ticks.tick().await;
            let outcome = self.look().await;
            self.out_of_reach.store(outcome.is_err(), Ordering::Relaxed);
        }
    }
}
