//! Readers of foreign texts, fed with texts that were changed at random: no panic, and each text says the same twice.
//!
//! `IPGC_FUZZ_SECONDS` is the time for each reader, one second by default.

use std::{env, time::Instant};

use ipgc_core::{
    address::readings,
    definitions,
    names::{KnownNetworks, split},
    patch::FreePatch,
    pod::wire::Wire,
};

use crate::common::prelude::*;

const CONFIGS: &[&str] = &[
    r#"{"cniVersion":"0.3.1","name":"a","type":"macvlan","master":"eth0","ipam":{"type":"whereabouts","range":"10.0.0.0/24","exclude":["10.0.0.1/32"],"range_start":"10.0.0.9","gateway":"10.0.0.254","network_name":"blue","enable_overlapping_ranges":false}}"#,
    r#"{"name":"a","plugins":[{"type":"bridge","ipam":{"type":"whereabouts","ipRanges":[{"range":"fd00::1-fd00::9/64"},{"range":"10.1.0.0/16","node_slice_size":"/24"}],"addresses":[{"address":"10.9.0.1/24"}]}},{"type":"tuning"}]}"#,
];
const STATUSES: &[&str] = &[
    r#"[{"name":"kindnet","interface":"eth0","ips":["10.244.0.7"],"mac":"aa","default":true,"dns":{}},{"name":"default/a","interface":"net1","ips":["10.0.0.1","fd00:0:0::0001"],"dns":{}}]"#,
    "default/a@net1, b@net2,c",
    r#"[{"name":"a","namespace":"x","interface":"net1","ips":["10.0.0.9/24"]}]"#,
];
const POOLS: &[&str] = &[
    r#"{"metadata":{"name":"10.0.0.0-24","namespace":"n","uid":"u","resourceVersion":"7","annotations":{"ipgc.dev/keep":"7, 10.0.0.9"},"managedFields":[{"operation":"Update"}]},"spec":{"range":"10.0.0.0/24","allocations":{"1":{"id":"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef","podref":"default/web-0","ifname":"net1"},"x":{"id":"","podref":""},"18446744073709551615":{"id":"1","podref":"a/b","more":[1]}}}}"#,
    r#"{"metadata":{"name":"blue-fd00---64","namespace":"n","uid":"u"},"spec":{"range":"fd00::/64","allocations":null}}"#,
];
const RESERVATIONS: &[&str] = &[
    r#"{"metadata":{"name":"blue-10.0.0.1","namespace":"n","uid":"u","resourceVersion":"7","annotations":{"ipgc.dev/claimed-from":"default/web-0"}},"spec":{"podref":"ipgc.dev/releasing","ifname":"net1"}}"#,
    r#"{"metadata":{"name":"f1-fd00--1","namespace":"n","uid":"u","resourceVersion":"7"},"spec":{"podref":"default/web-0","containerid":"0","poduid":"p"}}"#,
];
const PODS: &[&str] = &[
    r#"{"metadata":{"namespace":"default","name":"web-0","uid":"u","resourceVersion":"7","deletionTimestamp":"2026-01-01T00:00:00Z","annotations":{"k8s.v1.cni.cncf.io/network-status":"[{\"name\":\"default/a\",\"interface\":\"net1\",\"ips\":[\"10.0.0.1\"]}]","k8s.v1.cni.cncf.io/networks":"a"},"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"w","uid":"x","controller":true}]},"spec":{"nodeName":"n1","terminationGracePeriodSeconds":30},"status":{"phase":"Running","podIPs":[{"ip":"10.1.1.1"}],"conditions":[{"type":"PodReadyToStartContainers","status":"True"}],"containerStatuses":[{"name":"c","containerID":"containerd://aa","state":{"terminated":{"startedAt":"2026-01-01T00:00:00Z","exitCode":0}},"lastState":{}}]}}"#,
];
const NAMES: &[&str] = &[
    "blue-10.0.0.1",
    "f1-fd00--1",
    "10.0.0.0/24",
    "default/web-0",
    "fd00::1-fd00::9/64",
];

/// Pieces that texts are made of, with a space between two of them.
const PIECES: &str = "\" { } [ ] , : \\ \\u0000 \\ud800 null true -1 1e999 18446744073709551616 0.0.0.0/0 ::/0 /33 - -- / .. ~1 \n \u{202e} é \"podref\" \"range\" \"ips\"";

/// Numbers that are the same in each run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % end.max(1) as u64).unwrap()
    }
}

