//! Logs to stderr, and the one registry of metrics.

mod per_core;

use std::io::IsTerminal;
use std::sync::{Mutex, PoisonError};

use prometheus_client::encoding::prometheus_text;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

pub use per_core::{CoreCounter, PerCore};

use crate::config::settings::LogFormat;

/// Starts logging to stderr: `RUST_LOG` decides what, `info` and above by default. A second call
/// changes nothing, so that tests may share a process.
pub fn start_logs(format: LogFormat) {
    start_logs_from(format, LevelFilter::INFO);
}

/// The same with another default.
pub fn start_logs_from(format: LogFormat, least: LevelFilter) {
    let filter = EnvFilter::builder().with_default_directive(least.into()).from_env_lossy();
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let started = match format {
        LogFormat::Text => logs.with_ansi(std::io::stderr().is_terminal()).try_init(),
        LogFormat::Json => logs.json().flatten_event(true).with_ansi(false).try_init(),
    };
    if let Err(error) = started {
        tracing::debug!(%error, "logs were started before");
    }
}

/// The process' metrics: made once, passed by `Arc`. Each part keeps a struct of its own counters
/// and puts clones of them in here. Names get the prefix `stanchion_`; a counter's `_total` is
/// added by the exposition.
pub struct Metrics {
    registry: Mutex<Registry>,
    config_reloaded: Gauge,
}

impl Metrics {
    /// A registry that knows the build and that the settings were read.
    pub fn new(role: &'static str) -> Self {
        let mut registry = Registry::with_prefix("stanchion");
        let build = Family::<Vec<(&'static str, &'static str)>, Gauge>::default();
        let labels = vec![("version", env!("CARGO_PKG_VERSION")), ("role", role)];
        build.get_or_create_owned(&labels).set(1);
        registry.register("build_info", "Always 1; the labels say what runs", build);
        let config_reloaded = Gauge::default();
        config_reloaded.set(1);
        registry.register(
            "config_last_reload_successful",
            "1 if the settings file was good when last read, 0 if it was refused",
            config_reloaded.clone(),
        );
        Self { registry: Mutex::new(registry), config_reloaded }
    }

    /// Lets a part put its own metrics in.
    pub fn register<T>(&self, fill: impl FnOnce(&mut Registry) -> T) -> T {
        fill(&mut self.registry.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether the settings file was good when last read.
    pub fn config_reloaded(&self, good: bool) {
        self.config_reloaded.set(i64::from(good));
    }

    /// The exposition, Prometheus' text format 0.0.4.
    pub fn text(&self) -> String {
        let registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        let mut text = String::new();
        if let Err(error) = prometheus_text::encode(&mut text, &registry) {
            tracing::error!(%error, "the metrics could not be written");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::metrics::counter::Counter;

    use super::*;

    #[test]
    fn each_part_adds_its_own_metrics_to_the_one_exposition() {
        let metrics = Metrics::new("core");
        let takes = Counter::<u64>::default();
        metrics.register(|registry| {
            registry.register("ledger_takes", "Takes that reached Postgres", takes.clone());
        });

        takes.inc_by(3);
        metrics.config_reloaded(false);

        let text = metrics.text();
        assert!(text.contains("stanchion_ledger_takes_total 3"), "{text}");
        assert!(text.contains("stanchion_config_last_reload_successful 0"), "{text}");
        assert!(text.contains("role=\"core\""), "{text}");
    }
}
