//! A smaller resourceVersion than one that was known before is history gone back, and nothing else is.

use ipgc_core::history::{Heard, Versions};

/// A list of this resource is asked for, and answered with this version.
fn list(versions: &mut Versions, resource: &'static str, version: &str) -> Heard {
    let asked = versions.ask(resource, None);
    versions.hear(&asked, version)
}

#[test]
fn a_smaller_version_of_a_resource_than_was_known_is_history_gone_back() {
    let mut versions = Versions::default();
    for version in ["9", "10", "10", "1000"] {
        let heard = list(&mut versions, "pods", version);
        assert_eq!(heard, Heard::Forward, "{version}");
    }
    assert_eq!(list(&mut versions, "pods", "999"), Heard::Back(1000, 999));
    // Once: from then on the present counts.
    assert_eq!(list(&mut versions, "pods", "999"), Heard::Forward);
    assert_eq!(versions.epoch, 1);
}

#[test]
fn lists_that_are_answered_out_of_order_are_no_history_gone_back() {
    let mut versions = Versions::default();
    let (first, second) = (versions.ask("pods", None), versions.ask("pods", None));
    assert_eq!(versions.hear(&second, "20"), Heard::Forward);
    assert_eq!(versions.hear(&first, "10"), Heard::Forward);
    // And the greatest of them counts for the next one.
    assert_eq!(list(&mut versions, "pods", "15"), Heard::Back(20, 15));
}

#[test]
fn resources_of_different_etcds_are_not_compared() {
    let mut versions = Versions::default();
    assert_eq!(list(&mut versions, "pods", "1000"), Heard::Forward);
    assert_eq!(list(&mut versions, "leases", "7"), Heard::Forward);
}

#[test]
fn a_version_that_a_watch_asks_for_is_known_to_have_been() {
    let mut versions = Versions::default();
    let asked = versions.ask("pods", Some(500));
    assert_eq!(versions.hear(&asked, "500"), Heard::Forward);
    let begun = versions.ask("pods", Some(600));
    versions.keep(&begun);
    // A later watch may begin after etcd was restored.
    let asked = versions.ask("pods", Some(550));
    assert_eq!(versions.hear(&asked, "599"), Heard::Back(600, 599));
    // And one that was asked for before may begin.
    versions.keep(&begun);
    assert_eq!(list(&mut versions, "pods", "599"), Heard::Forward);
}

#[test]
fn a_version_that_is_no_number_says_nothing() {
    let mut versions = Versions::default();
    for version in ["10", "", "9x", "-1", "99999999999999999999"] {
        let heard = list(&mut versions, "pods", version);
        assert_eq!(heard, Heard::Forward, "{version}");
    }
}

/// It may show the time before, whose versions must not be compared with those of the time after.
#[test]
fn a_list_that_was_asked_for_before_history_went_back_is_outdated() {
    let mut versions = Versions::default();
    assert_eq!(list(&mut versions, "pods", "1000"), Heard::Forward);
    let (pods, leases) = (versions.ask("pods", None), versions.ask("leases", None));
    assert_eq!(list(&mut versions, "pods", "10"), Heard::Back(1000, 10));
    assert_eq!(versions.hear(&pods, "1001"), Heard::Outdated);
    assert_eq!(versions.hear(&leases, "1001"), Heard::Outdated);
    assert_eq!(list(&mut versions, "pods", "11"), Heard::Forward);
    assert_eq!(versions.epoch, 1);
}
