//! Texts of a report that many findings have alike: a hundred thousand rows may be stale for one reason.

use std::{borrow::Cow, collections::HashSet, fmt, ops::Deref, sync::Arc};

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::report::Finding;

/// A text that others may have too. In JSON it is a text.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shared(Arc<str>);

impl Deref for Shared {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for Shared {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl<T: Into<Arc<str>>> From<T> for Shared {
    fn from(text: T) -> Self {
        Self(text.into())
    }
}

impl PartialEq<&str> for Shared {
    fn eq(&self, other: &&str) -> bool {
        **self == **other
    }
}

impl fmt::Display for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl Serialize for Shared {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self)
    }
}

impl<'de> Deserialize<'de> for Shared {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Into::into)
    }
}

impl JsonSchema for Shared {
    fn inline_schema() -> bool {
        String::inline_schema()
    }

    fn schema_name() -> Cow<'static, str> {
        String::schema_name()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        String::json_schema(generator)
    }
}

/// The texts that some finding has.
#[derive(Debug, Default)]
pub struct Texts(HashSet<Shared>);

impl Texts {
    /// The texts of this finding take no room of their own where another one has them.
    pub fn share(&mut self, finding: &mut Finding) {
        // Named one by one: whoever adds a field says which it is.
        let Finding {
            problem: _,
            detail,
            row,
            namespace,
            pool,
            address: _,
            interface,
            pods: _,
            nodes,
            grade,
            cause,
            wait_seconds: _,
            reservation: _,
            command,
        } = finding;
        let some = [namespace, pool, interface, grade, cause, command];
        let uid = row.iter_mut().map(|row| &mut row.pool_uid);
        let all = some.into_iter().flatten().chain(uid).chain(nodes);
        for text in [detail].into_iter().chain(all) {
            if let Some(known) = self.0.get(text) {
                *text = known.clone();
            } else {
                self.0.insert(text.clone());
            }
        }
    }
}
