//! A connection to a service without hyper, for what most requests are: no body, and an answer that
//! says how long it is. Whatever turns out to be anything else goes on by hyper, which is shown what
//! was read so far and knows all the rules; here are none that it does not have.

mod head;

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use hyper::body::Body as _;
use hyper::{Method, Request, Response};
use tokio::io::AsyncWrite;
use tokio::net::TcpStream;
use tokio_util::io::poll_read_buf;

use super::body::Body;
use super::link::Coming;
use head::Head;

/// What one read has room for as a rule.
const READ_BYTES: usize = 8 * 1024;
/// The most that one read of a body takes: as in [`super::sips`].
const SIP: usize = 16 * 1024;
/// A head that is not here whole after so much is hyper's.
const HEAD_BYTES_MAX: usize = 16 * 1024;
/// What a request's head is seldom longer than.
const OUT_BYTES: usize = 2 * 1024;

thread_local! {
    /// What all connections of a core write from and read to: it stays in the cache.
    static OUT: RefCell<Vec<u8>> = RefCell::new(Vec::with_capacity(OUT_BYTES));
    static READ: RefCell<BytesMut> = RefCell::new(BytesMut::new());
}

/// One connection.
pub(super) struct Direct {
    socket: TcpStream,
    /// Of a request's head, what the socket did not take at once.
    unsent: Vec<u8>,
    /// Not all of a request went out: whatever follows would be read as its rest.
    is_cut: bool,
    /// Read and not yet given on.
    seen: Bytes,
}

/// What came back.
pub(super) enum Came {
    /// An answer whose body has this length.
    Plain(Response<u64>),
    /// The end of the connection, and not a byte before it.
    Nothing,
    /// Something that hyper shall read.
    Other,
}

impl Direct {
    pub(super) fn over(socket: TcpStream) -> Self {
        Self { socket, unsent: vec![], is_cut: false, seen: Bytes::new() }
    }

    /// Whether a request is one for this road.
    pub(super) fn takes(request: &Request<Body>) -> bool {
        request.body().is_end_stream() && head::is_plain(request.headers())
    }

    /// Whether the next request can go out: nothing is left of the last answer, and the service has
    /// neither closed nor said anything since.
    pub(super) fn is_ready(&self) -> bool {
        let is_quiet = |read: io::Result<usize>| {
            read.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
        };
        !self.is_cut && self.seen.is_empty() && is_quiet(self.socket.try_read(&mut [0]))
    }

    /// Whether it can carry no other request.
    pub(super) fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Asks.
    pub(super) fn ask(&mut self, context: &mut Context<'_>, request: &Request<Body>) {
        OUT.with_borrow_mut(|out| {
            out.clear();
            head::write(request, out);
            let sent = self.send(context, out);
            self.unsent.extend_from_slice(out.get(sent..).unwrap_or_default());
        });
    }

    fn send(&mut self, context: &mut Context<'_>, bytes: &[u8]) -> usize {
        match Pin::new(&mut self.socket).poll_write(context, bytes) {
            Poll::Pending => 0,
            Poll::Ready(Ok(count)) if count > 0 => count,
            // What is left to read tells more.
            Poll::Ready(_) => {
                self.is_cut = true;
                bytes.len()
            }
        }
    }

    /// Sends the rest of the request, and reads until it is known what came back. The request gives
    /// its header map to the answer.
    pub(super) fn poll_answer(
        &mut self,
        context: &mut Context<'_>,
        request: &mut Request<Body>,
    ) -> Poll<Came> {
        while !self.unsent.is_empty() {
            let unsent = std::mem::take(&mut self.unsent);
            let sent = self.send(context, &unsent);
            self.unsent.extend_from_slice(unsent.get(sent..).unwrap_or_default());
            if sent == 0 {
                break;
            }
        }
        loop {
            let more = match ready!(self.poll_read(context, READ_BYTES)) {
                Ok(more) if !more.is_empty() => more,
                Ok(_) | Err(_) if self.seen.is_empty() => return Poll::Ready(Came::Nothing),
                Ok(_) | Err(_) => return Poll::Ready(Came::Other),
            };
            self.seen = if self.seen.is_empty() {
                more
            } else {
                [&self.seen[..], &more[..]].concat().into()
            };
            if let Some(came) = self.read_head(request) {
                self.is_cut |= !self.unsent.is_empty();
                return Poll::Ready(came);
            }
        }
    }

    fn read_head(&mut self, request: &mut Request<Body>) -> Option<Came> {
        if memchr::memmem::find(&self.seen, b"\r\n\r\n").is_none() {
            let is_for_hyper = self.seen.len() > HEAD_BYTES_MAX || head::is_odd(&self.seen);
            return is_for_hyper.then_some(Came::Other);
        }
        let is_head = *request.method() == Method::HEAD;
        let read = head::read(&self.seen, is_head, request.headers_mut());
        let Some(Head { bytes, response }) = read else { return Some(Came::Other) };
        drop(self.seen.split_to(bytes));
        Some(Came::Plain(response))
    }

    /// What can be read now; nothing at the end.
    fn poll_read(&mut self, context: &mut Context<'_>, room: usize) -> Poll<io::Result<Bytes>> {
        READ.with_borrow_mut(|read| {
            read.reserve(room);
            let socket = Pin::new(&mut self.socket);
            poll_read_buf(socket, context, read).map_ok(|_| read.split().freeze())
        })
    }

    /// How a body of this length comes.
    pub(super) fn coming(&mut self, length: u64) -> Coming {
        match usize::try_from(length) {
            Ok(length) if length <= self.seen.len() => Coming::Whole(self.seen.split_to(length)),
            Ok(_) | Err(_) => Coming::Direct(length),
        }
    }

    /// The next piece of a body of which `left` bytes are still to come.
    pub(super) fn poll_body(
        &mut self,
        context: &mut Context<'_>,
        left: &mut u64,
    ) -> Poll<io::Result<Bytes>> {
        let most = usize::try_from(*left).unwrap_or(usize::MAX);
        if self.seen.is_empty() {
            // With room for one byte more, a read says that there is nothing behind the body.
            self.seen = ready!(self.poll_read(context, most.saturating_add(1).min(SIP)))?;
            if self.seen.is_empty() {
                return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
            }
        }
        let piece = self.seen.split_to(most.min(self.seen.len()));
        *left -= piece.len() as u64;
        Poll::Ready(Ok(piece))
    }

    /// The socket, and what was read of it.
    pub(super) fn into_parts(self) -> (TcpStream, Bytes) {
        (self.socket, self.seen)
    }
}
