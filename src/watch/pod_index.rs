//! The pods that can have rows, and the ends of those that are gone.
//!
//! Plain and synchronous: the informer applies what it sees and gets back the incarnations that
//! ended by it. Everything is keyed by uid, so that a pod which comes back under its old name is
//! another incarnation. The index never asks the API server, and it never decides.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::Arc,
    time::Duration,
};

use ipgc_core::{
    evidence::{Ended, Trail},
    pod::PodState,
    podref::PodRef,
    time::Moment,
};

/// How long the evidence of an incarnation is kept after its end, besides the time that its item
/// is in the queue: two default sweep intervals.
const KEEP_EVIDENCE: Duration = Duration::from_mins(10);

/// Live pods that can have rows, and recent ends.
#[derive(Debug, Default)]
pub struct PodIndex {
    live: HashMap<PodRef, Live>,
    ended: HashMap<PodRef, Vec<Arc<Ended>>>,
    /// Counts relists: after one, an entry that still bears an older number was not seen in it.
    generation: u64,
}

#[derive(Debug)]
struct Live {
    state: PodState,
    trail: Trail,
    generation: u64,
}

impl PodIndex {
    /// Takes in a state of a pod that exists. Returns the predecessor of the same name, if this
    /// state shows that it ended unseen.
    pub fn apply(&mut self, state: PodState, now: Moment) -> Option<Arc<Ended>> {
        let generation = self.generation;
        match self.live.entry(state.podref.clone()) {
            Entry::Occupied(mut entry) if entry.get().state.uid == state.uid => {
                let live = entry.get_mut();
                live.trail.advance(&state);
                live.state = state;
                live.generation = generation;
                None
            }
            Entry::Occupied(mut entry) => {
                let successor = Live::new(state, generation);
                let predecessor = entry.insert(successor);
                Some(Self::end(&mut self.ended, predecessor, now))
            }
            Entry::Vacant(entry) => {
                // A pod that cannot have rows costs nothing until that changes.
                if state.can_have_rows() {
                    entry.insert(Live::new(state, generation));
                }
                None
            }
        }
    }

    /// Takes in the last state of a deleted pod. Returns the incarnation unless it could have no
    /// rows or its end is known already.
    pub fn delete(&mut self, last: PodState, now: Moment) -> Option<Arc<Ended>> {
        if self.is_ended(&last) {
            return None;
        }
        let known = match self.live.entry(last.podref.clone()) {
            Entry::Occupied(entry) if entry.get().state.uid == last.uid => Some(entry.remove()),
            _ => None,
        };
        let gone = match known {
            Some(mut live) => {
                live.trail.advance(&last);
                live.state = last;
                live
            }
            None if last.can_have_rows() => Live::new(last, self.generation),
            None => return None,
        };
        Some(Self::end(&mut self.ended, gone, now))
    }

    /// A list begins, the first one or one after a lost watch. States may have been missed.
    pub fn begin_list(&mut self) {
        self.generation += 1;
        for live in self.live.values_mut() {
            live.trail.gap();
        }
    }

    /// The list is complete: whoever was not in it ended while we did not look.
    pub fn end_list(&mut self, now: Moment) -> Vec<Arc<Ended>> {
        let generation = self.generation;
        let missing = self
            .live
            .extract_if(|_, live| live.generation != generation)
            .map(|(_, live)| live)
            .collect::<Vec<_>>();
        missing
            .into_iter()
            .map(|live| Self::end(&mut self.ended, live, now))
            .collect()
    }

    /// What is known of a podref's incarnations, in the order of their ends.
    #[must_use]
    pub fn ended(&self, podref: &PodRef) -> Vec<Arc<Ended>> {
        self.ended.get(podref).cloned().unwrap_or_default()
    }

    /// Forgets ends that are old, unless one of the same podref is still `in_work`, by uid.
    pub fn forget(&mut self, now: Moment, in_work: impl Fn(&str) -> bool) {
        self.ended.retain(|_, ends| {
            ends.iter().any(|end| in_work(&end.last.uid)) || {
                ends.retain(|end| now.since(end.at) < KEEP_EVIDENCE);
                !ends.is_empty()
            }
        });
    }

    /// How many live pods can have rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.live.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.live.is_empty()
    }

    fn is_ended(&self, state: &PodState) -> bool {
        self.ended
            .get(&state.podref)
            .is_some_and(|ends| ends.iter().any(|end| end.last.uid == state.uid))
    }

    fn end(ended: &mut HashMap<PodRef, Vec<Arc<Ended>>>, live: Live, now: Moment) -> Arc<Ended> {
        let end = Arc::new(Ended {
            settled: live.trail.is_settled(),
            last: live.state,
            at: now,
        });
        ended
            .entry(end.podref().clone())
            .or_default()
            .push(Arc::clone(&end));
        end
    }
}

impl Live {
    fn new(state: PodState, generation: u64) -> Self {
        let mut trail = Trail::default();
        trail.advance(&state);
        Self {
            state,
            trail,
            generation,
        }
    }
}
