//! Cores and gateways of one installation, each with a configuration file of its own.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::config::ConfigFile;
use super::node::Node;

/// How many processes of each kind.
#[derive(Debug, Clone, Copy)]
pub struct Layout {
    /// Public edges.
    pub gateways: usize,
    /// Owners of stock.
    pub cores: usize,
}

/// The keys of one installation.
#[derive(Debug, Clone)]
pub struct Secrets {
    /// For the shop's back end and gateways.
    pub core_key: String,
    /// For whatever changes stock or a sale.
    pub ops_key: String,
}

impl Secrets {
    /// Random ones.
    pub fn random() -> Self {
        let key = || format!("{:032x}", rand::random::<u128>());
        Self { core_key: key(), ops_key: key() }
    }
}

/// Running processes on one Redis and one Postgres; killed when dropped.
pub struct Installation {
    /// The gateways, in order; replace one by [`Installation::start_gateway`] after a kill.
    pub gateways: Vec<Node>,
    /// The cores, in order.
    pub cores: Vec<Node>,
    /// The keys it runs with.
    pub secrets: Secrets,
    /// The URL of its Postgres database.
    pub database_url: String,
    /// The URL of its Redis.
    pub redis_url: String,
    config: ConfigFile,
    executable: PathBuf,
    folder: PathBuf,
}

impl Installation {
    /// Starts all in `folder` (configuration, keys and logs go there); blocks until all are ready.
    pub fn start(
        executable: &Path,
        folder: &Path,
        stores: (String, String),
        layout: Layout,
        config: ConfigFile,
    ) -> Result<Self> {
        let mut all = Self::start_cores(executable, folder, stores, layout.cores, config)?;
        all.add_gateways(layout.gateways)?;
        Ok(all)
    }

    /// Starts the cores alone, for a shop that has to know them before the gateways know the shop.
    pub fn start_cores(
        executable: &Path,
        folder: &Path,
        stores: (String, String),
        cores: usize,
        mut config: ConfigFile,
    ) -> Result<Self> {
        let keys = folder.join("keys");
        config.set("keys.dir", keys.to_str().context("a folder's name must be text")?)?;
        let (database_url, redis_url) = stores;
        let mut all = Self {
            gateways: Vec::new(),
            cores: Vec::new(),
            secrets: Secrets::random(),
            database_url,
            redis_url,
            config,
            executable: executable.to_owned(),
            folder: folder.to_owned(),
        };
        all.make_keys(&keys)?;
        for number in 0..cores {
            let core = all.start_core(number)?;
            all.cores.push(core);
        }
        Ok(all)
    }

    /// Starts that many more gateways.
    pub fn add_gateways(&mut self, more: usize) -> Result<()> {
        for _ in 0..more {
            let gateway = self.start_gateway(self.gateways.len())?;
            self.gateways.push(gateway);
        }
        Ok(())
    }

    /// Starts core `number`; on its old addresses if it ran before.
    pub fn start_core(&self, number: usize) -> Result<Node> {
        let mut config = self.config.clone();
        if let Some(before) = self.cores.get(number) {
            keep_addresses(&mut config, before)?;
        }
        self.start_node("core", number, &config)
    }

    /// Starts gateway `number`; on its old addresses if it ran before.
    pub fn start_gateway(&self, number: usize) -> Result<Node> {
        let mut config = self.config.clone();
        self.point_to_core(&mut config, number)?;
        if let Some(before) = self.gateways.get(number) {
            keep_addresses(&mut config, before)?;
        }
        self.start_node("gateway", number, &config)
    }

    /// SIGKILL for core `number`, then a fresh process on the same addresses.
    pub fn replace_core(&mut self, number: usize) -> Result<()> {
        self.cores.get_mut(number).context("no such core")?.kill()?;
        self.cores[number] = self.start_core(number)?;
        Ok(())
    }

    /// SIGKILL for gateway `number`, then a fresh process on the same addresses.
    pub fn replace_gateway(&mut self, number: usize) -> Result<()> {
        self.gateways.get_mut(number).context("no such gateway")?.kill()?;
        self.gateways[number] = self.start_gateway(number)?;
        Ok(())
    }

    /// Sets a key for the processes that are started from now on.
    pub fn set(&mut self, path: &str, value: impl Into<toml::Value>) -> Result<()> {
        self.config.set(path, value)
    }

    /// Changes a key in the files of all processes, as an operator would while they run.
    pub fn reconfigure(&mut self, path: &str, value: impl Into<toml::Value>) -> Result<()> {
        self.config.set(path, value)?;
        for (role, nodes) in [("core", &self.cores), ("gateway", &self.gateways)] {
            for (number, node) in nodes.iter().enumerate() {
                let mut config = self.config.clone();
                keep_addresses(&mut config, node)?;
                if role == "gateway" {
                    self.point_to_core(&mut config, number)?;
                }
                config.write(&self.config_file(role, number))?;
            }
        }
        Ok(())
    }

    /// The configuration file of one process.
    pub fn config_file(&self, role: &str, number: usize) -> PathBuf {
        self.folder.join(format!("{role}-{number}.toml"))
    }

    /// Where keys, files and logs are.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Gateways share the cores out among themselves, so that each core sees traffic.
    fn point_to_core(&self, config: &mut ConfigFile, gateway: usize) -> Result<()> {
        match gateway.checked_rem(self.cores.len()) {
            Some(number) => config.set("core.url", self.cores[number].url("core")?),
            None => Ok(()),
        }
    }

    fn start_node(&self, role: &str, number: usize, config: &ConfigFile) -> Result<Node> {
        let file = self.config_file(role, number);
        config.write(&file)?;
        let mut command = Command::new(&self.executable);
        command.args(["serve", "--role", role, "-c"]).arg(&file);
        command
            .env("STANCHION_CORE_KEY", &self.secrets.core_key)
            .env("STANCHION_OPS_KEY", &self.secrets.ops_key)
            .env("REDIS_URL", &self.redis_url)
            .env_remove("DATABASE_URL");
        if role == "core" {
            command.env("DATABASE_URL", &self.database_url);
        }
        Node::start(command, &self.folder.join(format!("{role}-{number}.log")))
    }

    fn make_keys(&self, keys: &Path) -> Result<()> {
        let mut command = Command::new(&self.executable);
        command.args(["keys", "new", "--dir"]).arg(keys);
        let out = command.output().context("making keys")?;
        let said = String::from_utf8_lossy(&out.stderr);
        anyhow::ensure!(out.status.success(), "stanchion keys new failed: {}", said.trim());
        Ok(())
    }
}

/// A restarted process listens where its predecessor did, so that the others find it.
fn keep_addresses(config: &mut ConfigFile, before: &Node) -> Result<()> {
    let mut publics = 0;
    for bound in before.bound() {
        match bound.name.as_str() {
            "public" => {
                config.set(&format!("public.listener.{publics}.addr"), bound.addr.to_string())?;
                publics += 1;
            }
            other => config.set(&format!("{other}.listen"), bound.addr.to_string())?,
        }
    }
    Ok(())
}
