//! The verdict on a row: the rules in their order, and what no input may ever bring about.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use std::{collections::HashMap, slice::from_ref, sync::Arc, time::Duration};

use common::{
    POD, all_absent, at, ended, observe, pod, podref, pool_document, pool_with, release, reporting,
    row_value, sandbox, secs, status,
};
use ipgc_core::{
    evidence::{Ended, Grade, Policy},
    judge::{Cause, Held, Stale, Unknown, Verdict, judge},
    networks::{Request, Status},
    pod::{Phase, PodState},
    podref::Glob,
    pool::{ObservedPool, Unreadable},
    proof::Presence,
    time::Moment,
};
use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

/// The verdict on the only row of the pool.
fn verdict(pool: &ObservedPool, presence: &Presence, ended: &[Arc<Ended>]) -> Verdict {
    judge(
        pool,
        &pool.rows()[0],
        presence,
        ended,
        1,
        &Policy::default(),
    )
}

/// The verdict on 10.0.0.5, net1, of a pod in this state.
fn with_pod(state: PodState) -> Verdict {
    verdict(&pool_with("5"), &present(state), &[good_end()])
}

fn present(state: PodState) -> Presence {
    Presence::Present(Some(Box::new(state)))
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
    let mut document = pool_document("10.0.0.0/24", &[("5", row_value(POD, &sandbox(1), "net1"))]);
    document["metadata"]["annotations"] = annotations.clone();
    observe(&document)
}

// Rule 3

#[test]
fn a_row_of_an_absent_pod_is_stale_with_the_grade_of_its_evidence() {
    assert_eq!(
        verdict(&pool_with("5"), &Presence::Absent, &[good_end()]),
        Verdict::Stale(Stale {
            grade: Grade::Settled,
            cause: Cause::Deleted,
            free_at: at(2)
        })
    );
    let forced = ended(reporting(POD, "net1", "10.0.0.5"), 0, false);
    assert_eq!(
        verdict(&pool_with("5"), &Presence::Absent, &[forced]),
        Verdict::Stale(Stale {
            grade: Grade::Witnessed,
            cause: Cause::Deleted,
            free_at: at(210)
        })
    );
}

#[test]
fn evidence_is_weighed_row_by_row() {
    // Dual stack and two interfaces: the pod reported one of the three.
    let pool = observe(&pool_document(
        "10.0.0.0/24",
        &[
            ("5", row_value(POD, &sandbox(1), "net1")),
            ("6", row_value(POD, &sandbox(1), "net1")),
            ("7", row_value(POD, &sandbox(1), "net2")),
        ],
    ));
    let grades: Vec<_> = pool
        .rows()
        .iter()
        .map(|row| {
            match judge(
                &pool,
                row,
                &Presence::Absent,
                &[good_end()],
                3,
                &Policy::default(),
            ) {
                Verdict::Stale(stale) => (stale.grade, stale.free_at),
                other => panic!("{other:?}"),
            }
        })
        .collect();
    assert_eq!(
        grades,
        [
            (Grade::Settled, at(2)),
            (Grade::Unwitnessed, at(330)),
            (Grade::Unwitnessed, at(330))
        ]
    );
}

