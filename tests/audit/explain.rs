//! `ipgc explain`: the verdict on an address, a pod, a pool and a node, why, and what would change it.

use ipgc::audit::explain::report::RowExplained;
use rstest::rstest;

use super::*;

fn ask(server: &Server, subject: &str) -> Result<Explanation, String> {
    explained(&dump(server).read().unwrap(), subject)
}

fn row(explanation: &Explanation) -> &RowExplained {
    let [row] = explanation.rows.as_slice() else {
        panic!("{explanation:#?}");
    };
    row
}

/// The addresses of its rows.
fn addresses(explanation: &Explanation) -> Vec<&str> {
    let rows = explanation.rows.iter();
    rows.filter_map(|row| row.address.as_deref()).collect()
}

/// A live row, one without a pod, and one of a pod on a node that is silent.
fn outage() -> Server {
    let server = server();
    server.put(fixtures::node("n2", false));
    put_pool(
        &server,
        &[
            (1, "default/web-1"),
            (2, "default/gone"),
            (3, "default/job"),
        ],
    );
    server.put(pod("web-1", 1));
    server.put(
        pod("job", 3)
            .node("n2")
            .owner("Job", "jobs")
            .ended("Failed"),
    );
    reserve(&server, "10.0.0.9", "default/gone");
    server
}

#[test]
fn an_address_that_is_held_is_explained_with_its_pod_and_its_node() {
    let explanation = ask(&outage(), "10.0.0.1").unwrap();
    let row = row(&explanation);
    assert_eq!((&*row.verdict, row.rule), ("live", Some(5)));
    assert_eq!(row.reason, "its pod reports the address");
    assert_eq!(row.pod.as_ref().unwrap().network_status, "complete");
    assert_eq!(
        row.pod.as_ref().unwrap().reports,
        ["10.0.0.1 on net1 of default/net"]
    );
    assert_eq!(row.node.as_ref().unwrap().state, "ready");
    assert_eq!(row.reservation.as_ref().unwrap().name, "10.0.0.1");
    assert_begins(
        &row.changes[0],
        "once its pod ends it is stale: it goes after 2s",
    );
    assert_says(&row.changes[0], "else after 3m30s");
}

/// The row's own pod is gone.
#[test]
fn an_address_that_another_pod_reports_is_explained_with_that_pod() {
    let server = outage();
    server.put(pod("web-2", 2));
    let explanation = ask(&server, "10.0.0.2").unwrap();
    let row = row(&explanation);
    assert_eq!(row.verdict, "unreported");
    assert_eq!(row.reason, "pod default/web-2 reports the address");
    let [change] = row.changes.as_slice() else {
        panic!("{row:?}");
    };
    let says = "its own pod does not need it: delete that pod, and the row goes as its end allows";
    assert_eq!(change, says);
}

#[test]
fn an_address_that_nodes_hold_is_explained_with_what_releases_it() {
    let explanation = ask(&outage(), "10.0.0.2").unwrap();
    let row = row(&explanation);
    assert_eq!((&*row.verdict, row.rule), ("unfenced", Some(3)));
    assert_eq!(
        (row.grade.as_deref(), row.wait_seconds),
        (Some("unwitnessed"), None)
    );
    assert_eq!(row.waits_for, ["n2"]);
    let told = row.changes.join("\n");
    let says = "sooner by the command, once you know that they run no sandboxes";
    assert_says(&told, says);
    // Files may be old.
    assert!(!told.contains("kubectl"), "{told}");
    let mut snapshot = dump(&outage()).read().unwrap();
    snapshot.source = Source::Cluster;
    let told = text(&explained(&snapshot, "10.0.0.2").unwrap());
    let says = "by hand: kubectl annotate node n2 --overwrite ipgc.dev/no-sandboxes=";
    assert_says(&told, says);
}

