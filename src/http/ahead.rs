//! An HTTP/1.1 connection that hyper gets when there is something for it, and loses again when the
//! client goes back to what is answered at once: whoever waits in line costs neither hyper's
//! buffers nor its time.

use std::cell::RefCell;
use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::server::conn::http1::{Builder, UpgradeableConnection};
use hyper::service::Service;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::between::Between;
use super::body::Body;
use super::quick::Quickened;
use super::resumed::Resumed;

/// What is read at once: as much as hyper reads first.
const READ_BYTES: usize = 8 * 1024;

thread_local! {
    /// Of one core: nothing stays in it from one read to the next.
    static READ: RefCell<Box<[u8]>> = RefCell::new(vec![0; READ_BYTES].into());
}

/// Whether hyper is out of it; clones are one.
#[derive(Clone)]
pub(super) struct Waits(Arc<AtomicBool>);

impl Waits {
    pub(super) fn new() -> Self {
        Self(Arc::new(AtomicBool::new(true)))
    }

    pub(super) fn is(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

type Hyper<S, V> = UpgradeableConnection<TokioIo<Resumed<Quickened<S>>>, V>;

/// A connection, with or without hyper.
pub(super) struct Ahead<S, V>
where
    V: Service<Request<Incoming>, Response = Response<Body>, Error = Infallible>,
{
    stage: Option<Stage<S, V>>,
    builder: Builder,
    between: Between,
    waits: Waits,
    is_ending: bool,
}

enum Stage<S, V>
where
    V: Service<Request<Incoming>, Response = Response<Body>, Error = Infallible>,
{
    Waiting(Quickened<S>, V),
    Served(Box<Hyper<S, V>>),
}

impl<S, V> Ahead<S, V>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    V: Service<Request<Incoming>, Response = Response<Body>, Error = Infallible> + Unpin,
    V::Future: Send + 'static,
{
    pub(super) fn new(
        stream: Quickened<S>,
        service: V,
        builder: Builder,
        (between, waits): (Between, Waits),
    ) -> Self {
        let stage = Some(Stage::Waiting(stream, service));
        Self { stage, builder, between, waits, is_ending: false }
    }

    /// The request under way is the last one; without one it ends now.
    pub(super) fn graceful_shutdown(mut self: Pin<&mut Self>) {
        self.is_ending = true;
        if let Some(Stage::Served(hyper)) = &mut self.stage {
            Pin::new(&mut **hyper).graceful_shutdown();
        }
    }

    /// Takes the connection, what was read of it first.
    fn serve(&self, read: Bytes, stream: Quickened<S>, service: V) -> Stage<S, V> {
        self.waits.0.store(false, Ordering::Relaxed);
        let io = TokioIo::new(Resumed::new(stream, read, 0));
        Stage::Served(Box::new(self.builder.serve_connection(io, service).with_upgrades()))
    }

    /// Takes it back from hyper, which holds nothing of it then.
    fn take_back(&self, hyper: Hyper<S, V>) -> Option<Stage<S, V>> {
        let parts = hyper.into_parts()?;
        let (stream, service) = (parts.io.into_inner().into_inner(), parts.service);
        if !parts.read_buf.is_empty() {
            self.between.hand(&parts.read_buf);
            return Some(self.serve(parts.read_buf, stream, service));
        }
        self.waits.0.store(true, Ordering::Relaxed);
        Some(Stage::Waiting(stream, service))
    }
}

impl<S, V> Future for Ahead<S, V>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    V: Service<Request<Incoming>, Response = Response<Body>, Error = Infallible> + Unpin,
    V::Future: Send + 'static,
{
    type Output = hyper::Result<()>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<hyper::Result<()>> {
        let this = self.get_mut();
        loop {
            match this.stage.take() {
                Some(Stage::Served(mut hyper)) => {
                    if let Poll::Ready(ended) = Pin::new(&mut *hyper).poll(context) {
                        return Poll::Ready(ended);
                    }
                    if this.is_ending || !this.between.is_quick() {
                        this.stage = Some(Stage::Served(hyper));
                        return Poll::Pending;
                    }
                    this.stage = this.take_back(*hyper);
                }
                Some(Stage::Waiting(mut stream, service)) => {
                    let read = if this.is_ending {
                        Pin::new(&mut stream).poll_shutdown(context).map_ok(|()| Bytes::new())
                    } else {
                        first(&mut stream, context)
                    };
                    this.stage = match read {
                        Poll::Pending => {
                            this.stage = Some(Stage::Waiting(stream, service));
                            return Poll::Pending;
                        }
                        Poll::Ready(Ok(read)) if !read.is_empty() => {
                            Some(this.serve(read, stream, service))
                        }
                        Poll::Ready(Ok(_)) if !this.is_ending => {
                            this.is_ending = true;
                            Some(Stage::Waiting(stream, service))
                        }
                        Poll::Ready(Ok(_)) => None,
                        Poll::Ready(Err(error)) => {
                            tracing::debug!(%error, "a connection was lost between two requests");
                            None
                        }
                    };
                }
                None => return Poll::Ready(Ok(())),
            }
        }
    }
}

/// The first bytes that are not answered at once; none at the end.
fn first<S>(stream: &mut Quickened<S>, context: &mut Context<'_>) -> Poll<io::Result<Bytes>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    READ.with_borrow_mut(|room| {
        let mut read = ReadBuf::new(room);
        ready!(Pin::new(stream).poll_read(context, &mut read))?;
        Poll::Ready(Ok(Bytes::copy_from_slice(read.filled())))
    })
}
