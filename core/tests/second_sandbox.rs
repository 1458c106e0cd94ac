//! Ends of pods whose kubelet may have begun a second sandbox that no state shows: the API server gets only the newest
//! state of a pod.

use ipgc_core::{
    breaker::Limits,
    definitions::{Networks, Scope},
    known::Evidence,
    pool::Glance,
};

use crate::common::prelude::*;

/// The end of a pod whose rows were seen with these sandboxes; it ended well at 100.
fn end(sandboxes: &[u64]) -> Arc<Ended> {
    let end = ended(reporting(POD, "net1", "10.0.0.5"), 100, true);
    but(&end, |end| {
        for number in sandboxes {
            end.sandboxes.note(tag(*number), at(10));
        }
    })
}

/// The next pod of the name took the row over, and ended well at 300.
#[test]
fn nor_is_one_that_the_next_pod_took_over() {
    let next = ended(reporting(POD, "net1", "10.0.0.5"), 300, true);
    let known = Known::of(&[end(&[2]), next]).seen(0).on(at_work());
    let clearance = known.weigh(&row_content(), &Policy::default(), 301);
    assert_eq!(clearance.wait, until(100 + W));
}

/// The row is of sandbox 1.
#[rstest]
#[case::nobody_saw_its_rows(&[], true)]
#[case::of_its_sandbox(&[1], true)]
#[case::of_its_former_sandbox(&[1, 2], true)]
#[case::of_another_sandbox(&[2], false)]
fn a_row_that_was_seen_with_another_sandbox_alone_is_not_settled(
    #[case] sandboxes: &[u64],
    #[case] is_settled: bool,
) {
    let known = Known::of(&[end(sandboxes)]).seen(0).on(at_work());
    let clearance = known.weigh(&row_content(), &Policy::default(), 101);
    let (grade, wait) = if is_settled {
        (Grade::Settled, until(102))
    } else {
        (Grade::Witnessed, until(100 + TWO_BEATS + W))
    };
    assert_eq!((clearance.grade, clearance.wait), (grade, wait));
}

/// A range that is cut up for the nodes, without reservations.
const SLICE: &str = r#"{"name":"n","type":"macvlan","ipam":{"type":"whereabouts","range":"10.0.0.0/16","node_slice_size":"/24","enable_overlapping_ranges":false,"network_name":"red"}}"#;

/// The row was seen with sandbox 2 while its pod reported the address by `default/nad`.
#[rstest]
#[case::of_the_network(&[("default/nad", PLAIN)], None, true)]
#[case::of_a_slice(&[("default/nad", SLICE)], Some("red-node-1"), true)]
#[case::of_a_network_that_is_named_on_the_nodes(&[("default/nad", PLAIN), ("default/red", RED)], Some("red"), false)]
#[case::of_a_network_whose_name_was_edited(&[("default/nad", RED)], None, false)]
fn the_sandbox_of_a_row_is_known_whatever_its_network_is(
    #[case] all: &[(&str, &str)],
    #[case] network: Option<&str>,
    #[case] is_its: bool,
) {
    let policy = &Policy::default();
    let (all, networks) = (definitions(all), Networks::from([network.map(Into::into)]));
    let mut evidence = Evidence::new(Policy::default(), Limits::default(), Nodes::default());
    let running = reporting(POD, "net1", "10.0.0.5");
    evidence.apply_pod(running.clone(), at(1));
    let id = sandbox(2);
    let row = Glance {
        pool: &pool_key("kube-system", "pool"),
        range: Range::parse("10.0.0.0/24"),
        address: Some(ip("10.0.0.5")),
        podref: Some(POD),
        sandbox: Some(&id),
        interface: Some("net1"),
    };
    let scope = Scope {
        networks: &networks,
        range: row.range,
        definitions: &all,
    };
    let is_needed = evidence.pods.glance(&row, scope, true, at(10));
    // A report that may be about another network's row does not make this row the pod's own (museum 4.15).
    let sandboxes = evidence.pods.live(POD).unwrap().sandboxes;
    assert_eq!((is_needed, sandboxes.had(tag(2), at(99))), (is_its, is_its));
    let end = evidence.delete_pod(stopped(running), at(1_000));
    let end = end.unwrap();
    assert!(end.settled);
    let known = Known {
        networks,
        definitions: all,
        ..Known::of(&[end]).seen(0).on(at_work())
    };
    let grade = |number| {
        let row = RowContent {
            sandbox: sandbox(number).into(),
            ..row_content()
        };
        known.weigh(&row, policy, 1_001).grade
    };
    assert_eq!((grade(1), grade(2)), (Grade::Witnessed, Grade::Settled));
}

