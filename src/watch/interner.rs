//! Equal values, kept once.

use std::{collections::HashSet, hash::Hash, sync::Arc};

/// So many values are kept before it is looked for those that nobody uses any more.
const FEW: usize = 64;

/// Values that are in use, each of them once.
#[derive(Debug)]
pub struct Interner<T> {
    values: HashSet<Arc<T>>,
    /// At so many values those that nobody uses are dropped: twice as many as were in use when that
    /// was done last, so that it costs little and never more than as much again is kept for nothing.
    limit: usize,
}

impl<T> Default for Interner<T> {
    fn default() -> Self {
        Self {
            values: HashSet::new(),
            limit: FEW,
        }
    }
}

impl<T: Eq + Hash> Interner<T> {
    /// The one that is equal to this value.
    pub fn intern(&mut self, value: T) -> Arc<T> {
        if let Some(known) = self.values.get(&value) {
            return Arc::clone(known);
        }
        if self.values.len() >= self.limit {
            self.purge();
        }
        let value = Arc::new(value);
        self.values.insert(Arc::clone(&value));
        value
    }

    /// Drops the values that nobody uses.
    pub fn purge(&mut self) {
        self.values.retain(|value| Arc::strong_count(value) > 1);
        self.limit = FEW.max(2 * self.values.len());
        self.values.shrink_to(self.limit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_are_one() {
        let mut texts = Interner::default();
        let a = texts.intern("a".to_owned());
        assert!(Arc::ptr_eq(&a, &texts.intern("a".to_owned())));
        assert!(!Arc::ptr_eq(&a, &texts.intern("b".to_owned())));
    }

    #[test]
    fn what_nobody_uses_goes() {
        let mut numbers = Interner::default();
        let used: Vec<_> = (0..100).map(|number| numbers.intern(number)).collect();
        for number in 0..10_000 {
            numbers.intern(number);
            assert!(numbers.values.len() <= 2 * used.len());
        }
        numbers.purge();
        assert_eq!(numbers.values.len(), used.len());
        assert!(Arc::ptr_eq(&used[7], &numbers.intern(7)));
    }
}
