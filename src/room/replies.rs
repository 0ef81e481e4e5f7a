//! Answers to many at once. To wake another thread takes a system call, so whoever waits on one
//! thread is answered by one wake: the first brings the others' answers and hands them on there.

use std::collections::HashMap;
use std::thread::{self, ThreadId};

use tokio::sync::oneshot;

/// Somebody who waits for an answer.
pub(super) struct Asker<T> {
    thread: ThreadId,
    reply: oneshot::Sender<Letter<T>>,
}

/// An answer that is waited for.
pub(super) struct Reply<T>(oneshot::Receiver<Letter<T>>);

/// An answer, with those of others on the same thread.
struct Letter<T> {
    answer: T,
    /// Never read: they are handed on by being dropped, also with a letter that nobody reads.
    _others: Others<T>,
}

struct Others<T>(Vec<(Asker<T>, T)>);

/// Answers on their way.
pub(super) struct Replies<T>(HashMap<ThreadId, Vec<(Asker<T>, T)>>);

impl<T> Asker<T> {
    /// Somebody who asks on this thread.
    pub(super) fn new() -> (Self, Reply<T>) {
        let (reply, answer) = oneshot::channel();
        (Self { thread: thread::current().id(), reply }, Reply(answer))
    }

    /// Whether nobody waits any more.
    pub(super) fn has_gone(&self) -> bool {
        self.reply.is_closed()
    }

    fn answer(self, answer: T, others: Vec<(Self, T)>) {
        // A closed channel is somebody who left in this very moment.
        drop(self.reply.send(Letter { answer, _others: Others(others) }));
    }
}

impl<T> Reply<T> {
    /// The answer; nothing if none comes any more.
    pub(super) async fn read(self) -> Option<T> {
        self.0.await.ok().map(|letter| letter.answer)
    }
}

impl<T> Drop for Others<T> {
    fn drop(&mut self) {
        for (asker, answer) in self.0.drain(..) {
            asker.answer(answer, Vec::new());
        }
    }
}

impl<T> Replies<T> {
    /// None yet.
    pub(super) fn new() -> Self {
        Self(HashMap::new())
    }

    /// One more.
    pub(super) fn add(&mut self, asker: Asker<T>, answer: T) {
        self.0.entry(asker.thread).or_default().push((asker, answer));
    }

    /// Sends all.
    pub(super) fn send(self) {
        for mut together in self.0.into_values() {
            if let Some((first, answer)) = together.pop() {
                first.answer(answer, together);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn everybody_gets_the_own_answer_and_who_left_keeps_nobody_from_it() {
        let (askers, replies): (Vec<_>, Vec<_>) = (0..9).map(|_| Asker::new()).unzip();
        let mut letters = Replies::new();
        for (asker, number) in askers.into_iter().zip(0..) {
            letters.add(asker, number);
        }
        let mut replies: Vec<_> = replies.into_iter().enumerate().collect();
        // The last brings them all: once it has gone before the answers, once after.
        replies.pop();
        letters.send();
        for (number, reply) in replies {
            assert_eq!(reply.read().await, Some(number));
        }

        let ((asker, reply), (other, others)) = (Asker::new(), Asker::new());
        let mut letters = Replies::new();
        letters.add(other, 1);
        letters.add(asker, 2);
        letters.send();
        drop(reply);
        assert_eq!(others.read().await, Some(1));
    }

    #[tokio::test]
    async fn one_who_is_never_answered_hears_of_it() {
        let (asker, reply) = Asker::<()>::new();
        assert!(!asker.has_gone());
        drop(asker);
        assert_eq!(reply.read().await, None);
    }
}
