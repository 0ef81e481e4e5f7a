//! A page that many see at the same moment: rendered once, then only what is one visitor's own, and
//! the instant, are put in.

use askama::filters::{Escaper, Html};

use super::reload::{Reload, later};
use super::render::{lobby_progress, own_path, render};
use super::view::PageView;
use crate::gateway::stencil::{Mark, Stencil, put_number};

/// Where a page to be kept says that it goes on. No word of ours and no sale's id has a tilde.
pub const NEXT_MARK: &str = "/~next";
/// The join key of a page to be kept.
pub const KEY_MARK: &str = "~key";

/// A page with holes.
pub struct Kept {
    text: Stencil<Hole>,
    /// When it reloads, in seconds, if it waits for what all wait for.
    reload: u64,
}

#[derive(Debug, Clone, Copy)]
enum Hole {
    Now,
    Poll,
    Reload,
    Next,
    Key,
    SignIn,
}

/// What of a page is not everybody's.
pub struct Own<'a> {
    /// As in [`PageView`].
    pub now_ms: u64,
    /// As in [`PageView`].
    pub poll_after_ms: u64,
    /// As in [`PageView`].
    pub spread: u64,
    /// As in [`PageView`].
    pub next: &'a str,
    /// As in [`PageView`].
    pub join_key: &'a str,
    /// Where to sign in, for a page that asks for it.
    pub login_url: &'a dyn Fn() -> String,
}

impl Kept {
    /// Of a view with [`NEXT_MARK`] and [`KEY_MARK`], or no key, and no spread.
    pub fn of(view: &PageView) -> Result<Self, askama::Error> {
        let html = render(view)?;
        let (now, poll) = (view.now_ms.to_string(), view.poll_after_ms.to_string());
        let login = escaped(view.login_url.as_deref().unwrap_or_default());
        let reload = Reload::of(view, NEXT_MARK).filter(|_| Reload::is_everybodys(view));
        let seconds = reload.as_ref().map(|reload| reload.seconds.to_string()).unwrap_or_default();
        let mark = |after, word, hole| Mark { after, word, hole };
        let marks = [
            mark("data-now=\"", now.as_str(), Hole::Now),
            mark("data-poll=\"", &poll, Hole::Poll),
            mark("http-equiv=\"refresh\" content=\"", &seconds, Hole::Reload),
            mark("href=\"", &login, Hole::SignIn),
            mark("", NEXT_MARK, Hole::Next),
            mark("", KEY_MARK, Hole::Key),
        ];
        let text = Stencil::cut(&html, &marks);
        Ok(Self { text, reload: reload.map_or(0, |reload| reload.seconds) })
    }

    /// The page of one visitor, as [`super::render`] would write it.
    pub fn fill(&self, own: &Own<'_>) -> String {
        self.text.fill(|out, hole| match hole {
            Hole::Now => put_number(out, own.now_ms),
            Hole::Poll => put_number(out, own.poll_after_ms),
            Hole::Reload => put_number(out, later(self.reload, own.spread)),
            Hole::Next => put_escaped(out, own_path(own.next)),
            Hole::Key => put_escaped(out, own.join_key),
            Hole::SignIn => put_escaped(out, &(own.login_url)()),
        })
    }
}

/// What a page shows of the time, but for the instant itself: as long as it is the same, so is the
/// page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Face {
    second: u64,
    lobby_in: u64,
    opens_in: u64,
    poll_after: u64,
    progress: u64,
}

impl Face {
    /// At an instant, before or after lobby and opening.
    pub fn at(now_ms: u64, lobby_opens_ms: u64, opens_ms: u64, poll_after_ms: u64) -> Self {
        let until = |at_ms: u64| at_ms.saturating_sub(now_ms).div_ceil(1_000);
        Self {
            second: now_ms / 1_000,
            lobby_in: until(lobby_opens_ms),
            opens_in: until(opens_ms),
            poll_after: poll_after_ms.div_ceil(1_000),
            progress: lobby_progress(now_ms, lobby_opens_ms, opens_ms),
        }
    }
}

