//! Reservations as other versions of whereabouts keep them, on servers whose CRD is theirs: without a podref, and with a
//! field that is not known yet.

use std::sync::Arc;

use e2e::{Cluster, ControlPlane, Options, Result, cni::Network, pods::End, wait};
use serde_json::{Value, json};

use crate::{byhand::ipgc, support::Scene};

const CRD: &str = "crd/overlappingrangeipreservations.whereabouts.cni.cncf.io";

/// A scene on servers of its own, whose CRD has just these fields, all of them texts, in the spec of a reservation.
async fn with_fields(prefix: &str, fields: &[&str]) -> Result<(ControlPlane, Arc<Scene>, Network)> {
    let plane = ControlPlane::start(Options::default().with_controllers()).await?;
    let cluster = Cluster::of(&plane).await?;
    let texts = fields
        .iter()
        .map(|field| (*field, json!({"type": "string"})));
    let texts: serde_json::Map<String, Value> = texts
        .map(|(field, text)| (field.to_owned(), text))
        .collect();
    let patch = json!([{
        "op": "replace",
        "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec",
        "value": {"type": "object", "properties": texts},
    }]);
    let patch = patch.to_string();
    cluster
        .kubectl(["patch", CRD, "--type=json", "-p", &patch])
        .await?;
    let (scene, network) = Scene::with_network_on(&cluster, prefix).await?;
    // It is served a moment later.
    let spec = || async {
        let spec = json!({fields[0]: "probe", "podref": "a/b"});
        plant(&scene, "10.9.9.9", spec).await?;
        let read = kubectl(&scene, &["get", ORIP, "10.9.9.9", "-o", "jsonpath={.spec}"]).await?;
        kubectl(&scene, &["delete", ORIP, "10.9.9.9"]).await?;
        Ok(read)
    };
    let is_it = |read: &String| {
        read.contains("probe") && (read.contains("a/b") == fields.contains(&"podref"))
    };
    wait::until_state("the CRD to be the old one", wait::PATIENCE, spec, is_it).await?;
    Ok((plane, scene, network))
}

const ORIP: &str = "overlappingrangeipreservations.whereabouts.cni.cncf.io";

async fn kubectl(scene: &Scene, args: &[&str]) -> Result<String> {
    scene.namespace.kubectl(args).await
}

/// Makes a reservation with this spec.
async fn plant(scene: &Scene, name: &str, spec: Value) -> Result<()> {
    let file = crate::byhand::file(scene.namespace.cluster(), "json");
    let object = json!({
        "apiVersion": "whereabouts.cni.cncf.io/v1alpha1",
        "kind": "OverlappingRangeIPReservation",
        "metadata": {"name": name},
        "spec": spec,
    });
    std::fs::write(&file, object.to_string())?;
    let file = file.to_string_lossy().into_owned();
    // As the plugin does, also if the CRD drops a field.
    let apply = ["apply", "--validate=ignore", "-f", &file];
    kubectl(scene, &apply).await.map(drop)
}

/// The CRD drops the podref of the real plugin's reservation. It goes with the row of its sandbox; the one that is alone is
/// told by the audit, and goes by a person's word.
#[tokio::test]
async fn without_a_podref_it_goes_with_its_row_or_by_force() -> Result<()> {
    let (plane, scene, network) = with_fields("no-podref", &["containerid", "ifname"]).await?;
    let collecting = scene.collect().await?;
    let mut started = Vec::new();
    for pod in ["web-0", "web-1"] {
        started.push(scene.start(pod, &network).await?);
    }
    for (name, of) in [("10.1.0.1", &started[0]), ("10.1.0.2", &started[1])] {
        let spec = json!({"spec": {"containerid": of.sandbox.id}}).to_string();
        kubectl(&scene, &["patch", ORIP, name, "--type=merge", "-p", &spec]).await?;
    }
    scene.namespace.end_pod("web-0", End::Succeeded).await?;
    scene.only(&[2]).await?;
    let counted = collecting.end().await;
    assert_eq!(counted["reservations_freed"], 1);

    plant(&scene, "10.1.0.9", json!({"containerid": "ab".repeat(32)})).await?;
    let said = ipgc(&scene, &["audit", "-o", "wide"], "").await?;
    assert!(
        said.stdout.contains("ipgc release --force 10.1.0.9")
            && !said.stdout.contains("reservation-missing"),
        "{said:?}"
    );
    let force = ["release", "--force", "10.1.0.9"];
    let said = ipgc(&scene, &force, "10.1.0.9\n").await?;
    assert_eq!(said.code, Some(0), "{said:?}");
    scene.namespace.wait_reservations(&["10.1.0.2"]).await?;
    plane.stop().await
}

/// A field of a later version may say whose the reservation is.
#[tokio::test]
async fn with_a_field_that_is_not_known_it_stays() -> Result<()> {
    let fields = ["ipamclaim", "podref", "ifname"];
    let (plane, scene, _) = with_fields("ipamclaim", &fields).await?;
    let podref = scene.podref("gone");
    let tagged = json!({"podref": podref, "ifname": "net1", "ipamclaim": "a/claim"});
    plant(&scene, "10.1.0.8", tagged).await?;
    plant(
        &scene,
        "10.1.0.9",
        json!({"podref": podref, "ifname": "net1"}),
    )
    .await?;
    let node = scene.namespace.cluster().live_node("at-work").await?;
    let collecting = scene.collect().await?;
    // The reservation without the unknown field is deleted, so the other one has had its time as well.
    scene.namespace.wait_reservations(&["10.1.0.8"]).await?;
    let said = ipgc(&scene, &["release", "--force", "10.1.0.8"], "10.1.0.8\n").await?;
    assert!(
        said.stderr.contains("unknown field \"ipamclaim\""),
        "{said:?}"
    );
    assert_eq!(said.code, Some(2), "{said:?}");
    collecting.end().await;
    drop(node);
    plane.stop().await
}
