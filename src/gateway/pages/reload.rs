//! What a page does by itself where no script runs: it reloads, or goes on.

use super::view::{PageState, PageView};
use crate::domain::asking::POLL_MS_MAX;

/// Shortest and longest wait, in seconds; a poll is cheaper than a page.
const SECONDS_MIN: u64 = 3;
const SECONDS_MAX: u64 = 60;
/// The longest wait while the draw is made, in seconds: what polls are told at the far end of a line.
const DRAWING_SECONDS_MAX: u64 = POLL_MS_MAX / 1_000;
/// Pages that wait for the same instant come back over so many seconds; with a script it is as long.
pub const SPREAD_SECONDS: u64 = 3;

/// A reload, or a way on.
pub(super) struct Reload<'a> {
    pub(super) seconds: u64,
    /// Another page than this one.
    pub(super) to: Option<&'a str>,
}

impl<'a> Reload<'a> {
    /// Of a page that leads to `next`; none where nothing would change.
    pub(super) fn of(v: &'a PageView, next: &'a str) -> Option<Self> {
        let until = |at: Option<u64>| at.map(|at| at.saturating_sub(v.now_ms).div_ceil(1_000));
        let told = |ms: u64| ms.div_ceil(1_000).max(SECONDS_MIN);
        let usual = v.poll_after_ms.div_ceil(1_000).clamp(SECONDS_MIN, SECONDS_MAX);
        let (seconds, to) = match v.state {
            _ if v.not_joined => (told(v.retry_after_ms?), Some(next)),
            PageState::Upcoming => (until(v.lobby_opens_ms).unwrap_or(usual) + 1, None),
            PageState::Lobby => (until(v.opens_ms).unwrap_or(usual) + 1, None),
            PageState::Drawing => (usual.max(while_drawing(v)), None),
            PageState::Waiting | PageState::Paused | PageState::AllHeld => (usual, None),
            // The protected path claims by itself, and collects a slot that is due.
            PageState::Called => (usual, Some(next)),
            PageState::Booked => (until(v.admitted_ms).unwrap_or(usual), Some(next)),
            PageState::Full | PageState::Unavailable | PageState::ShopUnavailable => {
                (told(v.retry_after_ms.unwrap_or(10_000)), Some(next))
            }
            // Only where trying again was said to make sense.
            PageState::Problem => (told(v.retry_after_ms?), Some(next)),
            PageState::Open
            | PageState::Admitted
            | PageState::Missed
            | PageState::Left
            | PageState::CodeOver
            | PageState::Cookies
            | PageState::Gone
            | PageState::Closed
            | PageState::SignIn => return None,
        };
        let late = if Self::is_everybodys(v) { v.spread } else { 0 };
        Some(Self { seconds: later(seconds, late), to })
    }

    /// Whether all pages wait for one instant, so that each has to come a little later.
    pub(super) fn is_everybodys(v: &PageView) -> bool {
        !v.not_joined && matches!(v.state, PageState::Upcoming | PageState::Lobby)
    }
}

/// A quarter of what the draw has taken so far: a late beacon may take minutes.
fn while_drawing(v: &PageView) -> u64 {
    // In whole seconds of the clock, as kept pages are.
    let since = v.opens_ms.map_or(0, |at| (v.now_ms / 1_000).saturating_sub(at / 1_000));
    (since / 4).min(DRAWING_SECONDS_MAX)
}

/// So much later, as far as a page may wait.
pub(super) fn later(seconds: u64, late: u64) -> u64 {
    seconds.saturating_add(late).min(SECONDS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longer_the_draw_takes_the_less_often_a_page_without_a_script_comes_again() {
        let opens_ms = 1_803_902_400_000;
        let comes = |since: u64| {
            let view = PageView::new(PageState::Drawing, opens_ms + since * 1_000);
            let view = PageView { opens_ms: Some(opens_ms), poll_after_ms: 1_000, ..view };
            Reload::of(&view, "/").unwrap().seconds
        };
        assert_eq!([0, 5, 20, 40, 60, 3_600].map(comes), [3, 3, 5, 10, 15, 15]);
    }
}
