//! Whose a reservation is, and what a claim and a restore do to it.

use ipgc_core::{
    address::reservation_names,
    reservation::{CLAIM_ANNOTATION, CLAIMED_PODREF},
};

use crate::common::prelude::*;

/// A reservation as the API server shows it.
fn document(name: &str, owner: &str, interface: Option<&str>) -> Value {
    let mut document = json!({
        "apiVersion": "whereabouts.cni.cncf.io/v1alpha1",
        "kind": "OverlappingRangeIPReservation",
        "metadata": {
            "name": name,
            "namespace": "kube-system",
            "uid": "reservation-uid",
            "resourceVersion": "41"
        },
        "spec": {"containerid": sandbox(1), "podref": owner}
    });
    if let Some(interface) = interface {
        document["spec"]["ifname"] = json!(interface);
    }
    document
}

fn annotated(mut document: Value, annotations: Value) -> Value {
    document["metadata"]["annotations"] = annotations;
    document
}

fn read(document: &Value) -> Reservation {
    Reservation::parse(&document.to_string()).unwrap()
}

fn usual() -> Value {
    document("10.0.0.5", POD, Some("net1"))
}

/// A pool with one row of [`POD`]; no interface where it is empty.
fn pool(range: &str, key: &str, interface: &str) -> ObservedPool {
    let row = row_value(POD, &sandbox(1), interface);
    observe(&pool_document(range, &[(key, row)]))
}

/// The pool whose row [`usual`] is of.
fn usual_pool() -> ObservedPool {
    pool("10.0.0.0/24", "5", "net1")
}

/// Whether the reservation belongs to the row of that pool.
fn belongs(reservation: &Value, pool: &ObservedPool, network: Option<&str>) -> bool {
    let proof = all_absent(pool);
    let release = release(&proof, &pool.rows()[0]).unwrap();
    read(reservation).belongs_to(release.content(), network)
}

fn claimed(document: &Value) -> Value {
    apply(document, &read(document).claim()).unwrap()
}

// Whose it is

#[rstest]
#[case::v4("10.0.0.5", None, "10.0.0.0/24", "5")]
#[case::v4_in_a_network("blue-10.0.0.5", Some("blue"), "10.0.0.0/24", "5")]
#[case::network_with_dashes("b-l-u-e-10.0.0.5", Some("b-l-u-e"), "10.0.0.0/24", "5")]
#[case::network_of_digits("10-10.0.0.5", Some("10"), "10.0.0.0/24", "5")]
#[case::short("fd00-0-0-10--1", None, "fd00:0:0:10::/64", "1")]
#[case::expanded(
    "fd00-0000-0000-0010-0000-0000-0000-0001",
    None,
    "fd00:0:0:10::/64",
    "1"
)]
#[case::half_expanded("fd00-0-0-10-0-0-0-1", None, "fd00:0:0:10::/64", "1")]
#[case::zero("2001-db8-5422-5--0", None, "2001:db8:5422:5::/64", "0")]
#[case::zero_expanded(
    "2001-0db8-5422-0005-0000-0000-0000-0000",
    None,
    "2001:db8:5422:5::/64",
    "0"
)]
#[case::short_in_a_network("blue-fd00--1", Some("blue"), "fd00::/64", "1")]
#[case::zero_in_a_network("blue-fd00--0", Some("blue"), "fd00::/64", "0")]
#[case::unspecified_in_a_network("blue---1", Some("blue"), "::/64", "1")]
#[case::legacy_key("caa5--caa5-0-0-1", None, "caa5::/64", "-3844666706890850303")]
fn every_spelling_of_its_address_and_network_is_the_rows(
    #[case] name: &str,
    #[case] network: Option<&str>,
    #[case] range: &str,
    #[case] key: &str,
) {
    let reservation = document(name, POD, Some("net1"));
    assert!(belongs(&reservation, &pool(range, key, "net1"), network));
}

