//! `ipgc watch`: looks that fail, bad input, and the ways to stop it.

use std::{
    io::{self, BufRead as _, BufReader, Read as _, Write},
    process::{Child, Command, Stdio},
    time::Duration,
};

use assert_cmd::cargo::CommandCargoExt as _;
use ipgc::cli::watch::Watch;
use rstest::rstest;
use testkit::{Match, Rule};
use tokio::time::sleep;

use super::{
    watch::{Text, during, free, pair, watch},
    *,
};

/// Makes each LIST of this resource fail, so that a look cannot read it.
fn fail(server: &Server, resource: &str) -> Rule {
    server.on(Match::list(resource)).fail(500)
}

#[rstest]
#[tokio::test(start_paused = true)]
async fn a_look_that_fails_says_so_once_and_forgets_nothing(
    #[values(
        "pods",
        "ippools",
        "overlappingrangeipreservations",
        "nodes",
        "nodeslicepools",
        "network-attachment-definitions"
    )]
    resource: &str,
) {
    let server = pair();
    during(&server, &watch(), async |heard| {
        heard.so_far();
        let failing = fail(&server, resource);
        server.delete("pods", NS, "web-1").unwrap();
        sleep(Duration::from_mins(10)).await;
        assert_eq!(heard.so_far(), [""; 0]);
        let complaint = heard.complaints.take();
        let line = format!("ipgc: cannot list {resource}: ");
        assert!(
            complaint.starts_with(&line) && complaint.lines().count() == 1,
            "{complaint}"
        );
        // It tries again and again, and not too often.
        assert!((10..=40).contains(&failing.hits()), "{}", failing.hits());
        failing.remove();
        sleep(Duration::from_mins(1)).await;
        assert_eq!(
            heard.so_far(),
            ["changed live>stale 10.0.0.1 default/web-1 n1"]
        );
        assert_eq!(heard.complaints.take(), "ipgc: a look succeeded again\n");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_no_longer_known_is_no_absence() {
    let server = pair();
    server.put(pod("twin", 1));
    during(&server, &watch(), async |heard| {
        assert!(heard.so_far()[0].starts_with("present ->in-use-twice 10.0.0.1"));
        let unknown = server
            .on(Match::list("network-attachment-definitions"))
            .fail(404);
        assert_eq!(heard.next().await, [""; 0]);
        let complaint = heard.complaints.take();
        assert!(
            complaint.contains("knows no network-attachment-definitions any more"),
            "{complaint}"
        );
        unknown.remove();
        server.delete("pods", NS, "twin").unwrap();
        let gone = heard.next().await;
        assert!(
            gone.iter()
                .any(|line| line.starts_with("gone in-use-twice>- 10.0.0.1")),
            "{gone:?}"
        );
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn rows_of_a_pool_that_cannot_be_read_are_not_gone() {
    let server = pair();
    let all = Watch {
        all: true,
        ..watch()
    };
    during(&server, &all, async |heard| {
        heard.so_far();
        let whole = server.get("ippools", NS, POOL).unwrap();
        server.edit("ippools", NS, POOL, |pool| {
            pool["spec"]["allocations"] = json!("nothing");
        });
        assert_eq!(heard.next().await, ["appeared ->unreadable -  -"]);
        server.edit("ippools", NS, POOL, |pool| {
            pool["spec"] = whole["spec"].clone();
        });
        server.delete("pods", NS, "web-2").unwrap();
        free(&server, 2);
        let gone = [
            "gone unreadable>- -  -",
            "gone live>- 10.0.0.2 default/web-2 n1",
        ];
        assert_eq!(heard.next().await, gone);
    })
    .await;
}

/// A pipe that nobody reads.
struct Closed;

impl Write for Closed {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn whoever_reads_no_more_ends_it_without_a_word() {
    let (server, watch, mut complaints) = (pair(), watch(), Text::default());
    let mut output = Closed;
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
#[case::right(|server: &Server, _: &mut Watch| drop(server.deny(Match::list("ippools"))),
    "not allowed to list ippools.whereabouts.cni.cncf.io in all namespaces")]
#[case::pool(|_: &Server, watch: &mut Watch| watch.filter.pool = Some("nowhere".to_owned()), "no pool nowhere is known")]
#[case::node(|_: &Server, watch: &mut Watch| watch.filter.node = Some("n7".to_owned()), "no node n7 is known")]
#[case::namespace(|_: &Server, watch: &mut Watch| watch.filter.namespace = Some("nowhere".to_owned()),
    "no pod, row or reservation of namespace nowhere is known")]
#[tokio::test]
async fn a_first_look_that_fails_is_the_end(
    #[case] spoil: fn(&Server, &mut Watch),
    #[case] says: &str,
) {
    let (server, mut watch) = (pair(), watch());
    spoil(&server, &mut watch);
    let (mut output, mut complaints) = (Text::default(), Text::default());
    let ended = watch.run(
        server.client(),
        Scan::default(),
        &mut output,
        &mut complaints,
    );
    assert_eq!(ended.await, Err(says.to_owned()));
    assert_eq!(
        (output.take(), complaints.take()),
        (String::new(), String::new())
    );
}

#[rstest]
#[case(&["-o", "yaml"], "invalid value 'yaml'")]
#[case(&["--interval", "500ms"], "--interval must be at least 1s")]
#[case(&["-l", "a=="], "")]
#[case(&["-f", "dump.json"], "unexpected argument '-f'")]
#[case(&["--kubeconfig", "/nonexistent/config"], "/nonexistent/config")]
fn bad_input_is_one_line_and_exit_code_2(#[case] args: &[&str], #[case] says: &str) {
    let (code, stdout, stderr) = ipgc(&[&["watch"], args].concat());
    assert_eq!(code, 2, "{stderr}");
    assert!(
        stderr.starts_with("ipgc: ") && stderr.contains(says),
        "{stderr}"
    );
    assert_eq!((stderr.lines().count(), stdout.len()), (1, 0), "{stderr}");
}

/// `ipgc watch` against a server that takes requests and never answers.
struct Waiting {
    child: Child,
    _server: std::net::TcpListener,
    _kubeconfig: File,
}

impl Waiting {
    fn begin() -> Self {
        let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = server.local_addr().unwrap();
        let kubeconfig = File::new(format!(
            r#"{{"apiVersion": "v1", "kind": "Config", "current-context": "x",
            "contexts": [{{"name": "x", "context": {{"cluster": "x", "user": "x"}}}}],
            "clusters": [{{"name": "x", "cluster": {{"server": "http://{address}"}}}}],
            "users": [{{"name": "x", "user": {{}}}}]}}"#
        ));
        let mut command = Command::cargo_bin("ipgc").unwrap();
        let command = command
            .env_clear()
            .args(["watch", "--kubeconfig"])
            .arg(&kubeconfig.0);
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().unwrap();
        // It listens for signals before it asks.
        let (asking, _) = server.accept().unwrap();
        let mut request = String::new();
        BufReader::new(&asking).read_line(&mut request).unwrap();
        assert!(request.starts_with("GET /apis/"), "{request}");
        std::mem::forget(asking);
        Self {
            child,
            _server: server,
            _kubeconfig: kubeconfig,
        }
    }

    /// How it ended: the exit code, and what it said.
    fn end(mut self) -> (Option<i32>, String) {
        let mut stderr = String::new();
        self.child
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut stderr)
            .unwrap();
        (self.child.wait().unwrap().code(), stderr)
    }
}

#[rstest]
#[case("INT")]
#[case("TERM")]
fn signals_end_it(#[case] signal: &str) {
    let waiting = Waiting::begin();
    let pid = waiting.child.id().to_string();
    let kill = Command::new("kill").args(["-s", signal, &pid]).status();
    assert!(kill.unwrap().success());
    assert_eq!(waiting.end(), (Some(0), String::new()));
}

#[test]
fn a_reader_that_is_gone_is_noticed_though_nothing_changes() {
    let mut waiting = Waiting::begin();
    drop(waiting.child.stdout.take());
    assert_eq!(waiting.end(), (Some(0), String::new()));
}