#[test]
fn several_networks_that_hold_one_address_are_each_shown() {
    let server = outage();
    let keys = json!({ "range": RANGE, "network_name": "blue" });
    define(&server, "blue", &keys);
    let blue = fixtures::pool(NS, RANGE).network_name("blue");
    server.put(blue.row(1, &fixtures::sandbox(9), "default/elsewhere", "net1"));
    let explanation = ask(&server, "10.0.0.1").unwrap();
    let rows: Vec<_> = explanation
        .rows
        .iter()
        .map(|row| (row.pool.as_deref().unwrap(), &*row.verdict))
        .collect();
    assert_eq!(rows, [(POOL, "live"), ("blue-10.0.0.0-24", "unfenced")]);
    assert_eq!(explanation.rows[1].networks.as_deref().unwrap(), ["blue"]);
    // Written differently it is the same address.
    assert_eq!(
        ask(&server, "::ffff:10.0.0.1").unwrap().rows,
        explanation.rows
    );
    let text = text(&explanation);
    assert_says(
        &text,
        "10.0.0.1 in pool default/10.0.0.0-24 (10.0.0.0/24, key 1, net1)\n  verdict       live, rule 5: its pod reports the address\n",
    );
    assert_says(&text, "\n\n10.0.0.1 in pool default/blue-10.0.0.0-24 ");
}

#[test]
fn a_reservation_alone_and_a_report_alone_are_shown() {
    let server = outage();
    let explanation = ask(&server, "10.0.0.9").unwrap();
    assert_eq!(explanation.rows, []);
    assert_eq!(
        explanation.reservations[0]
            .reservation
            .as_ref()
            .unwrap()
            .podref,
        "default/gone"
    );
    assert_eq!(explanation.reservations[0].verdict, "unfenced");
    assert!(text(&explanation).contains("10.0.0.9 reserved in namespace default"));
    server.put(pod("web-8", 8));
    let explanation = ask(&server, "10.0.0.8").unwrap();
    assert_eq!(explanation.reported_by[0].podref, "default/web-8");
    assert!(
        text(&explanation)
            .contains("10.0.0.8 is reported by default/web-8, which has no row of it")
    );
}

#[test]
fn a_pod_is_explained_whether_it_is_there_or_not() {
    let explanation = ask(&outage(), "default/web-1").unwrap();
    assert_eq!(explanation.pod.as_ref().unwrap().phase, "Running");
    assert_eq!(row(&explanation).address.as_deref(), Some("10.0.0.1"));
    let explanation = ask(&outage(), "default/gone").unwrap();
    assert_eq!(explanation.pod, None);
    assert_eq!(row(&explanation).address.as_deref(), Some("10.0.0.2"));
    assert_eq!(explanation.reservations.len(), 1);
    assert!(
        text(&explanation).starts_with("pod default/gone\n  state         there is no such pod\n")
    );
}

#[rstest]
#[case(POOL)]
#[case("default/10.0.0.0-24")]
#[case(RANGE)]
#[case("10.0.0.7/24")]
fn of_a_pool_what_does_not_live_is_shown(#[case] name: &str) {
    let explanation = ask(&outage(), name).unwrap();
    let split = explanation.split.unwrap();
    assert_eq!(
        (split.live, split.stale, split.unfenced, split.unknown),
        (1, 0, 2, 0)
    );
    assert_eq!(addresses(&explanation), ["10.0.0.2", "10.0.0.3"]);
}

