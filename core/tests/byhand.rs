//! The evidence that gives way to the word of a person, and the evidence that never does.

use std::collections::HashMap;

use crate::common::{
    Known, POD, all_absent, apply,
    arbitrary::{any_known, any_policy, any_presence},
    at, node_state, not_ready, observe, podref, pool_document, pool_with, row_value, sandbox, secs,
};
use ipgc_core::{
    evidence::Policy,
    judge::{Held, Unknown, Verdict, judge},
    node::{NodeState, Nodes, Standing},
    patch::UnreadablePatch,
    proof::Presence,
    sighting::Sightings,
};
use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

proptest! {
    /// A person may say that nobody answers where the pod is gone, at its end, or runs without using the address.
    /// Any other verdict decides.
    #[test]
    fn force_frees_what_no_pod_uses_and_nothing_else(
        presence in any_presence(),
        known in any_known(),
        policy in any_policy(),
        now in 0u64..6000,
    ) {
        let pool = pool_with("5");
        let row = &pool.rows()[0];
        let verdict = judge(&pool, row, &presence, &known.facts(), &policy, at(now));
        let learned = HashMap::from([(podref(POD), presence)]);
        let proof = pool.begin_proof().conclude(learned);
        match proof.force(row, &known.facts(), &policy, at(now)) {
            Ok(release) => {
                prop_assert_eq!(verdict.forced(at(now)), Verdict::Stale(release.stale().clone()));
            }
            Err(other) => {
                prop_assert!(!matches!(other, Verdict::Stale(_) | Verdict::Held(Held::Unused)));
                prop_assert_eq!(verdict, other);
            }
        }
    }
}

#[test]
fn nobody_is_absent_by_the_word_of_a_person() {
    let pool = pool_with("5");
    let (known, policy) = (Known::of(&[]), Policy::default());
    // Nobody asked.
    let proof = pool.begin_proof().conclude(HashMap::new());
    let forced = proof.force(&pool.rows()[0], &known.facts(), &policy, at(9_999));
    assert!(
        matches!(forced, Err(Verdict::Unknown(Unknown::NoProof(_)))),
        "{forced:?}"
    );
    // The proof is about another observation of the same pool.
    let other = pool_with("5");
    let proof = all_absent(&other);
    let forced = proof.force(&pool.rows()[0], &known.facts(), &policy, at(9_999));
    assert!(
        matches!(forced, Err(Verdict::Unknown(Unknown::NoProof(_)))),
        "{forced:?}"
    );
    let there = HashMap::from([(podref(POD), Presence::Present(None))]);
    let proof = pool.begin_proof().conclude(there);
    let forced = proof.force(&pool.rows()[0], &known.facts(), &policy, at(9_999));
    assert!(matches!(forced, Err(Verdict::Held(_))), "{forced:?}");
}

/// A pool with this row at 10.0.0.5 and this annotation.
fn with_row(row: Value, annotation: (&str, &str)) -> Value {
    let mut document = pool_document(
        "10.0.0.0/24",
        &[("5", row), ("6", row_value(POD, &sandbox(6), "net1"))],
    );
    document["metadata"]["annotations"] = json!({ annotation.0: annotation.1 });
    document
}

#[test]
fn a_row_that_cannot_be_read_goes_if_it_is_still_the_same() {
    let document = with_row(json!({"id": "", "podref": ""}), ("a", "b"));
    let (pool, later) = (observe(&document), observe(&document));
    let [row, readable] = pool.rows() else {
        panic!("{pool:?}");
    };
    let patch = UnreadablePatch::new(&pool, row).unwrap().to_json_patch();
    let after = apply(&document, &patch).unwrap();
    assert_eq!(after["spec"]["allocations"].as_object().unwrap().len(), 1);
    let mut changed = document.clone();
    changed["spec"]["allocations"]["5"]["podref"] = "default/new".into();
    assert!(apply(&changed, &patch).is_none());
    let mut other = document;
    other["metadata"]["uid"] = "other".into();
    assert!(apply(&other, &patch).is_none());
    // A row that can be read is judged instead. A row of another observation is none of this one.
    assert!(UnreadablePatch::new(&pool, readable).is_none());
    assert!(UnreadablePatch::new(&later, row).is_none());
}

