//! `ipgc crds` on a real server: what upstream's CRDs accept, refuse and keep, ours do alike.
//!
//! Upstream's are on the shared servers, ours alone on servers of their own.

use e2e::{Cluster, ControlPlane, Error, Namespace, Options, Result, pods::End};
use kube::{
    Api,
    api::{ApiResource, DynamicObject, PostParams},
    core::GroupVersionKind,
};
use serde_json::{Value, json};

use crate::{
    binary::ipgc,
    support::{POOL, RANGE, Scene, plan},
};

const KINDS: [&str; 4] = [
    "crd/ippools.whereabouts.cni.cncf.io",
    "crd/network-attachment-definitions.k8s.cni.cncf.io",
    "crd/nodeslicepools.whereabouts.cni.cncf.io",
    "crd/overlappingrangeipreservations.whereabouts.cni.cncf.io",
];

/// Servers of a test's own, with the CRDs that the binary prints and no others.
async fn servers_with_ours() -> Result<(ControlPlane, Cluster)> {
    let plane = ControlPlane::start(Options {
        crds: false,
        ..Options::default()
    })
    .await?;
    let cluster = Cluster::of(&plane).await?;
    let file = cluster.dir().join("ipgc-crds.yaml");
    let printed = ipgc(&["crds"]).await?;
    assert!(printed.status.success(), "{printed:?}");
    std::fs::write(&file, printed.stdout).map_err(Error::io("write the CRDs"))?;
    let said = cluster
        .kubectl(["apply".as_ref(), "-f".as_ref(), file.as_os_str()])
        .await?;
    let made = said.lines().filter(|line| line.ends_with(" created"));
    assert_eq!(made.count(), KINDS.len(), "{said}");
    let wait = ["wait", "--for=condition=Established", "--timeout=30s"];
    cluster.kubectl(wait.into_iter().chain(KINDS)).await?;
    Ok((plane, cluster))
}

/// One object, and whether a server takes it.
#[derive(Clone)]
struct Sample {
    what: &'static str,
    kind: Kind,
    accepted: bool,
    body: Value,
}

#[derive(Clone, Copy)]
enum Kind {
    Pool,
    Reservation,
    Slices,
    Network,
}

impl Kind {
    fn resource(self) -> ApiResource {
        let whereabouts = |kind| GroupVersionKind::gvk("whereabouts.cni.cncf.io", "v1alpha1", kind);
        let network = GroupVersionKind::gvk("k8s.cni.cncf.io", "v1", "NetworkAttachmentDefinition");
        match self {
            Self::Pool => ApiResource::from_gvk(&whereabouts("IPPool")),
            Self::Reservation => {
                ApiResource::from_gvk(&whereabouts("OverlappingRangeIPReservation"))
            }
            Self::Slices => ApiResource::from_gvk(&whereabouts("NodeSlicePool")),
            Self::Network => {
                ApiResource::from_gvk_with_plural(&network, "network-attachment-definitions")
            }
        }
    }
}

fn accepted(kind: Kind, what: &'static str, body: Value) -> Sample {
    Sample {
        what,
        kind,
        accepted: true,
        body,
    }
}

fn refused(kind: Kind, what: &'static str, body: Value) -> Sample {
    Sample {
        accepted: false,
        ..accepted(kind, what, body)
    }
}

fn pools() -> Vec<Sample> {
    let id = "ab".repeat(32);
    let pool = |allocations: Value| json!({"spec": {"range": RANGE, "allocations": allocations}});
    let row = json!({"id": id, "podref": "a/b", "ifname": "net1"});
    vec![
        accepted(Kind::Pool, "a pool of today", pool(json!({"1": row}))),
        accepted(Kind::Pool, "an empty pool", pool(json!({}))),
        accepted(
            Kind::Pool,
            "a row without interface",
            pool(json!({"1": {"id": id, "podref": "a/b"}})),
        ),
        accepted(
            Kind::Pool,
            "empty texts",
            pool(json!({"1": {"id": "", "podref": ""}})),
        ),
        accepted(
            Kind::Pool,
            "keys of all ages",
            pool(json!({"-3844666706890850303": row, "18446463705355360228": row, "x": row})),
        ),
        accepted(
            Kind::Pool,
            "a field that is unknown in a row",
            pool(json!({"1": {"id": id, "podref": "a/b", "claim": "c"}})),
        ),
        accepted(
            Kind::Pool,
            "a range that is none",
            json!({"spec": {"range": "?", "allocations": {}}}),
        ),
        accepted(Kind::Pool, "no spec", json!({})),
        accepted(
            Kind::Pool,
            "unknown fields",
            json!({"status": {"x": 1}, "extra": true}),
        ),
        refused(Kind::Pool, "no range", json!({"spec": {"allocations": {}}})),
        refused(
            Kind::Pool,
            "no allocations",
            json!({"spec": {"range": RANGE}}),
        ),
        refused(Kind::Pool, "null allocations", pool(Value::Null)),
        refused(Kind::Pool, "allocations as a list", pool(json!([row]))),
        refused(
            Kind::Pool,
            "a row without id",
            pool(json!({"1": {"podref": "a/b"}})),
        ),
        refused(
            Kind::Pool,
            "a row without podref",
            pool(json!({"1": {"id": id}})),
        ),
        refused(
            Kind::Pool,
            "a row that is a text",
            pool(json!({"1": "a/b"})),
        ),
        refused(
            Kind::Pool,
            "an id that is a number",
            pool(json!({"1": {"id": 1, "podref": "a/b"}})),
        ),
        refused(
            Kind::Pool,
            "a range that is a number",
            json!({"spec": {"range": 1, "allocations": {}}}),
        ),
    ]
}

