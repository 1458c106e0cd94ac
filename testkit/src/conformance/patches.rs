//! What patches of pools and reservations answer.

use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use serde_json::{Value, json};

use super::{Cluster, Verdict, ensure, fields, fresh, refused, refused_for, removal, same, text};
use crate::fixtures;

pub(super) async fn compare_and_remove_works_once(cluster: &Cluster) -> Verdict {
    let name = "patch-once";
    cluster.pool(name, 2).await?;
    let pool = cluster
        .json_patch(name, removal(1).into())
        .await
        .map_err(text)?;
    ensure(
        pool.data["spec"]["allocations"].get("1").is_none(),
        "row is still there",
    )?;
    let status = refused(cluster.json_patch(name, removal(1).into()).await, 422)?;
    same("reason", status.reason.as_str(), "Invalid")?;
    same("causes", fields(&status), vec![])
}

pub(super) async fn the_last_row_leaves_an_empty_map(cluster: &Cluster) -> Verdict {
    let name = "patch-last";
    cluster.pool(name, 1).await?;
    let pool = cluster
        .json_patch(name, removal(1).into())
        .await
        .map_err(text)?;
    same("allocations", &pool.data["spec"]["allocations"], &json!({}))
}

pub(super) async fn tests_and_removals_of_missing_keys_are_invalid(cluster: &Cluster) -> Verdict {
    let name = "patch-missing";
    cluster.pool(name, 1).await?;
    for operation in [
        json!({ "op": "test", "path": "/spec/allocations/9", "value": { "id": "x" } }),
        json!({ "op": "remove", "path": "/spec/allocations/9" }),
        json!({ "op": "test", "path": "/metadata/uid", "value": "another" }),
        json!({ "op": "test", "path": "/metadata/resourceVersion", "value": "1" }),
        json!({ "op": "add", "path": "/spec/nope/1", "value": {} }),
    ] {
        let status = refused(cluster.json_patch(name, json!([operation])).await, 422)?;
        same("reason", status.reason.as_str(), "Invalid")?;
        same("causes", fields(&status), vec![])?;
    }
    Ok(())
}

pub(super) async fn a_test_against_null_passes_for_a_missing_key(cluster: &Cluster) -> Verdict {
    let name = "patch-null";
    cluster.pool(name, 1).await?;
    let add = json!([
        { "op": "test", "path": "/spec/allocations/9", "value": null },
        { "op": "add", "path": "/spec/allocations/9", "value": fixtures::row("x", "shop/b", "net1") },
    ]);
    cluster.json_patch(name, add.clone()).await.map_err(text)?;
    refused_for(cluster.json_patch(name, add).await, 422, "Invalid")
}

pub(super) async fn an_adopted_row_fails_the_test_of_the_whole_row(cluster: &Cluster) -> Verdict {
    let name = "patch-adopted";
    cluster.pool(name, 1).await?;
    let adopt = json!([{ "op": "replace", "path": "/spec/allocations/1/id", "value": fixtures::sandbox(77) }]);
    cluster.json_patch(name, adopt).await.map_err(text)?;
    refused_for(
        cluster.json_patch(name, removal(1).into()).await,
        422,
        "Invalid",
    )
}

pub(super) async fn one_failed_test_rejects_the_whole_batch(cluster: &Cluster) -> Verdict {
    let name = "patch-batch";
    let before = cluster.pool(name, 2).await?;
    let mut operations = removal(1);
    operations.extend(removal(3));
    refused_for(
        cluster.json_patch(name, operations.into()).await,
        422,
        "Invalid",
    )?;
    let after = cluster.pools().get(name).await.map_err(text)?;
    same(
        "resourceVersion",
        after.metadata.resource_version,
        before.metadata.resource_version,
    )
}

pub(super) async fn a_patch_of_a_missing_pool_is_not_found(cluster: &Cluster) -> Verdict {
    let answer = cluster.json_patch("patch-no-pool", removal(1).into()).await;
    refused_for(answer, 404, "NotFound")
}

