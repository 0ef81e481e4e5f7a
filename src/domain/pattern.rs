//! What paths are compared with: a path, a path and all below it, or that with a method.

use http::Method;

use super::path::{Canonical, PathFault};

/// Why a pattern was not accepted; the text says the cure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// `*` elsewhere than in a trailing `/**`.
    #[error("may have \"**\" only at the end after a \"/\", for all that is below")]
    Star,
    /// The path itself is refused.
    #[error("{0}, as \"/checkout\" or \"/checkout/**\"")]
    Path(#[from] PathFault),
    /// Written otherwise than the one way in which paths are compared, letter case aside.
    #[error(
        "must be a plain path without query, \";\", \"//\", \".\" or \"..\" segments, spaces or needless \"%\""
    )]
    Plain,
    /// Below our own paths.
    #[error("must not be below /_stanchion/, which is ours")]
    Ours,
    /// The method is missing or not one.
    #[error("must be a method in capitals and a path, as \"POST /payment/notify\"")]
    Method,
}

/// A path, or with a last segment `**` a path and all below it, itself included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    path: Canonical,
    below: bool,
}

impl Pattern {
    /// Reads `/checkout` or `/checkout/**`. Anything that would be compared otherwise than it is
    /// written is refused, so that a pattern protects what its reader thinks.
    pub fn parse(raw: &str) -> Result<Self, PatternError> {
        let (written, below) = match raw.strip_suffix("/**") {
            Some("") => ("/", true),
            Some(path) => (path, true),
            None => (raw, false),
        };
        if written.contains('*') {
            return Err(PatternError::Star);
        }
        let path = Canonical::parse(written)?;
        let plain = written.strip_suffix('/').filter(|rest| !rest.is_empty()).unwrap_or(written);
        if plain.to_ascii_lowercase() != path.as_str() {
            return Err(PatternError::Plain);
        }
        if below_or_at(path.as_str(), "/_stanchion") {
            return Err(PatternError::Ours);
        }
        Ok(Self { path, below })
    }

    /// Whether the path is the pattern's, or below it if the pattern says so.
    pub fn matches(&self, path: &Canonical) -> bool {
        self.covers(path.as_str())
    }

    /// Whether there is a path that both stand for.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.covers(other.path.as_str()) || other.covers(self.path.as_str())
    }

    /// Whether every path that the other stands for is one of this.
    fn includes(&self, other: &Self) -> bool {
        self.covers(other.path.as_str()) && (self.below || !other.below)
    }

    fn covers(&self, path: &str) -> bool {
        let own = self.path.as_str();
        if self.below { below_or_at(path, own) } else { path == own }
    }
}

fn below_or_at(path: &str, parent: &str) -> bool {
    match path.strip_prefix(parent) {
        Some(rest) => rest.is_empty() || rest.starts_with('/') || parent == "/",
        None => false,
    }
}

/// A method and a pattern: `POST /payment/notify`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    method: Method,
    pattern: Pattern,
}

impl Rule {
    /// Reads `METHOD /path`.
    pub fn parse(raw: &str) -> Result<Self, PatternError> {
        let (method, path) = raw.trim().split_once(' ').ok_or(PatternError::Method)?;
        let upper = method.bytes().all(|b| b.is_ascii_uppercase());
        let method: Method = method.parse().map_err(|_| PatternError::Method)?;
        if !upper {
            return Err(PatternError::Method);
        }
        Ok(Self { method, pattern: Pattern::parse(path.trim())? })
    }

    /// Whether requests of this method match wherever the pattern does.
    pub fn includes(&self, method: &Method, pattern: &Pattern) -> bool {
        self.method == *method && self.pattern.includes(pattern)
    }

    /// Whether both match.
    pub fn matches(&self, method: &Method, path: &Canonical) -> bool {
        self.method == *method && self.pattern.matches(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(raw: &str) -> Pattern {
        Pattern::parse(raw).unwrap()
    }

    fn path(raw: &str) -> Canonical {
        Canonical::parse(raw).unwrap()
    }

    #[test]
    fn a_pattern_with_the_rest_matches_itself_and_all_below_but_no_neighbour() {
        let below = pattern("/Checkout/**");
        for (raw, wanted) in [
            ("/checkout", true),
            ("/checkout/", true),
            ("/CHECKOUT/pay/now", true),
            ("/checkouts", false),
            ("/", false),
        ] {
            assert_eq!(below.matches(&path(raw)), wanted, "{raw}");
        }
        let all = pattern("/**");
        assert!(all.matches(&path("/")));
        assert!(all.matches(&path("/x/y")));
        let exact = pattern("/checkout");
        assert!(exact.matches(&path("/checkout/")) && !exact.matches(&path("/checkout/x")));
    }

    #[test]
    fn patterns_overlap_if_one_path_could_be_both() {
        for (one, other) in [
            ("/checkout", "/Checkout/"),
            ("/checkout/**", "/checkout"),
            ("/checkout/**", "/checkout/pay"),
            ("/a/**", "/a/b/**"),
            ("/**", "/anything"),
            ("/**", "/"),
        ] {
            assert!(pattern(one).overlaps(&pattern(other)), "{one} {other}");
            assert!(pattern(other).overlaps(&pattern(one)), "{other} {one}");
        }
        for (one, other) in [("/checkout/**", "/checkouts/a"), ("/a", "/b"), ("/a", "/a/b")] {
            assert!(!pattern(one).overlaps(&pattern(other)), "{one} {other}");
            assert!(!pattern(other).overlaps(&pattern(one)), "{other} {one}");
        }
    }

    #[test]
    fn a_pattern_is_one_plain_path() {
        for raw in ["checkout", "", "/a*", "/**/a", "/a**", "/a?b=1", "/%61", "/a;b", "/a//b"] {
            assert!(Pattern::parse(raw).is_err(), "{raw:?}");
        }
        for raw in ["/a/../b", "/a/.", "/a.", "/a b", "/a#b", "/a\\b", "/a%2fb", "/é"] {
            assert!(Pattern::parse(raw).is_err(), "{raw:?}");
        }
        for raw in ["/_stanchion", "/_stanchion/x", "/_Stanchion/**"] {
            assert_eq!(Pattern::parse(raw), Err(PatternError::Ours), "{raw:?}");
        }
        assert!(pattern("/caf%C3%A9/**").matches(&path("/caf%c3%a9/x")));
    }

    #[test]
    fn a_rule_is_bound_to_its_method() {
        let rule = Rule::parse("POST /payment/notify").unwrap();
        let notify = path("/payment/notify");

        assert!(rule.matches(&Method::POST, &notify));
        assert!(!rule.matches(&Method::GET, &notify));
        for bad in ["/payment", "post /payment", "POST", "POST payment", "POST /a*b", "POST /a?b"] {
            assert!(Rule::parse(bad).is_err(), "{bad}");
        }
    }
}
