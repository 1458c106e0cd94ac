//! The other pods of a row beside those that a look at each pod finds.

#![allow(clippy::unwrap_used)]

use std::{net::IpAddr, time::Duration};

use proptest::{collection::vec, prelude::*, sample::select};
use testkit::fixtures::{pod, sandbox};

use super::*;
use crate::{
    pods::tests::{ANY_SCOPE, at, row, state},
    pool::Glance,
};

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
    (names, uids, statuses, addresses).prop_map(|(name, uid, phase, addresses)| {
        let pod = pod("d", name).uid(uid).node("n").networks("net");
        let pod = pod.reports("d/net", "net1", &addresses);
        let pod = match phase {
            "Pending" => pod,
            "Running" => pod.running(),
            ended => pod.ended(ended),
        };
        state(pod)
    })
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
    let living = index.live.values();
    let living = living.map(|live| (&live.state, &live.sandboxes));
    let ended = index.ended.values().flatten();
    let ended = ended.map(|end| (&end.last, &end.sandboxes));
    let others = living
        .chain(ended)
        .filter(|(pod, _)| pod.podref != row.podref);
    let others = others.flat_map(|(pod, sandboxes)| {
        let reports = pod.status.has_address(row.address);
        let has_id = pod.container_ids.contains(&id) || sandboxes.tags().any(|known| known == id);
        let found = [(reports, false), (has_id, true)];
        let found = found.into_iter().filter(|(is_one, _)| *is_one);
        found.map(|(_, has_id)| (pod.podref.clone(), pod.uid.clone(), has_id))
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
    fn other_pods_are_those_that_a_look_at_each_pod_finds(steps in vec(any_step(), 1..40)) {
        let mut index = PodIndex::default();
        for (now, step) in (0..).map(at).zip(steps) {
            match step {
                Step::Apply(state) => {
                    index.apply(state, now);
                }
                Step::Delete(state) => {
                    index.delete(state, now);
                }
                Step::Glance(podref, address, id) => {
                    let row = Glance {
                        sandbox: Some(&id),
                        ..row(&podref, Some(address))
                    };
                    index.glance(&row, ANY_SCOPE, true, now);
                }
                Step::BeginList(heard_until) => index.begin_list(at(heard_until)),
                Step::EndList => {
                    index.end_list(now);
                }
                Step::Forget => index.forget(now, now, Duration::from_secs(5), |_| false),
            }
            check_others(&index)?;
        }
    }
}