pub(super) async fn more_than_10000_operations_are_too_large(cluster: &Cluster) -> Verdict {
    let name = "patch-many";
    cluster.pool(name, 1).await?;
    let test = json!({ "op": "test", "path": "/metadata/name", "value": name });
    let most = Value::from(vec![test.clone(); 10_000]);
    cluster.json_patch(name, most).await.map_err(text)?;
    let more = Value::from(vec![test; 10_001]);
    refused_for(
        cluster.json_patch(name, more).await,
        413,
        "RequestEntityTooLarge",
    )
}

pub(super) async fn a_patch_against_the_schema_names_its_causes(cluster: &Cluster) -> Verdict {
    let name = "patch-schema";
    cluster.pool(name, 1).await?;
    let operations = json!([{ "op": "remove", "path": "/spec/allocations/1/podref" }]);
    let status = refused(cluster.json_patch(name, operations).await, 422)?;
    same("causes", fields(&status), vec!["spec.allocations.1.podref"])?;
    let operations = json!([{ "op": "replace", "path": "/spec/range", "value": 7 }]);
    let status = refused(cluster.json_patch(name, operations).await, 422)?;
    same("causes", fields(&status), vec!["spec.range"])
}

pub(super) async fn a_patch_that_changes_nothing_keeps_the_version(cluster: &Cluster) -> Verdict {
    let name = "patch-nothing";
    let before = cluster.pool(name, 1).await?;
    let operations = json!([{ "op": "replace", "path": "/spec/range", "value": "10.0.0.0/16" }]);
    let after = cluster.json_patch(name, operations).await.map_err(text)?;
    same(
        "resourceVersion",
        after.metadata.resource_version,
        before.metadata.resource_version,
    )
}

pub(super) async fn emptied_managed_fields_stay_empty(cluster: &Cluster) -> Verdict {
    let name = "patch-managers";
    let made = cluster.pool_with_managers(name, 3).await?;
    ensure(
        made.metadata
            .managed_fields
            .is_some_and(|it| !it.is_empty()),
        "nobody is known to have written it",
    )?;
    for (offset, wish) in [(1, true), (2, false), (3, true)] {
        let mut operations = removal(offset);
        if wish {
            let path = "/metadata/managedFields";
            operations.push(json!({ "op": "add", "path": path, "value": [{}] }));
        }
        let patched = cluster.json_patch(name, operations.into()).await;
        let managers = patched.map_err(text)?.metadata.managed_fields;
        same("managed fields", managers.unwrap_or_default().len(), 0)?;
    }
    Ok(())
}

pub(super) async fn the_uid_is_immutable(cluster: &Cluster) -> Verdict {
    let name = "patch-uid";
    cluster.pool(name, 1).await?;
    let operations = json!([{ "op": "replace", "path": "/metadata/uid", "value": "another" }]);
    let status = refused(cluster.json_patch(name, operations).await, 422)?;
    // The real server finds it twice.
    same(
        "cause",
        fields(&status).first().copied(),
        Some("metadata.uid"),
    )
}

pub(super) async fn a_merge_patch_with_a_stale_version_conflicts(cluster: &Cluster) -> Verdict {
    let name = "patch-stale";
    let old = cluster.pool(name, 1).await?;
    let merge = async |patch: Value| {
        let params = PatchParams::default();
        cluster
            .pools()
            .patch(name, &params, &Patch::Merge(patch))
            .await
    };
    merge(json!({ "metadata": { "annotations": { "a": "1" } } }))
        .await
        .map_err(text)?;
    let stale = json!({ "metadata": {
        "resourceVersion": old.metadata.resource_version,
        "annotations": { "a": "2" },
    } });
    refused_for(merge(stale).await, 409, "Conflict")
}

