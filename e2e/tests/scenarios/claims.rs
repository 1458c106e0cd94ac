//! Rows of ResourceClaims on the real API server, with `--resource-claims`.

use std::time::Duration;

use e2e::{Result, pools::Row};
use ipgc::config::Config;
use k8s_openapi::api::resource::v1::ResourceClaim;
use kube::{
    Api, ResourceExt,
    api::{ApiResource, DeleteParams, DynamicObject, PostParams},
};
use serde_json::json;

use crate::{
    byhand::alone,
    support::{POOL, RANGE, wait_of},
};

/// The podref that DRANET 1.4 writes for each ResourceClaim.
const PLACEHOLDER: &str = "default/pod-whereabouts";

#[tokio::test]
async fn the_row_of_a_resource_claim_that_is_deleted_goes() -> Result<()> {
    let (plane, scene, _) = alone("claims").await?;
    let client = scene.client().await?;
    let kind = ApiResource::erase::<ResourceClaim>(&());
    let claims: Api<DynamicObject> = Api::namespaced_with(client, &scene.namespace.name, &kind);
    let mut rows = std::collections::BTreeMap::new();
    for number in [1, 2] {
        let requests = json!([{ "name": "nic", "exactly": { "deviceClassName": "dranet" } }]);
        let claim = DynamicObject::new(&format!("nic-{number}"), &kind);
        let claim = claim.data(json!({ "spec": { "devices": { "requests": requests } } }));
        let claim = claims.create(&PostParams::default(), &claim).await.unwrap();
        let uid = claim.uid().unwrap();
        rows.insert(number, Row::new(uid, PLACEHOLDER, "dra1"));
    }
    scene.namespace.plant_pool(POOL, RANGE, &rows).await?;
    let node = scene.namespace.cluster().live_node("at-work").await?;
    let config = Config {
        resource_claims: true,
        sweep_interval: Duration::from_secs(1),
        ..scene.config()
    };
    let running = scene.collect_through(scene.client().await?, config).await?;
    let both = scene.namespace.rows(POOL).await?;
    scene.keeps("the rows of both", wait_of(3), &both).await?;
    let params = DeleteParams::default();
    claims.delete("nic-1", &params).await.unwrap();
    scene.namespace.wait_offsets(POOL, &[2]).await?;
    assert_eq!(running.end().await["rows_freed"], 1);
    let events = scene.events_of("IPPool").await?;
    assert!(
        events.iter().any(|event| event.contains("10.1.0.1")),
        "{events:?}"
    );
    drop((node, plane));
    Ok(())
}
