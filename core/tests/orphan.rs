//! Reservations without a row, and what verdicts say to people.

use ipgc_core::{
    fact::Fact,
    ipam,
    judge::judge_orphan,
    proof::{KnownResourceClaims, OF_RESOURCE_CLAIMS, ResourceClaims},
};

use crate::common::prelude::*;

/// A reservation of 10.0.0.5.
fn parsed(spec: &Value) -> Reservation {
    let metadata = json!({"name": "10.0.0.5", "uid": "r", "resourceVersion": "1"});
    let object = json!({"metadata": metadata, "spec": spec});
    Reservation::parse(&object.to_string()).expect("a reservation")
}

/// That for net1 of this pod.
fn reservation(podref: &str) -> Reservation {
    parsed(&json!({"podref": podref, "ifname": "net1"}))
}

/// The same, claimed.
fn claimed() -> Reservation {
    claimed_from(POD)
}

fn claimed_from(owner: &str) -> Reservation {
    reservation("ipgc.dev/releasing").but(|it| it.claimed_from = Some(owner.into()))
}

fn judged(reservation: &Reservation, presence: &Presence, known: &Known, now: u64) -> Verdict {
    judged_beside(&unread(), reservation, presence, known, now)
}

/// Nobody read ResourceClaims.
fn unread() -> KnownResourceClaims {
    Err("not read".into())
}

fn judged_beside(
    claims: &KnownResourceClaims,
    reservation: &Reservation,
    presence: &Presence,
    known: &Known,
    now: u64,
) -> Verdict {
    let policy = Policy::default();
    let facts = known.facts(&policy, now);
    judge_orphan(reservation, ip("10.0.0.5"), presence, claims, &facts)
}

/// DRANET 1.4 writes one podref into the reservations of all ResourceClaims, and no pod has that name.
#[test]
fn of_a_resource_claim_it_stays_until_no_claim_reports_its_address() {
    let of_claim = reservation(OF_RESOURCE_CLAIMS);
    let known = Known::default().seen(10).absent(100);
    let known = known.on(working(&["node-1"], 10_000));
    let judged = |claims| judged_beside(&claims, &of_claim, &Presence::Absent, &known, 9_000);
    let no_proof = Unknown::NoProof("not read".into());
    assert_eq!(judged(unread()), Verdict::Unknown(no_proof));
    let listed = |address| {
        let mut claims = ResourceClaims::default();
        claims.add("a", [ip(address)]);
        Ok(claims)
    };
    assert_held(&judged(listed("10.0.0.5")), Held::ResourceClaim);
    let clearance = stale(judged(listed("10.0.0.6"))).clearance;
    // W of three DELs.
    assert_eq!(clearance.wait, until(100 + TWO_BEATS + W + 120 + 10));
    let silent = known.on(nodes_with(&[("node-1", not_ready())]));
    let claims = listed("10.0.0.6");
    let held = judged_beside(&claims, &of_claim, &Presence::Absent, &silent, 9_000);
    assert_eq!(stale(held).clearance.wait, waits_for(&["node-1"]));
}

#[test]
fn of_a_pod_that_is_gone_it_goes_ten_seconds_after_its_row_would() {
    let end = ended(reporting(POD, "net1", "10.0.0.5"), 100, true);
    let known = Known::of(&[end]).seen(0);
    let settled = stale(judged(&reservation(POD), &Presence::Absent, &known, 200));
    assert_eq!(
        (settled.cause, settled.clearance.grade),
        (Cause::Deleted, Grade::Settled)
    );
    assert_eq!(settled.clearance.wait, until(100 + 2 + 10));
    let known = Known::default().seen(50).absent(50);
    let nobody = stale(judged(&reservation(POD), &Presence::Absent, &known, 1_000));
    assert_eq!(nobody.clearance.wait, until(50 + W + 10));
}

