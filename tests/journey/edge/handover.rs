//! A service manager holds the public socket: the gateway restarts, and nobody is refused.

use std::net::TcpListener;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use stanchion::lab::rig::{ConfigFile, Layout, Node};

use super::no_limits;
use super::origin::Origin;
use super::wire::{ask, status};
use crate::fixture::{Ground, executable};

const RESTARTS: usize = 5;

/// Starts a gateway as systemd would: the socket is its file 3. (Not by sh, whose files end at 9.)
fn start(ground: &Ground, file: &Path, socket: &TcpListener, log: &Path) -> Node {
    let take = format!(
        "exec 3<&{} && export LISTEN_FDS=1 LISTEN_PID=$$ && exec \"$0\" serve --role gateway -c \"$1\"",
        socket.as_raw_fd()
    );
    let mut command = Command::new("bash");
    command.args(["-c", &take]).arg(executable()).arg(file);
    command
        .env("STANCHION_CORE_KEY", "core-key-of-this-test")
        .env("STANCHION_OPS_KEY", "ops-key-of-this-test")
        .env("REDIS_URL", &ground.redis_url)
        .env_remove("DATABASE_URL");
    Node::start(command, log).unwrap()
}

/// The settings of the gateway, which listens where the socket is.
fn write(ground: &Ground, shop: &Origin, addr: &str) -> PathBuf {
    let plan = ground.sale_opening_in(600_000, 10);
    let mut config = ConfigFile::new(&shop.url(), std::slice::from_ref(&plan)).unwrap();
    no_limits(&mut config);
    let keys = ground.folder.join("keys");
    config.set("keys.dir", keys.to_str().unwrap()).unwrap();
    config.set("public.listener.0.addr", addr).unwrap();
    let file = ground.folder.join("handed.toml");
    config.write(&file).unwrap();
    file
}

#[test]
fn ed_86_restarts_with_a_handed_down_socket_refuse_nobody() {
    let (ground, shop) = (Ground::new("handover"), Origin::start());
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    fcntl(&socket, FcntlArg::F_SETFD(FdFlag::empty())).unwrap();
    let addr = socket.local_addr().unwrap().to_string();
    let file = write(&ground, &shop, &addr);
    // Makes the keys, and starts nothing else.
    let plan = ground.sale_opening_in(600_000, 10);
    let config = ConfigFile::new(&shop.url(), std::slice::from_ref(&plan)).unwrap();
    let _keys = ground.install(Layout { gateways: 0, cores: 0 }, config);

    let log = ground.folder.join("handed.log");
    let mut node = start(&ground, &file, &socket, &log);
    assert_eq!(node.url("public").unwrap(), format!("http://{addr}"));
    let done = Arc::new(AtomicBool::new(false));
    let askers: Vec<_> = (0..4)
        .map(|_| {
            let (done, url) = (Arc::clone(&done), format!("http://{addr}"));
            std::thread::spawn(move || {
                let mut asked = 0_u32;
                while !done.load(Ordering::Relaxed) {
                    let answer = ask(&url, "GET /handover", &[]);
                    assert_eq!(status(&answer), 200, "request {asked}: {answer:?}");
                    asked += 1;
                }
                asked
            })
        })
        .collect();

    for _ in 0..RESTARTS {
        let ended = node.stop().unwrap();
        assert!(ended.success(), "{ended}: {}", node.said());
        node = start(&ground, &file, &socket, &log);
    }
    done.store(true, Ordering::Relaxed);
    let asked: u32 = askers.into_iter().map(|asker| asker.join().unwrap()).sum();
    assert!(asked > 10, "only {asked} were asked");
}
