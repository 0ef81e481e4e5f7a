//! Questions that are asked together: whatever waits is one call as soon as the last one has been
//! answered. No timer, so that whoever asks alone waits for nobody.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;
use tokio_util::task::TaskTracker;

/// What a batcher allows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// Questions that wait.
    pub(super) waiting: usize,
    /// Questions in one call.
    pub(super) together: usize,
    /// Calls at once.
    pub(super) calls: usize,
}

/// A question, and where its answer goes.
pub(super) struct Question<Q, A> {
    pub(super) asks: Q,
    reply: oneshot::Sender<A>,
}

impl<Q, A> Question<Q, A> {
    /// A closed channel is somebody who left meanwhile.
    pub(super) fn answer(self, answer: A) {
        drop(self.reply.send(answer));
    }

    /// Whether nobody waits for the answer any more.
    pub(super) fn is_gone(&self) -> bool {
        self.reply.is_closed()
    }
}

/// Why there is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoAnswer {
    /// Too many wait. It was not asked.
    Full,
    /// The call broke off.
    BrokeOff,
}

struct State<Q, A> {
    waiting: VecDeque<Question<Q, A>>,
    calls: usize,
}

/// Gathers questions; a clone shares them.
pub(super) struct Batcher<Q, A> {
    state: Arc<Mutex<State<Q, A>>>,
    bounds: Bounds,
}

impl<Q, A> Clone for Batcher<Q, A> {
    fn clone(&self) -> Self {
        Self { state: Arc::clone(&self.state), bounds: self.bounds }
    }
}

impl<Q: Send + 'static, A: Send + 'static> Batcher<Q, A> {
    pub(super) fn new(bounds: Bounds) -> Self {
        let state = State { waiting: VecDeque::new(), calls: 0 };
        Self { state: Arc::new(Mutex::new(state)), bounds }
    }

    fn state(&self) -> MutexGuard<'_, State<Q, A>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks; `serve` is run in a task of its own if nobody is at it, and has to go on until its
    /// turns are over.
    pub(super) async fn ask<F: Future<Output = ()> + Send + 'static>(
        &self,
        tasks: &TaskTracker,
        asks: Q,
        serve: impl FnOnce(Turns<Q, A>) -> F,
    ) -> Result<A, NoAnswer> {
        let (reply, answer) = oneshot::channel();
        let is_idle = {
            let mut state = self.state();
            if state.waiting.len() >= self.bounds.waiting {
                return Err(NoAnswer::Full);
            }
            state.waiting.push_back(Question { asks, reply });
            let is_idle = state.calls < self.bounds.calls;
            state.calls += usize::from(is_idle);
            is_idle
        };
        if is_idle {
            tasks.spawn(serve(Turns { batcher: self.clone(), ended: false }));
        }
        answer.await.map_err(|_| NoAnswer::BrokeOff)
    }
}

/// One who makes calls, until nothing waits.
pub(super) struct Turns<Q: Send + 'static, A: Send + 'static> {
    batcher: Batcher<Q, A>,
    ended: bool,
}

impl<Q: Send + 'static, A: Send + 'static> Turns<Q, A> {
    /// What waits, at least one question. None: nothing does, and the turns are over.
    pub(super) async fn next(&mut self) -> Option<Vec<Question<Q, A>>> {
        // Those who were just answered ask again before the next call is made up.
        tokio::task::yield_now().await;
        let mut state = self.batcher.state();
        if self.ended || state.waiting.is_empty() {
            state.calls -= usize::from(!self.ended);
            self.ended = true;
            return None;
        }
        let most = self.batcher.bounds.together.min(state.waiting.len());
        Some(state.waiting.drain(..most).collect())
    }
}

impl<Q: Send + 'static, A: Send + 'static> Drop for Turns<Q, A> {
    fn drop(&mut self) {
        if !self.ended {
            let mut state = self.batcher.state();
            state.calls -= 1;
            // Their askers are told; the next one finds the way free.
            state.waiting.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::future::join_all;

    use super::*;

    const BOUNDS: Bounds = Bounds { waiting: 8, together: 3, calls: 1 };

    #[tokio::test]
    async fn what_waits_is_one_call_and_everybody_hears_the_own_answer() {
        let (batcher, tasks) = (Batcher::<u32, (u32, usize)>::new(BOUNDS), TaskTracker::new());
        let asking = (0..7).map(|n| {
            batcher.ask(&tasks, n, |mut turns| async move {
                while let Some(questions) = turns.next().await {
                    let together = questions.len();
                    for question in questions {
                        let asked = question.asks;
                        question.answer((asked * 10, together));
                    }
                }
            })
        });
        let heard: Vec<_> = join_all(asking).await.into_iter().map(Result::unwrap).collect();
        let answers: Vec<_> = heard.iter().map(|(answer, _)| *answer).collect();
        assert_eq!(answers, [0, 10, 20, 30, 40, 50, 60]);
        let together: Vec<_> = heard.iter().map(|(_, together)| *together).collect();
        assert_eq!(together, [3, 3, 3, 3, 3, 3, 1]);
    }

    #[tokio::test]
    async fn a_call_that_breaks_off_tells_all_and_the_next_question_is_served() {
        let (batcher, tasks) = (Batcher::<u32, u32>::new(BOUNDS), TaskTracker::new());
        let broken = (0..5).map(|n| {
            batcher.ask(&tasks, n, |mut turns| async move {
                drop(turns.next().await);
            })
        });
        for answer in join_all(broken).await {
            assert_eq!(answer, Err(NoAnswer::BrokeOff));
        }
        let whole = batcher.ask(&tasks, 7, |mut turns| async move {
            while let Some(questions) = turns.next().await {
                for question in questions {
                    question.answer(1);
                }
            }
        });
        assert_eq!(whole.await, Ok(1));
    }

    #[tokio::test]
    async fn a_full_batcher_refuses() {
        let (batcher, tasks) = (Batcher::<u32, u32>::new(BOUNDS), TaskTracker::new());
        let asking = (0..9).map(|n| {
            batcher.ask(&tasks, n, |mut turns| async move {
                while let Some(questions) = turns.next().await {
                    for question in questions {
                        question.answer(0);
                    }
                }
            })
        });
        let full = join_all(asking).await.into_iter().filter(|heard| *heard == Err(NoAnswer::Full));
        assert_eq!(full.count(), 1);
    }
}
