//! A socket that is read in small pieces.
//!
//! hyper reads as much at once as its buffer holds, and the buffer must hold a service's longest
//! head. Each of the hops to a client who takes nothing would keep such a piece of a body.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf, Take};

/// The most that one read takes, in bytes.
const SIP: u64 = 16 * 1024;

/// Passes writes through.
#[derive(Debug)]
pub(super) struct Sips<S>(Take<S>);

impl<S: AsyncRead + Unpin> Sips<S> {
    pub(super) fn new(socket: S) -> Self {
        Self(socket.take(SIP))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Sips<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.0.set_limit(SIP);
        Pin::new(&mut this.0).poll_read(context, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Sips<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(self.get_mut().0.get_mut()).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(self.get_mut().0.get_mut()).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.get_ref().is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(self.get_mut().0.get_mut()).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(self.get_mut().0.get_mut()).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test]
    async fn no_read_takes_more_than_a_sip_and_nothing_is_lost() {
        let (near, mut far) = tokio::io::duplex(1024 * 1024);
        let mut sips = Sips::new(near);
        let sent: Vec<u8> = (0..=u8::MAX).cycle().take(80_000).collect();
        far.write_all(&sent).await.unwrap();
        drop(far);

        let (mut seen, mut buffer) = (vec![], vec![0; 256 * 1024]);
        loop {
            let count = sips.read(&mut buffer).await.unwrap();
            assert!(count as u64 <= SIP);
            if count == 0 {
                break;
            }
            seen.extend_from_slice(&buffer[..count]);
        }

        assert_eq!(seen, sent);
    }
}
