//! Rows that another pod, another network or another id speaks for (docs/museum.md, 4.1, 4.2 and 4.15 to 4.17).

use ipgc_core::{clearance::Other, pod::wire::Wire};
use serde::Deserialize;

use crate::common::prelude::*;

/// A pod as the API server shows it, with this status.
fn read(status: &Value) -> PodState {
    let entry = json!([{"name": "default/nad", "interface": "net1", "ips": ["10.0.0.9"]}]);
    let pod = json!({
        "metadata": {
            "namespace": "default", "name": "web-0", "uid": "uid-1",
            "annotations": {"k8s.v1.cni.cncf.io/network-status": entry.to_string()},
        },
        "spec": {"nodeName": "node-1"},
        "status": status,
    });
    let wire = Wire::deserialize(&pod).unwrap();
    wire.state().unwrap()
}

// The ids of the pod's own containers

#[rstest]
#[case::running(json!({"containerStatuses": [{"name": "a", "containerID": format!("containerd://{}", sandbox(1))}]}))]
#[case::without_the_runtime(json!({"containerStatuses": [{"name": "a", "containerID": sandbox(1)}]}))]
#[case::of_another_runtime(json!({"containerStatuses": [{"name": "a", "containerID": format!("cri-o://{}", sandbox(1))}]}))]
#[case::init(json!({"initContainerStatuses": [{"name": "a", "containerID": format!("containerd://{}", sandbox(1))}]}))]
#[case::ephemeral(json!({"ephemeralContainerStatuses": [{"name": "a", "containerID": format!("containerd://{}", sandbox(1))}]}))]
#[case::terminated(json!({"containerStatuses": [{"name": "a", "state": {"terminated": {"containerID": format!("containerd://{}", sandbox(1))}}}]}))]
#[case::terminated_last(json!({"initContainerStatuses": [{"name": "a", "containerID": format!("containerd://{}", sandbox(7)), "lastState": {"terminated": {"containerID": format!("containerd://{}", sandbox(1))}}}]}))]
fn a_row_with_the_id_of_a_container_belongs_to_the_pod(#[case] shown: Value) {
    let PodState { container_ids, .. } = read(&shown);
    assert!(container_ids.contains(&tag(1)), "{container_ids:?}");
    // Without the ids the row is left of an earlier sandbox.
    let known = leftover();
    assert_eq!(
        stale(verdict(&present(elsewhere()), &known)).cause,
        Cause::Leftover
    );
    let shows = elsewhere().but(|it| it.container_ids = container_ids);
    assert_held(&verdict(&present(shows), &known), Held::OwnContainer);
}

#[test]
fn a_container_in_place_of_the_sandbox_is_no_proof_of_another_sandbox() {
    // The row that the pod reports has the id of a container, and this one that of the sandbox.
    let shows = elsewhere().but(|it| it.container_ids = [tag(2)].into());
    assert_held(&verdict(&present(shows), &leftover()), Held::Unused);
}

// Other pods

fn other(pod: PodState) -> Other {
    Other {
        pod: Arc::new(pod),
        end: None,
        has_id: false,
    }
}

/// One that ended, or is at its end.
fn gone(pod: PodState, second: u64, settled: bool) -> Other {
    let end = ended(pod, second, settled);
    Other {
        end: Some(Arc::clone(&end)),
        ..other(end.last.clone())
    }
}

/// The row is held for [`reporter`].
fn in_use() -> Held {
    Held::InUse(podref("default/other"))
}

fn reporter() -> PodState {
    reporting("default/other", "net7", "10.0.0.5").but(|it| it.uid = "uid-9".into())
}

/// The row's own pod ended well, long ago.
fn settled() -> Known {
    Known::of(&[ended(reporting(POD, "net1", "10.0.0.5"), 100, true)])
        .seen(0)
        .on(at_work())
}

/// The same, and [`reporter`] is there. These are the definitions, and this is the network of the pool.
fn reported(all: &[(&str, &str)], network: Option<&str>) -> Known {
    Known {
        others: vec![other(reporter())],
        definitions: definitions(all),
        networks: [network.map(Into::into)].into(),
        ..settled()
    }
}