fn reservations() -> Vec<Sample> {
    let id = "ab".repeat(32);
    vec![
        accepted(
            Kind::Reservation,
            "of today",
            json!({"spec": {"podref": "a/b", "ifname": "net1"}}),
        ),
        accepted(
            Kind::Reservation,
            "podref alone",
            json!({"spec": {"podref": "a/b"}}),
        ),
        accepted(
            Kind::Reservation,
            "of versions before 0.8",
            json!({"spec": {"podref": "a/b", "containerid": id}}),
        ),
        accepted(
            Kind::Reservation,
            "claimed",
            json!({"spec": {"podref": "ipgc.dev/releasing"}}),
        ),
        refused(Kind::Reservation, "no spec", json!({})),
        refused(
            Kind::Reservation,
            "no podref",
            json!({"spec": {"containerid": id}}),
        ),
        refused(
            Kind::Reservation,
            "a podref that is a number",
            json!({"spec": {"podref": 7}}),
        ),
    ]
}

fn slices_and_networks() -> Vec<Sample> {
    vec![
        accepted(
            Kind::Slices,
            "with a slice for each",
            json!({
                "spec": {"range": "10.0.0.0/16", "sliceSize": "/24"},
                "status": {"allocations": [
                    {"nodeName": "a", "sliceRange": "10.0.1.0/24"},
                    {"nodeName": "", "sliceRange": "10.0.2.0/24"},
                ]},
            }),
        ),
        accepted(
            Kind::Slices,
            "not cut up yet",
            json!({"spec": {"range": "10.0.0.0/16", "sliceSize": "24"}}),
        ),
        accepted(Kind::Slices, "no spec", json!({})),
        refused(
            Kind::Slices,
            "a size that is a number",
            json!({"spec": {"range": "10.0.0.0/16", "sliceSize": 24}}),
        ),
        refused(
            Kind::Slices,
            "no range",
            json!({"spec": {"sliceSize": "24"}}),
        ),
        refused(
            Kind::Slices,
            "a status without allocations",
            json!({"status": {}}),
        ),
        refused(
            Kind::Slices,
            "a slice without a node",
            json!({"status": {"allocations": [{"sliceRange": "10.0.1.0/24"}]}}),
        ),
        accepted(
            Kind::Network,
            "with a configuration",
            json!({"spec": {"config": "{}"}}),
        ),
        accepted(
            Kind::Network,
            "with a file on the node",
            json!({"spec": {}}),
        ),
        accepted(Kind::Network, "no spec", json!({})),
        refused(
            Kind::Network,
            "a configuration that is an object",
            json!({"spec": {"config": {}}}),
        ),
    ]
}

/// What a server makes of a sample: what it stores, or the code of its refusal.
async fn offer(namespace: &Namespace, number: usize, sample: &Sample) -> Result<Value, u16> {
    let resource = sample.kind.resource();
    let mut object = sample.body.clone();
    object["apiVersion"] = json!(resource.api_version);
    object["kind"] = json!(resource.kind);
    object["metadata"] = json!({"name": format!("sample-{number}")});
    let object: DynamicObject = serde_json::from_value(object).unwrap();
    let client = namespace.client().clone();
    let api: Api<DynamicObject> = Api::namespaced_with(client, &namespace.name, &resource);
    match api.create(&PostParams::default(), &object).await {
        Ok(stored) => Ok(stored.data),
        Err(kube::Error::Api(status)) => Err(status.code),
        Err(error) => panic!("{}: {error}", sample.what),
    }
}

#[tokio::test]
async fn upstreams_crds_and_ours_accept_refuse_and_store_the_same() -> Result<()> {
    let upstream = Cluster::get().await?;
    if upstream.is_foreign() {
        return Ok(());
    }
    let (plane, ours) = servers_with_ours().await?;
    let under_upstream = upstream.namespace("crds").await?;
    let under_ours = ours.namespace("crds").await?;
    let samples = [pools(), reservations(), slices_and_networks()].concat();
    for (number, sample) in samples.iter().enumerate() {
        let (theirs, ours) = futures::join!(
            offer(&under_upstream, number, sample),
            offer(&under_ours, number, sample),
        );
        assert_eq!(theirs, ours, "{}: upstream's, ours", sample.what);
        let expected = if sample.accepted { Ok(()) } else { Err(422) };
        assert_eq!(ours.map(drop), expected, "{}", sample.what);
    }

    // And all that the collector and the plugin do works with them.
    let scene = Scene::on(&ours, "ours").await?;
    let network = e2e::cni::Network::range("net-a", RANGE);
    scene.attach(&network).await?;
    let collecting = scene.collect().await?;
    scene
        .start_pod(&plan("web-0", "net-a"), &[&network])
        .await?;
    scene.namespace.end_pod("web-0", End::Succeeded).await?;
    scene.namespace.wait_offsets(POOL, &[]).await?;
    scene.namespace.wait_reservations(&[]).await?;
    collecting.end().await;
    plane.stop().await
}

/// A cluster that has upstream's takes ours in their place, should somebody want that.
#[tokio::test]
async fn ours_are_accepted_where_upstreams_are_installed() -> Result<()> {
    let cluster = Cluster::get().await?;
    let file = cluster.dir().join("ipgc-crds.yaml");
    let printed = ipgc(&["crds"]).await?;
    assert!(printed.status.success(), "{printed:?}");
    std::fs::write(&file, printed.stdout).map_err(Error::io("write the CRDs"))?;
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
