//! From the end of a pod to its pools.

use ipgc_core::{
    definitions::Definition,
    ipam::parse,
    routes::{KnownPools, Routes, Slice, slice_pools},
};

use crate::common::prelude::*;

/// A definition `default/NAME` of these ranges.
fn definition(name: &str, ipam: &str) -> (Box<str>, Definition) {
    let config = format!(r#"{{"type":"macvlan","ipam":{{"type":"whereabouts",{ipam}}}}}"#);
    let sections = parse(&config, name).unwrap();
    (format!("default/{name}").into(), Ok(sections))
}

fn definitions() -> Definitions {
    [
        definition("net", r#""range":"10.0.0.0/24""#),
        definition("red", r#""range":"10.1.0.0/24","network_name":"red""#),
        definition(
            "both",
            r#""ipRanges":[{"range":"10.0.0.0/24"},{"range":"fd00::/64"}]"#,
        ),
        definition(
            "cut",
            r#""range":"10.8.0.0/16","network_name":"cut","node_slice_size":"/24""#,
        ),
        definition("bad", r#""range":"10.9.0.0/99""#),
        definition(
            "loud",
            r#""range":"10.9.0.0/24","network_name":"x\nfreed row""#,
        ),
        ("default/odd".into(), Err(parse("{", "odd").unwrap_err())),
        (
            "default/dhcp".into(),
            Ok(parse(r#"{"type":"macvlan","ipam":{"type":"dhcp"}}"#, "dhcp").unwrap()),
        ),
    ]
    .into()
}

fn slice(node: &str, range: &str) -> Slice {
    Slice {
        namespace: "kube-system".to_owned(),
        name: "cut".to_owned(),
        node: node.into(),
        range: Range::parse(range).unwrap(),
    }
}

/// Of a pod on node-1 that asked for these networks.
fn end_of(networks: &str) -> Arc<Ended> {
    let last = pod(POD).but(|it| {
        it.status = status(&[]);
        it.request = Request::parse(networks, "default");
    });
    ended(last, 10, true)
}

/// `namespace/name` of the pools, and how many sentences and unseen things there are.
fn routes(networks: &str, known: &KnownPools) -> (Vec<String>, usize, Vec<String>) {
    let Routes {
        pools,
        unresolved,
        unseen,
    } = Routes::of(&[end_of(networks)], &definitions(), known);
    let pools = pools.keys().map(ToString::to_string).collect();
    (pools, unresolved.len(), unseen)
}

#[rstest]
#[case::its_range("net", &["kube-system/10.0.0.0-24"], 0)]
#[case::with_its_network("red", &["kube-system/red-10.1.0.0-24", "other/red-10.1.0.0-24"], 0)]
#[case::each_family("both", &["kube-system/10.0.0.0-24", "kube-system/fd00---64", "other/fd00---64"], 0)]
#[case::twice_the_same("net,net,both", &["kube-system/10.0.0.0-24", "kube-system/fd00---64", "other/fd00---64"], 0)]
#[case::slice_of_its_node("cut", &["kube-system/cut-node-1-10.8.1.0-24", "other/cut-node-1-10.8.1.0-24"], 0)]
#[case::another_ipam("dhcp", &[], 0)]
#[case::missing("nowhere", &[], 1)]
#[case::unreadable("odd", &[], 1)]
#[case::without_a_range("bad", &[], 1)]
#[case::with_a_network_that_no_name_has("loud", &[], 1)]
fn networks_lead_to_pools(
    #[case] networks: &str,
    #[case] expected: &[&str],
    #[case] unresolved: usize,
) {
    let pools = [("kube-system", "10.0.0.0-24"), ("other", "10.7.0.0-24")];
    let pools = pools.map(|(namespace, name)| pool_key(namespace, name));
    let slices = [("node-1", "10.8.1.0/24"), ("node-2", "10.8.2.0/24")];
    let slices = slices.map(|(node, range)| slice(node, range)).into();
    let known = KnownPools::new(None, pools.iter(), slices);
    // A pool that no sweep saw may be new, wherever there are pools.
    let expected = expected.iter().map(ToString::to_string).collect();
    assert_eq!(routes(networks, &known), (expected, unresolved, vec![]));
}

/// Where nothing leads to a pool, a sweep does.
#[test]
fn a_sweep_finds_what_the_last_one_did_not_see() {
    let none = KnownPools::default();
    assert_eq!(
        routes("net", &none),
        (vec![], 0, vec!["10.0.0.0-24".to_owned()])
    );
    let (pools, unresolved, unseen) = routes("cut", &none);
    assert_eq!((pools.len(), unresolved, unseen.len()), (0, 1, 1));
    // Where pools are looked for in one namespace alone, it is known before the first sweep.
    let one = KnownPools::new(Some("only"), [].iter(), Vec::new());
    let only = vec!["only/10.0.0.0-24".to_owned()];
    assert_eq!(routes("net", &one), (only, 0, vec![]));
}

#[test]
fn a_name_that_the_slices_of_two_nodes_give_is_no_slice() {
    let slices = [
        slice("a", "10.8.1.0/24"),
        slice("b", "10.8.2.0/24"),
        slice("a", "10.8.3.0/24"),
    ];
    let pools = slice_pools(&slices);
    assert_eq!(pools.len(), 6);
    assert_eq!(
        pools[&pool_key("kube-system", "cut-b-10.8.2.0-24")],
        "b".into()
    );
    // Network "a" with node "b-a", and network "a-b" with node "a", have one name.
    let of = |name: &str, node: &str| Slice {
        name: name.to_owned(),
        ..slice(node, "10.8.1.0/24")
    };
    let pools = slice_pools(&[of("a", "b-a"), of("a-b", "a")]);
    assert!(!pools.contains_key(&pool_key("kube-system", "a-b-a-10.8.1.0-24")));
    assert_eq!(pools.len(), 2);
}
