//! One connection to a service, driven by whoever uses it: it needs no task of its own, so an
//! answer wakes the one who waits for it and nobody in between.

use std::fmt;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::BoxFuture;
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep};
use tokio_util::task::AbortOnDropHandle;

use super::body::Body;
use super::paced::Progress;
use super::sips::Sips;

/// A service's response head: fields, and bytes.
const HEAD_FIELDS_MAX: usize = 256;
const HEAD_BYTES_MAX: usize = 256 * 1024;

/// hyper's connection, whose type has no name.
type Wire = BoxFuture<'static, hyper::Result<()>>;

/// An answer, or why there is none; the request comes back if nothing of it was written.
pub(super) type Exchanged = Result<Response<Incoming>, TrySendError<Request<Body>>>;

/// One connection.
pub(super) struct Link {
    sender: SendRequest<Body>,
    /// Until it has ended, or a task of its own drives it.
    wire: Option<Wire>,
    /// The task. It ends with the link, whatever of an upload is still to come.
    driver: Option<AbortOnDropHandle<()>>,
    /// Set anew for each request: to set it later takes no lock, as a new timer would.
    deadline: Pin<Box<Sleep>>,
    born: Instant,
}

impl Link {
    /// Speaks HTTP over an open socket.
    pub(super) async fn over(stream: TcpStream) -> hyper::Result<Self> {
        let (sender, wire) = Builder::new()
            .max_headers(HEAD_FIELDS_MAX)
            .max_buf_size(HEAD_BYTES_MAX)
            .handshake(TokioIo::new(Sips::new(stream)))
            .await?;
        let born = Instant::now();
        let deadline = Box::pin(tokio::time::sleep_until(born));
        let wire: Wire = Box::pin(wire.with_upgrades());
        Ok(Self { sender, wire: Some(wire), driver: None, deadline, born })
    }

    /// How old it is.
    pub(super) fn age(&self) -> Duration {
        self.born.elapsed()
    }

    /// Moves what can be moved now.
    pub(super) fn drive(&mut self, context: &mut Context<'_>) {
        let Some(wire) = &mut self.wire else { return };
        if let Poll::Ready(ended) = wire.as_mut().poll(context) {
            if let Err(error) = ended {
                tracing::debug!(%error, "a connection to a service behind us broke");
            }
            self.wire = None;
        }
    }

    /// Looks whether it can take another request now; one that the service has closed cannot.
    pub(super) fn is_ready(&mut self, context: &mut Context<'_>) -> bool {
        self.drive(context);
        self.sender.is_ready()
    }

    /// The same, for whoever has no context at hand.
    pub(super) async fn is_ready_now(&mut self) -> bool {
        poll_fn(|context| Poll::Ready(self.is_ready(context))).await
    }

    /// Has a task drive it from now on: an upload goes on while nobody asks for the answer.
    pub(super) fn let_go(&mut self) {
        let Some(wire) = self.wire.take() else { return };
        #[expect(
            clippy::disallowed_methods,
            reason = "ends with the link, so it needs no stop of its own"
        )]
        let driver = tokio::spawn(async move {
            if let Err(error) = wire.await {
                tracing::debug!(%error, "a connection to a service behind us broke");
            }
        });
        self.driver = Some(AbortOnDropHandle::new(driver));
    }

    /// It is HTTP no longer: its task ends once it has handed the socket over.
    pub(super) fn hand_over(mut self) {
        self.let_go();
        if let Some(driver) = self.driver.take() {
            driver.detach();
        }
    }

    /// Whether a task drives it.
    pub(super) fn goes_by_itself(&self) -> bool {
        self.driver.is_some()
    }

    /// Waits until it can take another request; false if it never will.
    pub(super) async fn becomes_ready(&mut self) -> bool {
        self.sender.ready().await.is_ok()
    }

    /// Sends a request; nothing if no response's head came for `wait`, of which the time in which
    /// the upload moved does not count.
    pub(super) async fn exchange(
        &mut self,
        request: Request<Body>,
        upload: &Progress,
        wait: Duration,
    ) -> Option<Exchanged> {
        let mut sending = pin!(self.sender.try_send_request(request));
        let mut seen = upload.bytes();
        self.deadline.as_mut().reset(Instant::now() + wait);
        poll_fn(|context| {
            self.drive(context);
            if let Poll::Ready(done) = sending.as_mut().poll(context) {
                return Poll::Ready(Some(done));
            }
            while self.deadline.as_mut().poll(context).is_ready() {
                if upload.bytes() == seen {
                    return Poll::Ready(None);
                }
                seen = upload.bytes();
                self.deadline.as_mut().reset(Instant::now() + wait);
            }
            Poll::Pending
        })
        .await
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("born", &self.born).finish_non_exhaustive()
    }
}
