//! Faults of a verdict that no input may ever cause.

use ipgc_core::{pods::PodIndex, pool::Glance};

use crate::common::prelude::*;

/// The verdict on the only row of the pool.
fn verdict(pool: &ObservedPool, presence: &Presence, known: &Known, now: u64) -> Verdict {
    known.judge(pool, presence, &Policy::default(), now)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn every_row_of_every_pool_gets_a_verdict(
        range in any_range(),
        (key, value) in (any_key(), any_json()),
        annotation in "\\PC{0,20}",
        presence in any_presence(),
        known in any_known(),
        policy in any_policy(),
        now: u64,
    ) {
        let mut document = pool_document(&range, &[(&key, value)]);
        document["metadata"]["annotations"] = json!({"ipgc.dev/keep": annotation});
        let pool = observe(&document);
        prop_assert_eq!(pool.rows().len(), 1);
        let row = &pool.rows()[0];
        let verdict = known.judge(&pool, &presence, &policy, now);
        let readable = row.content().map(|content| content.podref.clone());
        let learned = readable.map(|podref| (podref, presence));
        let proof = pool.begin_proof().conclude(learned.into_iter().collect());
        match proof.release(row, &known.facts(&policy, now)) {
            Ok(release) => prop_assert_eq!(verdict, Verdict::Stale(release.stale().clone())),
            Err(other) if row.content().is_ok() => prop_assert_eq!(verdict, other),
            Err(other) => prop_assert!(matches!(other, Verdict::Unknown(_))),
        }
    }

    #[test]
    fn readable_rows_get_every_verdict_without_a_panic(
        presence in any_presence(),
        known in any_known(),
        policy in any_policy(),
        now in 0u64..6000,
    ) {
        let pool = pool_with("5");
        let policy = Policy { keep_podrefs: Vec::new(), ..policy };
        let verdict = known.judge(&pool, &presence, &policy, now);
        let fits = match (&presence, &verdict) {
            (Presence::Unknown(_), verdict) => matches!(verdict, Verdict::Unknown(_)),
            (Presence::Absent, Verdict::Stale(stale)) => stale.cause == Cause::Deleted,
            (Presence::Present(None), verdict) => *verdict == Verdict::Held(Held::Present),
            (Presence::Present(_), Verdict::Stale(stale)) => stale.cause != Cause::Deleted,
            (Presence::Present(_), Verdict::Held(_)) => true,
            _ => false,
        };
        prop_assert!(fits, "{:?}", verdict);
    }

    /// Without a sighting, a sibling and an end of its own there is nothing against it.
    #[test]
    fn a_present_pod_of_which_nothing_else_is_known_is_never_stale(
        presence in any_present(),
        known in any_known(),
        policy in any_policy(),
    ) {
        let known = Known { living: None, sighting: None, siblings: None, ..known };
        let pool = pool_with("5");
        let policy = Policy { keep_podrefs: Vec::new(), ..policy };
        let row = &pool.rows()[0];
        let verdict = known.judge(&pool, &presence, &policy, 0);
        prop_assert!(matches!(verdict, Verdict::Held(_)), "{:?}", verdict);
        let learned = HashMap::from([(podref(POD), presence)]);
        let proof = pool.begin_proof().conclude(learned);
        prop_assert!(proof.release(row, &known.facts(&policy, u64::MAX)).is_err());
    }

    #[test]
    fn more_entries_in_a_status_never_turn_reported_into_less(
        state in any_pod(),
        entries in any_entries(),
        more in any_entries(),
        known in any_known(),
        now in 0u64..6000,
    ) {
        let less = PodState { status: valid(&entries), ..state };
        let both: Vec<_> = entries.into_iter().chain(more).collect();
        let more = PodState { status: valid(&both), ..less.clone() };
        let pool = pool_with("5");
        let before = verdict(&pool, &present(less), &known, now);
        let after = verdict(&pool, &present(more), &known, now);
        if before == Verdict::Held(Held::Reported) {
            prop_assert_eq!(after, before);
        }
    }

    /// A row of which a glance at its pod is enough is passed over without other evidence.
    #[test]
    fn a_row_that_its_pod_is_said_to_report_is_held_whatever_else_is_known(
        state in any_pod(),
        entries in any_entries(),
        known in any_known(),
        now in 0u64..6000,
    ) {
        let state = PodState { status: valid(&entries), ..state };
        let pool = pool_with("5");
        let mut pods = PodIndex::default();
        pods.apply(state.clone(), at(now));
        let glance = Glance {
            pool: pool.key(),
            range: pool.range,
            address: Some(ip("10.0.0.5")),
            podref: Some(POD),
            sandbox: None,
            interface: None,
        };
        let is_enough = pods.glance(&glance, ANY_SCOPE, true, at(now));
        let verdict = verdict(&pool, &present(state), &known, now);
        prop_assert!(!is_enough || verdict == Verdict::Held(Held::Reported), "{:?}", verdict);
    }

    #[test]
    fn a_status_that_cannot_be_read_is_no_evidence_against_a_pod(
        text in "\\PC{0,60}",
        state in any_pod(),
        known in any_known(),
        now: u64,
    ) {
        let state = PodState { status: Status::parse(&text), ..state };
        let verdict = verdict(&pool_with("5"), &present(state), &known, now);
        let leftover = matches!(verdict, Verdict::Stale(ref stale) if stale.cause == Cause::Leftover);
        prop_assert!(!leftover, "{:?}", verdict);
    }

    #[test]
    fn nothing_is_released_before_its_moment(known in any_known(), now in 0u64..10_000) {
        let pool = pool_with("5");
        let policy = Policy::default();
        let proof = all_absent(&pool);
        let row = &pool.rows()[0];
        let verdict = known.judge(&pool, &Presence::Absent, &policy, now);
        let Verdict::Stale(Stale { clearance, .. }) = verdict else {
            panic!("{verdict:?}");
        };
        let due = clearance.wait.is_timed() && clearance.is_over(at(now));
        let released = proof.release(row, &known.facts(&policy, now));
        prop_assert_eq!(released.is_ok(), due);
    }

    #[test]
    fn what_is_exempt_or_kept_is_never_freed(
        presence in any_presence(),
        known in any_known(),
        hold: bool,
        value in "\\PC{0,12}",
    ) {
        let annotation = if hold { "ipgc.dev/hold" } else { "ipgc.dev/keep" };
        let value = if hold { value } else { format!("{value} 5 {value}") };
        let mut document = document_with("5");
        document["metadata"]["annotations"] = json!({annotation: value});
        let exempt = verdict(&observe(&document), &presence, &known, 0);
        prop_assert_eq!(exempt, Verdict::Unknown(Unknown::Exempt));
        let pool = pool_with("5");
        let policy = Policy { keep_podrefs: vec![Glob::new("default/*")], ..Policy::default() };
        let kept = known.judge(&pool, &presence, &policy, 0);
        prop_assert_eq!(kept, Verdict::Unknown(Unknown::KeptOwner));
    }
}