#[test]
fn a_doubtful_sandbox_takes_no_place_of_another_one_and_is_had_once_it_is_seen() {
    let (mut seen, ever) = (Sandboxes::default(), at(1_000));
    for number in [1, 2, 3] {
        seen.note_doubtful(tag(number));
    }
    assert!(seen.tags().eq([tag(1), tag(3)]));
    assert!(!seen.had(tag(1), ever) && !seen.had(tag(3), ever));
    seen.note(tag(3), at(10));
    assert!(seen.tags().eq([tag(3), tag(1)]));
    assert!(seen.had(tag(3), ever) && !seen.had(tag(1), ever));
}

/// The next pod had a sandbox of its own, and did not report the row. It waits by the clock, as for any later pod.
#[test]
fn a_row_of_the_pod_before_is_no_second_sandbox_of_the_next_one() {
    let next = but(&ended(pod(POD), 300, true), |end| {
        end.sandboxes.note(tag(2), at(200));
    });
    let known = Known::of(&[end(&[1]), next]).seen(0).on(at_work());
    let known = known.but(|it| it.interfaces = 3);
    let clearance = known.weigh(&row_content(), &Policy::default(), 301);
    assert_eq!((clearance.wait, clearance.endless), (until(300 + W), None));
}

/// Where an interface was added to a running pod, its row has the id of a container (museum 4.1).
#[test]
fn nor_is_a_row_with_the_id_of_a_container() {
    let end = but(&end(&[2]), |end| {
        end.last.container_ids = [tag(1)].into();
    });
    let known = Known::of(&[end]).seen(0).on(at_work());
    let clearance = known.weigh(&row_content(), &Policy::default(), 101);
    assert_eq!(clearance.grade, Grade::Settled);
}

/// A sweep sees the pod's row with this sandbox.
fn sweep(evidence: &mut Evidence, id: u64, second: u64) {
    let (pool, id) = (pool_key("kube-system", "pool"), sandbox(id));
    let row = Glance {
        pool: &pool,
        range: None,
        address: Some(ip("10.0.0.5")),
        podref: Some(POD),
        sandbox: Some(&id),
        interface: Some("net1"),
    };
    evidence.pods.glance(&row, ANY_SCOPE, true, at(second));
}

/// The node tells this boot.
fn boot(evidence: &mut Evidence, boot: &str, version: &str, second: u64) {
    let state = booted("m", boot, version);
    evidence.note_node("node-1", Some(state), false, at(second));
}

/// The pod with this container.
fn running(container: u64) -> PodState {
    reporting(POD, "net1", "10.0.0.5").but(|it| it.container_ids = [tag(container)].into())
}

/// Of two interfaces that were added, each row has a container's id: they take no place of the sandbox.
#[rstest]
#[case([1, 2, 3])]
#[case([2, 1, 3])]
fn nor_is_the_sandbox_of_a_pod_with_added_interfaces(#[case] order: [u64; 3]) {
    let mut evidence = Evidence::new(Policy::default(), Limits::default(), Nodes::default());
    let running = reporting(POD, "net1", "10.0.0.5");
    let running = running.but(|it| it.container_ids = [tag(2), tag(3)].into());
    evidence.apply_pod(running, at(1));
    for number in [order, order].concat() {
        sweep(&mut evidence, number, 10);
    }
    let live = evidence.pods.live(POD).unwrap();
    assert!(live.sandboxes.had(tag(1), at(99)));
    assert_eq!(live.sandboxes.tags().next(), Some(tag(1)));
}

