//! A socket of which something was read before hyper gets it, and on which a request may have been
//! written: hyper writes another one then, which is dropped, and reads what came back to the first.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Passes everything else through.
#[derive(Debug)]
pub(super) struct Resumed<S> {
    inner: S,
    read: Bytes,
    /// Of what hyper writes, so many bytes go nowhere. Nothing is read before.
    dropped: usize,
}

impl<S> Resumed<S> {
    pub(super) fn new(inner: S, read: Bytes, dropped: usize) -> Self {
        Self { inner, read, dropped }
    }

    pub(super) fn into_inner(self) -> S {
        self.inner
    }

    /// How much of this goes nowhere.
    fn drop_first(&mut self, context: &Context<'_>, bytes: &[u8]) -> usize {
        let count = bytes.len().min(self.dropped);
        self.dropped -= count;
        if count > 0 && self.dropped == 0 {
            // It may have been kept from reading.
            context.waker().wake_by_ref();
        }
        count
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Resumed<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.dropped > 0 {
            return Poll::Pending;
        }
        if this.read.is_empty() {
            return Pin::new(&mut this.inner).poll_read(context, buffer);
        }
        let count = this.read.len().min(buffer.remaining());
        buffer.put_slice(&this.read.split_to(count));
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Resumed<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        match this.drop_first(context, bytes) {
            0 => Pin::new(&mut this.inner).poll_write(context, bytes),
            count => Poll::Ready(Ok(count)),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let first = slices.iter().find(|slice| !slice.is_empty()).map_or(&[][..], |slice| slice);
        let this = self.get_mut();
        match this.drop_first(context, first) {
            0 => Pin::new(&mut this.inner).poll_write_vectored(context, slices),
            count => Poll::Ready(Ok(count)),
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test]
    async fn what_was_written_before_is_not_written_again_and_what_was_read_comes_first() {
        let (near, mut far) = tokio::io::duplex(64);
        let mut resumed = Resumed::new(near, Bytes::from_static(b"one, "), 3);
        let mut buffer = [0; 16];
        let early =
            tokio::time::timeout(std::time::Duration::from_millis(5), resumed.read(&mut buffer));
        assert!(early.await.is_err(), "nothing is read before");

        resumed.write_all(b"GETsent").await.unwrap();
        far.write_all(b"two").await.unwrap();
        let mut sent = [0; 4];
        far.read_exact(&mut sent).await.unwrap();
        assert_eq!(&sent, b"sent");
        drop(far);

        let mut seen = String::new();
        resumed.read_to_string(&mut seen).await.unwrap();
        assert_eq!(seen, "one, two");
    }
}
