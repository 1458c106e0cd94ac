//! The commands that an audit tells a person to run, run as they stand, by a shell and the real kubectl.

use std::{
    env, fs, iter,
    os::unix::fs::{PermissionsExt as _, symlink},
    process::{Command, Output},
};

use e2e::{Cluster, Result, cni::Network, ours, pods::End, process::within, wait};
use ipgc::audit::report::{Finding, Problem, Report};

use crate::{
    byhand::{alone, file, ipgc},
    support::{POOL, Scene, plan},
};

/// The findings of this kind.
async fn found(scene: &Scene, problem: Problem) -> Result<Vec<Finding>> {
    let said = ipgc(scene, &["audit", "-o", "json"], "").await?;
    let report: Report = serde_json::from_str(&said.stdout).unwrap();
    let findings = report.findings.into_iter();
    Ok(findings.filter(|it| it.problem == problem).collect())
}

/// A person pastes the command of a finding.
async fn paste(cluster: &Cluster, finding: &Finding) -> Result<Output> {
    let kubeconfig = file(cluster, "kubeconfig");
    cluster.access().write(&kubeconfig)?;
    let folder = file(cluster, "bin");
    fs::create_dir(&folder).unwrap();
    symlink(cluster.kubectl_program(), folder.join("kubectl")).unwrap();
    let path = env::var_os("PATH").unwrap_or_default();
    let path = env::join_paths(iter::once(folder).chain(env::split_paths(&path))).unwrap();
    let mut shell = Command::new("sh");
    shell
        .args(["-c", finding.command.as_deref().expect("no command")])
        .env("PATH", path)
        .env("KUBECONFIG", kubeconfig)
        .env("KUBECACHEDIR", cluster.dir().join("kubectl-cache"));
    within("sh", shell, wait::PATIENCE).await
}

/// As docs/operations.md says: a program of that name is a command of kubectl, and a second one completes it, with names of
/// the cluster as well.
#[tokio::test]
async fn it_is_a_command_of_kubectl() -> Result<()> {
    let (_plane, scene, network) = alone("plugin").await?;
    let cluster = scene.namespace.cluster();
    let address = scene.start("web-0", &network).await?.addresses[0].to_string();
    let kubeconfig = file(cluster, "kubeconfig");
    cluster.access().write(&kubeconfig)?;
    let folder = file(cluster, "plugin");
    fs::create_dir(&folder).unwrap();
    symlink(ours::program().await?, folder.join("kubectl-ipgc")).unwrap();
    let completer = folder.join("kubectl_complete-ipgc");
    fs::write(
        &completer,
        "#!/bin/sh\nexec kubectl-ipgc __complete \"$@\"\n",
    )
    .unwrap();
    fs::set_permissions(&completer, fs::Permissions::from_mode(0o755)).unwrap();
    let path = env::var_os("PATH").unwrap_or_default();
    let path = env::join_paths(iter::once(folder).chain(env::split_paths(&path))).unwrap();
    let (pod, pool) = (format!("{}/web-0", scene.namespace.name), POOL);
    for (words, expected) in [
        (&["ipgc", "--version"][..], "ipgc 0."),
        (&["__complete", "ipgc", "ex"], "explain\t"),
        (&["__complete", "ipgc", "audit", "--context"], "--context"),
        (&["__complete", "ipgc", "explain", "10."], &address),
        (&["__complete", "ipgc", "explain", &pod[..4]], &pod),
        (&["__complete", "ipgc", "pools", &pool[..4]], pool),
        (
            &["__complete", "ipgc", "release", "--force", "10."],
            &address,
        ),
    ] {
        let mut kubectl = Command::new(cluster.kubectl_program());
        kubectl
            .args(words)
            .env("PATH", &path)
            .env("KUBECONFIG", &kubeconfig);
        let output = within("kubectl", kubectl, wait::PATIENCE).await?;
        let said = String::from_utf8_lossy(&output.stdout);
        let mut lines = said.lines();
        assert!(
            lines.any(|line| line.starts_with(expected)),
            "{words:?}: {output:?}"
        );
    }
    Ok(())
}

/// Not if an address was taken from it since the audit. On servers of its own, where no definition is unreadable: it
/// might lead to the pool.
#[tokio::test]
async fn a_pool_that_no_definition_leads_to_goes_while_it_is_empty() -> Result<()> {
    let (plane, scene, network) = alone("unused").await?;
    let cluster = scene.namespace.cluster();
    let first = scene.start("web-0", &network).await?;
    let delete = ["delete", "net-attach-def", "net-a"];
    scene.namespace.kubectl(&delete).await?;
    let with_row = found(&scene, Problem::PoolWithoutDefinition).await?;
    assert_eq!(with_row.len(), 1);
    assert_eq!(with_row[0].command, None);
    scene.cni.del(&network, &first.sandbox, "net1").await?;
    scene.namespace.end_pod("web-0", End::Succeeded).await?;

    let [empty] = &found(&scene, Problem::PoolWithoutDefinition).await?[..] else {
        panic!("not one finding");
    };
    let second = scene.cni.start(&plan("web-1", ""), &[&network]).await?;
    let refused = paste(cluster, empty).await?;
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(
        !refused.status.success() && said.contains("in the precondition"),
        "{said}"
    );
    assert_eq!(scene.namespace.offsets(POOL).await?, [1]);

    scene.cni.del(&network, &second.sandbox, "net1").await?;
    scene.namespace.end_pod("web-1", End::Succeeded).await?;
    let [empty] = &found(&scene, Problem::PoolWithoutDefinition).await?[..] else {
        panic!("not one finding");
    };
    let done = paste(cluster, empty).await?;
    assert!(done.status.success(), "{done:?}");
    assert_eq!(pools(&scene).await?, "");
    assert_eq!(found(&scene, Problem::PoolWithoutDefinition).await?, []);
    plane.stop().await
}

