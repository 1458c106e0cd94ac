//! The pods that live, packed, by name.
//!
//! A hash table as std's, in less memory and with fewer waits for it: a sweep looks each row of the
//! cluster up here. A place in it is one pointer to name and pod together, and names are compared by
//! words, where musl's `memcmp` compares bytes. It holds what it is given and knows nothing of what
//! a pod's life means.

use std::{hash::BuildHasher, hint::black_box};

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use ipgc_core::podref::PodRef;
use memchr::arch::all::is_equal;

use super::packed::Packed;

/// Pods by name.
#[derive(Debug, Default)]
pub struct LivePods {
    table: HashTable<Box<Entry>>,
    hashes: RandomState,
}

#[derive(Debug)]
struct Entry {
    podref: PodRef,
    packed: Packed,
}

impl Entry {
    /// Reads a little of each part of it.
    fn touch(&self) -> u8 {
        u8::from(self.podref.as_str().is_empty()) ^ self.packed.touch()
    }

    /// Reads both ends of what lies elsewhere in memory: half of all names lie in two lines of a cache.
    fn touch_rest(&self) -> u8 {
        let name = self.podref.as_str().as_bytes();
        let ends = name.first().zip(name.last());
        ends.map_or(0, |(first, last)| first ^ last) ^ self.packed.touch_rest()
    }

    fn is_of(&self, podref: &str) -> bool {
        is_equal(self.podref.as_str().as_bytes(), podref.as_bytes())
    }
}

impl LivePods {
    /// The pod of a name, and the name as it is kept.
    pub fn get(&self, podref: &str) -> Option<(&PodRef, &Packed)> {
        let hash = self.hashes.hash_one(podref);
        let entry = self.table.find(hash, |entry| entry.is_of(podref))?;
        Some((&entry.podref, &entry.packed))
    }

    /// Reads a little of each of these pods, so that all of it comes from memory together: a round is
    /// short and needs nothing of the one before it, so that the processor goes on where it would wait.
    pub fn fetch<'a>(&self, podrefs: impl Iterator<Item = &'a str>) {
        let hashes = podrefs.map(|podref| self.hashes.hash_one(podref));
        let hashes: Vec<_> = hashes.collect();
        // Mostly the first in the place of a hash is the one.
        let entries = hashes.iter();
        let entries = entries.filter_map(|hash| Some(&**self.table.find(*hash, |_| true)?));
        let entries: Vec<&Entry> = entries.collect();
        let sum = entries.iter().fold(0, |sum, entry| sum ^ entry.touch());
        let rest = entries
            .iter()
            .fold(sum, |sum, entry| sum ^ entry.touch_rest());
        black_box(rest);
    }

    /// The pod of a name, to be changed.
    pub fn get_mut(&mut self, podref: &str) -> Option<&mut Packed> {
        let hash = self.hashes.hash_one(podref);
        let entry = self.table.find_mut(hash, |entry| entry.is_of(podref))?;
        Some(&mut entry.packed)
    }

    /// Puts a pod in the place of whichever has its name.
    pub fn insert(&mut self, podref: PodRef, packed: Packed) {
        if let Some(known) = self.get_mut(podref.as_str()) {
            *known = packed;
            return;
        }
        let hashes = &self.hashes;
        let hash = hashes.hash_one(podref.as_str());
        let entry = Box::new(Entry { podref, packed });
        self.table
            .insert_unique(hash, entry, |entry| hashes.hash_one(entry.podref.as_str()));
    }

    /// Removes the pod of a name.
    pub fn remove(&mut self, podref: &str) {
        let hash = self.hashes.hash_one(podref);
        let entry = self.table.find_entry(hash, |entry| entry.is_of(podref));
        if let Ok(entry) = entry {
            entry.remove();
        }
    }

    /// Removes all pods for which this holds.
    pub fn extract_if(&mut self, mut goes: impl FnMut(&Packed) -> bool) -> Vec<(PodRef, Packed)> {
        let gone = self.table.extract_if(|entry| goes(&entry.packed));
        gone.map(|entry| (entry.podref, entry.packed)).collect()
    }

    /// All pods, to be changed.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut Packed> {
        self.table.iter_mut().map(|entry| &mut entry.packed)
    }

    /// All pods.
    pub fn values(&self) -> impl Iterator<Item = &Packed> + Clone {
        self.table.iter().map(|entry| &entry.packed)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// All pods, with their names.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&PodRef, &Packed)> {
        let entries = self.table.iter();
        entries.map(|entry| (&entry.podref, &entry.packed))
    }
}
