//! Every key of the settings file. Whether a key is hot, restart-only or refused during a sale is
//! said on its field.

mod account;
mod edge;
mod limits;
mod process;
mod sale;

use serde::{Deserialize, Serialize};

pub use account::{Account, AccountSource, ForwardAuth, Jwt};
pub use edge::{Cdn, Certificate, Listener, Public, Shop};
pub use limits::{ClientLimits, Limits, QuotaSettings};
pub use process::{Core, Keys, Log, LogFormat, Ops, Redis, RedisMode, Webhook};
pub use sale::{LatePayment, Outside, Sale, SaleSku};

/// The whole file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[derive(Default)]
pub struct Settings {
    /// The public edge.
    pub public: Public,
    /// The existing shop.
    pub shop: Shop,
    /// The reservation core.
    pub core: Core,
    /// Redis.
    pub redis: Redis,
    /// Health, metrics and admin.
    pub ops: Ops,
    /// Signing keys.
    pub keys: Keys,
    /// Who vouches for accounts.
    pub account: Account,
    /// Quotas.
    pub limits: Limits,
    /// Logs.
    pub log: Log,
    /// The sales.
    #[serde(rename = "sale")]
    pub sales: Vec<Sale>,
}
