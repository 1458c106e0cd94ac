//! When absence proves something: the order of files, namespaces that were left out, lists within lists.

use rstest::rstest;

use super::*;

fn of_files(parts: &[File]) -> Report {
    let paths: Vec<_> = parts.iter().map(|file| file.0.clone()).collect();
    judge(&files::read(&paths, None).unwrap())
}

const OTHERS: &[Kind] = &[Kind::NodeSlicePool, Kind::Node, Kind::Definition];
const ROWS: &[Kind] = &[Kind::Reservation, Kind::IpPool];

#[rstest]
#[case::pods_in_another(&[&[Kind::Pod][..], ROWS, OTHERS])]
#[case::the_other_way_round(&[ROWS, &[Kind::Pod], OTHERS])]
#[case::reservations_in_another(&[&[Kind::IpPool, Kind::Pod][..], &[Kind::Reservation], OTHERS])]
#[case::pools_in_another(&[&[Kind::Reservation, Kind::Pod][..], &[Kind::IpPool], OTHERS])]
fn rows_and_pods_of_several_files_prove_nothing(#[case] files: &[&[Kind]]) {
    let server = shop();
    let parts: Vec<_> = files.iter().map(|kinds| part(&server, kinds)).collect();
    let report = of_files(&parts);
    assert_eq!(problems(&report), ["unknown 10.0.0.2"]);
    assert_says(&report.notes[0], "in files of different moments");
}

#[test]
fn what_decides_nothing_may_be_in_other_files() {
    let server = shop();
    let rows = [ROWS[0], ROWS[1], Kind::Pod];
    let report = of_files(&[part(&server, OTHERS), part(&server, &rows)]);
    assert_eq!(problems(&report), ["stale 10.0.0.2"]);
}

#[test]
fn a_reservation_that_was_read_after_the_pods_is_not_orphaned() {
    let server = shop();
    reserve(&server, "10.0.0.8", "default/young");
    let orphaned = |kinds: [Kind; 3]| {
        let report = of_files(&[part(&server, &[&kinds, OTHERS].concat())]);
        let orphan = report
            .findings
            .iter()
            .find(|f| f.address.as_deref() == Some("10.0.0.8"));
        orphan.unwrap().problem
    };
    let before = [Kind::IpPool, Kind::Reservation, Kind::Pod];
    assert_eq!(orphaned(before), Problem::ReservationOrphaned);
    let after = [Kind::IpPool, Kind::Pod, Kind::Reservation];
    assert_eq!(orphaned(after), Problem::Unknown);
}

#[test]
fn namespaces_without_a_pod_prove_nothing_unless_the_dump_is_whole() {
    let server = server();
    for (namespace, name) in [("kube-system", "dns"), (NS, "idle")] {
        server.delete("pods", namespace, name).unwrap();
    }
    put_pool(&server, &[(1, "a/gone"), (2, "b/gone"), (3, "c/gone")]);
    for namespace in ["a", "b"] {
        let idle = fixtures::pod(namespace, "idle").node("n1");
        server.put(idle.running());
    }
    let report = dump(&server).judged();
    assert_eq!(
        problems(&report),
        ["stale 10.0.0.1", "stale 10.0.0.2", "unknown 10.0.0.3"]
    );
    assert_eq!(
        report.notes,
        ["all pods are of namespace a, b: rows of others are unknown; dump pods with -A"]
    );
    let dns = fixtures::pod("kube-system", "dns").node("n1");
    server.put(dns.running());
    let report = dump(&server).judged();
    assert_eq!(report.totals.split.stale, 3);
}

/// kubectl reads 500 at a time. If it cannot read the next ones, it prints a list of those that it has.
#[rstest]
#[case::whole(499, "stale 10.0.0.2")]
#[case::maybe_cut_off(500, "unknown 10.0.0.2")]
#[case::whole_again(501, "stale 10.0.0.2")]
fn a_list_of_full_pages_may_have_been_cut_off(#[case] pods: usize, #[case] found: &str) {
    let server = shop();
    for number in server.list("pods").len()..pods {
        let idle = fixtures::pod(NS, &format!("idle-{number}")).node("n1");
        server.put(idle.running());
    }
    let report = dump(&server).judged();
    assert_eq!(problems(&report), [found]);
    let is_told = report.notes.join("; ").contains("between pages");
    assert_eq!(is_told, found.starts_with("unknown"));
}

#[test]
fn pods_of_one_node_prove_nothing_where_there_are_several() {
    let server = shop();
    server.put(fixtures::node("n2", true));
    let report = dump(&server).judged();
    assert_eq!(problems(&report), ["unknown 10.0.0.2"]);
    assert!(
        only(&report)
            .detail
            .ends_with("all pods are of one node, though there are several")
    );
    let proxy = fixtures::pod("kube-system", "proxy").node("n2");
    server.put(proxy.running());
    let report = dump(&server).judged();
    assert_eq!(problems(&report), ["stale 10.0.0.2"]);
}

#[rstest]
#[case::list(&json!({ "apiVersion": "v1", "kind": "List" }), "items")]
#[case::list_of_pods(&json!({ "apiVersion": "v1", "kind": "PodList" }), "items")]
#[case::table(&json!({ "apiVersion": "meta.k8s.io/v1", "kind": "Table" }), "rows")]
fn a_list_within_a_list_is_an_error(#[case] list: &Value, #[case] member: &str) {
    let server = shop();
    let mut dump = dump_of(&server, &Kind::ALL);
    let mut list = list.clone();
    let items = dump["items"].as_array_mut().unwrap();
    items.push(list.clone());
    // One without objects hides none.
    let file = File::new(dump.to_string());
    assert_eq!(problems(&of_files(&[file])), ["stale 10.0.0.2"]);
    list[member] = json!([pod("gone", 2).build()]);
    dump["items"].as_array_mut().unwrap().push(list.clone());
    assert_says(
        &File::new(dump.to_string()).read().unwrap_err(),
        "in which there are objects",
    );
}
