//! The harness itself, where scenarios would not notice: what ADD leaves alone, what the audit log counts, how
//! servers fail and end.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::{collections::BTreeMap, time::Duration};

use e2e::{
    Cluster, ControlPlane, Error, Namespace, Options, Result,
    cni::{Cni, Network, Sandbox},
    pools::Row,
    wait,
};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    api::{ListParams, PostParams},
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
async fn the_audit_log_counts_by_user_agent() -> Result<()> {
    let cluster = Cluster::get().await?;
    if cluster.is_foreign() {
        // A foreign cluster's log is not ours to read, and says so.
        assert!(matches!(cluster.audit(), Err(Error::Foreign(_))));
        return Ok(());
    }
    let namespace = cluster.namespace("audit").await?;
    let agent = e2e::cluster::unique("counted");
    let client = cluster.client_named(&agent).await?;
    let mark = cluster.audit()?.mark()?;
    let api: Api<ConfigMap> = Api::namespaced(client, &namespace.name);
    for name in ["a", "b"] {
        let object = ConfigMap {
            metadata: kube::core::ObjectMeta {
                name: Some(name.into()),
                ..Default::default()
            },
            ..Default::default()
        };
        api.create(&PostParams::default(), &object).await.unwrap();
    }
    api.list(&ListParams::default()).await.unwrap();
    api.get_opt("none").await.unwrap();

    let count = |verb: &str, count: usize| ((verb.to_owned(), "configmaps".to_owned()), count);
    let expected = BTreeMap::from([count("create", 2), count("get", 1), count("list", 1)]);
    wait::until_state(
        "the audit log to have all four",
        Duration::from_secs(5),
        || async { cluster.audit()?.counts(mark, &agent) },
        |counts| *counts == expected,
    )
    .await?;
    let requests = cluster.audit()?.by_agent(mark, &agent)?;
    let missing = requests
        .iter()
        .find(|request| request.verb == "get")
        .unwrap();
    assert_eq!((missing.name.as_str(), missing.code), ("none", 404));
    Ok(())
}

/// Its own servers: they are paused, killed, started again and stopped.
#[tokio::test]
async fn servers_pause_restart_and_stop() -> Result<()> {
    let plane = ControlPlane::start(Options::default().with_controllers()).await?;
    let cluster = Cluster::of(&plane).await?;
    let namespace = cluster.namespace("short").await?;
    namespace.plant_pool(POOL, RANGE, &BTreeMap::new()).await?;

    plane.api_server().pause()?;
    let silent = tokio::time::timeout(Duration::from_secs(1), namespace.pool(POOL)).await;
    assert!(silent.is_err(), "a paused server answered: {silent:?}");
    plane.api_server().resume()?;

    plane.api_server().kill()?;
    assert!(namespace.pool(POOL).await.is_err());
    plane.restart_api_server().await?;
    assert!(
        namespace.pool(POOL).await?.is_some(),
        "the data did not survive the restart"
    );

    namespace.delete().await?;
    wait::until_state(
        "the namespace controller to end the namespace",
        wait::PATIENCE,
        || async {
            let api: Api<k8s_openapi::api::core::v1::Namespace> =
                Api::all(cluster.client().clone());
            api.get_opt(&namespace.name)
                .await
                .map_err(Error::api("get a namespace"))
        },
        Option::is_none,
    )
    .await?;

    let dir = plane.dir().to_owned();
    let ids = [
        plane.etcd().id(),
        plane.api_server().id(),
        plane.controller_manager().unwrap().id(),
    ];
    plane.stop().await?;
    for id in ids {
        assert!(!alive(id), "process {id} outlived stop()");
    }
    assert!(!dir.exists(), "{} outlived stop()", dir.display());
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

fn alive(id: u32) -> bool {
    std::path::Path::new(&format!("/proc/{id}")).exists()
}
