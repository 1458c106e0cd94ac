//! Owners with rows and without a pod that can have them, by the last sweeps.
//!
//! A pod may have been deleted unseen before a list. A later pod of that name takes over its rows and reservations, while
//! the old sandbox may answer. A sweep that begins W after the list finds all of these. A pod created after that sweep,
//! under a name without any, is the first one to have rows. The numbers of rows and interfaces are kept too: they are the
//! only sizes known of an unseen pod.

use std::{collections::BTreeMap, mem};

use crate::{id::hash_of, pool::RowCount};

/// The names of absent pods with rows, and how many rows each has. A name is a number here: there are many, and one that
/// is taken for another costs a longer wait.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Census {
    /// By the last sweep that counts, and by those since that did not come to their end: the most that any found.
    known: BTreeMap<u64, RowCount>,
    /// By the sweep that is at work.
    next: BTreeMap<u64, RowCount>,
    /// Whether no list has ended since the last sweep that counts.
    is_complete: bool,
}

impl Census {
    /// A sweep begins.
    pub fn begin(&mut self) {
        // It may have ended before it had seen all.
        for (name, rows) in mem::take(&mut self.next) {
            self.known.entry(name).or_default().raise(rows);
        }
    }

    /// It found a row of a pod that is not there, or cannot have it.
    pub fn note(&mut self, podref: &str, interface: Option<&str>) {
        let count = self.next.entry(hash_of(podref)).or_default();
        count.add(interface);
    }

    /// It found a row of a ResourceClaim, or a reservation, with the name of such a pod.
    pub fn note_uncounted(&mut self, podref: &str) {
        self.next.entry(hash_of(podref)).or_default();
    }

    /// It has read every pool, a wait after the list. A name that has rows left is counted as before: what went may
    /// have gone by hand, or by the one DEL of several that was heard.
    pub fn end(&mut self) {
        let mut found = mem::take(&mut self.next);
        for (name, rows) in &mut found {
            rows.raise(self.known.get(name).copied().unwrap_or_default());
        }
        self.known = found;
        self.is_complete = true;
    }

    /// There is another list: whoever bore a name before it is unknown again.
    pub fn doubt(&mut self) {
        self.is_complete = false;
    }

    /// Whether nobody who bore the name before the list can have left rows to a pod that is born
    /// now.
    pub fn is_first(&self, podref: &str) -> bool {
        self.is_complete && !self.known.contains_key(&hash_of(podref))
    }

    /// The rows of a name: the most that any of the last sweeps found.
    pub fn count(&self, podref: &str) -> RowCount {
        let name = hash_of(podref);
        let mut most = self.known.get(&name).copied().unwrap_or_default();
        most.raise(self.next.get(&name).copied().unwrap_or_default());
        most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sweep(census: &mut Census, rows: usize) {
        census.begin();
        (0..rows).for_each(|_| census.note("d/web-0", None));
    }

    #[test]
    fn the_count_of_a_name_does_not_fall_while_it_has_rows() {
        let mut census = Census::default();
        sweep(&mut census, 3);
        assert_eq!(census.count("d/web-0").rows(), 3);
        census.end();
        sweep(&mut census, 2);
        census.end();
        assert_eq!(census.count("d/web-0").rows(), 3);
        sweep(&mut census, 0);
        census.end();
        assert_eq!(census.count("d/web-0").rows(), 0);
        assert!(census.is_first("d/web-0"));
    }

    #[test]
    fn a_sweep_that_was_cut_off_and_a_list_take_nothing_from_it() {
        let mut census = Census::default();
        sweep(&mut census, 3);
        sweep(&mut census, 1);
        assert_eq!(census.count("d/web-0").rows(), 3);
        census.end();
        census.doubt();
        assert!(!census.is_first("d/web-1"));
        sweep(&mut census, 1);
        census.end();
        assert_eq!(census.count("d/web-0").rows(), 3);
        assert!(census.is_first("d/web-1") && !census.is_first("d/web-0"));
    }
}
