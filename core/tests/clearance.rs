//! The evidence about rows from the ends of a podref's incarnations: the incarnation that answers for a row, and how
//! long each of them is waited for.

use crate::common::prelude::*;

/// When it is now, long after everything.
const NOW: u64 = 9_000;
/// W of an end on a node that is at work all the time.
const WATCHED_W: u64 = TWO_BEATS + W;

/// When this row goes, seen since the epoch, of a pod whose node is at work from the beginning.
fn free_time(
    row: &RowContent,
    incarnations: &[Arc<Ended>],
    rows: usize,
    policy: &Policy,
) -> (Grade, Moment) {
    let known = Known {
        rows,
        ..Known::of(incarnations)
            .seen(0)
            .on(working(&["node-1"], NOW))
    };
    let clearance = known.weigh(row, policy, NOW);
    let wait = clearance.wait;
    assert!(wait.is_timed(), "{wait:?}");
    (clearance.grade, wait.until.unwrap())
}

/// An incarnation that reported the row.
fn answering(second: u64, settled: bool) -> Arc<Ended> {
    ended(reporting(POD, "net1", "10.0.0.5"), second, settled)
}

/// One that did not.
fn silent(second: u64, settled: bool) -> Arc<Ended> {
    ended(pod(POD), second, settled)
}

fn unscheduled(second: u64, settled: bool) -> Arc<Ended> {
    let last = reporting(POD, "net1", "10.0.0.5").but(|it| it.node = None);
    ended(last, second, settled)
}

fn with_status(status: &str) -> Arc<Ended> {
    let last = pod(POD).but(|it| it.status = Status::parse(status));
    ended(last, 100, true)
}

fn slow(second: u64) -> Arc<Ended> {
    let last = pod(POD).but(|it| it.termination_grace = Some(secs(3000)));
    ended(last, second, false)
}

#[rstest]
#[case::settled(vec![answering(100, true)], Grade::Settled, 102)]
#[case::witnessed(vec![answering(100, false)], Grade::Witnessed, 100 + WATCHED_W)]
#[case::unreported(vec![silent(100, true)], Grade::Unwitnessed, 100 + W)]
#[case::other_interface(vec![ended(reporting(POD, "net2", "10.0.0.5"), 100, true)], Grade::Unwitnessed, 100 + W)]
#[case::other_address(vec![ended(reporting(POD, "net1", "10.0.0.6"), 100, true)], Grade::Unwitnessed, 100 + W)]
#[case::no_interface(vec![ended(reporting(POD, "", "10.0.0.5"), 100, true)], Grade::Unwitnessed, 100 + W)]
#[case::malformed_status(vec![with_status("[{")], Grade::Unwitnessed, 100 + W)]
#[case::a_later_one_without_a_report_adds_its_own_w(vec![answering(100, true), silent(150, true)], Grade::Witnessed, 150 + W)]
// A successor that adopted the row and ended well does not cut its predecessor's W.
#[case::a_forced_predecessor(vec![answering(100, false), answering(110, true)], Grade::Witnessed, 100 + WATCHED_W)]
#[case::a_forced_predecessor_that_did_not_report_it(vec![silent(100, false), answering(110, true)], Grade::Witnessed, 100 + WATCHED_W)]
#[case::a_predecessor_whose_w_is_over(vec![answering(100, false), answering(1000, true)], Grade::Witnessed, 1002)]
#[case::all_ended_well(vec![silent(90, true), answering(100, true), answering(110, true)], Grade::Settled, 112)]
#[case::the_last_wait_is_of_the_first(vec![slow(10), answering(100, false), answering(200, true)], Grade::Witnessed, 10 + TWO_BEATS + 120 + 3000 + 60)]
#[case::nobody(vec![], Grade::Unwitnessed, W)]
#[case::never_scheduled(vec![unscheduled(100, true), unscheduled(200, false)], Grade::Unwitnessed, W)]
#[case::never_scheduled_beside_another(vec![unscheduled(50, false), answering(100, true), unscheduled(1000, false)], Grade::Settled, 102)]
fn a_row_goes_by_the_ends_of_all_who_may_have_it(
    #[case] ends: Vec<Arc<Ended>>,
    #[case] grade: Grade,
    #[case] free: u64,
) {
    let free_time = free_time(&row_content(), &ends, 1, &Policy::default());
    assert_eq!(free_time, (grade, at(free)));
}

