//! What is packed comes out again, and what is asked of it packed is answered alike.

#![allow(clippy::unwrap_used)]
use ipgc_core::{id::IdTag, networks::StatusEntry, pod::ContainerState};
use proptest::{collection::vec, option::of, prelude::*};

use super::*;
use crate::watch::end::End;

fn any_uid() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}",
        1 => "[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}",
        1 => "\\PC{0,40}",
        1 => Just("00000000-0000-0000-0000-000000000000".to_owned()),
    ]
}

fn any_text() -> impl Strategy<Value = Box<str>> {
    prop_oneof!["(a|b|net1|eth0)?", "\\PC{0,20}"].prop_map(Into::into)
}

fn any_moment() -> impl Strategy<Value = Moment> {
    any::<Duration>().prop_map(Moment::new)
}

fn any_status() -> impl Strategy<Value = Status> {
    let entry = (any_text(), any_text(), vec(any::<IpAddr>(), 0..4));
    let entry = entry.prop_map(|(network, interface, addresses)| StatusEntry {
        network,
        interface,
        addresses: addresses.into(),
    });
    prop_oneof![
        1 => Just(Status::Missing),
        1 => any_text().prop_map(Status::Malformed),
        4 => vec(entry, 0..5).prop_map(|entries| Status::Valid(entries.into())),
    ]
}

fn any_request() -> impl Strategy<Value = Request> {
    prop_oneof![
        1 => any_text().prop_map(Request::Malformed),
        4 => vec(any_text(), 0..4).prop_map(|networks| Request::Valid(networks.into())),
    ]
}

fn any_containers() -> impl Strategy<Value = Box<[Container]>> {
    let state = prop_oneof![
        Just(ContainerState::Waiting),
        Just(ContainerState::Running),
        any::<bool>().prop_map(|started| ContainerState::Terminated { started }),
    ];
    let container = (any_text(), state).prop_map(|(name, state)| Container { name, state });
    vec(container, 0..40).prop_map(Into::into)
}

fn any_phase() -> impl Strategy<Value = Phase> {
    use Phase::{Failed, Pending, Running, Succeeded, Unknown};
    proptest::sample::select(vec![Pending, Running, Succeeded, Failed, Unknown])
}

fn tag(number: u8) -> IdTag {
    IdTag::of(&format!("{number:064}")).unwrap()
}

prop_compose! {
    fn any_state()(
        podref in "[a-z]{1,9}/[a-z0-9.-]{1,30}",
        uid in any_uid(),
        phase in any_phase(),
        flags: [bool; 4],
        node in of(any_text()),
        termination_grace: Option<Duration>,
        status in any_status(),
        request in any_request(),
        default_network in of(any_text()),
        sandbox_ready: Option<bool>,
        containers in any_containers(),
        ids in vec(0..9_u8, 0..3),
    ) -> PodState {
        let [deleting, host_network, mirror, name_may_return] = flags;
        PodState {
            podref: podref.parse().unwrap(),
            uid: uid.into(),
            phase,
            deleting,
            node,
            host_network,
            mirror,
            name_may_return,
            termination_grace,
            status,
            request,
            default_network,
            sandbox_ready,
            containers,
            container_ids: ids.into_iter().map(tag).collect(),
            since: None,
        }
    }
}

prop_compose! {
    /// One state of it was seen, or several with a gap somewhere between them.
    fn any_live()(
        states in vec(any_state(), 1..4),
        gap in 0..4_usize,
        watched: bool,
        generation: u32,
        listed_at in of(any_moment()),
        now in vec(any_moment(), 4),
        sandboxes in vec(0..4_u8, 0..4),
    ) -> Live {
        let mut states = states.into_iter();
        let first = states.next().unwrap();
        let mut live = Live::new(first, generation, listed_at, watched, now[0]);
        for (next, state) in (1..).zip(states) {
            if next == gap {
                live.trail.gap();
            }
            live.advance(state, watched, now[next]);
        }
        for (sandbox, now) in sandboxes.into_iter().zip(now) {
            live.sandboxes.note(tag(sandbox), now);
        }
        live
    }
}

