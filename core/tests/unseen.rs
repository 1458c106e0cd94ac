//! The waits for incarnations that were never seen, and for nodes: every grade of evidence, the flags that shorten a
//! wait, and the cost of a watch that is not heard.

use ipgc_core::clearance::look_again;

use crate::common::prelude::*;

/// The conclusion of all evidence about 10.0.0.5 of an absent pod.
fn weigh(known: &Known, policy: &Policy, now: u64) -> Clearance {
    known.weigh(&row_content(), policy, now)
}

#[rstest]
#[case::its_node_is_gone(no_nodes(), W)]
#[case::its_node_is_at_work(working(&["node-1"], END), TWO_BEATS + W)]
fn a_grace_that_is_not_known_is_thirty_seconds_at_least(
    #[case] nodes: Nodes,
    #[case] wait: u64,
    #[values(true, false)] is_seen: bool,
) {
    let last = reporting(POD, "net1", "10.0.0.5").but(|it| it.termination_grace = None);
    let mut known = Known::of(&[ended(last, END, false)])
        .on(nodes)
        .but(|it| it.longest_grace = Duration::ZERO);
    if is_seen {
        known = known.seen(0);
    }
    let clearance = weigh(&known, &Policy::default(), END);
    assert_eq!(clearance.wait, until(END + wait));
}

/// One that was seen first long after the end may be of a successor, which wrote it a moment ago.
#[rstest]
#[case::seen_late(5, false, true, 7)]
#[case::seen_at_the_end(0, false, true, 2)]
#[case::its_writer_was_seen_alive_with_it(5, true, true, 2)]
#[case::the_name_never_returns(5, false, false, 2)]
fn whoever_wrote_the_row_has_been_shown_by_the_watch_before_it_goes(
    #[case] seen: u64,
    #[case] bore: bool,
    #[case] name_may_return: bool,
    #[case] wait: u64,
) {
    let end = but(&reported(true), |end| {
        end.last.name_may_return = name_may_return;
        if bore {
            end.sandboxes.note(tag(1), at(20));
        }
    });
    let known = Known::of(&[end]).seen(END + seen);
    let known = known.on(working(&["node-1"], END + 5));
    let clearance = weigh(&known, &Policy::default(), END + 5);
    assert_eq!(clearance.wait, until(END + wait));
}

#[test]
fn a_node_that_nobody_has_listened_to_yet_holds_its_rows_even_where_w_is_nothing() {
    let none = Duration::ZERO;
    let policy = Policy {
        cooldown: none,
        grace: none,
        max_pod_grace: Some(none),
        del_budget: none,
        ..Policy::default()
    };
    let known = Known::of(&[ended(reporting(POD, "net1", "10.0.0.5"), 100, false)])
        .on(nodes_with(&[("node-1", node_state())]));
    let clearance = weigh(&known, &policy, 200);
    assert_eq!(clearance.wait, Wait::until(at(200) + look_again(none)));
}

#[rstest]
#[case::one_that_reported([true, true], [true, true], true)]
#[case::one_before_it([true, true], [false, true], true)]
#[case::one_after_it([true, false], [true, false], false)]
#[case::the_one_itself([true, true], [true, false], false)]
#[case::nobody_who_reported([false, false], [true, true], true)]
#[case::nobody_who_reported_and_one_unwatched([false, false], [false, true], false)]
fn an_end_is_watched_where_that_of_all_who_may_have_the_row_is(
    #[case] reported: [bool; 2],
    #[case] watched: [bool; 2],
    #[case] all: bool,
) {
    let end = |i: usize| {
        let last = if reported[i] {
            reporting(POD, "net1", "10.0.0.5")
        } else {
            pod(POD)
        };
        but(&ended(last, 100, true), |end| end.watched = watched[i])
    };
    let known = Known::of(&[end(0), end(1)]).seen(0);
    assert_eq!(weigh(&known, &Policy::default(), 100).watched, all);
}

// The grades and their waits

