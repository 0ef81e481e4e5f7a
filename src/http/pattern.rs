//! What paths are compared with: a path, a path and all below it, or that with a method.

use std::fmt;

use hyper::Method;

use super::path::{Canonical, PathFault};

/// Why a pattern is not one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// `*` in another place than a last segment `**`.
    #[error("'*' may only stand as a last segment '**', like \"/checkout/**\"")]
    Star,
    /// The path itself is refused.
    #[error(transparent)]
    Path(#[from] PathFault),
    /// A query or fragment would never be compared.
    #[error("must be a path without '?', '#' or ';', like \"/checkout\"")]
    Query,
    /// The method is missing or not one.
    #[error("must be a method and a path, like \"POST /payment/notify\"")]
    Method,
}

/// A path, or with a last segment `**` a path and all below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    path: String,
    below: bool,
}

impl Pattern {
    /// Reads `/checkout` or `/checkout/**`, in any spelling.
    pub fn parse(raw: &str) -> Result<Self, PatternError> {
        if raw.contains(['?', '#', ';']) {
            return Err(PatternError::Query);
        }
        let (path, below) = match raw.strip_suffix("/**") {
            Some("") => ("/", true),
            Some(path) => (path, true),
            None => (raw, false),
        };
        if path.contains('*') {
            return Err(PatternError::Star);
        }
        let path = Canonical::parse(path)?;
        Ok(Self { path: path.path, below })
    }

    /// Whether the path is the pattern's, or below it if the pattern says so.
    pub fn matches(&self, path: &Canonical) -> bool {
        let Some(rest) = path.path.strip_prefix(&self.path) else { return false };
        match (self.below, self.path.as_str()) {
            (true, "/") => true,
            (true, _) => rest.is_empty() || rest.starts_with('/'),
            (false, _) => rest.is_empty(),
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = if self.below { self.path.trim_end_matches('/') } else { &self.path };
        write!(f, "{path}{}", if self.below { "/**" } else { "" })
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

    /// Whether both match.
    pub fn matches(&self, method: &Method, path: &Canonical) -> bool {
        self.method == *method && self.pattern.matches(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_with_the_rest_matches_itself_and_all_below_but_no_neighbour() {
        let below = Pattern::parse("/Checkout/**").unwrap();
        for (path, wanted) in [
            ("/checkout", true),
            ("/checkout/", true),
            ("/CHECKOUT/pay/now", true),
            ("/checkouts", false),
            ("/", false),
        ] {
            assert_eq!(below.matches(&Canonical::parse(path).unwrap()), wanted, "{path}");
        }
        let all = Pattern::parse("/**").unwrap();
        assert!(all.matches(&Canonical::parse("/").unwrap()));
        assert!(all.matches(&Canonical::parse("/x/y").unwrap()));
    }

    #[test]
    fn a_rule_is_bound_to_its_method() {
        let rule = Rule::parse("POST /payment/notify").unwrap();
        let path = Canonical::parse("/payment/notify").unwrap();

        assert!(rule.matches(&Method::POST, &path));
        assert!(!rule.matches(&Method::GET, &path));
        for bad in ["/payment", "post /payment", "POST", "POST payment", "POST /a*b", "POST /a?b"] {
            assert!(Rule::parse(bad).is_err(), "{bad}");
        }
    }
}