#[test]
fn of_a_pod_at_its_end_it_goes_like_its_row() {
    let end = ended(done(), 1_000, true);
    let verdict = judged(&reservation(POD), &present(done()), &completed(&end), 5_000);
    let stale = stale(verdict);
    assert_eq!(stale.cause, Cause::Completed);
    assert_eq!(stale.clearance.wait, until(1_000 + 120 + 10));
}

#[test]
fn a_pod_that_runs_elsewhere_has_no_use_for_it_after_the_leftover_grace() {
    let known = Known::default().seen(100).absent(100);
    let verdict = judged(&reservation(POD), &present(elsewhere()), &known, 5_000);
    let stale = stale(verdict);
    assert_eq!(stale.cause, Cause::Leftover);
    assert_eq!(stale.clearance.wait, until(100 + 600 + 10));
}

/// CRDs of whereabouts before 0.5 have `containerid` beside the podref.
#[test]
fn one_with_the_id_of_a_container_belongs_to_the_pod() {
    let reservation = parsed(&json!({"podref": POD, "ifname": "net1", "containerid": sandbox(1)}));
    let known = Known::default().seen(0);
    let shows = elsewhere().but(|it| it.container_ids = [tag(1)].into());
    let verdict = judged(&reservation, &present(shows), &known, 5_000);
    assert_eq!(verdict, Verdict::Held(Held::OwnContainer));
    // Nothing else holds it.
    let verdict = judged(&reservation, &present(elsewhere()), &known, 5_000);
    assert_eq!(stale(verdict).cause, Cause::Leftover);
}

#[rstest]
#[case::reports_it(present(reporting(POD, "net1", "10.0.0.5")), Held::Reported)]
#[case::starting(present(PodState { phase: Phase::Pending, ..elsewhere() }), Held::Changing)]
#[case::ending(present(PodState { deleting: true, ..elsewhere() }), Held::Leaving)]
#[case::ended(present(PodState { phase: Phase::Failed, ..elsewhere() }), Held::Ended)]
#[case::without_status(present(pod(POD)), Held::Changing)]
#[case::mirror(present(PodState { mirror: true, ..elsewhere() }), Held::Mirror)]
#[case::only_there(Presence::Present(None), Held::Present)]
fn a_pod_that_may_rely_on_it_keeps_it(#[case] presence: Presence, #[case] held: Held) {
    let known = Known::default().seen(0);
    let verdict = judged(&reservation(POD), &presence, &known, 5_000);
    assert_eq!(verdict, Verdict::Held(held.clone()));
    assert!(!held.to_string().is_empty());
}

/// A mark proves nothing: the API server's data may have gone back to it.
#[test]
fn a_claim_without_a_pod_waits_as_if_there_were_none() {
    let judged = |known| stale(judged(&claimed(), &Presence::Absent, &known, 1_000)).clearance;
    let known = Known::default().seen(50).absent(50);
    assert_eq!(judged(known).wait, until(50 + W + 10));
    let end = ended(reporting(POD, "net1", "10.0.0.5"), 100, true);
    // An ADD that accepted it before the claim has its time, and one minute more.
    let seen = Known::of(&[end]).seen(100);
    assert_eq!(judged(seen).wait, until(100 + 120 + 60));
    let mut silent = nodes_with(&[("node-1", not_ready())]);
    silent.suspect(["node-1"], at(50));
    let unseen = Known::default().seen(50).absent(50);
    let held = judged(unseen.but(|it| it.nodes = silent));
    assert_eq!(held.wait, waits_for(&["node-1"]));
}

#[rstest]
#[case::pod_is_back(present(reporting(POD, "net1", "10.0.0.5")))]
#[case::pod_is_there(Presence::Present(None))]
fn an_old_claim_of_a_pod_that_is_there_is_ended(#[case] presence: Presence) {
    let known = Known::default().seen(100);
    let stale = stale(judged(&claimed(), &presence, &known, 200));
    assert_eq!(
        (stale.cause, stale.clearance.grade),
        (Cause::Deleted, Grade::Settled)
    );
    assert_eq!(stale.clearance.wait, until(100 + 120 + 60));
}

