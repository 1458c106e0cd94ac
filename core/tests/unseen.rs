//! What is waited for on behalf of those whom nobody saw, and on behalf of nodes: every grade of
//! evidence, the flags that shorten a wait, and what a watch that is not heard costs.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use common::{Known, POD, W, at, ended, reporting, row_content};
use ipgc_core::{
    clearance::{Clearance, Subject, Wait},
    evidence::Policy,
    pod::PodState,
};

/// What all of it comes to for 10.0.0.5 of an absent pod.
fn weigh(known: &Known, policy: &Policy, now: u64) -> Clearance {
    Subject {
        row: &row_content(),
        facts: &known.facts(),
        policy,
        now: at(now),
    }
    .of_deleted()
}

#[test]
fn a_grace_that_is_not_known_is_thirty_seconds_at_least() {
    let last = PodState {
        termination_grace: None,
        ..reporting(POD, "net1", "10.0.0.5")
    };
    let known = Known {
        longest_grace: std::time::Duration::ZERO,
        ..Known::of(&[ended(last, 100, false)])
    };
    let clearance = weigh(&known, &Policy::default(), 100);
    assert_eq!(clearance.wait, Wait::Until(at(100 + W)));
}
