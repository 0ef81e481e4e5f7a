//! A private Postgres, durable: `fsync` and `synchronous_commit` on.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use nix::sys::signal::Signal;

use super::binaries;
use super::durable::encoded;
use super::folder::Folder;
use super::server::{Recipe, Server, on_a_free_port};

pub(super) const USER: &str = "stanchion";
/// Beyond this a Unix socket's path does not fit into the kernel's structure.
const SOCKET_FOLDER_BYTES_MAX: usize = 85;

/// A Postgres cluster on loopback and on a socket in its folder.
pub struct PrivatePostgres {
    port: u16,
    /// The folder of its socket, if that one's name is short enough for the kernel.
    socket: Option<PathBuf>,
    // Declared first, so that the server ends before its folder is removed.
    server: Server,
    folder: Arc<Folder>,
}

impl PrivatePostgres {
    /// Makes a cluster in a folder of its own and starts it; blocks until it answers.
    pub fn start() -> Result<Self> {
        Self::start_in(&Arc::new(Folder::create()?), &[])
    }

    /// With these settings, as `shared_buffers=1GB`, beside and over our own.
    pub(super) fn start_in(folder: &Arc<Folder>, settings: &[String]) -> Result<Self> {
        initdb(folder)?;
        on_a_free_port(|port| {
            let server = Server::start(recipe(folder, port, settings)?)?;
            let socket = socket_folder(folder).map(Path::to_owned);
            Ok(Self { port, socket, server, folder: folder.clone() })
        })
    }

    /// The URL of the database that is always there.
    pub fn url(&self) -> String {
        self.url_of("postgres")
    }

    fn url_of(&self, database: &str) -> String {
        format!("postgres://{USER}@127.0.0.1:{}/{database}", self.port)
    }

    /// The URL of a database by the server's socket; by its port if the socket's name is too long.
    pub fn socket_url_of(&self, database: &str) -> Result<String> {
        let Some(socket) = &self.socket else { return Ok(self.url_of(database)) };
        let host = encoded(socket, false)?;
        Ok(format!("postgres://{USER}@{host}:{}/{database}", self.port))
    }

    /// Makes a database of this name (`a-z`, `0-9`, `_`); returns its URL. Blocks.
    pub fn create_database(&self, name: &str) -> Result<String> {
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
        if name.is_empty() || !name.bytes().all(plain) {
            bail!("a database's name must be of a-z, 0-9 and '_', not {name:?}");
        }
        let (url, statement) = (self.url(), format!("CREATE DATABASE \"{name}\""));
        // A thread of its own, because the caller may be inside a runtime already.
        std::thread::spawn(move || execute(&url, &statement))
            .join()
            .map_err(|_| anyhow!("making database {name} panicked"))??;
        Ok(self.url_of(name))
    }

    /// The lines of its log that have this in them; each names the process and the database.
    pub fn said(&self, words: &str) -> Result<Vec<String>> {
        let log = self.folder.path().join("postgres.log");
        let log = std::fs::read(&log).context("reading the log of Postgres")?;
        let log = String::from_utf8_lossy(&log);
        Ok(log.lines().filter(|line| line.contains(words)).map(str::to_owned).collect())
    }

    /// Kills it as a crash would (SIGQUIT: no checkpoint, recovery at the next start).
    pub fn kill(&self) -> Result<()> {
        self.server.end(Signal::SIGQUIT)
    }

    /// Starts it again on the same port; crash recovery brings back what was committed.
    pub fn restart(&self) -> Result<()> {
        self.kill()?;
        self.server.restart()
    }
}

fn execute(url: &str, statement: &str) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await?;
        let talk = async {
            client.batch_execute(statement).await?;
            drop(client);
            Ok(())
        };
        tokio::try_join!(talk, connection)?;
        Ok(())
    })
}

/// Makes a cluster, in a folder that gets its name only when it is whole.
fn initdb(folder: &Folder) -> Result<PathBuf> {
    let data = folder.path().join("postgres");
    let unnamed = folder.room("postgres.new")?;
    let mut command = Command::new(binaries::postgres_folder()?.join("initdb"));
    command
        .arg("-D")
        .arg(&unnamed)
        .args(["-U", USER, "-A", "trust", "-E", "UTF8", "--locale=C"])
        .args(if folder.is_kept() { None } else { Some("--no-sync") })
        .current_dir(&unnamed)
        .stdin(Stdio::null());
    folder.identity().apply(&mut command);
    let out = command.output().context("running initdb")?;
    if !out.status.success() {
        bail!("initdb failed: {}", String::from_utf8_lossy(&out.stderr).trim());
    }
    std::fs::rename(&unnamed, &data).context("naming the cluster")?;
    Ok(data)
}

