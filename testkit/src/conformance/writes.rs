//! The answers to creations and replacements.

use serde_json::{Value, json};

use super::{Cluster, Shown, caused, count, ensure, refused_for, same};
use crate::fixtures;

pub(super) async fn creating_an_existing_object_conflicts(cluster: &Cluster) -> Shown {
    cluster.pool("write-twice", 0).await?;
    let again = cluster.pool_of("write-twice", 0);
    refused_for(
        cluster.create("ippools", &again).await,
        409,
        "AlreadyExists",
    )
}

pub(super) async fn names_are_dns_subdomains(cluster: &Cluster) -> Shown {
    for name in ["--1", "Upper-10.0.0.0-24", "a_b"] {
        let answer = cluster.create("ippools", &cluster.pool_of(name, 0)).await;
        caused(answer, &["metadata.name"])?;
    }
    Ok(())
}

pub(super) async fn unknown_fields_are_pruned(cluster: &Cluster) -> Shown {
    let mut pool = fixtures::pool(&cluster.namespace, "10.0.0.0/16")
        .name("write-pruned")
        .raw_row("1", json!({ "id": "a", "podref": "shop/a", "claim": "c" }))
        .build();
    pool["spec"]["extra"] = json!(true);
    pool["other"] = json!({});
    let pool = cluster.fresh("ippools", &pool).await?;
    let row = json!({ "id": "a", "podref": "shop/a" });
    let spec = json!({ "range": "10.0.0.0/16", "allocations": { "1": row } });
    same("spec", &pool["spec"], spec)?;
    ensure(pool.get("other").is_none(), "top-level field was kept")
}

pub(super) async fn a_creation_against_the_schema_names_its_causes(cluster: &Cluster) -> Shown {
    let pools = ("IPPool", "ippools");
    let reservations = (
        "OverlappingRangeIPReservation",
        "overlappingrangeipreservations",
    );
    let of_rows = |rows: Value| json!({ "range": "10.0.0.0/24", "allocations": rows });
    let no_podref = of_rows(json!({ "1": { "id": "a" } }));
    let range_7 = json!({ "range": 7, "allocations": {} });
    let no_rows = json!({ "range": "10.0.0.0/24" });
    for ((kind, plural), spec, cause) in [
        (pools, no_podref, "spec.allocations.1.podref"),
        (pools, no_rows, "spec.allocations"),
        (pools, range_7, "spec.range"),
        (reservations, json!({}), "spec.podref"),
    ] {
        let object = json!({
            "apiVersion": "whereabouts.cni.cncf.io/v1alpha1",
            "kind": kind,
            "metadata": { "name": "write-schema" },
            "spec": spec,
        });
        caused(cluster.create(plural, &object).await, &[cause])?;
    }
    Ok(())
}

pub(super) async fn a_missing_namespace_is_not_found(cluster: &Cluster) -> Shown {
    let path = "/api/v1/namespaces/no-such-namespace/pods";
    let pod = fixtures::pod("no-such-namespace", "a").build();
    refused_for(cluster.create(path, &pod).await, 404, "NotFound")?;
    same("items", &count(&cluster.get(path).await?), 0)
}

pub(super) async fn leases_are_replaced_by_version(cluster: &Cluster) -> Shown {
    let path = "leases/write-lease";
    let time = "2026-01-01T00:00:00.000000Z";
    let lease = fixtures::lease(&cluster.namespace, "write-lease", "one", time);
    let mut lease = cluster.fresh("leases", &lease).await?;
    lease["spec"]["holderIdentity"] = "two".into();
    let second = cluster.replace(path, &lease).await?;
    same("holder", &second["spec"]["holderIdentity"], "two")?;
    lease["spec"]["holderIdentity"] = "late".into();
    refused_for(cluster.replace(path, &lease).await, 409, "Conflict")?;
    lease["metadata"]["resourceVersion"] = Value::Null;
    refused_for(cluster.replace(path, &lease).await, 422, "Invalid")
}

pub(super) async fn the_status_of_a_new_pod_is_not_the_clients(cluster: &Cluster) -> Shown {
    let pod = cluster
        .pod("write-status", |pod| pod.node("n1").running())
        .await?;
    same("phase", &pod["status"]["phase"], "Pending")?;
    same("grace", &pod["spec"]["terminationGracePeriodSeconds"], 30)
}

pub(super) async fn status_and_spec_have_paths_of_their_own(cluster: &Cluster) -> Shown {
    cluster.pod("write-sides", |pod| pod.node("n1")).await?;
    let patch = json!({
        "metadata": { "annotations": { "a": "b" } },
        "spec": { "activeDeadlineSeconds": 500 },
        "status": { "phase": "Running" },
    });
    let pod = cluster.merge("pods/write-sides/status", &patch).await?;
    same(
        "deadline",
        &pod["spec"]["activeDeadlineSeconds"],
        Value::Null,
    )?;
    same("phase", &pod["status"]["phase"], "Running")?;
    same("annotation", &pod["metadata"]["annotations"]["a"], "b")?;
    let patch =
        json!({ "spec": { "activeDeadlineSeconds": 500 }, "status": { "phase": "Failed" } });
    let pod = cluster.merge("pods/write-sides", &patch).await?;
    same("deadline", &pod["spec"]["activeDeadlineSeconds"], 500)?;
    same("phase", &pod["status"]["phase"], "Running")
}

pub(super) async fn a_dry_run_writes_nothing(cluster: &Cluster) -> Shown {
    cluster.clear("ippools/write-dry").await?;
    let pool = cluster.pool_of("write-dry", 0);
    cluster.create("ippools?dryRun=All", &pool).await?;
    ensure(
        !cluster.is_there("ippools/write-dry").await?,
        "the pool exists",
    )
}

fn event(cluster: &Cluster) -> Value {
    json!({
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": { "name": "conformance" },
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "type": "Normal",
        "reason": "IPAddressGarbageCollected",
        "action": "Free",
        "note": "freed",
        "reportingController": "ipgc.dev/ipgc",
        "reportingInstance": "ipgc-0",
        "regarding": { "kind": "Pod", "namespace": cluster.namespace, "name": "a" },
    })
}

pub(super) async fn events_are_found_by_their_reason(cluster: &Cluster) -> Shown {
    let made = cluster.fresh("events", &event(cluster)).await?;
    same("note", &made["note"], "freed")?;
    for (reason, wanted) in [("IPAddressGarbageCollected", 1), ("Another", 0)] {
        let reason = format!("reason={reason}");
        let found = cluster
            .list("events", &[("fieldSelector", &reason)])
            .await?;
        same("events", &count(&found), wanted)?;
    }
    Ok(())
}

pub(super) async fn events_are_validated(cluster: &Cluster) -> Shown {
    let long = "x".repeat(1025);
    for (pointer, value, cause) in [
        ("/action", "", "action"),
        ("/type", "Odd", "type"),
        ("/note", &*long, "message"),
        ("/regarding/namespace", "", "involvedObject.namespace"),
    ] {
        let mut event = event(cluster);
        if let Some(place) = event.pointer_mut(pointer) {
            *place = value.into();
        }
        caused(cluster.create("events", &event).await, &[cause])?;
    }
    Ok(())
}

pub(super) async fn access_reviews_are_answered(cluster: &Cluster) -> Shown {
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "metadata": {},
        "spec": { "resourceAttributes": {
            "verb": "patch",
            "group": "whereabouts.cni.cncf.io",
            "resource": "ippools",
            "namespace": cluster.namespace,
        } },
    });
    let review = cluster.create(path, &review).await?;
    same("allowed", &review["status"]["allowed"], true)
}
