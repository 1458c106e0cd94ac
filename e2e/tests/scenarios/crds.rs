//! `ipgc crds` on a real server: what upstream's CRDs accept, refuse and keep, ours do alike.
//!
//! Upstream's are on the shared servers, ours alone on servers of their own.

use std::path::PathBuf;

use e2e::{Cluster, ControlPlane, Error, Namespace, Options, Result, pods::End, wait};
use kube::{
    Api,
    api::{ApiResource, DynamicObject, PostParams},
    core::GroupVersionKind,
};
use serde_json::{Value, json};

use crate::{
    binary::ipgc,
    support::{RANGE, Scene},
};

const KINDS: [&str; 4] = [
    "crd/ippools.whereabouts.cni.cncf.io",
    "crd/network-attachment-definitions.k8s.cni.cncf.io",
    "crd/nodeslicepools.whereabouts.cni.cncf.io",
    "crd/overlappingrangeipreservations.whereabouts.cni.cncf.io",
];

/// The CRDs that the binary prints, in a file.
async fn printed(cluster: &Cluster) -> Result<PathBuf> {
    let file = cluster.dir().join("ipgc-crds.yaml");
    let printed = ipgc(&["crds"]).await?;
    assert!(printed.status.success(), "{printed:?}");
    std::fs::write(&file, printed.stdout).map_err(Error::io("write the CRDs"))?;
    Ok(file)
}

