//! SKUs that people take for the same: they differ only in case, blanks, leading zeros, or in how a
//! letter with its accent is written. They are different SKUs all the same; whoever writes both is
//! warned.

use std::collections::HashMap;

use unicode_normalization::UnicodeNormalization;

use super::id::Sku;

/// What near duplicates have in common.
pub fn likeness(sku: &Sku) -> String {
    let plain: String = sku
        .as_str()
        .nfkc()
        .flat_map(char::to_lowercase)
        .filter(|c| !c.is_whitespace() && !is_invisible(*c))
        .nfkc()
        .collect();
    match plain.trim_start_matches('0') {
        digits if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) => {
            digits.to_owned()
        }
        _ => plain,
    }
}

/// Zero width, or a mark of the direction of writing.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}' | '\u{feff}')
}

/// SKUs by their likeness; of those alike the first one is kept.
#[derive(Debug, Default)]
pub struct Lookalikes(HashMap<String, Sku>);

impl Lookalikes {
    /// Remembers a SKU; answers another one that it might be taken for.
    pub fn note(&mut self, sku: &Sku) -> Option<&Sku> {
        let first = self.0.entry(likeness(sku)).or_insert_with(|| sku.clone());
        (first != sku).then_some(&*first)
    }

    /// The SKU that somebody who wrote this one may have meant.
    pub fn meant(&self, sku: &Sku) -> Option<&Sku> {
        self.0.get(&likeness(sku)).filter(|known| *known != sku)
    }
}

impl<'s> FromIterator<&'s Sku> for Lookalikes {
    fn from_iter<I: IntoIterator<Item = &'s Sku>>(skus: I) -> Self {
        let mut found = Self::default();
        for sku in skus {
            let _alike = found.note(sku);
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sku(raw: &str) -> Sku {
        Sku::parse(raw).unwrap()
    }

    #[test]
    fn rs_62_skus_that_differ_only_in_case_blanks_zeros_or_accents_are_alike() {
        for (one, other) in [
            ("A-1", "a-1"),
            ("A 1", "A1"),
            ("01", "1"),
            ("01234", "1234"),
            ("caf\u{e9}", "cafe\u{301}"),
            ("\u{c9}", "e\u{301}"),
            ("A\u{200b}1", "A1"),
            ("\u{ff21}1", "a1"),
        ] {
            assert_eq!(likeness(&sku(one)), likeness(&sku(other)), "{one:?} {other:?}");
            let known: Lookalikes = [&sku(one)].into_iter().collect();
            assert_eq!(known.meant(&sku(other)), Some(&sku(one)));
        }
    }

    #[test]
    fn skus_that_people_tell_apart_are_not_alike() {
        let all = ["A-1", "A-2", "A1", "1", "10", "0", "00A", "0A", "cafe", "caf\u{e9}"].map(sku);
        let mut seen = Lookalikes::default();
        for sku in &all {
            assert_eq!(seen.note(sku), None, "{sku}");
        }
        assert_eq!(seen.note(&sku("A-1")), None, "the same SKU is not a near duplicate");
    }
}
