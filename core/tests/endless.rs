//! More DELs than a kubelet gets through while all of them are lost: it tries for ever, and what it calls for
//! last answers as long.

use crate::common::prelude::*;

/// Long after everything.
const NOW: u64 = 90_000;

/// Two nodes at work, in doubt since the pod watch began.
fn suspected() -> Nodes {
    let mut nodes = nodes_with(&[("node-1", node_state()), ("node-2", node_state())]);
    nodes.gap(at(0));
    nodes.suspect(["node-1", "node-2"], at(0));
    beat(&mut nodes, "node-1", 0, NOW);
    beat(&mut nodes, "node-2", 0, NOW);
    nodes
}

fn weigh(row: &RowContent, known: &Known, policy: &Policy) -> Clearance {
    known.weigh(row, policy, NOW)
}

/// A pod on the cluster's own network and on `networks` more, with the addresses 10.0.0.5, 10.0.1.5, ….
fn on(networks: usize) -> PodState {
    let address = |number: usize| format!("10.0.{number}.5");
    let names: Vec<_> = (0..networks).map(|i| format!("net{}", i + 1)).collect();
    let addresses: Vec<_> = (0..networks).map(address).collect();
    let addresses: Vec<[&str; 1]> = addresses.iter().map(|it| [it.as_str()]).collect();
    let own = names.iter().zip(&addresses);
    let own = own.map(|(name, addresses)| (name.as_str(), addresses.as_slice()));
    let entries: Vec<_> = [("eth0", ["10.244.0.9"].as_slice())]
        .into_iter()
        .chain(own)
        .collect();
    asking(networks).but(|it| it.status = status(&entries))
}

/// One that asked for so many networks, of which multus reports nothing.
fn asking(networks: usize) -> PodState {
    let asked: Vec<_> = (0..networks).map(|i| format!("default/net-{i}")).collect();
    pod(POD).but(|it| it.request = Request::parse(&asked.join(","), "default"))
}

/// The row of the interface with this number, from 1.
fn row(number: usize) -> RowContent {
    RowContent {
        address: ip(&format!("10.0.{}.5", number - 1)),
        interface: Some(format!("net{number}").into()),
        ..row_content()
    }
}

fn forced(last: PodState) -> Arc<Ended> {
    ended(last, 100, false)
}

fn seen(last: PodState) -> Known {
    Known::of(&[forced(last)])
        .seen(0)
        .on(working(&["node-1", "node-2"], NOW))
}

#[rstest]
#[case::only_one(1, 1, false)]
#[case::two(2, 1, false)]
#[case::first_of_three(3, 1, true)]
#[case::last_of_three(3, 3, true)]
fn rows_are_held_where_a_del_may_never_be_called(
    #[case] networks: usize,
    #[case] number: usize,
    #[case] is_held: bool,
) {
    let clearance = weigh(&row(number), &seen(on(networks)), &Policy::default());
    assert_eq!(clearance.endless.is_some(), is_held);
    if is_held {
        assert_eq!(clearance.grade, Grade::Unfenced);
        assert_eq!(clearance.endless, Some(at(100 + TWO_BEATS + W)));
        assert_eq!(clearance.wait, waits_for(&["node-1"]));
    } else {
        assert_eq!(clearance.grade, Grade::Witnessed);
        assert_eq!(clearance.wait, until(100 + TWO_BEATS + W));
    }
}

/// A kubelet breaks off neither the pull of an image nor a postStart hook.
#[rstest]
#[case::runs(Phase::Running, &[("main", RUNNING)], false)]
#[case::starts(Phase::Pending, &[("init", ENDED), ("main", WAITING)], true)]
#[case::restarts(Phase::Running, &[("main", WAITING), ("other", RUNNING)], true)]
#[case::nothing_is_told_yet(Phase::Pending, &[], true)]
#[case::at_its_end(Phase::Failed, &[("main", WAITING)], false)]
#[case::at_its_end_by_another_word(Phase::Failed, &[("main", WAITING)], true)]
fn rows_are_held_where_the_kubelet_may_be_starting_a_container(
    #[case] phase: Phase,
    #[case] states: &[(&str, ContainerState)],
    #[case] is_held: bool,
) {
    let last = on(1).but(|it| {
        it.phase = phase;
        it.containers = containers(states);
        it.sandbox_ready = Some(is_held);
    });
    let clearance = weigh(&row(1), &seen(last), &Policy::default());
    assert_eq!(clearance.endless.is_some(), is_held);
    let grade = [Grade::Witnessed, Grade::Unfenced][usize::from(is_held)];
    assert_eq!(clearance.grade, grade);
}

