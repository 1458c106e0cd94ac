//! The rules on rows of pods that are there and run in another sandbox: predecessors' rows and
//! leftovers.

use ipgc_core::ipam;

use crate::common::prelude::*;

// Rule 6: predecessors

#[test]
fn the_run_of_another_incarnation_does_not_count() {
    let again = elsewhere().but(|it| it.uid = "uid-2".into());
    assert_held(&verdict(&present(again), &predecessor(100)), Held::Unused);
}

#[test]
fn a_former_sandbox_waits_for_a_watch_that_is_heard() {
    let known = predecessor(100).but(|it| it.fresh = false);
    let predecessor = stale(verdict(&present(elsewhere()), &known));
    assert!(!predecessor.is_free(at(NOW)));
    assert_eq!(
        predecessor.clearance.wait,
        Wait::until(at(NOW) + LOOK_AGAIN)
    );
    let known = leftover().but(|it| it.fresh = false);
    let leftover = stale(verdict(&present(elsewhere()), &known));
    assert_eq!(leftover.clearance.wait, Wait::until(at(NOW) + LOOK_AGAIN));
}

#[rstest]
#[case::runs_long_enough(4_000, 4_600)]
#[case::not_long_enough(NOW - 1, NOW + 599)]
fn a_predecessors_row_goes_when_the_pod_has_run_for_long(#[case] since: u64, #[case] free: u64) {
    let stale = stale(verdict(&present(elsewhere()), &predecessor(since)));
    assert_eq!(stale.cause, Cause::Predecessor);
    assert_eq!(stale.clearance.grade, Grade::Unwitnessed);
    assert_eq!(stale.clearance.wait, until(free));
}

#[rstest]
#[case::pending(PodState { phase: Phase::Pending, ..elsewhere() }, Held::Changing)]
#[case::deleting(PodState { deleting: true, ..elsewhere() }, Held::Changing)]
#[case::reported(reporting(POD, "net9", "10.0.0.5"), Held::Reported)]
fn a_predecessors_row_waits_for_the_pod_to_run(#[case] state: PodState, #[case] held: Held) {
    let known = predecessor(100);
    assert_held(&verdict(&present(state.clone()), &known), held);
    // Without an interface no ADD can ever adopt it.
    match verdict_without_interface(&present(state), &known) {
        Verdict::Stale(stale) => {
            assert_eq!(stale.cause, Cause::Predecessor);
            assert_eq!(stale.clearance.wait, until(10 + W));
        }
        verdict => assert_eq!(verdict, Verdict::Held(Held::Reported)),
    }
}

#[test]
fn a_row_that_was_not_seen_while_its_pod_was_absent_has_no_predecessor() {
    let mut known = predecessor(100);
    known.sighting = Some(Sighting {
        first: at(0),
        while_absent: None,
    });
    for verdict in [
        verdict(&present(elsewhere()), &known),
        verdict_without_interface(&present(elsewhere()), &known),
    ] {
        assert_eq!(verdict, Verdict::Held(Held::Unused));
    }
}

#[test]
fn a_pod_whose_run_nobody_dated_keeps_its_predecessors_rows() {
    let known = predecessor(0).but(|it| it.living = Some(living("uid-1")));
    assert_held(&verdict(&present(elsewhere()), &known), Held::Unused);
}

#[test]
fn a_known_predecessors_grade_counts_where_it_is_worse_or_later() {
    let forced = |second| ended(reporting(POD, "net1", "10.0.0.5"), second, false);
    let known = predecessor(100).but(|it| it.ended = vec![forced(4_900)]);
    let late = stale(verdict(&present(elsewhere()), &known));
    assert_eq!(late.clearance.wait, until(4_900 + TWO_BEATS + W));
    assert_eq!(late.clearance.grade, Grade::Unwitnessed);
    let other = but(&forced(100), |end| end.last.node = Some("node-2".into()));
    let mut nodes = at_work();
    nodes.apply("node-2", not_ready(), at(0));
    let known = predecessor(100).on(nodes).but(|it| it.ended = vec![other]);
    let held = stale(verdict(&present(elsewhere()), &known));
    assert_eq!(held.clearance.grade, Grade::Unfenced);
    assert_eq!(held.clearance.wait, waits_for(&["node-2"]));
}

