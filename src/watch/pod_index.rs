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
    /// Between the beginning and the end of a list.
    listing: bool,
}

#[derive(Debug)]
struct Live {
    state: PodState,
    trail: Trail,
    generation: u64,
    /// When it was first seen, if that was in a list: who bore its name before, nobody saw.
    listed_at: Option<Moment>,
}

impl PodIndex {
    /// Takes in a state of a pod that exists. Returns the predecessor of the same name, if this
    /// state shows that it ended unseen.
    pub fn apply(&mut self, state: PodState, now: Moment) -> Option<Arc<Ended>> {
        let generation = self.generation;
        let new = |state| Live::new(state, generation, self.listing.then_some(now));
        match self.live.entry(state.podref.clone()) {
            Entry::Occupied(mut entry) if entry.get().state.uid == state.uid => {
                let live = entry.get_mut();
                live.trail.advance(&state);
                live.state = state;
                live.generation = generation;
                None
            }
            Entry::Occupied(mut entry) => {
                let predecessor = entry.insert(new(state));
                Some(Self::end(&mut self.ended, predecessor, now))
            }
            Entry::Vacant(entry) => {
                // A pod that cannot have rows costs nothing until that changes, unless it bears the
                // name of one whose rows it may take over.
                if state.can_have_rows() || self.ended.contains_key(entry.key()) {
                    entry.insert(new(state));
                }
                None
            }
        }
    }

    /// Takes in the last state of a deleted pod. Returns the incarnation unless it could have no
    /// rows or its end is known already.
    pub fn delete(&mut self, last: PodState, now: Moment) -> Option<Arc<Ended>> {
        let known = match self.live.entry(last.podref.clone()) {
            Entry::Occupied(entry) if entry.get().state.uid == last.uid => Some(entry.remove()),
            _ => None,
        };
        // Whoever was seen again after its end ends once more: a list from the past lacked it.
        if known.is_none() && self.is_ended(&last) {
            return None;
        }
        let gone = match known {
            Some(mut live) => {
                live.trail.advance(&last);
                live.state = last;
                live
            }
            None if last.can_have_rows() || self.ended.contains_key(&last.podref) => {
                Live::new(last, self.generation, Some(now))
            }
            None => return None,
        };
        Some(Self::end(&mut self.ended, gone, now))
    }

    /// A list begins, the first one or one after a lost watch. States may have been missed.
    pub fn begin_list(&mut self) {
        self.generation += 1;
        self.listing = true;
        for live in self.live.values_mut() {
            live.trail.gap();
        }
    }

    /// The list is complete: whoever was not in it ended while we did not look. Of all who ended
    /// so far, somebody of the same name may have been born, taken the rows over and been killed
    /// meanwhile, unseen.
    pub fn end_list(&mut self, now: Moment) -> Vec<Arc<Ended>> {
        let generation = self.generation;
        self.listing = false;
        let missing = self
            .live
            .extract_if(|_, live| live.generation != generation)
            .map(|(_, live)| live)
            .collect::<Vec<_>>();
        let missing: Vec<_> = missing
            .into_iter()
            .map(|live| Self::end(&mut self.ended, live, now))
            .map(|end| in_doubt(&end, now))
            .collect();
        for end in self.ended.values_mut().flatten() {
            *end = in_doubt(end, now);
        }
        missing
    }

    /// Whether a pod of this name is alive, as far as the watch tells.
    #[must_use]
    pub fn is_live(&self, podref: &PodRef) -> bool {
        self.live.contains_key(podref)
    }

    /// What is known of a podref's incarnations, in the order of their ends.
    #[must_use]
    pub fn ended(&self, podref: &PodRef) -> Vec<Arc<Ended>> {
        self.ended.get(podref).cloned().unwrap_or_default()
    }

    /// Forgets ends that are old, unless one of the same podref is still `in_work`, by uid, or a
    /// successor lives, whose rows may be theirs.
    pub fn forget(&mut self, now: Moment, in_work: impl Fn(&str) -> bool) {
        let live = &self.live;
        self.ended.retain(|podref, ends| {
            live.contains_key(podref) || ends.iter().any(|end| in_work(&end.last.uid)) || {
                ends.retain(|end| now.since(end.at) < KEEP_EVIDENCE);
                !ends.is_empty()
            }
        });
    }

    /// How many live pods can have rows.
    #[cfg(test)]
    #[must_use]
    pub fn len(&self) -> usize {
        self.live.len()
    }