/// A text of these with some changes.
fn changed(numbers: &mut Numbers, texts: &[&str]) -> String {
    let mut text: Vec<char> = texts[numbers.below(texts.len())].chars().collect();
    for _ in 0..numbers.below(6) {
        let at = numbers.below(text.len() + 1);
        let end = text.len().min(at + numbers.below(20));
        match numbers.below(4) {
            0 => drop(text.drain(at..end)),
            1 => {
                let pieces: Vec<_> = PIECES.split(' ').collect();
                let piece = pieces[numbers.below(pieces.len())];
                text.splice(at..at, piece.chars());
            }
            2 => {
                let again: Vec<_> = text[at..end].to_vec();
                text.splice(at..at, again);
            }
            _ => {
                let other: Vec<_> = texts[numbers.below(texts.len())].chars().collect();
                let from = numbers.below(other.len());
                text.splice(at..end, other[from..].iter().copied());
            }
        }
    }
    text.into_iter().collect()
}

fn definition(text: &str) {
    let read = || definitions::read("default/a", Ok(Some(text)));
    let first = read();
    assert_eq!(first, read());
    if let Ok(sections) = first {
        for section in &sections {
            assert!(section.pool_names().all(|name| !name.is_empty()));
        }
    }
}

fn status(text: &str) {
    let (status, request) = (Status::parse(text), Request::parse(text, "default"));
    let _ = status.is_complete_for(&request);
    for entry in status.entries() {
        assert!(entry.addresses.iter().all(|it| status.has_address(*it)));
    }
}

/// A row that cannot be read goes alone, whatever its key is.
fn pool(text: &str) {
    let Ok(pool) = ObservedPool::parse(text, Moment::EPOCH, |_| true) else {
        return;
    };
    // What is skipped need not be right.
    let Ok(document) = serde_json::from_str::<Value>(text) else {
        return;
    };
    for row in pool.rows() {
        let _ = (row.content(), pool.address_of(row), pool.is_exempt(row));
        let Some(patch) = FreePatch::of_unreadable(&pool, row) else {
            continue;
        };
        // A text may name a key twice, and the last of them counts.
        if let Some(after) = apply(&document, &patch.to_json_patch()) {
            let rows = |it: &Value| {
                it["spec"]["allocations"]
                    .as_object()
                    .map_or(0, serde_json::Map::len)
            };
            assert_eq!(rows(&after) + 1, rows(&document), "{text}");
            assert!(
                after["spec"]["allocations"].get(row.key()).is_none(),
                "{text}"
            );
        }
    }
}

/// A claim says whose it was, and is given back as it was.
fn reservation(text: &str) {
    let Ok(reservation) = Reservation::parse(text) else {
        return;
    };
    let _ = reservation.pod();
    // What is skipped need not be right.
    let Ok(document) = serde_json::from_str::<Value>(text) else {
        return;
    };
    let Some(claimed) = apply(&document, &reservation.claim()) else {
        return;
    };
    let claim = Reservation::parse(&claimed.to_string()).expect("a claim can be read");
    assert!(claim.is_claimed(), "{text}");
    assert_eq!(claim.owner(), reservation.owner(), "{text}");
}

fn pod(text: &str) {
    let Ok(wire) = serde_json::from_str::<Wire>(text) else {
        return;
    };
    let Some(pod) = wire.state() else { return };
    let _ = (pod.has_network(), pod.is_complete(), pod.is_running());
}

fn name(text: &str) {
    let known = KnownNetworks::default();
    let all: Vec<_> = readings(text).collect();
    if let Some((network, address)) = split(text, &known).one() {
        assert!(all.contains(&(network, address)), "{text}");
    }
    if let Ok(podref) = text.parse::<PodRef>() {
        assert_eq!(podref.as_str(), text);
    }
    if let Some(range) = Range::parse(text) {
        let (first, _) = range.first_and_last();
        assert!(range.contains(first), "{text}");
    }
}

#[rstest]
#[case::definition(CONFIGS, definition)]
#[case::status(STATUSES, status)]
#[case::pool(POOLS, pool)]
#[case::reservation(RESERVATIONS, reservation)]
#[case::pod(PODS, pod)]
#[case::name(NAMES, name)]
fn no_text_is_too_strange(#[case] texts: &[&str], #[case] read: fn(&str)) {
    let seconds = env::var("IPGC_FUZZ_SECONDS").ok();
    let seconds = seconds.map_or(1, |text| text.parse().unwrap());
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    let begun = Instant::now();
    let mut count = 0_u64;
    while begun.elapsed() < Duration::from_secs(seconds) {
        for _ in 0..100 {
            read(&changed(&mut numbers, texts));
            count += 1;
        }
    }
    println!("{count} texts in {seconds} s");
    assert!(count > 1_000, "{count}");
}