#[rstest]
#[case::predecessor(predecessor(100))]
#[case::leftover(leftover())]
fn a_former_sandbox_waits_for_blocking_nodes_and_for_the_pods_own(#[case] known: Known) {
    let mut nodes = at_work();
    nodes.apply("old", not_ready(), at(0));
    nodes.gap(at(0));
    nodes.suspect(["old"], at(0));
    let held = stale(verdict(&present(elsewhere()), &known.clone().on(nodes)));
    assert_eq!(held.clearance.wait, waits_for(&["old"]));
    let own = nodes_with(&[("node-1", not_ready())]);
    let held = stale(verdict(&present(elsewhere()), &known.on(own)));
    assert_eq!(held.clearance.grade, Grade::Unfenced);
    assert_eq!(held.clearance.wait, waits_for(&["node-1"]));
}

// Rule 8: leftovers

#[test]
fn a_row_without_an_interface_is_no_proof_of_another_sandbox() {
    let known =
        leftover().but(|it| it.siblings = Some(vec![row_content(), sibling("10.0.0.6", None, 2)]));
    assert_held(
        &verdict(&present(reporting(POD, "", "10.0.0.6")), &known),
        Held::Unused,
    );
}

#[test]
fn a_leftover_goes_after_the_leftover_grace() {
    let stale = stale(verdict(&present(elsewhere()), &leftover()));
    assert_eq!(stale.cause, Cause::Leftover);
    assert_eq!(stale.clearance.grade, Grade::Unwitnessed);
    assert_eq!(stale.clearance.wait, until(600));
    assert!(!stale.clearance.watched);
}

#[test]
fn a_leftover_seen_for_the_first_time_waits_from_now_on() {
    let known = leftover().but(|it| it.sighting = None);
    let stale = stale(verdict(&present(elsewhere()), &known));
    assert_eq!(stale.clearance.wait, until(NOW + 600));
}

fn other_pods(sibling: RowContent) -> RowContent {
    sibling.but(|it| it.podref = podref("default/web-1"))
}

#[rstest]
#[case::nobody_looked(None, false)]
#[case::none(Some(vec![row_content()]), false)]
#[case::the_same_sandbox(Some(vec![sibling("10.0.0.6", Some("net1"), 1)]), false)]
#[case::of_two_sandboxes(Some(vec![sibling("10.0.0.6", Some("net1"), 2), sibling("10.0.0.7", Some("net2"), 1)]), false)]
#[case::of_two_others(Some(vec![sibling("10.0.0.6", Some("net1"), 2), sibling("10.0.0.7", Some("net2"), 3)]), false)]
#[case::reported_elsewhere(Some(vec![sibling("10.0.0.6", Some("net9"), 2)]), false)]
#[case::contradicted_elsewhere(Some(vec![sibling("10.0.0.6", Some("net1"), 2), sibling("10.0.0.7", Some("net9"), 1)]), false)]
#[case::not_reported(Some(vec![sibling("10.0.0.8", Some("net1"), 2)]), false)]
#[case::another_pods(Some(vec![other_pods(sibling("10.0.0.6", Some("net1"), 2))]), false)]
// Beside rows that say nothing.
#[case::two_rows_of_one_sandbox(Some(vec![sibling("10.0.0.6", Some("net1"), 2), sibling("10.0.0.7", Some("net2"), 2)]), true)]
#[case::and_other_leftovers(Some(vec![sibling("10.0.0.6", Some("net1"), 2), sibling("10.0.0.9", Some("net2"), 3)]), true)]
#[case::and_another_pods(Some(vec![sibling("10.0.0.6", Some("net1"), 2), other_pods(sibling("10.0.0.7", Some("net2"), 3))]), true)]
fn a_leftover_needs_one_other_sandbox_in_all_reported_rows(
    #[case] siblings: Option<Vec<RowContent>>,
    #[case] is_leftover: bool,
) {
    let known = leftover().but(|it| it.siblings = siblings);
    let state =
        pod(POD).but(|it| it.status = status(&[("net1", &["10.0.0.6"]), ("net2", &["10.0.0.7"])]));
    let verdict = verdict(&present(state), &known);
    if is_leftover {
        assert_eq!(stale(verdict).cause, Cause::Leftover);
    } else {
        assert_held(&verdict, Held::Unused);
    }
}