/// Its ResourceClaim reports the address.
#[test]
fn so_is_an_old_claim_of_a_resource_claim() {
    let mut claims = ResourceClaims::default();
    claims.add("a", [ip("10.0.0.5")]);
    let of_claim = claimed_from(OF_RESOURCE_CLAIMS);
    let known = Known::default().seen(100);
    let verdict = judged_beside(&Ok(claims), &of_claim, &Presence::Absent, &known, 200);
    assert_eq!(stale(verdict).clearance.wait, until(100 + 120 + 60));
}

#[test]
fn an_error_decides_nothing_about_a_reservation_claimed_or_not() {
    let unknown = Presence::Unknown("no answer".into());
    for reservation in [reservation(POD), claimed()] {
        let verdict = judged(&reservation, &unknown, &Known::default().seen(0), 5_000);
        let Verdict::Unknown(reason) = verdict else {
            panic!("{verdict:?}");
        };
        assert_eq!(
            reason.to_string(),
            "nobody knows whether a pod uses it: no answer"
        );
    }
}

#[test]
fn one_of_nobody_or_of_an_exempted_owner_is_kept() {
    let known = Known::default().seen(0);
    let nobody = judged(&reservation("driver"), &Presence::Absent, &known, 5_000);
    let unreadable = Unknown::Unreadable(Unreadable::PodRef);
    assert_eq!(nobody, Verdict::Unknown(unreadable));
    for mut tagged in [reservation(POD), claimed()] {
        tagged.extra = Some(Unreadable::ExtraField("claim".into()));
        let verdict = judged(&tagged, &Presence::Absent, &known, 5_000);
        let field = Unknown::Unreadable(Unreadable::ExtraField("claim".into()));
        assert_eq!(verdict, Verdict::Unknown(field));
    }
    let policy = Policy::default().but(|it| it.keep_podrefs = vec![Glob::new("default/*")]);
    let facts = known.facts(&policy, 5_000);
    let absent = &Presence::Absent;
    let verdict = judge_orphan(&reservation(POD), ip("10.0.0.5"), absent, &unread(), &facts);
    assert_eq!(verdict, Verdict::Unknown(Unknown::KeptOwner));
}

/// The next pod of the name may have accepted the reservation, and report nothing yet.
#[test]
fn that_a_row_was_older_than_its_pod_says_nothing_of_the_next_pod() {
    let mut state = reporting(POD, "net1", "10.0.0.6");
    state.status = Status::Missing;
    let (uid, presence, known) = (state.uid.clone(), present(state), Known::default());
    let check = |uid| {
        let fact = Fact::of(Cause::Predecessor, uid);
        fact.check(
            Some(&presence),
            ip("10.0.0.5"),
            &known.facts(&Policy::default(), 0).scope,
        )
    };
    assert_eq!(check(Some(&*uid)), Ok(true));
    assert_eq!(check(Some("another")), Ok(false));
    assert_eq!(check(None), Ok(false));
}

/// Multus reports nothing of the definition.
#[test]
fn a_pod_whose_status_may_lack_the_address_keeps_it() {
    let config = r#"{"type":"x","ipam":{"type":"whereabouts","range":"10.0.0.0/24"}}"#;
    let state = reporting(POD, "net1", "10.0.0.6");
    let presence = present(state);
    let mut known = Known::default();
    assert_eq!(
        stale(judged(&reservation(POD), &presence, &known, NOW)).cause,
        Cause::Leftover
    );
    let check = |known: &Known| {
        let fact = Fact::RunsWithoutIt;
        fact.check(
            Some(&presence),
            ip("10.0.0.5"),
            &known.facts(&Policy::default(), 0).scope,
        )
    };
    assert_eq!(check(&known), Ok(true));
    let definition = ipam::parse(config, "old");
    known
        .definitions
        .insert("kube-system/old".into(), definition);
    let verdict = judged(&reservation(POD), &presence, &known, NOW);
    assert_eq!(verdict, Verdict::Held(Held::Drift));
    assert_eq!(check(&known), Ok(false));
}
