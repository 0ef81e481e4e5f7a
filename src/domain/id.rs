//! Names that come from outside: parsed once at the door, trusted afterwards.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Longest buyer, SKU or order key, in bytes.
pub const TEXT_BYTES_MAX: usize = 200;

/// Words that a sale may not be called, because paths below `/_stanchion/` have those names.
const RESERVED: [&str; 8] =
    ["assets", "auth", "health", "hold", "jwks", "pass", "problems", "stock"];

/// Why a name was not accepted; the text says the cure.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// Nothing is left after trimming.
    #[error("must not be empty")]
    Empty,
    /// Longer than [`TEXT_BYTES_MAX`].
    #[error("must be at most 200 bytes")]
    TooLong,
    /// Control characters would spoil logs, headers and Postgres text.
    #[error("must not contain control characters")]
    Control,
    /// Not of the shape of a sale's id.
    #[error(
        "must be 1 to 40 of a-z, 0-9 and '-', starting and ending with a letter or digit, like \"spring-drop\""
    )]
    SaleShape,
    /// A sale with this name would shadow one of our own paths.
    #[error("is a reserved word; choose another id")]
    Reserved,
}

/// The id of a sale: `[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?`, none of our own path names.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SaleId(Arc<str>);

impl SaleId {
    /// Parses a sale id; the whole string must match.
    pub fn parse(raw: &str) -> Result<Self, IdError> {
        let bytes = raw.as_bytes();
        let word = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else {
            return Err(IdError::Empty);
        };
        let shape = bytes.len() <= 40
            && word(first)
            && word(last)
            && bytes.iter().all(|b| word(b) || *b == b'-');
        if !shape {
            return Err(IdError::SaleShape);
        }
        if RESERVED.contains(&raw) {
            return Err(IdError::Reserved);
        }
        Ok(Self(raw.into()))
    }
}

/// Trims, then checks length and characters; the bytes stay exactly as sent.
fn bounded(raw: &str) -> Result<Arc<str>, IdError> {
    let trimmed = raw.trim();
    if trimmed.is_empty() {
        return Err(IdError::Empty);
    }
    if trimmed.len() > TEXT_BYTES_MAX {
        return Err(IdError::TooLong);
    }
    if trimmed.chars().any(char::is_control) {
        return Err(IdError::Control);
    }
    Ok(trimmed.into())
}

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Arc<str>);

        impl $name {
            /// Parses after trimming: 1 to 200 bytes, no control characters.
            pub fn parse(raw: &str) -> Result<Self, IdError> {
                bounded(raw).map(Self)
            }
        }

        text_traits!($name);
    };
}

macro_rules! text_traits {
    ($name:ident) => {
        impl $name {
            /// The text as it was accepted.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", &self.0)
            }
        }
        impl TryFrom<String> for $name {
            type Error = IdError;
            fn try_from(raw: String) -> Result<Self, IdError> {
                Self::parse(&raw)
            }
        }
        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.0.as_ref().to_owned()
            }
        }
    };
}

text_traits!(SaleId);
text_id! {
    /// A stock-keeping unit, matched as exact bytes after trimming.
    Sku
}
text_id! {
    /// Whom a reservation belongs to: the account, else the ticket's `sub`.
    BuyerId
}
text_id! {
    /// A logged-in identity vouched for by the shop.
    AccountId
}
text_id! {
    /// The client-made idempotency key of one order.
    OrderKey
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sale_id_is_lower_case_words_joined_by_hyphens() {
        for good in ["a", "spring-drop", "2027", "a--b", &"x".repeat(40)] {
            assert_eq!(SaleId::parse(good).unwrap().as_str(), good);
        }
        for bad in ["", "-a", "a-", "A", "a_b", "a b", "é", "a/b", &"x".repeat(41)] {
            assert!(SaleId::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_sale_may_not_shadow_one_of_our_own_paths() {
        assert_eq!(SaleId::parse("assets"), Err(IdError::Reserved));
    }

    #[test]
    fn rs_62_skus_are_exact_bytes_after_trimming() {
        let plain = Sku::parse("A-1").unwrap();
        assert_eq!(Sku::parse("A-1 ").unwrap(), plain);
        assert_ne!(Sku::parse("a-1").unwrap(), plain);
        assert_ne!(Sku::parse("01").unwrap(), Sku::parse("1").unwrap());
        assert_ne!(Sku::parse("\u{e9}").unwrap(), Sku::parse("e\u{301}").unwrap());
    }

    #[test]
    fn rs_64_control_characters_are_refused_and_other_scripts_are_not() {
        assert_eq!(OrderKey::parse("a\0b"), Err(IdError::Control));
        assert_eq!(OrderKey::parse("a\nb"), Err(IdError::Control));
        assert!(OrderKey::parse("заказ-№1 🎟").is_ok());
        assert_eq!(OrderKey::parse(&"k".repeat(201)), Err(IdError::TooLong));
    }
}
