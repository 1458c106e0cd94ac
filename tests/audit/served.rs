//! The program and an API server on a port: words that it completes, `ipgc pools --watch`, the page about a cluster.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::TcpListener,
    process::{Child, Command as Process, Stdio},
    thread,
};

use assert_cmd::cargo::CommandCargoExt as _;
use hyper::{Request, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use kube::client::Body;
use rstest::rstest;
use serde::Deserialize as _;
use tower::Service as _;

use super::*;

/// The kubeconfig of a server, which listens from now on.
fn served(server: &Server) -> File {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    listener.set_nonblocking(true).unwrap();
    let server = server.clone();
    thread::spawn(move || {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_all().build().unwrap().block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let service = server.service("ipgc");
                // Commands that only read send no body.
                let answer = service_fn(move |request: Request<Incoming>| {
                    service.clone().call(request.map(|_| Body::empty()))
                });
                let stream = TokioIo::new(stream);
                tokio::spawn(http1::Builder::new().serve_connection(stream, answer));
            }
        });
    });
    kubeconfig(address)
}

/// The program, which uses this kubeconfig as kubectl would.
fn program(kubeconfig: &File) -> Process {
    let mut program = Process::cargo_bin("ipgc").unwrap();
    program.env_clear().env("KUBECONFIG", &kubeconfig.0);
    program
}

fn said(program: &mut Process) -> String {
    let output = program.output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    String::from_utf8(output.stdout).unwrap()
}

/// Two pools, one of IPv6, each with a row.
fn both_families() -> Server {
    let server = shop();
    let six = fixtures::pool(NS, "fd00::/64");
    server.put(six.row(0x17, &fixtures::sandbox(1), "default/gone", "net1"));
    server
}

/// The arguments that a real bash makes of a line, with a tab at its end.
fn completed_by_bash(kubeconfig: &File, before: &str, typed: &str) -> Vec<String> {
    let program = Process::cargo_bin("ipgc").unwrap();
    let folder = std::path::Path::new(program.get_program()).parent();
    let path = format!("{}:/usr/bin:/bin", folder.unwrap().display());
    let (_, script, _) = ipgc(&["completions", "bash"]);
    let shown = "ipgc() { if [[ $COMPLETE ]]; then command ipgc \"$@\"; else printf '<%s>\\n' \"$@\"; fi; }";
    let begin = File::new(format!("{before}\n{script}\n{shown}\n"));
    let mut bash = Process::new("bash");
    bash.env_clear()
        .env("PATH", path)
        .env("KUBECONFIG", &kubeconfig.0)
        .arg("--rcfile")
        .arg(&begin.0)
        .args(["--noprofile", "-i"]);
    bash.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut bash = bash.stderr(Stdio::null()).spawn().unwrap();
    let mut stdin = bash.stdin.take().unwrap();
    writeln!(stdin, "{typed}\t").unwrap();
    drop(stdin);
    let output = bash.wait_with_output().unwrap();
    let lines = String::from_utf8(output.stdout).unwrap();
    let words = lines
        .lines()
        .filter_map(|line| line.strip_prefix('<')?.strip_suffix('>'));
    words.map(str::to_owned).collect()
}

#[rstest]
#[case::after_a_colon("", "ipgc explain fd00:", "fd00::17")]
#[case::after_two("", "ipgc explain fd00::", "fd00::17")]
#[case::within_a_part("", "ipgc explain fd00::1", "fd00::17")]
#[case::after_others("", "ipgc release --force fd00::17 10.0.0.2 fd00::", "fd00::17")]
#[case::in_quotes("", "ipgc explain 'fd00::1", "fd00::17")]
#[case::no_division(
    "COMP_WORDBREAKS=${COMP_WORDBREAKS//:}",
    "ipgc explain fd00::",
    "fd00::17"
)]
#[case::after_a_word_that_ends_so(
    "",
    "ipgc audit -l fd00: --pool default/10",
    "default/10.0.0.0-24"
)]
#[case::behind_a_sign("", "ipgc audit --pool=default/10", "--pool=default/10.0.0.0-24")]
#[case::no_colon("", "ipgc explain 10.0.0.2", "10.0.0.2")]
#[case::node("", "ipgc explain node/n", "node/n1")]
#[case::node_of_findings("", "ipgc audit --node n", "n1")]
#[case::namespace("", "ipgc watch -n kube-s", "kube-system")]
fn bash_completes_names_of_the_cluster(
    #[case] before: &str,
    #[case] typed: &str,
    #[case] word: &str,
) {
    let server = both_families();
    server.put(fixtures::namespace("kube-system"));
    let words = completed_by_bash(&served(&server), before, typed);
    let mut expected: Vec<_> = typed.split(' ').skip(1).collect();
    *expected.last_mut().unwrap() = word;
    assert_eq!(words, expected);
}

