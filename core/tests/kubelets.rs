//! From when on a kubelet counts as at work, and that it must be seen to have lived through W.

use ipgc_core::node::SILENCE;

use crate::common::prelude::*;

const W: Duration = Duration::from_secs(180);

/// A node whose Lease is read every ten seconds, and changes at these reads.
fn node(changes: impl Fn(u64) -> bool, until: u64) -> Nodes {
    let mut nodes = nodes_with(&[("north", node_state())]);
    let mut version = 0;
    for second in (0..=until).step_by(10) {
        version += u64::from(changes(second));
        nodes.hear("north", Some(&version.to_string()), at(second), at(second));
    }
    nodes
}

#[test]
fn a_change_that_may_be_older_than_the_end_does_not_begin_the_wait() {
    let nodes = node(|_| true, 200);
    let since = |end| match nodes.standing("north", at(end), at(200)) {
        Standing::Alive { since, .. } => since,
        other => panic!("{other:?}"),
    };
    // The first change that was seen came between 0 and 10.
    assert_eq!(since(0), at(10));
    assert_eq!(since(5), at(5 + 20));
    assert_eq!(since(100), at(100 + 20));
}

#[test]
fn a_lease_that_changes_seldom_tells_later_but_within_a_silence() {
    let since = |changes: fn(u64) -> bool| {
        let nodes = node(changes, 300);
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
fn the_last_change_is_told_so_that_a_kubelet_that_died_within_its_wait_is_no_evidence() {
    let nodes = node(|second| second <= 150, 190);
    let standing = nodes.standing("north", at(0), at(190));
    let (since, last) = (at(10), at(150));
    assert_eq!(standing, Standing::Alive { since, last });
}

#[test]
fn a_suspect_blocks_until_it_was_seen_at_work_for_the_whole_wait() {
    let blocked = |last_change: u64, now: u64| {
        let mut nodes = node(|_| true, 100);
        nodes.gap(at(100));
        nodes.suspect(["north"], at(100));
        for second in (110..=now).step_by(10) {
            let version = second.min(last_change).to_string();
            nodes.hear("north", Some(&version), at(second), at(second));
        }
        nodes.blockers(None, W, at(now))
    };
    // It was at work before the gap: of the next two changes one comes after it.
    let over = 100 + 20 + 180;
    let looked_for = |then| Some(Wait::Until(at(then)));
    assert_eq!(blocked(1_000, 290), looked_for(over));
    assert_eq!(blocked(1_000, over), None);
    assert_eq!(
        blocked(290, over),
        looked_for(over + 5),
        "it fell silent before"
    );
    assert_eq!(blocked(290, 400), Some(Wait::For(["north".into()].into())));
}

#[test]
fn a_change_shown_by_a_slow_answer_is_as_old_as_the_request_and_begins_a_wait_when_it_is_answered()
{
    let slow = |nodes: &mut Nodes, asked, version: &str| {
        nodes.hear("north", Some(version), at(asked), at(asked + 8));
    };
    let mut nodes = node(|_| false, 0);
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

#[test]
fn a_kubelet_that_died_while_its_wait_ended_is_no_evidence_however_late_the_answer_comes() {
    let mut nodes = node(|_| true, 100);
    nodes.gap(at(100));
    nodes.suspect(["north"], at(100));
    let mut blocked = |asked: u64| {
        let (version, answered) = (asked.to_string(), at(asked + 8));
        nodes.hear("north", Some(&version), at(asked), answered);
        nodes.blockers(None, W, answered).is_some()
    };
    // Two changes are eighteen seconds apart at the most, and the second one comes after the gap.
    let over = 100 + 2 * 18 + 180;
    // The last of these is asked for before the wait is over, and answered after it.
    let asked = (110..over).step_by(10);
    for asked in asked {
        assert!(blocked(asked), "asked for at {asked}");
    }
    assert!(!blocked(320));
}
