//! A program of the system that runs as long as its owner holds it.

use std::fs::File;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

const READY_WITHIN: Duration = Duration::from_secs(10);
const ENDS_WITHIN: Duration = Duration::from_secs(3);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Programs that are asked for, and the Debian packages that have them.
const PACKAGES: [(&str, &str); 4] = [
    ("nginx", "nginx-light"),
    ("haproxy", "haproxy"),
    ("wrk", "wrk"),
    ("h2load", "nghttp2-client"),
];

/// Where a program is. The error says how to get it.
pub(crate) fn find(name: &str) -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Where Debian keeps servers, which not everybody has in the path.
    let folders = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
    let found = folders.map(|folder| folder.join(name)).find(|file| file.is_file());
    let known = PACKAGES.iter().find(|(program, _)| *program == name);
    let package = known.map_or(name, |(_, package)| *package);
    found.with_context(|| {
        format!("{name} is needed to compare with and is not here; apt-get install {package}")
    })
}

/// An address that is free now.
pub(crate) fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

/// A server; ends when dropped.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
}

impl Running {
    /// Starts it in a folder, where its log goes, and waits until it accepts at `address`.
    pub(crate) fn start(mut command: Command, folder: &Path, address: SocketAddr) -> Result<Self> {
        let log = folder.join("log");
        let file = File::create(&log)?;
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        let child = command.spawn().with_context(|| format!("starting {command:?}"))?;
        let mut running = Self { child };
        let until = Instant::now() + READY_WITHIN;
        while TcpStream::connect(address).is_err() {
            let ended = running.child.try_wait()?;
            if ended.is_some() || Instant::now() >= until {
                let said = std::fs::read_to_string(&log).unwrap_or_default();
                bail!("{command:?} does not serve: {}", said.trim());
            }
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(running)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Asked first, so that it takes its workers along.
    fn end(&mut self) -> Result<()> {
        if self.child.try_wait()?.is_some() {
            return Ok(());
        }
        kill(Pid::from_raw(i32::try_from(self.child.id())?), Signal::SIGTERM)?;
        let until = Instant::now() + ENDS_WITHIN;
        while self.child.try_wait()?.is_none() {
            if Instant::now() >= until {
                self.child.kill()?;
            }
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            drop(crate::rounds::say(&format!("a server may still run: {error}")));
        }
    }
}
