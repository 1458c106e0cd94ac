//! The verdict on a row: the rules in their order, and what no input may ever bring about.

use crate::common::prelude::*;

/// The verdict on the only row of the pool.
fn verdict(pool: &ObservedPool, presence: &Presence, ended: &[Arc<Ended>]) -> Verdict {
    let known = Known::of(ended).seen(0);
    known.judge(pool, presence, &Policy::default(), 0)
}

/// Stale by a deletion, with this grade and from this second on.
fn deleted(grade: Grade, second: u64) -> Verdict {
    Verdict::Stale(Stale {
        cause: Cause::Deleted,
        clearance: Clearance {
            grade,
            ..Clearance::certain(at(second))
        },
    })
}

/// The verdict on 10.0.0.5, net1, of a pod in this state.
fn with_pod(state: PodState) -> Verdict {
    verdict(&pool_with("5"), &present(state), &[good_end()])
}

/// Evidence that frees 10.0.0.5 of net1 at once where nothing else stands against it.
fn good_end() -> Arc<Ended> {
    ended(reporting(POD, "net1", "10.0.0.5"), 0, true)
}

fn malformed() -> Status {
    let status = Status::parse("[{");
    assert!(matches!(status, Status::Malformed(_)));
    status
}

/// A pool of 10.0.0.0/24 with 10.0.0.5 and these annotations.
fn annotated(annotations: &Value) -> ObservedPool {
    let mut document = document_with("5");
    document["metadata"]["annotations"] = annotations.clone();
    observe(&document)
}

// Rule 3

#[test]
fn a_row_of_an_absent_pod_is_stale_with_the_grade_of_its_evidence() {
    assert_eq!(
        verdict(&pool_with("5"), &Presence::Absent, &[good_end()]),
        deleted(Grade::Settled, 2)
    );
    let forced = ended(reporting(POD, "net1", "10.0.0.5"), 0, false);
    // Its node does not exist any more.
    let gone = verdict(&pool_with("5"), &Presence::Absent, &[Arc::clone(&forced)]);
    assert_eq!(gone, deleted(Grade::Fenced, W));
    let known = Known::of(&[forced]).seen(0).on(working(&["node-1"], 20));
    let verdict = known.judge(&pool_with("5"), &Presence::Absent, &Policy::default(), 20);
    assert_eq!(verdict, deleted(Grade::Witnessed, 10 + W));
}

#[test]
fn evidence_is_weighed_row_by_row() {
    // Dual stack and two interfaces: the pod reported one of the three.
    let rows = [("5", "net1"), ("6", "net1"), ("7", "net2")];
    let rows = rows.map(|(key, interface)| (key, row_value(POD, &sandbox(1), interface)));
    let pool = observe(&pool_document("10.0.0.0/24", &rows));
    let known = Known::of(&[good_end()]).seen(0).but(|it| it.rows = 3);
    let policy = Policy::default();
    let facts = known.facts(&policy, 0);
    let rows = pool.rows().iter();
    let verdicts = rows.map(|row| judge(&pool, row, &Presence::Absent, &facts));
    assert_eq!(
        verdicts.collect::<Vec<_>>(),
        [
            deleted(Grade::Settled, 2),
            deleted(Grade::Unwitnessed, 330),
            deleted(Grade::Unwitnessed, 330)
        ]
    );
}

#[test]
fn an_error_is_never_absence() {
    let presence = Presence::Unknown("500 Internal Server Error".into());
    assert_eq!(
        verdict(&pool_with("5"), &presence, &[good_end()]),
        Verdict::Unknown(Unknown::NoProof("500 Internal Server Error".into()))
    );
}

#[test]
fn a_pod_that_nobody_asked_about_is_not_absent() {
    let pool = pool_with("5");
    let elsewhere = HashMap::from([(podref("other/web-0"), Presence::Absent)]);
    let proof = pool.begin_proof().conclude(elsewhere);
    assert!(matches!(
        release(&proof, &pool.rows()[0]),
        Err(Verdict::Unknown(Unknown::NoProof(_)))
    ));
}

// Rules 5, 7 and 9

