//! The answers to patches of pools and reservations.

use http::Method;
use serde_json::{Value, json};

use super::{Cluster, Shown, caused, causes, ensure, refused, refused_for, removal, same, version};
use crate::fixtures;

pub(super) async fn compare_and_remove_works_once(cluster: &Cluster) -> Shown {
    let name = "patch-once";
    cluster.pool(name, 2).await?;
    let pool = cluster.operate(name, removal(1)).await?;
    let row = &pool["spec"]["allocations"]["1"];
    ensure(row.is_null(), "row is still there")?;
    caused(cluster.operate(name, removal(1)).await, &[])?;
    let status = refused(cluster.operate(name, removal(1)).await, 422)?;
    let wanted = "the server rejected our request due to an error in our request";
    same("message", &status.message, wanted)
}

pub(super) async fn the_last_row_leaves_an_empty_map(cluster: &Cluster) -> Shown {
    let name = "patch-last";
    cluster.pool(name, 1).await?;
    let pool = cluster.operate(name, removal(1)).await?;
    same("allocations", &pool["spec"]["allocations"], json!({}))
}

pub(super) async fn tests_and_removals_of_missing_keys_are_invalid(cluster: &Cluster) -> Shown {
    let name = "patch-missing";
    cluster.pool(name, 1).await?;
    for operation in [
        json!({ "op": "test", "path": "/spec/allocations/9", "value": { "id": "x" } }),
        json!({ "op": "test", "path": "/spec/allocations/1", "value": { "podref": "shop/a" } }),
        json!({ "op": "remove", "path": "/spec/allocations/9" }),
        json!({ "op": "test", "path": "/metadata/uid", "value": "another" }),
        json!({ "op": "test", "path": "/metadata/resourceVersion", "value": "1" }),
        json!({ "op": "add", "path": "/spec/nope/1", "value": {} }),
    ] {
        caused(cluster.operate(name, vec![operation]).await, &[])?;
    }
    Ok(())
}

pub(super) async fn a_test_against_null_passes_for_a_missing_key(cluster: &Cluster) -> Shown {
    let name = "patch-null";
    cluster.pool(name, 1).await?;
    let add = json!([
        { "op": "test", "path": "/spec/allocations/9", "value": null },
        { "op": "add", "path": "/spec/allocations/9", "value": fixtures::row("x", "shop/b", "net1") },
    ]);
    cluster.operate(name, add.clone()).await?;
    refused_for(cluster.operate(name, add).await, 422, "Invalid")
}

pub(super) async fn an_adopted_row_fails_the_test_of_the_whole_row(cluster: &Cluster) -> Shown {
    let name = "patch-adopted";
    cluster.pool(name, 1).await?;
    let adopt = json!([{ "op": "replace", "path": "/spec/allocations/1/id", "value": fixtures::sandbox(77) }]);
    cluster.operate(name, adopt).await?;
    refused_for(cluster.operate(name, removal(1)).await, 422, "Invalid")
}

pub(super) async fn one_failed_test_rejects_the_whole_batch(cluster: &Cluster) -> Shown {
    let name = "patch-batch";
    let before = cluster.pool(name, 2).await?;
    let operations = [removal(1), removal(3)].concat();
    refused_for(cluster.operate(name, operations).await, 422, "Invalid")?;
    let after = cluster.get("ippools/patch-batch").await?;
    same("resourceVersion", &version(&after), version(&before))
}

pub(super) async fn a_patch_of_a_missing_pool_is_not_found(cluster: &Cluster) -> Shown {
    let answer = cluster.operate("patch-no-pool", removal(1)).await;
    refused_for(answer, 404, "NotFound")
}

pub(super) async fn more_than_10000_operations_are_too_large(cluster: &Cluster) -> Shown {
    let name = "patch-many";
    cluster.pool(name, 1).await?;
    let test = json!({ "op": "test", "path": "/metadata/name", "value": name });
    cluster.operate(name, vec![test.clone(); 10_000]).await?;
    let answer = cluster.operate(name, vec![test; 10_001]).await;
    refused_for(answer, 413, "RequestEntityTooLarge")
}

pub(super) async fn a_patch_against_the_schema_names_its_causes(cluster: &Cluster) -> Shown {
    let name = "patch-schema";
    cluster.pool(name, 1).await?;
    let operation = json!([{ "op": "remove", "path": "/spec/allocations/1/podref" }]);
    let cause = "spec.allocations.1.podref";
    caused(cluster.operate(name, operation).await, &[cause])?;
    let operation = json!([{ "op": "replace", "path": "/spec/range", "value": 7 }]);
    caused(cluster.operate(name, operation).await, &["spec.range"])
}

pub(super) async fn a_patch_that_changes_nothing_keeps_the_version(cluster: &Cluster) -> Shown {
    let name = "patch-nothing";
    let before = cluster.pool(name, 1).await?;
    let operation = json!([{ "op": "replace", "path": "/spec/range", "value": "10.0.0.0/16" }]);
    let after = cluster.operate(name, operation).await?;
    same("resourceVersion", &version(&after), version(&before))
}

