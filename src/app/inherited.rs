//! Sockets handed down by a service manager (systemd's `LISTEN_FDS`): it keeps them open while a
//! node restarts, so that whoever comes meanwhile waits a moment and is not refused.

use std::net::SocketAddr;

use anyhow::Context;
use listenfd::ListenFd;
use tokio::net::TcpListener;

/// Sockets that nobody has claimed yet, by their addresses.
pub(super) struct Inherited(Vec<(SocketAddr, std::net::TcpListener)>);

impl Inherited {
    /// Takes over what was handed down to this process; children of ours see nothing of it.
    pub(super) fn take() -> anyhow::Result<Self> {
        let mut handed = ListenFd::from_env();
        let mut sockets = vec![];
        for at in 0..handed.len() {
            let socket = handed.take_tcp_listener(at);
            let socket = socket.context("LISTEN_FDS: only TCP sockets can be taken over")?;
            if let Some(socket) = socket {
                socket.set_nonblocking(true).context("LISTEN_FDS")?;
                sockets.push((socket.local_addr().context("LISTEN_FDS")?, socket));
            }
        }
        Ok(Self(sockets))
    }

    /// The socket of an address of the settings, if it was handed down.
    pub(super) fn claim(&mut self, addr: SocketAddr) -> anyhow::Result<Option<TcpListener>> {
        let Some(at) = self.0.iter().position(|(bound, _)| is_same(*bound, addr)) else {
            return Ok(None);
        };
        let (_, socket) = self.0.swap_remove(at);
        TcpListener::from_std(socket).map(Some).context("LISTEN_FDS")
    }

    /// Names what the settings have no listener for.
    pub(super) fn leave(self) {
        for (addr, _) in self.0 {
            tracing::warn!(%addr, "a socket was handed down that no listener of the settings has");
        }
    }
}

/// All interfaces are all interfaces, whatever the family: `ListenStream=8080` is `[::]:8080`.
fn is_same(bound: SocketAddr, wanted: SocketAddr) -> bool {
    let (one, other) = (bound.ip().to_canonical(), wanted.ip().to_canonical());
    let all = one.is_unspecified() && other.is_unspecified();
    bound.port() == wanted.port() && (all || one == other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_known_by_its_address_and_all_interfaces_are_the_same() {
        let is = |one: &str, other: &str| is_same(one.parse().unwrap(), other.parse().unwrap());
        assert!(is("127.0.0.1:80", "127.0.0.1:80") && is("[::ffff:127.0.0.1]:80", "127.0.0.1:80"));
        assert!(is("[::]:80", "0.0.0.0:80"));
        assert!(!is("[::]:80", "127.0.0.1:80") && !is("127.0.0.1:81", "127.0.0.1:80"));
    }
}