const END: u64 = 100;
/// The W of an incarnation that was never seen, while some pod may take five minutes.
const UNSEEN_W: u64 = 120 + 300 + 60;

fn reported(settled: bool) -> Arc<Ended> {
    ended(reporting(POD, "net1", "10.0.0.5"), END, settled)
}

/// One that did not report the row.
fn other(settled: bool) -> Arc<Ended> {
    ended(pod(POD), END, settled)
}

/// Node-1 in this state, its Lease read up to 1000, when it is now; `works`: changing all the time.
fn node(state: NodeState, works: bool) -> Nodes {
    let mut nodes = nodes_with(&[("node-1", state)]);
    if works {
        beat(&mut nodes, "node-1", 0, 1_000);
    } else {
        hear_nothing(&mut nodes, "node-1", 0, 1_000);
    }
    nodes
}

#[rstest]
#[case::settled(reported(true), node(node_state(), true), Grade::Settled, until(END + 2))]
#[case::settled_on_a_silent_node(reported(true), node(not_ready(), false), Grade::Settled, until(END + 2))]
#[case::fenced(reported(false), node(fenced(), false), Grade::Fenced, until(END))]
#[case::gone(reported(false), no_nodes(), Grade::Fenced, until(END + W))]
#[case::witnessed(reported(false), node(node_state(), true), Grade::Witnessed, until(END + TWO_BEATS + W))]
#[case::not_listened(reported(false), nodes_with(&[("node-1", node_state())]), Grade::Witnessed, until(1_000 + W))]
#[case::nodes_not_known(reported(false), Nodes::default(), Grade::Witnessed, until(1_000 + W))]
#[case::not_ready(reported(false), node(not_ready(), true), Grade::Unfenced, waits_for(&["node-1"]))]
#[case::silent(reported(false), node(node_state(), false), Grade::Unfenced, waits_for(&["node-1"]))]
#[case::fenced_while_ready(reported(false), node(NodeState { out_of_service: true, ..node_state() }, false), Grade::Unfenced, waits_for(&["node-1"]))]
#[case::unreported(
    other(true),
    node(node_state(), true),
    Grade::Unwitnessed,
    until(UNSEEN_W)
)]
#[case::unreported_on_a_silent_node(other(false), node(not_ready(), true), Grade::Unfenced, waits_for(&["node-1"]))]
fn each_grade_has_its_wait(
    #[case] end: Arc<Ended>,
    #[case] nodes: Nodes,
    #[case] grade: Grade,
    #[case] wait: Wait,
) {
    let known = Known::of(&[end])
        .seen(0)
        .on(nodes)
        .but(|it| it.longest_grace = secs(300));
    let clearance = weigh(&known, &Policy::default(), 1_000);
    assert_eq!((clearance.grade, clearance.wait), (grade, wait));
}

#[test]
fn one_unfenced_incarnation_holds_the_rows_of_all() {
    let elsewhere =
        |node: &str, settled| but(&reported(settled), |end| end.last.node = Some(node.into()));
    let mut nodes = nodes_with(&[
        ("a", not_ready()),
        ("b", not_ready()),
        ("node-1", node_state()),
    ]);
    beat(&mut nodes, "node-1", 0, 1_000);
    for (ends, names) in [
        (vec![elsewhere("a", false), reported(true)], vec!["a"]),
        (vec![reported(true), elsewhere("a", false)], vec!["a"]),
        (
            vec![elsewhere("b", false), reported(true), elsewhere("a", false)],
            vec!["a", "b"],
        ),
        (
            vec![elsewhere("a", false), elsewhere("a", false)],
            vec!["a"],
        ),
    ] {
        let known = Known::of(&ends).seen(0).on(nodes.clone());
        let clearance = weigh(&known, &Policy::default(), 1_000);
        assert_eq!(clearance.wait, waits_for(&names));
        assert_eq!(clearance.grade, Grade::Unfenced);
    }
    // A settled end is one wherever it was.
    let known = Known::of(&[elsewhere("a", true), reported(true)]).on(nodes);
    assert_eq!(
        weigh(&known, &Policy::default(), 1_000).grade,
        Grade::Settled
    );
}

