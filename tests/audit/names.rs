//! Names and definitions that can be read in several ways: a live row is no finding, however odd
//! they are.

use super::*;
use rstest::rstest;

/// The row and the reservation of 10.7.0.9, of a pod that reports it by a definition with this configuration.
#[rstest]
#[case::with_a_bad_exclude(None, r#"{"type":"macvlan","ipam":{"type":"whereabouts","range":"10.7.0.0/24","exclude":["10.7.0"]}}"#)]
#[case::two_networks_the_first(Some("blue"), r#"{"name":"l","plugins":[{"type":"macvlan","ipam":{"type":"whereabouts","network_name":"blue","range":"10.7.0.0/24"}},{"type":"macvlan","ipam":{"type":"whereabouts","network_name":"red","range":"10.7.0.0/24"}}]}"#)]
#[case::two_networks_the_second(Some("red"), r#"{"name":"l","plugins":[{"type":"macvlan","ipam":{"type":"whereabouts","network_name":"blue","range":"10.7.0.0/24"}},{"type":"macvlan","ipam":{"type":"whereabouts","network_name":"red","range":"10.7.0.0/24"}}]}"#)]
#[tokio::test]
async fn what_lives_is_no_finding(#[case] network: Option<&str>, #[case] config: &str) {
    let server = bare();
    server.put(fixtures::nad_with_config(NS, "net", config));
    let mut pool = fixtures::pool(NS, "10.7.0.0/24");
    let mut reservation = "10.7.0.9".to_owned();
    if let Some(network) = network {
        pool = pool.network_name(network);
        reservation = format!("{network}-{reservation}");
    }
    let pool = pool.row(9, &fixtures::sandbox(1), "default/user", "net1");
    server.put(pool);
    reserve(&server, &reservation, "default/user");
    server.put(reporting("user", "10.7.0.9"));
    // Of a range whose `exclude` cannot be read nothing is given out.
    let is_full = config.contains("exclude");
    let full: &[&str] = if is_full { &["nearly-full"] } else { &[] };
    assert_eq!(problems(&report(&server).await), full);
}

/// A slice of a list of plugins, which libcni gives the name of the list.
#[tokio::test]
async fn the_slices_of_a_list_have_its_name() {
    let server = bare();
    let config = r#"{"name":"sliced","plugins":[{"type":"macvlan","ipam":{"type":"whereabouts","range":"10.7.0.0/16","node_slice_size":"/24"}}]}"#;
    server.put(fixtures::nad_with_config(NS, "net", config));
    let slices = [("n1", "10.7.3.0/24")];
    let slices = fixtures::node_slice_pool(NS, "sliced", "10.7.0.0/16", "/24", &slices);
    server.put(slices);
    let pool = fixtures::pool(NS, "10.7.3.0/24").name("n1-10.7.3.0-24");
    let pool = pool.row(9, &fixtures::sandbox(1), "default/user", "net1");
    server.put(pool);
    reserve(&server, "10.7.3.9", "default/user");
    server.put(reporting("user", "10.7.3.9"));
    assert_eq!(report(&server).await.findings, []);
}

/// `fd00::1` of network f1 is no `f1:fd00::1`, whether or not its pool is there.
#[rstest]
#[case::of_its_own_pod("user", &[])]
#[case::that_another_pod_uses("gone", &["in-use-twice fd00::1"])]
#[tokio::test]
async fn a_reservation_is_of_the_network_that_its_definition_names(
    #[case] owner: &str,
    #[case] found: &[&str],
) {
    let server = bare();
    define(
        &server,
        "net",
        &json!({ "network_name": "f1", "range": "fd00::/64" }),
    );
    server.put(fixtures::pool(NS, "fd01::/64").network_name("f1"));
    server.put(reporting("user", "fd00::1"));
    let owner = format!("default/{owner}");
    reserve(&server, "f1-fd00--1", &owner);
    let mut of_addresses = problems(&live(&server).await.unwrap());
    of_addresses.retain(|told| told.contains(' '));
    assert_eq!(
        of_addresses,
        [found, &["in-use-unallocated fd00::1"]].concat()
    );
}

/// Of two networks that may have it nobody knows which is meant: it is told, and neither explained away nor released.
#[tokio::test]
async fn a_reservation_of_two_networks_is_told() {
    let server = bare();
    define(
        &server,
        "net",
        &json!({ "network_name": "f1", "range": "fd00::/64" }),
    );
    server.put(fixtures::nad(NS, "odd", "f1::/16"));
    for (name, owner) in [("f1-fd00--1", "user"), ("f1-fd00--2", "gone")] {
        let owner = format!("default/{owner}");
        reserve(&server, name, &owner);
    }
    server.put(reporting("user", "fd00::1"));
    let pool = fixtures::pool(NS, "fd00::/64").network_name("f1");
    let pool = pool.row(1, &fixtures::sandbox(1), "default/user", "net1");
    server.put(pool);
    let finding = found(&server).await;
    assert_eq!(
        (finding.problem, &finding.address),
        (Problem::Unreadable, &None)
    );
    assert_eq!(finding.reservation.as_ref().unwrap().name, "f1-fd00--2");
    assert_says(&finding.detail, "several networks");
    let dump = dump(&server);
    let path = dump.0.to_str().unwrap();
    for subject in ["fd00::2", "f1:fd00::2", "default/gone"] {
        let (code, said, error) = ipgc(&["explain", "-f", path, subject]);
        assert_eq!(code, 0, "{said}{error}");
        let told = "reservation default/f1-fd00--2 stays: its name can be read";
        assert_says(&said, told);
    }
}
