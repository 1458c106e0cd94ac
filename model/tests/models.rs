//! The properties hold over every state space, as long as nothing is left out.
#![allow(clippy::print_stdout)]

use ipgc_model::{check::check, model::LIVE, scenario::Mutation, scenarios};

#[test]
fn no_address_is_doubled_and_nothing_is_left() {
    let scenarios = match std::env::var("IPGC_MODEL").as_deref() {
        Ok("large") => scenarios::large(),
        _ => scenarios::all(),
    };
    let mut failed = Vec::new();
    for scenario in scenarios {
        let report = check(&scenario);
        println!("{report}");
        if !report.violations.is_empty() {
            failed.push(report.name);
        }
    }
    assert!(failed.is_empty(), "violated in {failed:?}");
}

#[test]
fn a_deliberate_leak_is_found_by_the_property_over_whole_state_spaces() {
    let report = check(&scenarios::listed().without(Mutation::NeverFree));
    let violated: Vec<_> = report.violations.iter().map(|(name, _)| *name).collect();
    assert_eq!(violated, [LIVE]);
}
