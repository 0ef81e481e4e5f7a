//! One runtime for each processor core, for what serves the public. What comes in on a core stays
//! there: its sockets and timers are that core's own, and so are the connections that it keeps to
//! services. No core waits for another, and none is woken to help.

use std::cell::Cell;
use std::io;
use std::num::NonZero;

use tokio::runtime::{Builder, Handle};
use tokio_util::sync::CancellationToken;

thread_local! {
    /// Counted from 1; 0 is whatever is no core.
    static CORE: Cell<usize> = const { Cell::new(0) };
}

/// The core that this thread is; 0 for all threads that are none.
pub(super) fn current() -> usize {
    CORE.get()
}

/// One more than the last core, to be counted by.
pub(super) fn places() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get) + 1
}

/// One core's runtime.
#[derive(Debug, Clone)]
pub struct Core(Handle);

impl Core {
    /// Starts one for every core of the machine; they run until `ending`.
    pub fn start_all(ending: &CancellationToken) -> io::Result<Vec<Self>> {
        (1..places()).map(|number| Self::start(number, ending.clone())).collect()
    }

    fn start(number: usize, ending: CancellationToken) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        std::thread::Builder::new().name(format!("edge-{number}")).spawn(move || {
            CORE.set(number);
            runtime.block_on(ending.cancelled());
        })?;
        Ok(Self(handle))
    }

    /// Runs `work` on this core, with all that it spawns; a panic of it is one here.
    pub fn run<F>(&self, work: F) -> impl Future<Output = ()> + Send + use<F>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let handle = self.0.clone();
        async move {
            match handle.spawn(work).await {
                Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
                Ok(()) | Err(_) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_runs_on_a_core_stays_there() {
        let ending = CancellationToken::new();
        let cores = Core::start_all(&ending).unwrap();
        assert_eq!(current(), 0, "a test is no core");

        for (at, core) in cores.iter().enumerate() {
            let (tell, told) = tokio::sync::oneshot::channel();
            let work = async move {
                tokio::task::yield_now().await;
                let spawned = tokio::spawn(async { current() }).await;
                tell.send((current(), spawned.unwrap())).unwrap();
            };
            core.run(work).await;
            assert_eq!(told.await.unwrap(), (at + 1, at + 1));
        }
        ending.cancel();
    }
}