pub(super) async fn a_reservation_can_be_claimed_and_deleted(cluster: &Cluster) -> Verdict {
    let name = "10.1.0.1";
    let api = cluster.reservations();
    let object = fixtures::reservation(&cluster.namespace, name, "shop/a", "net1");
    let before = fresh(&api, name, object).await?;
    let claim: json_patch::Patch = serde_json::from_value(json!([
        { "op": "test", "path": "/metadata/uid", "value": before.metadata.uid },
        { "op": "test", "path": "/spec/podref", "value": "shop/a" },
        { "op": "replace", "path": "/spec/podref", "value": "ipgc.dev/releasing" },
        { "op": "add", "path": "/metadata/annotations", "value": { "ipgc.dev/podref": "shop/a" } },
    ]))
    .map_err(text)?;
    let claim = Patch::Json::<()>(claim);
    let params = PatchParams::default();
    let claimed = api.patch(name, &params, &claim).await.map_err(text)?;
    same(
        "podref",
        &claimed.data["spec"]["podref"],
        &json!("ipgc.dev/releasing"),
    )?;
    refused_for(api.patch(name, &params, &claim).await, 422, "Invalid")?;
    let delete = |version: Option<String>| DeleteParams {
        preconditions: Some(Preconditions {
            uid: before.metadata.uid.clone(),
            resource_version: version,
        }),
        ..DeleteParams::default()
    };
    let stale = delete(before.metadata.resource_version.clone());
    refused_for(api.delete(name, &stale).await, 409, "Conflict")?;
    let right = delete(claimed.metadata.resource_version);
    let answer = api.delete(name, &right).await.map_err(text)?;
    let status = answer.right().ok_or("an object instead of a Status")?;
    ensure(status.is_success(), format!("{status:?}"))
}

pub(super) async fn annotations_have_a_limit_of_256_kib(cluster: &Cluster) -> Verdict {
    let name = "patch-annotations";
    cluster.pool(name, 1).await?;
    for (size, fits) in [(262_143, true), (262_144, false)] {
        let patch =
            Patch::Merge(json!({ "metadata": { "annotations": { "a": "x".repeat(size) } } }));
        let answer = cluster
            .pools()
            .patch(name, &PatchParams::default(), &patch)
            .await;
        if fits {
            answer.map_err(text)?;
        } else {
            let status = refused(answer, 422)?;
            same(
                "cause",
                fields(&status).first().copied(),
                Some("metadata.annotations"),
            )?;
        }
    }
    Ok(())
}

pub(super) async fn broken_patches_are_bad_requests(cluster: &Cluster) -> Verdict {
    let name = "patch-broken";
    cluster.pool(name, 1).await?;
    let path = format!(
        "/apis/whereabouts.cni.cncf.io/v1alpha1/namespaces/{}/ippools/{name}",
        cluster.namespace
    );
    for (content_type, body, code) in [
        ("application/json-patch+json", "{}", 400),
        ("application/json-patch+json", "[", 400),
        (
            "application/json-patch+json",
            "[{\"op\":\"nope\",\"path\":\"/a\"}]",
            422,
        ),
        ("application/strategic-merge-patch+json", "{}", 415),
        ("text/plain", "{}", 415),
    ] {
        let request = http::Request::patch(&path)
            .header("content-type", content_type)
            .body(body.as_bytes().to_vec())
            .map_err(text)?;
        refused(cluster.client.request_text(request).await, code)?;
    }
    Ok(())
}

pub(super) async fn a_body_over_3_mib_is_too_large(cluster: &Cluster) -> Verdict {
    let name = "patch-big";
    cluster.pool(name, 1).await?;
    let big = "x".repeat(3 * 1024 * 1024);
    let operations = json!([{ "op": "test", "path": "/metadata/name", "value": big }]);
    refused_for(
        cluster.json_patch(name, operations).await,
        413,
        "RequestEntityTooLarge",
    )
}