#[rstest]
#[case::reported(Phase::Running, false, status(&[("net1", &["10.0.0.5"])]), Held::Reported)]
#[case::on_another_interface(Phase::Running, false, status(&[("net9", &["10.0.0.5"])]), Held::Reported)]
#[case::on_no_interface(Phase::Running, false, status(&[("", &["10.0.0.5"])]), Held::Reported)]
#[case::in_the_last_entry(Phase::Running, false, status(&[("eth0", &["10.244.0.7"]), ("net1", &[]), ("net2", &["10.0.0.4", "10.0.0.5"])]), Held::Reported)]
#[case::reported_while_deleted(Phase::Running, true, status(&[("net1", &["10.0.0.5"])]), Held::Leaving)]
#[case::reported_while_pending(Phase::Pending, false, status(&[("net1", &["10.0.0.5"])]), Held::Reported)]
#[case::reported_and_failed(Phase::Failed, false, status(&[("net1", &["10.0.0.5"])]), Held::Ended)]
#[case::pending(Phase::Pending, false, status(&[("net1", &["10.0.0.6"])]), Held::Changing)]
#[case::phase_unknown(Phase::Unknown, false, status(&[("net1", &["10.0.0.6"])]), Held::Changing)]
#[case::no_status(Phase::Running, false, Status::Missing, Held::Changing)]
#[case::no_status_and_failed(Phase::Failed, false, Status::Missing, Held::Ended)]
#[case::malformed_status(Phase::Running, false, malformed(), Held::Changing)]
#[case::deleted(Phase::Running, true, status(&[("net1", &["10.0.0.6"])]), Held::Leaving)]
#[case::another_address(Phase::Running, false, status(&[("net1", &["10.0.0.6"])]), Held::Unused)]
#[case::no_addresses_of_a_definition_that_is_gone(Phase::Running, false, status(&[("net1", &[])]), Held::Drift)]
#[case::no_entries(Phase::Running, false, status(&[]), Held::Unused)]
#[case::succeeded(Phase::Succeeded, false, status(&[("net1", &["10.0.0.6"])]), Held::Ended)]
fn a_pod_that_is_there_holds_its_row(
    #[case] phase: Phase,
    #[case] deleting: bool,
    #[case] status: Status,
    #[case] held: Held,
) {
    let state = PodState {
        phase,
        deleting,
        status,
        ..pod(POD)
    };
    assert_held(&with_pod(state), held);
}

#[rstest]
#[case("fd00:0:0:10::/64", "1", "fd00:0:0:10::1")]
#[case("fd00:0:0:10::/64", "1", "FD00:0000:0000:0010:0000:0000:0000:0001")]
#[case("fd00:0:0:10::/64", "1", "fd00:0:0:10::1/64")]
#[case("FD00:0:0:0010::/64", "1", "fd00:0:0:10:0:0:0:1")]
#[case("2001:db8:5422:5::/64", "0", "2001:db8:5422:5::0")]
#[case("caa5::/64", "-3844666706890850303", "caa5::caa5:0:0:1")]
#[case("10.0.0.0/24", "5", "::ffff:10.0.0.5")]
#[case("10.0.0.0/24", "5", "10.0.0.5/24")]
fn addresses_are_compared_as_addresses(
    #[case] range: &str,
    #[case] key: &str,
    #[case] reported: &str,
) {
    let pool = observe(&pool_document(
        range,
        &[(key, row_value(POD, &sandbox(1), "net1"))],
    ));
    let state = reporting(POD, "net1", reported);
    assert_held(
        &verdict(&pool, &present(state.clone()), &[]),
        Held::Reported,
    );
    // The same report is evidence when the pod is gone.
    assert!(matches!(
        verdict(&pool, &Presence::Absent, &[ended(state, 0, true)]),
        Verdict::Stale(stale) if stale.clearance.grade == Grade::Settled
    ));
}

#[test]
fn an_address_that_only_looks_alike_is_another() {
    for reported in ["10.0.0.50", "110.0.0.5", "10.0.5.0"] {
        let state = reporting(POD, "net1", reported);
        assert_held(&with_pod(state), Held::Unused);
    }
}

// Rule 1

