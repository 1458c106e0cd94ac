//! Whose rows were there without a pod that could have them, when all rows were looked at last.
//!
//! Before the first list anybody may have borne a name and been killed, unseen; a pod that is born
//! later takes over the rows of that one, whose sandbox may still answer. A sweep that began so long
//! after the list that no ADD from before it can be at work has found all such rows: whoever is born
//! after it, and of whose name it found none, is the first to have any.

use std::{
    collections::HashSet,
    hash::{DefaultHasher, Hash, Hasher},
};

/// Names of absent pods with rows: by the last sweep that counts, and by the one that is at work.
#[derive(Debug, Default)]
pub struct Census {
    last: Option<HashSet<u64>>,
    next: HashSet<u64>,
}

/// A name as a number: there are many, and one that is taken for another costs a longer wait.
pub fn hash_of(podref: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    podref.hash(&mut hasher);
    hasher.finish()
}

impl Census {
    /// A sweep begins.
    pub fn begin(&mut self) {
        self.next.clear();
    }

    /// It found a row of a pod that is not there, or cannot have it.
    pub fn note(&mut self, podref: &str) {
        self.next.insert(hash_of(podref));
    }

    /// It has read every pool, a wait after the list.
    pub fn end(&mut self) {
        self.last = Some(std::mem::take(&mut self.next));
    }

    /// Whether nobody who bore the name before the list can have left rows to a pod that is born
    /// now.
    #[must_use]
    pub fn is_first(&self, podref: &str) -> bool {
        let names = self.last.as_ref();
        names.is_some_and(|names| !names.contains(&hash_of(podref)))
    }
}
