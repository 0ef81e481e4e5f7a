//! The clock of one connection, for hyper: it times every head that it waits for, one after the
//! other, and would make a timer anew each time.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use hyper::rt::{Sleep, Timer};

type Kept = Pin<Box<tokio::time::Sleep>>;

/// Hands out the timer that was given back last, set anew: to set it later takes no lock, where
/// to take one down and to put another up takes that of all cores twice.
#[derive(Clone, Default)]
pub(super) struct KeptTimer(Arc<Shared>);

#[derive(Default)]
struct Shared {
    kept: Mutex<Option<Kept>>,
    /// A request that hyper does not know of came since its timer was set.
    asked: AtomicBool,
}

impl KeptTimer {
    /// A request came and was answered without hyper: what it waits for may take as long again.
    pub(super) fn ask(&self) {
        self.0.asked.store(true, Ordering::Relaxed);
    }

    fn taken(&self) -> Option<Kept> {
        self.0.kept.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Timer for KeptTimer {
    fn now(&self) -> Instant {
        tokio::time::Instant::now().into()
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        self.sleep_until(self.now() + duration)
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        let span = deadline.saturating_duration_since(self.now());
        self.0.asked.store(false, Ordering::Relaxed);
        let sleep = match self.taken() {
            Some(mut kept) => {
                kept.as_mut().reset(deadline.into());
                kept
            }
            None => Box::pin(tokio::time::sleep_until(deadline.into())),
        };
        Box::pin(Lent { sleep: Some(sleep), span, to: self.clone() })
    }
}

/// Goes back when it is dropped.
struct Lent {
    sleep: Option<Kept>,
    span: Duration,
    to: KeptTimer,
}

impl Future for Lent {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let Some(sleep) = &mut this.sleep else { return Poll::Ready(()) };
        while sleep.as_mut().poll(context).is_ready() {
            if !this.to.0.asked.swap(false, Ordering::Relaxed) {
                return Poll::Ready(());
            }
            sleep.as_mut().reset(tokio::time::Instant::now() + this.span);
        }
        Poll::Pending
    }
}

impl Sleep for Lent {}

impl Drop for Lent {
    fn drop(&mut self) {
        *self.to.0.kept.lock().unwrap_or_else(PoisonError::into_inner) = self.sleep.take();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn whoever_asks_without_hyper_is_waited_for_as_long_again() {
        let (timer, begun) = (KeptTimer::default(), Instant::now());
        let span = Duration::from_millis(10);
        let sleep = timer.sleep(span);
        timer.ask();
        sleep.await;
        assert!(begun.elapsed() >= 2 * span);
        assert!(!timer.0.asked.load(Ordering::Relaxed), "once");
    }

    #[tokio::test]
    async fn a_timer_that_was_given_back_is_set_anew_sooner_or_later() {
        let timer = KeptTimer::default();
        timer.sleep(Duration::from_millis(1)).await;

        let mut long = timer.sleep(Duration::from_hours(1));
        assert!(timer.taken().is_none(), "the one timer is lent");
        assert!(futures_util::poll!(&mut long).is_pending());
        drop(long);
        let short = timer.sleep(Duration::from_millis(1));

        tokio::time::timeout(Duration::from_secs(10), short).await.unwrap();
        assert!(timer.taken().is_some());
    }
}
