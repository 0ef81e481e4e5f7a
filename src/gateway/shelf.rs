//! Answers that are the same for everybody at one moment, kept until the room looks otherwise: a
//! handful of texts, found without waiting for another core.

use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwapOption;

use super::pages::{Face, Kept};
use super::stencil::Stencil;
use crate::room::Moment;

/// A sale's newest answers.
#[derive(Default)]
pub(super) struct Shelf(ArcSwapOption<Sheet>);

/// The answers of one moment, each made when it is first asked for.
pub(super) struct Sheet {
    moment: Moment,
    face: Face,
    /// By whether the request was one to change something, and whether the page may have a key.
    pub(super) pages: [[OnceLock<Kept>; 2]; 2],
    pub(super) problem: OnceLock<Stencil<Told>>,
}

/// What a script is told anew each time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Told {
    /// The room's clock.
    Time,
    /// When to ask again.
    Poll,
}

impl Shelf {
    /// Answers from the sheet of a moment.
    pub(super) fn at<R>(
        &self,
        moment: &Moment,
        poll_after_ms: u64,
        answer: impl FnOnce(&Sheet) -> R,
    ) -> R {
        let control = moment.control();
        let face =
            Face::at(moment.now_ms(), control.lobby_opens_ms, control.opens_ms, poll_after_ms);
        let known = self.0.load();
        if let Some(sheet) = known.as_ref().filter(|sheet| sheet.is_of(moment, face)) {
            return answer(sheet);
        }
        let (pages, problem) = Default::default();
        let sheet = Arc::new(Sheet { moment: moment.kept(), face, pages, problem });
        self.0.store(Some(Arc::clone(&sheet)));
        answer(&sheet)
    }
}

impl Sheet {
    fn is_of(&self, moment: &Moment, face: Face) -> bool {
        self.face == face && self.moment.is_like(moment)
    }
}

/// Uses what is kept, or makes it. Who comes while another core makes the same makes it too, and
/// waits for nobody.
pub(super) fn kept<T, R, E>(
    place: &OnceLock<T>,
    make: impl FnOnce() -> Result<T, E>,
    answer: impl FnOnce(&T) -> R,
) -> Result<R, E> {
    if let Some(known) = place.get() {
        return Ok(answer(known));
    }
    let new = make()?;
    let answer = answer(&new);
    drop(place.set(new));
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_made_once_and_what_could_not_be_made_is_made_anew() {
        let place = OnceLock::new();
        let make = |made: Result<u8, &'static str>| kept(&place, || made, |kept| *kept + 1);
        assert_eq!(make(Err("no")), Err("no"));
        assert_eq!(make(Ok(1)), Ok(2));
        assert_eq!(make(Ok(5)), Ok(2));
        assert_eq!(make(Err("no")), Ok(2));
    }
}
