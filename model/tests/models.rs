//! The properties hold over every state space, as long as nothing is left out.
#![allow(clippy::print_stdout)]

use ipgc_model::{check::check, scenarios};

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