/// The plugin's DEL removes it like its own; a second creation is refused.
#[tokio::test]
async fn a_reservation_that_is_missing_is_made() -> Result<()> {
    let (scene, network) = Scene::with_network("unreserved").await?;
    let started = scene.start("web-0", &network).await?;
    let before = scene.namespace.reservations().await?;
    scene.namespace.pull_reservation("10.1.0.1").await?;
    let [missing] = &found(&scene, Problem::ReservationMissing).await?[..] else {
        panic!("not one finding");
    };
    let cluster = scene.namespace.cluster();
    let done = paste(cluster, missing).await?;
    assert!(done.status.success(), "{done:?}");
    let made = &scene.namespace.reservations().await?["10.1.0.1"];
    let theirs = &before["10.1.0.1"];
    assert_eq!(
        (&made.podref, &made.ifname),
        (&theirs.podref, &theirs.ifname)
    );
    assert_eq!(found(&scene, Problem::ReservationMissing).await?, []);
    let refused = paste(cluster, missing).await?;
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(
        !refused.status.success() && said.contains("already exists"),
        "{said}"
    );
    scene.cni.del(&network, &started.sandbox, "net1").await?;
    assert!(scene.namespace.reservations().await?.is_empty());
    assert!(scene.namespace.rows(POOL).await?.is_empty());
    Ok(())
}

/// Names of the pools, as kubectl prints them.
async fn pools(scene: &Scene) -> Result<String> {
    let args = ["get", "ippools.whereabouts.cni.cncf.io", "-o", "name"];
    scene.namespace.kubectl(&args).await
}

/// With the pool that such a slice has, and not if it has another node since the audit.
#[tokio::test]
async fn slices_of_nodes_that_are_gone_are_free_again() -> Result<()> {
    let scene = Scene::new("unassigned").await?;
    let cluster = scene.namespace.cluster();
    let network = Network::range("net-a", "10.4.0.0/16")
        .network_name("sliced")
        .with("node_slice_size", "/24");
    scene.namespace.attach(&network).await?;
    let slices = [
        ("node-a", "10.4.1.0/24"),
        ("node-b", "10.4.2.0/24"),
        ("", "10.4.3.0/24"),
    ];
    let namespace = &scene.namespace;
    namespace
        .plant_slices("sliced", "10.4.0.0/16", "/24", &slices)
        .await?;
    let pool = "sliced-node-a-10.4.1.0-24";
    let none = std::collections::BTreeMap::new();
    scene
        .namespace
        .plant_pool(pool, "10.4.1.0/24", &none)
        .await?;
    let nodes = async || {
        let path = "jsonpath={range .status.allocations[*]}{.nodeName},{end}";
        let get = ["get", "nodeslicepools", "sliced", "-o", path];
        namespace.kubectl(&get).await
    };
    let both = found(&scene, Problem::SliceOfGoneNode).await?;
    let of = |node: &str| {
        both.iter()
            .find(|it| it.nodes.iter().any(|it| &**it == node))
    };
    let (of_a, of_b) = (of("node-a").unwrap(), of("node-b").unwrap());
    let other = r#"[{"op":"replace","path":"/status/allocations/1/nodeName","value":"node-c"}]"#;
    let patch = [
        "patch",
        "nodeslicepools",
        "sliced",
        "--type=json",
        "-p",
        other,
    ];
    namespace.kubectl(&patch).await?;
    let refused = paste(cluster, of_b).await?;
    assert!(!refused.status.success(), "{refused:?}");
    assert_eq!(nodes().await?, "node-a,node-c,,");

    let done = paste(cluster, of_a).await?;
    assert!(done.status.success(), "{done:?}");
    assert_eq!(pools(&scene).await?, "");
    let [of_c] = &found(&scene, Problem::SliceOfGoneNode).await?[..] else {
        panic!("not one finding");
    };
    let done = paste(cluster, of_c).await?;
    assert!(done.status.success(), "{done:?}");
    assert_eq!(nodes().await?, ",,,");
    assert_eq!(found(&scene, Problem::SliceOfGoneNode).await?, []);
    Ok(())
}

/// Addresses of a silent node are freed once a person says by the command that the node runs nothing.
#[tokio::test]
async fn what_a_silent_node_holds_goes_once_a_person_vouches_for_it() -> Result<()> {
    let (plane, scene, network) = alone("vouched").await?;
    let cluster = scene.namespace.cluster();
    let node = cluster.live_node("dies").await?;
    let plan = plan("web-0", "net-a").on(&node.name);
    scene.cni.start(&plan, &[&network]).await?;
    scene.namespace.force_delete_pod("web-0").await?;
    node.silence().await?;
    let [held] = &found(&scene, Problem::HeldUnfenced).await?[..] else {
        panic!("not one finding");
    };
    // The statement has to be of a later second than the node's silence.
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    let done = paste(cluster, held).await?;
    assert!(done.status.success(), "{done:?}");
    assert_eq!(found(&scene, Problem::HeldUnfenced).await?, []);
    let collecting = scene.collect().await?;
    scene.namespace.wait_offsets(POOL, &[]).await?;
    collecting.end().await;
    plane.stop().await
}
