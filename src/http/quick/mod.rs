//! Answers that need no more than a request's bytes: given beneath hyper, which then knows nothing
//! of the request. Whatever is not plainly such a request, alone and whole, goes on to hyper.

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::between::Between;
use super::kept_timer::KeptTimer;
use super::life::Carried;
use super::listener::Peer;

/// Who answers some requests by their bytes alone.
pub trait Quick: Send + Sync {
    /// Appends the whole answer to `request`, which came in one piece and is the next on its
    /// connection, and keeps the connection open; or says no and appends nothing. Hyper reads the
    /// same bytes then: only what it would take for exactly one request may be answered.
    fn answer(&self, request: &[u8], peer: &Peer, out: &mut Vec<u8>) -> bool;
}

/// What an answer of one core is written to.
const OUT_BYTES: usize = 2 * 1024;

thread_local! {
    static OUT: RefCell<Vec<u8>> = RefCell::new(Vec::with_capacity(OUT_BYTES));
}

/// A connection whose plain questions are answered at once.
pub(super) struct Quickened<S> {
    inner: S,
    /// None: all is for hyper.
    quick: Option<Arc<dyn Quick>>,
    peer: Peer,
    between: Between,
    carried: Arc<Carried>,
    timer: KeptTimer,
    unsent: Vec<u8>,
    is_flushed: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Quickened<S> {
    pub(super) fn new(
        inner: S,
        quick: Option<Arc<dyn Quick>>,
        peer: Peer,
        (between, carried, timer): (Between, Arc<Carried>, KeptTimer),
    ) -> Self {
        Self { inner, quick, peer, between, carried, timer, unsent: Vec::new(), is_flushed: true }
    }

    /// Answers, if it can be done at once; what the socket does not take now waits.
    fn answer(&mut self, context: &mut Context<'_>, request: &[u8]) -> io::Result<bool> {
        let Some(quick) = &self.quick else { return Ok(false) };
        OUT.with_borrow_mut(|out| {
            out.clear();
            if !quick.answer(request, &self.peer, out) {
                return Ok(false);
            }
            let sent = match Pin::new(&mut self.inner).poll_write(context, out) {
                Poll::Ready(sent) => sent?,
                Poll::Pending => 0,
            };
            self.unsent.extend_from_slice(out.get(sent..).unwrap_or_default());
            self.is_flushed = false;
            self.between.answered();
            self.peer.guest.ask();
            self.timer.ask();
            self.carried.one_more();
            Ok(true)
        })
    }

    /// Sends what waits, before anything else goes out.
    fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.unsent.is_empty() {
            let sent = ready!(Pin::new(&mut self.inner).poll_write(context, &self.unsent))?;
            if sent == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.unsent.drain(..sent);
        }
        if !self.is_flushed {
            ready!(Pin::new(&mut self.inner).poll_flush(context))?;
            (self.unsent, self.is_flushed) = (Vec::new(), true);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Quickened<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        loop {
            ready!(this.poll_send(context))?;
            let before = buffer.filled().len();
            ready!(Pin::new(&mut this.inner).poll_read(context, buffer))?;
            let bytes = buffer.filled().get(before..).unwrap_or_default();
            if bytes.is_empty() {
                return Poll::Ready(Ok(()));
            }
            if !this.between.is() || !this.answer(context, bytes)? {
                this.between.hand(bytes);
                return Poll::Ready(Ok(()));
            }
            buffer.set_filled(before);
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Quickened<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        ready!(this.poll_send(context))?;
        Pin::new(&mut this.inner).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        ready!(this.poll_send(context))?;
        Pin::new(&mut this.inner).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    /// Hyper asks for this when it has nothing left to write.
    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_send(context))?;
        ready!(Pin::new(&mut this.inner).poll_flush(context))?;
        this.between.flushed();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_send(context))?;
        Pin::new(&mut this.inner).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests;
