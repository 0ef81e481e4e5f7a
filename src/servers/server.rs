//! One server process: started, probed until it answers, stopped, killed, started again.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::identity::Identity;

const PROBE_EVERY: Duration = Duration::from_millis(10);

/// How to start a server and how to tell that it is up.
pub(super) struct Recipe {
    pub(super) program: PathBuf,
    pub(super) args: Vec<OsString>,
    pub(super) folder: PathBuf,
    pub(super) log: PathBuf,
    pub(super) identity: Identity,
    /// How long that may take.
    pub(super) answers_within: Duration,
    /// Ends it at once, whatever dispositions it has inherited.
    pub(super) at_drop: Signal,
    /// True once the server with this pid answers.
    pub(super) answers: Box<dyn Fn(u32) -> bool + Send + Sync>,
}

/// A server that runs, or that was stopped on purpose.
pub(super) struct Server {
    recipe: Recipe,
    /// The process, while one runs.
    child: Mutex<Option<Child>>,
}

impl Server {
    /// Starts it and waits until it answers.
    pub(super) fn start(recipe: Recipe) -> Result<Self> {
        let server = Self { recipe, child: Mutex::new(None) };
        server.restart()?;
        Ok(server)
    }

    /// Starts it again, killing what still runs; the same port, the same folder.
    pub(super) fn restart(&self) -> Result<()> {
        self.end(Signal::SIGKILL)?;
        let mut child = self.spawn()?;
        let began = Instant::now();
        while began.elapsed() < self.recipe.answers_within {
            if let Some(status) = child.try_wait().context("looking after the server")? {
                let said = std::fs::read_to_string(&self.recipe.log).unwrap_or_default();
                bail!("{} ended with {status}: {}", self.recipe.program.display(), tail(&said));
            }
            if (self.recipe.answers)(child.id()) {
                *self.lock() = Some(child);
                return Ok(());
            }
            std::thread::sleep(PROBE_EVERY);
        }
        child.kill().context("giving up on a server")?;
        child.wait().context("giving up on a server")?;
        let (program, within) = (self.recipe.program.display(), self.recipe.answers_within);
        bail!("{program} did not answer within {within:?}")
    }

    /// The program's name.
    pub(super) fn name(&self) -> String {
        let file = self.recipe.program.file_name().unwrap_or_default();
        file.to_string_lossy().into_owned()
    }

    /// Starts it again if it does not run; says whether that was so.
    pub(super) fn revive(&self) -> Result<bool> {
        let ended = match self.lock().as_mut() {
            Some(child) => child.try_wait().context("looking after a server")?.is_some(),
            None => true,
        };
        if ended {
            *self.lock() = None;
            self.restart()?;
        }
        Ok(ended)
    }

    /// Sends `signal` and waits for the end; nothing if it does not run.
    pub(super) fn end(&self, signal: Signal) -> Result<()> {
        let Some(mut child) = self.lock().take() else { return Ok(()) };
        kill(pid(&child), signal).context("signalling a server")?;
        child.wait().context("waiting for a server's end")?;
        Ok(())
    }

    /// Sends `signal` and leaves it at that: SIGSTOP freezes, SIGCONT goes on.
    pub(super) fn signal(&self, signal: Signal) -> Result<()> {
        match self.lock().as_ref() {
            Some(child) => kill(pid(child), signal).context("signalling a server"),
            None => bail!("{} does not run", self.recipe.program.display()),
        }
    }

    fn spawn(&self) -> Result<Child> {
        let recipe = &self.recipe;
        let log = OpenOptions::new().create(true).append(true).open(&recipe.log)?;
        let mut command = Command::new(&recipe.program);
        command
            .args(&recipe.args)
            .current_dir(&recipe.folder)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            // Ctrl-C is for the owner, who stops its servers last.
            .process_group(0);
        recipe.identity.apply(&mut command);
        command.spawn().with_context(|| format!("starting {}", recipe.program.display()))
    }

    fn lock(&self) -> MutexGuard<'_, Option<Child>> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Err(error) = self.end(self.recipe.at_drop) {
            tracing::warn!(%error, "a private server may be left to its reaper");
        }
    }
}

fn pid(child: &Child) -> Pid {
    Pid::from_raw(i32::try_from(child.id()).unwrap_or(i32::MAX))
}

fn tail(log: &str) -> String {
    let lines: Vec<_> = log.lines().collect();
    lines[lines.len().saturating_sub(8)..].join(" | ")
}

/// A loopback port that was free a moment ago.
pub(super) fn free_port() -> Result<u16> {
    let probe = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("finding a free port")?;
    Ok(probe.local_addr().context("finding a free port")?.port())
}

/// Tries thrice, because a free port may be taken before the server has it.
pub(super) fn on_a_free_port<T>(start: impl Fn(u16) -> Result<T>) -> Result<T> {
    let first = start(free_port()?);
    let second = if first.is_ok() { first } else { start(free_port()?) };
    if second.is_ok() { second } else { start(free_port()?) }
}
