//! The lines of changes between two looks: each difference is told once, as what it is.

#![allow(clippy::unwrap_used)]
use proptest::{collection::btree_map, option, prelude::*};
use rstest::rstest;

use super::*;

fn row(key: u8) -> String {
    format!("row pool {key}")
}

fn kept(verdict: &str, why: &str, pod: &str) -> Entry {
    let mut finding = Finding::new(Problem::Nothing, why);
    finding.address = Some("10.0.0.1".to_owned());
    finding.pods = vec![pod.to_owned()];
    let mut entry = Entry::new("before".into(), verdict.to_owned(), finding);
    entry.line.node = Some("n1".to_owned());
    entry.chosen = true;
    entry
}

fn live() -> Entry {
    kept("live", "its pod reports it", "default/web-1")
}

fn found(problem: Problem, change: impl FnOnce(&mut Finding)) -> Entry {
    let mut finding = Finding::new(problem, "because");
    finding.pods = vec!["default/web-1".to_owned()];
    finding.grade = Some("unwitnessed".to_owned());
    finding.cause = Some("deleted".to_owned());
    change(&mut finding);
    Entry {
        chosen: true,
        ..Entry::new("before".into(), problem.to_string(), finding)
    }
}

fn stale() -> Entry {
    found(Problem::Stale, |_| {})
}

fn without_node(mut entry: Entry) -> Entry {
    entry.line.node = None;
    entry
}

fn unchosen(entry: Entry) -> Entry {
    Entry {
        chosen: false,
        ..entry
    }
}

fn state(entries: impl IntoIterator<Item = (u8, Entry)>) -> State {
    let entries = entries.into_iter();
    entries.map(|(key, entry)| (row(key), entry)).collect()
}

/// The events of one row.
fn events(before: Option<Entry>, after: Option<Entry>, all: bool) -> Vec<Message> {
    let of = |entry: Option<Entry>| state(entry.map(|entry| (1, entry)));
    changes(&of(before), &of(after), "now", all)
}

#[rstest]
#[case::verdict(live(), stale())]
#[case::problem(stale(), found(Problem::HeldUnfenced, |_| {}))]
#[case::grade(stale(), found(Problem::Stale, |it| it.grade = Some("fenced".to_owned())))]
#[case::cause(stale(), found(Problem::Stale, |it| it.cause = Some("completed".to_owned())))]
#[case::owner(live(), kept("live", "its pod reports it", "default/web-2"))]
#[case::owner_of_a_finding(stale(), found(Problem::Stale, |it| it.pods[0].push('0')))]
#[case::reason(live(), kept("live", "its pod has it", "default/web-1"))]
#[case::exemption(live(), kept("exempt", "a person exempted it", "default/web-1"))]
#[case::selection(live(), unchosen(live()))]
fn each_part_of_a_verdict_makes_a_change(#[case] before: Entry, #[case] after: Entry) {
    let events = events(Some(before), Some(after), true);
    assert!(matches!(&*events, [Message::Changed(_)]), "{events:?}");
}

#[rstest]
#[case::wait(found(Problem::Stale, |it| it.wait_seconds = Some(1)))]
#[case::words(found(Problem::Stale, |it| it.detail = "otherwise".to_owned()))]
#[case::nodes(found(Problem::Stale, |it| it.nodes = ["n2".into()].into()))]
fn what_runs_on_is_no_change(#[case] after: Entry) {
    assert_eq!(events(Some(stale()), Some(after), true), []);
    assert_eq!(events(Some(live()), Some(without_node(live())), true), []);
}

#[test]
fn what_went_comes_first_then_what_is_worst() {
    let before = state([(1, live()), (2, stale()), (3, live())]);
    let twice = found(Problem::InUseTwice, |_| {});
    let after = state([(3, stale()), (4, live()), (5, twice)]);
    let lines = changes(&before, &after, "now", true);
    let lines: Vec<_> = lines
        .into_iter()
        .map(|message| match message {
            Message::Gone(line) => format!("gone {}", line.was.unwrap().verdict.unwrap()),
            Message::Appeared(line) => format!("appeared {}", line.verdict.unwrap()),
            Message::Changed(line) => format!("changed {}", line.verdict.unwrap()),
            other => panic!("{other:?}"),
        })
        .collect();
    let expected = [
        "gone stale",
        "gone live",
        "appeared in-use-twice",
        "changed stale",
        "appeared live",
    ];
    assert_eq!(lines, expected);
}

#[rstest]
#[case(Some(live()), Some(stale()), true, true)]
#[case(Some(stale()), Some(live()), true, true)]
#[case(Some(stale()), None, true, true)]
#[case(Some(live()), None, false, true)]
#[case(None, Some(live()), false, true)]
#[case(Some(unchosen(live())), Some(unchosen(stale())), false, false)]
#[case(Some(stale()), Some(unchosen(live())), true, true)]
#[case(Some(live()), Some(unchosen(stale())), false, true)]
fn wanted_is_what_is_chosen_and_enters_or_leaves_a_finding(
    #[case] before: Option<Entry>,
    #[case] after: Option<Entry>,
    #[case] usual: bool,
    #[case] all: bool,
) {
    let count = |all| events(before.clone(), after.clone(), all).len();
    assert_eq!((count(false), count(true)), (usual.into(), all.into()));
}

fn any_entry() -> impl Strategy<Value = Entry> {
    let problem = prop_oneof![Just(Problem::Stale), Just(Problem::InUseTwice)];
    let finding = (
        problem,
        option::of("(fenced|unwitnessed)"),
        option::of(0..3_u64),
    );
    let finding = finding.prop_map(|(problem, grade, wait)| {
        found(problem, |it| {
            it.grade = grade;
            it.wait_seconds = wait;
        })
    });
    let rows = (
        prop_oneof![Just("live"), Just("exempt")],
        "default/web-[12]",
    );
    let rows = rows.prop_map(|(verdict, pod)| kept(verdict, verdict, &pod));
    (prop_oneof![rows, finding], any::<bool>())
        .prop_map(|(entry, chosen)| Entry { chosen, ..entry })
}

fn any_state() -> impl Strategy<Value = State> {
    btree_map((0..12_u8).prop_map(row), any_entry(), 0..10)
}

proptest! {
    #[test]
    fn each_difference_of_what_is_chosen_is_one_line(before in any_state(), after in any_state()) {
        let subjects = before.keys().chain(after.keys().filter(|it| !before.contains_key(*it)));
        let differs = |subject: &&String| {
            let (before, after) = (before.get(*subject), after.get(*subject));
            let is_chosen = before.is_some_and(|it| it.chosen) || after.is_some_and(|it| it.chosen);
            is_chosen && before.map(Entry::stable) != after.map(Entry::stable)
        };
        prop_assert_eq!(changes(&before, &after, "now", true).len(), subjects.filter(differs).count());
        prop_assert_eq!(changes(&after, &after, "now", true), []);
    }
}
