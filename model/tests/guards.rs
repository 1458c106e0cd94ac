//! Every guard is needed: without it the checker finds a course of events.

use ipgc_model::{check::shortest, model::Goal, needed};

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
