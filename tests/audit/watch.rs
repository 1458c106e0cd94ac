//! `ipgc watch`: the findings that there are, then what changes, looks that fail, and the ways to stop it.

use std::{
    io::{self, BufRead as _, BufReader, Write},
    process::{Command, Stdio},
    sync::{Arc, Mutex},
    time::Duration,
};

use assert_cmd::cargo::CommandCargoExt as _;
use ipgc::cli::watch::{Args, Output};
use rstest::rstest;
use testkit::{Failure, Match, Verb};
use tokio::time::sleep;

use super::*;

/// Text that a test reads while it grows.
#[derive(Clone, Default)]
struct Text(Arc<Mutex<Vec<u8>>>);

impl Text {
    /// All of it, once.
    fn take(&self) -> String {
        String::from_utf8(std::mem::take(&mut self.0.lock().unwrap())).unwrap()
    }

    /// The changes so far, each as event, problem before, problem, address and pods.
    fn changes(&self) -> Vec<String> {
        let brief = |line: &str| {
            let change: Value = serde_json::from_str(line).unwrap();
            let text = |field: &str| change[field].as_str().unwrap_or("-");
            assert!(
                text("at").len() == 20 && text("at").ends_with('Z'),
                "{line}"
            );
            let found: Finding = serde_json::from_str(line).unwrap();
            let (event, was, problem) = (text("event"), text("was"), found.problem);
            format!(
                "{event} {was}>{problem} {} {}",
                text("address"),
                found.pods.join(",")
            )
        };
        self.take().lines().map(brief).collect()
    }

    /// The changes of the next look.
    async fn next(&self) -> Vec<String> {
        // A little longer than the interval.
        sleep(Duration::from_millis(10_100)).await;
        self.changes()
    }
}