proptest! {
    #[test]
    fn what_was_packed_comes_out(pods in vec(any_live(), 1..6), purge: bool) {
        let mut packer = Packer::default();
        let packed: Vec<_> = pods.iter().map(|pod| packer.pack(pod.clone())).collect();
        if purge {
            packer.purge();
        }
        for (pod, packed) in pods.iter().zip(&packed) {
            prop_assert_eq!(&packed.unpack(&pod.state.podref), pod);
            prop_assert_eq!(packed.phase(), pod.state.phase);
            for other in &pods {
                let uid = &other.state.uid;
                prop_assert_eq!(packed.has_uid(uid), *uid == pod.state.uid);
                for address in other.state.status.entries().iter().flat_map(|e| &e.addresses) {
                    let has_address = pod.state.status.has_address(*address);
                    prop_assert_eq!(packed.place_of(*address).is_some(), has_address);
                    let entries = pod.state.status.entries().iter();
                    let with = entries.filter(|entry| entry.addresses.contains(address));
                    let names = |entry: &StatusEntry| (entry.network.clone(), entry.interface.clone());
                    let found: Vec<_> = packed.entries_with(*address).map(names).collect();
                    prop_assert_eq!(found, with.map(names).collect::<Vec<_>>());
                }
            }
        }
    }

    #[test]
    fn an_end_is_the_same_packed_or_not(pod in any_live(), watched: bool, at in any_moment()) {
        let end = End::new(pod.clone(), watched, at, &mut Packer::default());
        let ended = end.unpack(&pod.state.podref);
        prop_assert_eq!(format!("{ended:?}"), format!("{:?}", pod.into_ended(watched, at)));
    }

    #[test]
    fn a_gap_is_the_same_packed_or_not(pods in vec(any_live(), 1..6)) {
        let mut packer = Packer::default();
        let mut packed: Vec<_> = pods.iter().map(|pod| packer.pack(pod.clone())).collect();
        packer.gap(packed.iter_mut());
        packer.purge();
        for (mut pod, packed) in pods.into_iter().zip(packed) {
            pod.trail.gap();
            prop_assert_eq!(packed.unpack(&pod.state.podref), pod);
        }
    }
}

#[test]
fn pods_of_one_controller_have_one_shape() {
    let entry =
        |address: &str| format!(r#"[{{"name":"d/net","interface":"net1","ips":["{address}"]}}]"#);
    let pod = |number: u8| {
        let podref: PodRef = format!("d/web-{number}").parse().unwrap();
        let state = PodState {
            podref,
            uid: format!("00000000-0000-4000-8000-0000000000{number:02}").into(),
            phase: Phase::Running,
            deleting: false,
            node: Some(format!("node-{}", number % 2).into()),
            host_network: false,
            mirror: false,
            name_may_return: true,
            termination_grace: None,
            status: Status::parse(&entry(&format!("10.0.0.{number}"))),
            request: Request::parse("net", "d"),
            default_network: None,
            sandbox_ready: Some(true),
            containers: Box::default(),
            container_ids: Box::default(),
            since: None,
        };
        Live::new(state, 0, None, true, Moment::EPOCH)
    };
    let mut packer = Packer::default();
    let [a, b, c] = [1, 2, 3].map(|number| packer.pack(pod(number)));
    assert!(Arc::ptr_eq(&a.shape, &b.shape) && Arc::ptr_eq(&b.shape, &c.shape));
    assert_eq!(a.node, c.node);
    assert_ne!(a.node, b.node);
}

/// A hundred thousand of them are kept, in blocks of musl's that hold 124 bytes each.
#[test]
fn a_packed_pod_is_small() {
    assert!(size_of::<Packed>() <= 160, "{}", size_of::<Packed>());
}
