//! What a free leaves in its pool.

use e2e::{Error, Result, pods::End};
use ipgc::api::IpPool;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::support::{POOL, Scene};

/// Of a field that somebody applied the owner is still known, so that leaving it out takes it away.
#[tokio::test]
async fn who_wrote_a_pool_is_forgotten_unless_somebody_applied_fields() -> Result<()> {
    let (scene, network) = Scene::with_network("managers").await?;
    let pools = scene.namespace.api::<IpPool>();
    let managers = async || {
        let pool = pools.get(POOL).await?;
        let managers = pool.metadata.managed_fields.unwrap_or_default();
        let operations = managers.into_iter().filter_map(|it| it.operation);
        Ok::<_, Error>(operations.collect::<Vec<_>>())
    };
    let apply = async |annotations| {
        let fields = json!({
            "apiVersion": "whereabouts.cni.cncf.io/v1alpha1",
            "kind": "IPPool",
            "metadata": { "name": POOL, "annotations": annotations },
        });
        let (params, patch) = (PatchParams::apply("gitops"), Patch::Apply(fields));
        let pool = pools.patch(POOL, &params, &patch).await?;
        Ok::<_, Error>(pool.metadata.annotations.unwrap_or_default())
    };
    let collecting = scene.collect().await?;
    for pod in ["web-0", "web-1"] {
        scene.start(pod, &network).await?;
    }
    assert!(!managers().await?.is_empty());
    scene.namespace.end_pod("web-0", End::Succeeded).await?;
    scene.namespace.wait_offsets(POOL, &[2]).await?;
    assert!(managers().await?.is_empty());
    scene.namespace.wait_reservations(&["10.1.0.2"]).await?;
    scene.start("web-2", &network).await?;
    assert!(managers().await?.is_empty(), "whereabouts' ADD");

    let exempted = apply(json!({ "ipgc.dev/keep": "200" })).await?;
    assert_eq!(exempted["ipgc.dev/keep"], "200");
    let before = managers().await?;
    assert!(before.iter().any(|operation| operation == "Apply"));
    scene.namespace.end_pod("web-1", End::Succeeded).await?;
    scene.namespace.wait_offsets(POOL, &[1]).await?;
    assert!(
        managers()
            .await?
            .iter()
            .any(|operation| operation == "Apply")
    );
    assert_eq!(apply(json!({})).await?, [].into());
    collecting.end().await;
    Ok(())
}
