//! The one reader of the fields of a row and of a reservation's spec: texts under known names.
//!
//! A field that is not known may say whom the object belongs to. So its name is kept, and whatever has one is
//! never touched.

use std::{fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{Error as _, IgnoredAny, MapAccess, Visitor},
};

use crate::{address::excerpt, text::Text};

/// The names of the known fields of an object.
pub(crate) trait Known<const N: usize> {
    /// All of them.
    const NAMES: [&'static str; N];
}

/// The fields of an object. A value that is no object, has a known field twice, or has one that is no text, is an error.
pub(crate) struct Fields<T, K, const N: usize> {
    /// The texts, in the order of [`Known::NAMES`].
    pub(crate) texts: [Option<T>; N],
    /// The name of a field that is not known.
    pub(crate) extra: Option<Box<str>>,
    known: PhantomData<K>,
}

/// By hand: what is derived takes a list for an object, and null for nothing.
impl<'de, T: Deserialize<'de>, K: Known<N>, const N: usize> Deserialize<'de> for Fields<T, K, N> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read<T, K, const N: usize>(PhantomData<(T, K)>);
        impl<'de, T: Deserialize<'de>, K: Known<N>, const N: usize> Visitor<'de> for Read<T, K, N> {
            type Value = Fields<T, K, N>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of texts")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut texts = [const { None }; N];
                let mut extra = None;
                while let Some(Text(name)) = map.next_key()? {
                    let Some(at) = K::NAMES.iter().position(|known| *known == name) else {
                        map.next_value::<IgnoredAny>()?;
                        extra.get_or_insert_with(|| excerpt(&name).into());
                        continue;
                    };
                    if texts[at].replace(map.next_value()?).is_some() {
                        return Err(A::Error::custom("a field twice"));
                    }
                }
                Ok(Fields {
                    texts,
                    extra,
                    known: PhantomData,
                })
            }
        }
        deserializer.deserialize_map(Read(PhantomData))
    }
}
