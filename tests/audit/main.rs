//! `ipgc audit`, `ipgc explain` and `ipgc watch`: each finding, on a cluster and on a dump of it, bad input, and the answers.
//! The command line of all commands.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod claims;
mod cli;
mod commands;
#[path = "../common/mod.rs"]
mod common;
mod dumps;
mod explain;
mod findings;
mod gathered;
mod in_use;
mod input;
mod live;
mod names;
mod nobody;
mod page;
mod pictures;
mod pools;
mod program;
mod proof;
mod ranges;
mod reservations;
mod served;
mod shown;
mod unreported;
mod watch;
mod yaml;

use std::{
    fs,
    net::SocketAddr,
    path::PathBuf,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use assert_cmd::Command;
use common::{
    NADS, NS, ORIP, POOL, RANGE, asking, far_fields, on_net, put_pool, put_row_on, reserve,
};
use ipgc::{
    audit::{
        audit, confirm,
        explain::{explain, report::Explanation},
        filter::Filter,
        report::{Finding, Problem, Report, Source},
        wants_confirmation,
    },
    core::evidence::Policy,
    snapshot::{
        Kind, Snapshot, files,
        live::{LiveError, Scan, read, read_again},
    },
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use testkit::{Server, fixtures};

const MADE: &str = "2026-01-01T00:00:00Z";
/// Stands for a command where that would act on what is old.
const LOOK_AGAIN: &str = "; look again at the cluster for the command";
/// A row whose pod is there.
const LIVE: (u64, &str) = (1, "default/web-1");

/// Whether a request is no question about the API server itself.
fn is_of_objects(path: &str) -> bool {
    path != "/version" && !path.starts_with("/openapi/")
}

/// A folder that is gone when its test is.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Folder {
    fn new() -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("ipgc-audit-{}-{number}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

/// A file that is gone when its test is.
struct File(PathBuf);

impl File {
    fn new(text: impl AsRef<[u8]>) -> Self {
        let path = Folder::new().0.with_extension("json");
        fs::write(&path, text).unwrap();
        Self(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }

    fn read(&self) -> Result<Snapshot, String> {
        let read = files::read(std::slice::from_ref(&self.0), None);
        // Which file it is, everybody knows.
        let path = format!("{}: ", self.0.display());
        read.map_err(|error| error.replace(&path, ""))
    }

    fn judged(&self) -> Report {
        judge(&self.read().unwrap())
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// The kubeconfig of a server at this address.
fn kubeconfig(address: SocketAddr) -> File {
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "x",
        "contexts": [{ "name": "x", "context": { "cluster": "x", "user": "x" } }],
        "clusters": [{ "name": "x", "cluster": { "server": format!("http://{address}") } }],
        "users": [{ "name": "x", "user": {} }],
    });
    File::new(config.to_string())
}

/// A server with a ready node, a pod of the cluster's own and an idle one.
fn bare() -> Server {
    let server = Server::new();
    server.put(fixtures::node("n1", true));
    for (namespace, name) in [("kube-system", "dns"), (NS, "idle")] {
        let pod = fixtures::pod(namespace, name).node("n1");
        server.put(pod.running());
    }
    server
}

/// The same with the definition `default/net` on [`RANGE`].
fn server() -> Server {
    let server = bare();
    server.put(fixtures::nad(NS, "net", RANGE));
    server
}

/// Another node, with a pod of the cluster's own.
fn put_second_node(server: &Server, is_ready: bool) {
    server.put(fixtures::node("n2", is_ready));
    let proxy = fixtures::pod("kube-system", "proxy").node("n2");
    server.put(proxy.running());
}

/// A definition whose section of whereabouts has these keys.
fn define(server: &Server, name: &str, keys: &Value) {
    let mut ipam = keys.clone();
    ipam["type"] = "whereabouts".into();
    server.put(fixtures::nad_with_ipam(NS, name, &ipam));
}

/// A pod that runs and reports this address of `default/net` on `net1`.
fn reporting(name: &str, address: &str) -> fixtures::PodBuilder {
    on_net("net", name, address).node("n1").running()
}

/// The same with 10.0.0.`offset`.
fn pod(name: &str, offset: u64) -> fixtures::PodBuilder {
    reporting(name, &format!("10.0.0.{offset}"))
}

/// The reservation of this name goes.
fn unreserve(server: &Server, name: &str) {
    server.delete(ORIP, NS, name).unwrap();
}

/// The definition `default/net` of network `blue`, with these slices of nodes.
fn put_slices(server: &Server, slices: &[(&str, &str)]) {
    let (range, size) = ("10.0.0.0/16", "/24");
    let keys = json!({ "range": range, "node_slice_size": size, "network_name": "blue" });
    define(server, "net", &keys);
    server.put(fixtures::node_slice_pool(NS, "blue", range, size, slices));
}

/// A cluster with a live row and its reservation.
fn live_one() -> Server {
    let server = server();
    put_pool(&server, &[LIVE]);
    server.put(pod("web-1", 1));
    server
}

/// A cluster with a live row, a stale one, and the reservations of both.
fn shop() -> Server {
    let server = server();
    put_pool(&server, &[LIVE, (2, "default/gone")]);
    server.put(pod("web-1", 1).label("app", "web"));
    server
}

/// The output of `kubectl get … -o json` for these kinds.
fn dump_of(server: &Server, kinds: &[Kind]) -> Value {
    let lists = kinds.iter().map(|kind| server.list(&kind.to_string()));
    let items: Vec<_> = lists.flatten().collect();
    json!({ "apiVersion": "v1", "items": items, "kind": "List", "metadata": { "resourceVersion": "" } })
}

fn dump(server: &Server) -> File {
    File::new(serde_json::to_string_pretty(&dump_of(server, &Kind::ALL)).unwrap())
}

fn all_but(missing: Kind) -> Vec<Kind> {
    let all = Kind::ALL.into_iter();
    all.filter(|kind| *kind != missing).collect()
}

/// A dump with another pool, `default/bad`, that cannot be read.
fn with_bad_pool(server: &Server) -> File {
    let mut dump = dump_of(server, &Kind::ALL);
    let mut bad = server.get("ippools", NS, POOL).unwrap();
    bad["metadata"] = json!({ "namespace": NS, "name": "bad" });
    dump["items"].as_array_mut().unwrap().insert(0, bad);
    File::new(dump.to_string())
}

/// A dump of these kinds only.
fn part(server: &Server, kinds: &[Kind]) -> File {
    File::new(dump_of(server, kinds).to_string())
}

/// As it is read again from its JSON. The schemas are made from the same types.
fn again<T: DeserializeOwned>(printed: &impl Serialize) -> T {
    serde_json::from_str(&serde_json::to_string(printed).unwrap()).unwrap()
}

/// Each report of each test is read again as it was written.
fn judge(snapshot: &Snapshot) -> Report {
    let (policy, all) = (Policy::default(), Filter::default());
    let mut report = audit(snapshot, &policy, &all);
    MADE.clone_into(&mut report.made);
    assert_eq!(again::<Report>(&report), report);
    report
}

/// Each explanation of each test is read again as it was written.
fn explained(snapshot: &Snapshot, subject: &str) -> Result<Explanation, String> {
    let explanation = explain(snapshot, &Policy::default(), subject);
    explanation.inspect(|it| assert_eq!(again::<Explanation>(it), *it))
}

/// The report about a server, as `ipgc audit` makes it.
async fn live(server: &Server) -> Result<Report, LiveError> {
    let (client, scan) = (server.client_named("ipgc"), Scan::default());
    let mut snapshot = read(&client, &scan).await?;
    MADE.clone_into(&mut snapshot.made);
    let mut report = judge(&snapshot);
    if wants_confirmation(&report) {
        confirm(
            &mut report,
            &read_again(&client, &scan).await?,
            &Policy::default(),
        );
    }
    Ok(report)
}

/// The report about a server or, which comes to the same but for commands, about a dump of it. One that states that nodes run
/// nothing says on what condition.
async fn report(server: &Server) -> Report {
    let live = live(server).await.unwrap();
    let mut offline = dump(server).judged();
    for (offline, live) in offline.findings.iter_mut().zip(&live.findings) {
        let command = live.command.as_deref().unwrap_or_default();
        if command.contains("ipgc.dev/no-sandboxes") {
            let told = [
                "once you know that they run no",
                "once you know that it runs no",
            ];
            assert!(told.iter().any(|it| live.detail.contains(it)), "{live:?}");
        }
        if command.starts_with("kubectl") || command.starts_with("echo") {
            assert_eq!(offline.command, None);
            let detail = offline
                .detail
                .strip_suffix(LOOK_AGAIN)
                .expect(&offline.detail);
            offline.detail = detail.to_owned();
            offline.command.clone_from(&live.command);
        }
    }
    for (offline, live) in offline.pools.iter_mut().zip(&live.pools) {
        // The present of files is the latest time in them.
        let seconds = live.oldest_stale_seconds;
        assert_eq!(offline.oldest_stale_seconds.is_some(), seconds.is_some());
        offline.oldest_stale_seconds = seconds;
    }
    assert_eq!(live.findings, offline.findings);
    assert_eq!(
        (&live.totals, &live.pools),
        (&offline.totals, &offline.pools)
    );
    live
}

/// The only finding.
fn only(report: &Report) -> &Finding {
    let [finding] = report.findings.as_slice() else {
        panic!("{:#?}", report.findings);
    };
    finding
}

/// The only finding about a server.
async fn found(server: &Server) -> Finding {
    only(&report(server).await).clone()
}

/// The table that `ipgc audit` prints of it.
fn table(report: &Report, is_wide: bool) -> String {
    let mut text = Vec::new();
    ipgc::audit::table::write_table(report, is_wide, &mut text).unwrap();
    String::from_utf8(text).unwrap()
}

/// The text that `ipgc explain` prints of it.
fn text(explanation: &Explanation) -> String {
    ipgc::audit::explain::text(explanation, 80, false)
}

/// The findings with this problem.
fn with(problem: Problem, report: &Report) -> Vec<&Finding> {
    let all = report.findings.iter();
    all.filter(|it| it.problem == problem).collect()
}

/// The findings, each as its problem and its address, if it has one.
fn problems(report: &Report) -> Vec<String> {
    let told = report.findings.iter().map(|it| match &it.address {
        Some(address) => format!("{} {address}", it.problem),
        None => it.problem.to_string(),
    });
    told.collect()
}

/// The problems of the findings.
fn kinds_of(report: &Report) -> Vec<Problem> {
    let findings = report.findings.iter();
    findings.map(|finding| finding.problem).collect()
}

#[track_caller]
fn assert_says(text: &str, words: &str) {
    assert!(text.contains(words), "{text}");
}

#[track_caller]
fn assert_begins(text: &str, words: &str) {
    assert!(text.starts_with(words), "{text}");
}

#[track_caller]
fn assert_ends(text: &str, words: &str) {
    assert!(text.ends_with(words), "{text}");
}

/// One line has these words.
#[track_caller]
fn assert_line(text: &str, words: &str) {
    assert_says(text, words);
    assert_eq!(text.lines().count(), 1, "{text}");
}

/// Exit code 2, nothing on standard output, and one line of the program with these words.
#[track_caller]
fn assert_refused((code, stdout, stderr): (i32, String, String), words: &str) {
    assert_eq!((code, &*stdout), (2, ""), "{stderr}");
    assert_begins(&stderr, "ipgc: ");
    assert_line(&stderr, words);
}

/// The program as its user meets it: exit code, standard output and standard error.
fn ipgc(args: &[&str]) -> (i32, String, String) {
    ipgc_with(None, args)
}

/// The same with one variable of the environment.
fn ipgc_with(variable: Option<(&str, &str)>, args: &[&str]) -> (i32, String, String) {
    let mut command = Command::cargo_bin("ipgc").unwrap();
    command.env_clear().envs(variable).args(args);
    let output = command.timeout(Duration::from_secs(60)).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let code = output.status.code().expect("ended by a signal");
    (code, text(output.stdout), text(output.stderr))
}

/// `ipgc` about a file.
fn asked(file: &File, args: &[&str]) -> (i32, String, String) {
    ipgc(&[args, &["-f", file.path()]].concat())
}

/// `ipgc audit` of a file.
fn audit_of(file: &File, args: &[&str]) -> (i32, String, String) {
    asked(file, &[&["audit"], args].concat())
}
