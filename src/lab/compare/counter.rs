//! The article's Redis counter: its script, and what a restart does to the count.

use anyhow::{Context, Result, bail};
use redis::aio::MultiplexedConnection;
use redis::{AsyncCommands, Script};

use super::ground::Ground;
use super::order::Order;
use super::tally::{Lock, Outcome};

/// Where the units are.
pub(super) const STOCK_KEY: &str = "stock:SKU-FLASH-01";
const HOLD_SECONDS: u32 = 600;

/// One client of the connection that all share.
pub(super) struct Counter {
    redis: MultiplexedConnection,
    reserve: Script,
}

impl Counter {
    pub(super) fn open(ground: &Ground) -> Self {
        Self { redis: ground.redis(), reserve: Script::new(include_str!("reserve.lua")) }
    }

    pub(super) async fn take(&mut self, order: &Order) -> Result<Outcome> {
        let mut call = self.reserve.prepare_invoke();
        call.key(STOCK_KEY).key(format!("hold:SKU-FLASH-01:{}", order.key));
        let said: i64 = call.arg(order.qty).arg(HOLD_SECONDS).invoke_async(&mut self.redis).await?;
        match said {
            0.. => Ok(Outcome::Granted(Lock::Unseen)),
            -1 => Ok(Outcome::SoldOut),
            other => bail!("the script answered {other}"),
        }
    }
}

/// Forgets how often the script ran.
pub(super) async fn reset_script_time(ground: &Ground) -> Result<()> {
    redis::cmd("CONFIG").arg("RESETSTAT").query_async::<()>(&mut ground.redis()).await?;
    Ok(())
}

/// Microseconds that one call of the script kept Redis busy, since then.
pub(super) async fn script_us(ground: &Ground) -> Result<f64> {
    let mut info = redis::cmd("INFO");
    let said: String = info.arg("commandstats").query_async(&mut ground.redis()).await?;
    usec_per_call(&said, "evalsha").context("Redis does not say how long its scripts take")
}

fn usec_per_call(info: &str, command: &str) -> Option<f64> {
    let line = info.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:")))?;
    let figure = line.split(',').find_map(|figure| figure.strip_prefix("usec_per_call="))?;
    figure.trim().parse().ok()
}

/// Sells on after a snapshot, kills Redis and starts it again: how much too high the count is then.
pub(super) async fn drift_after_restart(ground: &mut Ground, sold_since: i32) -> Result<i64> {
    redis::cmd("SAVE").query_async::<()>(&mut ground.redis()).await?;
    let mut client = Counter::open(ground);
    for _ in 0..sold_since {
        client.take(&Order::new()).await?;
    }
    let truth: i64 = ground.redis().get(STOCK_KEY).await?;
    ground.restart_redis().await?;
    let restored: i64 = ground.redis().get(STOCK_KEY).await?;
    Ok(restored - truth)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scripts_time_is_read_from_what_redis_tells() {
        let info = "# Commandstats\r\n\
                    cmdstat_set:calls=3,usec=5,usec_per_call=1.67,rejected_calls=0\r\n\
                    cmdstat_evalsha:calls=2,usec=9,usec_per_call=4.50,rejected_calls=0\r\n";
        assert_eq!(usec_per_call(info, "evalsha"), Some(4.5));
        assert_eq!(usec_per_call(info, "eval"), None);
    }
}
