//! What no input may ever bring about in a verdict.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use std::{collections::HashMap, sync::Arc, time::Duration};

use common::{
    Known, POD, all_absent, any_phase, at, but, ended, node_state, observe, pod, podref,
    pool_document, pool_with, row_value, sandbox, secs, status,
};
use ipgc_core::{
    clearance::{Living, Wait},
    evidence::{Ended, Policy, SandboxTag, Unfenced},
    judge::{Cause, Held, Stale, Unknown, Verdict, judge},
    networks::{Request, Status},
    node::{NodeState, Nodes},
    pod::PodState,
    podref::Glob,
    pool::{ObservedPool, RowContent, Unreadable},
    proof::Presence,
    sighting::Sighting,
    time::Moment,
};
use proptest::prelude::*;
use serde_json::{Value, json};

/// The verdict on the only row of the pool.
fn verdict(pool: &ObservedPool, presence: &Presence, known: &Known, now: u64) -> Verdict {
    let policy = Policy::default();
    judge(
        pool,
        &pool.rows()[0],
        presence,
        &known.facts(),
        &policy,
        at(now),
    )
}

fn present(state: PodState) -> Presence {
    Presence::Present(Some(Box::new(state)))
}

/// Few addresses and interfaces, so that they meet those of the rows.
fn any_entries() -> impl Strategy<Value = Vec<(&'static str, Vec<&'static str>)>> {
    let address = prop::sample::select(vec![
        "10.0.0.5",
        "10.0.0.6",
        "::ffff:10.0.0.5",
        "fd00::1",
        "10.0.0.5/24",
    ]);
    let interface = prop::sample::select(vec!["net1", "net2", "eth0", ""]);
    prop::collection::vec((interface, prop::collection::vec(address, 0..3)), 0..4)
}

fn valid(entries: &[(&str, Vec<&str>)]) -> Status {
    let entries: Vec<_> = entries.iter().map(|(i, a)| (*i, a.as_slice())).collect();
    status(&entries)
}

fn any_status() -> impl Strategy<Value = Status> {
    prop_oneof![
        4 => any_entries().prop_map(|entries| valid(&entries)),
        1 => Just(Status::Missing),
        1 => "\\PC{0,30}".prop_map(|text| Status::parse(&text)),
    ]
}

prop_compose! {
    fn any_pod()(
        phase in any_phase(),
        status in any_status(),
        request in prop_oneof![Just("a"), Just("a,b"), Just(",")],
        [deleting, mirror, host_network, scheduled] in any::<[bool; 4]>(),
        grace in any::<Option<u64>>(),
    ) -> PodState {
        PodState {
            phase, deleting, mirror, host_network, status,
            node: scheduled.then(|| "node-1".into()),
            request: Request::parse(request, "default"),
            termination_grace: grace.map(secs),
            ..pod(POD)
        }
    }
}

fn any_present() -> impl Strategy<Value = Presence> {
    prop::option::weighted(0.9, any_pod()).prop_map(|pod| Presence::Present(pod.map(Box::new)))
}

fn any_presence() -> impl Strategy<Value = Presence> {
    prop_oneof![
        Just(Presence::Absent),
        any_present(),
        "\\PC{0,20}".prop_map(|reason| Presence::Unknown(reason.into())),
    ]
}

prop_compose! {
    fn any_end()(
        last in any_pod(),
        second in 0u64..2000,
        [watched, settled, stopped] in any::<[bool; 3]>(),
        [listed, gap] in any::<[Option<bool>; 2]>(),
        bore: bool,
    ) -> Arc<Ended> {
        but(&ended(last, second, settled), |end| {
            end.watched = watched;
            end.stopped = stopped;
            end.listed_at = listed.map(|early| at(if early { 0 } else { second }));
            end.gap_at = gap.map(|early| at(if early { second } else { 2000 }));
            if bore {
                end.sandboxes.note(SandboxTag::of(&sandbox(1)).unwrap(), Moment::EPOCH);
            }
        })
    }
}

fn any_history() -> impl Strategy<Value = Vec<Arc<Ended>>> {
    prop::collection::vec(any_end(), 0..4).prop_map(|mut history| {
        history.sort_by_key(|e| e.at);
        history
    })
}

