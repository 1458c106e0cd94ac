//! The one guarded write on a pool: its operations, their effect on a document, and the
//! meaning of the answers.

use ipgc_core::patch::{Answer, FreePatch, MAX_ROWS};
use json_patch::{Patch, PatchOperation};

use crate::common::prelude::*;

/// Operations that one patch may have.
const MAX_OPERATIONS: usize = 10_000;

/// Three pods in a pool of 10.0.0.0/24.
fn document() -> Value {
    pool_document(
        "10.0.0.0/24",
        &[
            ("5", row_value(POD, &sandbox(5), "net1")),
            ("6", row_value(POD, &sandbox(5), "net2")),
            ("7", row_value("default/db-0", &sandbox(7), "net1")),
        ],
    )
}

/// The patch that removes the rows with these keys.
fn patch_of(pool: &ObservedPool, keys: &[&str]) -> Patch {
    let proof = all_absent(pool);
    let rows = pool.rows().iter();
    let releases = rows
        .filter(|row| keys.contains(&row.key()))
        .map(|row| release(&proof, row).unwrap())
        .collect();
    FreePatch::new(&proof, releases).to_json_patch()
}

fn keys(document: &Value) -> Vec<&str> {
    let rows = document["spec"]["allocations"].as_object().unwrap();
    rows.keys().map(String::as_str).collect()
}

#[test]
fn a_patch_tests_the_uid_and_each_whole_row_and_nothing_else_and_empties_the_managed_fields() {
    let patch = patch_of(&observe(&document()), &["5", "7"]);
    assert_eq!(
        serde_json::to_value(&patch).unwrap(),
        json!([
            {"op": "test", "path": "/metadata/uid", "value": POOL_UID},
            {"op": "test", "path": "/spec/allocations/5",
             "value": {"id": sandbox(5), "podref": POD, "ifname": "net1"}},
            {"op": "remove", "path": "/spec/allocations/5"},
            {"op": "test", "path": "/spec/allocations/7",
             "value": {"id": sandbox(7), "podref": "default/db-0", "ifname": "net1"}},
            {"op": "remove", "path": "/spec/allocations/7"},
            {"op": "add", "path": "/metadata/managedFields", "value": [{}]},
        ])
    );
}

#[rstest]
#[case::nobodys(json!(null), true)]
#[case::none(json!([]), true)]
#[case::of_writers(json!([{"manager": "whereabouts", "operation": "Update"}, {}]), true)]
#[case::applied(json!([{"operation": "Update"}, {"manager": "flux", "operation": "Apply"}]), false)]
fn managed_fields_are_emptied_unless_somebody_applied_fields(
    #[case] managers: Value,
    #[case] emptied: bool,
) {
    let mut document = document();
    document["metadata"]["managedFields"] = managers;
    let pool = observe(&document);
    assert_eq!(pool.has_applied_fields, !emptied);
    let patch = patch_of(&pool, &["5"]);
    let is_about = |operation: &&PatchOperation| operation.path() == "/metadata/managedFields";
    assert_eq!(
        patch.0.iter().filter(is_about).count(),
        usize::from(emptied)
    );
    let after = apply(&document, &patch).unwrap();
    let kept = after["metadata"]["managedFields"] == document["metadata"]["managedFields"];
    assert_eq!(kept, !emptied);
    assert_eq!(keys(&after), ["6", "7"]);
}

#[rstest]
#[case::adopted("/spec/allocations/5/id", json!(sandbox(99)))]
#[case::another_owner("/spec/allocations/5/podref", json!("default/web-1"))]
#[case::another_interface("/spec/allocations/5/ifname", json!("net2"))]
#[case::interface_emptied("/spec/allocations/5/ifname", json!(""))]
#[case::pool_made_again("/metadata/uid", json!("another"))]
fn a_changed_row_or_uid_makes_the_patch_change_nothing(
    #[case] pointer: &str,
    #[case] value: Value,
) {
    let mut document = document();
    let patch = patch_of(&observe(&document), &["5", "7"]);
    *document.pointer_mut(pointer).unwrap() = value;
    assert_eq!(apply(&document, &patch), None);
}

#[test]
fn adds_and_dels_on_other_rows_do_not_conflict() {
    let mut document = document();
    let patch = patch_of(&observe(&document), &["5"]);
    document["metadata"]["resourceVersion"] = json!("8");
    document["metadata"]["annotations"] = json!({"x": "y"});
    let rows = document["spec"]["allocations"].as_object_mut().unwrap();
    rows.remove("6");
    rows["7"]["id"] = json!(sandbox(70));
    rows.insert("8".into(), row_value("default/new", &sandbox(8), "net1"));
    let after = apply(&document, &patch).unwrap();
    assert_eq!(keys(&after), ["7", "8"]);
    assert_eq!(after["spec"]["allocations"]["7"]["id"], sandbox(70));
}