#[test]
fn absence_without_evidence_never_frees() {
    let never_scheduled = PodState {
        node: None,
        ..reporting(POD, "net1", "10.0.0.5")
    };
    for evidence in [vec![], vec![ended(never_scheduled, 0, true)]] {
        assert_eq!(
            verdict(&pool_with("5"), &Presence::Absent, &evidence),
            Verdict::Unknown(Unknown::NoEvidence)
        );
    }
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

#[test]
fn a_pod_that_is_there_holds_its_rows_even_when_nothing_more_was_read() {
    assert_eq!(
        verdict(&pool_with("5"), &Presence::Present(None), &[good_end()]),
        Verdict::Held(Held::Present)
    );
}

#[rstest]
#[case::reported(Phase::Running, false, status(&[("net1", &["10.0.0.5"])]), Held::Reported)]
#[case::on_another_interface(Phase::Running, false, status(&[("net9", &["10.0.0.5"])]), Held::Reported)]
#[case::on_no_interface(Phase::Running, false, status(&[("", &["10.0.0.5"])]), Held::Reported)]
#[case::in_the_last_entry(Phase::Running, false, status(&[("eth0", &["10.244.0.7"]), ("net1", &[]), ("net2", &["10.0.0.4", "10.0.0.5"])]), Held::Reported)]
#[case::reported_while_deleted(Phase::Running, true, status(&[("net1", &["10.0.0.5"])]), Held::Reported)]
#[case::reported_while_pending(Phase::Pending, false, status(&[("net1", &["10.0.0.5"])]), Held::Reported)]
#[case::reported_and_failed(Phase::Failed, false, status(&[("net1", &["10.0.0.5"])]), Held::Reported)]
#[case::pending(Phase::Pending, false, status(&[("net1", &["10.0.0.6"])]), Held::Young)]
#[case::phase_unknown(Phase::Unknown, false, status(&[("net1", &["10.0.0.6"])]), Held::Young)]
#[case::no_status(Phase::Running, false, Status::Missing, Held::Young)]
#[case::no_status_and_failed(Phase::Failed, false, Status::Missing, Held::Young)]
#[case::malformed_status(Phase::Running, false, malformed(), Held::Young)]
#[case::deleted(Phase::Running, true, status(&[("net1", &["10.0.0.6"])]), Held::Young)]
#[case::another_address(Phase::Running, false, status(&[("net1", &["10.0.0.6"])]), Held::Drift)]
#[case::no_addresses(Phase::Running, false, status(&[("net1", &[])]), Held::Drift)]
#[case::no_entries(Phase::Running, false, status(&[]), Held::Drift)]
#[case::succeeded(Phase::Succeeded, false, status(&[("net1", &["10.0.0.6"])]), Held::Drift)]
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
    assert_eq!(with_pod(state), Verdict::Held(held));
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
    assert_eq!(
        verdict(&pool, &present(state.clone()), &[]),
        Verdict::Held(Held::Reported)
    );
    // The same report is evidence when the pod is gone.
    assert!(matches!(
        verdict(&pool, &Presence::Absent, &[ended(state, 0, true)]),
        Verdict::Stale(Stale {
            grade: Grade::Settled,
            ..
        })
    ));
}

#[test]
fn an_address_that_only_looks_alike_is_another() {
    for reported in ["10.0.0.50", "110.0.0.5", "10.0.5.0"] {
        let state = reporting(POD, "net1", reported);
        assert_eq!(with_pod(state), Verdict::Held(Held::Drift));
    }
}

#[test]
fn entries_of_the_default_network_count() {
    let annotation = r#"[
        {"name":"cbr0","interface":"eth0","ips":["10.0.0.5"],"mac":"aa:bb","default":true,"dns":{}},
        {"name":"default/nad","interface":"net1","ips":["10.0.0.9"],"dns":{}}]"#;
    let state = PodState {
        status: Status::parse(annotation),
        ..pod(POD)
    };
    assert_eq!(with_pod(state), Verdict::Held(Held::Reported));
}

