//! One connection to a service, driven by whoever uses it: it needs no task of its own, so an
//! answer wakes the one who waits for it and nobody in between.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body as _, Incoming};
use hyper::{Method, Request, Response};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep};

use super::body::{self, Body};
use super::direct::{Came, Direct};
use super::hypered::Hypered;
use super::paced::Progress;

/// An answer, or why there is none.
pub(super) type Exchanged = Result<Response<Coming>, Failed>;

/// How an answer's body comes.
#[derive(Debug)]
pub(super) enum Coming {
    /// It is here.
    Whole(Bytes),
    /// So many bytes of it are still to be read from the link.
    Direct(u64),
    /// By hyper.
    Hyper(Incoming),
}

/// Why there is no answer.
pub(super) enum Failed {
    /// The request is where it was, and may be sent again on another connection.
    Unheard,
    /// It is what it is.
    Broken(hyper::Error),
}

/// One connection.
pub(super) struct Link {
    road: Road,
    /// Set anew for each request: to set it later takes no lock, as a new timer would.
    deadline: Pin<Box<Sleep>>,
    born: Instant,
    /// A request went over it.
    is_used: bool,
    /// It can carry no other.
    is_cut: bool,
}

enum Road {
    Direct(Direct),
    Hyper(Hypered),
    /// Broken while it changed from one to the other.
    None,
}

impl Link {
    /// Speaks HTTP over an open socket.
    pub(super) fn over(stream: TcpStream) -> Self {
        let born = Instant::now();
        let deadline = Box::pin(tokio::time::sleep_until(born));
        Self {
            road: Road::Direct(Direct::over(stream)),
            deadline,
            born,
            is_used: false,
            is_cut: false,
        }
    }

