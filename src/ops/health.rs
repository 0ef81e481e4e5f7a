//! Whether this node can do its role's work, and how each thing it rests on is doing.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde::Serialize;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

/// How long a dependency may take to answer.
const PROBE_MAX: Duration = Duration::from_secs(1);
/// How long an answer is good for: however often we are asked, probes are this rare.
const FRESH: Duration = Duration::from_millis(200);

/// Ok, or what is wrong.
pub type Probed = Result<(), String>;
type Probe = Box<dyn Fn() -> Pin<Box<dyn Future<Output = Probed> + Send>> + Send + Sync>;

struct Dependency {
    name: &'static str,
    needed: bool,
    probe: Probe,
}

/// The dependencies of this node; filled while it starts.
pub struct Health {
    dependencies: Vec<Dependency>,
    draining: CancellationToken,
    /// Also held while probing, so that many askers are one probe.
    last: Mutex<Option<(Instant, Arc<Report>)>>,
}

/// What `/readyz` says.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Whether this node can do its work.
    pub ready: bool,
    /// Whether it is on its way out.
    pub draining: bool,
    /// Each dependency, by name.
    pub dependencies: BTreeMap<&'static str, State>,
}

/// One dependency.
#[derive(Debug, Serialize)]
pub struct State {
    /// Whether it answers.
    pub ok: bool,
    /// Whether this node is ready only with it.
    pub needed: bool,
    /// What is wrong, "" if nothing is.
    pub detail: String,
}

impl Health {
    /// Ready as long as nothing is needed, until `draining`.
    pub fn new(draining: CancellationToken) -> Self {
        Self { dependencies: Vec::new(), draining, last: Mutex::new(None) }
    }

    /// Adds one that the node cannot do its work without, or that is only shown.
    pub fn add<F>(
        &mut self,
        name: &'static str,
        needed: bool,
        probe: impl Fn() -> F + Send + Sync + 'static,
    ) where
        F: Future<Output = Probed> + Send + 'static,
    {
        let probe: Probe = Box::new(move || Box::pin(probe()));
        self.dependencies.push(Dependency { name, needed, probe });
    }

    /// Asks all of them at once, or remembers that it has just done so.
    pub async fn report(&self) -> Arc<Report> {
        let mut last = self.last.lock().await;
        let draining = self.draining.is_cancelled();
        if let Some((at, report)) = last.as_ref()
            && at.elapsed() < FRESH
            && report.draining == draining
        {
            return Arc::clone(report);
        }
        let states = join_all(self.dependencies.iter().map(ask)).await;
        let ready = !draining && states.iter().all(|(_, state)| state.ok || !state.needed);
        let dependencies = states.into_iter().collect();
        let report = Arc::new(Report { ready, draining, dependencies });
        *last = Some((Instant::now(), Arc::clone(&report)));
        report
    }
}

async fn ask(dependency: &Dependency) -> (&'static str, State) {
    let answer = tokio::time::timeout(PROBE_MAX, (dependency.probe)()).await;
    let answer = answer.unwrap_or_else(|_| Err("did not answer within a second".to_owned()));
    let needed = dependency.needed;
    let state = State { ok: answer.is_ok(), needed, detail: answer.err().unwrap_or_default() };
    (dependency.name, state)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    async fn fine() -> Probed {
        Ok(())
    }

    #[tokio::test]
    async fn only_what_is_needed_counts_and_all_is_listed() {
        let mut health = Health::new(CancellationToken::new());
        health.add("redis", true, fine);
        health.add("shop", false, std::future::pending);

        let report = health.report().await;

        assert!(report.ready);
        assert!(!report.dependencies["shop"].ok);
        assert_eq!(report.dependencies["shop"].detail, "did not answer within a second");
    }

    #[tokio::test]
    async fn a_node_is_not_ready_without_what_it_needs_nor_while_it_drains() {
        static UP: AtomicBool = AtomicBool::new(false);
        let draining = CancellationToken::new();
        let mut health = Health::new(draining.clone());
        health.add("postgres", true, async || {
            if UP.load(Ordering::Relaxed) { Ok(()) } else { Err("is down".to_owned()) }
        });
        assert!(!health.report().await.ready);

        UP.store(true, Ordering::Relaxed);
        tokio::time::sleep(FRESH).await;
        assert!(health.report().await.ready);

        draining.cancel();
        assert!(!health.report().await.ready);
    }
}