fn escaped(text: &str) -> String {
    let mut out = String::new();
    put_escaped(&mut out, text);
    out
}

fn put_escaped(out: &mut String, text: &str) {
    // Writing to memory does not fail.
    Html.write_escaped_str(out, text).unwrap_or_default();
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::tests;
    use super::super::view::PageState;
    use super::*;
    use crate::domain::queue::Place;

    const LOBBY_MS: u64 = tests::NOON - 1_800_000;
    const OPENS_MS: u64 = tests::NOON + 272_000;

    /// A newcomer's, an instant after noon.
    fn view(state: PageState, (ms, poll_after_ms): (u64, u64), next: &str, key: &str) -> PageView {
        let link = format!("https://id.test/in?a=1&next={}", next.replace('/', "%2F"));
        PageView {
            now_ms: tests::NOON + ms,
            place: Place::none(),
            recovery: None,
            poll_after_ms,
            next: next.to_owned(),
            join_key: key.to_owned(),
            login_url: (state == PageState::SignIn).then_some(link),
            ..tests::view(state)
        }
    }

    fn face(view: &PageView) -> Face {
        Face::at(view.now_ms, LOBBY_MS, OPENS_MS, view.poll_after_ms)
    }

    fn is_filled_as_rendered(kept: &PageView, wanted: &PageView) {
        let link = || wanted.login_url.clone().unwrap_or_default();
        let own = Own {
            now_ms: wanted.now_ms,
            poll_after_ms: wanted.poll_after_ms,
            spread: wanted.spread,
            next: &wanted.next,
            join_key: &wanted.join_key,
            login_url: &link,
        };
        assert_eq!(Kept::of(kept).unwrap().fill(&own), render(wanted).unwrap());
    }

    #[test]
    fn of_every_state_a_kept_page_is_filled_to_what_would_be_rendered() {
        for state in tests::STATES {
            let kept = view(state, (0, 1_000), NEXT_MARK, KEY_MARK);
            for next in ["/", "/checkout?a=1&b='<2>'&c=~next&d=~key", "//evil.test", "/1803902400"]
            {
                let wanted = view(state, (0, 1_000), next, "0123456789abcdef0123456789abcdef");
                is_filled_as_rendered(&kept, &wanted);
                is_filled_as_rendered(&kept, &PageView { spread: 7, ..wanted });
            }
            let keyless = view(state, (0, 1_000), NEXT_MARK, "");
            is_filled_as_rendered(&keyless, &view(state, (0, 1_000), "/a", ""));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn as_long_as_its_face_is_the_same_a_page_differs_in_nothing_but_its_holes(
            ms in 0..400_000_u64,
            later in 0..1_500_u64,
            polls in (1_000..15_000_u64, 1_000..15_000_u64),
        ) {
            // Nobody has a slot who has nothing.
            for state in tests::STATES.into_iter().filter(|state| *state != PageState::Booked) {
                let kept = view(state, (ms, polls.0), NEXT_MARK, KEY_MARK);
                let near = polls.0.div_ceil(1_000) * 1_000 - polls.1 % 1_000;
                for wanted in [
                    view(state, (ms + later, near), "/a", "b"),
                    view(state, (ms + later, polls.1), "/a", "b"),
                ] {
                    if face(&kept) == face(&wanted) {
                        is_filled_as_rendered(&kept, &wanted);
                    }
                }
            }
        }
    }

    #[test]
    fn a_page_has_another_face_when_a_second_of_its_clock_or_of_a_countdown_has_passed() {
        let at = |ms| face(&view(PageState::Lobby, (ms, 1_000), "/", ""));
        assert_eq!(at(100), at(999));
        assert_ne!(at(999), at(1_000));
        let odd = |ms| Face::at(ms, 0, 10_500, 1_000);
        assert_ne!(odd(7_499), odd(7_500));
        assert_ne!(Face::at(7, 0, 9, 1_000), Face::at(7, 0, 9, 1_001));
    }
}
