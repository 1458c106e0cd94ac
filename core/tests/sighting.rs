//! When a row was first seen as it is.

use ipgc_core::sighting::Sightings;

use crate::common::prelude::*;

fn pool(value: Value) -> ObservedPool {
    observe(&pool_document("10.0.0.0/24", &[("5", value)]))
}

fn row() -> Value {
    row_value(POD, &sandbox(1), "net1")
}

fn seen(first: u64, while_absent: Option<u64>) -> Sighting {
    Sighting {
        first: at(first),
        while_absent: while_absent.map(at),
    }
}

#[rstest]
#[case::adopted(row_value(POD, &sandbox(2), "net1"))]
#[case::another_owner(row_value("default/web-1", &sandbox(1), "net1"))]
#[case::another_interface(row_value(POD, &sandbox(1), "net2"))]
#[case::no_interface(json!({"id": sandbox(1), "podref": POD}))]
#[case::a_field_more(json!({"id": sandbox(1), "podref": POD, "ifname": "net1", "claim": ""}))]
#[case::unreadable(json!(null))]
fn a_row_that_changed_is_seen_for_the_first_time(#[case] changed: Value) {
    let mut sightings = Sightings::default();
    let (old, new) = (pool(row()), pool(changed));
    sightings.see(POOL_UID, &old.rows()[0], at(10));
    sightings.see_absent(POOL_UID, &old.rows()[0], at(10));
    assert_eq!(sightings.get(POOL_UID, &new.rows()[0]), None);
    let anew = sightings.see(POOL_UID, &new.rows()[0], at(20));
    assert_eq!(anew, seen(20, None));
    // The earlier sighting is forgotten, in case the row comes back as it was.
    assert_eq!(sightings.get(POOL_UID, &old.rows()[0]), None);
    let back = sightings.see(POOL_UID, &old.rows()[0], at(30));
    assert_eq!(back, seen(30, None));
}

#[test]
fn the_first_proof_of_absence_counts() {
    let mut sightings = Sightings::default();
    let pool = pool(row());
    let row = &pool.rows()[0];
    sightings.see(POOL_UID, row, at(10));
    sightings.see_absent(POOL_UID, row, at(20));
    sightings.see_absent(POOL_UID, row, at(30));
    assert_eq!(sightings.get(POOL_UID, row), Some(seen(10, Some(20))));
    // It is an observation too.
    let mut sightings = Sightings::default();
    sightings.see_absent(POOL_UID, row, at(20));
    assert_eq!(sightings.get(POOL_UID, row), Some(seen(20, Some(20))));
}

#[test]
fn an_absence_proven_after_the_row_changed_says_nothing_of_the_new_row() {
    let mut sightings = Sightings::default();
    let (old, new) = (pool(row()), pool(row_value(POD, &sandbox(2), "net1")));
    sightings.see(POOL_UID, &old.rows()[0], at(10));
    sightings.see(POOL_UID, &new.rows()[0], at(20));
    // A proof that followed the older observation ends late.
    sightings.see_absent(POOL_UID, &old.rows()[0], at(10));
    assert_eq!(sightings.get(POOL_UID, &new.rows()[0]), None);
    let anew = sightings.see(POOL_UID, &new.rows()[0], at(30));
    assert_eq!(anew, seen(30, None));
}

#[test]
fn a_pool_made_again_and_another_key_are_other_rows() {
    let mut sightings = Sightings::default();
    let pool = observe(&pool_document("10.0.0.0/24", &[("5", row()), ("6", row())]));
    sightings.see(POOL_UID, &pool.rows()[0], at(10));
    assert_eq!(sightings.get(POOL_UID, &pool.rows()[1]), None);
    assert_eq!(sightings.get("another", &pool.rows()[0]), None);
}

#[test]
fn an_object_is_known_by_its_uid_and_what_it_says() {
    let mut sightings = Sightings::default();
    let first = sightings.see_object("r", &("10.0.0.5", POD), at(10));
    assert_eq!(first, seen(10, None));
    assert_eq!(sightings.see_object("r", &("10.0.0.5", POD), at(20)), first);
    let changed = sightings.see_object("r", &("10.0.0.5", "default/x"), at(30));
    assert_eq!(changed, seen(30, None));
    assert_eq!(
        sightings.see_object("s", &("10.0.0.5", POD), at(40)),
        seen(40, None)
    );
}

#[test]
fn what_was_not_seen_for_long_is_forgotten() {
    let mut sightings = Sightings::default();
    let pool = observe(&pool_document("10.0.0.0/24", &[("5", row()), ("6", row())]));
    sightings.see(POOL_UID, &pool.rows()[0], at(10));
    sightings.see(POOL_UID, &pool.rows()[1], at(10));
    sightings.see(POOL_UID, &pool.rows()[1], at(50));
    sightings.forget(secs(40), at(49));
    for row in pool.rows() {
        assert_eq!(sightings.get(POOL_UID, row), Some(seen(10, None)));
    }
    sightings.forget(secs(40), at(50));
    assert_eq!(sightings.get(POOL_UID, &pool.rows()[0]), None);
    assert_eq!(
        sightings.get(POOL_UID, &pool.rows()[1]),
        Some(seen(10, None))
    );
    sightings.forget(secs(40), at(90));
    assert_eq!(sightings, Sightings::default());
}

proptest! {
    /// However observations and proofs come, a sighting never reaches back beyond a change.
    #[test]
    fn a_sighting_never_reaches_back_beyond_a_change(
        events in prop::collection::vec((1u64..4, any::<bool>()), 1..20),
    ) {
        let mut sightings = Sightings::default();
        let mut since = 0;
        let mut last = None;
        for (second, (id, absent)) in (0..).zip(events) {
            let pool = pool(row_value(POD, &sandbox(id), "net1"));
            let row = &pool.rows()[0];
            if last.replace(id) != Some(id) {
                since = second;
            }
            sightings.see(POOL_UID, row, at(second));
            if absent {
                sightings.see_absent(POOL_UID, row, at(second));
            }
            let sighting = sightings.get(POOL_UID, row).expect("just seen");
            prop_assert_eq!(sighting.first, at(since));
            prop_assert!(sighting.while_absent.is_none_or(|seen| seen >= sighting.first));
            prop_assert!(!absent || sighting.while_absent.is_some());
        }
    }
}
