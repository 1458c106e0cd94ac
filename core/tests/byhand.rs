//! The evidence that gives way to the word of a person, and the evidence that never does.

use ipgc_core::{patch::FreePatch, proof::Proof};

use crate::common::prelude::*;

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
        let verdict = known.judge(&pool, &presence, &policy, now);
        let learned = HashMap::from([(podref(POD), presence)]);
        let proof = pool.begin_proof().conclude(learned);
        match proof.force(row, &known.facts(&policy, now)) {
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
    let (pool, other) = (pool_with("5"), pool_with("5"));
    let forced = |proof: &Proof<'_>| {
        let (known, policy) = (Known::of(&[]), Policy::default());
        proof
            .force(&pool.rows()[0], &known.facts(&policy, 9_999))
            .unwrap_err()
    };
    let nobody_asked = pool.begin_proof().conclude(HashMap::new());
    // The last one is about another observation of the same pool.
    for proof in [nobody_asked, all_absent(&other)] {
        let verdict = forced(&proof);
        let is_unknown = matches!(verdict, Verdict::Unknown(Unknown::NoProof(_)));
        assert!(is_unknown, "{verdict:?}");
    }
    let there = HashMap::from([(podref(POD), Presence::Present(None))]);
    let verdict = forced(&pool.begin_proof().conclude(there));
    assert!(matches!(verdict, Verdict::Held(_)), "{verdict:?}");
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
    let patch = FreePatch::of_unreadable(&pool, row)
        .unwrap()
        .to_json_patch();
    let after = apply(&document, &patch).unwrap();
    assert_eq!(after["spec"]["allocations"].as_object().unwrap().len(), 1);
    let mut changed = document.clone();
    changed["spec"]["allocations"]["5"]["podref"] = "default/new".into();
    assert!(apply(&changed, &patch).is_none());
    let mut other = document;
    other["metadata"]["uid"] = "other".into();
    assert!(apply(&other, &patch).is_none());
    // A row that can be read is judged instead. A row of another observation is none of this one.
    assert!(FreePatch::of_unreadable(&pool, readable).is_none());
    assert!(FreePatch::of_unreadable(&later, row).is_none());
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
    assert!(FreePatch::of_unreadable(&pool, &pool.rows()[0]).is_none());
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
    let patch = FreePatch::of_unreadable(&pool, row)
        .unwrap()
        .to_json_patch();
    let operations = serde_json::to_value(&patch).unwrap();
    assert_eq!(operations[2], json!({"op": "remove", "path": path}));
    let after = apply(&document, &patch).unwrap();
    let left = after["spec"]["allocations"].as_object().unwrap();
    assert_eq!(left.keys().collect::<Vec<_>>(), ["2"]);
}
