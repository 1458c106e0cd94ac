//! Nodes: whether a kubelet is at work, and for how long without a break.

use ipgc_core::node::SILENCE;

use crate::common::prelude::*;

// Fences

/// Ready or not, since when, and tainted or not.
fn tainted(ready: bool, since: &str, out_of_service: bool) -> NodeState {
    NodeState {
        ready,
        ready_changed: Some(since.into()),
        out_of_service,
        ..node_state()
    }
}

#[rstest]
#[case::tainted_while_not_ready(&[(false, "1", false), (false, "1", true)], true)]
#[case::not_ready_at_first_sight(&[(false, "1", true)], true)]
// The machine is off, and the API server has yet to notice.
#[case::tainted_before_it_was_not_ready(&[(true, "1", false), (true, "1", true), (false, "2", true)], true)]
#[case::ready_since(&[(false, "1", true), (true, "2", true), (false, "3", true)], false)]
#[case::ready_at_first_sight(&[(true, "2", true), (false, "3", true)], false)]
#[case::tainted_anew(&[(true, "2", true), (false, "3", true), (false, "3", false), (false, "3", true)], true)]
fn a_taint_under_which_the_node_was_ready_is_no_fence(
    #[case] states: &[(bool, &str, bool)],
    #[case] is_fenced: bool,
) {
    let mut nodes = Nodes::default();
    for (ready, since, out_of_service) in states {
        nodes.apply("a", tainted(*ready, since, *out_of_service), at(10));
    }
    let is = |nodes: &Nodes| nodes.standing("a", at(0), at(20)) == Standing::Fenced;
    assert_eq!(is(&nodes), is_fenced);
    // Read once more, it is the same.
    let (ready, since, out_of_service) = states.last().unwrap();
    let again = tainted(*ready, since, *out_of_service);
    nodes.note_read("a", Some(again.clone()), at(20));
    assert_eq!(is(&nodes), is_fenced);
    // Also if it was tainted unseen.
    let mut unseen = Nodes::default();
    unseen.apply("a", tainted(false, "1", false), at(10));
    unseen.note_read("a", Some(tainted(false, "3", true)), at(20));
    assert!(!is(&unseen));
    unseen.note_read("a", Some(tainted(false, "3", false)), at(20));
    unseen.note_read("a", Some(tainted(false, "3", true)), at(20));
    assert!(is(&unseen));
    // Another node of that name is known for its own taint only.
    let mut other = Nodes::default();
    other.apply("a", tainted(true, "0", false), at(10));
    for ready in [true, false] {
        let uid = "another".into();
        other.apply(
            "a",
            tainted(ready, "1", true).but(|it| it.uid = uid),
            at(11),
        );
    }
    assert!(!is(&other));
    // Where its condition changed unseen, it may have been ready.
    nodes.note_read("a", Some(tainted(false, "4", true)), at(20));
    assert!(!is(&nodes));
    // An etcd that was restored brings taints back.
    nodes.distrust(at(20));
    nodes.apply("a", again, at(21));
    assert!(!is(&nodes));
    nodes.apply("a", tainted(false, "4", false), at(22));
    nodes.apply("a", tainted(false, "4", true), at(23));
    assert!(is(&nodes), "it is put on anew");
}

/// A kubelet may start pods before its node is ready (seed 1849 of the simulation).
#[rstest]
#[case::tainted(NodeState { out_of_service: true, ..node_state() })]
#[case::declared(NodeState {
    declared_empty: true,
    declaration: Some("now".into()),
    ..node_state()
})]
fn a_machine_that_was_booted_anew_is_fenced_no_more(
    #[case] fenced: NodeState,
    #[values("m", "")] machine: &str,
) {
    let is_fenced = |last: &str| {
        let mut nodes = Nodes::default();
        let on = |boot| booted(machine, boot, "").boot;
        let again = fenced.clone().but(|it| it.boot = on(last));
        let fenced = fenced.clone().but(|it| it.boot = on("1"));
        for state in [booted(machine, "1", ""), fenced, again] {
            nodes.apply("a", state.but(|it| it.ready = false), at(10));
        }
        nodes.standing("a", at(0), at(20)) == Standing::Fenced
    };
    assert!(is_fenced("1"));
    assert!(!is_fenced("2"));
}