// Incarnations that were never seen

/// Node "old" existed when the watch began at 0, and is in this state; so is node-1, at work.
fn suspect(state: NodeState) -> Nodes {
    let mut nodes = nodes_with(&[("old", node_state()), ("node-1", node_state())]);
    nodes.gap(at(0));
    nodes.suspect(["old", "node-1"], at(0));
    nodes.apply("old", state, at(10));
    beat(&mut nodes, "node-1", 0, 1_000);
    nodes
}

fn forever() -> Option<u64> {
    None
}

#[rstest]
#[case::nobody_blocks(suspect(fenced()), None, forever(), until(50 + W))]
#[case::a_node_blocks(suspect(not_ready()), None, forever(), waits_for(&["old"]))]
#[case::not_beyond_the_hold(suspect(not_ready()), None, Some(5_000), at_most("old", 50 + 5_000))]
#[case::w_is_the_least(suspect(not_ready()), None, Some(1), at_most("old", 50 + W))]
#[case::another_nodes_slice(suspect(not_ready()), Some("node-1"), forever(), until(50 + W))]
#[case::its_slice(suspect(not_ready()), Some("old"), forever(), waits_for(&["old"]))]
#[case::nodes_not_known(Nodes::default(), None, forever(), waits_for(&[]))]
#[case::nodes_not_known_whatever_the_hold(Nodes::default(), None, Some(1), waits_for(&[]))]
fn a_row_of_nobody_waits_for_blocking_nodes(
    #[case] nodes: Nodes,
    #[case] slice: Option<&str>,
    #[case] hold: Option<u64>,
    #[case] wait: Wait,
) {
    let policy = Policy::default().but(|it| it.unwitnessed_hold = hold.map(secs));
    let known = Known::default()
        .seen(50)
        .absent(50)
        .on(nodes)
        .but(|it| it.slice = slice.map(Into::into));
    let clearance = weigh(&known, &policy, 1_000);
    assert_eq!(
        (clearance.grade, clearance.wait),
        (Grade::Unwitnessed, wait)
    );
}

#[rstest]
#[case::later_than_the_wait(forever(), until(200 + W))]
#[case::not_beyond_the_hold(Some(W + 10), until(50 + W + 10))]
#[case::a_long_hold(Some(1_000), until(200 + W))]
fn a_node_that_blocks_for_a_while_is_waited_for(#[case] hold: Option<u64>, #[case] wait: Wait) {
    let mut nodes = suspect(node_state());
    nodes.remove("old", at(200));
    let policy = Policy::default().but(|it| it.unwitnessed_hold = hold.map(secs));
    let known = Known::default().seen(50).absent(50).on(nodes);
    assert_eq!(weigh(&known, &policy, 210).wait, wait);
}

/// The pod may have been there all the time, unseen, and may have been deleted by force a moment ago.
#[rstest]
#[case::not_asked(None, until(1_000 + W))]
#[case::there_until_then(Some(900), until(900 + W))]
fn the_wait_for_a_pod_that_no_watch_showed_begins_with_the_proof_that_it_is_absent(
    #[case] absent: Option<u64>,
    #[case] wait: Wait,
) {
    let known = Known::default().seen(50).on(suspect(fenced()));
    let known = match absent {
        Some(second) => known.absent(second),
        None => known,
    };
    assert_eq!(weigh(&known, &Policy::default(), 1_000).wait, wait);
}

