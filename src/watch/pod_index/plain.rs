//! The index beside one that keeps its pods as they come: both must know the same.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use ipgc_core::pool::RowContent;
use proptest::{collection::vec, prelude::*, sample::select};
use testkit::fixtures::{pod, sandbox};

use super::{
    tests::{at, state},
    *,
};

/// Live pods by their names, none of them packed.
#[derive(Default)]
struct Plain {
    live: BTreeMap<PodRef, Live>,
    generation: u32,
    listing: bool,
}

impl Plain {
    /// The doubt about a pod that is new here is no matter of how it is kept.
    fn apply(&mut self, state: PodState, doubt: Option<Moment>, now: Moment) {
        let watched = !self.listing;
        match self.live.get_mut(&state.podref) {
            Some(live) if live.state.uid == state.uid => {
                live.advance(state, watched, now);
                live.generation = self.generation;
            }
            _ => {
                let podref = state.podref.clone();
                let live = Live::new(state, self.generation, doubt, watched, now);
                self.live.insert(podref, live);
            }
        }
    }

    fn delete(&mut self, last: &PodState) {
        let same = |live: &Live| live.state.uid == last.uid;
        if self.live.get(&last.podref).is_some_and(same) {
            self.live.remove(&last.podref);
        }
    }

    fn glance(&mut self, podref: &str, address: IpAddr, id: &str, now: Moment) -> bool {
        let Some(live) = self.live.get_mut(podref) else {
            return false;
        };
        let terminal = live.state.phase.is_terminal();
        let reported = !terminal && live.state.status.has_address(address);
        if let Some(tag) = IdTag::of(id).filter(|_| reported) {
            live.sandboxes.note(tag, now);
        }
        reported
    }

    fn begin_list(&mut self, heard_until: Moment) {
        self.generation += 1;
        self.listing = true;
        for live in self.live.values_mut() {
            live.trail.gap();
            live.sandboxes.forget_after(heard_until);
        }
    }

    fn end_list(&mut self) {
        self.listing = false;
        let generation = self.generation;
        self.live.retain(|_, live| live.generation == generation);
    }
}

#[derive(Clone, Debug)]
enum Step {
    Apply(PodState),
    Delete(PodState),
    Glance(String, IpAddr, String),
    BeginList(u64),
    EndList,
    Forget,
}

fn any_state() -> impl Strategy<Value = PodState> {
    let names = select(vec!["web-0", "web-1", "db-0"]);
    let uids = select(vec!["a", "00000000-0000-4000-8000-00000000000b"]);
    let statuses = select(vec!["Pending", "Running", "Succeeded", "Failed"]);
    let addresses = select(vec![
        vec![],
        vec!["10.0.0.1"],
        vec!["10.0.0.2", "fd00::1"],
        vec!["fd00::2"],
    ]);
    (names, uids, statuses, addresses, any::<Option<bool>>()).prop_map(
        |(name, uid, phase, addresses, sandbox_ready)| {
            let pod = pod("d", name).uid(uid).node("n").networks("net");
            let pod = pod.reports("d/net", "net1", &addresses);
            let pod = match phase {
                "Pending" => pod,
                "Running" => pod.running(),
                ended => pod.ended(ended),
            };
            PodState {
                sandbox_ready,
                // Is not kept.
                since: None,
                ..state(pod)
            }
        },
    )
}

fn any_step() -> impl Strategy<Value = Step> {
    let names = select(vec!["d/web-0", "d/web-1", "d/db-0", "d/none"]);
    let addresses = select(vec!["10.0.0.1", "10.0.0.2", "fd00::1", "fd00::2"]);
    let glance = (names, addresses, 0..3_u64).prop_map(|(name, address, id)| {
        Step::Glance(name.to_owned(), address.parse().unwrap(), sandbox(id))
    });
    prop_oneof![
        8 => any_state().prop_map(Step::Apply),
        1 => any_state().prop_map(Step::Delete),
        6 => glance,
        1 => (0..20_u64).prop_map(Step::BeginList),
        1 => Just(Step::EndList),
        1 => Just(Step::Forget),
    ]
}

