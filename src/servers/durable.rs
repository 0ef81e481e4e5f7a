//! The stores of a shop on one machine: durable, in a folder that outlives the program.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::folder::Folder;
use super::server::Server;
use super::{postgres, redis};

/// How often the servers are looked after.
const WATCH_EVERY: Duration = Duration::from_millis(250);

/// How often one that does not start is tried again.
const RETRY_EVERY: Duration = Duration::from_secs(3);

/// A Postgres and a Redis of our own whose data stays. Both listen on sockets that only their user
/// and root can reach. One that ends by itself is started again; both stop when this value is
/// dropped or its process is gone.
pub struct DurableStores {
    path: PathBuf,
    database_url: String,
    redis_url: String,
    watch: Option<(Sender<()>, JoinHandle<()>)>,
    // Declared after the watch and before the folder, which is unlocked last.
    servers: Arc<[Server; 2]>,
    _folder: Folder,
}

impl DurableStores {
    /// Starts both in `path`, which is made at the first start; blocks until they answer.
    ///
    /// # Errors
    /// If the folder is in use, cannot be reached by the stores' user, or was made by another
    /// version of Postgres; if the programs are not installed or do not start.
    pub fn open(path: &Path) -> Result<Self> {
        let folder = Folder::open(path)?;
        let (recipe, socket) = redis::durable(&folder)?;
        let redis_url = format!("redis+unix://{}", encoded(&socket, true)?);
        let redis = Server::start(recipe)?;
        let (recipe, socket) = postgres::durable(&folder)?;
        let (user, host) = (postgres::USER, encoded(&socket, false)?);
        let database_url = format!("postgres://{user}@{host}/postgres");
        let servers = Arc::new([Server::start(recipe)?, redis]);
        let watch = Some(watch(Arc::clone(&servers))?);
        let path = folder.path().to_owned();
        Ok(Self { path, database_url, redis_url, watch, servers, _folder: folder })
    }

    /// The folder, in full.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// `postgres://USER@SOCKET/DATABASE`.
    pub fn database_url(&self) -> &str {
        &self.database_url
    }

    /// `redis+unix://SOCKET`.
    pub fn redis_url(&self) -> &str {
        &self.redis_url
    }
}

impl Drop for DurableStores {
    fn drop(&mut self) {
        if let Some((stop, watch)) = self.watch.take() {
            drop(stop);
            if watch.join().is_err() {
                tracing::warn!("the watch over the stores had ended");
            }
        }
        tracing::debug!(servers = self.servers.len(), "stopping our own stores");
    }
}

/// A thread of its own: it must not wait for a runtime that waits for the stores.
fn watch(servers: Arc<[Server; 2]>) -> Result<(Sender<()>, JoinHandle<()>)> {
    let (stop, stopped) = channel::<()>();
    let looking = move || {
        let mut pause = WATCH_EVERY;
        while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
            pause = WATCH_EVERY;
            for server in servers.iter() {
                match server.revive() {
                    Ok(false) => {}
                    Ok(true) => tracing::error!("{} had ended; started again", server.name()),
                    Err(error) => {
                        tracing::error!("{} does not start: {error:#}", server.name());
                        pause = RETRY_EVERY;
                    }
                }
            }
        }
    };
    let thread = std::thread::Builder::new().name("stores".into()).spawn(looking);
    Ok((stop, thread.context("starting the watch over the stores")?))
}

/// A path as a part of an URL; `slashes` stay as they are.
pub(super) fn encoded(path: &Path, slashes: bool) -> Result<String> {
    const KEPT: percent_encoding::AsciiSet =
        NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.');
    const WITH_SLASHES: percent_encoding::AsciiSet = KEPT.remove(b'/');
    let text = path.to_str().with_context(|| format!("{} is not text", path.display()))?;
    let kept: &'static _ = if slashes { &WITH_SLASHES } else { &KEPT };
    Ok(utf8_percent_encode(text, kept).to_string())
}