/// Sweeps saw the row of a sandbox, and then that of another one.
#[rstest]
#[case::the_pod_runs(&[], true)]
#[case::a_container_started(&[Container], true)]
#[case::after_a_boot(&[Boot], false)]
#[case::a_container_started_after_a_boot(&[Boot, Container], false)]
#[case::and_another_sandbox_came_after_that(&[Boot, Container, Sweep], true)]
#[case::and_the_container_started_after_a_sweep(&[Boot, Sweep, Container], true)]
#[case::the_boot_was_told_after_its_sandbox_was_seen(&[Sweep, Told, Container, Sweep], true)]
fn a_second_sandbox_that_a_sweep_saw(#[case] steps: &[Step], #[case] may_be_second: bool) {
    let mut evidence = Evidence::new(Policy::default(), Limits::default(), Nodes::default());
    boot(&mut evidence, "a", "1", 0);
    evidence.apply_pod(running(1), at(1));
    sweep(&mut evidence, 7, 10);
    let mut last = 8;
    for (step, second) in steps.iter().zip([50, 60, 70, 80]) {
        match step {
            Told => boot(&mut evidence, "b", "2", second),
            Boot => {
                boot(&mut evidence, "b", "2", second);
                // The row that the next ADD takes over.
                sweep(&mut evidence, 7, second + 5);
            }
            Container => drop(evidence.apply_pod(running(2), at(second))),
            Sweep => {
                sweep(&mut evidence, 8, second);
                last = 9;
            }
        }
    }
    sweep(&mut evidence, last, 120);
    let end = evidence.delete_pod(running(2), at(130)).unwrap();
    let row = row_content().but(|it| it.sandbox = sandbox(last).into());
    assert_eq!(end.is_new_sandbox(&row), may_be_second);
}

/// What happens between the first sweep and the last.
#[derive(Clone, Copy, Debug)]
enum Step {
    Boot,
    Told,
    Container,
    Sweep,
}
use Step::{Boot, Container, Sweep, Told};

/// A machine is booted so fast that its node stays ready, and its pods' states may be old: a deletion writes such a one
/// again. No container outlives a boot.
#[rstest]
#[case::and_nothing_was_seen_of_the_pod(&[], false)]
#[case::and_an_old_state_was_seen(&[1], false)]
#[case::and_another_container_runs(&[2], true)]
fn the_machine_was_booted_before_the_end(#[case] seen: &[u64], #[case] is_settled: bool) {
    let mut evidence = Evidence::new(Policy::default(), Limits::default(), Nodes::default());
    boot(&mut evidence, "a", "1", 0);
    evidence.apply_pod(running(1), at(1));
    boot(&mut evidence, "b", "2", 50);
    for container in seen {
        let next = running(*container).but(|it| it.deleting = true);
        evidence.apply_pod(next, at(60));
    }
    let last = stopped(running(2));
    evidence.apply_pod(last.clone(), at(70));
    let end = evidence.delete_pod(last, at(71)).unwrap();
    assert_eq!(end.settled, is_settled);
    assert_eq!(end.terminal_since, Some(at(70)));
}

/// A kubelet tells the boot late, and the watch of nodes lags. The pod may be deleted long after its end.
#[rstest]
#[case::soon(101, None, Grade::Witnessed)]
#[case::later(160, None, Grade::Witnessed)]
#[case::before(99, None, Grade::Settled)]
#[case::after_the_end_that_its_kubelet_told(96, Some(95), Grade::Witnessed)]
#[case::before_that(94, Some(95), Grade::Settled)]
fn another_boot_is_told_after_the_end(
    #[case] second: u64,
    #[case] terminal: Option<u64>,
    #[case] grade: Grade,
) {
    let mut nodes = nodes_with(&[("node-1", booted("m", "a", "1"))]);
    nodes.apply("node-1", booted("m", "b", "2"), at(second));
    if grade == Grade::Witnessed && terminal.is_none() {
        // And one more.
        nodes.apply("node-1", booted("m", "c", "3"), at(second + 60));
    }
    beat(&mut nodes, "node-1", 0, 1_000);
    let end = but(&end(&[1]), |end| end.terminal_since = terminal.map(at));
    let known = Known::of(&[end]).seen(0).on(nodes);
    let clearance = known.weigh(&row_content(), &Policy::default(), 500);
    assert_eq!(clearance.grade, grade);
}