/// The other pods of a row, found by a look at each pod that is known.
fn others_one_by_one(index: &PodIndex, row: &RowContent) -> Vec<(PodRef, Box<str>, bool)> {
    let id = IdTag::of(&row.sandbox).unwrap();
    let living = index.live.iter().map(|(podref, pod)| (podref, &**pod));
    let ended = index.ended.iter();
    let ended = ended.flat_map(|(podref, ends)| ends.iter().map(move |end| (podref, &end.pod)));
    let others = living
        .chain(ended)
        .filter(|(podref, _)| **podref != row.podref);
    let others = others.flat_map(|(podref, pod)| {
        let live = pod.unpack(podref);
        let reports = live.state.status.has_address(row.address);
        let has_id = live.state.container_ids.contains(&id)
            || live.sandboxes.tags().any(|known| known == id);
        let found = [(reports, false), (has_id, true)];
        let found = found.into_iter().filter(|(is_one, _)| *is_one);
        found.map(move |(_, has_id)| (podref.clone(), live.state.uid.clone(), has_id))
    });
    others.collect()
}

fn check_others(index: &PodIndex) -> Result<(), TestCaseError> {
    for (podref, address, id) in [
        ("d/none", "10.0.0.1", 0),
        ("d/web-0", "10.0.0.2", 1),
        ("d/web-1", "fd00::1", 2),
        ("d/db-0", "fd00::2", 0),
    ] {
        let row = RowContent {
            address: address.parse().unwrap(),
            sandbox: sandbox(id).into(),
            podref: podref.parse().unwrap(),
            interface: None,
        };
        let found = index.others(std::iter::once(&row)).of(&row);
        let found = found.into_iter().map(|other| {
            let pod = &other.pod;
            (pod.podref.clone(), pod.uid.clone(), other.has_id)
        });
        let mut found: Vec<_> = found.collect();
        let mut known = others_one_by_one(index, &row);
        found.sort_unstable();
        known.sort_unstable();
        prop_assert_eq!(found, known);
    }
    Ok(())
}

proptest! {
    #[test]
    fn packed_pods_are_known_as_plain_ones(steps in vec(any_step(), 1..40)) {
        let (mut index, mut plain) = (PodIndex::default(), Plain::default());
        for (now, step) in (0..).map(at).zip(steps) {
            match step {
                Step::Apply(state) => {
                    let podref = state.podref.clone();
                    index.apply(state.clone(), now);
                    let packed = index.live.get(podref.as_str()).unwrap();
                    plain.apply(state, packed.listed_at, now);
                }
                Step::Delete(state) => {
                    plain.delete(&state);
                    index.delete(state, now);
                }
                Step::Glance(podref, address, id) => {
                    let row = RowGlance {
                        address: Some(address),
                        sandbox: Some(&id),
                        ..RowGlance::default()
                    };
                    let held = index.glance(&podref, &row, now);
                    prop_assert_eq!(held.is_some(), plain.glance(&podref, address, &id, now));
                }
                Step::BeginList(heard_until) => {
                    index.begin_list(at(heard_until));
                    plain.begin_list(at(heard_until));
                }
                Step::Forget => {
                    index.forget(now, now, Duration::from_secs(5), |_| false);
                    // The doubts of ends that are forgotten go to the pods that live.
                    for (podref, packed) in &index.live {
                        plain.live.get_mut(podref).unwrap().listed_at = packed.listed_at;
                    }
                }
                Step::EndList => {
                    index.end_list(now);
                    plain.end_list();
                }
            }
            let live = index.live.iter();
            let live = live.map(|(podref, packed)| (podref.clone(), packed.unpack(podref)));
            prop_assert_eq!(&live.collect::<BTreeMap<_, _>>(), &plain.live);
            check_others(&index)?;
        }
    }
}