#[test]
fn of_a_node_is_told_what_it_holds_and_what_fencing_it_frees() {
    let server = outage();
    let explanation = ask(&server, "node/n2").unwrap();
    assert_eq!(explanation.node.as_ref().unwrap().state, "not-ready");
    assert_eq!(addresses(&explanation), ["10.0.0.2", "10.0.0.3"]);
    let [lone] = &explanation.reservations[..] else {
        panic!("{explanation:#?}");
    };
    assert_eq!(
        (lone.address.as_deref(), &lone.waits_for),
        (Some("10.0.0.9"), &vec!["n2".to_owned()])
    );
    assert_eq!(explanation.fencing_frees, Some(3));
    let told = text(&explanation);
    let says =
        "of the 2 rows and 1 reservations without a row that it holds, 3 would be held no more";
    assert_says(&told, says);
    let of_lone = told.split("10.0.0.9 reserved").nth(1).unwrap();
    let says =
        "changes       sooner by the command, once you know that they run no sandboxes; look";
    assert_says(of_lone, says);
    // An annotation that does not count yet is no reason to think that another would not.
    let ahead = "2999-01-01T00:00:00Z";
    server.edit("nodes", "", "n2", |node| {
        node["metadata"]["annotations"]["ipgc.dev/no-sandboxes"] = ahead.into();
    });
    assert_eq!(ask(&server, "node/n2").unwrap().fencing_frees, Some(3));
    // Another silent node holds what nobody saw, too.
    server.put(fixtures::node("n3", false));
    assert_eq!(ask(&server, "node/n2").unwrap().fencing_frees, Some(1));
    // One that is ready holds nothing.
    let ready = ask(&server, "node/n1").unwrap();
    assert_eq!((ready.rows.len(), ready.fencing_frees), (0, None));
    assert_eq!(ready.split.unwrap().live, 1);
}

#[rstest]
#[case(
    "10.9.0.77",
    "nothing is known of 10.9.0.77: no row, no reservation and no pod has it"
)]
#[case("default/nobody", "nothing is known of default/nobody")]
#[case("10.9.0.0-24", "no pool 10.9.0.0-24 is known")]
#[case::a_range_is_no_pod("10.9.0.0/24", "no pool 10.9.0.0/24 is known")]
#[case("node/n9", "nothing is known of node n9")]
#[case("", "no pool  is known")]
fn what_nothing_is_known_of_is_one_line(#[case] subject: &str, #[case] says: &str) {
    let error = ask(&outage(), subject).unwrap_err();
    assert!(
        error.starts_with(says) && error.lines().count() == 1,
        "{error}"
    );
}

#[test]
fn an_address_that_nothing_holds_is_told_as_such() {
    let explanation = ask(&outage(), "10.0.0.77").unwrap();
    assert_eq!(
        explanation.notes.last().unwrap(),
        "no row has it in pool default/10.0.0.0-24 (10.0.0.0/24), and nothing else that was read"
    );
}

/// As the grid shows it.
#[rstest]
#[case::by_all_definitions(77, true)]
#[case::by_one_of_them(78, false)]
#[case::the_last_of_the_range(255, true)]
fn an_address_that_no_definition_hands_out_is_told_as_such(
    #[case] offset: usize,
    #[case] is_excluded: bool,
) {
    let server = outage();
    for (name, excluded) in [("net", "10.0.0.72/29"), ("other", "10.0.0.77/32")] {
        let keys = json!({ "range": RANGE, "exclude": [excluded] });
        define(&server, name, &keys);
    }
    let told = ask(&server, &format!("10.0.0.{offset}")).unwrap();
    let note = told.notes.last().unwrap();
    let says = note.ends_with(", and no definition hands it out");
    assert_eq!(says, is_excluded, "{note}");
    let grid = &ask(&server, POOL).unwrap().grids[0];
    assert_eq!(grid.cells.chars().nth(offset) == Some('×'), is_excluded);
}

#[rstest]
#[case::young(fixtures::pod(NS, "gone").node("n1").build(), Some(7), "unreported")]
#[case::drift(fixtures::pod(NS, "gone").node("n1").running().reports("default/net", "net1", &["10.0.0.200"]).build(), Some(9), "unreported")]
#[case::mirror(fixtures::pod(NS, "gone").node("n1").mirror().build(), Some(2), "unreported")]
#[case::completed(fixtures::pod(NS, "gone").node("n1").owner("Job", "j").ended("Succeeded").build(), Some(4), "stale")]
fn each_rule_is_named(#[case] pod: Value, #[case] rule: Option<u8>, #[case] verdict: &str) {
    let server = outage();
    server.put(pod);
    let explanation = ask(&server, "10.0.0.2").unwrap();
    let row = row(&explanation);
    assert_eq!((row.rule, &*row.verdict), (rule, verdict), "{row:#?}");
    assert_eq!(row.changes.is_empty(), verdict == "stale", "{row:#?}");
}