/// What happened to nodes, in any order of it.
#[derive(Clone, Debug)]
enum Event {
    Apply(u8, bool, bool, bool),
    Remove(u8),
    Retain(u8),
    Hear(u8, Option<u8>),
    Gap,
    Suspect(u8),
}

const NODES: [&str; 3] = ["node-1", "node-2", "0"];

fn any_nodes() -> impl Strategy<Value = Nodes> {
    let node = 0..3u8;
    let event = prop_oneof![
        3 => (node.clone(), any::<[bool; 3]>()).prop_map(|(n, [a, b, c])| Event::Apply(n, a, b, c)),
        1 => node.clone().prop_map(Event::Remove),
        1 => (0..8u8).prop_map(Event::Retain),
        6 => (node, prop::option::of(any::<u8>())).prop_map(|(n, v)| Event::Hear(n, v)),
        1 => Just(Event::Gap),
        1 => (0..8u8).prop_map(Event::Suspect),
    ];
    prop::collection::vec((event, 0u64..90), 0..30).prop_map(|events| {
        let mut nodes = Nodes::default();
        let mut now = 0;
        for (event, later) in events {
            now += later;
            let name = |n: u8| NODES[usize::from(n)];
            let listed = |set: u8| {
                let names = NODES.iter().enumerate();
                names
                    .filter(move |(i, _)| set & (1 << i) != 0)
                    .map(|(_, name)| *name)
            };
            match event {
                Event::Apply(n, ready, out_of_service, declared_empty) => {
                    let state = NodeState {
                        ready,
                        out_of_service,
                        declared_empty,
                        ..node_state()
                    };
                    nodes.apply(name(n), state, at(now));
                }
                Event::Remove(n) => nodes.remove(name(n), at(now)),
                Event::Retain(set) => nodes.retain(|name| listed(set).any(|n| n == name), at(now)),
                Event::Hear(n, version) => {
                    let version = version.map(|version| version.to_string());
                    nodes.hear(name(n), version.as_deref(), at(now));
                }
                Event::Gap => nodes.gap(at(now)),
                Event::Suspect(set) => nodes.suspect(listed(set), at(now)),
            }
        }
        nodes
    })
}

fn any_sibling() -> impl Strategy<Value = RowContent> {
    let address = prop::sample::select(vec!["10.0.0.5", "10.0.0.6", "fd00::1"]);
    let interface = prop::option::of(prop::sample::select(vec!["net1", "net2", "eth0"]));
    (address, interface, 1u64..3).prop_map(|(address, interface, id)| RowContent {
        address: common::ip(address),
        interface: interface.map(Into::into),
        sandbox: sandbox(id).into(),
        podref: podref(POD),
    })
}

prop_compose! {
    fn any_living()(
        running in prop::option::of(0u64..3000),
        completed in prop::option::of(any_end()),
    ) -> Living {
        Living { running_since: running.map(at), completed }
    }
}

prop_compose! {
    fn any_sighting()(first in 0u64..3000, absent in prop::option::of(0u64..1000)) -> Sighting {
        Sighting { first: at(first), while_absent: absent.map(|after| at(first + after)) }
    }
}

prop_compose! {
    fn any_known()(
        ended in any_history(),
        living in prop::option::weighted(0.3, any_living()),
        rows in prop_oneof![4 => 0usize..4, 1 => any::<usize>()],
        sighting in prop::option::weighted(0.8, any_sighting()),
        siblings in prop::option::of(prop::collection::vec(any_sibling(), 0..4)),
        nodes in any_nodes(),
        slice in prop::option::weighted(0.2, prop::sample::select(NODES.to_vec())),
        grace in prop_oneof![4 => 0u64..100, 1 => any::<u64>()],
        fresh in prop::bool::weighted(0.8),
    ) -> Known {
        Known {
            ended, living, rows, sighting, siblings, nodes, fresh,
            slice: slice.map(Into::into),
            longest_grace: secs(grace),
        }
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        "\\PC{0,80}".prop_map(Value::from),
        Just(Value::from(POD)),
        Just(Value::from(sandbox(1))),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::hash_map(any_field(), inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn any_field() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("id".to_owned()),
        Just("podref".to_owned()),
        Just("ifname".to_owned()),
        "\\PC{0,10}",
    ]
}

fn any_key() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => Just("5".to_owned()),
        1 => any::<i128>().prop_map(|n| n.to_string()),
        1 => any::<u64>().prop_map(|n| n.to_string()),
        1 => "\\PC{0,12}",
    ]
}