/// The doubts that remain although the incarnation that answers for the row settled at 100.
#[rstest]
#[case::nothing(None, None, false, Grade::Settled, until(END + 2))]
#[case::listed(Some(50), None, false, Grade::Witnessed, until(50 + W))]
#[case::listed_and_seen_with_its_id(Some(50), None, true, Grade::Witnessed, until(50 + W))]
#[case::gap(None, Some(300), false, Grade::Witnessed, until(300 + W))]
#[case::gap_and_seen_with_its_id(None, Some(300), true, Grade::Witnessed, until(300 + W))]
#[case::both(Some(50), Some(300), false, Grade::Witnessed, until(300 + W))]
#[case::both_and_seen_with_its_id(Some(150), Some(300), true, Grade::Witnessed, until(300 + W))]
fn a_list_and_a_gap_leave_doubts(
    #[case] listed: Option<u64>,
    #[case] gap: Option<u64>,
    #[case] bore: bool,
    #[case] grade: Grade,
    #[case] wait: Wait,
) {
    let now = gap.unwrap_or(120);
    let end = but(&reported(true), |end| {
        end.listed_at = listed.map(at);
        end.gap_at = gap.map(at);
        if bore {
            end.sandboxes.note(tag(1), at(20));
        }
    });
    let known = Known::of(std::slice::from_ref(&end)).seen(0);
    let clearance = weigh(&known, &Policy::default(), now);
    assert_eq!((clearance.grade, clearance.wait), (grade, wait.clone()));
    // A doubt that is over takes nothing from the evidence.
    let over = weigh(&known, &Policy::default(), 300 + W);
    assert_eq!((over.grade, over.wait), (Grade::Settled, until(END + 2)));
    // Such a doubt waits for nodes too, but not with names that never return.
    let doubtful = known.clone().on(suspect(not_ready()));
    let clearance = weigh(&doubtful, &Policy::default(), now);
    if grade == Grade::Settled {
        assert_eq!(clearance.wait, wait);
    } else {
        assert_eq!(clearance.wait, waits_for(&["old"]));
    }
    let never = but(&end, |end| end.last.name_may_return = false);
    let known = doubtful.but(|it| it.ended = vec![never]);
    let clearance = weigh(&known, &Policy::default(), now);
    assert_eq!(clearance.wait, until(END + 2));
    assert_eq!(clearance.grade, Grade::Settled);
}

#[test]
fn names_that_never_return_wait_for_their_own_end_only() {
    let never = but(&other(false), |end| end.last.name_may_return = false);
    let known = Known::of(&[never])
        .seen(900)
        .on(suspect(not_ready()))
        .but(|it| it.fresh = false);
    let clearance = weigh(&known, &Policy::default(), 1_000);
    assert_eq!(clearance.wait, until(END + TWO_BEATS + W));
    // One of several that may is enough.
    let known = known.but(|it| it.ended.push(other(true)));
    let clearance = weigh(&known, &Policy::default(), 1_000);
    assert_eq!(clearance.wait, waits_for(&["old"]));
}

#[test]
fn one_that_may_have_been_scheduled_unseen_counts() {
    let unscheduled = but(&other(false), |end| end.last.node = None);
    let settled = but(&reported(true), |end| end.at = at(50));
    for (end, wait) in [
        (unscheduled.clone(), until(52)),
        (
            but(&unscheduled, |end| end.gap_at = Some(at(90))),
            until(END + W),
        ),
        (
            but(&unscheduled, |end| end.listed_at = Some(at(90))),
            until(END + W),
        ),
    ] {
        let known = Known::of(&[settled.clone(), end]).seen(0);
        assert_eq!(weigh(&known, &Policy::default(), 100).wait, wait);
    }
}

// The memory of one incarnation about its rows

#[rstest]
#[case::long_before(20, true)]
#[case::as_long_as_the_watch_may_lag(97, true)]
#[case::too_late(98, false)]
#[case::at_the_end(100, false)]
fn a_row_was_borne_when_it_was_seen_before_the_watch_could_lag(
    #[case] second: u64,
    #[case] bore: bool,
) {
    let end = but(&reported(true), |end| {
        end.sandboxes.note(tag(1), at(second));
    });
    assert_eq!(end.bore(&row_content(), secs(2)), bore);
    let adopted = row_content().but(|it| it.sandbox = "f".repeat(64).into());
    assert!(!end.bore(&adopted, secs(2)));
}

