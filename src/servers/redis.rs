//! A private `redis-server`.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use nix::sys::signal::Signal;

use super::binaries;
use super::folder::Folder;
use super::server::{Recipe, Server, on_a_free_port};

/// A Redis on loopback that keeps nothing: a restart finds it empty.
pub struct PrivateRedis {
    port: u16,
    // Declared first, so that the server ends before its folder is removed.
    server: Server,
    _folder: Arc<Folder>,
}

impl PrivateRedis {
    /// Starts one in a folder of its own; blocks until it answers.
    pub fn start() -> Result<Self> {
        Self::start_in(&Arc::new(Folder::create()?))
    }

    pub(super) fn start_in(folder: &Arc<Folder>) -> Result<Self> {
        on_a_free_port(|port| {
            let server = Server::start(recipe(folder, port)?)?;
            Ok(Self { port, server, _folder: folder.clone() })
        })
    }

    /// `redis://127.0.0.1:PORT/`.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    /// Stops it in good order.
    pub fn stop(&self) -> Result<()> {
        self.server.end(Signal::SIGTERM)
    }

    /// Kills it with SIGKILL.
    pub fn kill(&self) -> Result<()> {
        self.server.end(Signal::SIGKILL)
    }

    /// Starts it again on the same port, empty; kills it first if it runs.
    pub fn restart(&self) -> Result<()> {
        self.server.restart()
    }

    /// Freezes it (SIGSTOP): connections stay open, nothing is answered.
    pub fn freeze(&self) -> Result<()> {
        self.server.signal(Signal::SIGSTOP)
    }

    /// Goes on after [`PrivateRedis::freeze`].
    pub fn thaw(&self) -> Result<()> {
        self.server.signal(Signal::SIGCONT)
    }
}

fn recipe(folder: &Folder, port: u16) -> Result<Recipe> {
    let path = folder.path();
    let mut args: Vec<OsString> = ["--bind", "127.0.0.1", "--port"].map(OsString::from).into();
    args.push(port.to_string().into());
    args.extend(["--save", "", "--appendonly", "no"].map(OsString::from));
    args.extend(["--maxmemory-policy", "noeviction", "--databases", "4096"].map(OsString::from));
    args.extend(["--pidfile".into(), path.join("redis.pid").into_os_string()]);
    args.extend(["--dir".into(), path.as_os_str().to_owned()]);
    Ok(Recipe {
        program: binaries::redis_server()?,
        args,
        folder: path.to_owned(),
        log: path.join("redis.log"),
        identity: folder.identity(),
        at_drop: Signal::SIGKILL,
        answers: Box::new(move |_| pong(port)),
    })
}

fn pong(port: u16) -> bool {
    let ask = || {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_read_timeout(Some(Duration::from_secs(1)))?;
        stream.write_all(b"PING\r\n")?;
        let mut answer = [0; 5];
        stream.read_exact(&mut answer)?;
        std::io::Result::Ok(&answer == b"+PONG")
    };
    ask().unwrap_or(false)
}
