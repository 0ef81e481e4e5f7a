//! The secrets of a process: from the environment, or made for the stores of our own.

use std::fs::{File, Permissions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use anyhow::{Context, Result, bail};
use secrecy::SecretString;

use super::Role;
use crate::config::Settings;
use crate::config::secret::{MissingSecret, secret};

/// URLs and keys that a process runs with.
pub struct Secrets {
    /// Of Postgres; only the core has one.
    pub(super) database_url: Option<SecretString>,
    /// Of Redis.
    pub(super) redis_url: SecretString,
    /// For the shop's back end and gateways.
    pub(super) core_key: SecretString,
    /// For whatever changes stock or a sale; without one there are no admin calls.
    pub(super) ops_key: Option<SecretString>,
}

/// Where the stores of a process are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stores {
    /// At the URLs of the environment.
    Given,
    /// Nowhere yet: no URL is set, and role `all` may run its own.
    Own,
}

impl Stores {
    /// What the environment says.
    ///
    /// # Errors
    /// If one URL is set and the other is not: that is a mistake, not a wish for own stores.
    pub fn wanted(settings: &Settings, role: Role) -> Result<Self> {
        let (redis, database) = (redis_url(settings), database_url(settings));
        match (redis, database) {
            (Err(_), Err(_)) if role == Role::All => Ok(Self::Own),
            (Err(missing), Ok(_)) | (Ok(_), Err(missing)) if role == Role::All => {
                Err(anyhow::Error::new(missing).context(
                    "set both URLs, or neither to run with stores of our own in --data DIR",
                ))
            }
            _ => Ok(Self::Given),
        }
    }
}

impl Secrets {
    /// All from the environment, as a role needs them.
    pub fn from_environment(settings: &Settings, role: Role) -> Result<Self> {
        let database_url = if role.has_core() { Some(database_url(settings)?) } else { None };
        Ok(Self {
            database_url,
            redis_url: redis_url(settings)?,
            core_key: core_key(settings)?,
            ops_key: ops_key(settings).inspect_err(|missing| tracing::warn!("{missing}")).ok(),
        })
    }

    /// For the stores of our own in `folder`. Keys that the environment does not give are made at
    /// the first start and kept there, in `core.key` and `ops.key`.
    pub fn with_own_stores(
        settings: &Settings,
        folder: &Path,
        database_url: &str,
        redis_url: &str,
    ) -> Result<Self> {
        let core_key = match core_key(settings) {
            Ok(key) => key,
            Err(_) => kept(&folder.join(CORE_KEY_FILE))?,
        };
        let ops_key = match ops_key(settings) {
            Ok(key) => key,
            Err(_) => kept(&folder.join(OPS_KEY_FILE))?,
        };
        Ok(Self {
            database_url: Some(database_url.into()),
            redis_url: redis_url.into(),
            core_key,
            ops_key: Some(ops_key),
        })
    }
}

/// The core's key in the folder of our own stores.
pub const CORE_KEY_FILE: &str = "core.key";
/// The operators' key in the folder of our own stores.
pub const OPS_KEY_FILE: &str = "ops.key";

/// The key in a file, made if there is none; only we may read it.
fn kept(file: &Path) -> Result<SecretString> {
    let shown = file.display();
    match std::fs::read_to_string(file) {
        Ok(key) if key.trim().is_empty() => bail!("{shown} is empty; remove it to get a new key"),
        Ok(key) => Ok(key.trim().into()),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let key = hex::encode(rand::random::<[u8; 32]>());
            let unnamed = file.with_extension("new");
            let mut options = File::options();
            options.write(true).create(true).truncate(true).mode(0o600);
            let making = || format!("making {shown}");
            let mut written = options.open(&unnamed).with_context(making)?;
            // One that a killed start left may be open to others.
            written.set_permissions(Permissions::from_mode(0o600))?;
            writeln!(written, "{key}")?;
            written.sync_all()?;
            std::fs::rename(&unnamed, file).with_context(|| format!("making {shown}"))?;
            Ok(key.into())
        }
        Err(error) => Err(error).with_context(|| format!("reading {shown}")),
    }
}

fn redis_url(settings: &Settings) -> Result<SecretString, MissingSecret> {
    let cure = "set it to redis://HOST:PORT of your Redis";
    secret("redis.urls_env", &settings.redis.urls_env, cure)
}

pub(super) fn database_url(settings: &Settings) -> Result<SecretString, MissingSecret> {
    let cure = "set it to postgres://USER@HOST:PORT/DATABASE of your Postgres";
    secret("core.database_url_env", &settings.core.database_url_env, cure)
}

fn core_key(settings: &Settings) -> Result<SecretString, MissingSecret> {
    let cure = "set it to one long random text on all nodes";
    secret("core.key_env", &settings.core.key_env, cure)
}

fn ops_key(settings: &Settings) -> Result<SecretString, MissingSecret> {
    secret("ops.key_env", &settings.ops.key_env, "set it to use the admin calls")
}