const WIDE: &str = r#"{"type":"macvlan","ipam":{"type":"whereabouts","range":"10.0.0.0/16"}}"#;
const WIDE_ALONE: &str = r#"{"type":"macvlan","ipam":{"type":"whereabouts","range":"10.0.0.0/16","enable_overlapping_ranges":false}}"#;
const HOST_LOCAL: &str = r#"{"type":"bridge","ipam":{"type":"host-local"}}"#;

#[rstest]
#[case::same_network("default/nad", PLAIN, true)]
#[case::wider_range("default/nad", WIDE, true)]
#[case::wider_range_that_reserves_nothing("default/nad", WIDE_ALONE, false)]
#[case::another_network("default/nad", RED, false)]
#[case::another_ipam("default/nad", HOST_LOCAL, false)]
#[case::unreadable("default/nad", "{", true)]
// That of the report may be of any network.
#[case::another_definition_alone("default/other", RED, true)]
fn an_address_that_another_pod_reports_in_the_network_is_held(
    #[case] name: &str,
    #[case] config: &str,
    #[case] is_held: bool,
) {
    let free = settled();
    assert!(stale(verdict(&Presence::Absent, &free)).is_free(at(NOW)));
    let known = reported(&[(name, config)], None);
    let verdict = verdict(&Presence::Absent, &known);
    if is_held {
        assert_held(&verdict, in_use());
    } else {
        assert!(stale(verdict).is_free(at(NOW)));
    }
}

