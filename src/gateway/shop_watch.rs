//! Nobody is called to a shop that is not there, or to a core that takes no orders: the shop's addresses
//! are watched, and every line told.

use std::time::Duration;

use tokio::time::MissedTickBehavior;

use super::Gateway;

/// How soon a line stands still once the last address of the shop is down, or orders wait in vain.
const TELL_EVERY: Duration = Duration::from_millis(200);

impl Gateway {
    /// Watches the shop and tells the rooms of this node; for ever.
    pub async fn watch_shop(&self) {
        tokio::join!(self.shop.upstream().watch(), self.tell_rooms());
    }

    async fn tell_rooms(&self) {
        let mut ticks = tokio::time::interval(TELL_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut was_down = false;
        loop {
            ticks.tick().await;
            let is_down = self.shop.upstream().is_down();
            self.counted.shop(self.shop.upstream().up());
            if is_down != was_down {
                if is_down {
                    tracing::error!("the shop is down: the lines stand still, places are kept");
                } else {
                    tracing::info!("the shop is back: the lines move again");
                }
            }
            was_down = is_down;
            for sale in &self.sales {
                sale.room.shop_is_down(is_down);
                sale.room.core_is_slow(self.core.is_slow());
            }
        }
    }
}
