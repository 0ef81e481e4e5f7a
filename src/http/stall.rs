//! A stream whose writes must make progress.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// Passes everything through; a write that nobody takes for too long is an error, so that a reader
/// that stalls cannot hold memory and a shop's connection for ever.
pub(super) struct Watched<S> {
    inner: S,
    stall_max: Duration,
    /// Armed only while a write waits.
    waiting: Option<Pin<Box<Sleep>>>,
}

impl<S> Watched<S> {
    /// Bounds each wait of a write.
    pub(super) fn new(inner: S, stall_max: Duration) -> Self {
        Self { inner, stall_max, waiting: None }
    }

    fn watch<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.waiting = None;
            return written;
        }
        let stall_max = self.stall_max;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(tokio::time::sleep(stall_max)));
        waiting.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.inner).poll_write(context, bytes);
        this.watch(context, written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.inner).poll_write_vectored(context, slices);
        this.watch(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let flushed = Pin::new(&mut this.inner).poll_flush(context);
        this.watch(context, flushed)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let shut = Pin::new(&mut this.inner).poll_shutdown(context);
        this.watch(context, shut)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncWriteExt;

    #[tokio::test]
    async fn ed_56_a_reader_that_stalls_is_cut_off() {
        let (near, _far) = tokio::io::duplex(16);
        let mut watched = Watched::new(near, Duration::from_millis(5));

        let written = watched.write_all(&[0; 64]).await;

        assert_eq!(written.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
}
