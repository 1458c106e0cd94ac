//! JSON as Go's `encoding/json` reads it into a struct, since that is how multus, libcni and whereabouts read.
//!
//! Keys match without case. Of equal keys each is taken in, in the order in which they stand: a later text replaces an
//! earlier one, null leaves it, and an object or a list is read into what is there already. The object itself,
//! where it is read into a map, keeps the last of keys that are the same letter by letter; that is what
//! [`Value`] does.

use std::net::IpAddr;

use serde_json::Value;

use super::InvalidConfig;

/// All that a configuration gives for one field.
#[derive(Debug)]
pub(super) struct Given<'v> {
    /// The keys that lead there.
    path: String,
    /// In the order in which they stand.
    values: Vec<&'v Value>,
}

impl<'v> Given<'v> {
    /// The value of a field that stands several times: the last one counts, as far as it says something.
    pub(super) fn new(path: &str, values: impl IntoIterator<Item = &'v Value>) -> Self {
        Self {
            path: path.to_owned(),
            values: values.into_iter().collect(),
        }
    }

    fn mismatch(&self) -> InvalidConfig {
        InvalidConfig::mismatch(&self.path)
    }

    pub(super) fn each(&self) -> impl Iterator<Item = Self> {
        let values = self.values.iter();
        values.map(|value| Self::new(&self.path, [*value]))
    }

    /// The values that are given for the field of this name.
    pub(super) fn member(&self, name: &str) -> Result<Self, InvalidConfig> {
        let mut values = Vec::new();
        for value in &self.values {
            match value {
                Value::Null => {}
                Value::Object(members) => {
                    let members = members.iter().filter(|(key, _)| is_key(key, name));
                    values.extend(members.map(|(_, value)| value));
                }
                _ => return Err(self.mismatch()),
            }
        }
        let path = match self.path.as_str() {
            // A field that is not there has no wrong type.
            _ if values.is_empty() => String::new(),
            "" => name.to_owned(),
            path => format!("{path}.{name}"),
        };
        Ok(Self { path, values })
    }

    pub(super) fn text(&self) -> Result<String, InvalidConfig> {
        self.last_of(String::new(), |value| Some(value.as_str()?.to_owned()))
    }

    pub(super) fn flag(&self, unless_told: bool) -> Result<bool, InvalidConfig> {
        self.last_of(unless_told, Value::as_bool)
    }

    fn last_of<T>(
        &self,
        unless_told: T,
        read: impl Fn(&Value) -> Option<T>,
    ) -> Result<T, InvalidConfig> {
        let values = self.values.iter().filter(|value| !value.is_null());
        let mut all = values.map(|value| read(value).ok_or_else(|| self.mismatch()));
        all.try_fold(unless_told, |_, read| read)
    }

    /// Go's `net.IP`, which is strict about what it reads.
    pub(super) fn address(&self) -> Result<Option<IpAddr>, InvalidConfig> {
        self.values.iter().try_fold(None, |_, value| match value {
            Value::Null => Ok(None),
            Value::String(text) if text.is_empty() => Ok(None),
            Value::String(text) => text.parse().map(Some).map_err(|_| self.mismatch()),
            _ => Err(self.mismatch()),
        })
    }

    /// Go's slice: a later list is read into the items of an earlier one, also into those that it had left behind.
    pub(super) fn items<T>(
        &self,
        read: impl Fn(&Self) -> Result<T, InvalidConfig>,
    ) -> Result<Vec<T>, InvalidConfig> {
        let (mut items, mut len) = (Vec::<Self>::new(), 0);
        for value in &self.values {
            let values = match value {
                Value::Null => &[],
                Value::Array(values) => values.as_slice(),
                _ => return Err(self.mismatch()),
            };
            len = values.len();
            if values.is_empty() {
                // A value that is not used has to be of its type all the same.
                let mut forgotten = items.drain(..);
                forgotten.try_for_each(|item| read(&item).map(drop))?;
            }
            for (place, value) in values.iter().enumerate() {
                if place == items.len() {
                    items.push(Self::new(&format!("{}[{place}]", self.path), []));
                }
                items[place].values.push(value);
            }
        }
        let mut all: Vec<_> = items.iter().map(&read).collect::<Result<_, _>>()?;
        all.truncate(len);
        Ok(all)
    }

    /// The items of the last list, each by itself, whatever they are.
    pub(super) fn last_items(&self) -> impl Iterator<Item = Self> {
        let last = self.values.last().and_then(|value| value.as_array());
        let items = last.into_iter().flatten();
        items.map(|item| Self::new(&self.path, [item]))
    }
}

/// Whether this key of an object is that of the field of this name.
fn is_key(key: &str, name: &str) -> bool {
    // Two letters beyond ASCII are s and k in other cases.
    let fold = |letter| match letter {
        '\u{17f}' => 's',
        '\u{212a}' => 'k',
        letter => letter.to_ascii_lowercase(),
    };
    key.chars().map(fold).eq(name.chars().map(fold))
}