#[rstest]
#[case("ipgc.dev/hold", "")]
#[case("ipgc.dev/keep", "5")]
#[case("ipgc.dev/keep", "10.0.0.5")]
fn a_row_that_a_person_exempted_stays(#[case] annotation: &str, #[case] value: &str) {
    let pool = observe(&with_row(
        json!({"id": "", "podref": ""}),
        (annotation, value),
    ));
    assert!(UnreadablePatch::new(&pool, &pool.rows()[0]).is_none());
}

/// By the word of a person any key may be in a patch: it is one token of the path, and its neighbours stay.
#[rstest]
#[case("2/id", "/spec/allocations/2~1id")]
#[case("a/b~c", "/spec/allocations/a~1b~0c")]
#[case("~1", "/spec/allocations/~01")]
#[case("", "/spec/allocations/")]
#[case("-", "/spec/allocations/-")]
#[case("../../metadata", "/spec/allocations/..~1..~1metadata")]
fn a_key_of_any_letters_is_one_token_of_the_path(#[case] key: &str, #[case] path: &str) {
    let row = |offset: u64| row_value(POD, &sandbox(offset), "net1");
    let document = pool_document("10.0.0.0/24", &[("2", row(2)), (key, row(3))]);
    let pool = observe(&document);
    let row = pool.rows().iter().find(|row| row.key() == key).unwrap();
    let patch = UnreadablePatch::new(&pool, row).unwrap().to_json_patch();
    let operations = serde_json::to_value(&patch).unwrap();
    assert_eq!(operations[2], json!({"op": "remove", "path": path}));
    let after = apply(&document, &patch).unwrap();
    let left = after["spec"]["allocations"].as_object().unwrap();
    assert_eq!(left.keys().collect::<Vec<_>>(), ["2"]);
}

#[test]
fn a_node_that_is_said_to_be_dead_is_fenced_while_it_is_not_ready() {
    let mut nodes = Nodes::said_dead(["dead".into()]);
    let standing = |nodes: &Nodes, name: &str| nodes.standing(name, at(0), at(100));
    for name in ["dead", "other"] {
        nodes.apply(name, not_ready(), at(0));
    }
    assert_eq!(standing(&nodes, "dead"), Standing::Fenced);
    assert_ne!(standing(&nodes, "other"), Standing::Fenced);
    let ready = NodeState {
        ready: true,
        ..node_state()
    };
    nodes.apply("dead", ready, at(1));
    assert_ne!(standing(&nodes, "dead"), Standing::Fenced);
    nodes.apply("dead", not_ready(), at(2));
    assert_ne!(
        standing(&nodes, "dead"),
        Standing::Fenced,
        "it was a mistake"
    );
}

/// No watch has shown the ends of sandboxes that ran on the node while it was said to be dead.
#[test]
fn a_node_that_was_not_dead_blocks_from_then_on() {
    let mut nodes = Nodes::said_dead(["dead".into()]);
    nodes.apply("dead", not_ready(), at(0));
    nodes.retain(|_| true, at(0));
    nodes.gap(at(0));
    nodes.suspect(["dead"], at(0));
    assert_eq!(nodes.blockers(None, secs(100), at(1)), None);
    let ready = NodeState {
        ready: true,
        ..node_state()
    };
    nodes.apply("dead", ready, at(500));
    assert!(nodes.blockers(None, secs(100), at(500)).is_some());
}

#[test]
fn what_somebody_saw_before_counts_for_the_row_as_it_is() {
    let (pool, mut seen) = (pool_with("5"), Sightings::default());
    let row = &pool.rows()[0];
    seen.see_first("uid", row, at(1), at(100));
    assert_eq!(seen.get("uid", row).unwrap().first, at(1));
    // It never makes a row younger.
    seen.see_first("uid", row, at(50), at(101));
    assert_eq!(seen.get("uid", row).unwrap().first, at(1));
    // It is remembered from now, not from then.
    seen.forget(secs(50), at(120));
    assert_eq!(seen.len(), 1);
    let adopted = observe(&pool_document(
        "10.0.0.0/24",
        &[("5", row_value(POD, &sandbox(99), "net1"))],
    ));
    assert_eq!(seen.get("uid", &adopted.rows()[0]), None);
}
