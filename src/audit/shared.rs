//! Texts of a report that many findings have alike: a hundred thousand rows may be stale for one reason.

use std::{
    borrow::Cow,
    collections::HashSet,
    fmt,
    hash::Hash,
    ops::Deref,
    sync::{Arc, Mutex},
};

use foldhash::quality::RandomState;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::report::Finding;
use crate::lock::lock;

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

/// A list of texts that others may have too: of each row that a silent rack holds. In JSON it is a list.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Names(Arc<[Shared]>);

impl Deref for Names {
    type Target = [Shared];

    fn deref(&self) -> &[Shared] {
        &self.0
    }
}

impl<T: Into<Shared>> FromIterator<T> for Names {
    fn from_iter<I: IntoIterator<Item = T>>(names: I) -> Self {
        Self(names.into_iter().map(Into::into).collect())
    }
}

impl Names {
    /// None of them.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// So many of them at the most.
    pub fn truncate(&mut self, most: usize) {
        if self.len() > most {
            *self = self[..most].iter().cloned().collect();
        }
    }
}

impl fmt::Debug for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl Serialize for Names {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'de> Deserialize<'de> for Names {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Vec::<Shared>::deserialize(deserializer)?
            .into_iter()
            .collect())
    }
}

impl JsonSchema for Names {
    fn inline_schema() -> bool {
        Vec::<String>::inline_schema()
    }

    fn schema_name() -> Cow<'static, str> {
        Vec::<String>::schema_name()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        Vec::<String>::json_schema(generator)
    }
}

type Set<T> = HashSet<T, RandomState>;

/// The texts that some finding has.
#[derive(Debug, Default)]
pub struct Texts(Mutex<All>);

impl Texts {
    /// Those that the findings of one pool have: whoever judges it has no need to wait for them.
    pub fn local(&self) -> Local<'_> {
        Local {
            all: self,
            texts: Set::default(),
            lists: Set::default(),
        }
    }
}

/// The texts that the findings of one pool have.
pub struct Local<'t> {
    all: &'t Texts,
    texts: Set<Shared>,
    lists: Set<Names>,
}

impl Local<'_> {
    /// The texts of this finding take no room of their own where another one has them.
    pub fn share(&mut self, finding: &mut Finding) {
        // Named one by one: whoever adds a field says which it is.
        let Finding {
            problem: _,
            detail,
            row,
            namespace,
            pool,
            definition,
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
        let some = [
            namespace, pool, definition, interface, grade, cause, command,
        ];
        let uid = row.iter_mut().map(|row| &mut row.pool_uid);
        let all = some.into_iter().flatten().chain(uid);
        for text in [detail].into_iter().chain(all) {
            share(text, &mut self.texts, |all| &mut all.0, &self.all.0);
        }
        share(nodes, &mut self.lists, |all| &mut all.1, &self.all.0);
    }
}

type All = (Set<Shared>, Set<Names>);

/// Puts the one that is known in the place of an equal one.
fn share<T: Clone + Eq + Hash>(
    one: &mut T,
    met: &mut Set<T>,
    of: impl Fn(&mut All) -> &mut Set<T>,
    all: &Mutex<All>,
) {
    if let Some(known) = met.get(one) {
        *one = known.clone();
        return;
    }
    let mut all = lock(all);
    let all = of(&mut all);
    match all.get(one) {
        Some(known) => *one = known.clone(),
        None => drop(all.insert(one.clone())),
    }
    met.insert(one.clone());
}