#[rstest]
#[case::of_two(2, "net1", false)]
#[case::of_three(3, "net1", true)]
#[case::with_the_first_interface(2, "eth0", true)]
fn where_nothing_is_reported_what_was_asked_for_counts(
    #[case] networks: usize,
    #[case] interface: &str,
    #[case] is_held: bool,
) {
    let row = row(1).but(|it| it.interface = Some(interface.into()));
    assert_eq!(forced(asking(networks)).dels(&row) > 2, is_held);
    // Of one that nobody reports, all others of its name are asked as well.
    let mut known = seen(asking(networks));
    known.interfaces = 1;
    assert_eq!(
        weigh(&row, &known, &Policy::default()).endless.is_some(),
        is_held
    );
}

#[test]
fn an_interface_without_address_has_no_del_to_wait_for() {
    let entries = r#"[{"name":"c","interface":"eth0","ips":["10.244.0.9"]},
        {"name":"default/a","interface":"net1","ips":["10.0.0.5"]},
        {"name":"default/b","interface":"net2"},{"name":"default/c","interface":"net3"}]"#;
    let last = asking(3).but(|it| it.status = Status::parse(entries));
    assert_eq!(forced(last).dels(&row(1)), 1);
}

/// Calico and OVN-Kubernetes report the cluster's own network in ways of their own.
#[rstest]
#[case::calico(r#"{"name":"k8s-pod-network","ips":["10.244.0.9"],"default":true}"#)]
#[case::ovn_kubernetes(
    r#"{"name":"ovn-kubernetes","interface":"eth0","ips":["10.244.0.9"]},
    {"name":"ovn-kubernetes","interface":"ovn-udn1","ips":["10.9.0.4"],"default":true}"#
)]
fn the_cluster_s_own_network_has_no_del_of_whereabouts(#[case] own: &str) {
    let entries = format!(
        r#"[{own},{{"name":"default/net-0","interface":"net1","ips":["10.0.0.5"]}},
        {{"name":"default/net-1","interface":"net2","ips":["10.0.1.5"]}}]"#
    );
    let last = asking(2).but(|it| it.status = Status::parse(&entries));
    assert_eq!(forced(last).dels(&row(1)), 2);
}

#[test]
fn the_cluster_s_own_network_counts_where_whereabouts_has_it() {
    let last = on(2).but(|it| it.default_network = Some("default/a".into()));
    assert_eq!(forced(last).dels(&row(1)), 3);
    assert_eq!(forced(on(2)).dels(&row(1)), 2);
    let nameless = row(1).but(|it| it.interface = None);
    assert_eq!(forced(on(2)).dels(&nameless), 2);
    let first = nameless.but(|it| it.address = ip("10.244.0.9"));
    assert_eq!(forced(on(2)).dels(&first), 3);
}

/// Interfaces with rows that a sweep found count too.
#[test]
fn rows_that_are_there_count_too() {
    let known = seen(on(2)).but(|it| it.interfaces = 3);
    assert!(weigh(&row(1), &known, &Policy::default()).endless.is_some());
}

#[test]
fn a_settled_end_was_no_try_that_failed() {
    let known = Known::of(&[ended(on(5), 100, true)])
        .seen(0)
        .on(working(&["node-1", "node-2"], NOW));
    let clearance = weigh(&row(1), &known, &Policy::default());
    assert_eq!((clearance.grade, clearance.endless), (Grade::Settled, None));
}

#[test]
fn whoever_says_that_a_del_is_quick_is_believed() {
    let policy = Policy::default().but(|it| it.del_budget = secs(10));
    let clearance = weigh(&row(1), &seen(on(5)), &policy);
    assert_eq!(
        (clearance.grade, clearance.endless),
        (Grade::Witnessed, None)
    );
}

#[rstest]
#[case::long(3_600, 100 + 3_600)]
#[case::shorter_than_any_wait(1, 100 + TWO_BEATS + W)]
fn a_cap_of_the_hold_caps_this_one_too(#[case] cap: u64, #[case] until: u64) {
    let policy = Policy::default().but(|it| it.unfenced = Unfenced::FreeAfter(secs(cap)));
    let clearance = weigh(&row(1), &seen(on(3)), &policy);
    assert_eq!(clearance.wait, at_most("node-1", until));
}