/// A recipe for the durable cluster of a folder that is kept, made at the first start; with the
/// folder of its socket.
///
/// # Errors
/// If it was made by another major version of Postgres, or the socket's name is too long.
pub(super) fn durable(folder: &Folder) -> Result<(Recipe, PathBuf)> {
    let socket = folder.room("run")?;
    if socket.as_os_str().len() > SOCKET_FOLDER_BYTES_MAX {
        bail!(
            "{} is too long a name for a socket ({} bytes at most): name a shorter --data",
            socket.display(),
            SOCKET_FOLDER_BYTES_MAX
        );
    }
    let data = folder.path().join("postgres");
    if !data.join("PG_VERSION").is_file() {
        let unfinished = folder.path().join("postgres.new");
        if unfinished.exists() {
            std::fs::remove_dir_all(&unfinished).context("removing half a cluster")?;
        }
        initdb(folder)?;
    }
    same_version(&data)?;
    let access = ["listen_addresses=".to_owned(), socket_in(&socket)];
    Ok((serving(folder, &access, &[])?, socket))
}

/// A recipe for a cluster that goes with its folder, on a loopback port.
fn recipe(folder: &Folder, port: u16, settings: &[String]) -> Result<Recipe> {
    let socket = socket_in(socket_folder(folder).unwrap_or(Path::new("")));
    let access = ["listen_addresses=127.0.0.1".to_owned(), format!("port={port}"), socket];
    serving(folder, &access, settings)
}

/// Where the socket of a cluster with a port is too.
fn socket_folder(folder: &Folder) -> Option<&Path> {
    let path = folder.path();
    (path.as_os_str().len() <= SOCKET_FOLDER_BYTES_MAX).then_some(path)
}

fn socket_in(folder: &Path) -> String {
    format!("unix_socket_directories={}", folder.display())
}

/// A cluster is read only by the major version that made it.
fn same_version(data: &Path) -> Result<()> {
    let made = std::fs::read_to_string(data.join("PG_VERSION")).context("reading PG_VERSION")?;
    let made = made.trim();
    let program = binaries::postgres_folder()?.join("postgres");
    let out = Command::new(&program).arg("--version").output().context("asking the version")?;
    let said = String::from_utf8_lossy(&out.stdout).into_owned();
    let ours = said.split_whitespace().find(|w| w.starts_with(|c: char| c.is_ascii_digit()));
    let major = ours.and_then(|version| version.split('.').next()).unwrap_or_default();
    if made != major {
        bail!(
            "{} was made by PostgreSQL {made}, and {} is of version {major}: install PostgreSQL \
             {made} again, or move the data over with its pg_dump",
            data.display(),
            program.display(),
        );
    }
    Ok(())
}

/// Of a setting that is given twice the last counts.
fn serving(folder: &Folder, access: &[String], settings: &[String]) -> Result<Recipe> {
    let data = folder.path().join("postgres");
    let mut args = vec!["-D".into(), data.clone().into_os_string()];
    let manner = ["max_connections=200", "log_line_prefix=%m [%p] %d "];
    let lasting = ["fsync=on", "synchronous_commit=on", "shared_buffers=128MB"];
    let ours = access.iter().map(String::as_str).chain(lasting).chain(manner);
    for setting in ours.chain(settings.iter().map(String::as_str)) {
        args.extend(["-c".into(), setting.into()]);
    }
    Ok(Recipe {
        program: binaries::postgres_folder()?.join("postgres"),
        args,
        log: folder.path().join("postgres.log"),
        folder: data.clone(),
        identity: folder.identity(),
        answers_within: folder.patience(),
        // Fast shutdown, or an immediate one; a SIGKILL would leave its children to find out.
        at_drop: if folder.is_kept() { Signal::SIGINT } else { Signal::SIGQUIT },
        answers: Box::new(move |pid| {
            let said = std::fs::read_to_string(data.join("postmaster.pid")).unwrap_or_default();
            says_ready(&said, pid)
        }),
    })
}

/// The first line of `postmaster.pid` is the pid, the eighth turns to "ready".
fn says_ready(postmaster: &str, pid: u32) -> bool {
    let mut lines = postmaster.lines();
    let ours = lines.next().is_some_and(|first| first.trim() == pid.to_string());
    ours && lines.nth(6).is_some_and(|status| status.trim() == "ready")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_status_line_of_our_own_postmaster_means_ready() {
        let file = "41\n/data\n1700000000\n5432\n/tmp\n127.0.0.1\n 1 2\nready   \n";
        assert!(says_ready(file, 41));
        assert!(!says_ready(file, 42));
        assert!(!says_ready(&file.replace("ready", "starting"), 41));
        assert!(!says_ready("41\n/data\n", 41));
    }
}
