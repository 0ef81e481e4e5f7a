//! A text that is the same for many but for a few words of it: written once, then filled in.

/// A text with holes; an `H` says what goes into one.
pub(super) struct Stencil<H> {
    /// What stands before each hole.
    parts: Vec<(Box<str>, H)>,
    rest: Box<str>,
    /// What the whole seldom exceeds.
    bytes: usize,
}

/// A word that is to become a hole.
pub(super) struct Mark<'a, H> {
    /// What has to stand before it.
    pub(super) after: &'a str,
    /// The word; an empty one is nowhere.
    pub(super) word: &'a str,
    /// What goes there.
    pub(super) hole: H,
}

/// What is filled into one hole is seldom longer.
const HOLE_BYTES: usize = 64;

impl<H: Copy> Stencil<H> {
    /// Cuts every mark out of a text, wherever it stands.
    pub(super) fn cut(whole: &str, marks: &[Mark<'_, H>]) -> Self {
        let mut found: Vec<(usize, usize, H)> = vec![];
        for mark in marks.iter().filter(|mark| !mark.word.is_empty()) {
            let is_after = |(at, _): &(usize, &str)| whole[..*at].ends_with(mark.after);
            let places = whole.match_indices(mark.word).filter(is_after);
            found.extend(places.map(|(at, word)| (at, at + word.len(), mark.hole)));
        }
        found.sort_by_key(|(from, _, _)| *from);
        let (mut parts, mut done) = (vec![], 0);
        for (from, to, hole) in found {
            // One within another went with it.
            if from >= done {
                parts.push((whole[done..from].into(), hole));
                done = to;
            }
        }
        let bytes = whole.len() + HOLE_BYTES * parts.len();
        let rest = whole[done..].into();
        Self { parts, rest, bytes }
    }

    /// The text, with what `put` writes into each hole.
    pub(super) fn fill(&self, mut put: impl FnMut(&mut String, H)) -> String {
        let mut out = String::with_capacity(self.bytes);
        for (part, hole) in &self.parts {
            out.push_str(part);
            put(&mut out, *hole);
        }
        out.push_str(&self.rest);
        out
    }
}

/// Appends a number.
pub(super) fn put_number(out: &mut String, number: u64) {
    out.push_str(itoa::Buffer::new().format(number));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark<'a>(after: &'a str, word: &'a str, hole: &'a str) -> Mark<'a, &'a str> {
        Mark { after, word, hole }
    }

    #[test]
    fn every_place_of_a_word_is_filled_and_all_else_stays() {
        let stencil = Stencil::cut("~a, b=1 c=1 ~a", &[mark("", "~a", "x"), mark("b=", "1", "23")]);
        assert_eq!(stencil.fill(String::push_str), "x, b=23 c=1 x");
        assert_eq!(stencil.fill(|_, _| {}), ", b= c=1 ");
    }

    #[test]
    fn what_is_not_there_is_no_hole_and_of_two_that_overlap_one_is() {
        let stencil = Stencil::cut("aba", &[mark("", "", "x"), mark("", "c", "y")]);
        assert_eq!(stencil.fill(String::push_str), "aba");
        let stencil = Stencil::cut("aba", &[mark("", "ab", "x"), mark("", "ba", "y")]);
        assert_eq!(stencil.fill(String::push_str), "xa");
    }
}
