//! Requests answered beneath hyper, which then knows nothing of them: at once from their bytes, or
//! later, when others have been asked. Whatever is not plainly such a request, alone and whole,
//! goes on to hyper.

pub mod whole;
mod written;

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Either, Ready};
use hyper::Response;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::between::Between;
use super::body::Body;
use super::kept_timer::KeptTimer;
use super::life::Carried;
use super::listener::Peer;
pub use written::with_date;

/// An answer that is there already, or one that may have to wait for others.
pub type Answering = Either<Ready<Response<Body>>, BoxFuture<'static, Response<Body>>>;

/// Who answers some requests by their bytes alone.
pub trait Quick: Send + Sync {
    /// Appends the whole answer to `request`, which came in one piece and is the next on its
    /// connection, and keeps the connection open; or says no and appends nothing. Hyper reads the
    /// same bytes then: only what it would take for exactly one request may be answered.
    fn answer(&self, request: &[u8], peer: &Peer, out: &mut Vec<u8>) -> bool;

    /// Begins to answer such a request, by an answer whose body is there when its head is; or says
    /// no. Dropped when the client has gone.
    fn begin(self: Arc<Self>, request: &[u8], peer: &Peer) -> Option<Answering>;
}

/// What an answer of one core is written to.
const OUT_BYTES: usize = 2 * 1024;
/// What is kept of it after a long one.
const OUT_BYTES_MAX: usize = 64 * 1024;

thread_local! {
    static OUT: RefCell<Vec<u8>> = RefCell::new(Vec::with_capacity(OUT_BYTES));
}

/// A connection whose plain questions are answered at once, and whose plain calls without hyper.
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
    /// In a box: most connections only wait.
    call: Option<Box<Call>>,
}

/// A call that was begun.
enum Call {
    /// It is being answered, and this was sent meanwhile.
    Answering(Answering, Vec<u8>),
    /// It was answered, and this was sent meanwhile.
    Answered(Vec<u8>),
    /// It was the last one, or its client has gone.
    Last,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Quickened<S> {
    pub(super) fn new(
        inner: S,
        quick: Option<Arc<dyn Quick>>,
        peer: Peer,
        (between, carried, timer): (Between, Arc<Carried>, KeptTimer),
    ) -> Self {
        let (unsent, is_flushed, call) = (Vec::new(), true, None);
        Self { inner, quick, peer, between, carried, timer, unsent, is_flushed, call }
    }

    /// Answers a request, or begins to; no if it is for hyper.
    fn take(&mut self, context: &mut Context<'_>, request: &[u8]) -> io::Result<bool> {
        let Some(quick) = &self.quick else { return Ok(false) };
        let is_answered = OUT.with_borrow_mut(|out| {
            out.clear();
            let is_answered = quick.answer(request, &self.peer, out);
            if is_answered {
                send(&mut self.inner, context, out, &mut self.unsent)?;
                self.is_flushed = false;
            }
            Ok::<_, io::Error>(is_answered)
        })?;
        if !is_answered {
            let begun = Arc::clone(quick).begin(request, &self.peer);
            let Some(answering) = begun else { return Ok(false) };
            let early = match self.call.take().map(|call| *call) {
                Some(Call::Answered(early)) => early,
                Some(Call::Answering(..) | Call::Last) | None => Vec::new(),
            };
            self.call = Some(Box::new(Call::Answering(answering, early)));
        }
        self.carried.under_way(true);
        self.between.take();
        self.peer.guest.ask();
        self.timer.ask();
        self.carried.one_more();
        Ok(true)
    }

    /// Goes on with a call, if there is one, until it is answered; it may be known to be the last.
    fn poll_call(&mut self, context: &mut Context<'_>, is_last: bool) -> Poll<io::Result<()>> {
        let Some(Call::Answering(answering, early)) = self.call.as_deref_mut() else {
            return Poll::Ready(Ok(()));
        };
        let mut response = ready!(answering.poll_unpin(context));
        if is_last {
            written::end(&mut response);
        }
        let early = std::mem::take(early);
        self.call = if written::is_last(&response) {
            Some(Box::new(Call::Last))
        } else if early.is_empty() {
            None
        } else {
            Some(Box::new(Call::Answered(early)))
        };
        OUT.with_borrow_mut(|out| {
            out.clear();
            written::write(response, out)?;
            self.is_flushed = false;
            send(&mut self.inner, context, out, &mut self.unsent)?;
            out.clear();
            out.shrink_to(OUT_BYTES_MAX);
            Poll::Ready(Ok(()))
        })
    }

    /// Looks at what the client does while its call is answered: if it goes, nobody answers it any
    /// more, and if it sends more, that comes next.
    fn poll_meanwhile(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Some(Call::Answering(_, early)) = self.call.as_deref_mut() else {
            return Poll::Pending;
        };
        if !early.is_empty() {
            return Poll::Pending;
        }
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(context, buffer))?;
        early.extend_from_slice(buffer.filled().get(before..).unwrap_or_default());
        buffer.set_filled(before);
        if early.is_empty() {
            self.call = Some(Box::new(Call::Last));
            return Poll::Ready(Ok(()));
        }
        Poll::Pending
    }

    /// What comes next: what was sent during a call, else what the client sends.
    fn poll_next(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.call.as_deref_mut() {
            None => return Pin::new(&mut self.inner).poll_read(context, buffer),
            Some(Call::Answered(early)) => {
                let count = early.len().min(buffer.remaining());
                buffer.put_slice(early.get(..count).unwrap_or_default());
                early.drain(..count);
                if early.is_empty() {
                    self.call = None;
                }
            }
            Some(Call::Last | Call::Answering(..)) => {}
        }
        Poll::Ready(Ok(()))
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
            self.carried.under_way(false);
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
            if this.poll_call(context, false)?.is_pending() {
                ready!(this.poll_meanwhile(context, buffer))?;
            }
            ready!(this.poll_send(context))?;
            let before = buffer.filled().len();
            ready!(this.poll_next(context, buffer))?;
            let bytes = buffer.filled().get(before..).unwrap_or_default();
            if bytes.is_empty() {
                return Poll::Ready(Ok(()));
            }
            if !this.between.is() || !this.take(context, bytes)? {
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
        ready!(this.poll_call(context, true))?;
        ready!(this.poll_send(context))?;
        Pin::new(&mut this.inner).poll_shutdown(context)
    }
}

/// Sends what the socket takes now; the rest waits.
fn send<S: AsyncWrite + Unpin>(
    socket: &mut S,
    context: &mut Context<'_>,
    answer: &[u8],
    unsent: &mut Vec<u8>,
) -> io::Result<()> {
    let sent = match Pin::new(socket).poll_write(context, answer) {
        Poll::Ready(sent) => sent?,
        Poll::Pending => 0,
    };
    unsent.extend_from_slice(answer.get(sent..).unwrap_or_default());
    Ok(())
}

#[cfg(test)]
mod tests;
