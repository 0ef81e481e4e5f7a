//! The node that an operator talks to, and the key that it asks for.

use std::path::Path;

use clap::Args;
use http::Uri;
use secrecy::SecretString;

use crate::app::OPS_KEY_FILE;
use crate::config::secret::secret;
use crate::ops::Asker;

/// Where a shop on one machine keeps what it made.
const OWN_DATA: &str = "stanchion-data";

/// How an operator is known.
#[derive(Args)]
pub(super) struct Operator {
    /// The environment variable that holds the operators' key; not set, it is looked for where
    /// `serve` with its own stores keeps it, in ./stanchion-data/ops.key.
    #[arg(long, value_name = "VARIABLE", default_value = "STANCHION_OPS_KEY")]
    key_env: String,
    /// Who you are, for the audit trail.
    #[arg(long = "as", value_name = "NAME")]
    author: Option<String>,
    /// For programs.
    #[arg(long)]
    pub(super) json: bool,
}

impl Operator {
    /// Somebody who asks the node at `url`.
    pub(super) fn asker(&self, url: Uri) -> anyhow::Result<Asker> {
        Asker::new(url, self.key()?, self.author.clone())
    }

    fn key(&self) -> anyhow::Result<SecretString> {
        let cure = "set it to the operators' key of that node, or name another by --key-env";
        match secret("--key-env", &self.key_env, cure) {
            Ok(key) => Ok(key),
            Err(missing) => {
                let kept = Path::new(OWN_DATA).join(OPS_KEY_FILE);
                let key = std::fs::read_to_string(&kept).ok();
                let key = key.filter(|key| !key.trim().is_empty());
                let key = key.ok_or_else(|| anyhow::anyhow!("{missing}"))?;
                Ok(key.trim().into())
            }
        }
    }
}