#[rstest]
#[case::negative("caa5::/64", "-3844666706890850303")]
#[case::large("fd00::/64", "18446744073709551615")]
#[case::leading_zero("10.0.0.0/24", "05")]
fn keys_are_removed_to_the_letter(#[case] range: &str, #[case] key: &str) {
    let row = row_value(POD, &sandbox(5), "net1");
    let document = pool_document(
        range,
        &[(key, row), ("5", row_value("a/b", &sandbox(6), "net1"))],
    );
    let after = apply(&document, &patch_of(&observe(&document), &[key])).unwrap();
    assert_eq!(keys(&after), ["5"]);
}

#[test]
fn a_patch_without_rows_changes_nothing() {
    let document = document();
    let patch = patch_of(&observe(&document), &[]);
    assert_eq!(patch.0.len(), 1);
    assert_eq!(apply(&document, &patch), Some(document));
}

/// A pool of `n` rows with an owner each.
fn large(n: usize) -> Value {
    let keys: Vec<_> = (0..n).map(|key| key.to_string()).collect();
    let rows: Vec<_> = keys
        .iter()
        .map(|key| {
            (
                key.as_str(),
                row_value(&format!("default/p-{key}"), &sandbox(1), "net1"),
            )
        })
        .collect();
    pool_document("10.0.0.0/16", &rows)
}

#[test]
fn as_many_rows_as_one_patch_may_have_are_as_many_operations_as_it_may_have() {
    let pool = observe(&large(MAX_ROWS));
    let proof = all_absent(&pool);
    let patch = FreePatch::new(&proof, release_all(&proof)).to_json_patch();
    assert_eq!(MAX_ROWS, 4_999);
    // One row more would be too many.
    assert_eq!(patch.0.len(), MAX_OPERATIONS);
}

#[test]
fn a_patch_takes_no_row_of_another_observation() {
    let document = large(2);
    let (pool, later) = (observe(&document), observe(&document));
    let (proof, other) = (all_absent(&pool), all_absent(&later));
    // The same rows, read again: the first proof began before they were.
    assert!(release(&proof, &later.rows()[0]).is_err());
    let strangers = FreePatch::new(&proof, release_all(&other));
    assert!(strangers.releases().is_empty());
    assert_eq!(
        FreePatch::new(&other, release_all(&other)).releases().len(),
        2
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_patch_takes_its_rows_and_only_them(taken in prop::collection::vec(any::<bool>(), 1..30)) {
        let document = large(taken.len());
        let pool = observe(&document);
        let proof = all_absent(&pool);
        let releases = release_all(&proof)
            .into_iter()
            .filter(|release| taken[release.row().key().parse::<usize>().unwrap()])
            .collect();
        let patch = FreePatch::new(&proof, releases).to_json_patch();
        let after = apply(&document, &patch).expect("nothing changed");
        for (key, taken) in taken.iter().enumerate() {
            let (key, allocations) = (key.to_string(), &after["spec"]["allocations"]);
            if *taken {
                prop_assert!(allocations.get(&key).is_none());
            } else {
                prop_assert_eq!(&allocations[&key], &document["spec"]["allocations"][&key]);
            }
        }
        let mut expected = document["metadata"].clone();
        if taken.contains(&true) {
            expected["managedFields"] = json!([{}]);
        }
        prop_assert_eq!(&after["metadata"], &expected);
    }

    #[test]
    fn one_stale_row_among_many_stops_the_whole_patch(n in 1usize..30, changed in any::<prop::sample::Index>()) {
        let mut document = large(n);
        let pool = observe(&document);
        let proof = all_absent(&pool);
        let patch = FreePatch::new(&proof, release_all(&proof)).to_json_patch();
        let key = changed.index(n).to_string();
        document["spec"]["allocations"][&key]["id"] = json!(sandbox(2));
        prop_assert_eq!(apply(&document, &patch), None);
    }

    #[test]
    fn every_code_has_a_meaning(code: u16) {
        let answer = Answer::of_code(code, false);
        prop_assert_eq!(answer == Answer::Done, (200..300).contains(&code));
    }
}

#[rstest]
#[case(200, Answer::Done)]
#[case(201, Answer::Done)]
#[case(404, Answer::Gone)]
#[case(422, Answer::Rejected)]
#[case(413, Answer::TooLarge)]
#[case(401, Answer::Forbidden)]
#[case(403, Answer::Forbidden)]
#[case::conflict(409, Answer::Unclear)]
#[case::too_many_requests(429, Answer::Unclear)]
#[case(500, Answer::Unclear)]
#[case(502, Answer::Unclear)]
#[case(503, Answer::Unclear)]
#[case(504, Answer::Unclear)]
#[case::redirect(302, Answer::Unclear)]
#[case::bad_request(400, Answer::Refused)]
#[case::gone(410, Answer::Unclear)]
fn answers(#[case] code: u16, #[case] answer: Answer) {
    assert_eq!(Answer::of_code(code, false), answer);
    // A failed test names no field; a schema, or an admission policy, does.
    let is_rejected = answer == Answer::Rejected;
    let of_fields = if is_rejected { Answer::Refused } else { answer };
    assert_eq!(Answer::of_code(code, true), of_fields);
}