fn any_range() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("10.0.0.0/24".to_owned()),
        Just("fd00::/64".to_owned()),
        Just("ffff::ffff/0".to_owned()),
        Just("255.255.255.255/32".to_owned()),
        "\\PC{0,20}",
    ]
}

fn any_policy() -> impl Strategy<Value = Policy> {
    let waits = any::<[u64; 5]>();
    let holds = any::<[Option<u64>; 2]>();
    (waits, holds, "\\PC{0,8}").prop_map(|(waits, [unfenced, unwitnessed], glob)| {
        let [cooldown, grace, max_pod_grace, del_budget, leftover_grace] = waits.map(secs);
        Policy {
            cooldown,
            grace,
            max_pod_grace,
            del_budget,
            leftover_grace,
            unfenced: unfenced.map_or(Unfenced::Hold, |after| Unfenced::FreeAfter(secs(after))),
            unwitnessed_hold: unwitnessed.map(secs),
            keep_podrefs: vec![Glob::new(&glob)],
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn every_row_of_every_pool_gets_a_verdict(
        range in any_range(),
        (key, value) in (any_key(), any_json()),
        annotation in "\\PC{0,20}",
        presence in any_presence(),
        known in any_known(),
        policy in any_policy(),
        now: u64,
    ) {
        let mut document = pool_document(&range, &[(&key, value)]);
        document["metadata"]["annotations"] = json!({"ipgc.dev/keep": annotation});
        let pool = observe(&document);
        prop_assert_eq!(pool.rows().len(), 1);
        let row = &pool.rows()[0];
        let verdict = judge(&pool, row, &presence, &known.facts(), &policy, at(now));
        let readable = row.content().map(|content| content.podref.clone());
        let learned = readable.map(|podref| (podref, presence));
        let proof = pool.begin_proof().conclude(learned.into_iter().collect());
        match proof.release(row, &known.facts(), &policy, at(now)) {
            Ok(release) => prop_assert_eq!(verdict, Verdict::Stale(release.stale().clone())),
            Err(other) if row.content().is_ok() => prop_assert_eq!(verdict, other),
            Err(other) => prop_assert!(matches!(other, Verdict::Unknown(_))),
        }
    }

    #[test]
    fn readable_rows_get_every_verdict_without_a_panic(
        presence in any_presence(),
        known in any_known(),
        policy in any_policy(),
        now in 0u64..6000,
    ) {
        let pool = pool_with("5");
        let policy = Policy { keep_podrefs: Vec::new(), ..policy };
        let row = &pool.rows()[0];
        let verdict = judge(&pool, row, &presence, &known.facts(), &policy, at(now));
        let fits = match (&presence, &verdict) {
            (Presence::Unknown(_), verdict) => matches!(verdict, Verdict::Unknown(_)),
            (Presence::Absent, Verdict::Stale(stale)) => stale.cause == Cause::Deleted,
            (Presence::Present(None), verdict) => *verdict == Verdict::Held(Held::Present),
            (Presence::Present(_), Verdict::Stale(stale)) => stale.cause != Cause::Deleted,
            (Presence::Present(_), Verdict::Held(_)) => true,
            _ => false,
        };
        prop_assert!(fits, "{:?}", verdict);
    }

    /// Without a sighting, a sibling and an end of its own there is nothing against it.
    #[test]
    fn a_present_pod_of_which_nothing_else_is_known_is_never_stale(
        presence in any_present(),
        known in any_known(),
        policy in any_policy(),
    ) {
        let known = Known { living: None, sighting: None, siblings: None, ..known };
        let pool = pool_with("5");
        let policy = Policy { keep_podrefs: Vec::new(), ..policy };
        let row = &pool.rows()[0];
        let verdict = judge(&pool, row, &presence, &known.facts(), &policy, at(0));
        prop_assert!(matches!(verdict, Verdict::Held(_)), "{:?}", verdict);
        let learned = HashMap::from([(podref(POD), presence)]);
        let proof = pool.begin_proof().conclude(learned);
        let never = Moment::new(Duration::MAX);
        prop_assert!(proof.release(row, &known.facts(), &policy, never).is_err());
    }

    #[test]
    fn unknown_presence_never_frees(known in any_known(), reason in "\\PC{0,20}", now: u64) {
        let presence = Presence::Unknown(reason.into());
        let verdict = verdict(&pool_with("5"), &presence, &known, now);
        prop_assert!(matches!(verdict, Verdict::Unknown(_)), "{:?}", verdict);
    }

    #[test]
    fn more_entries_in_a_status_never_turn_reported_into_less(
        state in any_pod(),
        entries in any_entries(),
        more in any_entries(),
        known in any_known(),
        now in 0u64..6000,
    ) {
        let less = PodState { status: valid(&entries), ..state };
        let both: Vec<_> = entries.into_iter().chain(more).collect();
        let more = PodState { status: valid(&both), ..less.clone() };
        let pool = pool_with("5");
        let before = verdict(&pool, &present(less), &known, now);
        let after = verdict(&pool, &present(more), &known, now);
        if before == Verdict::Held(Held::Reported) {
            prop_assert_eq!(after, before);
        }
    }

    #[test]
    fn a_status_that_cannot_be_read_is_no_evidence_against_a_pod(
        text in "\\PC{0,60}",
        state in any_pod(),
        known in any_known(),
        now: u64,
    ) {
        let state = PodState { status: Status::parse(&text), ..state };
        let verdict = verdict(&pool_with("5"), &present(state), &known, now);
        let leftover = matches!(verdict, Verdict::Stale(ref stale) if stale.cause == Cause::Leftover);
        prop_assert!(!leftover, "{:?}", verdict);
    }

    #[test]
    fn a_row_with_an_extra_field_is_always_unknown(
        field in "\\PC{0,12}".prop_filter("known", |f| !["id", "podref", "ifname"].contains(&f.as_str())),
        extra in any_json(),
        presence in any_presence(),
        known in any_known(),
        now: u64,
    ) {
        let mut value = row_value(POD, &sandbox(1), "net1");
        value[&field] = extra;
        let pool = observe(&pool_document("10.0.0.0/24", &[("5", value)]));
        let verdict = verdict(&pool, &presence, &known, now);
        let unreadable = matches!(
            verdict,
            Verdict::Unknown(Unknown::Unreadable(Unreadable::ExtraField(_)))
        );
        prop_assert!(unreadable, "{:?}", verdict);
    }

    #[test]
    fn nothing_is_released_before_its_moment(known in any_known(), now in 0u64..10_000) {
        let pool = pool_with("5");
        let policy = Policy::default();
        let proof = all_absent(&pool);
        let row = &pool.rows()[0];
        let verdict = judge(&pool, row, &Presence::Absent, &known.facts(), &policy, at(now));
        let Verdict::Stale(Stale { clearance, .. }) = verdict else {
            panic!("{verdict:?}");
        };
        let due = matches!(clearance.wait, Wait::Until(moment) if moment <= at(now));
        let released = proof.release(row, &known.facts(), &policy, at(now));
        prop_assert_eq!(released.is_ok(), due);
    }

    #[test]
    fn what_is_exempt_or_kept_is_never_freed(
        presence in any_presence(),
        known in any_known(),
        hold: bool,
        value in "\\PC{0,12}",
    ) {
        let annotation = if hold { "ipgc.dev/hold" } else { "ipgc.dev/keep" };
        let value = if hold { value } else { format!("{value} 5 {value}") };
        let mut document = pool_document("10.0.0.0/24", &[("5", row_value(POD, &sandbox(1), "net1"))]);
        document["metadata"]["annotations"] = json!({annotation: value});
        let exempt = verdict(&observe(&document), &presence, &known, 0);
        prop_assert_eq!(exempt, Verdict::Unknown(Unknown::Exempt));
        let pool = pool_with("5");
        let policy = Policy { keep_podrefs: vec![Glob::new("default/*")], ..Policy::default() };
        let kept = judge(&pool, &pool.rows()[0], &presence, &known.facts(), &policy, at(0));
        prop_assert_eq!(kept, Verdict::Unknown(Unknown::KeptOwner));
    }
}
