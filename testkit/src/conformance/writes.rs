//! What creations and replacements answer.

use k8s_openapi::api::authorization::v1::SelfSubjectAccessReview;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Event as CoreEvent, Pod};
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::{DynamicObject, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::{Cluster, Verdict, clear, ensure, fields, fresh, refused, refused_for, same, text};
use crate::fixtures;

fn object(value: Value) -> Result<DynamicObject, String> {
    serde_json::from_value(value).map_err(text)
}

pub(super) async fn creating_an_existing_object_conflicts(cluster: &Cluster) -> Verdict {
    let name = "write-twice";
    cluster.pool(name, 0).await?;
    let again = fixtures::pool(&cluster.namespace, "10.0.0.0/16")
        .name(name)
        .build();
    let answer = cluster
        .pools()
        .create(&PostParams::default(), &object(again)?)
        .await;
    refused_for(answer, 409, "AlreadyExists")
}

pub(super) async fn names_are_dns_subdomains(cluster: &Cluster) -> Verdict {
    for name in ["--1", "Upper-10.0.0.0-24", "a_b"] {
        let pool = fixtures::pool(&cluster.namespace, "10.0.0.0/24")
            .name(name)
            .build();
        let answer = cluster
            .pools()
            .create(&PostParams::default(), &object(pool)?)
            .await;
        let status = refused(answer, 422)?;
        same("causes", fields(&status), vec!["metadata.name"])?;
    }
    Ok(())
}

pub(super) async fn a_prefix_for_names_must_not_end_in_a_dot(cluster: &Cluster) -> Verdict {
    let mut event = event(cluster);
    event["metadata"]["generateName"] = "conformance.".into();
    let event: Event = serde_json::from_value(event).map_err(text)?;
    let events: Api<Event> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let status = refused(events.create(&PostParams::default(), &event).await, 422)?;
    same("causes", fields(&status), vec!["metadata.generateName"])
}

pub(super) async fn objects_in_the_wrong_place_are_bad_requests(cluster: &Cluster) -> Verdict {
    let pool = || {
        fixtures::pool(&cluster.namespace, "10.0.0.0/16")
            .name("write-place")
            .build()
    };
    let mut elsewhere = pool();
    elsewhere["metadata"]["namespace"] = "elsewhere".into();
    let mut no_kind = pool();
    no_kind["kind"] = Value::Null;
    let mut other = pool();
    other["apiVersion"] = "v1".into();
    let path = format!(
        "/apis/whereabouts.cni.cncf.io/v1alpha1/namespaces/{}/ippools",
        cluster.namespace
    );
    for body in [
        elsewhere.to_string(),
        no_kind.to_string(),
        other.to_string(),
        "{".to_owned(),
    ] {
        let request = http::Request::post(&path)
            .header("content-type", "application/json")
            .body(body.into_bytes())
            .map_err(text)?;
        let status = refused(cluster.client.request_text(request).await, 400)?;
        same("reason", status.reason.as_str(), "BadRequest")?;
    }
    let mut versioned = pool();
    versioned["metadata"]["resourceVersion"] = "5".into();
    let answer = cluster
        .pools()
        .create(&PostParams::default(), &object(versioned)?)
        .await;
    refused(answer, 500).map(drop)
}

pub(super) async fn storage_takes_about_1_5_mib(cluster: &Cluster) -> Verdict {
    let name = "write-huge";
    clear(&cluster.pools(), name).await?;
    let mut pool = fixtures::pool(&cluster.namespace, "10.0.0.0/8").name(name);
    for offset in 1..=14_000 {
        pool = pool.row(
            offset,
            &fixtures::sandbox(offset),
            "shop/some-deployment-0",
            "net1",
        );
    }
    let answer = cluster
        .pools()
        .create(&PostParams::default(), &object(pool.build())?)
        .await;
    let status = refused(answer, 500)?;
    same(
        "message",
        status.message.as_str(),
        "etcdserver: request is too large",
    )
}

pub(super) async fn unknown_fields_are_pruned(cluster: &Cluster) -> Verdict {
    let name = "write-pruned";
    let mut pool = fixtures::pool(&cluster.namespace, "10.0.0.0/16")
        .name(name)
        .raw_row("1", json!({ "id": "a", "podref": "shop/a", "claim": "c" }))
        .build();
    pool["spec"]["extra"] = json!(true);
    pool["other"] = json!({});
    let pool = fresh(&cluster.pools(), name, pool).await?;
    same(
        "spec",
        &pool.data["spec"],
        &json!({ "range": "10.0.0.0/16", "allocations": { "1": { "id": "a", "podref": "shop/a" } } }),
    )?;
    ensure(pool.data.get("other").is_none(), "top-level field was kept")
}

pub(super) async fn a_creation_against_the_schema_names_its_causes(cluster: &Cluster) -> Verdict {
    let group = "whereabouts.cni.cncf.io/v1alpha1";
    let reservations = cluster.reservations();
    let reservation = json!({
        "apiVersion": group,
        "kind": "OverlappingRangeIPReservation",
        "metadata": { "name": "10.9.9.9" },
        "spec": {},
    });
    let answer = reservations
        .create(&PostParams::default(), &object(reservation)?)
        .await;
    same(
        "causes",
        fields(&*refused(answer, 422)?),
        vec!["spec.podref"],
    )?;
    let slices = json!({
        "apiVersion": group,
        "kind": "NodeSlicePool",
        "metadata": { "name": "write-slices" },
        "spec": { "range": "10.0.0.0/8", "sliceSize": "/24" },
        "status": { "allocations": [{ "nodeName": "" }] },
    });
    let api = cluster.custom("NodeSlicePool", "nodeslicepools");
    let answer = api.create(&PostParams::default(), &object(slices)?).await;
    let status = refused(answer, 422)?;
    same(
        "causes",
        fields(&status),
        vec!["status.allocations[0].sliceRange"],
    )
}

pub(super) async fn a_missing_namespace_is_not_found(cluster: &Cluster) -> Verdict {
    let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), "no-such-namespace");
    let pod = fixtures::pod("no-such-namespace", "a").build();
    let pod: Pod = serde_json::from_value(pod).map_err(text)?;
    refused_for(
        pods.create(&PostParams::default(), &pod).await,
        404,
        "NotFound",
    )?;
    let list = pods.list(&ListParams::default()).await.map_err(text)?;
    same("items", list.items.len(), 0)
}

