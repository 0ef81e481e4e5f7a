//! Waiting that is timed, again and again.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

/// One pause after the other. Nothing is timed while nobody waits, so what flows costs no timer;
/// the timer of one pause stays for the next, because to set it later takes no lock.
#[derive(Default)]
pub(super) struct Pause {
    since: Option<Instant>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Pause {
    /// Waits, from the first call on; comes when it has been `max`.
    pub(super) fn poll(&mut self, context: &mut Context<'_>, max: Duration) -> Poll<()> {
        if self.since.is_none() {
            let now = Instant::now();
            self.since = Some(now);
            match &mut self.timer {
                Some(timer) => timer.as_mut().reset(now + max),
                None => self.timer = Some(Box::pin(tokio::time::sleep_until(now + max))),
            }
        }
        self.timer.as_mut().map_or(Poll::Pending, |timer| timer.as_mut().poll(context))
    }

    /// The wait is over; how long it was, if there was one.
    pub(super) fn end(&mut self) -> Option<Duration> {
        self.since.take().map(|since| since.elapsed())
    }
}
