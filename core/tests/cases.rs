//! When each case is looked at next, and how cases of a pool gather.

use ipgc_core::{
    cases::{CaseKey, Cases, Next, Outcome},
    fact::Fact,
    lanes::Lanes,
    work::{Wanted, Work},
};

use crate::common::prelude::*;

const SECOND: Duration = Duration::from_secs(1);

fn key(pool: &str, owner: &str) -> CaseKey {
    let owner = format!("d/{owner}").parse().unwrap();
    (pool_key("kube-system", pool), owner)
}

fn orphan(name: &str) -> Work {
    Work {
        orphans: [name.to_owned()].into(),
        ..Work::default()
    }
}

/// All owners that are due, which are in flight from then on.
fn begin(cases: &mut Cases, now: Moment) -> Vec<(CaseKey, Work)> {
    let mut begun = Vec::new();
    while let Some(key) = cases.take_due(now) {
        begun.push(((*key).clone(), cases.begin(&key).unwrap()));
    }
    begun
}

/// Ends a turn without more work, and without another try.
fn end_turn(cases: &mut Cases, key: &CaseKey, outcome: Outcome, at: Moment) -> Next {
    end_turn_with(cases, key, Work::default(), outcome, at)
}

/// The same with its work.
fn end_turn_with(
    cases: &mut Cases,
    key: &CaseKey,
    work: Work,
    outcome: Outcome,
    at: Moment,
) -> Next {
    cases.end_turn(key, work, outcome, &|_| None, at)
}

fn one() -> (Cases, CaseKey) {
    let (mut cases, key) = (Cases::default(), key("a", "web-0"));
    cases.open(key.clone(), at(1), Work::default());
    (cases, key)
}

/// The same, looked at, and waiting until 60.
fn waiting() -> (Cases, CaseKey) {
    let (mut cases, key) = one();
    begin(&mut cases, at(1));
    end_turn(&mut cases, &key, Outcome::not_before(at(60)), at(2));
    (cases, key)
}

/// A reservation that was marked.
fn marked(key: &CaseKey) -> Wanted {
    Wanted {
        row: RowContent {
            address: "10.0.0.1".parse().unwrap(),
            sandbox: "s".into(),
            podref: key.1.clone(),
            interface: None,
        }
        .into(),
        networks: Arc::default(),
        name_may_return: true,
        fact: Fact::Absent,
    }
}

/// The pod's next incarnation took the address over without a row, and its sandbox may run on.
#[rstest]
#[case::whose_sandbox_may_run_on("second", "10.0.0.1", false, 0)]
#[case::that_settled("second", "10.0.0.1", true, 1)]
#[case::with_another_address("second", "10.0.0.2", false, 0)]
#[case::that_reported_nothing("second", "", false, 0)]
#[case::that_is_known("first", "10.0.0.1", false, 1)]
#[case::that_was_completed("completed", "10.0.0.1", false, 1)]
fn what_was_marked_is_judged_anew_after_the_end_of_another_incarnation(
    #[case] uid: &str,
    #[case] address: &str,
    #[case] settled: bool,
    #[case] left: usize,
) {
    let (_, key) = one();
    let of = |uid: &str, address: &str, settled| {
        let state = if address.is_empty() {
            pod(POD)
        } else {
            reporting(POD, "net1", address)
        };
        let state = state.but(|it| it.uid = uid.into());
        Work {
            ended: vec![ended(state, 5, settled)],
            ..Work::default()
        }
    };
    let mut work = of("first", "10.0.0.1", false);
    work.wanted = vec![Wanted {
        fact: Fact::Completed("completed".into()),
        networks: Arc::new([None].into()),
        ..marked(&key)
    }];
    work.add(of(uid, address, settled));
    assert_eq!(work.wanted.len(), left);
    assert_eq!(work.orphans.is_empty(), left == 1);
}

#[test]
fn a_case_that_waits_is_brought_forward_and_never_put_off() {
    let (mut cases, key) = waiting();
    cases.open(key.clone(), at(90), Work::default());
    assert_eq!(cases.next_due(), Some(at(60)));
    cases.open(key, at(30), Work::default());
    assert_eq!(cases.next_due(), Some(at(30)));
}

/// Each sweep finds again what waits.
#[test]
fn what_a_sweep_finds_again_waits_for_its_own_time() {
    let (mut cases, key) = waiting();
    cases.find(key.clone(), at(10), Work::default());
    assert_eq!(cases.next_due(), Some(at(60)));
    cases.find(key.clone(), at(10), orphan("10.0.0.1"));
    assert_eq!(
        cases.next_due(),
        Some(at(10)),
        "a reservation that was not known"
    );
    let (_, work) = begin(&mut cases, at(10)).remove(0);
    end_turn_with(&mut cases, &key, work, Outcome::not_before(at(60)), at(11));
    cases.find(key, at(20), orphan("10.0.0.1"));
    assert_eq!(cases.next_due(), Some(at(60)));
}

