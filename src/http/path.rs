//! The one form in which paths are compared, and the patterns they are compared with.
//!
//! Shops differ in what they make of a path: some fold case, merge slashes, cut `;params`, decode
//! twice. The canonical form undoes all of it, so that a protected path is protected in every
//! spelling; what no honest client sends is refused.

use std::fmt;

use hyper::Method;

/// Why a path is refused outright.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PathFault {
    /// Not of the form `/…`.
    #[error("the path must start with '/'")]
    NotAbsolute,
    /// `%` without two hex digits.
    #[error("'%' in the path must be followed by two hex digits")]
    BadPercent,
    /// An encoded slash, backslash, NUL or other control character, or a raw backslash.
    #[error("the path must not contain a backslash, nor an encoded slash or control character")]
    Hidden,
    /// `%25` that decodes to something which decodes again.
    #[error("the path is percent-encoded twice")]
    Twice,
}

/// A path in canonical form: lower-case, decoded where that is safe, no empty or dot segments, no
/// parameters, no trailing slash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Canonical {
    path: String,
    dots: bool,
}

impl Canonical {
    /// Reads the path of a request target, without its query.
    pub fn parse(raw: &str) -> Result<Self, PathFault> {
        let rest = raw.strip_prefix('/').ok_or(PathFault::NotAbsolute)?;
        let mut segments: Vec<String> = Vec::new();
        let mut dots = false;
        for raw_segment in rest.split('/') {
            let segment = canonical_segment(raw_segment)?;
            match segment.as_str() {
                "" => {}
                "." => dots = true,
                ".." => {
                    dots = true;
                    segments.pop();
                }
                _ => {
                    let trimmed = trim_tail(&segment);
                    if !trimmed.is_empty() {
                        segments.push(trimmed.to_owned());
                    }
                }
            }
        }
        Ok(Self { path: format!("/{}", segments.join("/")), dots })
    }

    /// The canonical text.
    pub fn as_str(&self) -> &str {
        &self.path
    }

    /// Whether dot segments were resolved. The shop may resolve them otherwise, so such a path is
    /// never forwarded; browsers resolve them before they ask.
    pub fn had_dots(&self) -> bool {
        self.dots
    }
}

/// Windows shops ignore dots and blanks at the end of a name.
fn trim_tail(segment: &str) -> &str {
    let mut rest = segment;
    while let Some(shorter) = rest.strip_suffix('.').or_else(|| rest.strip_suffix("%20")) {
        rest = shorter;
    }
    rest
}

fn hex_pair(bytes: &[u8]) -> Option<u8> {
    let (high, low) = (*bytes.first()?, *bytes.get(1)?);
    let digit = |b: u8| char::from(b).to_digit(16).and_then(|d| u8::try_from(d).ok());
    Some(digit(high)? * 16 + digit(low)?)
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,=:@".contains(&byte)
}

/// Decodes what is safe, folds case and cuts parameters.
fn canonical_segment(raw: &str) -> Result<String, PathFault> {
    let bytes = raw.as_bytes();
    let mut out = String::with_capacity(raw.len());
    let mut at = 0;
    let mut cut = false;
    while let Some(&byte) = bytes.get(at) {
        let (byte, width) = match byte {
            b'%' => (hex_pair(&bytes[at + 1..]).ok_or(PathFault::BadPercent)?, 3),
            b'\\' => return Err(PathFault::Hidden),
            _ => (byte, 1),
        };
        at += width;
        match byte {
            b'/' | b'\\' | 0..0x20 | 0x7f => return Err(PathFault::Hidden),
            b'%' if decodes_again(&bytes[at..]) => return Err(PathFault::Twice),
            // The rest is still checked for faults, but names nothing.
            b';' | b'?' | b'#' => cut = true,
            _ if cut => {}
            _ if is_plain(byte) => out.push(char::from(byte.to_ascii_lowercase())),
            _ => push_encoded(&mut out, byte),
        }
    }
    Ok(out)
}

fn push_encoded(out: &mut String, byte: u8) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.push('%');
    out.push(char::from(HEX[usize::from(byte >> 4)]));
    out.push(char::from(HEX[usize::from(byte & 15)]));
}

/// After an encoded `%`: would decoding once more, however often, make a character that matters?
fn decodes_again(mut after: &[u8]) -> bool {
    while after.starts_with(b"25") {
        after = &after[2..];
    }
    match hex_pair(after) {
        Some(byte) => is_plain(byte) || byte < 0x20 || b"/\\;?#\x7f".contains(&byte),
        None => false,
    }
}

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
    use proptest::prelude::*;

    fn canonical(raw: &str) -> String {
        Canonical::parse(raw).unwrap().path
    }

    #[test]
    fn ed_34_ed_36_every_spelling_of_a_path_has_one_form() {
        for raw in [
            "/checkout/x",
            "/public/../checkout/x",
            "/public/%2e%2E/checkout/x",
            "//checkout/x",
            "/%63heckout/x",
            "/%43HECKOUT/x",
            "/./checkout/x",
            "/checkout;v=1/x;y",
            "/public/..;/checkout/x",
            "/checkout/x/",
            "/checkout./x%20",
            "/checkout%3bx/x",
            "/../../checkout/x",
        ] {
            assert_eq!(canonical(raw), "/checkout/x", "{raw}");
        }
    }

    #[test]
    fn ed_34_hidden_slashes_and_double_encodings_are_refused() {
        for (raw, fault) in [
            ("/checkout%2fx", PathFault::Hidden),
            ("/public%2F..%2fcheckout", PathFault::Hidden),
            ("/public/..%5ccheckout", PathFault::Hidden),
            ("/public\\..\\checkout", PathFault::Hidden),
            ("/checkout%00", PathFault::Hidden),
            ("/check%0aout", PathFault::Hidden),
            ("/%252e%252e/checkout", PathFault::Twice),
            ("/a%252fcheckout", PathFault::Twice),
            ("/%2563heckout", PathFault::Twice),
            ("/%25252fx", PathFault::Twice),
            ("/a%", PathFault::BadPercent),
            ("/a%2", PathFault::BadPercent),
            ("/a%zz", PathFault::BadPercent),
            ("", PathFault::NotAbsolute),
            ("*", PathFault::NotAbsolute),
            ("checkout", PathFault::NotAbsolute),
        ] {
            assert_eq!(Canonical::parse(raw), Err(fault), "{raw}");
        }
    }

    #[test]
    fn honest_names_pass() {
        for raw in ["/search/100%25", "/caf%C3%A9", "/a%20b", "/a%2520b", "/50%25%20off", "/a+b"] {
            assert!(Canonical::parse(raw).is_ok(), "{raw}");
        }
    }

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

    proptest! {
        #[test]
        fn any_text_is_canonical_after_one_pass_or_refused(raw in "/[ -~]{0,40}") {
            if let Ok(once) = Canonical::parse(&raw) {
                let again = Canonical::parse(once.as_str()).unwrap();
                prop_assert_eq!(&again.path, &once.path);
                prop_assert!(!again.dots);
            }
        }

        #[test]
        fn percent_encoding_any_letter_changes_nothing(
            word in "[a-z]{1,12}", which in any::<prop::sample::Index>()
        ) {
            let at = which.index(word.len());
            let encoded = format!("/{}%{:02X}{}", &word[..at], word.as_bytes()[at], &word[at + 1..]);
            prop_assert_eq!(canonical(&encoded), format!("/{word}"));
        }
    }
}
