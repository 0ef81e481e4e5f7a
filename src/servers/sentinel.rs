//! A private primary with a replica, watched by a Sentinel.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use nix::sys::signal::Signal;

use super::folder::Folder;
use super::redis::{ask, member, reached, recipe_in};
use super::server::{Recipe, Server, free_port, on_a_free_port};

/// How long a primary may be silent before it counts as down: a busy machine is not a dead one.
const DOWN_AFTER_MS: u32 = 1_500;

/// A primary, its replica and a Sentinel on loopback; none keeps anything on the disk.
pub struct PrivateSentinel {
    ports: [u16; 2],
    sentinel_port: u16,
    // Declared first, so that the servers end before their folder is removed.
    _sentinel: Server,
    nodes: [Server; 2],
    _folder: Arc<Folder>,
}

impl PrivateSentinel {
    /// What the Sentinel calls the primary.
    pub const MASTER: &'static str = "shop";

    /// Starts all three; blocks until the Sentinel knows both servers.
    pub fn start() -> Result<Self> {
        let folder = Arc::new(Folder::create()?);
        let primary = member(&folder, "primary", &[])?;
        let of = primary.port.to_string();
        let replica = member(&folder, "replica", &["--replicaof", "127.0.0.1", &of])?;
        reached("the replica is in step", || {
            Ok(ask::<String>(replica.port, &["INFO", "replication"])?
                .contains("master_link_status:up"))
        })?;
        let (sentinel_port, sentinel) = on_a_free_port(|port| {
            Ok((port, Server::start(recipe(&folder, port, primary.port)?)?))
        })?;
        let ports = [primary.port, replica.port];
        let all = Self {
            ports,
            sentinel_port,
            _sentinel: sentinel,
            nodes: [primary.server, replica.server],
            _folder: folder,
        };
        reached("the Sentinel knows the replica", || {
            Ok(ask::<String>(sentinel_port, &["INFO", "sentinel"])?.contains("slaves=1"))
        })?;
        Ok(all)
    }

    /// URLs of Sentinels as the program is given them: one that is not there, and the one that is.
    pub fn urls(&self) -> Result<String> {
        Ok(format!("redis://127.0.0.1:{},redis://127.0.0.1:{}", free_port()?, self.sentinel_port))
    }

    /// The port of the primary, by the Sentinel.
    pub fn primary_port(&self) -> Result<u16> {
        let asked = ["SENTINEL", "get-master-addr-by-name", Self::MASTER];
        let (_, port): (String, u16) = ask(self.sentinel_port, &asked)?;
        Ok(port)
    }

    /// Kills the primary with SIGKILL, and blocks until the Sentinel has another.
    pub fn fail_over(&self) -> Result<()> {
        let before = self.primary_port()?;
        let at =
            self.ports.iter().position(|port| *port == before).context("an unknown primary")?;
        self.nodes[at].end(Signal::SIGKILL)?;
        reached("another server is the primary", || Ok(self.primary_port()? != before))
    }
}

fn recipe(folder: &Folder, port: u16, primary: u16) -> Result<Recipe> {
    let place = folder.room("work/sentinel")?;
    let file = place.join("sentinel.conf");
    write(&file, port, primary)?;
    // It writes down what it learns.
    folder.identity().own(&file)?;
    let mut recipe = recipe_in(folder, "work/sentinel", port)?;
    recipe.args = vec![file.into_os_string(), "--sentinel".into()];
    Ok(recipe)
}

fn write(file: &Path, port: u16, primary: u16) -> Result<()> {
    let name = PrivateSentinel::MASTER;
    let lines = format!(
        "bind 127.0.0.1\nport {port}\nsentinel monitor {name} 127.0.0.1 {primary} 1\n\
         sentinel down-after-milliseconds {name} {DOWN_AFTER_MS}\n\
         sentinel failover-timeout {name} 6000\n"
    );
    std::fs::write(file, lines).with_context(|| format!("writing {}", file.display()))
}