/// A claim without an end looks like a reservation without a row.
#[test]
fn a_reservation_that_is_being_released_is_no_news() {
    let (mut cases, key) = one();
    let (_, mut work) = begin(&mut cases, at(1)).remove(0);
    work.wanted.push(marked(&key));
    cases.find(key.clone(), at(2), orphan("10.0.0.1"));
    end_turn_with(&mut cases, &key, work, Outcome::not_before(at(60)), at(3));
    cases.find(key.clone(), at(4), orphan("10.0.0.1"));
    assert_eq!(cases.next_due(), Some(at(60)));
    cases.find(key, at(5), orphan("10.0.0.2"));
    assert_eq!(cases.next_due(), Some(at(5)), "another one");
}

#[test]
fn a_reservation_that_is_found_while_the_case_is_in_flight_is_looked_at_after_that() {
    let (mut cases, key) = one();
    begin(&mut cases, at(1));
    cases.find(key.clone(), at(2), orphan("10.0.0.1"));
    end_turn(&mut cases, &key, Outcome::default(), at(3));
    assert_eq!(begin(&mut cases, at(3)).len(), 1);
    cases.find(key.clone(), at(4), Work::default());
    end_turn(&mut cases, &key, Outcome::default(), at(5));
    assert_eq!(cases.count(), 0);
}

#[test]
fn a_case_that_is_given_up_still_waits_for_its_other_rows() {
    let (mut cases, key) = one();
    begin(&mut cases, at(1));
    let failed = Outcome::retry("no answer".to_owned(), Duration::ZERO);
    let both = failed.and(Outcome::not_before(at(60)));
    let next = end_turn_with(&mut cases, &key, Work::default(), both, at(2));
    assert_eq!((next, cases.next_due()), (Next::GivenUp, Some(at(60))));
}

fn nodes(names: &[&str]) -> Arc<[Box<str>]> {
    names.iter().map(|name| Box::from(*name)).collect()
}

/// Else the return of each of a thousand nodes would wake all rows that wait for the others.
#[test]
fn each_row_watches_one_of_its_nodes_and_all_of_them_are_watched() {
    let nodes = ["a", "b", "c"].map(Box::from);
    let mut watched = [0; 3];
    for key in 0..300 {
        let outcome = Outcome::for_nodes(&nodes, &key.to_string(), None);
        assert_eq!(outcome.nodes.len(), 1);
        for (watched, node) in watched.iter_mut().zip(&nodes) {
            *watched += usize::from(outcome.nodes[0] == *node);
        }
    }
    assert!(
        watched.iter().all(|rows| (60..140).contains(rows)),
        "{watched:?}"
    );
}

/// How many cases each batch has that begins.
fn batches(lanes: &mut Lanes, now: Moment, next_due: Option<Moment>) -> Vec<usize> {
    let ready = lanes.ready(now, next_due).into_iter();
    ready.map(|(_, cases)| cases.len()).collect()
}

fn add(lanes: &mut Lanes, pool: &str, owner: &str, now: Moment) {
    lanes.add(Arc::new(key(pool, owner)), now);
}

#[test]
fn cases_that_are_about_to_be_due_are_waited_for_until_there_are_enough_or_the_beat_is_over() {
    for (enough, begins) in [(false, 20), (true, 10)] {
        let mut lanes = Lanes::default();
        add(&mut lanes, "a", "web", at(8));
        assert_eq!(batches(&mut lanes, at(8), None), [1]);
        lanes.done(&key("a", "web").0, Duration::ZERO, at(9));
        let owners = if enough { 250 } else { 249 };
        for owner in 0..owners {
            add(&mut lanes, "a", &format!("web-{owner}"), at(9));
        }
        let begun = (0..200).find_map(|step| {
            let now = at(10) + step * SECOND / 10;
            let batches = batches(&mut lanes, now, Some(now + SECOND / 4));
            (!batches.is_empty()).then_some((now, batches))
        });
        assert_eq!(begun, Some((at(begins), vec![owners])));
    }
}

#[test]
fn a_lane_without_cases_is_forgotten() {
    let mut lanes = Lanes::default();
    add(&mut lanes, "a", "web-0", at(1));
    assert_eq!(batches(&mut lanes, at(1), None), [1]);
    let pool = key("a", "web-0").0;
    lanes.done(&pool, Duration::ZERO, at(2));
    assert!(batches(&mut lanes, at(3), None).is_empty());
    assert_eq!(lanes.next(), None);
    add(&mut lanes, "a", "web-1", at(4));
    assert_eq!(batches(&mut lanes, at(4), None), [1]);
    assert_eq!(lanes.next(), None, "the second batch is at work");
}

#[test]
fn a_row_goes_anyway_unless_it_waits_with_one_that_does_not() {
    let node = nodes(&["a"]);
    let moment = Outcome::not_before(Moment::EPOCH);
    let sooner = Outcome::not_before_or_fenced(Moment::EPOCH, Arc::clone(&node));
    let held = Outcome::for_nodes(&node, "1", Some(Moment::EPOCH));
    let goes = |outcome: Outcome| outcome.goes_anyway;
    for (one, other, expected) in [
        (&moment, &sooner, true),
        (&sooner, &sooner, true),
        (&moment, &held, false),
        (&sooner, &held, false),
    ] {
        assert_eq!(goes(one.clone().and(other.clone())), expected);
        assert_eq!(goes(other.clone().and(one.clone())), expected);
    }
}