/// A settled end is no evidence about an unseen predecessor, which was on as many networks.
#[test]
fn whoever_was_not_seen_had_as_many_interfaces_as_those_who_were() {
    for (networks, is_held) in [(2, false), (3, true)] {
        let last = ended(on(networks), 2_000, true);
        let last = but(&last, |end| end.listed_at = Some(at(1_000)));
        let known = Known::of(&[last]).seen(0).on(suspected());
        let clearance = weigh(&row(1), &known, &Policy::default());
        assert_eq!(clearance.endless.is_some(), is_held);
        assert_eq!(clearance.is_over(at(NOW)), !is_held);
    }
}

/// The silent node is waited for first.
#[test]
fn a_silent_node_is_told_as_such() {
    let mut nodes = suspected();
    nodes.apply("node-2", not_ready(), at(NOW));
    nodes.gap(at(NOW));
    nodes.suspect(["node-1", "node-2"], at(NOW));
    let known = Known::default()
        .seen(0)
        .on(nodes)
        .but(|it| it.interfaces = 3);
    let clearance = weigh(&row(1), &known, &Policy::default());
    assert_eq!(clearance.endless, None);
    assert_eq!(clearance.wait, waits_for(&["node-2"]));
}

/// Longest time that a kubelet may take to report its boot: `--grace`.
const TOLD: u64 = 120;
/// When the next boot is told.
const SEEN: u64 = 600;

/// node-1, whose object was read as it was until `confirmed`, and which reports another boot at `seen`.
fn rebooted(confirmed: Option<u64>, seen: u64, machine: &str) -> Nodes {
    let first = if machine.is_empty() { "" } else { "m" };
    let mut nodes = nodes_with(&[("node-1", booted(first, "first", "1"))]);
    for second in confirmed.map_or(0..0, |last| 0..last + 1) {
        nodes.confirm_boot("node-1", "1", at(second), secs(TOLD));
    }
    beat(&mut nodes, "node-1", 0, seen);
    nodes.apply("node-1", booted(machine, "second", "2"), at(seen));
    // A later look at the next boot says nothing of the first one.
    nodes.confirm_boot("node-1", "2", at(seen + 5_000), secs(TOLD));
    beat(&mut nodes, "node-1", seen + 10, NOW);
    nodes
}

#[rstest]
#[case::still_on_the_first_boot_when_any_other_would_have_been_told(Some(100 + TOLD), SEEN, "m", true)]
// The pod may have been started again by the kubelet of the next boot, and been deleted after that.
#[case::the_next_boot_may_have_begun_before_the_end(Some(99 + TOLD), SEEN, "m", false)]
#[case::seen_before_the_end(Some(50), 99, "m", false)]
// ipgc, or its watch of nodes, began later: it knows the boot, and not that it lasted.
#[case::never_looked_at(None, SEEN, "m", false)]
#[case::another_machine_of_that_name(Some(500), SEEN, "other", false)]
#[case::machines_without_a_name(Some(500), SEEN, "", false)]
fn a_boot_after_the_end_ends_all_sandboxes_of_before(
    #[case] confirmed: Option<u64>,
    #[case] seen: u64,
    #[case] machine: &str,
    #[case] is_proof: bool,
) {
    let mut known = Known::of(&[forced(on(3))]).seen(0);
    known.nodes = rebooted(confirmed, seen, machine);
    let clearance = weigh(&row(1), &known, &Policy::default());
    assert_eq!(clearance.endless.is_none(), is_proof);
    if is_proof {
        assert_eq!(clearance.grade, Grade::Witnessed);
        assert_eq!(clearance.wait, until(seen + TWO_BEATS + W));
    }
}

#[test]
fn a_boot_is_no_proof_while_its_node_is_not_ready() {
    let mut known = Known::of(&[forced(on(3))]).seen(0);
    known.nodes = rebooted(Some(500), SEEN, "m");
    let state = booted("m", "second", "3").but(|it| it.ready = false);
    known.nodes.apply("node-1", state, at(NOW));
    let clearance = weigh(&row(1), &known, &Policy::default());
    assert_eq!(clearance.wait, waits_for(&["node-1"]));
}

/// An object that changed between two looks may have told another boot.
#[test]
fn only_an_object_that_is_as_it_was_told_confirms_its_boot() {
    let mut nodes = nodes_with(&[("node-1", booted("m", "first", "1"))]);
    nodes.confirm_boot("node-1", "2", at(500), secs(TOLD));
    nodes.confirm_boot("node-1", "", at(500), secs(TOLD));
    nodes.apply("node-1", booted("m", "second", "3"), at(SEEN));
    assert_eq!(nodes.rebooted_after("node-1", at(0)), None);
}