/// Objects of a kind that the input does not have are not reported as absent.
#[test]
fn what_is_not_in_the_input_is_not_known() {
    let server = outage();
    let of = |missing: Kind, subject: &str| {
        let file = part(&server, &all_but(missing));
        explained(&file.read().unwrap(), subject)
    };
    let told = text(&of(Kind::Pod, "10.0.0.2").unwrap());
    assert_says(
        &told,
        "  verdict       unknown: nobody knows whether a pod uses it",
    );
    assert_says(&told, "nobody knows whether there is such a pod");
    let note = "note: the input has no pods, so the absence of a pod proves nothing: rows without a pod are unknown";
    assert_says(&told, note);
    assert!(!told.contains("there is no such pod"), "{told}");
    // Whose rows are the node's, pods tell.
    let told = text(&of(Kind::Pod, "node/n2").unwrap());
    assert_says(&told, "  rows          not known without pods\n");
    let told = text(&of(Kind::Reservation, "10.0.0.2").unwrap());
    assert_says(&told, "reservation   not known");
    for missing in [Kind::Pod, Kind::Reservation] {
        let lacks = format!("; the input has no {missing}");
        assert_ends(&of(missing, "10.9.0.77").unwrap_err(), &lacks);
        let free = of(missing, "10.0.0.77").unwrap();
        let note = free.notes.last().unwrap();
        assert_begins(note, "no row has it in pool default/10.0.0.0-24 ");
        assert_ends(note, &lacks);
    }
    assert_says(
        &text(&ask(&server, "default/gone").unwrap()),
        "there is no such pod",
    );
}

#[test]
fn a_pool_that_cannot_be_read_may_hold_what_is_asked_for() {
    let server = outage();
    let snapshot = with_bad_pool(&server).read().unwrap();
    let asked = |subject: &str| explained(&snapshot, subject);
    let says = "what cannot be read may say more: IPPool default/bad";
    assert_ends(&asked("10.0.0.77").unwrap_err(), says);
    assert_eq!(asked("10.0.0.2").unwrap().notes, [says]);
}

#[test]
fn a_reservation_beside_a_row_of_another_is_told() {
    let server = outage();
    reserve(&server, "10.0.0.1", "default/lost");
    let told = ask(&server, "default/lost").unwrap();
    assert_eq!(
        told.notes,
        ["reservation default/10.0.0.1 is its own, and the row of that address is not"]
    );
}

#[test]
fn a_pod_at_its_end_whose_stop_is_not_proven_has_ended_already() {
    let server = server();
    put_pool(&server, &[(1, "default/job")]);
    let failed = pod("job", 1).with(|pod| {
        pod["status"]["phase"] = "Failed".into();
    });
    server.put(failed);
    let told = ask(&server, "10.0.0.1").unwrap();
    assert_eq!(row(&told).verdict, "unreported");
    let change = row(&told).changes.last().unwrap();
    assert_begins(change, "once all its containers are known to have ended");
}

#[test]
fn rows_of_three_interfaces_are_told_what_frees_them_from_a_node_at_work() {
    let server = server();
    put_pool(&server, &[2, 3, 4].map(|key| (key, "default/gone")));
    let explanation = ask(&server, "10.0.0.2").unwrap();
    let row = row(&explanation);
    let says =
        "a kubelet may still be at its DELs; held until booted anew, gone, or off and fenced: n1";
    assert_ends(&row.reason, says);
    let by_hand = [
        "once nobody answers on it, free it by hand",
        "by hand: ipgc release --force 10.0.0.2",
    ];
    assert_eq!(row.changes, by_hand);
    let told = text(&ask(&server, "node/n1").unwrap());
    for word in [
        "3 would be held no more, once it is shut down: no fence counts while it is ready",
        "by hand       ipgc release --force ADDRESS",
    ] {
        assert_says(&told, word);
    }
}