// Standing

/// A ready node whose Lease is read each 10 s: it changes from `from` to `to`, then it does not.
fn worked(from: u64, to: u64, until: u64) -> Nodes {
    let mut nodes = nodes_with(&[("a", node_state())]);
    beat(&mut nodes, "a", from, to);
    for second in (to + 10..=until).step_by(10) {
        nodes.note_lease("a", Some(&to.to_string()), at(second), at(second));
    }
    nodes
}

/// A standing, of one that is alive only since when.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    Fenced,
    Gone(Moment),
    Alive(Moment),
    Listening,
    Silent,
}

impl From<Standing> for Seen {
    fn from(standing: Standing) -> Self {
        match standing {
            Standing::Fenced => Self::Fenced,
            Standing::Gone(since) => Self::Gone(since),
            Standing::Alive { since, .. } => Self::Alive(since),
            Standing::Listening => Self::Listening,
            Standing::Silent => Self::Silent,
        }
    }
}

fn standing(nodes: &Nodes, end: u64, now: u64) -> Seen {
    nodes.standing("a", at(end), at(now)).into()
}

#[rstest]
#[case::before_the_first_read(0, Seen::Alive(at(10)))]
#[case::before_the_first_change(5, Seen::Alive(at(25)))]
#[case::after_it(11, Seen::Alive(at(31)))]
#[case::long_after_it(95, Seen::Alive(at(115)))]
fn a_kubelet_at_work_is_alive_from_its_first_change_after_the_end(
    #[case] end: u64,
    #[case] alive: Seen,
) {
    // The first read shows no change: nobody knows when it was written.
    let nodes = worked(0, 100, 100);
    assert_eq!(standing(&nodes, end, 100), alive);
    // As long as nothing changes, neither does that.
    assert_eq!(standing(&nodes, end, 150), alive);
}

#[rstest]
#[case::never_read(nodes_with(&[("a", node_state())]), 1_000, Seen::Listening)]
#[case::read_once(worked(0, 0, 0), 5, Seen::Listening)]
#[case::read_for_less_than_a_minute(worked(0, 0, 50), 59, Seen::Listening)]
#[case::read_for_a_minute(worked(0, 0, 60), 60, Seen::Silent)]
#[case::a_minute_after_the_last_change(worked(0, 100, 160), 160, Seen::Alive(at(10)))]
#[case::later(worked(0, 100, 160), 161, Seen::Silent)]
#[case::later_and_not_read_since(worked(0, 100, 100), 161, Seen::Listening)]
#[case::silent_and_not_read_any_more(worked(0, 100, 200), 260, Seen::Listening)]
#[case::silent_and_read_just_now(worked(0, 100, 200), 259, Seen::Silent)]
fn silence_is_a_minute_of_reads_without_a_change(
    #[case] nodes: Nodes,
    #[case] now: u64,
    #[case] expected: Seen,
) {
    assert_eq!(standing(&nodes, 0, now), expected);
}

#[test]
fn a_node_without_a_lease_is_silent() {
    let mut nodes = nodes_with(&[("a", node_state())]);
    for second in (0..=60).step_by(10) {
        nodes.note_lease("a", None, at(second), at(second));
    }
    assert_eq!(standing(&nodes, 0, 60), Seen::Silent);
    // A kubelet that makes it anew is at work.
    nodes.note_lease("a", Some("1"), at(70), at(70));
    assert_eq!(standing(&nodes, 0, 70), Seen::Alive(at(70)));
    // One whose Lease was deleted wrote nothing.
    nodes.note_lease("a", None, at(80), at(80));
    assert_eq!(standing(&nodes, 75, 80), Seen::Alive(at(95)));
}