#[rstest]
#[case::another_address("10.0.0.6", None)]
#[case::longer("10.0.0.50", None)]
#[case::a_networks("blue-10.0.0.5", None)]
#[case::no_networks("10.0.0.5", Some("blue"))]
#[case::another_networks("green-10.0.0.5", Some("blue"))]
#[case::a_longer_networks("blue-2-10.0.0.5", Some("blue"))]
#[case::a_shorter_networks("blue-10.0.0.5", Some("blue-2"))]
#[case::glued("blue10.0.0.5", Some("blue"))]
#[case::empty_network("10.0.0.5", Some(""))]
#[case::no_address("ten", None)]
#[case::dashes_for_dots("10-0-0-5", None)]
fn another_address_or_network_is_never_the_rows(#[case] name: &str, #[case] network: Option<&str>) {
    let reservation = document(name, POD, Some("net1"));
    assert!(!belongs(&reservation, &usual_pool(), network));
}

#[rstest]
#[case::same(Some("net1"), "net1", true)]
#[case::another(Some("net2"), "net1", false)]
#[case::reservation_has_none(None, "net1", true)]
#[case::reservation_has_an_empty_one(Some(""), "net1", true)]
#[case::row_has_an_empty_one(Some("net1"), "", true)]
#[case::neither_has_one(None, "", true)]
fn interfaces_have_to_match_where_both_are_named(
    #[case] interface: Option<&str>,
    #[case] rows: &str,
    #[case] belongs_to: bool,
) {
    let reservation = document("10.0.0.5", POD, interface);
    assert_eq!(
        belongs(&reservation, &pool("10.0.0.0/24", "5", rows), None),
        belongs_to
    );
}

/// The CRD of a whereabouts before 0.5 drops the podref.
#[rstest]
#[case::its_sandbox("10.0.0.5", Some(sandbox(1)), true)]
#[case::another_sandbox("10.0.0.5", Some(sandbox(2)), false)]
#[case::no_sandbox("10.0.0.5", None, false)]
#[case::empty_sandbox("10.0.0.5", Some(String::new()), false)]
#[case::another_address("10.0.0.6", Some(sandbox(1)), false)]
#[case::another_network("blue-10.0.0.5", Some(sandbox(1)), false)]
fn one_without_a_podref_is_of_the_row_with_its_sandbox(
    #[case] name: &str,
    #[case] id: Option<String>,
    #[case] is_its: bool,
    #[values(None, Some(""))] podref: Option<&str>,
    #[values(None, Some("net1"))] interface: Option<&str>,
) {
    let mut document = document(name, POD, interface);
    document["spec"]["containerid"] = json!(id.clone().unwrap_or_default());
    let spec = document["spec"].as_object_mut().unwrap();
    spec.remove("podref");
    if id.is_none() {
        spec.remove("containerid");
    }
    if let Some(podref) = podref {
        spec.insert("podref".to_owned(), json!(podref));
    }
    assert_eq!(belongs(&document, &usual_pool(), None), is_its);
    let reservation = read(&document);
    assert_eq!(reservation.pod(), Err(Unreadable::PodRef));
    let id = id.unwrap_or_default();
    assert_eq!(reservation.whose(), id);
    // The row's interface counts as ever.
    let others = pool("10.0.0.0/24", "5", "net2");
    assert_eq!(
        belongs(&document, &others, None),
        is_its && interface.is_none()
    );
}

/// whereabouts' row may have been taken over: what names a pod goes by that alone.
#[test]
fn one_with_a_podref_is_of_its_pod_whatever_its_sandbox() {
    let mut document = usual();
    document["spec"]["containerid"] = json!(sandbox(2));
    assert!(belongs(&document, &usual_pool(), None));
    let mut others = claimed_of("default/web-1");
    others["spec"]["containerid"] = json!(sandbox(1));
    assert!(!belongs(&others, &usual_pool(), None));
}