/// The name of a slice's pool has the node in it; whether the pool is known to be a slice does not matter.
#[rstest]
#[case::of_a_named_network(Some("red"), "red-node-1", true)]
#[case::of_the_network_without_a_name(None, "node-1", true)]
#[case::of_another_network(Some("red"), "redder-node-1", false)]
fn the_network_of_a_slice_is_that_before_the_node(
    #[case] network: Option<&str>,
    #[case] pool: &str,
    #[case] is_held: bool,
    #[values(true, false)] reserves: bool,
) {
    let name = network.map_or(String::new(), |name| format!(r#","network_name":"{name}""#));
    let config = format!(
        r#"{{"name":"n","type":"macvlan","ipam":{{"type":"whereabouts","range":"10.0.0.0/16","node_slice_size":"/24","enable_overlapping_ranges":{reserves}{name}}}}}"#
    );
    let known = reported(&[("default/nad", &config)], Some(pool));
    let held = matches!(verdict(&Presence::Absent, &known), Verdict::Held(_));
    assert_eq!(held, is_held);
}

/// Whereabouts takes a `network_name` that a definition lacks from its own file on the nodes.
#[rstest]
#[case::no_definition_names_it(&[("default/nad", PLAIN)], true)]
#[case::another_definition_does(&[("default/nad", PLAIN), ("default/red", RED)], false)]
fn the_network_of_a_pool_may_be_named_on_the_nodes(
    #[case] all: &[(&str, &str)],
    #[case] is_held: bool,
) {
    let known = reported(all, Some("red"));
    let held = matches!(verdict(&Presence::Absent, &known), Verdict::Held(_));
    assert_eq!(held, is_held);
}

/// Addresses of the cluster's own network are of no pool, unless the row is of a first interface.
/// A definition may be the default network of a pod.
#[rstest]
#[case::of_a_further_interface(json!({"name": "cbr0", "interface": "eth0"}), "net1", false)]
#[case::of_the_first_interface(json!({"name": "cbr0", "interface": "eth0"}), "eth0", true)]
#[case::calico(json!({"name": "k8s-pod-network", "default": true}), "net1", false)]
#[case::calico_of_the_first(json!({"name": "k8s-pod-network", "default": true}), "eth0", true)]
#[case::ovn(json!({"name": "ovn-kubernetes", "interface": "ovn-udn1", "default": true}), "net1", false)]
#[case::another_without_a_definition(json!({"name": "x", "interface": "net1"}), "net1", true)]
#[case::a_definition_is_of_each_interface(json!({"name": "default/nad", "interface": "eth0"}), "net1", true)]
#[case::also_as_the_default(json!({"name": "default/nad", "default": true}), "net1", true)]
#[case::also_one_that_was_deleted(json!({"name": "default/gone", "interface": "eth0"}), "net1", true)]
fn the_clusters_own_network_is_that_of_first_interfaces(
    #[case] mut entry: Value,
    #[case] interface: &str,
    #[case] is_held: bool,
) {
    entry["ips"] = json!(["10.0.0.5"]);
    let status = json!([entry]);
    let status = Status::parse(&status.to_string());
    let own = ended(reporting(POD, interface, "10.0.0.5"), 100, true);
    let known = Known::of(&[own]).seen(0).on(at_work());
    let known = known.but(|it| {
        it.others = vec![other(reporter().but(|it| it.status = status))];
        it.definitions = definitions(&[("default/nad", PLAIN)]);
    });
    let row = row_value(POD, &sandbox(1), interface);
    let verdict = judged(&row, &Presence::Absent, &known, NOW);
    assert_eq!(matches!(verdict, Verdict::Held(Held::InUse(_))), is_held);
}

/// One that is there holds the row, wherever it is among them; and the last of all ends counts.
#[test]
fn all_other_pods_are_asked() {
    let named = |number: u64| PodState {
        podref: podref(&format!("default/other-{number}")),
        ..reporter()
    };
    let with = |others| settled().but(|it| it.others = others);
    let known = with(vec![gone(named(1), 100, true), other(named(2))]);
    let held = Held::InUse(podref("default/other-2"));
    assert_held(&verdict(&Presence::Absent, &known), held);
    let ended = [gone(named(1), 100, true), gone(named(2), NOW - 10, false)];
    let known = with(ended.into());
    assert!(!stale(verdict(&Presence::Absent, &known)).is_free(at(NOW)));
}

/// The row's pod was born after that end, so whereabouts had had the address back.
#[rstest]
#[case::born_after(Some(NOW - 5), false, true)]
#[case::born_after_and_may_have_taken_it_over(Some(NOW - 5), true, false)]
#[case::born_before(Some(NOW - 20), false, false)]
#[case::nobody_saw_its_birth(None, false, false)]
fn an_end_before_the_pods_birth_does_not_count(
    #[case] born: Option<u64>,
    #[case] returns: bool,
    #[case] free: bool,
) {
    let own = ended(reporting(POD, "net1", "10.0.0.5"), NOW - 3, true);
    let own = but(&own, |end| {
        end.born = born.map(at);
        end.last.name_may_return = returns;
    });
    let others = vec![gone(reporter(), NOW - 10, false)];
    let known = Known::of(&[own]).seen(1).on(at_work());
    let known = known.but(|it| it.others = others);
    let stale = stale(verdict(&Presence::Absent, &known));
    assert_eq!(stale.is_free(at(NOW)), free);
}

/// The name of such a pool tells no network, so that each report counts.
#[test]
fn a_pool_whose_name_tells_no_network_may_be_of_any() {
    let nameless = |known: Known| Known {
        definitions: definitions(&[("default/nad", PLAIN)]),
        networks: [].into(),
        ..known
    };
    let own = present(reporting(POD, "net1", "10.0.0.5"));
    assert_held(&verdict(&own, &nameless(leftover())), Held::Reported);
    let known = nameless(settled().but(|it| it.others = vec![other(reporter())]));
    assert_held(&verdict(&Presence::Absent, &known), in_use());
}

/// A person's word frees no address that the pod may report by a definition which was edited since.
#[test]
fn a_report_by_an_edited_definition_is_not_forced_away() {
    let known = leftover().but(|it| it.definitions = definitions(&[("default/nad", RED)]));
    let verdict = verdict(&present(reporting(POD, "net1", "10.0.0.5")), &known);
    assert!(!matches!(verdict.forced(at(NOW)), Verdict::Stale(_)));
}

#[test]
fn its_own_pod_is_no_other_pod() {
    let known = settled().but(|it| it.others = vec![other(reporting(POD, "net1", "10.0.0.5"))]);
    assert!(stale(verdict(&Presence::Absent, &known)).is_free(at(NOW)));
}

#[test]
fn a_completed_pods_address_is_held_for_another_pod_too() {
    let known = completed(&ended(done(), 100, true));
    let known = known.but(|it| it.others = vec![other(reporter())]);
    let last = present(done());
    assert_held(&verdict(&last, &known), in_use());
}

/// After the end of the other pod the row waits for what that end is worth.
#[rstest]
#[case::stopped(true, NOW - 10, true)]
#[case::forced_away(false, NOW - 10, false)]
#[case::forced_away_long_ago(false, 100, true)]
fn the_end_of_another_pod_counts(#[case] settled_end: bool, #[case] end: u64, #[case] free: bool) {
    let known = settled().but(|it| it.others = vec![gone(reporter(), end, settled_end)]);
    let stale = stale(verdict(&Presence::Absent, &known));
    assert_eq!(stale.is_free(at(NOW)), free);
    if !free {
        assert_eq!(stale.clearance.wait, until(end + TWO_BEATS + W));
        assert_eq!(stale.clearance.grade, Grade::Witnessed);
    }
}

#[test]
fn a_row_with_the_id_of_another_pods_sandbox_is_held() {
    let other = other(pod("default/other")).but(|it| it.has_id = true);
    let known = settled().but(|it| it.others = vec![other]);
    let held = Held::OthersSandbox(podref("default/other"));
    assert_held(&verdict(&Presence::Absent, &known), held);
}

// Names that came back without the row's network

/// The pod runs since 100 with all that it asked for; the row's sandbox was seen while a pod of this name
/// lived that ended at 50.
fn left_the_network() -> Known {
    let end = ended(reporting(POD, "net1", "10.0.0.5"), 50, true);
    Known {
        ended: vec![but(&end, |end| end.sandboxes.note(tag(1), at(10)))],
        living: Some(Living {
            running_since: Some(at(100)),
            ..living("uid-1")
        }),
        definitions: definitions(&[("default/nad", RED), ("default/local", HOST_LOCAL)]),
        ..Known::default().seen(1).on(at_work())
    }
}

fn in_red() -> PodState {
    reporting(POD, "net1", "10.0.0.5").but(|it| it.request = Request::parse("nad", "default"))
}

#[rstest]
#[case::without_further_networks(PodState { status: status(&[]), ..pod(POD) })]
#[case::the_same_number_in_another_network(in_red())]
#[case::another_ipam(PodState {
    status: Status::parse(r#"[{"name":"default/local","interface":"net1","ips":["10.0.0.5"]}]"#),
    request: Request::parse("local", "default"),
    ..pod(POD)
})]
#[case::host_network(PodState { host_network: true, ..pod(POD) })]
fn a_name_that_left_the_network_leaves_its_row(#[case] state: PodState) {
    let known = left_the_network();
    let long_ago = stale(verdict(&present(state.clone()), &known));
    assert_eq!(long_ago.cause, Cause::Predecessor);
    assert!(long_ago.is_free(at(NOW)));
    // It is graded by the end of the incarnation that had it.
    let forced = but(&known.ended[0], |end| {
        end.settled = false;
        end.at = at(NOW - 10);
    });
    let late = known.but(|it| it.ended = vec![forced]);
    let stale = stale(verdict(&present(state), &late));
    assert!(!stale.is_free(at(NOW)));
}

