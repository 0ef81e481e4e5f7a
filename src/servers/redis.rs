//! A private `redis-server`.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sys::signal::Signal;

use super::binaries;
use super::folder::Folder;
use super::server::{Recipe, Server, on_a_free_port};

/// A probe waits no longer for its answer.
const ANSWER_MAX: Duration = Duration::from_secs(1);
/// How long servers that stand together may take to agree.
const REACHED_WITHIN: Duration = Duration::from_secs(30);
const PROBE_EVERY: Duration = Duration::from_millis(20);

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

/// One of several Redis servers that stand together.
pub(super) struct Member {
    pub(super) port: u16,
    pub(super) server: Server,
}

/// Starts one in a folder of its own below the others', with these arguments beside the usual.
pub(super) fn member(folder: &Folder, name: &str, manner: &[&str]) -> Result<Member> {
    on_a_free_port(|port| {
        let mut recipe = recipe_in(folder, &format!("work/{name}"), port)?;
        recipe.args.extend(["--repl-diskless-sync-delay", "0"].map(OsString::from));
        recipe.args.extend(manner.iter().map(OsString::from));
        Ok(Member { port, server: Server::start(recipe)? })
    })
}

/// Asks the server on a port one thing.
pub(super) fn ask<T: ::redis::FromRedisValue>(port: u16, words: &[&str]) -> Result<T> {
    let client = ::redis::Client::open(("127.0.0.1", port))?;
    let mut connection = client.get_connection_with_timeout(ANSWER_MAX)?;
    connection.set_read_timeout(Some(ANSWER_MAX))?;
    let mut command = ::redis::Cmd::new();
    Ok(command.arg(words).query(&mut connection)?)
}

/// Blocks until something is true; whoever cannot be asked yet is asked again.
pub(super) fn reached(what: &str, is_true: impl Fn() -> Result<bool>) -> Result<()> {
    let began = Instant::now();
    loop {
        let said = is_true();
        if matches!(said, Ok(true)) {
            return Ok(());
        }
        if began.elapsed() > REACHED_WITHIN {
            return said.and_then(|_| bail!("never: {what}")).with_context(|| what.to_owned());
        }
        std::thread::sleep(PROBE_EVERY);
    }
}

/// A recipe for a Redis whose life ends with its folder's, on a port.
fn recipe(folder: &Folder, port: u16) -> Result<Recipe> {
    recipe_in(folder, "redis", port)
}

/// The same in a folder of this name.
pub(super) fn recipe_in(folder: &Folder, name: &str, port: u16) -> Result<Recipe> {
    let access = ["--bind", "127.0.0.1", "--port", &port.to_string()].map(OsString::from);
    let manner = ["--save", "", "--appendonly", "no", "--databases", "4096"].map(OsString::from);
    let args = access.into_iter().chain(manner).collect();
    let connect = move || {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_read_timeout(Some(ANSWER_MAX))?;
        Ok(stream)
    };
    serving(folder, name, args, move || pong(connect()))
}

/// A recipe for a Redis that outlives us, on a socket in its folder: every write is in its log
/// before it is answered, and on the disk within a second.
pub(super) fn durable(folder: &Folder) -> Result<(Recipe, PathBuf)> {
    let socket = folder.room("redis")?.join("redis.sock");
    let mut args: Vec<OsString> = ["--port", "0", "--save", ""].map(OsString::from).into();
    args.extend(["--appendonly", "yes", "--appendfsync", "everysec"].map(OsString::from));
    args.extend(["--unixsocket".into(), socket.clone().into_os_string()]);
    let asked = socket.clone();
    let connect = move || {
        let stream = UnixStream::connect(&asked)?;
        stream.set_read_timeout(Some(ANSWER_MAX))?;
        Ok(stream)
    };
    let recipe = serving(folder, "redis", args, move || pong(connect()))?;
    Ok((recipe, socket))
}

fn serving(
    folder: &Folder,
    name: &str,
    mut args: Vec<OsString>,
    answers: impl Fn() -> bool + Send + Sync + 'static,
) -> Result<Recipe> {
    let path = folder.room(name)?;
    args.extend(["--maxmemory-policy", "noeviction"].map(OsString::from));
    args.extend(["--pidfile".into(), path.join("redis.pid").into_os_string()]);
    args.extend(["--dir".into(), path.clone().into_os_string()]);
    Ok(Recipe {
        program: binaries::redis_server()?,
        args,
        log: path.join("redis.log"),
        folder: path,
        identity: folder.identity(),
        answers_within: folder.patience(),
        at_drop: if folder.is_kept() { Signal::SIGTERM } else { Signal::SIGKILL },
        answers: Box::new(move |_| answers()),
    })
}

fn pong<S: Read + Write>(stream: std::io::Result<S>) -> bool {
    let ask = || {
        let mut stream = stream?;
        stream.write_all(b"PING\r\n")?;
        let mut answer = [0; 5];
        stream.read_exact(&mut answer)?;
        std::io::Result::Ok(&answer == b"+PONG")
    };
    ask().unwrap_or(false)
}
