//! JSON as Go's `encoding/json` reads it into a struct, since that is how multus, libcni and whereabouts read.
//!
//! Keys match without case, and null stands for nothing. Of keys that differ in case alone Go takes in each, in the order
//! that the programs before it choose. Nobody writes that on purpose, so such an object counts as one that cannot be read.
//! Of keys within a section that are the same letter by letter libcni keeps the last, as [`Value`] does.

use std::net::IpAddr;

use serde_json::Value;

use super::InvalidConfig;

/// The value that a configuration gives for one field.
#[derive(Debug)]
pub(super) struct Given<'v> {
    /// The keys that lead there.
    path: String,
    /// None where the field is not there, or null.
    value: Option<&'v Value>,
}

impl<'v> Given<'v> {
    /// The configuration itself has no path.
    pub(super) fn new(path: &str, value: Option<&'v Value>) -> Self {
        Self {
            path: path.to_owned(),
            value: value.filter(|value| !value.is_null()),
        }
    }

    fn mismatch(&self) -> InvalidConfig {
        InvalidConfig::mismatch(&self.path)
    }

    /// The value of the field of this name.
    pub(super) fn member(&self, name: &str) -> Result<Self, InvalidConfig> {
        let path = match self.path.as_str() {
            "" => name.to_owned(),
            path => format!("{path}.{name}"),
        };
        let Some(value) = self.value else {
            return Ok(Self::new(&path, None));
        };
        let members = value.as_object().ok_or_else(|| self.mismatch())?;
        let mut named = members.iter().filter(|(key, _)| is_key(key, name));
        let value = named.next().map(|(_, value)| value);
        if named.next().is_some() {
            return Err(InvalidConfig::EqualKeys(path));
        }
        Ok(Self::new(&path, value))
    }

    fn read<T>(&self, read: impl Fn(&'v Value) -> Option<T>) -> Result<Option<T>, InvalidConfig> {
        let read = |value| read(value).ok_or_else(|| self.mismatch());
        self.value.map(read).transpose()
    }

    pub(super) fn text(&self) -> Result<String, InvalidConfig> {
        let text = self.read(Value::as_str)?;
        Ok(text.unwrap_or_default().to_owned())
    }

    pub(super) fn flag(&self, unless_told: bool) -> Result<bool, InvalidConfig> {
        Ok(self.read(Value::as_bool)?.unwrap_or(unless_told))
    }

    /// Go's `net.IP`, which is strict about what it reads.
    pub(super) fn address(&self) -> Result<Option<IpAddr>, InvalidConfig> {
        match self.text()?.as_str() {
            "" => Ok(None),
            text => text.parse().map(Some).map_err(|_| self.mismatch()),
        }
    }

    pub(super) fn items(&self) -> Result<Vec<Self>, InvalidConfig> {
        let items = self.read(Value::as_array)?.into_iter().flatten();
        let items = items.enumerate();
        let items = items.map(|(at, item)| Self::new(&format!("{}[{at}]", self.path), Some(item)));
        Ok(items.collect())
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
