//! A socket whose writes must make progress, and whose end does not lose the last answer.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use super::patience::{Pace, Patience};
use super::pause::Pause;

/// How long a client may go on sending after our last word.
const LINGER_MAX: Duration = Duration::from_secs(2);
const SCRATCH: usize = 8 * 1024;

/// Whether the client may still be sending when its connection ends: then what it sends is read
/// and dropped for a moment, or the kernel would answer it by a reset that overtakes our answer.
#[derive(Debug, Clone)]
pub(super) struct Lingering(Arc<AtomicBool>);

impl Lingering {
    /// Until something is known: yes.
    pub(super) fn new() -> Self {
        Self(Arc::new(AtomicBool::new(true)))
    }

    pub(super) fn set(&self, lingers: bool) {
        self.0.store(lingers, Ordering::Relaxed);
    }

    fn lingers(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Passes everything through; a write that its reader does not take at the pace set is an error,
/// so that a reader that stalls cannot hold memory and a shop's connection for ever.
pub(super) struct Watched<S> {
    inner: S,
    patience: Patience,
    lingering: Lingering,
    /// While a write waits.
    waiting: Pause,
    /// Our last word is out.
    farewell: Option<Pin<Box<Sleep>>>,
}

impl<S> Watched<S> {
    pub(super) fn new(inner: S, pace: Pace, lingering: Lingering) -> Self {
        let patience = Patience::new(pace);
        Self { inner, patience, lingering, waiting: Pause::default(), farewell: None }
    }

    fn watch<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            if let Some(waited) = self.waiting.end() {
                self.patience.spend(waited);
            }
            return written;
        }
        let waiting = self.waiting.poll(context, self.patience.left());
        waiting.map(|()| Err(io::ErrorKind::TimedOut.into()))
    }

    fn watch_bytes(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        let written = self.watch(context, written);
        if let Poll::Ready(Ok(bytes)) = written {
            self.patience.earn(bytes);
        }
        written
    }
}

impl<S: AsyncRead + Unpin> Watched<S> {
    /// Reads and drops until the client has heard us and closes, or has had its time.
    fn linger(&mut self, context: &mut Context<'_>, until: &mut Pin<Box<Sleep>>) -> Poll<()> {
        let mut scratch = [0; SCRATCH];
        while until.as_mut().poll(context).is_pending() {
            let mut buffer = ReadBuf::new(&mut scratch);
            let read = ready!(Pin::new(&mut self.inner).poll_read(context, &mut buffer));
            if read.is_err() || buffer.filled().is_empty() {
                break;
            }
        }
        Poll::Ready(())
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

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.inner).poll_write(context, bytes);
        this.watch_bytes(context, written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.inner).poll_write_vectored(context, slices);
        this.watch_bytes(context, written)
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
        let mut until = if let Some(until) = this.farewell.take() {
            until
        } else {
            let shut = Pin::new(&mut this.inner).poll_shutdown(context);
            ready!(this.watch(context, shut))?;
            if !this.lingering.lingers() {
                return Poll::Ready(Ok(()));
            }
            Box::pin(tokio::time::sleep(LINGER_MAX))
        };
        let lingered = this.linger(context, &mut until);
        this.farewell = Some(until);
        lingered.map(Ok)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    fn watched(near: tokio::io::DuplexStream, idle_ms: u64) -> Watched<tokio::io::DuplexStream> {
        Watched::new(near, Pace::idle(Duration::from_millis(idle_ms)), Lingering::new())
    }

    #[tokio::test]
    async fn ed_56_a_reader_that_stalls_is_cut_off() {
        let (near, _far) = tokio::io::duplex(16);
        let mut watched = watched(near, 5);

        let written = watched.write_all(&[0; 64]).await;

        assert_eq!(written.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn what_comes_after_our_last_word_is_read_and_dropped_until_the_client_closes() {
        let (near, mut far) = tokio::io::duplex(16);
        let mut watched = watched(near, 5_000);
        let client = async {
            far.write_all(&[0; 4096]).await.unwrap();
            let mut answer = Vec::new();
            far.read_to_end(&mut answer).await.unwrap();
            drop(far);
            answer
        };

        watched.write_all(b"bye").await.unwrap();
        let (answer, shut) = tokio::join!(client, watched.shutdown());

        assert_eq!(answer, b"bye");
        shut.unwrap();
    }
}