pub(super) async fn emptied_managed_fields_stay_empty(cluster: &Cluster) -> Shown {
    let name = "patch-managers";
    let mut pool = cluster.pool_of(name, 3);
    pool["metadata"]["managedFields"] = json!([{
        "manager": "whereabouts",
        "operation": "Update",
        "apiVersion": "whereabouts.cni.cncf.io/v1alpha1",
        "time": "2026-01-01T00:00:00Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": { "f:spec": { "f:range": {} } },
    }]);
    let managers = |pool: &Value| {
        pool["metadata"]["managedFields"]
            .as_array()
            .map_or(0, Vec::len)
    };
    let made = cluster.fresh("ippools", &pool).await?;
    ensure(managers(&made) > 0, "nobody is known to have written it")?;
    for (offset, wish) in [(1, true), (2, false), (3, true)] {
        let mut operations = removal(offset);
        if wish {
            let path = "/metadata/managedFields";
            operations.push(json!({ "op": "add", "path": path, "value": [{}] }));
        }
        let patched = cluster.operate(name, operations).await?;
        same("managed fields", &managers(&patched), 0)?;
    }
    Ok(())
}

pub(super) async fn the_uid_is_immutable(cluster: &Cluster) -> Shown {
    let name = "patch-uid";
    cluster.pool(name, 1).await?;
    let operation = json!([{ "op": "replace", "path": "/metadata/uid", "value": "another" }]);
    // The real server finds it twice.
    let causes = causes(cluster.operate(name, operation).await)?;
    same(
        "cause",
        &causes.first().map(String::as_str),
        Some("metadata.uid"),
    )
}

pub(super) async fn a_merge_patch_with_a_stale_version_conflicts(cluster: &Cluster) -> Shown {
    let pool = "ippools/patch-stale";
    let old = cluster.pool("patch-stale", 1).await?;
    let change = json!({ "metadata": { "annotations": { "a": "1" } } });
    cluster.merge(pool, &change).await?;
    let stale = json!({ "metadata": {
        "resourceVersion": version(&old),
        "annotations": { "a": "2" },
    } });
    refused_for(cluster.merge(pool, &stale).await, 409, "Conflict")
}

pub(super) async fn a_reservation_can_be_claimed_and_deleted(cluster: &Cluster) -> Shown {
    let path = "overlappingrangeipreservations/10.1.0.1";
    let object = fixtures::reservation(&cluster.namespace, "10.1.0.1", "shop/a", "net1");
    let before = cluster
        .fresh("overlappingrangeipreservations", &object)
        .await?;
    let uid = &before["metadata"]["uid"];
    let claim = json!([
        { "op": "test", "path": "/metadata/uid", "value": uid },
        { "op": "test", "path": "/spec/podref", "value": "shop/a" },
        { "op": "replace", "path": "/spec/podref", "value": "ipgc.dev/releasing" },
        { "op": "add", "path": "/metadata/annotations", "value": { "ipgc.dev/podref": "shop/a" } },
    ]);
    let claim = async || {
        let body = claim.to_string().into_bytes();
        cluster
            .send(Method::PATCH, path, "application/json-patch+json", body)
            .await
    };
    let claimed = claim().await?;
    same("podref", &claimed["spec"]["podref"], "ipgc.dev/releasing")?;
    refused_for(claim().await, 422, "Invalid")?;
    let delete = async |object: &Value| {
        let conditions = json!({ "uid": uid, "resourceVersion": version(object) });
        cluster
            .delete(path, &json!({ "preconditions": conditions }))
            .await
    };
    refused_for(delete(&before).await, 409, "Conflict")?;
    same("status", &delete(&claimed).await?["status"], "Success")
}

pub(super) async fn broken_patches_are_bad_requests(cluster: &Cluster) -> Shown {
    cluster.pool("patch-broken", 1).await?;
    let unknown = r#"[{"op":"nope","path":"/a"}]"#;
    for (content, body, code) in [
        ("application/json-patch+json", "{}", 400),
        ("application/json-patch+json", "[", 400),
        ("application/json-patch+json", unknown, 422),
        ("application/strategic-merge-patch+json", "{}", 415),
        ("text/plain", "{}", 415),
    ] {
        let body = body.as_bytes().to_vec();
        let answer = cluster
            .send(Method::PATCH, "ippools/patch-broken", content, body)
            .await;
        refused(answer, code)?;
    }
    Ok(())
}

pub(super) async fn a_body_over_3_mib_is_too_large(cluster: &Cluster) -> Shown {
    let name = "patch-big";
    cluster.pool(name, 1).await?;
    let big = "x".repeat(3 * 1024 * 1024);
    let operation = json!([{ "op": "test", "path": "/metadata/name", "value": big }]);
    refused_for(
        cluster.operate(name, operation).await,
        413,
        "RequestEntityTooLarge",
    )
}
