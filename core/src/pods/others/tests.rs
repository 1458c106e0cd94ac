//! The other pods of a row: those that live, and those that ended.

#![allow(clippy::unwrap_used)]

use rstest::rstest;
use testkit::fixtures::{pod, sandbox};

use super::*;
use crate::{
    pods::tests::{ANY_SCOPE, at, row, state},
    pool::Glance,
};

/// The pod `d/web-0` reports 10.0.0.1, has a container with the id 1, and its row was seen with the sandbox 2.
fn index(lives: bool) -> PodIndex {
    let mut index = PodIndex::default();
    let web = pod("d", "web-0")
        .uid("a")
        .node("n")
        .networks("net")
        .running();
    let mut web = state(web.reports("d/net", "net1", &["10.0.0.1"]));
    web.container_ids = [IdTag::of(&sandbox(1)).unwrap()].into();
    index.apply(web.clone(), at(1));
    let glance = Glance {
        sandbox: Some(&sandbox(2)),
        ..row("d/web-0", "10.0.0.1".parse().ok())
    };
    index.glance(&glance, ANY_SCOPE, true, at(2));
    if !lives {
        index.delete(web, at(3));
    }
    index
}

fn content(podref: &str, address: &str, id: u64) -> RowContent {
    RowContent {
        address: address.parse().unwrap(),
        sandbox: sandbox(id).into(),
        podref: podref.parse().unwrap(),
        interface: None,
    }
}

/// For each of its keys that the row has too: whether it is the id.
#[rstest]
#[case::an_address("d/db-0", "10.0.0.1", 9, &[false])]
#[case::a_container("d/db-0", "10.0.0.9", 1, &[true])]
#[case::a_sandbox("d/db-0", "10.0.0.9", 2, &[true])]
#[case::an_address_and_a_sandbox("d/db-0", "10.0.0.1", 2, &[false, true])]
#[case::nothing("d/db-0", "10.0.0.9", 9, &[])]
#[case::only_its_own_row("d/web-0", "10.0.0.1", 2, &[])]
fn another_pod_is_found_by_what_it_shows(
    #[case] podref: &str,
    #[case] address: &str,
    #[case] id: u64,
    #[case] has_id: &[bool],
    #[values(true, false)] lives: bool,
) {
    let row = content(podref, address, id);
    let others = index(lives).others([&row].into_iter()).of(&row);
    let found: Vec<_> = others.iter().map(|other| other.has_id).collect();
    assert_eq!(found, has_id);
    assert!(others.iter().all(|other| other.end.is_none() == lives));
}

#[test]
fn a_pod_is_another_one_where_rows_of_several_owners_have_its_address() {
    let rows = ["d/web-0", "d/db-0"].map(|podref| content(podref, "10.0.0.1", 9));
    let others = index(true).others(rows.iter());
    assert_eq!(others.of(&rows[1]).len(), 1);
}