#[test]
fn the_first_sandbox_and_the_last_are_remembered_from_their_first_sighting_on() {
    let tag = |c: &str| IdTag::of(&c.repeat(64)).unwrap();
    let mut seen = Sandboxes::default();
    for (id, second) in [("a", 10), ("b", 20), ("a", 30), ("b", 40)] {
        seen.note(tag(id), at(second));
    }
    // Rounded up: it was seen no later than that.
    assert!(!seen.had(tag("a"), at(10)) && seen.had(tag("a"), at(11)));
    assert!(!seen.had(tag("b"), at(20)) && seen.had(tag("b"), at(21)));
    seen.note(tag("c"), at(50));
    let tags: Vec<_> = seen.tags().collect();
    assert_eq!(tags, [tag("a"), tag("c")]);
    seen.forget_after(at(30));
    let tags: Vec<_> = seen.tags().collect();
    assert_eq!(tags, [tag("a")]);
}

#[rstest]
#[case("0", 64, true)]
#[case("f", 64, true)]
#[case("g", 64, false)]
#[case("0", 63, false)]
#[case("0", 65, false)]
#[case("", 0, false)]
#[case("ipamclaim-of-a-vm", 1, false)]
fn a_tag_is_of_a_sandbox_id(#[case] id: &str, #[case] times: usize, #[case] is_one: bool) {
    assert_eq!(IdTag::of(&id.repeat(times)).is_some(), is_one);
}

// Clearances

/// The nodes of both, and a moment only where both have one; and the worse grade.
#[rstest]
#[case(until(5), until(9), until(9))]
#[case(until(5), at_most("a", 3), at_most("a", 5))]
#[case(at_most("a", 7), until(5), at_most("a", 7))]
#[case(at_most("b", 7), at_most("a", 5), Wait { until: Some(at(7)), ..waits_for(&["a", "b"]) })]
#[case(at_most("b", 7), waits_for(&["a"]), waits_for(&["a", "b"]))]
#[case(waits_for(&["a"]), until(5), waits_for(&["a"]))]
#[case(waits_for(&["b"]), waits_for(&["a", "b"]), waits_for(&["a", "b"]))]
#[case(waits_for(&[]), waits_for(&["a"]), waits_for(&["a"]))]
fn of_two_clearances_both_count(#[case] a: Wait, #[case] b: Wait, #[case] both: Wait) {
    let clearance = |grade, wait, watched| Clearance {
        grade,
        wait,
        watched,
        ..Clearance::certain(at(0))
    };
    let a = clearance(Grade::Settled, a, true);
    let b = clearance(Grade::Fenced, b, false);
    let expected = clearance(Grade::Fenced, both, false);
    assert_eq!(a.clone().and(b.clone()), expected);
    assert_eq!(b.and(a), expected);
}

#[test]
fn a_clearance_is_put_off_to_a_later_moment_alone() {
    let early = Clearance::certain(at(5));
    assert_eq!(early.clone().not_before(at(4)), early);
    assert_eq!(early.not_before(at(6)).wait, until(6));
}

#[test]
fn a_first_look_comes_at_once_where_the_name_may_return_and_no_row_was_seen() {
    let end = reported(false);
    assert_eq!(end.first_look(&Policy::default()), at(END));
    let never = but(&end, |end| end.last.name_may_return = false);
    assert_eq!(never.first_look(&Policy::default()), at(END + 2));
    let seen = but(&end, |end| {
        end.sandboxes.note(tag(1), at(20));
    });
    assert_eq!(seen.first_look(&Policy::default()), at(END + 2));
    assert_eq!(reported(false).last.podref.as_str(), POD);
}

#[test]
fn grades_are_ordered_and_named() {
    let grades = [
        Grade::Settled,
        Grade::Fenced,
        Grade::Witnessed,
        Grade::Unwitnessed,
        Grade::Unfenced,
    ];
    assert!(grades.is_sorted());
    let names = ["settled", "fenced", "witnessed", "unwitnessed", "unfenced"];
    assert_eq!(grades.map(Grade::as_str), names);
}
