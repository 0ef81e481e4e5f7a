//! What a process is made of: core, stores, ops, keys, logs.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::config::span::Span;

/// `[core]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Core {
    /// Where the core listens. Restart-only.
    pub listen: SocketAddr,
    /// Where gateways find it. Restart-only.
    pub url: String,
    /// Environment variable of the bearer key for reservations and reads. Restart-only.
    pub key_env: String,
    /// Environment variable of the Postgres URL. Restart-only.
    pub database_url_env: String,
    /// How often lapsed holds are swept. Restart-only.
    pub sweep_every: Span,
    /// How often gate and ledger are compared. Restart-only.
    pub reconcile_every: Span,
    /// Several database hosts without a synchronous standby are accepted: a failover may then
    /// lose what was acknowledged. Restart-only.
    pub accept_lost_commits: bool,
    /// Where events are delivered to.
    #[serde(rename = "webhook")]
    pub webhooks: Vec<Webhook>,
}

/// `[[core.webhook]]`: one receiver of every event, signed as Standard Webhooks say.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Webhook {
    /// Posted to; any 2xx is a receipt. Restart-only.
    pub url: String,
    /// Environment variable of the signing secret, `whsec_…` or any text. Restart-only.
    pub secret_env: String,
}

/// What kind of Redis it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RedisMode {
    /// One server.
    #[default]
    Single,
    /// Sentinels that know the primary.
    Sentinel,
    /// A cluster.
    Cluster,
}

/// `[redis]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Redis {
    /// Single server, Sentinel or Cluster. Restart-only.
    pub mode: RedisMode,
    /// Environment variable of the Redis URLs, separated by commas. Restart-only.
    pub urls_env: String,
    /// The primary's name at the Sentinels; only for `mode = "sentinel"`. Restart-only.
    pub master: String,
}

/// `[ops]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Ops {
    /// Where health and metrics listen. Restart-only.
    pub listen: SocketAddr,
    /// Environment variable of the key for whatever changes stock or a sale. Restart-only.
    pub key_env: String,
}

/// `[keys]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Keys {
    /// The folder of the signing keys, the same on all nodes. Restart-only.
    pub dir: PathBuf,
}

/// How logs are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One object a line.
    Json,
}

/// `[log]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Log {
    /// Text or JSON. Restart-only.
    pub format: LogFormat,
}