#[test]
fn a_state_that_says_the_same_again_breaks_nothing() {
    let mut nodes = worked(0, 100, 100);
    nodes.apply("a", node_state(), at(101));
    assert_eq!(standing(&nodes, 0, 101), Seen::Alive(at(10)));
}

#[test]
fn a_node_is_gone_from_its_removal_on() {
    let mut nodes = worked(0, 100, 100);
    nodes.remove("a", at(500));
    nodes.remove("a", at(600));
    nodes.note_lease("a", Some("x"), at(610), at(610));
    assert_eq!(standing(&nodes, 0, 700), Seen::Gone(at(500)));
    assert_eq!(standing(&nodes, 550, 700), Seen::Gone(at(550)));
    // Back, it is the same node.
    nodes.apply("a", node_state(), at(800));
    assert_eq!(standing(&nodes, 0, 800), Seen::Listening);
    nodes.apply("a", not_ready(), at(801));
    assert_eq!(standing(&nodes, 0, 801), Seen::Silent);
    // The reads of its Lease from before its removal count no more.
    nodes.apply("a", node_state(), at(802));
    nodes.note_lease("a", Some("y"), at(810), at(810));
    assert_eq!(standing(&nodes, 0, 810), Seen::Listening);
    nodes.note_lease("a", Some("z"), at(820), at(820));
    assert_eq!(standing(&nodes, 0, 820), Seen::Alive(at(820)));
}

#[test]
fn a_name_that_was_never_seen_is_gone_since_the_first_complete_list() {
    let mut nodes = Nodes::default();
    assert_eq!(standing(&nodes, 0, 1_000), Seen::Listening);
    nodes.apply("b", node_state(), at(1));
    assert_eq!(standing(&nodes, 0, 1_000), Seen::Listening);
    nodes.retain(|_| true, at(20));
    nodes.retain(|_| true, at(30));
    assert_eq!(standing(&nodes, 0, 1_000), Seen::Gone(at(20)));
    assert_eq!(standing(&nodes, 25, 1_000), Seen::Gone(at(25)));
}

// Renewals that come seldom, and answers that come late

/// A node whose Lease is read every ten seconds, and changes at these reads.
fn changing(changes: impl Fn(u64) -> bool, until: u64) -> Nodes {
    let mut nodes = nodes_with(&[("north", node_state())]);
    let mut version = 0;
    for second in (0..=until).step_by(10) {
        version += u64::from(changes(second));
        nodes.note_lease("north", Some(&version.to_string()), at(second), at(second));
    }
    nodes
}

#[test]
fn a_lease_that_changes_seldom_tells_later_but_within_a_silence() {
    let since = |changes: fn(u64) -> bool| {
        let nodes = changing(changes, 300);
        match nodes.standing("north", at(200), at(300)) {
            Standing::Alive { since, .. } => since,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(since(|second| second % 20 == 0), at(200 + 40));
    // The longest time between two changes counts, whenever it was: before or since the end.
    assert_eq!(since(|second| second != 50), at(200 + 40));
    assert_eq!(since(|second| second != 250), at(200 + 40));
    assert_eq!(since(|second| second % 50 == 0), at(200) + SILENCE);
}

#[test]
fn a_change_shown_by_a_slow_answer_is_as_old_as_the_request_and_begins_a_wait_when_it_is_answered()
{
    let slow = |nodes: &mut Nodes, asked, version: &str| {
        nodes.note_lease("north", Some(version), at(asked), at(asked + 8));
    };
    let mut nodes = changing(|_| false, 0);
    for asked in (10..=200).step_by(10) {
        slow(&mut nodes, asked, &asked.min(180).to_string());
    }
    let standing = nodes.standing("north", at(0), at(208));
    // Asked for at 10, the first change may have come at 18. The last one was
    // read by the request of 180: it is certain for 180, and not for 188.
    let (since, last) = (at(18), at(180));
    assert_eq!(standing, Standing::Alive { since, last });
    // Two of these answers are eighteen seconds apart at the most.
    let standing = nodes.standing("north", at(100), at(208));
    let since = at(100 + 2 * 18);
    assert_eq!(standing, Standing::Alive { since, last });
}
