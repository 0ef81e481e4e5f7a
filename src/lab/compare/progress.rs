//! How far we are, for a person who watches.

use std::io::{IsTerminal, Write};

/// One line of standard error that is written over; nothing if nobody watches.
pub(super) struct Progress {
    watched: bool,
    done: usize,
    runs: usize,
}

impl Progress {
    pub(super) fn of(runs: usize) -> Self {
        Self { watched: std::io::stderr().is_terminal(), done: 0, runs }
    }

    /// Another run begins.
    pub(super) fn next(&mut self, what: &str) {
        self.done += 1;
        self.show(&format!("[{}/{}] {what}", self.done, self.runs));
    }

    /// Says what is going on beside the runs.
    pub(super) fn show(&self, what: &str) {
        if self.watched {
            let mut out = std::io::stderr();
            let _unseen = write!(out, "\r\x1b[K{what}").and_then(|()| out.flush());
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.show("");
    }
}
