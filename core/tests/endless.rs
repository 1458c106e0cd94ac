//! More DELs than a kubelet gets through while all of them are lost: it tries for ever, and what it calls for
//! last answers as long.

use ipgc_core::{breaker::Limits, known::Evidence, pod::wire::Wire};

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

#[test]
fn a_cap_of_the_hold_caps_this_one_too() {
    let policy = Policy::default().but(|it| it.unfenced = Unfenced::FreeAfter(secs(3_600)));
    let clearance = weigh(&row(1), &seen(on(3)), &policy);
    let until = at_most("node-1", 100 + 3_600);
    assert_eq!(clearance.wait, until);
}

#[test]
fn with_a_short_cap_it_waits_as_long_as_any_other() {
    let policy = Policy::default().but(|it| it.unfenced = Unfenced::FreeAfter(secs(1)));
    let clearance = weigh(&row(1), &seen(on(3)), &policy);
    let until = at_most("node-1", 100 + TWO_BEATS + W);
    assert_eq!(clearance.wait, until);
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

#[test]
fn a_node_that_is_fenced_or_gone_holds_nothing() {
    let mut known = seen(on(3));
    known.nodes.apply("node-1", fenced(), at(NOW));
    let clearance = weigh(&row(1), &known, &Policy::default());
    assert_eq!(clearance.wait, until(100));
    known.nodes.remove("node-1", at(NOW));
    let clearance = weigh(&row(1), &known, &Policy::default());
    assert_eq!(clearance.wait, until(NOW + W));
}

/// Longest time that a kubelet may take to report its boot: `--grace`.
const TOLD: u64 = 120;
/// When the next boot is told.
const SEEN: u64 = 600;

/// node-1, whose object was read as it was until `confirmed`, and which reports another boot at `seen`.
fn rebooted(confirmed: Option<u64>, seen: u64, machine: &str) -> Nodes {
    let mut nodes = nodes_with(&[("node-1", booted("m", "first", "1"))]);
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
    nodes.apply("node-3", node_state(), at(50));
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

fn evidence() -> Evidence {
    Evidence::new(Limits::default(), working(&["node-1"], 1_000))
}

fn running() -> PodState {
    reporting(POD, "net1", "10.0.0.5")
}

fn deleting() -> PodState {
    running().but(|it| it.deleting = true)
}

/// A pod was seen being deleted for longer than W by a kubelet at work; it is forced away while the watch is lost.
#[rstest]
#[case::watched(false)]
#[case::found_by_a_list(true)]
fn a_kubelet_that_did_not_stop_a_pod_is_known_also_if_a_list_found_the_end(#[case] by_list: bool) {
    let mut evidence = evidence();
    let policy = Policy::default();
    evidence.apply_pod(running(), &policy, at(0));
    evidence.apply_pod(deleting(), &policy, at(100));
    let ended = if by_list {
        evidence.pods.begin_list(at(990));
        evidence.end_pod_list(&policy, at(1_000)).pop()
    } else {
        evidence.delete_pod(deleting(), &policy, at(1_000))
    };
    assert!(ended.unwrap().may_outlast());
}

/// The runtime of its node does not answer, so that the node is not ready when the pod is forced away.
#[rstest]
#[case::in_all_of_w(1_000, true)]
#[case::in_longer_than_it_needs(200, true)]
#[case::in_time(180, false)]
fn a_kubelet_that_did_not_stop_a_pod_is_known_also_if_its_node_fails_then(
    #[case] fails: u64,
    #[case] is_known: bool,
) {
    let policy = Policy::default();
    for is_removed in [false, true] {
        let mut evidence = evidence();
        evidence.apply_pod(running(), &policy, at(0));
        evidence.apply_pod(deleting(), &policy, at(100));
        evidence.note_stuck_on("node-2", &policy, at(fails));
        evidence.note_stuck_on("node-1", &policy, at(fails));
        if is_removed {
            evidence.nodes.remove("node-1", at(fails));
        } else {
            evidence.nodes.apply("node-1", not_ready(), at(fails));
        }
        let ended = evidence.delete_pod(deleting(), &policy, at(fails + 1_000));
        assert_eq!(ended.unwrap().may_outlast(), is_known);
    }
}

/// The same where a list shows a successor.
#[test]
fn and_if_a_list_shows_its_successor() {
    let mut evidence = evidence();
    evidence.apply_pod(running(), &Policy::default(), at(0));
    evidence.apply_pod(deleting(), &Policy::default(), at(100));
    evidence.pods.begin_list(at(990));
    let next = running().but(|it| it.uid = "uid-2".into());
    let ended = evidence.apply_pod(next, &Policy::default(), at(1_000));
    assert!(ended.unwrap().may_outlast());
}

/// Somebody else writes the phase before the pod is forced away.
#[rstest]
#[case::nobody_writes_a_phase(Phase::Running)]
#[case::somebody_does(Phase::Failed)]
fn a_foreign_phase_does_not_make_a_stuck_pod_end(#[case] phase: Phase) {
    let mut evidence = evidence();
    evidence.pods.apply(running(), at(0));
    evidence.pods.apply(deleting(), at(100));
    let last = deleting().but(|it| it.phase = phase);
    evidence.pods.apply(last.clone(), at(999));
    let ended = evidence.delete_pod(last, &Policy::default(), at(1_000));
    assert!(ended.unwrap().may_outlast());
}

/// A kubelet says that a container ended while it pulls its image anew.
#[rstest]
#[case::that_serves("Always", "containerStatuses", 0, true)]
#[case::without_a_policy("", "containerStatuses", 0, true)]
#[case::that_failed("OnFailure", "containerStatuses", 1, true)]
#[case::that_is_done("OnFailure", "containerStatuses", 0, false)]
#[case::that_is_never_restarted("Never", "containerStatuses", 1, false)]
#[case::init_container_that_failed("Always", "initContainerStatuses", 1, true)]
#[case::init_container_that_is_done("Always", "initContainerStatuses", 0, false)]
fn a_container_is_started_anew(
    #[case] policy: &str,
    #[case] list: &str,
    #[case] code: i64,
    #[case] restarts: bool,
) {
    let mut status = json!({"phase": "Running"});
    status[list] = json!([{"name": "main", "state": {"terminated": {"exitCode": code}}}]);
    for is_deleted in [false, true] {
        let mut pod = json!({
            "metadata": {"namespace": "default", "name": "web-0", "uid": "uid-1"},
            "spec": {"restartPolicy": policy},
            "status": status,
        });
        if is_deleted {
            pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        }
        let pod = pod.to_string();
        let state = serde_json::from_str::<Wire<'_>>(&pod).unwrap().state();
        assert_eq!(state.unwrap().restarts, restarts);
    }
}

/// A container with a policy of its own, as a sidecar, is started anew whatever the pod's policy is.
#[rstest]
#[case::sidecar("initContainers", "initContainerStatuses", "main", true)]
#[case::one_that_serves("containers", "containerStatuses", "main", true)]
#[case::another_one("containers", "containerStatuses", "other", false)]
fn a_container_with_a_policy_of_its_own_is_started_anew(
    #[case] list: &str,
    #[case] statuses: &str,
    #[case] name: &str,
    #[case] restarts: bool,
) {
    let mut pod = json!({
        "metadata": {"namespace": "default", "name": "web-0", "uid": "uid-1"},
        "spec": {"restartPolicy": "Never"},
        "status": {"phase": "Running"},
    });
    pod["spec"][list] = json!([{"name": "main", "restartPolicy": "Always"}, {"name": "other"}]);
    pod["status"][statuses] = json!([{"name": name, "state": {"terminated": {"exitCode": 0}}}]);
    let pod = pod.to_string();
    let state = serde_json::from_str::<Wire<'_>>(&pod).unwrap().state();
    assert_eq!(state.unwrap().restarts, restarts);
}

/// While it is being deleted, containers that ended are those that the kubelet stops.
#[rstest]
#[case::was_restarted_before(true)]
#[case::ran(false)]
fn a_container_that_ended_during_the_deletion_is_not_started(#[case] restarts: bool) {
    let mut evidence = evidence();
    let policy = Policy::default();
    let before = running().but(|it| it.restarts = restarts);
    evidence.apply_pod(before, &policy, at(0));
    let last = deleting().but(|it| it.containers = containers(&[("main", ENDED)]));
    let ended = evidence.delete_pod(last, &policy, at(10));
    assert_eq!(ended.unwrap().may_outlast(), restarts);
}

/// A kubelet falls silent before its node is known as not ready: longer than `--node-monitor-grace-period` takes.
#[rstest]
#[case::when_it_is_forced_away(false)]
#[case::when_its_node_fails(true)]
fn a_kubelet_that_did_not_stop_a_pod_is_known_also_if_it_fell_silent_since(#[case] fails: bool) {
    let policy = Policy::default();
    let mut evidence = evidence();
    evidence.apply_pod(running(), &policy, at(0));
    evidence.apply_pod(deleting(), &policy, at(100));
    for second in (1_010..=1_100).step_by(10) {
        let last = Some("1000");
        evidence.nodes.hear("node-1", last, at(second), at(second));
    }
    if fails {
        evidence.note_stuck_on("node-1", &policy, at(1_100));
        evidence.nodes.apply("node-1", not_ready(), at(1_100));
    }
    let ended = evidence.delete_pod(deleting(), &policy, at(1_100));
    assert!(ended.unwrap().may_outlast());
}

/// A pod with a container in this state, as its object tells.
fn told(deleting: bool, state: &Value) -> PodState {
    let networks = json!([{"name": "default/nad", "interface": "net1", "ips": ["10.0.0.5"]}]);
    let mut pod = json!({
        "metadata": {
            "namespace": "default", "name": "web-0", "uid": "uid-1",
            "annotations": {"k8s.v1.cni.cncf.io/network-status": networks.to_string()},
        },
        "spec": {"nodeName": "node-1", "restartPolicy": "Always"},
        "status": {"phase": "Running", "containerStatuses": [{"name": "main", "state": state}]},
    });
    if deleting {
        pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    }
    let pod = pod.to_string();
    let state = serde_json::from_str::<Wire<'_>>(&pod).unwrap().state();
    state.unwrap()
}

/// Its container ended, and its kubelet pulls the image anew. Then it is deleted, and all that while the watch is lost.
#[rstest]
#[case::of_a_pod_that_ran_before(true)]
#[case::of_a_pod_that_nobody_saw(false)]
fn a_list_does_not_tell_that_a_container_ended_by_the_deletion(#[case] ran: bool) {
    let (mut evidence, policy) = (evidence(), Policy::default());
    if ran {
        evidence.apply_pod(told(false, &json!({"running": {}})), &policy, at(0));
    }
    let last = told(true, &json!({"terminated": {"exitCode": 1}}));
    evidence.pods.begin_list(at(90));
    evidence.apply_pod(last.clone(), &policy, at(100));
    evidence.end_pod_list(&policy, at(100));
    let ended = evidence.delete_pod(last, &policy, at(110));
    assert!(ended.unwrap().may_outlast());
}

/// ipgc begins while a pod is being deleted, which its kubelet has not stopped for an hour.
#[test]
fn a_first_list_does_not_tell_for_how_long_a_pod_has_been_deleting() {
    let (mut evidence, policy) = (evidence(), Policy::default());
    evidence.pods.begin_list(at(900));
    evidence.apply_pod(deleting(), &policy, at(900));
    evidence.end_pod_list(&policy, at(900));
    let ended = evidence.delete_pod(deleting(), &policy, at(910));
    assert!(ended.unwrap().may_outlast());
}

/// A kubelet that is too old for the condition `PodReadyToStartContainers`.
#[test]
fn who_writes_a_terminal_phase_while_a_container_runs_is_not_the_kubelet() {
    let (mut evidence, policy) = (evidence(), Policy::default());
    let old = |state: PodState| state.but(|it| it.sandbox_ready = None);
    evidence.apply_pod(old(running()), &policy, at(0));
    evidence.apply_pod(old(deleting()), &policy, at(100));
    let last = old(deleting()).but(|it| it.phase = Phase::Failed);
    evidence.apply_pod(last.clone(), &policy, at(999));
    let ended = evidence.delete_pod(last, &policy, at(1_000));
    assert!(ended.unwrap().may_outlast());
}

/// A kubelet stopped it after all, though later than W, and said so.
#[test]
fn a_pod_that_its_kubelet_ended_late_is_not_held_for_ever() {
    let (mut evidence, policy) = (evidence(), Policy::default());
    evidence.apply_pod(running(), &policy, at(0));
    evidence.apply_pod(deleting(), &policy, at(100));
    evidence.note_stuck_on("node-1", &policy, at(900));
    let last = deleting().but(|it| {
        it.phase = Phase::Failed;
        it.sandbox_ready = Some(false);
        it.containers = containers(&[("main", ENDED)]);
    });
    // What was before is in doubt, so that it is no good end.
    evidence.pods.begin_list(at(950));
    evidence.apply_pod(last.clone(), &policy, at(960));
    evidence.end_pod_list(&policy, at(960));
    let ended = evidence.delete_pod(last, &policy, at(1_000)).unwrap();
    assert!(!ended.settled && !ended.may_outlast());
}

/// Pods without an annotation of multus have rows where whereabouts serves the cluster's own network.
#[rstest]
#[case::that_its_kubelet_did_not_stop(1_000, RUNNING, true)]
#[case::that_its_kubelet_was_to_stop_yet(120, RUNNING, false)]
#[case::whose_container_is_started_anew(120, ENDED, true)]
fn the_end_of_a_pod_without_annotations_may_outlast_w_too(
    #[case] forced: u64,
    #[case] state: ContainerState,
    #[case] may_outlast: bool,
) {
    let (mut evidence, policy) = (evidence(), Policy::default());
    let plain = pod(POD).but(|it| {
        it.containers = containers(&[("main", state)]);
        it.restarts = state == ENDED;
    });
    let last = plain.clone().but(|it| it.deleting = true);
    evidence.apply_pod(plain, &policy, at(0));
    evidence.apply_pod(last.clone(), &policy, at(100));
    assert!(evidence.delete_pod(last, &policy, at(forced)).is_none());
    let ended = evidence.pods.ended(&podref(POD));
    assert_eq!(ended[0].may_outlast(), may_outlast);
}
