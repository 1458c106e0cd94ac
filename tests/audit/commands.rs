//! Commands that a person is told to run: only where what they remove is known to be needed by nobody, and only of
//! names that a shell takes for names.

use rstest::rstest;

use super::*;

/// Two nodes, and a network of slices with a pool for each.
fn sliced(nodes: [&str; 2]) -> Server {
    let server = bare();
    put_second_node(&server, true);
    let [one, two] = nodes;
    put_slices(&server, &[(one, "10.0.0.0/24"), (two, "10.0.1.0/24")]);
    for (node, range) in [("n1", "10.0.0.0/24"), ("n2", "10.0.1.0/24")] {
        let name = format!("blue-{node}-{}", range.replace('/', "-"));
        server.put(fixtures::pool(NS, range).name(&name));
    }
    server
}

#[tokio::test]
async fn pools_of_slices_that_are_not_known_are_nobody_s_to_remove() {
    let server = sliced(["n1", "n2"]);
    assert_eq!(report(&server).await.findings, []);
    // The input has none of them.
    let report = part(&server, &all_but(Kind::NodeSlicePool)).judged();
    assert_eq!(report.findings.len(), 2);
    let says = "what does not tell its range may: default/net";
    assert!(
        report.findings.iter().all(|f| f.detail.contains(says)),
        "{:?}",
        report.findings
    );
    assert_says(
        &report.notes.join("; "),
        "the input has no nodeslicepools: a pool",
    );
    // They are gone, or one of them cannot be read.
    let snapshot = |server: &Server| {
        let (client, scan) = (server.client(), Scan::default());
        async move { read(&client, &scan).await.unwrap() }
    };
    server.edit("nodeslicepools", NS, "blue", |pool| {
        pool["status"]["allocations"][1]["sliceRange"] = "?".into();
    });
    let unreadable = judge(&snapshot(&server).await);
    assert_eq!(unreadable.findings.len(), 2, "{:?}", unreadable.findings);
    server.delete("nodeslicepools", NS, "blue").unwrap();
    let gone = judge(&snapshot(&server).await);
    assert_eq!(gone.findings.len(), 2, "{:?}", gone.findings);
    let mut findings = gone.findings.iter().chain(&unreadable.findings);
    assert!(findings.all(|finding| finding.command.is_none()));
}

#[tokio::test]
async fn a_name_that_is_none_stands_in_no_command() {
    let odd = "x';reboot;'";
    let server = sliced(["n1", odd]);
    server.delete("ippools", NS, "blue-n2-10.0.1.0-24").unwrap();
    let report = live(&server).await.unwrap();
    let finding = only(&report);
    assert_eq!(finding.problem, Problem::SliceOfGoneNode);
    assert_eq!((&*finding.nodes[0], &finding.command), (odd, &None));
    let annotate = |node: &str| ipgc::audit::words::declare_empty(&[node.into()]);
    assert!(annotate("n1.example.com").is_some());
    for odd in ["$(reboot)", "a b", "-n", "N1", "", "a\nb"] {
        assert_eq!(annotate(odd), None, "{odd:?}");
    }
}

#[tokio::test]
async fn a_node_that_may_be_missing_from_the_dump_is_not_gone() {
    let server = sliced(["n1", "n2"]);
    put_row_on(&server, "blue-n1-10.0.0.0-24", 1, "default/gone", "net1", 1);
    put_row_on(&server, "blue-n2-10.0.1.0-24", 2, "default/job", "net1", 2);
    let job = on_net("net", "job", "10.0.1.2").node("n2");
    server.put(job.owner("Job", "jobs").ended("Succeeded"));
    let whole = dump(&server).judged();
    let split = whole.totals.split;
    assert_eq!((split.stale, split.unfenced), (2, 0));
    // n2 may be silent.
    server.delete("nodes", "", "n2").unwrap();
    let partial = dump(&server).judged();
    let split = partial.totals.split;
    assert_eq!((split.stale, split.unfenced), (0, 2));
    assert_eq!(kinds_of(&partial), [Problem::HeldUnfenced; 2]);
    assert_begins(&partial.notes[1], "a pod is on node n2,");
}

/// A row of a live pod in this range, with this interface, and without its reservation.
fn lacking(range: &str, network: Option<&str>, address: &str, interface: &str) -> Server {
    let server = bare();
    let mut keys = json!({ "range": range });
    let mut pool = fixtures::pool(NS, range);
    if let Some(network) = network {
        keys["network_name"] = network.into();
        pool = pool.network_name(network);
    }
    define(&server, "net", &keys);
    server.put(reporting("web", address));
    server.put(pool.row(5, &fixtures::sandbox(5), "default/web", interface));
    server
}

/// The command that makes the only reservation that is missing.
async fn creation(server: &Server) -> Option<String> {
    let report = live(server).await.unwrap();
    assert_eq!(only(&report).problem, Problem::ReservationMissing);
    only(&report).command.clone()
}

/// What a shell gives to kubectl.
fn created(command: &str) -> Value {
    let rest = command.strip_prefix("echo '").unwrap();
    let json = rest.strip_suffix("' | kubectl create -f -").unwrap();
    assert!(!json.contains(['\'', '\\', '\n']), "{json}");
    serde_json::from_str(json).unwrap()
}

#[rstest]
#[case(RANGE, None, "10.0.0.5", "net1", "10.0.0.5")]
#[case(RANGE, Some("blue"), "10.0.0.5", "net1", "blue-10.0.0.5")]
#[case("fd00::/120", None, "fd00::5", "net1", "fd00--5")]
#[case("fd00::/120", Some("blue"), "fd00::5", "net1", "blue-fd00--5")]
#[case::before_whereabouts_0_8(RANGE, None, "10.0.0.5", "", "10.0.0.5")]
#[tokio::test]
async fn a_missing_reservation_is_made_as_whereabouts_makes_it(
    #[case] range: &str,
    #[case] network: Option<&str>,
    #[case] address: &str,
    #[case] interface: &str,
    #[case] name: &str,
) {
    let server = lacking(range, network, address, interface);
    let made = created(&creation(&server).await.unwrap());
    assert_eq!(made["metadata"], json!({"namespace": NS, "name": name}));
    let theirs = fixtures::reservation(NS, name, "default/web", interface);
    assert_eq!(made["spec"], theirs["spec"]);
    server.put(made);
    assert_eq!(report(&server).await.findings, [], "all is well");
}

#[tokio::test]
async fn the_reservation_of_a_node_s_slice_does_not_tell_the_node() {
    let server = lacking(RANGE, Some("blue-n1"), "10.0.0.5", "net1");
    put_slices(&server, &[("n1", RANGE)]);
    let made = created(&creation(&server).await.unwrap());
    assert_eq!(made["metadata"]["name"], "blue-10.0.0.5");
}

#[rstest]
#[case::whereabouts_cannot_name_it("::/120", "::5", "net1")]
#[case::a_shell_reads_the_interface(RANGE, "10.0.0.5", "a';reboot;'")]
#[tokio::test]
async fn no_command_makes_a_reservation(
    #[case] range: &str,
    #[case] address: &str,
    #[case] interface: &str,
) {
    let server = lacking(range, None, address, interface);
    assert_eq!(creation(&server).await, None);
}
