//! Tasks, signals, soft stop, hard stop. Everything that runs is spawned here.
//!
//! A stop has three stages: the public doors close and their connections drain; then, when the
//! last request has been answered or the deadline is over, the private ones, which those requests
//! relied on; then background work ends.

use std::future::Future;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// How long background work may take to end once nobody needs it any more.
const BACKGROUND_END_MAX: Duration = Duration::from_secs(3);

/// A long-running task ended, though nobody had told it to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{task} ended unexpectedly: {how}")]
pub struct DeadTask {
    task: &'static str,
    how: String,
}

/// Doors that close together, and the connections that came in by them.
#[derive(Clone, Default)]
pub struct Stage {
    closing: CancellationToken,
    tasks: TaskTracker,
}

impl Stage {
    /// Cancelled when the doors close: accept nothing new, finish what is under way.
    pub fn closing(&self) -> CancellationToken {
        self.closing.clone()
    }

    /// Where connections and other work that a drain waits for is spawned.
    pub fn tasks(&self) -> TaskTracker {
        self.tasks.clone()
    }

    /// Closes the doors and waits until all is done.
    async fn drained(&self) {
        self.closing.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

/// A handle on the life of the process, cheap to clone.
#[derive(Clone, Default)]
pub struct Lifecycle {
    public: Stage,
    private: Stage,
    ending: CancellationToken,
    background: TaskTracker,
    dead: Arc<OnceLock<DeadTask>>,
}

impl Lifecycle {
    /// The life of a process that has just begun.
    pub fn new() -> Self {
        Self::default()
    }

    /// The doors for shoppers.
    pub fn public(&self) -> &Stage {
        &self.public
    }

    /// The doors that they rely on, and those of the operators.
    pub fn private(&self) -> &Stage {
        &self.private
    }

    /// Cancelled when the stop begins.
    pub fn draining(&self) -> CancellationToken {
        self.public.closing()
    }

    /// Cancelled once all connections are drained or out of time: background work ends.
    pub fn ending(&self) -> CancellationToken {
        self.ending.clone()
    }

    /// Begins the soft stop.
    pub fn stop(&self) {
        self.public.closing.cancel();
    }

    /// Runs an accept loop: it must end when its stage closes and not before.
    pub fn serve<F>(&self, stage: &Stage, task: &'static str, work: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let watched = self.watch(task, stage.closing(), work);
        stage.tasks.spawn(watched);
    }

    /// Runs background work that requests rely on: it must end at [`Self::ending`] and not before.
    pub fn background<F>(&self, task: &'static str, work: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let watched = self.watch(task, self.ending.clone(), work);
        self.background.spawn(watched);
    }

    /// Runs short work that the end of the process waits for.
    pub fn once<F>(&self, work: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.background.spawn(work);
    }

    /// A task of its own, so that a panic is seen here as an end like any other.
    fn watch<F>(
        &self,
        task: &'static str,
        may_end: CancellationToken,
        work: F,
    ) -> impl Future<Output = ()> + Send + use<F>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let life = self.clone();
        async move {
            let ended = TaskTracker::new().spawn(work).await;
            let how = match ended {
                Ok(()) if may_end.is_cancelled() => return,
                Ok(()) => "it returned".to_owned(),
                Err(error) => error.to_string(),
            };
            let dead = DeadTask { task, how };
            tracing::error!(%dead, "stopping, because a part of the program is gone");
            // Only the first death is told; those that follow come from it.
            life.dead.get_or_init(|| dead);
            life.stop();
        }
    }

    /// Waits for SIGTERM, SIGINT or a dead task, then stops softly for at most `drain`, then hard.
    /// A second signal skips the waiting.
    pub async fn run(self, signals: Signals, drain: Duration) -> anyhow::Result<()> {
        let Signals { mut term, mut int } = signals;
        tokio::select! {
            _ = term.recv() => tracing::info!("SIGTERM: stopping"),
            _ = int.recv() => tracing::info!("SIGINT: stopping"),
            () = self.public.closing.cancelled() => {}
        }
        let drained = async {
            self.public.drained().await;
            self.private.drained().await;
        };
        tokio::select! {
            () = drained => {}
            () = tokio::time::sleep(drain) => tracing::warn!("requests were cut at the deadline"),
            _ = term.recv() => tracing::warn!("second SIGTERM: stopping at once"),
            _ = int.recv() => tracing::warn!("second SIGINT: stopping at once"),
        }
        self.private.closing.cancel();
        self.ending.cancel();
        self.background.close();
        if tokio::time::timeout(BACKGROUND_END_MAX, self.background.wait()).await.is_err() {
            tracing::warn!("background work did not end in time");
        }
        match self.dead.get() {
            Some(dead) => Err(dead.clone().into()),
            None => Ok(()),
        }
    }
}

/// SIGTERM and SIGINT, heard from the moment this exists: before anybody is told "ready".
pub struct Signals {
    term: Signal,
    int: Signal,
}

impl Signals {
    /// From now on these signals stop softly instead of killing.
    pub fn listen() -> std::io::Result<Self> {
        let (term, int) = (SignalKind::terminate(), SignalKind::interrupt());
        Ok(Self { term: signal(term)?, int: signal(int)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAIN: Duration = Duration::from_secs(5);

    #[tokio::test]
    async fn a_dead_task_stops_the_process() {
        let life = Lifecycle::new();
        let ending = life.ending();
        life.background("poller", async move { ending.cancelled().await });
        life.background("sweep", async { panic!("out of brooms") });

        let stopped = life.run(Signals::listen().unwrap(), DRAIN).await.unwrap_err();

        assert!(stopped.to_string().starts_with("sweep ended unexpectedly"), "{stopped}");
        assert!(stopped.to_string().contains("out of brooms"), "{stopped}");
    }

    #[tokio::test]
    async fn whatever_a_request_relies_on_outlives_it() {
        let life = Lifecycle::new();
        let (order, mut seen) = tokio::sync::mpsc::unbounded_channel();
        let after = |closing: CancellationToken, name: &'static str| {
            let order = order.clone();
            async move {
                closing.cancelled().await;
                tokio::task::yield_now().await;
                order.send(name).unwrap();
            }
        };
        life.background("lane", after(life.ending(), "lane"));
        for (stage, name) in [(life.private(), "core"), (life.public(), "shopper")] {
            stage.tasks().spawn(after(stage.closing(), name));
        }

        life.stop();
        life.run(Signals::listen().unwrap(), DRAIN).await.unwrap();

        for expected in ["shopper", "core", "lane"] {
            assert_eq!(seen.recv().await, Some(expected));
        }
    }

    #[tokio::test]
    async fn a_request_that_never_ends_is_cut_at_the_deadline() {
        let life = Lifecycle::new();
        life.public().tasks().spawn(std::future::pending::<()>());
        life.stop();
        life.run(Signals::listen().unwrap(), Duration::from_millis(1)).await.unwrap();
    }
}