#[test]
fn a_row_without_an_interface_is_reported_by_nobody() {
    let row = row_content().but(|it| it.interface = None);
    let free = free_time(&row, &[answering(100, true)], 1, &Policy::default());
    assert_eq!(free, (Grade::Unwitnessed, at(100 + W)));
}

#[rstest]
#[case::one_row(Some(30), 1, 210)]
#[case::no_rows_count_as_one(Some(30), 0, 210)]
#[case::three_rows(Some(30), 3, 330)]
#[case::no_grace_at_all(Some(0), 1, 180)]
#[case::grace_unknown(None, 1, 210)]
#[case::six_hours(Some(21_600), 1, 21_780)]
fn w_is_grace_and_the_pods_own_and_one_budget_for_each_row(
    #[case] grace: Option<u64>,
    #[case] rows: usize,
    #[case] wait: u64,
) {
    assert_eq!(
        Policy::default().wait(grace.map(secs), Duration::ZERO, rows),
        secs(wait)
    );
}

#[test]
fn an_unknown_grace_is_capped_too() {
    let longest = |policy: &Policy, grace| policy.wait(None, secs(grace), 1);
    let policy = Policy::default();
    assert_eq!(longest(&policy, 21_600), secs(180 + 3600));
    assert_eq!(longest(&policy, 0), secs(180 + 30));
    let policy = policy.but(|it| it.max_pod_grace = Some(secs(5)));
    assert_eq!(longest(&policy, 21_600), secs(185));
    assert_eq!(
        policy.wait(Some(secs(21_600)), Duration::ZERO, 1),
        secs(185)
    );
}

#[test]
fn expected_rows_are_the_reported_or_the_requested_whichever_are_more() {
    let mut last = PodState {
        status: status(&[("net1", &["10.0.0.5", "fd00::5"]), ("net2", &[])]),
        request: Request::parse("a,b,c", "default"),
        ..pod(POD)
    };
    assert_eq!(ended(last.clone(), 0, true).expected_rows(), 3);
    last.request = Request::parse("a", "default");
    assert_eq!(ended(last.clone(), 0, true).expected_rows(), 2);
    last.request = Request::parse("a,,b", "default");
    last.status = Status::parse("{");
    assert_eq!(ended(last, 0, true).expected_rows(), 0);
}

proptest! {
    #[test]
    fn nothing_is_freed_before_the_w_of_any_doubtful_incarnation(
        history in any_history(),
        rows in 0usize..10,
    ) {
        let policy = Policy::default();
        let (grade, free) = free_time(&row_content(), &history, rows, &policy);
        for e in history.iter().filter(|e| e.last.node.is_some()) {
            let wait = policy.wait(e.last.termination_grace, Duration::ZERO, rows);
            let least = if e.settled { policy.cooldown } else { wait };
            prop_assert!(free >= e.at + least);
            if e.last.mirror {
                prop_assert!(free >= e.at + policy.leftover_grace);
            }
        }
        if grade == Grade::Settled {
            let last = history.iter().rfind(|e| e.last.node.is_some());
            prop_assert!(last.is_some_and(|e| e.settled && e.reported(&row_content())));
        }
        prop_assert_eq!(
            grade == Grade::Unwitnessed,
            !history.iter().any(|e| e.last.node.is_some() && e.reported(&row_content()))
        );
    }

    #[test]
    fn no_row_is_free_before_the_first_look_at_any_of_its_incarnations(
        history in any_history(),
        more in 0usize..5,
    ) {
        let policy = Policy::default();
        let rows = history.iter().map(|e| e.expected_rows()).max().unwrap_or(0) + more;
        let (_, free) = free_time(&row_content(), &history, rows, &policy);
        for e in history.iter().filter(|e| e.last.node.is_some()) {
            prop_assert!(e.first_look(&policy) <= free);
        }
    }
}
