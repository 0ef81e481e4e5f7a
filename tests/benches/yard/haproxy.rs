//! haproxy in front of an origin.

use std::net::SocketAddr;
use std::process::Command;

use anyhow::Result;
use tempfile::TempDir;

use super::certificate::Certificate;
use super::load::Target;
use super::running::{Running, find, free_address};

/// A running haproxy.
pub(crate) struct Haproxy {
    pub(crate) http: SocketAddr,
    pub(crate) https: SocketAddr,
    running: Running,
    _folder: TempDir,
}

impl Haproxy {
    /// Starts one with so many threads.
    pub(crate) fn start(
        threads: usize,
        origin: SocketAddr,
        certificate: &Certificate,
    ) -> Result<Self> {
        let program = find("haproxy")?;
        let folder = TempDir::with_prefix("yard-haproxy-")?;
        let (http, https) = (free_address()?, free_address()?);
        let config = format!(
            "global
  nbthread {threads}
  maxconn 9000
defaults
  mode http
  maxconn 9000
  timeout connect 5s
  timeout client 75s
  timeout server 60s
  timeout http-keep-alive 75s
  option http-keep-alive
  http-reuse always
frontend shop
  bind {http} backlog 4096
  bind {https} backlog 4096 ssl crt {} alpn h2,http/1.1
  option forwardfor
  default_backend origin
backend origin
  server origin {origin}
",
            certificate.both.display()
        );
        let file = folder.path().join("haproxy.cfg");
        std::fs::write(&file, config)?;
        let mut command = Command::new(program);
        command.arg("-db").arg("-f").arg(&file);
        let running = Running::start(command, folder.path(), http)?;
        Ok(Self { http, https, running, _folder: folder })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.running.pid()
    }

    /// A path by plain http.
    pub(crate) fn plain(&self, path: &str) -> Target {
        Target::new(format!("http://{}{path}", self.http), self.pid())
    }

    /// A path by https.
    pub(crate) fn secure(&self, path: &str) -> Target {
        Target::new(format!("https://{}{path}", self.https), self.pid())
    }
}