pub(super) async fn custom_resources_are_never_replaced_without_a_version(
    cluster: &Cluster,
) -> Verdict {
    let name = "write-versionless";
    let mut pool = cluster.pool(name, 1).await?;
    let api = cluster.pools();
    let version = pool.metadata.resource_version.take();
    pool.metadata.annotations = Some([("a".to_owned(), "b".to_owned())].into());
    let status = refused(api.replace(name, &PostParams::default(), &pool).await, 422)?;
    same("causes", fields(&status), vec!["metadata.resourceVersion"])?;
    pool.metadata.resource_version = version;
    api.replace(name, &PostParams::default(), &pool)
        .await
        .map_err(text)?;
    refused_for(
        api.replace(name, &PostParams::default(), &pool).await,
        409,
        "Conflict",
    )
}

pub(super) async fn leases_are_replaced_by_version(cluster: &Cluster) -> Verdict {
    let name = "write-lease";
    let leases: Api<Lease> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let lease = fixtures::lease(
        &cluster.namespace,
        name,
        "one",
        "2026-01-01T00:00:00.000000Z",
    );
    let first = fresh(&leases, name, lease).await?;
    let mut second = first.clone();
    second.spec.get_or_insert_default().holder_identity = Some("two".to_owned());
    leases
        .replace(name, &PostParams::default(), &second)
        .await
        .map_err(text)?;
    let mut late = first;
    late.spec.get_or_insert_default().holder_identity = Some("late".to_owned());
    let answer = leases.replace(name, &PostParams::default(), &late).await;
    refused_for(answer, 409, "Conflict")?;
    late.metadata.resource_version = None;
    refused_for(
        leases.replace(name, &PostParams::default(), &late).await,
        422,
        "Invalid",
    )
}

pub(super) async fn changes_of_the_spec_count_as_generations(cluster: &Cluster) -> Verdict {
    let name = "write-generation";
    let made = cluster.pool(name, 1).await?;
    same("created", made.metadata.generation, Some(1))?;
    let annotate = json!({ "metadata": { "annotations": { "a": "b" } } });
    let params = PatchParams::default();
    let api = cluster.pools();
    let pool = api
        .patch(name, &params, &Patch::Merge(annotate))
        .await
        .map_err(text)?;
    same("annotated", pool.metadata.generation, Some(1))?;
    let remove = json!({ "spec": { "allocations": { "1": null } } });
    let pool = api
        .patch(name, &params, &Patch::Merge(remove))
        .await
        .map_err(text)?;
    same("spec changed", pool.metadata.generation, Some(2))
}

pub(super) async fn the_status_of_a_new_pod_is_not_the_clients(cluster: &Cluster) -> Verdict {
    let pod = cluster
        .pod("write-status", |pod| pod.node("n1").running())
        .await?;
    let status = pod.status.unwrap_or_default();
    same("phase", status.phase.as_deref(), Some("Pending"))?;
    same(
        "grace",
        pod.spec
            .and_then(|spec| spec.termination_grace_period_seconds),
        Some(30),
    )
}

