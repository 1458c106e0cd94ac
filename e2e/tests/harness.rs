//! Facts that other tests take for granted: how the plugin treats a row that is there, and that a
//! failed start says why.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;

use e2e::{
    Cluster, ControlPlane, Error, Namespace, Options, Result,
    cni::{Cni, Network, Sandbox},
    pools::Row,
};

const RANGE: &str = "10.1.0.0/24";
const POOL: &str = "10.1.0.0-24";

async fn scene(prefix: &str) -> Result<(Namespace, Cni)> {
    let namespace = Cluster::get().await?.namespace(prefix).await?;
    let cni = Cni::new(&namespace).await?;
    Ok((namespace, cni))
}

#[tokio::test]
async fn a_successor_of_the_same_name_adopts_the_row() -> Result<()> {
    let (namespace, cni) = scene("adopt").await?;
    let network = Network::range("net-a", RANGE);
    let old = Sandbox::new(&namespace.name, "web-0");
    let new = Sandbox::new(&namespace.name, "web-0");
    let first = cni.add(&network, &old, "net1").await?;
    let before = namespace.pool(POOL).await?.unwrap();
    assert_eq!(cni.add(&network, &new, "net1").await?, first);

    let after = namespace.pool(POOL).await?.unwrap();
    assert_eq!(
        after.rows,
        BTreeMap::from([(1, Row::new(&new.id, new.podref(), "net1"))])
    );
    assert_ne!(after.version, before.version);

    // The old sandbox's late DEL finds nothing that is its own.
    cni.del(&network, &old, "net1").await?;
    assert_eq!(namespace.pool(POOL).await?.unwrap().version, after.version);
    Ok(())
}

#[tokio::test]
async fn add_again_with_the_same_sandbox_writes_nothing() -> Result<()> {
    let (namespace, cni) = scene("again").await?;
    let network = Network::range("net-a", RANGE);
    let sandbox = Sandbox::new(&namespace.name, "web-0");
    cni.add(&network, &sandbox, "net1").await?;
    let before = namespace.pool(POOL).await?;
    cni.add(&network, &sandbox, "net1").await?;
    assert_eq!(namespace.pool(POOL).await?, before);
    Ok(())
}

#[tokio::test]
async fn a_server_that_cannot_start_says_why() {
    let options = Options {
        api_server_args: vec!["--no-such-flag".into()],
        ..Options::default()
    };
    let error = ControlPlane::start(options).await.unwrap_err();
    assert!(
        matches!(
            error,
            Error::Start {
                server: "kube-apiserver",
                ..
            }
        ),
        "{error}"
    );
    assert!(
        error.to_string().contains("unknown flag: --no-such-flag"),
        "{error}"
    );
}

#[tokio::test]
async fn a_taken_port_is_named() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let options = Options {
        api_server_args: vec![format!("--secure-port={port}")],
        ..Options::default()
    };
    let error = ControlPlane::start(options).await.unwrap_err().to_string();
    assert!(error.contains("address already in use"), "{error}");
    assert!(error.contains(&port.to_string()), "{error}");
    // One of the caller's choice, in one line.
    let options = Options {
        port: Some(port),
        ..Options::default()
    };
    let error = ControlPlane::start(options).await.unwrap_err().to_string();
    let is_clear = error.contains(&port.to_string()) && error.contains("in use");
    assert!(is_clear && error.lines().count() == 1, "{error}");
}

/// Root of a user namespace that maps nobody is no root, and may still read what the test may.
#[test]
fn nodes_need_root_and_say_so() {
    let up = [env!("CARGO_BIN_EXE_e2e"), "up", "--nodes", "1"];
    let is_root = rustix::process::geteuid().is_root();
    let unprivileged: &[&str] = if is_root { &["unshare", "--user"] } else { &[] };
    let words: Vec<&str> = unprivileged.iter().chain(&up).copied().collect();
    let answer = std::process::Command::new(words[0])
        .args(&words[1..])
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&answer.stderr);
    assert!(!answer.status.success(), "{error}");
    assert!(error.contains("run it as root"), "{error}");
    assert_eq!(error.lines().count(), 1, "{error}");
}
