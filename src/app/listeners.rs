//! The sockets of a process: bound before anything else is started, told on stdout.

use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use axum::Router;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use super::inherited::Inherited;
use super::serve::Parts;
use crate::config::Settings;
use crate::config::settings::Listener;
use crate::http::listener::{self, Options};

/// How long a busy private connection may go on after the doors have closed.
const CONNECTION_DRAIN: Duration = Duration::from_secs(25);

/// Bound sockets.
pub(super) struct Doors {
    /// Each with its settings.
    pub(super) public: Vec<(TcpListener, Listener)>,
    pub(super) core: Option<TcpListener>,
    pub(super) ops: TcpListener,
}

impl Doors {
    /// Takes over or binds what the role needs.
    pub(super) async fn bind(
        settings: &Settings,
        gateway: bool,
        core: bool,
        mut inherited: Inherited,
    ) -> anyhow::Result<Self> {
        let from = &mut inherited;
        let mut public = Vec::new();
        let wanted = if gateway { settings.public.listeners.as_slice() } else { &[] };
        for listener in wanted {
            public.push((bind("public.listener", listener.addr, from).await?, listener.clone()));
        }
        let core =
            if core { Some(bind("core.listen", settings.core.listen, from).await?) } else { None };
        let ops = bind("ops.listen", settings.ops.listen, from).await?;
        inherited.leave();
        Ok(Self { public, core, ops })
    }

    /// One line per listener, for people and for whoever started us on port 0.
    pub(super) fn announce(&self) -> anyhow::Result<()> {
        let mut out = std::io::stdout().lock();
        for (socket, listener) in &self.public {
            writeln!(out, "listening public={} tls={}", socket.local_addr()?, listener.tls)?;
        }
        if let Some(core) = &self.core {
            writeln!(out, "listening core={}", core.local_addr()?)?;
        }
        writeln!(out, "listening ops={}", self.ops.local_addr()?)?;
        out.flush().context("telling the addresses")
    }

    /// Where this process' gateway finds its core: where it is bound, if the port was left open.
    pub(super) fn core_url(&self, settings: &Settings) -> String {
        let bound = self.core.as_ref().and_then(|core| core.local_addr().ok());
        match bound {
            Some(addr) if settings.core.listen.port() == 0 => format!("http://{addr}"),
            _ => settings.core.url.clone(),
        }
    }
}

async fn bind(
    key: &str,
    addr: SocketAddr,
    inherited: &mut Inherited,
) -> anyhow::Result<TcpListener> {
    if let Some(socket) = inherited.claim(addr)? {
        return Ok(socket);
    }
    TcpListener::bind(addr).await.with_context(|| {
        format!("{key}: {addr} cannot be listened on; is something else running there?")
    })
}

impl Parts {
    /// Serves one of the private listeners.
    pub(super) fn serve_router(&self, task: &'static str, socket: TcpListener, router: Router) {
        let seats = Arc::new(Semaphore::new(self.settings.limits.max_connections));
        let options = Options { seats, drain: CONNECTION_DRAIN, ..Options::default() };
        let stage = self.life.private();
        let (stop, tasks) = (stage.closing(), stage.tasks());
        self.life.serve(stage, task, listener::serve_router(socket, options, stop, tasks, router));
    }
}