#[rstest]
#[case::sandbox(json!({ "containerid": fixtures::sandbox(8) }), format!("of sandbox {}", fixtures::sandbox(8)), "once nobody answers on it, free it by hand\n  changes       by hand: ipgc release --force 10.0.0.8")]
#[case::nothing(json!({}), "of no pod".to_owned(), "once nobody answers on it, free it by hand\n  changes       by hand: ipgc release --force 10.0.0.8")]
#[case::unknown(json!({ "podref": "default/gone", "claim": "c" }), "of default/gone".to_owned(), "it has an unknown field")]
fn a_reservation_that_cannot_be_judged_says_so_and_what_removes_one_of_no_pod(
    #[case] spec: Value,
    #[case] of: String,
    #[case] says: &str,
) {
    let names_a_pod = spec["podref"].is_string();
    let server = outage();
    let mut reservation = fixtures::reservation(NS, "10.0.0.8", "", "");
    reservation["spec"] = spec;
    server.put(reservation);
    let said = text(&ask(&server, "10.0.0.8").unwrap());
    assert_says(&said, &format!("10.0.0.8 {of}"));
    assert_says(&said, says);
    assert_eq!(said.contains("there is no such pod"), names_a_pod, "{said}");
    assert_eq!(said.contains("by hand"), !names_a_pod, "{said}");
}

#[rstest]
#[case::of_a_row_that_cannot_be_read(|s: &Server| put_row_on(s, POOL, 8, "x/y/z", "net1", 8), "by hand: ipgc release --force 10.0.0.8")]
#[case::of_a_marked_reservation(|s: &Server| crate::common::put_claimed(s, "10.0.0.8", "gone"), "default/gone: there is no such pod")]
fn the_end_is_told(#[case] puts: fn(&Server), #[case] says: &str) {
    let server = outage();
    puts(&server);
    assert_says(&text(&ask(&server, "10.0.0.8").unwrap()), says);
}

/// At once, for no kubelet ends it.
#[test]
fn a_pod_that_is_being_deleted_on_a_silent_node_is_told_how_it_ends() {
    let server = outage();
    put_pool(&server, &[(1, "default/young")]);
    let now = jiff::Timestamp::now().to_string();
    server.put(pod("young", 9).node("n2").with(|pod| {
        pod["metadata"]["creationTimestamp"] = now.clone().into();
        pod["metadata"]["deletionTimestamp"] = now.into();
    }));
    let explanation = ask(&server, "10.0.0.1").unwrap();
    assert_begins(
        &row(&explanation).changes[0],
        "its pod is being deleted, and its node is not ready: no kubelet ends the pod",
    );
}

/// As DRANET writes it. Nobody looked for the ResourceClaim, so it may be there: nothing that frees it is advised.
#[rstest]
#[case::of_all("default/pod-whereabouts", "10.0.0.5", "", "ResourceClaim")]
#[case::its_name(
    "default/pod-whereabouts",
    "default/pod-whereabouts",
    "podref default/pod-whereabouts\n\n10.0.0.5 in",
    ""
)]
#[case::of_a_pod(
    "default/web-1",
    "10.0.0.5",
    "",
    "pod           default/web-1: Running"
)]
fn a_row_of_a_resource_claim_is_told_as_such(
    #[case] podref: &str,
    #[case] subject: &str,
    #[case] begins: &str,
    #[case] says: &str,
) {
    let uid = "11111111-2222-4333-8444-555555555555";
    let server = outage();
    server.edit("ippools", NS, POOL, |pool| {
        pool["spec"]["allocations"]["5"] = fixtures::row(uid, podref, "net1");
    });
    let told = text(&ask(&server, subject).unwrap());
    assert_begins(&told, begins);
    assert_says(&told, says);
    assert_says(&told, &format!("\n  ResourceClaim {uid}\n"));
    for wrong in [
        "there is no such pod",
        "sandbox",
        "--force",
        "--resource-claims",
        "changes",
    ] {
        assert!(!told.contains(wrong), "{wrong}: {told}");
    }
}