/// Servers of a test's own, with the CRDs that the binary prints and no others.
async fn servers_with_ours() -> Result<(ControlPlane, Cluster)> {
    let plane = ControlPlane::start(Options {
        crds: false,
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

fn whereabouts(kind: &str) -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk(
        "whereabouts.cni.cncf.io",
        "v1alpha1",
        kind,
    ))
}

/// Objects without their metadata, each with a word about its special part.
type Samples = Vec<(&'static str, Value)>;

/// For each kind, the objects that a server accepts and those that it refuses.
fn samples() -> Vec<(ApiResource, Samples, Samples)> {
    let id = "ab".repeat(32);
    let pool = |allocations: Value| json!({"spec": {"range": RANGE, "allocations": allocations}});
    let row = json!({"id": id, "podref": "a/b", "ifname": "net1"});
    let of_all_ages = json!({"-3844666706890850303": row, "18446463705355360228": row, "x": row});
    let tagged = json!({"1": {"id": id, "podref": "a/b", "claim": "c"}});
    let pools = vec![
        ("a pool of today", pool(json!({"1": row}))),
        ("an empty pool", pool(json!({}))),
        (
            "a row without interface",
            pool(json!({"1": {"id": id, "podref": "a/b"}})),
        ),
        ("empty texts", pool(json!({"1": {"id": "", "podref": ""}}))),
        ("keys of all ages", pool(of_all_ages)),
        ("a field that is unknown in a row", pool(tagged)),
        (
            "a range that is none",
            json!({"spec": {"range": "?", "allocations": {}}}),
        ),
        ("no spec", json!({})),
        ("unknown fields", json!({"status": {"x": 1}, "extra": true})),
    ];
    let no_pools = vec![
        ("no range", json!({"spec": {"allocations": {}}})),
        ("no allocations", json!({"spec": {"range": RANGE}})),
        ("null allocations", pool(Value::Null)),
        ("allocations as a list", pool(json!([row]))),
        ("a row without id", pool(json!({"1": {"podref": "a/b"}}))),
        ("a row without podref", pool(json!({"1": {"id": id}}))),
        ("a row that is a text", pool(json!({"1": "a/b"}))),
        (
            "an id that is a number",
            pool(json!({"1": {"id": 1, "podref": "a/b"}})),
        ),
        (
            "a range that is a number",
            json!({"spec": {"range": 1, "allocations": {}}}),
        ),
    ];
    let reservations = vec![
        (
            "of today",
            json!({"spec": {"podref": "a/b", "ifname": "net1"}}),
        ),
        ("podref alone", json!({"spec": {"podref": "a/b"}})),
        (
            "of versions before 0.8",
            json!({"spec": {"podref": "a/b", "containerid": id}}),
        ),
        ("claimed", json!({"spec": {"podref": "ipgc.dev/releasing"}})),
    ];
    let no_reservations = vec![
        ("no spec", json!({})),
        ("no podref", json!({"spec": {"containerid": id}})),
        ("a podref that is a number", json!({"spec": {"podref": 7}})),
    ];
    let cut = json!({
        "spec": {"range": "10.0.0.0/16", "sliceSize": "/24"},
        "status": {"allocations": [
            {"nodeName": "a", "sliceRange": "10.0.1.0/24"},
            {"nodeName": "", "sliceRange": "10.0.2.0/24"},
        ]},
    });
    let of_nobody = json!({"status": {"allocations": [{"sliceRange": "10.0.1.0/24"}]}});
    let size = |size: Value| json!({"spec": {"range": "10.0.0.0/16", "sliceSize": size}});
    let slices = vec![
        ("with a slice for each", cut),
        ("not cut up yet", size("24".into())),
        ("no spec", json!({})),
    ];
    let no_slices = vec![
        ("a size that is a number", size(24.into())),
        ("no range", json!({"spec": {"sliceSize": "24"}})),
        ("a status without allocations", json!({"status": {}})),
        ("a slice without a node", of_nobody),
    ];
    let networks = vec![
        ("with a configuration", json!({"spec": {"config": "{}"}})),
        ("with a file on the node", json!({"spec": {}})),
        ("no spec", json!({})),
    ];
    let no_networks = vec![(
        "a configuration that is an object",
        json!({"spec": {"config": {}}}),
    )];
    let network = GroupVersionKind::gvk("k8s.cni.cncf.io", "v1", "NetworkAttachmentDefinition");
    let network = ApiResource::from_gvk_with_plural(&network, "network-attachment-definitions");
    vec![
        (whereabouts("IPPool"), pools, no_pools),
        (
            whereabouts("OverlappingRangeIPReservation"),
            reservations,
            no_reservations,
        ),
        (whereabouts("NodeSlicePool"), slices, no_slices),
        (network, networks, no_networks),
    ]
}

/// The answer of a server to an object: the stored object, or the code of the refusal.
async fn offer(
    namespace: &Namespace,
    resource: &ApiResource,
    name: &str,
    body: &Value,
) -> Result<Value, u16> {
    let mut object = body.clone();
    object["apiVersion"] = json!(resource.api_version);
    object["kind"] = json!(resource.kind);
    object["metadata"] = json!({ "name": name });
    let object: DynamicObject = serde_json::from_value(object).unwrap();
    let client = namespace.client().clone();
    let api: Api<DynamicObject> = Api::namespaced_with(client, &namespace.name, resource);
    match api.create(&PostParams::default(), &object).await {
        Ok(stored) => Ok(stored.data),
        Err(kube::Error::Api(status)) => Err(status.code),
        Err(error) => panic!("{name}: {error}"),
    }
}

#[tokio::test]
async fn upstreams_crds_and_ours_accept_refuse_and_store_the_same() -> Result<()> {
    let upstream = Cluster::get().await?;
    let (plane, ours) = servers_with_ours().await?;
    let under_upstream = upstream.namespace("crds").await?;
    let under_ours = ours.namespace("crds").await?;
    for (resource, taken, refused) in samples() {
        let taken = taken.iter().map(|sample| (sample, Ok(())));
        let refused = refused.iter().map(|sample| (sample, Err(422)));
        for (number, ((what, body), expected)) in taken.chain(refused).enumerate() {
            let name = format!("sample-{number}");
            let (theirs, ours) = futures::join!(
                offer(&under_upstream, &resource, &name, body),
                offer(&under_ours, &resource, &name, body),
            );
            let what = format!("{}, {what}", resource.kind);
            assert_eq!(theirs, ours, "{what}: upstream's, ours");
            assert_eq!(ours.map(drop), expected, "{what}");
        }
    }

    // And all that the collector and the plugin do works with them.
    let scene = Scene::on(&ours, "ours").await?;
    let network = e2e::cni::Network::range("net-a", RANGE);
    scene.attach(&network).await?;
    let collecting = scene.collect().await?;
    scene.start("web-0", &network).await?;
    scene.namespace.end_pod("web-0", End::Succeeded).await?;
    scene.only(&[]).await?;
    collecting.end().await;
    plane.stop().await
}

/// A cluster that has upstream's takes ours in their place, should somebody want that.
#[tokio::test]
async fn ours_are_accepted_where_upstreams_are_installed() -> Result<()> {
    let cluster = Cluster::get().await?;
    let file = printed(&cluster).await?;
    let dry = [
        "apply",
        "--server-side",
        "--force-conflicts",
        "--dry-run=server",
        "-f",
    ];
    let args = dry.map(AsRef::as_ref).into_iter().chain([file.as_os_str()]);
    let said = cluster.kubectl(args).await?;
    assert_eq!(said.lines().count(), KINDS.len(), "{said}");
    Ok(())
}

/// One line for a CRD that drops what ipgc reads; none for upstream's and ours.
#[tokio::test]
async fn a_crd_that_drops_what_is_read_is_told() -> Result<()> {
    let (_plane, cluster) = servers_with_ours().await?;
    let kubeconfig = cluster.dir().join("dropped.kubeconfig");
    cluster.access().write(&kubeconfig)?;
    let kubeconfig = kubeconfig.to_str().unwrap();
    let told = || async move {
        let said = ipgc(&["audit", "--kubeconfig", kubeconfig]).await?;
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        Ok(said
            .lines()
            .filter(|it| it.contains(" drops "))
            .map(str::to_owned)
            .collect::<Vec<_>>())
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