    /// Whether there is none.
    #[cfg(test)]
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
            doubt_until: live.listed_at.filter(|_| live.state.name_may_return),
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

/// An end after a gap in the watch.
fn in_doubt(end: &Arc<Ended>, now: Moment) -> Arc<Ended> {
    if !end.last.name_may_return {
        return Arc::clone(end);
    }
    Arc::new(Ended {
        last: end.last.clone(),
        at: end.at,
        settled: end.settled,
        doubt_until: Some(now),
    })
}

impl Live {
    fn new(state: PodState, generation: u64, listed_at: Option<Moment>) -> Self {
        let mut trail = Trail::default();
        trail.advance(&state);
        Self {
            state,
            trail,
            generation,
            listed_at,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use testkit::fixtures::{PodBuilder, pod};

    use super::*;
    use crate::watch::LeanPod;

    fn at(seconds: u64) -> Moment {
        Moment::new(Duration::from_secs(seconds))
    }

    fn web(uid: &str) -> PodBuilder {
        pod("d", "web-0").uid(uid).node("n").networks("net")
    }

    fn state(pod: PodBuilder) -> PodState {
        let pod: LeanPod = serde_json::from_value(pod.build()).unwrap();
        pod.into_state().unwrap()
    }

    fn uids(ended: &[Arc<Ended>]) -> Vec<&str> {
        ended.iter().map(|e| &*e.last.uid).collect()
    }

    #[test]
    fn a_graceful_end_is_settled_and_a_forced_one_is_not() {
        for (last, settled) in [
            (web("a").ended("Succeeded"), true),
            (web("a").running(), false),
        ] {
            let mut index = PodIndex::default();
            assert!(index.apply(state(web("a").running()), at(0)).is_none());
            let ended = index.delete(state(last), at(1)).unwrap();
            assert_eq!(ended.settled, settled);
            assert_eq!(ended.at, at(1));
            assert!(index.is_empty());
        }
    }

    #[test]
    fn an_end_is_given_out_once() {
        let mut index = PodIndex::default();
        index.apply(state(web("a").running()), at(0));
        assert!(index.delete(state(web("a").running()), at(1)).is_some());
        assert!(index.delete(state(web("a").running()), at(2)).is_none());
    }

    #[test]
    fn a_pod_that_was_never_seen_alive_ended_all_the_same() {
        let mut index = PodIndex::default();
        let ended = index
            .delete(state(web("a").ended("Succeeded")), at(1))
            .unwrap();
        assert!(!ended.settled, "nobody saw its sandbox up");
    }

    #[test]
    fn pods_without_networks_are_not_kept() {
        let mut index = PodIndex::default();
        index.apply(state(pod("d", "plain").uid("p").node("n").running()), at(0));
        index.apply(state(pod("d", "young").uid("y").networks("net")), at(0));
        assert!(index.is_empty());
        assert!(
            index
                .delete(state(pod("d", "plain").uid("p").node("n").running()), at(1))
                .is_none()
        );
        // Scheduled, it can have rows.
        index.apply(
            state(pod("d", "young").uid("y").networks("net").node("n")),
            at(2),
        );
        assert_eq!(index.len(), 1);
    }

    #[test]
    fn a_successor_shows_that_its_predecessor_ended_unseen() {
        let mut index = PodIndex::default();
        index.apply(state(web("a").running()), at(0));
        let predecessor = index.apply(state(web("b").running()), at(1)).unwrap();
        assert_eq!(&*predecessor.last.uid, "a");
        assert!(!predecessor.settled);
        // Its DELETED event comes late: known already, and no word about the successor.
        assert!(
            index
                .delete(state(web("a").ended("Succeeded")), at(2))
                .is_none()
        );
        assert_eq!(index.len(), 1);
    }

    #[test]
    fn incarnations_are_kept_in_the_order_of_their_ends() {
        let mut index = PodIndex::default();
        for (second, uid) in [(1, "a"), (2, "b"), (3, "c")] {
            index.apply(state(web(uid).running()), at(second));
            index.delete(state(web(uid).running()), at(second));
        }
        assert_eq!(
            uids(&index.ended(&"d/web-0".parse().unwrap())),
            ["a", "b", "c"]
        );
    }

    #[test]
    fn who_is_missing_after_a_relist_ended_in_the_gap() {
        let mut index = PodIndex::default();
        index.begin_list();
        index.apply(state(web("a").running()), at(0));
        index.apply(
            state(
                pod("d", "stays")
                    .uid("s")
                    .node("n")
                    .networks("net")
                    .running(),
            ),
            at(0),
        );
        assert!(index.end_list(at(0)).is_empty());
        // The list begins twice, as it does when a page fails; what only the first one showed does
        // not count.
        index.begin_list();
        index.apply(state(web("a").running()), at(1));
        index.begin_list();
        index.apply(
            state(
                pod("d", "stays")
                    .uid("s")
                    .node("n")
                    .networks("net")
                    .running(),
            ),
            at(2),
        );
        assert_eq!(uids(&index.end_list(at(3))), ["a"]);
        assert_eq!(index.len(), 1);
    }

    #[test]
    fn a_new_uid_after_a_gap_is_a_new_incarnation() {
        let mut index = PodIndex::default();
        index.apply(state(web("a").running()), at(0));
        index.begin_list();
        let predecessor = index.apply(state(web("b").running()), at(1)).unwrap();
        assert_eq!(&*predecessor.last.uid, "a");
        assert!(index.end_list(at(2)).is_empty());
    }

    #[test]
    fn a_gap_takes_away_what_was_known_of_the_sandbox() {
        let mut index = PodIndex::default();
        index.apply(state(web("a").running()), at(0));
        index.begin_list();
        index.apply(state(web("a").ended("Succeeded")), at(1));
        index.end_list(at(1));
        assert!(
            !index
                .delete(state(web("a").ended("Succeeded")), at(2))
                .unwrap()
                .settled
        );
    }

    #[test]
    fn old_evidence_goes_unless_its_pod_is_in_work() {
        let mut index = PodIndex::default();
        index.apply(state(web("a").running()), at(0));
        index.delete(state(web("a").running()), at(0));
        let podref = "d/web-0".parse().unwrap();
        index.forget(at(3_600), |uid| uid == "a");
        assert_eq!(index.ended(&podref).len(), 1);
        index.forget(at(599), |_| false);
        assert_eq!(index.ended(&podref).len(), 1);
        index.forget(at(3_600), |_| false);
        assert!(index.ended(&podref).is_empty());
    }
}