/// As rows with such a field. A later version may say by it whom the reservation belongs to.
#[rstest]
#[case::of_today("containerid", json!("x"), true)]
#[case::of_the_fork("poduid", json!("x"), true)]
#[case::a_claim("claim", json!("c"), false)]
#[case::an_object("ipamclaim", json!({"name": "c"}), false)]
#[case::null("claim", Value::Null, false)]
#[case::another_case("PodRef", json!(POD), false)]
#[case::an_ipam_claim("ipamclaimref", json!("d/vm"), false)]
fn one_with_a_field_that_is_not_known_is_never_touched(
    #[case] field: &str,
    #[case] value: Value,
    #[case] is_known: bool,
) {
    let mut document = usual();
    document["spec"][field] = value.clone();
    let pool = usual_pool();
    assert_eq!(belongs(&document, &pool, None), is_known);
    let unknown = || match value.as_str() {
        Some(claim) if field == "ipamclaimref" => Unreadable::IpamClaim(claim.into()),
        _ => Unreadable::ExtraField(field.into()),
    };
    let reservation = read(&document);
    assert_eq!(reservation.pod().is_ok(), is_known);
    if !is_known {
        assert_eq!(reservation.pod(), Err(unknown()));
        assert_eq!(reservation.as_row(ip("10.0.0.5")), Err(unknown()));
    }
}

#[test]
fn a_claimed_reservation_is_still_the_rows() {
    let claimed = claimed(&usual());
    assert!(belongs(&claimed, &usual_pool(), None));
    let others = claimed_of("default/web-1");
    assert!(!belongs(&others, &usual_pool(), None));
}

fn claimed_of(owner: &str) -> Value {
    claimed(&document("10.0.0.5", owner, Some("net1")))
}

#[rstest]
#[case::unclaimed(POD, None, false, POD)]
#[case::claimed(CLAIMED_PODREF, Some(POD), true, POD)]
#[case::claim_without_a_note(CLAIMED_PODREF, None, false, CLAIMED_PODREF)]
#[case::note_of_an_undone_claim("default/web-1", Some(POD), false, "default/web-1")]
fn an_owner_is_seen_through_a_claim_of_ours_only(
    #[case] podref: &str,
    #[case] note: Option<&str>,
    #[case] is_claimed: bool,
    #[case] owner: &str,
) {
    let mut document = document("10.0.0.5", podref, Some("net1"));
    if let Some(note) = note {
        document = annotated(document, json!({CLAIM_ANNOTATION: note}));
    }
    let reservation = read(&document);
    assert_eq!(reservation.is_claimed(), is_claimed);
    assert_eq!((reservation.owner(), reservation.whose()), (owner, owner));
    assert_eq!(reservation.name, "10.0.0.5");
    assert_eq!(reservation.uid, "reservation-uid");
}

#[test]
fn no_pod_can_have_the_podref_of_a_claim() {
    assert!(!PodRef::is_valid(CLAIMED_PODREF));
}

#[rstest]
#[case("/metadata/name")]
#[case("/metadata/uid")]
#[case("/metadata/resourceVersion")]
#[case("/metadata")]
#[case("/spec")]
fn what_has_no_name_uid_version_or_spec_cannot_be_read(#[case] pointer: &str) {
    let mut nulled = usual();
    *nulled.pointer_mut(pointer).unwrap() = Value::Null;
    assert!(Reservation::parse(&nulled.to_string()).is_err());
    let mut removed = usual();
    let (parent, field) = pointer.rsplit_once('/').unwrap();
    let parent = removed.pointer_mut(parent).unwrap();
    parent.as_object_mut().unwrap().remove(field);
    assert!(Reservation::parse(&removed.to_string()).is_err());
}

// Claim and restore

#[rstest]
#[case::no_annotations(usual(), json!({CLAIM_ANNOTATION: POD}))]
#[case::null_annotations(annotated(usual(), Value::Null), json!({CLAIM_ANNOTATION: POD}))]
#[case::empty_annotations(annotated(usual(), json!({})), json!({CLAIM_ANNOTATION: POD}))]
#[case::other_annotations(annotated(usual(), json!({"a/b": "c"})), json!({"a/b": "c", CLAIM_ANNOTATION: POD}))]
#[case::an_old_note(annotated(usual(), json!({CLAIM_ANNOTATION: "x/y"})), json!({CLAIM_ANNOTATION: POD}))]
fn a_claim_changes_the_podref_and_notes_the_old_one_and_nothing_else(
    #[case] before: Value,
    #[case] annotations: Value,
) {
    let after = claimed(&before);
    let mut expected = annotated(before, annotations);
    expected["spec"]["podref"] = json!(CLAIMED_PODREF);
    assert_eq!(after, expected);
    let after = read(&after);
    assert!(after.is_claimed());
    assert_eq!(after.owner(), POD);
}