#[rstest]
#[case::hold(json!({"ipgc.dev/hold": ""}))]
#[case::hold_false(json!({"ipgc.dev/hold": "false"}))]
#[case::key(json!({"ipgc.dev/keep": "5"}))]
#[case::one_of_many(json!({"ipgc.dev/keep": "3, 4,5 6"}))]
#[case::address(json!({"ipgc.dev/keep": "10.0.0.5"}))]
#[case::address_among_others(json!({"ipgc.dev/keep": "10.0.0.4 10.0.0.5"}))]
#[case::address_in_another_spelling(json!({"ipgc.dev/keep": "::ffff:10.0.0.5"}))]
#[case::a_yaml_block(json!({"ipgc.dev/keep": "4\n5\n"}))]
#[case::a_yaml_block_with_commas(json!({"ipgc.dev/keep": "10.0.0.4,\n\t10.0.0.5\r\n"}))]
fn what_a_person_exempts_is_kept(#[case] annotations: Value) {
    let pool = annotated(&annotations);
    assert_eq!(
        verdict(&pool, &Presence::Absent, &[good_end()]),
        Verdict::Unknown(Unknown::Exempt)
    );
    assert_eq!(
        release(&all_absent(&pool), &pool.rows()[0]).unwrap_err(),
        Verdict::Unknown(Unknown::Exempt)
    );
}

#[rstest]
#[case(json!({"ipgc.dev/keep": "50"}))]
#[case(json!({"ipgc.dev/keep": "10.0.0.50"}))]
#[case(json!({"ipgc.dev/keep": ""}))]
#[case(json!({"ipgc.dev/ack": "5"}))]
#[case(json!({"hold": ""}))]
fn an_exemption_of_something_else_keeps_nothing(#[case] annotations: Value) {
    let pool = annotated(&annotations);
    assert!(release(&all_absent(&pool), &pool.rows()[0]).is_ok());
}

#[rstest]
#[case("default/*", true)]
#[case("*/web-?", true)]
#[case("default/web-0", true)]
#[case("*", true)]
#[case("web-0", false)]
#[case("default/web", false)]
#[case("other/*", false)]
#[case("", false)]
fn rows_of_kept_owners_are_never_touched(#[case] pattern: &str, #[case] kept: bool) {
    let policy = Policy::default()
        .but(|it| it.keep_podrefs = vec![Glob::new("dranet/*"), Glob::new(pattern)]);
    let pool = pool_with("5");
    let proof = all_absent(&pool);
    let known = Known::of(&[good_end()]).seen(0);
    let released = proof.release(&pool.rows()[0], &known.facts(&policy, 1000));
    if kept {
        assert_eq!(released.unwrap_err(), Verdict::Unknown(Unknown::KeptOwner));
    } else {
        assert!(released.is_ok());
    }
}

#[rstest]
#[case::key("x", row_value(POD, &sandbox(1), "net1"), Unreadable::Key)]
#[case::key_with_plus("+5", row_value(POD, &sandbox(1), "net1"), Unreadable::Key)]
#[case::podref("5", row_value("web-0", &sandbox(1), "net1"), Unreadable::PodRef)]
#[case::podref_of_three("5", row_value("a/b/c", &sandbox(1), "net1"), Unreadable::PodRef)]
#[case::empty_podref("5", row_value("", &sandbox(1), "net1"), Unreadable::PodRef)]
#[case::claim_as_id("5", row_value(POD, "ipamclaim-7", "net1"), Unreadable::SandboxId)]
#[case::null_interface("5", json!({"id": sandbox(1), "podref": POD, "ifname": null}), Unreadable::Shape)]
#[case::extra_field("5", json!({"id": sandbox(1), "podref": POD, "ifname": "net1", "claim": null}), Unreadable::ExtraField("claim".into()))]
fn rule_1_comes_before_any_presence(
    #[case] key: &str,
    #[case] value: Value,
    #[case] reason: Unreadable,
) {
    let pool = observe(&pool_document("10.0.0.0/24", &[(key, value)]));
    let reported = present(reporting(POD, "net1", "10.0.0.5"));
    for presence in [
        Presence::Absent,
        Presence::Present(None),
        reported,
        Presence::Unknown("?".into()),
    ] {
        assert_eq!(
            verdict(&pool, &presence, &[good_end()]),
            Verdict::Unknown(Unknown::Unreadable(reason.clone()))
        );
    }
}

// Release