#[test]
fn one_unreadable_address_makes_the_status_no_evidence_at_all() {
    let annotation =
        r#"[{"name":"default/nad","interface":"net1","ips":["10.0.0.9","10.0.0.five"]}]"#;
    let state = PodState {
        status: Status::parse(annotation),
        ..pod(POD)
    };
    assert_eq!(with_pod(state.clone()), Verdict::Held(Held::Young));
    assert!(matches!(
        verdict(&pool_with("9"), &Presence::Absent, &[ended(state, 0, true)]),
        Verdict::Stale(Stale {
            grade: Grade::Unwitnessed,
            ..
        })
    ));
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
    let policy = Policy {
        keep_podrefs: vec![Glob::new("dranet/*"), Glob::new(pattern)],
        ..Policy::default()
    };
    let pool = pool_with("5");
    let proof = all_absent(&pool);
    let released = proof.release(&pool.rows()[0], &[good_end()], 1, &policy, at(1000));
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

#[test]
fn an_unparsable_range_makes_every_row_unknown() {
    let mut document = pool_document("10.0.0.0/24", &[("5", row_value(POD, &sandbox(1), "net1"))]);
    document["spec"]["range"] = json!("10.0.0.0-10.0.0.255");
    assert_eq!(
        verdict(&observe(&document), &Presence::Absent, &[good_end()]),
        Verdict::Unknown(Unknown::Unreadable(Unreadable::Range))
    );
}

#[rstest]
#[case::exempt_before_unknown_presence(Presence::Unknown("?".into()))]
#[case::exempt_before_present(Presence::Present(None))]
#[case::exempt_before_absent(Presence::Absent)]
fn an_exemption_comes_before_any_presence(#[case] presence: Presence) {
    let pool = annotated(&json!({"ipgc.dev/hold": ""}));
    assert_eq!(
        verdict(&pool, &presence, &[good_end()]),
        Verdict::Unknown(Unknown::Exempt)
    );
}

// Release

#[test]
fn a_row_goes_at_its_moment_and_not_before() {
    let pool = pool_with("5");
    let proof = all_absent(&pool);
    let end = ended(reporting(POD, "net1", "10.0.0.5"), 100, true);
    let release = |now| proof.release(&pool.rows()[0], from_ref(&end), 1, &Policy::default(), now);
    let early = Moment::new(Duration::from_nanos(101_999_999_999));
    assert!(matches!(
        release(early),
        Err(Verdict::Stale(Stale { free_at, .. })) if free_at == at(102)
    ));
    let released = release(at(102)).unwrap();
    assert_eq!(released.row().key(), "5");
    assert_eq!(released.content().podref.as_str(), POD);
    assert_eq!(released.stale().cause, Cause::Deleted);
    assert_eq!(released.stale().grade, Grade::Settled);
}

#[test]
fn a_pod_that_is_back_keeps_its_rows_whatever_its_predecessor_proved() {
    let pool = pool_with("5");
    let back = HashMap::from([(podref(POD), Presence::Present(None))]);
    let proof = pool.begin_proof().conclude(back);
    assert_eq!(
        release(&proof, &pool.rows()[0]).unwrap_err(),
        Verdict::Held(Held::Present)
    );
}

// Properties

fn any_phase() -> impl Strategy<Value = Phase> {
    prop_oneof![
        Just(Phase::Pending),
        Just(Phase::Running),
        Just(Phase::Succeeded),
        Just(Phase::Failed),
        Just(Phase::Unknown),
    ]
}

/// Few addresses and interfaces, so that they meet those of the rows.
fn any_entries() -> impl Strategy<Value = Vec<(&'static str, Vec<&'static str>)>> {
    let address = prop::sample::select(vec![
        "10.0.0.5",
        "10.0.0.6",
        "::ffff:10.0.0.5",
        "fd00::1",
        "10.0.0.5/24",
    ]);
    let interface = prop::sample::select(vec!["net1", "net2", "eth0", ""]);
    prop::collection::vec((interface, prop::collection::vec(address, 0..3)), 0..4)
}

fn valid(entries: &[(&str, Vec<&str>)]) -> Status {
    let entries: Vec<_> = entries.iter().map(|(i, a)| (*i, a.as_slice())).collect();
    status(&entries)
}

fn any_status() -> impl Strategy<Value = Status> {
    prop_oneof![
        4 => any_entries().prop_map(|entries| valid(&entries)),
        1 => Just(Status::Missing),
        1 => "\\PC{0,30}".prop_map(|text| Status::parse(&text)),
    ]
}

prop_compose! {
    fn any_pod()(
        phase in any_phase(),
        status in any_status(),
        request in prop_oneof![Just("a"), Just("a,b"), Just(",")],
        [deleting, mirror, host_network, scheduled] in any::<[bool; 4]>(),
        grace in any::<Option<u64>>(),
    ) -> PodState {
        PodState {
            phase, deleting, mirror, host_network, status,
            node: scheduled.then(|| "node-1".into()),
            request: Request::parse(request, "default"),
            termination_grace: grace.map(secs),
            ..pod(POD)
        }
    }
}

fn any_present() -> impl Strategy<Value = Presence> {
    prop::option::weighted(0.9, any_pod()).prop_map(|pod| Presence::Present(pod.map(Box::new)))
}

fn any_presence() -> impl Strategy<Value = Presence> {
    prop_oneof![
        Just(Presence::Absent),
        any_present(),
        "\\PC{0,20}".prop_map(|reason| Presence::Unknown(reason.into())),
    ]
}

fn any_history() -> impl Strategy<Value = Vec<Arc<Ended>>> {
    let one = (any_pod(), 0u64..2000, any::<bool>())
        .prop_map(|(last, second, settled)| ended(last, second, settled));
    prop::collection::vec(one, 0..4).prop_map(|mut history| {
        history.sort_by_key(|e| e.at);
        history
    })
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        "\\PC{0,80}".prop_map(Value::from),
        Just(Value::from(POD)),
        Just(Value::from(sandbox(1))),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::hash_map(any_field(), inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn any_field() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("id".to_owned()),
        Just("podref".to_owned()),
        Just("ifname".to_owned()),
        "\\PC{0,10}",
    ]
}

fn any_key() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => Just("5".to_owned()),
        1 => any::<i128>().prop_map(|n| n.to_string()),
        1 => any::<u64>().prop_map(|n| n.to_string()),
        1 => "\\PC{0,12}",
    ]
}

