//! `ipgc release` as a person uses it, on the real API server with rows of the real plugin.

use std::{path::PathBuf, sync::Arc};

use e2e::{Cluster, ControlPlane, Result, cluster::unique, cni::Network, control_plane::Options};

use crate::{
    binary::{self, Said},
    support::{POOL, SHORT_WAITS, Scene, plan, rows},
};

/// `ipgc` on the pools of a scene, with waits of seconds, told this on standard input.
pub async fn ipgc(scene: &Scene, args: &[&str], typed: &str) -> Result<Said> {
    let cluster = scene.namespace.cluster();
    let kubeconfig = file(cluster, "kubeconfig");
    cluster.access().write(&kubeconfig)?;
    let namespace = &scene.namespace.name;
    let place = ["--kubeconfig", kubeconfig.to_str().unwrap()];
    let pools = ["--pool-namespace", namespace];
    binary::ipgc(&[args, &place, &pools, &SHORT_WAITS].concat(), typed).await
}

/// A name for a file that no other scenario has.
pub fn file(cluster: &Cluster, kind: &str) -> PathBuf {
    cluster.dir().join(unique("byhand")).with_extension(kind)
}

/// A scene on servers of its own: a node that is silent holds what others wait for, and theirs ours.
pub async fn alone(prefix: &str) -> Result<(ControlPlane, Arc<Scene>, Network)> {
    let plane = ControlPlane::start(Options::default().with_controllers()).await?;
    let (scene, network) = Scene::with_network_on(&Cluster::of(&plane).await?, prefix).await?;
    Ok((plane, scene, network))
}

#[tokio::test]
async fn one_address_goes_once_it_is_typed() -> Result<()> {
    let (plane, scene, network) = alone("force").await?;
    let node = scene.namespace.cluster().live_node("dies").await?;
    let mut held = Vec::new();
    for pod in ["web-0", "web-1"] {
        let plan = plan(pod, "net-a").on(&node.name);
        held.push(scene.cni.start(&plan, &[&network]).await?.sandbox);
    }
    scene.namespace.force_delete_pod("web-0").await?;
    node.silence().await?;
    let all = rows([(1, &held[0], "net1"), (2, &held[1], "net1")]);
    let force = ["release", "--force", "10.1.0.1"];
    for wrong in ["", "y\n", "10.1.0.2\n"] {
        let said = ipgc(&scene, &force, wrong).await?;
        assert_eq!(said.code, Some(1), "{said:?}");
        assert!(
            said.stderr.contains("10.1.0.1 was not typed, it stays"),
            "{said:?}"
        );
        assert_eq!(scene.namespace.rows(POOL).await?, all);
    }
    let said = ipgc(&scene, &["release", "--force", "10.1.0.2"], "10.1.0.2\n").await?;
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(said.stderr.contains("10.1.0.2 is kept: "), "{said:?}");

    let said = ipgc(&scene, &force, "10.1.0.1\n").await?;
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.stderr.contains(&node.name), "{said:?}");
    assert!(said.stdout.contains("freed ("), "{said:?}");
    // With all that it takes to put it back.
    let logged = said.stderr.lines().find(|line| line.contains("freed row"));
    for part in [
        &*held[0].id,
        "key=\"1\"",
        "interface=\"net1\"",
        "trigger=\"hand\"",
    ] {
        assert!(
            logged.is_some_and(|line| line.contains(part)),
            "{part}: {said:?}"
        );
    }
    let summary = "1 freed, 0 gone already or changed, 0 kept\n";
    assert!(said.stdout.ends_with(summary), "{said:?}");
    assert_eq!(
        scene.namespace.rows(POOL).await?,
        rows([(2, &held[1], "net1")])
    );
    scene.namespace.wait_reservations(&["10.1.0.2"]).await?;
    plane.stop().await
}
