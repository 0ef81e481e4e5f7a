//! `stanchion crowd`: runs a crowd, collects the evidence, judges, reports.

use std::io::Write;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;

use super::behaviour::Behaviour;
use super::crowd::{self, Controls, CoreAccess, Flush, Plan};
use super::report::{self, Sources};
use crate::config::span::Span;

/// The command line was wrong.
const USAGE: u8 = 2;

/// Arguments of the crowd.
#[derive(Args)]
pub struct Crowd {
    /// A gateway, as http://127.0.0.1:8080; several are gone round.
    #[arg(value_name = "URL", required = true)]
    gateways: Vec<String>,
    /// The sale's id.
    #[arg(long)]
    sale: String,
    /// What to buy; else the first SKU of the sale.
    #[arg(long)]
    sku: Option<String>,
    #[command(flatten)]
    behaviour: Behaviour,
    /// The core, http://HOST:PORT; without it and its keys fewer promises can be checked.
    #[arg(long, value_name = "URL")]
    core: Option<String>,
    /// The core's ops listener, http://HOST:PORT.
    #[arg(long, value_name = "URL")]
    core_ops: Option<String>,
    /// The sample shop, http://HOST:PORT.
    #[arg(long, value_name = "URL")]
    shop: Option<String>,
    /// The core's bearer key.
    #[arg(long, env = "STANCHION_CORE_KEY", hide_env_values = true)]
    core_key: Option<String>,
    /// The key for sweeps and reconciles.
    #[arg(long, env = "STANCHION_OPS_KEY", hide_env_values = true)]
    ops_key: Option<String>,
    /// The ledger, read directly at the end.
    #[arg(long, env = "DATABASE_URL", hide_env_values = true)]
    database_url: Option<String>,
    /// The gate, read directly at the end.
    #[arg(long, env = "REDIS_URL", hide_env_values = true)]
    redis_url: Option<String>,
    /// The most sockets of the whole crowd, kept open as a CDN's are.
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u16).range(1..))]
    sockets: u16,
    /// Decides who does what; the same seed is the same crowd.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Whoever is not done this long after the start gives up.
    #[arg(long, default_value = "15m", value_parser = Span::parse)]
    patience: Span,
}

impl Crowd {
    /// The ops key opens reads too.
    fn core_access(&self) -> Option<CoreAccess> {
        let key = self.ops_key.clone().or_else(|| self.core_key.clone())?;
        Some(CoreAccess { url: trimmed(self.core.as_ref()?), key })
    }

    fn plan(&self) -> Plan {
        Plan {
            gateways: self.gateways.iter().map(|url| trimmed(url)).collect(),
            sale: self.sale.clone(),
            sku: self.sku.clone(),
            qty: self.behaviour.qty,
            shoppers: usize::try_from(self.behaviour.shoppers).unwrap_or(usize::MAX),
            mix: self.behaviour.mix(),
            core: self.core_access(),
            core_ops: self.core_ops.as_deref().map(trimmed),
            sockets_max: usize::from(self.sockets),
            seed: self.seed,
            patience: self.patience.duration(),
            accounts_asked: self.behaviour.accounts.is_some_and(|share| share > 0.0),
            flush: self.flush(),
            controls: self.controls(),
        }
    }

    fn flush(&self) -> Option<Flush> {
        let after = self.behaviour.flush_redis_at?.duration();
        Some(Flush { after, redis_url: self.redis_url.clone()? })
    }

    fn controls(&self) -> Option<Controls> {
        let ops = self.core_ops.as_deref().filter(|_| self.behaviour.try_controls)?;
        Some(Controls { ops: CoreAccess { url: trimmed(ops), key: self.ops_key.clone()? } })
    }

    /// What is asked for cannot be done with what is given.
    fn misses(&self) -> Option<&'static str> {
        let asked = &self.behaviour;
        if asked.flush_redis_at.is_some() && self.redis_url.is_none() {
            Some("--flush-redis-at needs --redis-url or REDIS_URL: the Redis to be emptied")
        } else if asked.try_controls && self.controls().is_none() {
            Some("--try-controls needs --core-ops, and --ops-key or STANCHION_OPS_KEY")
        } else {
            None
        }
    }

    fn sources(&self) -> Sources {
        let shop = self.shop.as_ref().zip(self.core_key.as_ref());
        Sources {
            gateway: self.gateways.first().map(|url| trimmed(url)).unwrap_or_default(),
            sale: self.sale.clone(),
            core: self.core_access(),
            core_ops: self.core_ops.as_deref().map(trimmed),
            database_url: self.database_url.clone(),
            redis_url: self.redis_url.clone(),
            shop: shop.map(|(url, key)| CoreAccess { url: trimmed(url), key: key.clone() }),
        }
    }
}

fn trimmed(url: &str) -> String {
    url.trim_end_matches('/').to_owned()
}

/// Exit code 0 only if every promise that has to be checked was found true and none false.
pub(super) async fn run(args: Crowd) -> Result<ExitCode> {
    if let Some(missing) = args.misses() {
        writeln!(std::io::stderr(), "error: {missing}")?;
        return Ok(USAGE.into());
    }
    if let Err(error) = rlimit::increase_nofile_limit(u64::MAX) {
        tracing::warn!(%error, "the file limit stays as it is");
    }
    let seen = crowd::run(args.plan()).await?;
    let evidence = report::collect(&args.sources()).await;
    let report = report::judge(&seen, &evidence);
    if let Some(file) = &args.behaviour.json {
        let json = serde_json::to_string_pretty(&report)?;
        std::fs::write(file, json + "\n").with_context(|| format!("writing {}", file.display()))?;
    }
    if let Some(file) = &args.behaviour.html {
        let page = report::page(&report).context("the report's page")?;
        std::fs::write(file, page).with_context(|| format!("writing {}", file.display()))?;
    }
    let errors: Vec<_> = seen.shoppers.iter().flat_map(|s| &s.errors).take(5).collect();
    for error in errors {
        tracing::warn!(%error, "one of the errors");
    }
    write!(std::io::stdout(), "{}", report::table(&report))?;
    Ok(if report.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
