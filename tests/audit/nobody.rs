//! Rows that name no pod: they are nobody's, neither another pod's nor of a pod that is gone.

use rstest::rstest;

use super::*;

/// A pod that reports 10.0.0.9, and a row of that address with this podref.
fn held_for(podref: Option<&str>) -> Server {
    let server = server();
    let mut row = json!({ "id": fixtures::sandbox(9) });
    if let Some(podref) = podref {
        row["podref"] = podref.into();
    }
    let pool = fixtures::pool(NS, RANGE).raw_row("9", row);
    server.put(pool);
    server.put(pod("web-9", 9));
    server
}

#[rstest]
#[case::none(None)]
#[case::empty(Some(""))]
#[case::no_podref(Some("a/b/c"))]
#[tokio::test]
async fn the_address_of_a_live_pod_in_a_row_of_nobody_is_given_to_no_other(
    #[case] podref: Option<&str>,
) {
    let server = held_for(podref);
    let report = report(&server).await;
    assert_eq!(problems(&report), ["unreadable 10.0.0.9"]);
    assert_begins(&only(&report).detail, "it names no pod");
    // Of another pod's row it is told.
    put_row_on(&server, POOL, 9, "default/other", "net1", 9);
    let report = super::report(&server).await;
    assert!(kinds_of(&report).contains(&Problem::InUseUnallocated));
}

#[rstest]
#[case::none(None, "  pod           it names none\n")]
#[case::empty(Some(""), "  pod           it names none\n")]
#[case::no_podref(Some("a/b/c"), "  pod           a/b/c: that names none\n")]
#[case::a_podref(
    Some("default/gone"),
    "  pod           default/gone: there is no such pod\n"
)]
fn explain_says_of_no_row_of_nobody_that_its_pod_is_gone(
    #[case] podref: Option<&str>,
    #[case] says: &str,
) {
    let snapshot = dump(&held_for(podref)).read().unwrap();
    let found = explained(&snapshot, "10.0.0.9").unwrap();
    let text = text(&found);
    assert_says(&text, says);
    let is_named = podref == Some("default/gone");
    assert_eq!(text.contains("no such pod"), is_named, "{text}");
    assert_eq!(found.rows[0].pod_is_absent, is_named);
    assert!(!text.contains("another's"), "{text}");
}

/// Its reservation is beside a row that is nobody's, not another's.
#[test]
fn a_reservation_beside_a_row_of_nobody_is_not_told_as_beside_another_s() {
    let server = held_for(None);
    reserve(&server, "10.0.0.9", "default/web-9");
    let snapshot = dump(&server).read().unwrap();
    let found = explained(&snapshot, "default/web-9").unwrap();
    assert!(
        found
            .notes
            .iter()
            .any(|note| note.ends_with("the row of that address is not")),
        "{:?}",
        found.notes
    );
}
