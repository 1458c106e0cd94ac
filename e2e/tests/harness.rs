//! The harness itself: servers come up, the plugin writes rows, the audit log counts, processes end.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::{collections::BTreeMap, net::IpAddr, time::Duration};

use e2e::{
    Cluster, ControlPlane, Error, Namespace, Options, Result,
    cni::{Cni, Network, Sandbox},
    control_plane::IPGC,
    pods::{End, Interface, NETWORK_STATUS, PodPlan},
    pools::Row,
    wait,
};
use k8s_openapi::{
    api::{
        coordination::v1::Lease,
        core::v1::{ConfigMap, Node, Pod},
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, ResourceExt,
    api::{ListParams, PostParams},
};

const RANGE: &str = "10.1.0.0/24";
const POOL: &str = "10.1.0.0-24";

async fn scene(prefix: &str) -> Result<(Namespace, Cni)> {
    let namespace = Cluster::get().await?.namespace(prefix).await?;
    let cni = Cni::new(&namespace).await?;
    Ok((namespace, cni))
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

#[tokio::test]
async fn crds_are_established_and_kubectl_knows_them() -> Result<()> {
    let cluster = Cluster::get().await?;
    let crds: Api<CustomResourceDefinition> = Api::all(cluster.client().clone());
    let names: Vec<String> = crds
        .list(&ListParams::default())
        .await
        .unwrap()
        .iter()
        .map(ResourceExt::name_any)
        .collect();
    for name in [
        "ippools.whereabouts.cni.cncf.io",
        "network-attachment-definitions.k8s.cni.cncf.io",
        "nodeslicepools.whereabouts.cni.cncf.io",
        "overlappingrangeipreservations.whereabouts.cni.cncf.io",
    ] {
        assert!(
            names.iter().any(|found| found == name),
            "{name} is not in {names:?}"
        );
    }
    let version = cluster.kubectl(["version"]).await?;
    assert!(version.contains("Server Version: v1."), "{version}");
    let namespace = cluster.namespace("kubectl").await?;
    namespace
        .network_attachment("net-a", &Network::range("net-a", RANGE).config())
        .await?;
    let listed = namespace
        .kubectl(&["get", "net-attach-def", "-o", "name"])
        .await?;
    assert!(listed.contains("/net-a"), "{listed}");
    Ok(())
}

#[tokio::test]
async fn add_makes_a_row_and_a_reservation_and_del_removes_them() -> Result<()> {
    let (namespace, cni) = scene("add-del").await?;
    let network = Network::range("net-a", RANGE);
    let sandbox = Sandbox::new(&namespace.name, "web-0");
    let ips = cni.add(&network, &sandbox, "net1").await?;
    assert_eq!(ips, [address("10.1.0.1")]);

    let row = Row::new(&sandbox.id, sandbox.podref(), "net1");
    let pool = namespace.pool(POOL).await?.expect("ADD made no pool");
    assert_eq!(pool.range, RANGE);
    assert_eq!(pool.rows, BTreeMap::from([(1, row)]));
    let reservations = namespace.reservations().await?;
    assert_eq!(reservations["10.1.0.1"].podref, sandbox.podref());
    assert_eq!(reservations["10.1.0.1"].ifname.as_deref(), Some("net1"));

    cni.del(&network, &sandbox, "net1").await?;
    namespace.wait_offsets(POOL, &[]).await?;
    namespace.wait_reservations(&[]).await
}

#[tokio::test]
async fn two_interfaces_have_two_rows() -> Result<()> {
    let (namespace, cni) = scene("two").await?;
    let network = Network::range("net-a", RANGE);
    let other = Network::ranges("net-b", &["10.2.0.0/24", "fd00:0:0:10::/64"])
        .network_name("blue")
        .without_reservations();
    let sandbox = Sandbox::new(&namespace.name, "web-0");
    assert_eq!(
        cni.add(&network, &sandbox, "net1").await?,
        [address("10.1.0.1")]
    );
    assert_eq!(
        cni.add(&network, &sandbox, "net2").await?,
        [address("10.1.0.2")]
    );
    assert_eq!(
        cni.add(&other, &sandbox, "net3").await?,
        [address("10.2.0.1"), address("fd00:0:0:10::1")]
    );
    let rows = namespace.wait_offsets(POOL, &[1, 2]).await?;
    assert_eq!(rows[&2].ifname.as_deref(), Some("net2"));
    namespace.wait_offsets("blue-10.2.0.0-24", &[1]).await?;
    namespace
        .wait_offsets("blue-fd00-0-0-10---64", &[1])
        .await?;
    namespace
        .wait_reservations(&["10.1.0.1", "10.1.0.2"])
        .await?;

    cni.del(&network, &sandbox, "net1").await?;
    namespace.wait_offsets(POOL, &[2]).await?;
    Ok(())
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
async fn a_full_range_is_a_cni_error() -> Result<()> {
    let (namespace, cni) = scene("full").await?;
    let network = Network::range("net-a", "10.9.0.0/30");
    for pod in ["a", "b"] {
        cni.add(&network, &Sandbox::new(&namespace.name, pod), "net1")
            .await?;
    }
    let refused = cni
        .add(&network, &Sandbox::new(&namespace.name, "c"), "net1")
        .await;
    match refused {
        Err(Error::Cni { message, .. }) => {
            assert!(message.contains("Could not allocate IP in range"));
        }
        other => panic!("{other:?}"),
    }
    Ok(())
}

#[tokio::test]
async fn planted_rows_and_reservations_are_read_back() -> Result<()> {
    let namespace = Cluster::get().await?.namespace("plant").await?;
    let old = Row {
        ifname: None,
        ..Row::new("", "gone/pod", "")
    };
    namespace
        .plant_pool(
            POOL,
            RANGE,
            &BTreeMap::from([(-1, old.clone()), (7, old.clone())]),
        )
        .await?;
    namespace
        .plant_row(POOL, 8, &Row::new("ab", "gone/pod", "net1"))
        .await?;
    namespace.pull_row(POOL, 7).await?;
    let rows = namespace.wait_offsets(POOL, &[-1, 8]).await?;
    assert_eq!(rows[&-1], old);
    namespace
        .plant_reservation("10.1.0.8", "gone/pod", "net1")
        .await?;
    namespace.wait_reservations(&["10.1.0.8"]).await?;
    namespace.pull_reservation("10.1.0.8").await?;
    namespace.wait_reservations(&[]).await
}

#[tokio::test]
async fn pods_end_as_with_a_kubelet() -> Result<()> {
    let namespace = Cluster::get().await?.namespace("pods").await?;
    let plan = PodPlan::new("web-0").networks("net-a");
    let interface = Interface {
        network: format!("{}/net-a", namespace.name),
        interface: "net1".into(),
        ips: vec!["10.1.0.1".into()],
    };
    namespace.pod(&plan).await?;
    namespace.prepare_pod("web-0").await?;
    let pod = namespace.run_pod("web-0", &[interface]).await?;
    assert_eq!(phase(&pod), "Running");
    assert!(pod.annotations()[NETWORK_STATUS].contains("10.1.0.1"));

    namespace.delete_pod("web-0", None).await?;
    let pod = namespace.pods().get("web-0").await.unwrap();
    assert!(pod.metadata.deletion_timestamp.is_some());
    assert_eq!(phase(&pod), "Running");
    let pod = namespace.finish_pod("web-0", End::Failed).await?;
    assert_eq!(phase(&pod), "Failed");
    namespace.force_delete_pod("web-0").await?;
    namespace.pod_gone("web-0").await?;

    namespace.running_pod(&plan, &[]).await?;
    namespace.end_pod("web-0", End::Succeeded).await
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

#[tokio::test]
async fn a_user_has_no_rights_and_a_service_account_has_a_token() -> Result<()> {
    let cluster = Cluster::get().await?;
    if cluster.is_foreign() {
        return Ok(());
    }
    let plane = ControlPlane::shared().await?;
    let namespace = cluster.namespace("rights").await?;
    namespace.service_account("ipgc").await?;
    let of_user = plane.client(IPGC).await?;
    let of_account = plane
        .service_account(&namespace.name, "ipgc")
        .await?
        .client("rights")
        .await?;
    for (client, who) in [(of_user, "ipgc"), (of_account, "system:serviceaccount:")] {
        let refused = Api::<Pod>::all(client).list(&ListParams::default()).await;
        match refused {
            Err(kube::Error::Api(status)) => {
                assert_eq!(status.code, 403, "{}", status.message);
                assert!(status.message.contains(who), "{}", status.message);
            }
            other => panic!("{other:?}"),
        }
    }
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

#[tokio::test]
async fn a_live_nodes_lease_changes_until_it_is_silenced() -> Result<()> {
    let cluster = Cluster::get().await?;
    let node = cluster.live_node("lives").await?;
    let ready = |node: &Node| {
        let conditions = node.status.as_ref().and_then(|s| s.conditions.as_ref());
        let ready = conditions.and_then(|all| all.iter().find(|one| one.type_ == "Ready"));
        ready.map(|condition| condition.status.clone())
    };
    let nodes: Api<Node> = Api::all(cluster.client().clone());
    let found = nodes.get(&node.name).await.unwrap();
    assert_eq!(ready(&found).as_deref(), Some("True"));

    let leases: Api<Lease> = Api::namespaced(cluster.client().clone(), "kube-node-lease");
    let version = || async { Ok(leases.get(&node.name).await.unwrap().resource_version()) };
    let first = version().await?;
    let changed = |now: &Option<String>| *now != first;
    wait::until_state("a heartbeat", wait::PATIENCE, version, changed).await?;

    node.silence().await?;
    // A beat that was on its way may still arrive.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let last = version().await?;
    let same = |now: &Option<String>| *now == last;
    wait::holds_for("the lease", Duration::from_secs(3), version, same).await?;
    let found = nodes.get(&node.name).await.unwrap();
    assert_eq!(ready(&found).as_deref(), Some("Unknown"));
    Ok(())
}

fn phase(pod: &Pod) -> &str {
    pod.status
        .as_ref()
        .and_then(|status| status.phase.as_deref())
        .unwrap_or_default()
}

fn alive(id: u32) -> bool {
    std::path::Path::new(&format!("/proc/{id}")).exists()
}