    /// How old it is.
    pub(super) fn age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.born)
    }

    /// Moves what can be moved now.
    pub(super) fn drive(&mut self, context: &mut Context<'_>) {
        if let Road::Hyper(hypered) = &mut self.road {
            hypered.drive(context);
        }
    }

    /// Looks whether it can take another request now; one that the service has closed cannot. Nobody
    /// is woken when that changes.
    pub(super) fn is_ready(&mut self) -> bool {
        match &mut self.road {
            Road::Direct(direct) => direct.is_ready(),
            Road::Hyper(hypered) => {
                let mut context = Context::from_waker(Waker::noop());
                !self.is_cut && hypered.is_ready(&mut context)
            }
            Road::None => false,
        }
    }

    /// It is HTTP no longer: its task ends once it has handed the socket over.
    pub(super) fn hand_over(self) {
        if let Road::Hyper(hypered) = self.road {
            hypered.hand_over();
        }
    }

    /// Whether a task drives it.
    pub(super) fn goes_by_itself(&self) -> bool {
        matches!(&self.road, Road::Hyper(hypered) if hypered.goes_by_itself())
    }

    /// Waits until it can take another request; false if it never will.
    pub(super) async fn becomes_ready(&mut self) -> bool {
        match &mut self.road {
            Road::Direct(direct) => direct.is_ready(),
            Road::Hyper(hypered) => hypered.becomes_ready().await,
            Road::None => false,
        }
    }

    /// The next piece of a body of which `left` bytes are to come.
    pub(super) fn poll_body(
        &mut self,
        context: &mut Context<'_>,
        left: &mut u64,
    ) -> Poll<std::io::Result<Bytes>> {
        match &mut self.road {
            Road::Direct(direct) => direct.poll_body(context, left),
            Road::Hyper(_) | Road::None => {
                Poll::Ready(Err(std::io::ErrorKind::NotConnected.into()))
            }
        }
    }

    /// Sends a request; nothing if no response's head came for `wait`, of which the time in which
    /// the upload moved does not count. `lets_go` has a task drive an upload.
    ///
    /// It goes unheard when nothing of it was written, or when it is a GET, HEAD or OPTIONS without
    /// body and the connection died before a byte came back; a new connection hears all.
    pub(super) async fn exchange(
        &mut self,
        request: &mut Request<Body>,
        lets_go: bool,
        upload: &Progress,
        wait: Duration,
    ) -> Option<Exchanged> {
        let is_used = std::mem::replace(&mut self.is_used, true);
        self.deadline.as_mut().reset(Instant::now() + wait);
        if let Road::Direct(direct) = &mut self.road
            && Direct::takes(request)
        {
            let mut is_asked = false;
            let came = poll_fn(|context| {
                if !std::mem::replace(&mut is_asked, true) {
                    direct.ask(context, request);
                }
                match direct.poll_answer(context, request) {
                    Poll::Ready(came) => Poll::Ready(Some(came)),
                    Poll::Pending => self.deadline.as_mut().poll(context).map(|()| None),
                }
            });
            match came.await? {
                Came::Plain(response) => return Some(Ok(response.map(|left| direct.coming(left)))),
                Came::Nothing if is_used && is_safe(request.method()) => {
                    return Some(Err(Failed::Unheard));
                }
                // Hyper knows what that is, or what went wrong.
                Came::Nothing | Came::Other => {
                    self.is_cut = direct.is_cut();
                    return Box::pin(self.resumed(request.method(), upload, wait)).await;
                }
            }
        }
        Box::pin(self.by_hyper(request, lets_go, is_used, upload, wait)).await
    }

    async fn by_hyper(
        &mut self,
        request: &mut Request<Body>,
        lets_go: bool,
        is_used: bool,
        upload: &Progress,
        wait: Duration,
    ) -> Option<Exchanged> {
        let hypered = match std::mem::replace(&mut self.road, Road::None) {
            Road::Hyper(hypered) => Ok(hypered),
            Road::Direct(direct) => Hypered::over(direct).await,
            Road::None => return None,
        };
        let mut hypered = match hypered {
            Ok(hypered) => hypered,
            Err(error) => return Some(Err(Failed::Broken(error))),
        };
        if lets_go {
            hypered.let_go();
        }
        let spare = if is_used { repeatable(request) } else { None };
        let sent = std::mem::replace(request, Request::new(body::empty()));
        let done = hypered.exchange(sent, upload, self.deadline.as_mut(), wait).await;
        self.road = Road::Hyper(hypered);
        let mut failed = match done? {
            Ok(response) => return Some(Ok(response.map(Coming::Hyper))),
            Err(failed) => failed,
        };
        Some(Err(match failed.take_message().or(spare).filter(|_| is_used) {
            Some(again) => {
                *request = again;
                Failed::Unheard
            }
            None => Failed::Broken(failed.into_error()),
        }))
    }

    /// Has hyper read what came back to a request of this method.
    async fn resumed(
        &mut self,
        method: &Method,
        upload: &Progress,
        wait: Duration,
    ) -> Option<Exchanged> {
        let Road::Direct(direct) = std::mem::replace(&mut self.road, Road::None) else {
            return None;
        };
        let (mut hypered, request) = match Hypered::resumed(direct, method).await {
            Ok(resumed) => resumed,
            Err(error) => return Some(Err(Failed::Broken(error))),
        };
        let done = hypered.exchange(request, upload, self.deadline.as_mut(), wait).await?;
        self.road = Road::Hyper(hypered);
        let done = done.map(|response| response.map(Coming::Hyper));
        Some(done.map_err(|failed| Failed::Broken(failed.into_error())))
    }
}

fn is_safe(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}

/// A second copy of a request that may be sent twice.
fn repeatable(request: &Request<Body>) -> Option<Request<Body>> {
    if !is_safe(request.method()) || !request.body().is_end_stream() {
        return None;
    }
    let mut copy = Request::new(body::empty());
    *copy.method_mut() = request.method().clone();
    *copy.uri_mut() = request.uri().clone();
    *copy.headers_mut() = request.headers().clone();
    Some(copy)
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("born", &self.born).finish_non_exhaustive()
    }
}