#[test]
fn the_pod_has_to_run_for_long() {
    let late = living("uid-1").but(|it| it.running_since = Some(at(NOW - 1)));
    let known = left_the_network().but(|it| it.living = Some(late));
    let stale = stale(verdict(&present(in_red()), &known));
    assert!(!stale.is_free(at(NOW)));
}

#[rstest]
#[case::nobody_saw_whose_it_is(Known { ended: Vec::new(), ..left_the_network() }, in_red(), Held::Drift)]
#[case::another_row_has_the_report(Known { ended: Vec::new(), siblings: Some(vec![row_content(), sibling("10.0.0.5", Some("net1"), 2)]), ..left_the_network() }, in_red(), Held::Unused)]
#[case::the_pod_took_it_over_unchanged(took_over(), in_red(), Held::Drift)]
#[case::its_network_is_asked_for(left_the_network(), PodState { request: Request::parse("nad,blue", "default"), ..in_red() }, Held::Drift)]
#[case::its_network_is_not_known(Known { definitions: Definitions::new(), ..left_the_network() }, in_red(), Held::Reported)]
#[case::it_starts(left_the_network(), PodState { phase: Phase::Pending, ..in_red() }, Held::Changing)]
#[case::no_status(left_the_network(), pod(POD), Held::Changing)]
fn what_is_not_known_keeps_the_row(
    #[case] known: Known,
    #[case] state: PodState,
    #[case] held: Held,
) {
    assert_held(&verdict(&present(state), &known), held);
}

