//! A connection to a service that hyper speaks on: uploads, upgrades, and answers that are framed in
//! some other way than by their length.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::BoxFuture;
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use tokio::time::{Instant, Sleep};
use tokio_util::task::AbortOnDropHandle;

use super::body::{self, Body};
use super::direct::Direct;
use super::paced::Progress;
use super::resumed::Resumed;
use super::sips::Sips;

/// A service's response head: fields, and bytes.
const HEAD_FIELDS_MAX: usize = 256;
const HEAD_BYTES_MAX: usize = 256 * 1024;

/// hyper's connection, whose type has no name.
type Wire = BoxFuture<'static, hyper::Result<()>>;

/// An answer, or why there is none; the request comes back if nothing of it was written.
type Exchanged = Result<Response<Incoming>, TrySendError<Request<Body>>>;

/// One connection.
pub(super) struct Hypered {
    sender: SendRequest<Body>,
    /// Until it has ended, or a task of its own drives it.
    wire: Option<Wire>,
    /// The task. It ends with the link, whatever of an upload is still to come.
    driver: Option<AbortOnDropHandle<()>>,
}

impl Hypered {
    /// One on which nothing is under way.
    pub(super) async fn over(direct: Direct) -> hyper::Result<Self> {
        Self::from(direct, 0).await
    }

    /// One on which a request of this method was written, or what went of it. The request that
    /// comes with it is for hyper to send: it goes nowhere, and then hyper reads what came back.
    pub(super) async fn resumed(
        direct: Direct,
        method: &Method,
    ) -> hyper::Result<(Self, Request<Body>)> {
        let mut likeness = Request::new(body::empty());
        method.clone_into(likeness.method_mut());
        let head_bytes = method.as_str().len() + b" / HTTP/1.1\r\n\r\n".len();
        Ok((Self::from(direct, head_bytes).await?, likeness))
    }

    async fn from(direct: Direct, written: usize) -> hyper::Result<Self> {
        let (socket, read) = direct.into_parts();
        let (sender, wire) = Builder::new()
            .max_headers(HEAD_FIELDS_MAX)
            .max_buf_size(HEAD_BYTES_MAX)
            .handshake(TokioIo::new(Resumed::new(Sips::new(socket), read, written)))
            .await?;
        let wire: Wire = Box::pin(wire.with_upgrades());
        Ok(Self { sender, wire: Some(wire), driver: None })
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
        mut deadline: Pin<&mut Sleep>,
        wait: Duration,
    ) -> Option<Exchanged> {
        let mut sending = pin!(self.sender.try_send_request(request));
        let mut seen = upload.bytes();
        deadline.as_mut().reset(Instant::now() + wait);
        poll_fn(|context| {
            self.drive(context);
            if let Poll::Ready(done) = sending.as_mut().poll(context) {
                return Poll::Ready(Some(done));
            }
            while deadline.as_mut().poll(context).is_ready() {
                if upload.bytes() == seen {
                    return Poll::Ready(None);
                }
                seen = upload.bytes();
                deadline.as_mut().reset(Instant::now() + wait);
            }
            Poll::Pending
        })
        .await
    }
}
