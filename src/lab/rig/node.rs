//! One child process of ours that says where it listens and when it is ready.

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// How long a process may take from its start to its `ready` line.
const READY_WITHIN: Duration = Duration::from_secs(30);

/// A listener that a process has told of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bound {
    /// `public`, `core`, `ops` or `shop`.
    pub name: String,
    /// The address that was bound.
    pub addr: SocketAddr,
    /// Whether it speaks TLS.
    pub tls: bool,
}

/// A running process; killed when dropped.
#[derive(Debug)]
pub struct Node {
    child: Child,
    bound: Vec<Bound>,
    log: PathBuf,
}

impl Node {
    /// Starts `command`, its standard error going to the file `log`, and blocks until it has
    /// printed `ready`. Runs in `log`'s folder, where a reaper finds it should we be killed.
    pub fn start(mut command: Command, log: &Path) -> Result<Self> {
        let errors = OpenOptions::new().create(true).append(true).open(log)?;
        let folder = log.parent().context("a log needs a folder")?;
        command
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(errors)
            // Ctrl-C is for the owner, who stops its processes in order.
            .process_group(0);
        let mut child = command.spawn().with_context(|| format!("starting {command:?}"))?;
        let stdout = child.stdout.take().context("a process without an output")?;
        let mut node = Self { child, bound: Vec::new(), log: log.to_owned() };
        let lines = read_lines(stdout);
        node.await_ready(&lines)?;
        Ok(node)
    }

    fn await_ready(&mut self, lines: &Receiver<String>) -> Result<()> {
        loop {
            match lines.recv_timeout(READY_WITHIN) {
                Ok(line) if line == "ready" => return Ok(()),
                Ok(line) => self.bound.extend(parse_listening(&line)),
                Err(RecvTimeoutError::Timeout) => {
                    bail!("a process was not ready within 30 s: {}", self.said())
                }
                Err(RecvTimeoutError::Disconnected) => {
                    let status = self.child.wait()?;
                    bail!("a process ended with {status} before it was ready: {}", self.said())
                }
            }
        }
    }

    /// All listeners, in the order told.
    pub fn bound(&self) -> &[Bound] {
        &self.bound
    }

    /// `http://ADDR` or `https://ADDR` of the first listener of this name.
    pub fn url(&self, name: &str) -> Result<String> {
        let found = self.bound.iter().find(|bound| bound.name == name);
        let bound = found.ok_or_else(|| anyhow!("the process told of no {name} listener"))?;
        Ok(format!("{}://{}", if bound.tls { "https" } else { "http" }, bound.addr))
    }

    /// The process' id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal: SIGHUP, SIGSTOP, SIGCONT and the like.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        let pid = Pid::from_raw(i32::try_from(self.child.id())?);
        kill(pid, signal).context("signalling a process")
    }

    /// SIGKILL, and waits for the end.
    pub fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// SIGTERM, and waits for the end; returns how it ended.
    pub fn stop(&mut self) -> Result<ExitStatus> {
        self.signal(Signal::SIGTERM)?;
        self.child.wait().context("waiting for a process")
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        self.child.try_wait().context("looking after a process")
    }

    /// The last lines of its log.
    pub fn said(&self) -> String {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<_> = log.lines().collect();
        lines[lines.len().saturating_sub(12)..].join("\n")
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // Fails only if it has ended already, which is what is wanted.
        if self.child.kill().is_ok() && self.child.wait().is_err() {
            tracing::warn!(pid = self.child.id(), "a process could not be waited for");
        }
    }
}

/// Reads on after `ready`, so that the process never blocks on a full pipe.
fn read_lines(stdout: ChildStdout) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut wanted = true;
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            wanted = wanted && sender.send(line).is_ok();
        }
    });
    receiver
}

/// Reads `listening NAME=ADDR [tls=BOOL]`.
fn parse_listening(line: &str) -> Option<Bound> {
    let mut words = line.strip_prefix("listening ")?.split_whitespace();
    let (name, addr) = words.next()?.split_once('=')?;
    let tls = words.any(|word| word == "tls=true");
    Some(Bound { name: name.to_owned(), addr: addr.parse().ok()?, tls })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listeners_are_read_from_the_lines_a_process_prints() {
        let public = parse_listening("listening public=127.0.0.1:40001 tls=true").unwrap();
        assert_eq!((public.name.as_str(), public.addr.port(), public.tls), ("public", 40001, true));
        assert!(!parse_listening("listening core=127.0.0.1:7070").unwrap().tls);
        assert_eq!(parse_listening("listening to nobody"), None);
        assert_eq!(parse_listening("ready"), None);
    }

    #[test]
    fn a_process_that_dies_before_it_is_ready_is_quoted() {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "echo the reason >&2; exit 3"]);
        let error = Node::start(command, &folder.path().join("log")).unwrap_err().to_string();
        assert!(error.contains("the reason") && error.contains('3'), "{error}");
    }
}
