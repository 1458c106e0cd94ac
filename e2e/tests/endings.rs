//! However the process that started the servers ends, the servers end too and their folder goes.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use rstest::rstest;
use rustix::process::{Pid, Signal, kill_process};

#[rstest]
#[case::killed(Signal::KILL)]
#[case::interrupted(Signal::INT)]
fn nothing_survives_its_owner(#[case] signal: Signal) {
    // A cold cache would be built by the child under no one's eyes: have it there first.
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let built = runtime.block_on(e2e::tools::build_missing(false));
    built.unwrap();
    let (mut owner, dir) = up();
    let servers = processes_with(&dir);
    // etcd, kube-apiserver, kube-controller-manager, and the shell that removes the folder.
    assert_eq!(servers.len(), 4, "{servers:#?}");

    let pid = Pid::from_raw(i32::try_from(owner.id()).unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
    owner.wait().unwrap();

    let started = Instant::now();
    loop {
        let (left, folder) = (processes_with(&dir), dir.exists());
        if left.is_empty() && !folder {
            break;
        }
        let patience = Duration::from_secs(10);
        assert!(
            started.elapsed() < patience,
            "left: {left:#?}, folder: {folder}"
        );
        thread::sleep(Duration::from_millis(50));
    }
}

/// Starts `e2e up --bare` and waits until it tells where its folder is.
fn up() -> (Child, PathBuf) {
    let mut owner = Command::new(env!("CARGO_BIN_EXE_e2e"))
        .args(["up", "--bare"])
        .env_remove("IPGC_E2E_KEEP")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut dir = None;
    for line in BufReader::new(owner.stdout.as_mut().unwrap()).lines() {
        let line = line.unwrap();
        if let Some(path) = line.strip_prefix("logs ") {
            dir = Some(PathBuf::from(path.trim()));
        }
        if line.starts_with("Ctrl-C") {
            break;
        }
    }
    (
        owner,
        dir.expect("`e2e up` ended without a word on its folder"),
    )
}

/// The command lines of living processes that name this folder.
fn processes_with(dir: &Path) -> Vec<String> {
    let dir = dir.to_str().unwrap();
    fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| fs::read(entry.path().join("cmdline")).ok())
        .map(|text| String::from_utf8_lossy(&text).replace('\0', " "))
        .filter(|text| text.contains(dir))
        .collect()
}
