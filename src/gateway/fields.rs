//! The names of a struct's fields, as it tells them to whoever reads it.

use serde::de::value::Error;
use serde::de::{DeserializeOwned, Deserializer, Error as _, Visitor};
use serde::forward_to_deserialize_any;

/// Those of a struct; none of anything else.
pub(super) fn of<T: DeserializeOwned>() -> &'static [&'static str] {
    let mut names: &[&str] = &[];
    // It only asks, so it always fails.
    drop(T::deserialize(Asks(&mut names)));
    names
}

/// Asks for the names and has nothing to give.
struct Asks<'a>(&'a mut &'static [&'static str]);

impl<'de> Deserializer<'de> for Asks<'_> {
    type Error = Error;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        _visitor: V,
    ) -> Result<V::Value, Error> {
        *self.0 = fields;
        Err(Error::custom("only asked"))
    }

    fn deserialize_any<V: Visitor<'de>>(self, _visitor: V) -> Result<V::Value, Error> {
        Err(Error::custom("only asked"))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    #[derive(Deserialize)]
    struct Order {
        #[serde(rename = "order_key")]
        _key: String,
        #[serde(rename = "sku", default)]
        _sku: Option<String>,
    }

    #[test]
    fn a_struct_tells_its_fields() {
        assert_eq!(super::of::<Order>(), ["order_key", "sku"]);
        assert!(super::of::<String>().is_empty());
    }
}
