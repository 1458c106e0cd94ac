//! Every guard is needed: without it the checker finds a course of events.

use ipgc_model::{
    check::{check, shortest},
    model::{Goal, LIVE},
    needed,
    scenario::Mutation,
    scenarios,
};

#[test]
fn a_deliberate_leak_is_found_by_the_property_over_whole_state_spaces() {
    let report = check(&scenarios::listed().without(Mutation::NeverFree));
    let violated: Vec<_> = report.violations.iter().map(|(name, _)| *name).collect();
    assert_eq!(violated, [LIVE]);
}

#[test]
fn without_a_guard_the_checker_finds_a_counterexample() {
    for (mutation, scenario, goal) in needed::mutants() {
        let found = shortest(&scenario.without(mutation), goal);
        assert!(found.is_some(), "nothing is found although {mutation}");
    }
}

#[test]
fn without_an_assumption_the_checker_finds_a_doubled_address() {
    for (assumption, scenario) in needed::assumptions() {
        let found = shortest(&scenario.dropping(assumption), Goal::Doubled);
        assert!(found.is_some(), "nothing is found without: {assumption}");
    }
}
