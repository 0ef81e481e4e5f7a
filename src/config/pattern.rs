//! Path patterns of a sale: `/checkout` is that path, `/checkout/**` everything below it.

/// Why a pattern was not accepted; the text says the cure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// Not a path.
    #[error("must start with \"/\", as \"/checkout\" or \"/checkout/**\"")]
    Relative,
    /// `*` elsewhere than in a trailing `/**`.
    #[error("may have \"**\" only at the end after a \"/\", for all that is below")]
    Star,
    /// Written otherwise than the one way in which paths are compared.
    #[error(
        "must be a plain path without query, \"%\", \";\", \"\\\", \"//\", \".\" or \"..\" segments, spaces"
    )]
    Plain,
    /// Below our own paths.
    #[error("must not be below /_stanchion/, which is ours")]
    Ours,
}

/// A parsed pattern; letters are compared without regard to case, as the edge does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    /// Without the `/**` and without a trailing slash.
    path: String,
    below: bool,
}

impl Pattern {
    /// Reads one of a sale's `paths`, or the path of a `never_gate` line.
    pub fn parse(raw: &str) -> Result<Self, PatternError> {
        if !raw.starts_with('/') {
            return Err(PatternError::Relative);
        }
        let below = raw.strip_suffix("/**");
        let path = below.unwrap_or(raw);
        if path.contains('*') {
            return Err(PatternError::Star);
        }
        let plain = path.bytes().all(|b| b.is_ascii_graphic() && !b"%;\\?#".contains(&b));
        let mut segments = path.split('/');
        if !plain || path.contains("//") || segments.any(|segment| matches!(segment, "." | "..")) {
            return Err(PatternError::Plain);
        }
        let path = path.trim_end_matches('/').to_ascii_lowercase();
        if path == "/_stanchion" || path.starts_with("/_stanchion/") {
            return Err(PatternError::Ours);
        }
        Ok(Self { path, below: below.is_some() })
    }

    /// Whether there is a path that both stand for.
    pub fn overlaps(&self, other: &Self) -> bool {
        match (self.below, other.below) {
            (false, false) => self.path == other.path,
            (true, false) => is_below(&other.path, &self.path),
            (false, true) => is_below(&self.path, &other.path),
            (true, true) => {
                self.path == other.path
                    || is_below(&self.path, &other.path)
                    || is_below(&other.path, &self.path)
            }
        }
    }
}

/// The root itself counts as below `/**`: nobody who protects everything leaves out the front page.
fn is_below(path: &str, parent: &str) -> bool {
    match path.strip_prefix(parent) {
        Some(rest) => rest.starts_with('/') || parent.is_empty(),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(raw: &str) -> Pattern {
        Pattern::parse(raw).unwrap()
    }

    #[test]
    fn patterns_overlap_if_one_path_could_be_both() {
        for (one, other) in [
            ("/checkout", "/Checkout/"),
            ("/checkout/**", "/checkout/pay"),
            ("/a/**", "/a/b/**"),
            ("/**", "/anything"),
            ("/**", "/"),
        ] {
            assert!(pattern(one).overlaps(&pattern(other)), "{one} {other}");
            assert!(pattern(other).overlaps(&pattern(one)), "{other} {one}");
        }
        for (one, other) in
            [("/checkout", "/checkout/**"), ("/checkout/**", "/checkouts/a"), ("/a", "/b")]
        {
            assert!(!pattern(one).overlaps(&pattern(other)), "{one} {other}");
            assert!(!pattern(other).overlaps(&pattern(one)), "{other} {one}");
        }
    }

    #[test]
    fn a_pattern_is_one_plain_path() {
        for raw in ["checkout", "", "/a*", "/**/a", "/a**", "/a?b=1", "/%61", "/a;b", "/a//b"] {
            assert!(Pattern::parse(raw).is_err(), "{raw:?}");
        }
        for raw in ["/a/../b", "/a/.", "/a b", "/a#b", "/a\\b", "/_stanchion/x", "/_Stanchion/**"] {
            assert!(Pattern::parse(raw).is_err(), "{raw:?}");
        }
    }
}
