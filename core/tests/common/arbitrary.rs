//! Anything that may be known of a row, its pod and the nodes.

use super::prelude::*;

/// Few addresses and interfaces, so that they meet those of the rows.
pub fn any_entries() -> impl Strategy<Value = Vec<(&'static str, Vec<&'static str>)>> {
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

pub fn valid(entries: &[(&str, Vec<&str>)]) -> Status {
    let entries: Vec<_> = entries.iter().map(|(i, a)| (*i, a.as_slice())).collect();
    status(&entries)
}

pub fn any_status() -> impl Strategy<Value = Status> {
    prop_oneof![
        4 => any_entries().prop_map(|entries| valid(&entries)),
        1 => Just(Status::Missing),
        1 => "\\PC{0,30}".prop_map(|text| Status::parse(&text)),
    ]
}

prop_compose! {
    pub fn any_pod()(
        phase in any_phase(),
        status in any_status(),
        request in prop_oneof![Just("a"), Just("a,b"), Just(",")],
        [deleting, host_network, scheduled, runs] in any::<[bool; 4]>(),
        mirror in prop::bool::weighted(0.1),
        grace in any::<Option<u64>>(),
    ) -> PodState {
        PodState {
            phase, deleting, mirror, host_network, status,
            node: scheduled.then(|| "node-1".into()),
            request: Request::parse(request, "default"),
            termination_grace: grace.map(secs),
            containers: containers(&[("main", if runs { RUNNING } else { ENDED })]),
            ..pod(POD)
        }
    }
}

pub fn any_present() -> impl Strategy<Value = Presence> {
    prop::option::weighted(0.9, any_pod()).prop_map(|pod| Presence::Present(pod.map(Arc::new)))
}

pub fn any_presence() -> impl Strategy<Value = Presence> {
    prop_oneof![
        Just(Presence::Absent),
        any_present(),
        "\\PC{0,20}".prop_map(|reason| Presence::Unknown(reason.into())),
    ]
}

prop_compose! {
    pub fn any_end()(
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
                end.sandboxes.note(tag(1), Moment::EPOCH);
            }
        })
    }
}

pub fn any_ends() -> impl Strategy<Value = Vec<Arc<Ended>>> {
    prop::collection::vec(any_end(), 0..4).prop_map(|mut history| {
        history.sort_by_key(|e| e.at);
        history
    })
}

/// The changes of nodes, in any order.
#[derive(Clone, Debug)]
enum Event {
    Apply(u8, bool, bool, bool),
    Remove(u8),
    Retain(u8),
    Hear(u8, Option<u8>),
    Gap,
    Suspect(u8),
}

pub const NODES: [&str; 3] = ["node-1", "node-2", "0"];

/// The last of these names ends that of [`POD`].
pub fn any_nodes(names: &'static [&'static str]) -> impl Strategy<Value = Nodes> {
    let node = 0..u8::try_from(names.len()).unwrap();
    let event = prop_oneof![
        3 => (node.clone(), any::<[bool; 3]>()).prop_map(|(n, [a, b, c])| Event::Apply(n, a, b, c)),
        1 => node.clone().prop_map(Event::Remove),
        1 => (0..8u8).prop_map(Event::Retain),
        6 => (node, prop::option::of(any::<u8>())).prop_map(|(n, v)| Event::Hear(n, v)),
        1 => Just(Event::Gap),
        1 => (0..8u8).prop_map(Event::Suspect),
    ];
    prop::collection::vec((event, 0u64..90), 0..20).prop_map(|events| {
        let mut nodes = Nodes::default();
        let mut now = 0;
        for (event, later) in events {
            now += later;
            let name = |n: u8| names[usize::from(n)];
            let listed = |set: u8| {
                let names = names.iter().enumerate();
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
                    nodes.note_lease(name(n), version.as_deref(), at(now), at(now));
                }
                Event::Gap => nodes.gap(at(now)),
                Event::Suspect(set) => nodes.suspect(listed(set), at(now)),
            }
        }
        nodes
    })
}

pub fn any_sibling() -> impl Strategy<Value = RowContent> {
    let address = prop::sample::select(vec!["10.0.0.5", "10.0.0.6", "fd00::1"]);
    let interface = prop::option::of(prop::sample::select(vec!["net1", "net2", "eth0"]));
    (address, interface, 1u64..3).prop_map(|(address, interface, id)| RowContent {
        address: ip(address),
        interface: interface.map(Into::into),
        sandbox: sandbox(id).into(),
        podref: podref(POD),
    })
}