#[rstest]
#[case::another_podref("/spec/podref", json!("default/web-1"))]
#[case::claimed_by_another("/spec/podref", json!(CLAIMED_PODREF))]
#[case::made_again("/metadata/uid", json!("another"))]
#[case::written_since("/metadata/resourceVersion", json!("42"))]
fn a_claim_fails_after_the_podref_the_uid_or_the_version_changed(
    #[case] pointer: &str,
    #[case] value: Value,
) {
    for document in [usual(), annotated(usual(), json!({"a": "b"}))] {
        let claim = read(&document).claim();
        let mut changed = document;
        *changed.pointer_mut(pointer).unwrap() = value.clone();
        assert_eq!(apply(&changed, &claim), None);
    }
}

#[rstest]
#[case::no_annotations(usual(), json!({}))]
#[case::other_annotations(annotated(usual(), json!({"a/b": "c"})), json!({"a/b": "c"}))]
fn a_restore_undoes_a_claim(#[case] before: Value, #[case] annotations: Value) {
    let held = claimed(&before);
    let given_back = apply(&held, &read(&held).give_back()).unwrap();
    assert_eq!(given_back, annotated(before, annotations));
    assert!(!read(&given_back).is_claimed());
}

#[rstest]
#[case::restored_already("/spec/podref", json!(POD))]
#[case::another_podref("/spec/podref", json!("default/web-1"))]
#[case::made_again("/metadata/uid", json!("another"))]
#[case::the_note_is_gone("/metadata/annotations", json!({}))]
fn a_restore_of_what_is_no_longer_claimed_changes_nothing(
    #[case] pointer: &str,
    #[case] value: Value,
) {
    let held = claimed(&usual());
    let give_back = read(&held).give_back();
    let mut changed = held;
    *changed.pointer_mut(pointer).unwrap() = value;
    assert_eq!(apply(&changed, &give_back), None);
}

#[test]
fn a_restore_of_what_was_never_claimed_changes_nothing() {
    for document in [usual(), document("10.0.0.5", CLAIMED_PODREF, None)] {
        assert_eq!(apply(&document, &read(&document).give_back()), None);
    }
}

proptest! {
    #[test]
    fn a_row_finds_its_reservation_under_every_name_and_only_in_its_network(
        bits: u64,
        v4: bool,
        network in prop::option::of("[g-z][a-z0-9-]{0,8}[g-z]"),
        other in "[g-z]{1,8}",
    ) {
        let (range, key) = if v4 {
            ("10.0.0.0/8", (bits & 0x00ff_ffff).to_string())
        } else {
            ("fd00::/64", bits.to_string())
        };
        let pool = pool(range, &key, "net1");
        let address = pool.rows()[0].content().unwrap().address;
        for name in reservation_names(address, network.as_deref()) {
            let reservation = document(&name, POD, Some("net1"));
            prop_assert!(belongs(&reservation, &pool, network.as_deref()), "{}", name);
            prop_assert!(belongs(&claimed(&reservation), &pool, network.as_deref()), "{}", name);
            if network.as_deref() != Some(&other) {
                prop_assert!(!belongs(&reservation, &pool, Some(&other)), "{}", name);
            }
            if network.is_some() {
                prop_assert!(!belongs(&reservation, &pool, None), "{}", name);
            }
        }
    }

    #[test]
    fn a_reservation_of_another_address_never_belongs(ours: u16, theirs: u16, v6: bool) {
        prop_assume!(ours != theirs);
        let range = if v6 { "fd00::/64" } else { "10.0.0.0/8" };
        let pool = pool(range, &ours.to_string(), "net1");
        let network = if v6 { format!("fd00::{theirs:x}") } else {
            std::net::Ipv4Addr::from(0x0a00_0000 | u32::from(theirs)).to_string()
        };
        for name in reservation_names(ip(&network), None) {
            prop_assert!(!belongs(&document(&name, POD, Some("net1")), &pool, None));
        }
    }
}