#[rstest]
#[case::incomplete(PodState { request: Request::parse("nad,other", "default"), ..elsewhere() }, Held::Drift)]
#[case::asked_twice(PodState { request: Request::parse("nad,nad", "default"), ..elsewhere() }, Held::Drift)]
#[case::unreadable_request(PodState { request: Request::parse("[{", "default"), ..elsewhere() }, Held::Drift)]
#[case::no_status(PodState { status: Status::Missing, ..elsewhere() }, Held::Changing)]
#[case::pending(PodState { phase: Phase::Pending, ..elsewhere() }, Held::Changing)]
#[case::deleting(PodState { deleting: true, ..elsewhere() }, Held::Changing)]
fn an_incomplete_status_proves_nothing(#[case] state: PodState, #[case] held: Held) {
    assert_held(&verdict(&present(state), &leftover()), held);
}

const IN_RANGE: &str = r#","range":"10.0.0.0/24""#;

/// A definition of this version of CNI, whose section of whereabouts has these keys.
fn of_version(version: &str, keys: &str) -> String {
    format!(r#"{{{version}"type":"x","ipam":{{"type":"whereabouts"{keys}}}}}"#)
}

/// A definition of another name than the pod asks for: multus attaches some by its own configuration.
fn beside(config: &str, known: Known) -> Known {
    let definition = ipam::parse(config, "other");
    known.but(|it| it.definitions = [("kube-system/other".into(), definition)].into())
}

/// Multus writes no entry for an interface of an old version of CNI.
#[rstest]
#[case::without_version("", IN_RANGE, true)]
#[case::old(r#""cniVersion":"0.2.0","#, IN_RANGE, true)]
#[case::a_file_may_tell_its_range("", "", true)]
#[case::new(r#""cniVersion":"0.3.0","#, IN_RANGE, false)]
#[case::of_another_range("", r#","range":"10.9.0.0/24""#, false)]
#[case::of_another_network("", r#","range":"10.0.0.0/24","network_name":"red""#, false)]
fn where_multus_may_report_nothing_a_status_proves_nothing(
    #[case] version: &str,
    #[case] keys: &str,
    #[case] is_silent: bool,
) {
    let config = of_version(version, keys);
    let config = config.as_str();
    for known in [predecessor(100), leftover()] {
        let verdict = verdict(&present(elsewhere()), &beside(config, known));
        assert_eq!(
            verdict == Verdict::Held(Held::Drift),
            is_silent,
            "{verdict:?}"
        );
        assert_eq!(
            matches!(verdict, Verdict::Stale(_)),
            !is_silent,
            "{verdict:?}"
        );
    }
    let unused = Known::default().seen(100);
    let held = if is_silent { Held::Drift } else { Held::Unused };
    let verdict = verdict(&present(elsewhere()), &beside(config, unused));
    assert_held(&verdict, held);
}

/// Some versions of multus leave out the addresses of an interface.
#[rstest]
#[case::of_the_range("10.0.0.0/24", true)]
#[case::of_another_range("10.9.0.0/24", false)]
fn an_interface_without_addresses_may_have_it(#[case] range: &str, #[case] may_have_it: bool) {
    let config = json!({
        "cniVersion": "1.0.0",
        "type": "x",
        "ipam": {"type": "whereabouts", "range": range},
    });
    let entries = json!([
        {"name": "default/nad", "interface": "net1", "ips": ["10.0.0.6"]},
        {"name": "kube-system/other", "interface": "net2", "ips": []},
    ]);
    let state = elsewhere().but(|it| it.status = Status::parse(&entries.to_string()));
    let verdict = verdict(&present(state), &beside(&config.to_string(), leftover()));
    assert_eq!(
        verdict == Verdict::Held(Held::Drift),
        may_have_it,
        "{verdict:?}"
    );
}

/// It has none of multus' interfaces.
#[test]
fn a_pod_on_the_hosts_network_tells_all_the_same() {
    let state = PodState {
        host_network: true,
        ..pod(POD)
    };
    let verdict = verdict(
        &present(state),
        &beside(&of_version("", IN_RANGE), predecessor(100)),
    );
    assert_eq!(stale(verdict).cause, Cause::Predecessor);
}
