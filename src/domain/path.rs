//! The one form in which paths are compared.
//!
//! Shops differ in what they make of a path: some fold case, merge slashes, cut `;params`, decode
//! twice. The canonical form undoes all of it, so that a protected path is protected in every
//! spelling; what no honest client sends is refused.

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
    /// A character in more bytes than it has, as old shops read it.
    #[error("the path spells a character in more bytes than it has")]
    Overlong,
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
    cut: bool,
}

impl Canonical {
    /// Reads the path of a request target, without its query.
    pub fn parse(raw: &str) -> Result<Self, PathFault> {
        let rest = raw.strip_prefix('/').ok_or(PathFault::NotAbsolute)?;
        if rest.split('/').all(is_canonical) {
            return Ok(Self { path: raw.to_owned(), dots: false, cut: false });
        }
        let mut segments: Vec<String> = Vec::new();
        let (mut dots, mut cut) = (false, false);
        for raw_segment in rest.split('/') {
            let (segment, is_cut) = canonical_segment(raw_segment)?;
            cut |= is_cut;
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
        Ok(Self { path: format!("/{}", segments.join("/")), dots, cut })
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

    /// Whether something of it names nothing here and may name something to the shop: parameters,
    /// an encoded `?` or `#`, dot segments. Such a path is protected, but never set free by a rule.
    pub fn is_ambiguous(&self) -> bool {
        self.dots || self.cut
    }
}

/// Most segments are: such a path is taken as it is.
fn is_canonical(segment: &str) -> bool {
    let is_kept = |byte: u8| is_plain(byte) && !byte.is_ascii_uppercase();
    !segment.is_empty() && !segment.ends_with('.') && segment.bytes().all(is_kept)
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

/// One pass of percent-decoding.
fn decoded(raw: &str) -> Result<Vec<u8>, PathFault> {
    let bytes = raw.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let (byte, width) = match byte {
            b'%' => (hex_pair(&bytes[at + 1..]).ok_or(PathFault::BadPercent)?, 3),
            b'\\' => return Err(PathFault::Hidden),
            _ => (byte, 1),
        };
        at += width;
        out.push(byte);
    }
    Ok(out)
}

/// Folds case, cuts parameters, and says whether it cut; what is not plain is encoded again.
fn canonical_segment(raw: &str) -> Result<(String, bool), PathFault> {
    let bytes = decoded(raw)?;
    let mut out = String::with_capacity(bytes.len());
    let mut cut = false;
    for (at, &byte) in bytes.iter().enumerate() {
        match byte {
            b'/' | b'\\' | 0..0x20 | 0x7f => return Err(PathFault::Hidden),
            // Asked of the decoded bytes, so that no spelling of the digits hides it.
            0xc0.. if is_overlong(&bytes[at..]) => return Err(PathFault::Overlong),
            b'%' if decodes_again(&bytes[at + 1..]) => return Err(PathFault::Twice),
            // The rest is still checked for faults, but names nothing.
            b';' | b'?' | b'#' => cut = true,
            _ if cut => {}
            _ if is_plain(byte) => out.push(char::from(byte.to_ascii_lowercase())),
            _ => push_encoded(&mut out, byte),
        }
    }
    Ok((out, cut))
}

/// Whether it begins with what a lenient reader of UTF-8 takes for a character that has a shorter
/// spelling: a slash, a dot, a letter.
fn is_overlong(bytes: &[u8]) -> bool {
    matches!(
        bytes,
        [0xc0 | 0xc1, 0x80..=0xbf, ..]
            | [0xe0, 0x80..=0x9f, ..]
            | [0xf0, 0x80..=0x8f, ..]
            | [0xf8, 0x80..=0x87, ..]
            | [0xfc, 0x80..=0x83, ..]
    )
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
            ("/%c1%a3heckout/x", PathFault::Overlong),
            ("/public%C0%AFcheckout/x", PathFault::Overlong),
            ("/public/%c0%ae%c0%ae/checkout", PathFault::Overlong),
            ("/public%e0%80%afcheckout", PathFault::Overlong),
            ("/check%0aout", PathFault::Hidden),
            ("/%252e%252e/checkout", PathFault::Twice),
            ("/a%252fcheckout", PathFault::Twice),
            ("/%2563heckout", PathFault::Twice),
            ("/%25252fx", PathFault::Twice),
            ("/a%", PathFault::BadPercent),
            ("/a%2", PathFault::BadPercent),
            ("/a%zz", PathFault::BadPercent),
            ("/%25%36%33heckout", PathFault::Twice),
            ("/%256%33heckout", PathFault::Twice),
            ("/a%25%32%66b", PathFault::Twice),
            ("/a/%25%32%65%25%32%65/b", PathFault::Twice),
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
    fn what_names_nothing_here_makes_a_path_ambiguous() {
        for raw in ["/checkout;x/return", "/checkout%3f/return", "/checkout%23/return", "/a/../b"] {
            assert!(Canonical::parse(raw).unwrap().is_ambiguous(), "{raw}");
        }
        assert!(!Canonical::parse("/Checkout//return/").unwrap().is_ambiguous());
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
        fn a_path_taken_as_it_is_is_what_its_spelled_out_form_leads_to(raw in "/[a-c./%~-]{0,12}") {
            let Ok(path) = Canonical::parse(&raw) else { return Ok(()) };
            // A capital letter, so that nothing is taken as it is.
            let other = Canonical::parse(&format!("{raw}/X")).unwrap();
            let joint = if path.path == "/" { "" } else { "/" };
            prop_assert_eq!(other.path, format!("{}{joint}x", path.path));
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