prop_compose! {
    pub fn any_living()(
        uid in prop::sample::select(vec!["uid-1", "uid-2"]),
        running in prop::option::of(0u64..3000),
        completed in prop::option::of(any_end()),
    ) -> Living {
        Living { uid: uid.into(), running_since: running.map(at), completed, sandboxes: Sandboxes::default() }
    }
}

prop_compose! {
    pub fn any_sighting()(first in 0u64..3000, absent in prop::option::of(0u64..1000)) -> Sighting {
        Sighting { first: at(first), while_absent: absent.map(|after| at(first + after)) }
    }
}

pub fn any_known() -> impl Strategy<Value = Known> {
    any_known_on(&NODES)
}

prop_compose! {
    pub fn any_known_on(names: &'static [&'static str])(
        ended in any_ends(),
        living in prop::option::weighted(0.3, any_living()),
        rows in prop_oneof![4 => 0usize..4, 1 => any::<usize>()],
        interfaces in prop_oneof![4 => 0usize..4, 1 => any::<usize>()],
        sighting in prop::option::weighted(0.8, any_sighting()),
        siblings in prop::option::of(prop::collection::vec(any_sibling(), 0..4)),
        nodes in any_nodes(names),
        slice in prop::option::weighted(0.2, prop::sample::select(NODES.to_vec())),
        grace in prop_oneof![4 => 0u64..100, 1 => any::<u64>()],
        fresh in prop::bool::weighted(0.8),
    ) -> Known {
        Known {
            ended, living, rows, interfaces, sighting, siblings, nodes, fresh,
            others: Vec::new(),
            networks: [None].into(),
            definitions: Definitions::new(),
            slice: slice.map(Into::into),
            longest_grace: secs(grace),
        }
    }
}

pub fn any_json() -> impl Strategy<Value = Value> {
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

pub fn any_field() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("id".to_owned()),
        Just("podref".to_owned()),
        Just("ifname".to_owned()),
        "\\PC{0,10}",
    ]
}

pub fn any_key() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => Just("5".to_owned()),
        1 => any::<i128>().prop_map(|n| n.to_string()),
        1 => any::<u64>().prop_map(|n| n.to_string()),
        1 => "\\PC{0,12}",
    ]
}

pub fn any_range() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("10.0.0.0/24".to_owned()),
        Just("fd00::/64".to_owned()),
        Just("ffff::ffff/0".to_owned()),
        Just("255.255.255.255/32".to_owned()),
        "\\PC{0,20}",
    ]
}

pub fn any_policy() -> impl Strategy<Value = Policy> {
    let waits = any::<[u64; 5]>();
    let holds = any::<[Option<u64>; 3]>();
    (waits, holds, "\\PC{0,8}").prop_map(|(waits, [unfenced, unwitnessed, longest], glob)| {
        let [cooldown, grace, del_budget, add_budget, leftover_grace] = waits.map(secs);
        Policy {
            cooldown,
            grace,
            max_pod_grace: longest.map(secs),
            del_budget,
            add_budget,
            leftover_grace,
            unfenced: unfenced.map_or(Unfenced::Hold, |after| Unfenced::FreeAfter(secs(after))),
            unwitnessed_hold: unwitnessed.map(secs),
            keep_podrefs: vec![Glob::new(&glob)],
        }
    })
}

pub fn any_phase() -> impl Strategy<Value = Phase> {
    prop_oneof![
        Just(Phase::Pending),
        Just(Phase::Running),
        Just(Phase::Succeeded),
        Just(Phase::Failed),
        Just(Phase::Unknown),
    ]
}

prop_compose! {
    /// An end on node-1 that was watched, or of a pod that was never scheduled.
    pub fn any_incarnation()(
        second in 0u64..1000,
        settled: bool,
        reports: bool,
        scheduled in prop::bool::weighted(0.9),
        mirror in prop::bool::weighted(0.1),
        grace in prop::option::of(0u64..5000),
    ) -> Arc<Ended> {
        let mut last = if reports { reporting(POD, "net1", "10.0.0.5") } else { pod(POD) };
        last.node = scheduled.then(|| "node-1".into());
        last.mirror = mirror;
        last.termination_grace = grace.map(secs);
        ended(last, second, settled)
    }
}

pub fn any_history() -> impl Strategy<Value = Vec<Arc<Ended>>> {
    prop::collection::vec(any_incarnation(), 0..5).prop_map(|mut history| {
        history.sort_by_key(|e| e.at);
        history
    })
}
