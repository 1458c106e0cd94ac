//! `ipgc crds` beside upstream's CRDs, and on a real server.
//!
//! Upstream's are on the shared servers, ours alone on servers of their own.

use std::path::PathBuf;

use e2e::{Cluster, ControlPlane, Options, Result, pods::End, wait};
use ipgc::api::CRD_FILES;
use serde_json::{Value, json};

use crate::{binary::ipgc, support::Scene};

const KINDS: [&str; 4] = [
    "crd/ippools.whereabouts.cni.cncf.io",
    "crd/network-attachment-definitions.k8s.cni.cncf.io",
    "crd/nodeslicepools.whereabouts.cni.cncf.io",
    "crd/overlappingrangeipreservations.whereabouts.cni.cncf.io",
];

/// The CRDs that the binary prints, in a file.
async fn printed(cluster: &Cluster) -> Result<PathBuf> {
    let file = cluster.dir().join("ipgc-crds.yaml");
    let printed = ipgc(&["crds"], "").await?;
    assert_eq!(printed.code, Some(0), "{printed:?}");
    std::fs::write(&file, printed.stdout)?;
    Ok(file)
}

/// Servers of a test's own, with the CRDs that the binary prints and no others.
async fn servers_with_ours() -> Result<(ControlPlane, Cluster)> {
    let plane = ControlPlane::start(Options {
        without_crds: true,
        ..Options::default()
    })
    .await?;
    let cluster = Cluster::of(&plane).await?;
    let file = printed(&cluster).await?;
    let said = cluster
        .kubectl(["apply".as_ref(), "-f".as_ref(), file.as_os_str()])
        .await?;
    let made = said.lines().filter(|line| line.ends_with(" created"));
    assert_eq!(made.count(), KINDS.len(), "{said}");
    let wait = ["wait", "--for=condition=Established", "--timeout=30s"];
    cluster.kubectl(wait.into_iter().chain(KINDS)).await?;
    Ok((plane, cluster))
}

/// What they validate and keep: without texts and what the server adds by itself.
fn stripped(text: &str) -> Value {
    fn strip(value: &mut Value) {
        match value {
            Value::Object(fields) => {
                fields.retain(|name, field| name != "description" || !field.is_string());
                fields.values_mut().for_each(strip);
            }
            Value::Array(items) => items.iter_mut().for_each(strip),
            _ => {}
        }
    }
    let mut crd: Value = serde_yaml::from_str(text).unwrap();
    strip(&mut crd);
    let mut remove = |of: &str, names: &[&str]| {
        let fields = crd.pointer_mut(of).and_then(Value::as_object_mut).unwrap();
        fields.retain(|name, _| !names.contains(&name.as_str()));
    };
    remove("/metadata", &["annotations"]);
    remove("/spec/names", &["listKind"]);
    let schema = "/spec/versions/0/schema/openAPIV3Schema/properties";
    remove(schema, &["apiVersion", "kind", "metadata"]);
    crd
}

#[tokio::test]
async fn ours_are_upstreams_but_for_texts() -> Result<()> {
    if std::env::var("IPGC_E2E_WHEREABOUTS").is_ok_and(|version| !version.is_empty()) {
        println!(
            "NOT COMPARED: ours are those of the whereabouts that is pinned without that flag"
        );
        return Ok(());
    }
    let files = e2e::tools::crd_files().await?.into_iter();
    let upstreams: Vec<_> = files
        .map(|file| stripped(&std::fs::read_to_string(file).unwrap()))
        .collect();
    let mut ours = CRD_FILES;
    ours.sort_unstable();
    assert_eq!(ours.map(|(_, text)| stripped(text))[..], upstreams);
    for (name, text) in CRD_FILES {
        let count = |key| text.matches(key).count();
        assert_eq!(
            count(" description: "),
            count(" type: "),
            "{name}: a node is not described"
        );
    }
    Ok(())
}

#[tokio::test]
async fn the_collector_and_the_plugin_work_with_ours() -> Result<()> {
    let (plane, ours) = servers_with_ours().await?;
    let (scene, network) = Scene::with_network_on(&ours, "ours").await?;
    let collecting = scene.collect().await?;
    scene.start("web-0", &network).await?;
    scene.namespace.end_pod("web-0", End::Succeeded).await?;
    scene.only(&[]).await?;
    collecting.end().await;
    plane.stop().await
}

/// One line for a CRD that drops what ipgc reads; none for upstream's and ours.
#[tokio::test]
async fn a_crd_that_drops_what_is_read_is_told() -> Result<()> {
    let (_plane, cluster) = servers_with_ours().await?;
    let kubeconfig = cluster.dir().join("dropped.kubeconfig");
    cluster.access().write(&kubeconfig)?;
    let kubeconfig = kubeconfig.to_str().unwrap();
    let told = || async move {
        let said = ipgc(&["audit", "--kubeconfig", kubeconfig], "").await?;
        let lines = said.stdout.lines().filter(|it| it.contains(" drops "));
        Ok(lines.map(str::to_owned).collect::<Vec<_>>())
    };
    assert_eq!(told().await?, Vec::<String>::new());
    let place = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/allocations/\
        additionalProperties/properties/ifname";
    let patch = json!([{"op": "remove", "path": place}]).to_string();
    let args = ["patch", KINDS[0], "--type=json", "-p", &patch];
    cluster.kubectl(args).await?;
    // The API server serves the new schema a moment later.
    let what = "a note about the field";
    let notes = wait::until_state(what, wait::PATIENCE, told, |it| !it.is_empty()).await?;
    let expected = "note: the CRD of IPPool drops spec.allocations.*.ifname, which ipgc reads: \
        compare it by ipgc crds | kubectl diff -f -";
    assert_eq!(notes, [expected]);
    Ok(())
}