/// Those of further pages too.
#[test]
fn all_of_many_pools_complete() {
    let server = server();
    for net in 0..600 {
        server.put(fixtures::pool(
            NS,
            &format!("10.{}.{}.0/24", net / 250, net % 250),
        ));
    }
    let kubeconfig = served(&server);
    let said = said(program(&kubeconfig).args(["__complete", "pools", "10.2.99."]));
    assert_begins(&said, "10.2.99.0-24\t");
}

#[test]
fn pools_say_if_there_are_none() {
    let kubeconfig = served(&server());
    let table = said(program(&kubeconfig).arg("pools"));
    assert_says(&table, "there are no IPPools at all");
}

fn watching_pools(kubeconfig: &File, form: &str) -> Child {
    let mut program = program(kubeconfig);
    let program = program.args(["pools", "--watch", "--interval", "1s", "-o", form]);
    program.stdout(Stdio::piped()).spawn().unwrap()
}

/// A second look shows what came after the first one.
#[test]
fn pools_are_watched() {
    let server = shop();
    let kubeconfig = served(&server);
    let mut watching = watching_pools(&kubeconfig, "json");
    let stdout = watching.stdout.take().unwrap();
    let mut reports = serde_json::Deserializer::from_reader(stdout).into_iter::<Report>();
    let mut rows = || reports.next().unwrap().unwrap().totals.rows;
    assert_eq!(rows(), 2);
    put_row_on(&server, POOL, 9, "default/gone", "net1", 9);
    assert_eq!(rows(), 3);
    watching.kill().unwrap();
    watching.wait().unwrap();
}

/// The same as YAML of a document for each look.
#[test]
fn pools_are_watched_in_documents() {
    let server = shop();
    let kubeconfig = served(&server);
    let mut watching = watching_pools(&kubeconfig, "yaml");
    let mut lines = BufReader::new(watching.stdout.take().unwrap()).lines();
    let mut line = || lines.next().unwrap().unwrap() + "\n";
    let mut text = line();
    put_row_on(&server, POOL, 9, "default/gone", "net1", 9);
    // Until a third one begins.
    while text.matches("\nmade: ").count() < 3 {
        text += &line();
    }
    watching.kill().unwrap();
    watching.wait().unwrap();
    let documents = serde_yaml::Deserializer::from_str(&text).take(2);
    let documents = documents.map(|it| Value::deserialize(it).unwrap());
    let rows: Vec<_> = documents.map(|it| it["totals"]["rows"].clone()).collect();
    assert_eq!(rows, [2, 3]);
}

/// The page says of a cluster what the JSON says.
#[test]
fn the_page_of_a_cluster_has_its_totals() {
    let kubeconfig = served(&both_families());
    let asked = |output: &str| said(program(&kubeconfig).args(["audit", "-o", output]));
    let report: Value = serde_json::from_str(&asked("json")).unwrap();
    assert_eq!(
        (&report["source"], &report["totals"]["rows"]),
        (&json!("cluster"), &json!(3))
    );
    let page = asked("html");
    assert_says(&page, "Source: the cluster");
    assert_says(&page, r#""from":"""#);
    let totals = report["totals"].as_object().unwrap();
    let (split, others): (Vec<_>, Vec<_>) = totals.iter().partition(|(_, it)| it.is_object());
    let split = split.iter().flat_map(|(_, it)| it.as_object().unwrap());
    let numbers: Vec<_> = others.into_iter().chain(split).collect();
    assert_eq!(numbers.len(), 10, "{totals:?}");
    for (name, number) in numbers {
        assert_says(&page, &format!("data-total={name}>{number}<"));
    }
    let findings = report["findings"].as_array().unwrap().len();
    assert_says(&page, &format!("data-total=findings>{findings}<"));
}
