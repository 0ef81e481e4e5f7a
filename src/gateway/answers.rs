//! Answers of somebody else, kept for a while: one question at a time for each, and no more of
//! them than fit.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// An answer and its end; the lock is held by whoever asks, while others wait for the answer.
type Cell<V> = Arc<tokio::sync::Mutex<Option<(V, Instant)>>>;

/// Answers by question. When the young half is full it becomes the old one, and the old one is
/// forgotten.
pub(super) struct Answers<K, V> {
    half_max: usize,
    halves: Mutex<Halves<K, V>>,
}

struct Halves<K, V> {
    young: HashMap<K, Cell<V>>,
    old: HashMap<K, Cell<V>>,
}

/// What is known of a question.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Known<V> {
    /// The answer.
    Answer(V),
    /// Somebody is asking.
    Asking,
    /// Nothing.
    Nothing,
}

impl<K: Hash + Eq + Clone, V: Clone> Answers<K, V> {
    /// Remembers at most twice `half_max`.
    pub(super) fn new(half_max: usize) -> Self {
        let halves = Halves { young: HashMap::new(), old: HashMap::new() };
        Self { half_max, halves: Mutex::new(halves) }
    }

    /// What is known now, without waiting.
    pub(super) fn known(&self, question: &K) -> Known<V> {
        let halves = self.halves.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(cell) = halves.young.get(question).or_else(|| halves.old.get(question)) else {
            return Known::Nothing;
        };
        match cell.try_lock() {
            Err(_) => Known::Asking,
            Ok(kept) => fresh(kept.as_ref()).map_or(Known::Nothing, Known::Answer),
        }
    }

    /// The answer kept, or that of `ask`, which also says how long to keep it. Of several who want
    /// the same answer one asks and the others wait; if the one leaves, another asks.
    pub(super) async fn get<F>(&self, question: K, ask: F) -> V
    where
        F: AsyncFnOnce() -> (V, Duration),
    {
        let cell = self.cell(question);
        let mut kept = cell.lock().await;
        if let Some(answer) = fresh(kept.as_ref()) {
            return answer;
        }
        let (answer, keep) = ask().await;
        *kept = Some((answer.clone(), Instant::now() + keep));
        answer
    }

    /// Replaces the answer by one that is known from elsewhere; a question under way is too late.
    pub(super) fn put(&self, question: K, answer: V, keep: Duration) {
        let cell = Arc::new(tokio::sync::Mutex::new(Some((answer, Instant::now() + keep))));
        let mut halves = self.halves.lock().unwrap_or_else(PoisonError::into_inner);
        halves.old.remove(&question);
        halves.insert(question, cell, self.half_max);
    }

    /// Forgets an answer; a question under way is too late.
    pub(super) fn forget(&self, question: &K) {
        let mut halves = self.halves.lock().unwrap_or_else(PoisonError::into_inner);
        halves.young.remove(question);
        halves.old.remove(question);
    }

    fn cell(&self, question: K) -> Cell<V> {
        let mut halves = self.halves.lock().unwrap_or_else(PoisonError::into_inner);
        let known = halves.young.get(&question).or_else(|| halves.old.get(&question));
        if let Some(cell) = known {
            return Arc::clone(cell);
        }
        let cell = Cell::default();
        halves.insert(question, Arc::clone(&cell), self.half_max);
        cell
    }
}

impl<K: Hash + Eq, V> Halves<K, V> {
    fn insert(&mut self, question: K, cell: Cell<V>, half_max: usize) {
        if self.young.len() >= half_max {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(question, cell);
    }
}

fn fresh<V: Clone>(kept: Option<&(V, Instant)>) -> Option<V> {
    kept.filter(|(_, until)| Instant::now() < *until).map(|(answer, _)| answer.clone())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use tokio::sync::Notify;

    use super::*;

    const KEEP: Duration = Duration::from_hours(1);

    #[tokio::test]
    async fn an_answer_is_asked_for_once_while_it_is_kept() {
        let (answers, asked) = (Answers::new(10), AtomicU32::new(0));
        let ask = async || (asked.fetch_add(1, Ordering::Relaxed), KEEP);

        assert_eq!(answers.known(&"q"), Known::Nothing);
        assert_eq!(answers.get("q", ask).await, 0);
        assert_eq!(answers.known(&"q"), Known::Answer(0));
        assert_eq!(answers.get("q", ask).await, 0);
        answers.forget(&"q");
        assert_eq!(answers.get("q", ask).await, 1);
    }

    #[tokio::test]
    async fn an_answer_past_its_end_is_asked_for_again() {
        let (answers, asked) = (Answers::new(10), AtomicU32::new(0));
        let ask = async || (asked.fetch_add(1, Ordering::Relaxed), Duration::ZERO);
        assert_eq!(answers.get("q", ask).await, 0);
        assert_eq!(answers.known(&"q"), Known::Nothing);
        assert_eq!(answers.get("q", ask).await, 1);
    }

    #[tokio::test]
    async fn a_hundred_who_want_the_same_answer_ask_one_question() {
        let (answers, asked) = (Answers::new(10), AtomicU32::new(0));
        let ask = async || {
            tokio::task::yield_now().await;
            (asked.fetch_add(1, Ordering::Relaxed), KEEP)
        };
        let all = (0..100).map(|_| answers.get("q", ask));
        let told = futures_util::future::join_all(all).await;
        assert_eq!(told, vec![0; 100]);
    }

    #[tokio::test]
    async fn who_waits_asks_when_the_one_who_asked_has_left() {
        let (answers, waits) = (Answers::new(10), Notify::new());
        let for_ever = async || std::future::pending::<(u8, Duration)>().await;
        let leaves = async {
            tokio::select! {
                _ = answers.get("q", for_ever) => unreachable!("it never answers"),
                () = waits.notified() => assert_eq!(answers.known(&"q"), Known::Asking),
            }
        };
        let stays = async {
            waits.notify_one();
            answers.get("q", async || (7, KEEP)).await
        };
        let ((), told) = tokio::join!(leaves, stays);
        assert_eq!(told, 7);
    }

    #[tokio::test]
    async fn what_is_known_from_elsewhere_beats_a_question_under_way() {
        let (answers, put) = (Answers::new(10), Notify::new());
        let slow = answers.get("q", async || {
            put.notified().await;
            (1, KEEP)
        });
        let putting = async {
            answers.put("q", 2, KEEP);
            put.notify_one();
        };
        tokio::join!(slow, putting);
        assert_eq!(answers.known(&"q"), Known::Answer(2));
    }

    #[tokio::test]
    async fn the_oldest_are_forgotten_when_there_are_too_many() {
        let answers = Answers::new(10);
        for question in 0..1_000 {
            answers.get(question, async || ((), KEEP)).await;
        }
        assert_eq!(answers.known(&999), Known::Answer(()));
        assert_eq!(answers.known(&900), Known::Nothing);
        let halves = answers.halves.lock().unwrap();
        assert!(halves.young.len() + halves.old.len() <= 20);
    }
}