/// The living pod was seen reporting the row with this id: its definition was changed after that.
fn took_over() -> Known {
    let mut known = left_the_network();
    if let Some(living) = &mut known.living {
        living.sandboxes.note(tag(1), at(200));
    }
    known
}

#[test]
fn a_row_that_was_taken_over_unchanged_is_no_predecessors() {
    // The row was seen while the pod was absent, and then the pod reported it with this id.
    let mut known = predecessor(100);
    assert_eq!(
        stale(verdict(&present(elsewhere()), &known)).cause,
        Cause::Predecessor
    );
    if let Some(living) = &mut known.living {
        living.sandboxes.note(tag(1), at(200));
    }
    assert_held(&verdict(&present(elsewhere()), &known), Held::Unused);
}

/// A pod with the host's network never has rows: nobody need have seen the one before.
#[test]
fn a_pod_with_the_hosts_network_has_no_rows() {
    let known = left_the_network().but(|it| it.ended = Vec::<Arc<Ended>>::new());
    let host = pod(POD).but(|it| it.host_network = true);
    let stale = stale(verdict(&present(host), &known));
    assert_eq!(
        (stale.cause, stale.clearance.grade),
        (Cause::Predecessor, Grade::Unwitnessed)
    );
}

// status.podIPs

#[rstest]
#[case::another_address(json!({"podIPs": [{"ip": "10.0.0.5"}]}), true)]
#[case::others(json!({"podIPs": [{"ip": "10.0.0.6"}, {"ip": "fd00:0:0::5"}]}), false)]
#[case::none(json!({"podIPs": null}), false)]
fn an_address_in_pod_ips_is_reported(#[case] shown: Value, #[case] is_reported: bool) {
    let mut shown = shown;
    shown["phase"] = "Running".into();
    let state = read(&shown);
    // Its row has another id than the one that the pod reports in its network-status.
    let known = leftover()
        .but(|it| it.siblings = Some(vec![row_content(), sibling("10.0.0.9", Some("net1"), 2)]));
    match verdict(&present(state), &known) {
        Verdict::Held(held) => assert_eq!((held, is_reported), (Held::Reported, true)),
        verdict => assert_eq!(
            (stale(verdict).cause, is_reported),
            (Cause::Leftover, false)
        ),
    }
}

#[test]
fn pod_ips_count_beside_a_valid_status_only_and_not_with_the_hosts_network() {
    let with = |status: Status| status.with_pod_ips(["10.0.0.5".parse().unwrap()].into_iter());
    assert_eq!(with(Status::Missing), Status::Missing);
    let malformed = Status::Malformed("x".into());
    assert_eq!(with(malformed.clone()), malformed);
    let known = status(&[("eth0", &["10.0.0.5"])]);
    assert_eq!(with(known.clone()), known);
    let pod = json!({
        "metadata": {"namespace": "d", "name": "p", "uid": "u",
            "annotations": {"k8s.v1.cni.cncf.io/network-status": "[]"}},
        "spec": {"hostNetwork": true},
        "status": {"podIPs": [{"ip": "10.0.0.5"}]},
    });
    let wire = Wire::deserialize(&pod).unwrap();
    assert!(wire.state().unwrap().status.addresses().is_empty());
}

/// W of the other pod's end counts the other pod's rows.
#[test]
fn the_other_pods_own_dels_count() {
    let two = status(&[("net7", &["10.0.0.5"]), ("net8", &["10.0.1.5"])]);
    let other = gone(reporter().but(|it| it.status = two), NOW - 10, false);
    let known = settled().but(|it| it.others = vec![other]);
    let clearance = stale(verdict(&Presence::Absent, &known)).clearance;
    assert_eq!(clearance.wait, until(NOW - 10 + TWO_BEATS + W + 60));
}