impl Write for Text {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn watch(filter: Filter, output: Output) -> Args {
    #[derive(clap::Parser)]
    struct Only {
        #[command(flatten)]
        args: Args,
    }
    let Only { mut args } = clap::Parser::parse_from(["ipgc"]);
    (args.filter, args.output) = (filter, output);
    args
}

/// Watches a server while something happens there. `act` has the output, and the complaints.
async fn during(
    server: &Server,
    filter: Filter,
    output: Output,
    act: impl AsyncFnOnce(Text, Text),
) {
    let (told, complaints) = (Text::default(), Text::default());
    let (watch, scan) = (watch(filter, output), Scan::default());
    let client = ipgc::guard::read_only(server.client_named("ipgc"));
    let (mut output, mut errors) = (told.clone(), complaints.clone());
    tokio::select! {
        result = watch.run(client, scan, &mut output, &mut errors) => panic!("{result:?}"),
        () = async {
            sleep(Duration::from_millis(100)).await;
            act(told, complaints).await;
        } => {}
    }
    let requests = server.requests();
    let mut of_objects = requests.iter().filter(|r| is_of_objects(&r.path));
    assert!(
        of_objects.all(|r| r.verb == Verb::List && r.is_quorum_read()),
        "{requests}"
    );
}

/// The same with all findings as JSON.
async fn looking(server: &Server, act: impl AsyncFnOnce(Text, Text)) {
    during(server, Filter::default(), Output::Json, act).await;
}

/// The same after the first look has shown the finding of [`pair`].
async fn watching(server: &Server, act: impl AsyncFnOnce(Text, Text)) {
    looking(server, async |told, complaints| {
        assert_eq!(told.changes(), [PRESENT]);
        act(told, complaints).await;
    })
    .await;
}

/// Two pods that live with their rows, and the row of a pod that is gone.
fn pair() -> Server {
    let server = server();
    put_pool(
        &server,
        &[
            (1, "default/web-1"),
            (2, "default/web-2"),
            (9, "default/gone"),
        ],
    );
    server.put(pod("web-1", 1));
    server.put(pod("web-2", 2));
    server
}

const PRESENT: &str = "present ->stale 10.0.0.9 default/gone";
const APPEARED: &str = "appeared ->stale 10.0.0.1 default/web-1";
const NOTHING: [&str; 0] = [];

fn change_row(server: &Server, offset: u64, podref: Option<&str>) {
    let (key, address) = (offset.to_string(), format!("10.0.0.{offset}"));
    let _ = server.delete(ORIP, NS, &address);
    if let Some(podref) = podref {
        reserve(server, &address, podref);
    }
    server.edit("ippools", NS, POOL, |pool| {
        let rows = pool["spec"]["allocations"].as_object_mut().unwrap();
        rows.remove(&key);
        let row = podref.map(|it| fixtures::row(&fixtures::sandbox(offset), it, "net1"));
        rows.extend(row.map(|row| (key, row)));
    });
}

#[tokio::test(start_paused = true)]
async fn first_comes_what_there_is_and_then_what_changes() {
    let server = pair();
    watching(&server, async |told, complaints| {
        assert_eq!(told.next().await, NOTHING);
        server.delete("pods", NS, "web-1").unwrap();
        assert_eq!(told.next().await, [APPEARED]);
        assert_eq!(told.next().await, NOTHING);
        change_row(&server, 1, None);
        assert_eq!(told.next().await, ["gone ->stale 10.0.0.1 default/web-1"]);
        // What was gone and is back is new.
        change_row(&server, 1, Some("default/web-1"));
        assert_eq!(told.next().await, [APPEARED]);
        // A row that comes with its pod is no finding.
        change_row(&server, 3, Some("default/web-3"));
        server.put(pod("web-3", 3));
        assert_eq!(told.next().await, NOTHING);
        // What is surprising was read twice.
        server.put(pod("twin", 3));
        let twice = told.next().await;
        assert!(
            twice.contains(
                &"appeared ->in-use-twice 10.0.0.3 default/twin,default/web-3".to_owned()
            ),
            "{twice:?}"
        );
        assert_eq!(complaints.take(), "");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn another_problem_or_owner_is_a_change_and_other_nodes_are_none() {
    let server = pair();
    watching(&server, async |told, _| {
        server.put(fixtures::node("n1", false));
        let problem = "changed stale>held-unfenced 10.0.0.9 default/gone";
        assert_eq!(told.next().await, [problem]);
        // More nodes hold it, and the detail names them.
        server.put(fixtures::node("n2", false));
        assert_eq!(told.next().await, NOTHING);
        let owner = "changed held-unfenced>held-unfenced 10.0.0.9 default/gone-2";
        change_row(&server, 9, Some("default/gone-2"));
        assert_eq!(told.next().await, [owner]);
    })
    .await;
}

#[rstest]
#[case::node(Some("n1"), None, &["appeared ->held-unfenced 10.0.0.9 default/gone"])]
#[case::other_node(Some("n2"), None, &[])]
#[case::namespace(None, Some(NS), &["changed stale>held-unfenced 10.0.0.9 default/gone"])]
#[case::other_namespace(None, Some("kube-system"), &[])]
#[tokio::test(start_paused = true)]
async fn what_is_asked_for_is_told(
    #[case] node: Option<&str>,
    #[case] namespace: Option<&str>,
    #[case] expected: &[&str],
) {
    let server = pair();
    server.put(fixtures::node("n2", true));
    let filter = Filter {
        node: node.map(str::to_owned),
        namespace: namespace.map(str::to_owned),
        ..Filter::default()
    };
    during(&server, filter, Output::Json, async |told, _| {
        told.changes();
        server.put(fixtures::node("n1", false));
        assert_eq!(told.next().await, expected);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_table_has_one_header_and_columns_that_line_up() {
    let server = pair();
    during(&server, Filter::default(), Output::Table, async |told, _| {
        server.put(fixtures::node("n1", false));
        sleep(Duration::from_secs(15)).await;
        change_row(&server, 9, None);
        sleep(Duration::from_secs(10)).await;
        let text = told.take();
        // Without the times, and without the details.
        let cells = |line: &str| line.split("its pod is").next().unwrap()[20..].trim().to_owned();
        let lines: Vec<_> = text.lines().map(cells).collect();
        assert_eq!(lines, [
            "EVENT      WAS     FINDING   ADDRESS           POOL                   POD                    NODE         DETAIL",
            "present    -       stale     10.0.0.9          default/10.0.0.0-24    default/gone           -",
            "rows in 1 pool (2 live, 0 unreported, 1 stale, 0 unfenced, 0 unknown), 3 reservations, 4 pods, 1 node",
            "changed    stale   held-unfenced   10.0.0.9          default/10.0.0.0-24    default/gone           n1",
            "gone       -       held-unfenced   10.0.0.9          default/10.0.0.0-24    default/gone           n1",
        ]);
        assert!(text.starts_with("TIME ") && text.contains("\nsynced, 1 finding: 3 rows"), "{text}");
    })
    .await;
}

#[rstest]
#[case("pods", 500, "cannot list {}: ")]
#[case("ippools", 500, "cannot list {}: ")]
#[case(ORIP, 500, "cannot list {}: ")]
#[case("nodes", 500, "cannot list {}: ")]
#[case("nodeslicepools", 500, "cannot list {}: ")]
#[case(NADS, 500, "cannot list {}: ")]
#[case(NADS, 404, "the API server knows no {} any more; ")]
#[case("ipamclaims", 404, "the API server knows no {} any more; ")]
#[case("ipamclaims", 403, "not allowed to list {}.k8s.cni.cncf.io ")]
#[tokio::test(start_paused = true)]
async fn a_look_that_fails_says_so_once_and_forgets_nothing(
    #[case] resource: &str,
    #[case] code: u16,
    #[case] says: &str,
) {
    let server = pair();
    server.put(pod("twin", 2));
    change_row(&server, 5, Some("default/vm"));
    server.edit("ippools", NS, POOL, |pool| {
        pool["spec"]["allocations"]["5"]["ipamclaimref"] = "default/vm-net".into();
    });
    looking(&server, async |told, complaints| {
        let present = told.changes();
        let is_there = |problem: &str| present.iter().any(|it| it.contains(problem));
        assert!(
            is_there("in-use-twice") && is_there("ipam-claim-gone"),
            "{present:?}"
        );
        let failing = server.on(Match::list(resource)).fail(code);
        server.delete("pods", NS, "web-1").unwrap();
        sleep(Duration::from_mins(10)).await;
        assert_eq!(told.changes(), NOTHING);
        let complaint = complaints.take();
        assert_begins(
            &complaint,
            &format!("ipgc: {}", says.replace("{}", resource)),
        );
        assert_eq!(complaint.lines().count(), 1, "{complaint}");
        // It tries again and again, and not too often.
        assert!((10..=40).contains(&failing.hits()), "{}", failing.hits());
        failing.remove();
        sleep(Duration::from_mins(1)).await;
        assert_eq!(told.changes(), [APPEARED]);
        assert_eq!(complaints.take(), "ipgc: a look succeeded again\n");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_wants_to_be_left_alone_is() {
    let server = pair();
    watching(&server, async |_, _| {
        let busy = server.on(Match::list("pods"));
        let busy = busy.answer(Failure::too_many_requests(300));
        sleep(Duration::from_mins(9)).await;
        assert_eq!(busy.hits(), 2);
    })
    .await;
}

#[rstest]
#[case::rows("allocations", json!("nothing"))]
#[case::range("range", json!("nothing"))]
#[tokio::test(start_paused = true)]
async fn what_an_object_hides_that_cannot_be_read_is_not_gone(
    #[case] field: &str,
    #[case] spoilt: Value,
) {
    let server = pair();
    // A reservation without a row, and an address without one.
    reserve(&server, "10.0.0.7", "default/old");
    server.put(pod("web-4", 4));
    looking(&server, async |told, _| {
        assert_eq!(told.changes().len(), 3);
        let whole = server.get("ippools", NS, POOL).unwrap();
        server.edit("ippools", NS, POOL, |pool| pool["spec"][field] = spoilt);
        let is_gone = |it: &String| it.starts_with("gone");
        let spoilt = told.next().await;
        assert!(!spoilt.iter().any(is_gone), "{spoilt:?}");
        server.edit("ippools", NS, POOL, |pool| {
            pool["spec"] = whole["spec"].clone();
        });
        change_row(&server, 9, None);
        let mended = told.next().await;
        let is_it = |it: &String| it.starts_with("gone") && it.ends_with("default/gone");
        assert!(mended.iter().any(is_it), "{mended:?}");
        let is_new = |it: &String| it.starts_with("appeared");
        assert!(!mended.iter().any(is_new), "{mended:?}");
        // Of an address in use, a pool of any namespace may have the row.
        let mut other = fixtures::pool("elsewhere", "10.9.0.0/24").build();
        other["spec"]["allocations"] = json!("nothing");
        server.put(other);
        assert_eq!(told.next().await, ["appeared ->unreadable - "]);
    })
    .await;
}

/// A definition whose configuration is in a file on the nodes hides nothing: it could never be read.
#[rstest]
#[case::no_json("{")]
#[case::range(r#"{"cniVersion":"0.3.1","type":"x","ipam":{"type":"whereabouts","range":"?"}}"#)]
#[tokio::test(start_paused = true)]
async fn that_two_pods_share_an_address_is_not_gone_while_their_definition_cannot_be_read(
    #[case] spoilt: &str,
) {
    let server = pair();
    server.put(fixtures::nad_with_config(NS, "on-the-node", ""));
    server.put(pod("twin", 1));
    looking(&server, async |told, _| {
        let twice = |it: &String| it.contains("in-use-twice");
        assert!(told.changes().iter().any(twice));
        let set = |config: &str| {
            server.edit("network-attachment-definitions", NS, "net", |it| {
                it["spec"]["config"] = config.into();
            });
        };
        let definition = server.get("network-attachment-definitions", NS, "net");
        set(spoilt);
        for _ in 0..2 {
            let blind = told.next().await;
            assert!(!blind.iter().any(twice), "{blind:?}");
        }
        set(definition.unwrap()["spec"]["config"].as_str().unwrap());
        server.delete("pods", NS, "twin").unwrap();
        let is_gone = |it: &String| it.starts_with("gone") && twice(it);
        let mended = told.next().await;
        assert!(mended.iter().any(is_gone), "{mended:?}");
    })
    .await;
}

#[tokio::test]
async fn the_end_of_its_reader_is_its_end_without_a_word() {
    let (server, mut complaints) = (pair(), Text::default());
    let (reader, mut output) = io::pipe().unwrap();
    drop(reader);
    let watch = watch(Filter::default(), Output::Table);
    let ended = watch.run(
        server.client(),
        Scan::default(),
        &mut output,
        &mut complaints,
    );
    assert_eq!(ended.await, Ok(()));
    assert_eq!(complaints.take(), "");
}

#[rstest]
#[case::right(
    Filter::default(),
    "not allowed to list ippools.whereabouts.cni.cncf.io in all namespaces"
)]
#[case::pool(Filter { pool: Some("nowhere".to_owned()), ..Filter::default() }, "no pool nowhere is known")]
#[tokio::test]
async fn a_first_look_that_fails_is_the_end(#[case] filter: Filter, #[case] says: &str) {
    let (server, mut output, mut complaints) = (pair(), Text::default(), Text::default());
    if filter.pool.is_none() {
        server.deny(Match::list("ippools"));
    }
    let watch = watch(filter, Output::Table);
    let ended = watch.run(
        server.client(),
        Scan::default(),
        &mut output,
        &mut complaints,
    );
    assert_eq!(ended.await, Err(says.to_owned()));
    assert_eq!(output.take() + &complaints.take(), "");
}

/// Of `ipgc watch` against a server that takes requests and never answers.
#[rstest]
fn a_signal_ends_it(#[values("INT", "TERM")] signal: &str) {
    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    let kubeconfig = kubeconfig(address);
    let mut command = Command::cargo_bin("ipgc").unwrap();
    command
        .env_clear()
        .args(["watch", "--kubeconfig"])
        .arg(&kubeconfig.0);
    let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    // It listens for signals before it asks.
    let (asking, _) = server.accept().unwrap();
    let mut request = String::new();
    BufReader::new(&asking).read_line(&mut request).unwrap();
    assert_begins(&request, "GET /apis/");
    let pid = child.id().to_string();
    let kill = Command::new("kill").args(["-s", signal, &pid]).status();
    assert!(kill.unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), &*output.stderr), (Some(0), &b""[..]));
}
