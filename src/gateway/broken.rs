//! A request that breaks by a fault of ours: its client is told, nothing of it is let through, and
//! everybody else is served as ever.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use futures_util::FutureExt;

use crate::domain::refusal::{Problem, Refusal};

// Requests share counts and caches only, and leave those whole: they are locked for moments.

/// What came of the work, or what its client is told if it broke. No `async`, which would set aside
/// twice what the work takes.
pub(super) fn caught<T>(
    work: impl Future<Output = Result<T, Refusal>>,
) -> impl Future<Output = Result<T, Refusal>> {
    let done = AssertUnwindSafe(work).catch_unwind();
    done.map(|done| done.unwrap_or_else(|panic| Err(told(panic.as_ref()))))
}

/// The same of work that waits for nothing.
pub(super) fn caught_at_once<T>(
    work: impl FnOnce() -> Option<Result<T, Refusal>>,
) -> Option<Result<T, Refusal>> {
    let done = catch_unwind(AssertUnwindSafe(work));
    done.unwrap_or_else(|panic| Some(Err(told(panic.as_ref()))))
}

fn told(panic: &(dyn Any + Send)) -> Refusal {
    tracing::error!(panic = words(panic), "a request broke");
    let detail = "something broke while we worked on this request; if it was an order, try again \
                  with the same key";
    Refusal::new(Problem::InternalError, detail)
}

fn words(panic: &(dyn Any + Send)) -> &str {
    let fixed = panic.downcast_ref::<&str>().copied();
    fixed.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no words")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_becomes_a_refusal_and_an_answer_stays_as_it_is() {
        let broken = caught::<()>(async { panic!("at {}", "the gate") }).await.unwrap_err();
        assert_eq!((broken.problem, broken.http_status()), (Problem::InternalError, 500));
        let broken = caught_at_once::<()>(|| panic!("at once")).unwrap().unwrap_err();
        assert_eq!(broken.problem, Problem::InternalError);

        assert_eq!(caught(async { Ok(7) }).await.unwrap(), 7);
        assert_eq!(caught_at_once(|| Some(Ok(7))).unwrap().unwrap(), 7);
        assert_eq!(words(&"plain"), "plain");
    }
}
