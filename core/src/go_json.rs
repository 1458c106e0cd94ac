//! JSON as Go's `encoding/json` reads it into a struct, since that is how multus, libcni and whereabouts read.
//!
//! Keys match without case. Of equal keys each is taken in, in the order in which they stand: a later text replaces an
//! earlier one, null leaves it, and an object or a list is read into what is there already. The object itself,
//! where it is read into a map, keeps the last of keys that are the same letter by letter; that is what
//! [`Value`] does.

use std::{fmt, net::IpAddr};

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;

/// A value that is not of the type which belongs there: the path of its keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mismatch(String);

impl Mismatch {
    /// Of the value of this key.
    pub(crate) fn of(key: &str) -> Self {
        Self(key.to_owned())
    }

    /// The same within the value of this key.
    pub(crate) fn within(self, key: &str) -> Self {
        match self.0.as_str() {
            "" => Self(key.to_owned()),
            rest if rest.starts_with('[') => Self(format!("{key}{rest}")),
            rest => Self(format!("{key}.{rest}")),
        }
    }

    /// The same in this place of a list.
    pub(crate) fn at(self, place: usize) -> Self {
        self.within(&format!("[{place}]"))
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_str() {
            "" => f.write_str("it is not of the type that belongs there"),
            path => write!(f, "`{path}` is not of the type that belongs there"),
        }
    }
}

/// Anything that Go can read a value into.
pub(crate) trait Decode {
    /// Takes in a value.
    fn decode(&mut self, value: &Value) -> Result<(), Mismatch>;
}

/// Something with named fields.
pub(crate) trait Struct {
    /// The field of this key, with its name.
    fn field(&mut self, key: &str) -> Option<(&'static str, &mut dyn Decode)>;

    /// Takes in one member of an object; a key that is no name is passed over.
    fn take(&mut self, key: &str, value: &Value) -> Result<(), Mismatch> {
        match self.field(key) {
            Some((name, field)) => field.decode(value).map_err(|it| it.within(name)),
            None => Ok(()),
        }
    }
}

/// The names by which Go knows the fields of a struct.
macro_rules! fields {
    ($of:ty { $($name:literal => $field:ident),+ $(,)? }) => {
        impl $crate::go_json::Struct for $of {
            fn field(&mut self, key: &str) -> Option<(&'static str, &mut dyn $crate::go_json::Decode)> {
                $(if $crate::go_json::is_key(key, $name) {
                    return Some(($name, &mut self.$field));
                })+
                None
            }
        }
    };
}
pub(crate) use fields;

/// Whether this key of an object is that of the field of this name.
pub(crate) fn is_key(key: &str, name: &str) -> bool {
    // Two letters beyond ASCII are s and k in other cases.
    let fold = |letter| match letter {
        '\u{17f}' => 's',
        '\u{212a}' => 'k',
        letter => letter.to_ascii_lowercase(),
    };
    key.chars().map(fold).eq(name.chars().map(fold))
}

impl<S: Struct> Decode for S {
    fn decode(&mut self, value: &Value) -> Result<(), Mismatch> {
        match value {
            Value::Null => Ok(()),
            Value::Object(members) => {
                let mut members = members.iter();
                members.try_for_each(|(key, value)| self.take(key, value))
            }
            _ => Err(Mismatch(String::new())),
        }
    }
}

impl Decode for String {
    fn decode(&mut self, value: &Value) -> Result<(), Mismatch> {
        match value {
            Value::Null => {}
            Value::String(text) => text.clone_into(self),
            _ => return Err(Mismatch(String::new())),
        }
        Ok(())
    }
}

impl Decode for bool {
    fn decode(&mut self, value: &Value) -> Result<(), Mismatch> {
        match value {
            Value::Null => {}
            Value::Bool(is_true) => *self = *is_true,
            _ => return Err(Mismatch(String::new())),
        }
        Ok(())
    }
}

/// Go's `net.IP`, which is strict about what it reads.
impl Decode for Option<IpAddr> {
    fn decode(&mut self, value: &Value) -> Result<(), Mismatch> {
        *self = match value {
            Value::Null => None,
            Value::String(text) if text.is_empty() => None,
            Value::String(text) => Some(text.parse().map_err(|_| Mismatch(String::new()))?),
            _ => return Err(Mismatch(String::new())),
        };
        Ok(())
    }
}

/// Go's slice: a later list is read into the items of an earlier one, also into those that it had left behind.
#[derive(Debug)]
pub(crate) struct Slice<T> {
    items: Vec<T>,
    len: usize,
}

impl<T> std::ops::Deref for Slice<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.items[..self.len]
    }
}

impl<T: Decode + Default> Decode for Slice<T> {
    fn decode(&mut self, value: &Value) -> Result<(), Mismatch> {
        match value {
            Value::Null => *self = Self::default(),
            Value::Array(values) if values.is_empty() => *self = Self::default(),
            Value::Array(values) => {
                let most = self.items.len().max(values.len());
                self.items.resize_with(most, T::default);
                self.len = values.len();
                for (place, (item, value)) in self.items.iter_mut().zip(values).enumerate() {
                    item.decode(value).map_err(|it| it.at(place))?;
                }
            }
            _ => return Err(Mismatch(String::new())),
        }
        Ok(())
    }
}

impl<T> Default for Slice<T> {
    fn default() -> Self {
        Self {
            items: Vec::new(),
            len: 0,
        }
    }
}

/// The members of an object in the order of its text, equal keys included.
pub(crate) struct Members(pub(crate) Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct All;
        impl<'de> Visitor<'de> for All {
            type Value = Members;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(All)
    }
}
