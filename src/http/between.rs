//! Whether an HTTP/1.1 connection stands between two requests. Then, and only then, the next bytes
//! are the beginning of one, and may be answered without hyper.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// The next bytes begin a request.
const BETWEEN: u8 = 0;
/// The same, and the last one is answered without hyper.
const QUICK: u8 = 4;
/// Hyper was given one whole request without a body.
const ASKED: u8 = 1;
/// Hyper was given all of the answer to it.
const ANSWERED: u8 = 2;
/// Hyper may hold bytes that are not answered yet. For ever: it does not tell.
const LOST: u8 = 3;

/// Where a connection stands; clones are one.
#[derive(Debug, Clone)]
pub(super) struct Between(Arc<AtomicU8>);

impl Between {
    /// A connection that has carried nothing.
    pub(super) fn new() -> Self {
        Self(Arc::new(AtomicU8::new(BETWEEN)))
    }

    /// Whether it is between two requests.
    pub(super) fn is(&self) -> bool {
        matches!(self.0.load(Ordering::Relaxed), BETWEEN | QUICK)
    }

    /// The same, and the last request is answered without hyper.
    pub(super) fn is_quick(&self) -> bool {
        self.0.load(Ordering::Relaxed) == QUICK
    }

    /// A request is answered without hyper; none follows before.
    pub(super) fn take(&self) {
        self.step(BETWEEN, QUICK);
    }

    /// Hyper is given these bytes.
    pub(super) fn hand(&self, bytes: &[u8]) {
        let to = if self.is() && is_head(bytes) { ASKED } else { LOST };
        self.0.store(to, Ordering::Relaxed);
    }

    /// To be dropped when hyper has been given the whole answer to a request without a body.
    pub(super) fn answer(&self) -> Answer {
        Answer(self.clone())
    }

    /// All that hyper was given has gone out.
    pub(super) fn flushed(&self) {
        self.step(ANSWERED, BETWEEN);
    }

    fn step(&self, from: u8, to: u8) {
        let (order, failed) = (Ordering::Relaxed, Ordering::Relaxed);
        // Anywhere else it stays.
        self.0.compare_exchange(from, to, order, failed).ok();
    }
}

/// The answer to the one request that hyper was given.
pub(super) struct Answer(Between);

impl Drop for Answer {
    fn drop(&mut self) {
        self.0.step(ASKED, ANSWERED);
    }
}

/// Whether the bytes are the head of one request and nothing more, however they are read: hyper
/// takes a line feed alone for the end of a line too.
fn is_head(bytes: &[u8]) -> bool {
    let Some(lines) = bytes.strip_suffix(b"\r\n\r\n") else { return false };
    let mut begins = 0;
    for at in memchr::memchr_iter(b'\n', lines) {
        let is_blank = at < begins + 2;
        if is_blank || lines.get(at - 1) != Some(&b'\r') {
            return false;
        }
        begins = at + 1;
    }
    begins < lines.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_one_head_and_nothing_more() {
        assert!(is_head(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert!(is_head(b"GET / HTTP/1.1\r\n\r\n"));
        for bad in [
            "",
            "\n\r\n\r\n",
            "\r\n\r\n",
            "\r\n\r\n\r\n",
            "\r\nGET / HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\n\r\nG",
            "GET / HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\nHost: a\r\n\r\n",
            "GET / HTTP/1.1\n\nGET / HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\n\n\r\n\r\n",
            "GET / HTTP/1.1\n\r\n\r\n",
        ] {
            assert!(!is_head(bad.as_bytes()), "{bad:?}");
        }
    }

    #[test]
    fn it_is_between_again_when_the_answer_to_one_head_has_gone_out() {
        let head = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
        let between = Between::new();
        assert!(between.is());

        between.hand(head);
        between.flushed();
        assert!(!between.is(), "nothing was answered");
        drop(between.answer());
        assert!(!between.is(), "the answer has not gone out");
        between.flushed();
        assert!(between.is());

        between.hand(head);
        between.hand(head);
        drop(between.answer());
        between.flushed();
        assert!(!between.is(), "two requests, and one answer that we know of");
    }
}
