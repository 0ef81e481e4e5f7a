//! Bytes both ways once both sides have left HTTP.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// For both sides to hand over their sockets.
const HANDOFF_MAX: Duration = Duration::from_secs(30);
const BUFFER: usize = 8 * 1024;

/// Copies until one side ends, or nothing moves for `idle_max`; then, or dropped, both are
/// closed.
pub(super) async fn run(client: OnUpgrade, service: OnUpgrade, idle_max: Duration) {
    let handoff = async { tokio::try_join!(client, service) };
    let Ok(Ok((client, service))) = tokio::time::timeout(HANDOFF_MAX, handoff).await else {
        tracing::debug!("an upgrade was not completed");
        return;
    };
    let (client_read, client_write) = tokio::io::split(TokioIo::new(client));
    let (service_read, service_write) = tokio::io::split(TokioIo::new(service));
    let moved = AtomicU64::new(0);
    tokio::select! {
        () = pump(client_read, service_write, idle_max, &moved) => {}
        () = pump(service_read, client_write, idle_max, &moved) => {}
    }
}

async fn pump<R, W>(mut from: R, mut to: W, idle_max: Duration, moved: &AtomicU64)
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let mut buffer = vec![0; BUFFER];
    loop {
        let seen = moved.load(Ordering::Relaxed);
        let count = match tokio::time::timeout(idle_max, from.read(&mut buffer)).await {
            Ok(Ok(0) | Err(_)) => break,
            Ok(Ok(count)) => count,
            Err(_) if moved.load(Ordering::Relaxed) != seen => continue,
            Err(_) => break,
        };
        moved.fetch_add(1, Ordering::Relaxed);
        // A reader of HTTP/2 who keeps its window shut is seen by nobody else.
        let writing = async {
            to.write_all(&buffer[..count]).await?;
            to.flush().await
        };
        if !matches!(tokio::time::timeout(idle_max, writing).await, Ok(Ok(()))) {
            break;
        }
    }
    if let Err(error) = to.shutdown().await {
        tracing::debug!(%error, "a tunnel's far side was gone");
    }
}