pub(super) async fn status_and_spec_have_paths_of_their_own(cluster: &Cluster) -> Verdict {
    let name = "write-sides";
    cluster.pod(name, |pod| pod.node("n1")).await?;
    let pods = cluster.pods();
    let params = PatchParams::default();
    let patch = json!({
        "metadata": { "annotations": { "a": "b" } },
        "spec": { "activeDeadlineSeconds": 500 },
        "status": { "phase": "Running" },
    });
    let pod = pods
        .patch_status(name, &params, &Patch::Merge(&patch))
        .await
        .map_err(text)?;
    let deadline = pod.spec.and_then(|spec| spec.active_deadline_seconds);
    same("deadline", deadline, None)?;
    same(
        "phase",
        pod.status.and_then(|status| status.phase).as_deref(),
        Some("Running"),
    )?;
    let annotated = pod
        .metadata
        .annotations
        .is_some_and(|map| map.contains_key("a"));
    ensure(annotated, "annotation was dropped")?;
    let patch =
        json!({ "spec": { "activeDeadlineSeconds": 500 }, "status": { "phase": "Failed" } });
    let pod = pods
        .patch(name, &params, &Patch::Merge(&patch))
        .await
        .map_err(text)?;
    let deadline = pod.spec.and_then(|spec| spec.active_deadline_seconds);
    same("deadline", deadline, Some(500))?;
    same(
        "phase",
        pod.status.and_then(|status| status.phase).as_deref(),
        Some("Running"),
    )
}

pub(super) async fn generated_names_get_a_suffix(cluster: &Cluster) -> Verdict {
    let mut pod = fixtures::pod(&cluster.namespace, "x").build();
    pod["metadata"] = json!({ "generateName": "generated-" });
    let pod: Pod = serde_json::from_value(pod).map_err(text)?;
    let made = cluster
        .pods()
        .create(&PostParams::default(), &pod)
        .await
        .map_err(text)?;
    let name = made.metadata.name.unwrap_or_default();
    clear(&cluster.pods(), &name).await?;
    same("length", name.len(), "generated-".len() + 5)
}

pub(super) async fn a_dry_run_writes_nothing(cluster: &Cluster) -> Verdict {
    let name = "write-dry";
    clear(&cluster.pools(), name).await?;
    let pool = fixtures::pool(&cluster.namespace, "10.0.0.0/16")
        .name(name)
        .build();
    let params = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    cluster
        .pools()
        .create(&params, &object(pool)?)
        .await
        .map_err(text)?;
    let found = cluster.pools().get_opt(name).await.map_err(text)?;
    ensure(found.is_none(), "the pool exists")
}

fn event(cluster: &Cluster) -> Value {
    json!({
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": { "generateName": "conformance-" },
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

pub(super) async fn events_have_two_faces(cluster: &Cluster) -> Verdict {
    let events: Api<Event> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let new: Event = serde_json::from_value(event(cluster)).map_err(text)?;
    let made = events
        .create(&PostParams::default(), &new)
        .await
        .map_err(text)?;
    let core: Api<CoreEvent> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let name = made.metadata.name.unwrap_or_default();
    let seen = core.get(&name).await.map_err(text)?;
    same("message", seen.message.as_deref(), Some("freed"))?;
    same("object", seen.involved_object.name.as_deref(), Some("a"))?;
    same(
        "reporter",
        seen.reporting_component.as_deref(),
        Some("ipgc.dev/ipgc"),
    )?;
    let by_object =
        ListParams::default().fields("involvedObject.name=a,reason=IPAddressGarbageCollected");
    let found = core.list(&by_object).await.map_err(text)?;
    ensure(!found.items.is_empty(), "not found by its object")
}

pub(super) async fn events_are_validated(cluster: &Cluster) -> Verdict {
    let events: Api<Event> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let create = async |change: fn(&mut Value)| {
        let mut value = event(cluster);
        change(&mut value);
        let new: Event = serde_json::from_value(value).map_err(text)?;
        Ok::<_, String>(events.create(&PostParams::default(), &new).await)
    };
    let refusal = refused(create(|event| event["action"] = "".into()).await?, 422)?;
    same("causes", fields(&refusal), vec!["action"])?;
    let refusal = refused(create(|event| event["type"] = "Odd".into()).await?, 422)?;
    same("causes", fields(&refusal), vec!["type"])?;
    let long = |event: &mut Value| event["note"] = "x".repeat(1025).into();
    let refusal = refused(create(long).await?, 422)?;
    same("causes", fields(&refusal), vec!["message"])?;
    let nowhere = |event: &mut Value| event["regarding"]["namespace"] = "".into();
    let refusal = refused(create(nowhere).await?, 422)?;
    same("causes", fields(&refusal), vec!["involvedObject.namespace"])
}

pub(super) async fn access_reviews_are_answered(cluster: &Cluster) -> Verdict {
    let reviews: Api<SelfSubjectAccessReview> = Api::all(cluster.client.clone());
    let review = serde_json::from_value(json!({
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "metadata": {},
        "spec": { "resourceAttributes": {
            "verb": "patch",
            "group": "whereabouts.cni.cncf.io",
            "resource": "ippools",
            "namespace": cluster.namespace,
        } },
    }))
    .map_err(text)?;
    let review = reviews
        .create(&PostParams::default(), &review)
        .await
        .map_err(text)?;
    same(
        "allowed",
        review.status.map(|status| status.allowed),
        Some(true),
    )
}