/// A read shows the next boot. Then a watch that is late tells the first one again, and the next one.
#[test]
fn a_boot_before_that_a_late_watch_tells_is_no_boot_anew() {
    let mut nodes = nodes_with(&[("node-1", booted("m", "first", "6"))]);
    nodes.note_read("node-1", Some(booted("m", "second", "10")), at(200));
    nodes.confirm_boot("node-1", "10", at(500), secs(TOLD));
    nodes.note_outlasting("node-1", at(550));
    nodes.apply("node-1", booted("other", "first", "8"), at(SEEN));
    nodes.apply("node-1", booted("m", "first", "9"), at(SEEN));
    nodes.apply("node-1", booted("m", "second", "10"), at(SEEN + 1));
    assert!(nodes.has_outlasting("node-1"));
    assert_eq!(nodes.rebooted_after("node-1", at(0)), None);
    nodes.confirm_boot("node-1", "10", at(1_000), secs(TOLD));
    nodes.apply("node-1", booted("m", "third", "11"), at(1_100));
    assert_eq!(nodes.rebooted_after("node-1", at(0)), Some(at(1_100)));
}

/// The kubelet starts its static pods again after a boot, and makes their mirrors within `--leftover-grace`.
#[test]
fn a_static_pod_comes_back_with_its_node_and_shows_it_in_time() {
    let last = on(1).but(|it| {
        it.mirror = true;
        it.containers = containers(&[("main", WAITING)]);
    });
    let mut known = Known::of(&[forced(last)]).seen(0);
    known.nodes = rebooted(Some(500), SEEN, "m");
    let clearance = weigh(&row(1), &known, &Policy::default());
    assert_eq!(clearance.endless, None);
    assert_eq!(clearance.wait, until(SEEN + TWO_BEATS + 600));
}

/// An incarnation that was never seen ended before the pod watch began.
#[rstest]
#[case::still_on_the_first_boot_then(Some(50 + TOLD), "m", true)]
#[case::the_next_one_may_have_begun_before(Some(49 + TOLD), "m", false)]
#[case::never_looked_at(None, "m", false)]
#[case::another_machine(Some(500), "other", false)]
fn a_boot_ends_the_doubt_about_a_node(
    #[case] confirmed: Option<u64>,
    #[case] machine: &str,
    #[case] is_proof: bool,
) {
    let mut nodes = nodes_with(&[("node-1", booted("m", "first", "1"))]);
    nodes.gap(at(50));
    nodes.suspect(["node-1"], at(50));
    if let Some(confirmed) = confirmed {
        nodes.confirm_boot("node-1", "1", at(confirmed), secs(TOLD));
    }
    nodes.apply("node-1", booted(machine, "second", "2"), at(SEEN));
    beat(&mut nodes, "node-1", SEEN, NOW);
    let known = Known::default()
        .seen(50)
        .absent(50)
        .on(nodes)
        .but(|it| it.interfaces = 3);
    let clearance = weigh(&row(1), &known, &Policy::default());
    assert_eq!(clearance.is_over(at(NOW)), is_proof);
    let held = waits_for(&["node-1"]);
    assert_eq!(clearance.wait == held, !is_proof);
}

/// An incarnation that was never seen may be on any node.
#[rstest]
#[case::two(2, None, until(W))]
#[case::three(3, None, waits_for(&["node-1", "node-2"]))]
#[case::three_in_a_slice(3, Some("node-2"), waits_for(&["node-2"]))]
fn rows_of_somebody_unseen_are_counted(
    #[case] counted: usize,
    #[case] slice: Option<&str>,
    #[case] wait: Wait,
) {
    let mut nodes = suspected();
    // One that came later ran nobody who was not seen.
    nodes.apply("node-3", node_state(), at(50 + W));
    let known = Known {
        interfaces: counted,
        slice: slice.map(Into::into),
        ..Known::default().seen(0).on(nodes)
    };
    // The second answer is the same as the first.
    for _ in 0..2 {
        let clearance = weigh(&row(1), &known, &Policy::default());
        assert_eq!(clearance.grade, Grade::Unwitnessed);
        assert_eq!(clearance.endless, (counted > 2).then_some(at(W)));
        assert_eq!(clearance.wait, wait);
    }
}