fn any_range() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("10.0.0.0/24".to_owned()),
        Just("fd00::/64".to_owned()),
        Just("ffff::ffff/0".to_owned()),
        Just("255.255.255.255/32".to_owned()),
        "\\PC{0,20}",
    ]
}

fn any_policy() -> impl Strategy<Value = Policy> {
    (any::<[u64; 5]>(), "\\PC{0,8}").prop_map(|([cooldown, grace, pod, del, leftover], glob)| {
        Policy {
            cooldown: secs(cooldown),
            grace: secs(grace),
            max_pod_grace: secs(pod),
            del_budget: secs(del),
            leftover_grace: secs(leftover),
            keep_podrefs: vec![Glob::new(&glob)],
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn every_row_of_every_pool_gets_a_verdict(
        range in any_range(),
        (key, value) in (any_key(), any_json()),
        annotation in "\\PC{0,20}",
        presence in any_presence(),
        history in any_history(),
        rows: usize,
        policy in any_policy(),
        now: u64,
    ) {
        let mut document = pool_document(&range, &[(&key, value)]);
        document["metadata"]["annotations"] = json!({"ipgc.dev/keep": annotation});
        let pool = observe(&document);
        prop_assert_eq!(pool.rows().len(), 1);
        let row = &pool.rows()[0];
        let verdict = judge(&pool, row, &presence, &history, rows, &policy);
        let absent = matches!(presence, Presence::Absent);
        let learned = row.content().map(|content| (content.podref.clone(), presence));
        let proof = pool.begin_proof().conclude(learned.into_iter().collect());
        match proof.release(row, &history, rows, &policy, at(now)) {
            Ok(release) => {
                prop_assert!(absent);
                prop_assert_eq!(verdict, Verdict::Stale(release.stale()));
            }
            Err(other) => prop_assert_eq!(verdict, other),
        }
    }

    #[test]
    fn a_present_pod_is_never_stale(
        presence in any_present(),
        history in any_history(),
        policy in any_policy(),
        rows: usize,
    ) {
        let pool = pool_with("5");
        let verdict = judge(&pool, &pool.rows()[0], &presence, &history, rows, &policy);
        prop_assert!(!matches!(verdict, Verdict::Stale(_)), "{:?}", verdict);
        let learned = HashMap::from([(podref(POD), presence)]);
        let proof = pool.begin_proof().conclude(learned);
        let never = Moment::new(Duration::MAX);
        prop_assert!(proof.release(&pool.rows()[0], &history, rows, &policy, never).is_err());
    }

    #[test]
    fn unknown_presence_never_frees(history in any_history(), reason in "\\PC{0,20}", policy in any_policy()) {
        let pool = pool_with("5");
        let presence = Presence::Unknown(reason.into());
        let verdict = judge(&pool, &pool.rows()[0], &presence, &history, 1, &policy);
        prop_assert!(matches!(verdict, Verdict::Unknown(_)), "{:?}", verdict);
    }

    #[test]
    fn more_entries_in_a_status_never_turn_held_into_stale_nor_reported_into_less(
        state in any_pod(),
        entries in any_entries(),
        more in any_entries(),
        history in any_history(),
    ) {
        let less = PodState { status: valid(&entries), ..state };
        let both: Vec<_> = entries.into_iter().chain(more).collect();
        let more = PodState { status: valid(&both), ..less.clone() };
        let pool = pool_with("5");
        let before = verdict(&pool, &present(less), &history);
        let after = verdict(&pool, &present(more), &history);
        prop_assert!(matches!(after, Verdict::Held(_)), "{:?}", after);
        if before == Verdict::Held(Held::Reported) {
            prop_assert_eq!(after, before);
        }
    }

    #[test]
    fn a_status_that_cannot_be_read_never_frees(text in "\\PC{0,60}", state in any_pod(), history in any_history()) {
        let state = PodState { status: Status::parse(&text), ..state };
        prop_assert!(matches!(verdict(&pool_with("5"), &present(state), &history), Verdict::Held(_)));
    }

    #[test]
    fn a_row_with_an_extra_field_is_always_unknown(
        field in "\\PC{0,12}".prop_filter("known", |f| !["id", "podref", "ifname"].contains(&f.as_str())),
        extra in any_json(),
        presence in any_presence(),
        history in any_history(),
    ) {
        let mut value = row_value(POD, &sandbox(1), "net1");
        value[&field] = extra;
        let pool = observe(&pool_document("10.0.0.0/24", &[("5", value)]));
        let verdict = verdict(&pool, &presence, &history);
        let unreadable = matches!(
            verdict,
            Verdict::Unknown(Unknown::Unreadable(Unreadable::ExtraField(_)))
        );
        prop_assert!(unreadable, "{:?}", verdict);
    }

    #[test]
    fn nothing_is_released_before_its_moment(history in any_history(), rows in 0usize..8, now in 0u64..10_000) {
        let pool = pool_with("5");
        let policy = Policy::default();
        let proof = all_absent(&pool);
        let row = &pool.rows()[0];
        let free_at = match judge(&pool, row, &Presence::Absent, &history, rows, &policy) {
            Verdict::Stale(stale) => Some(stale.free_at),
            _ => None,
        };
        let released = proof.release(row, &history, rows, &policy, at(now));
        prop_assert_eq!(released.is_ok(), free_at.is_some_and(|free_at| free_at <= at(now)));
        prop_assert_eq!(free_at.is_some(), history.iter().any(|e| e.last.node.is_some()));
    }

    #[test]
    fn what_is_exempt_or_kept_is_never_freed(
        presence in any_presence(),
        history in any_history(),
        hold: bool,
        value in "\\PC{0,12}",
    ) {
        let annotation = if hold { "ipgc.dev/hold" } else { "ipgc.dev/keep" };
        let value = if hold { value } else { format!("{value} 5 {value}") };
        let pool = annotated(&json!({annotation: value}));
        prop_assert_eq!(verdict(&pool, &presence, &history), Verdict::Unknown(Unknown::Exempt));
        let pool = pool_with("5");
        let policy = Policy { keep_podrefs: vec![Glob::new("default/*")], ..Policy::default() };
        let kept = judge(&pool, &pool.rows()[0], &presence, &history, 1, &policy);
        prop_assert_eq!(kept, Verdict::Unknown(Unknown::KeptOwner));
    }
}
