//! Texts of JSON that are borrowed from the input, not copied.

use std::{borrow::Cow, fmt, marker::PhantomData};

use serde::{Deserialize, Deserializer, de::Visitor};

/// A text that is borrowed from the input unless it has escapes: serde's own `Option<Cow<str>>`
/// never borrows.
#[derive(Clone, Debug)]
pub struct Text<'a>(pub(crate) Cow<'a, str>);

impl From<Text<'_>> for String {
    fn from(text: Text<'_>) -> Self {
        text.0.into_owned()
    }
}

impl AsRef<str> for Text<'_> {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Borrowing<'a>(PhantomData<&'a ()>);
        impl<'de: 'a, 'a> Visitor<'de> for Borrowing<'a> {
            type Value = Text<'a>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(Borrowing(PhantomData))
    }
}
