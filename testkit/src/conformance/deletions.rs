//! What deletions answer, and how watches show them.

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions, WatchEvent, WatchParams};
use serde_json::{Value, json};

use super::{Cluster, Verdict, ensure, refused_for, same, text};

fn preconditions(uid: Option<String>, version: Option<String>) -> DeleteParams {
    DeleteParams {
        preconditions: Some(Preconditions {
            uid,
            resource_version: version,
        }),
        ..DeleteParams::default()
    }
}

pub(super) async fn preconditions_are_checked(cluster: &Cluster) -> Verdict {
    let name = "delete-conditions";
    let pool = cluster.pool(name, 1).await?;
    let api = cluster.pools();
    let wrong_uid = preconditions(Some("another".to_owned()), None);
    refused_for(api.delete(name, &wrong_uid).await, 409, "Conflict")?;
    let wrong_version = preconditions(pool.metadata.uid.clone(), Some("1".to_owned()));
    refused_for(api.delete(name, &wrong_version).await, 409, "Conflict")?;
    let right = preconditions(pool.metadata.uid, pool.metadata.resource_version);
    let status = api.delete(name, &right).await.map_err(text)?;
    ensure(
        status.right().is_some_and(|status| status.is_success()),
        "no Status",
    )?;
    refused_for(api.delete(name, &right).await, 404, "NotFound")
}

/// What a watch says of a pod until it is gone: type, phase, and grace of the deletion.
async fn story(cluster: &Cluster, pod: &Pod) -> Result<Vec<String>, String> {
    let name = pod.metadata.name.clone().unwrap_or_default();
    let version = pod.metadata.resource_version.clone().unwrap_or_default();
    let params = WatchParams::default()
        .fields(&format!("metadata.name={name}"))
        .timeout(20);
    let mut stream = cluster
        .pods()
        .watch(&params, &version)
        .await
        .map_err(text)?
        .boxed();
    let mut lines = Vec::new();
    while let Some(event) = stream.next().await {
        let (kind, pod) = match event.map_err(text)? {
            WatchEvent::Added(pod) => ("ADDED", pod),
            WatchEvent::Modified(pod) => ("MODIFIED", pod),
            WatchEvent::Deleted(pod) => ("DELETED", pod),
            WatchEvent::Bookmark(_) => continue,
            WatchEvent::Error(status) => return Err(format!("{status:?}")),
        };
        let phase = pod
            .status
            .and_then(|status| status.phase)
            .unwrap_or_default();
        let grace = pod.metadata.deletion_grace_period_seconds;
        lines.push(match grace {
            Some(grace) => format!("{kind} {phase} {grace}"),
            None => format!("{kind} {phase}"),
        });
        if kind == "DELETED" {
            return Ok(lines);
        }
    }
    Err(format!("the watch ended after {lines:?}"))
}

async fn set_phase(cluster: &Cluster, name: &str, phase: &str) -> Result<Pod, String> {
    let patch = Patch::Merge(json!({ "status": { "phase": phase } }));
    let params = PatchParams::default();
    cluster
        .pods()
        .patch_status(name, &params, &patch)
        .await
        .map_err(text)
}

pub(super) async fn a_scheduled_pod_is_deleted_in_two_steps(cluster: &Cluster) -> Verdict {
    let name = "delete-scheduled";
    cluster.pod(name, |pod| pod.node("n1")).await?;
    let pod = set_phase(cluster, name, "Running").await?;
    let pods = cluster.pods();
    let marked = pods
        .delete(name, &DeleteParams::default())
        .await
        .map_err(text)?;
    let marked = marked.left().ok_or("a Status instead of the pod")?;
    ensure(
        marked.metadata.deletion_timestamp.is_some(),
        "no deletion timestamp",
    )?;
    let again = pods
        .delete(name, &DeleteParams::default())
        .await
        .map_err(text)?;
    let again = again.left().ok_or("a Status instead of the pod")?;
    same(
        "version after a repeated deletion",
        again.metadata.resource_version,
        marked.metadata.resource_version,
    )?;
    let now = DeleteParams::default().grace_period(0);
    pods.delete(name, &now).await.map_err(text)?;
    let told = story(cluster, &pod).await?;
    let told: Vec<&str> = told.iter().map(String::as_str).collect();
    same(
        "events",
        told,
        vec![
            "MODIFIED Running 30",
            "MODIFIED Running 0",
            "DELETED Running 0",
        ],
    )
}

pub(super) async fn an_unscheduled_pod_goes_at_once(cluster: &Cluster) -> Verdict {
    let name = "delete-unscheduled";
    let pod = cluster.pod(name, |pod| pod).await?;
    let pods = cluster.pods();
    pods.delete(name, &DeleteParams::default())
        .await
        .map_err(text)?;
    ensure(
        pods.get_opt(name).await.map_err(text)?.is_none(),
        "still there",
    )?;
    let told = story(cluster, &pod).await?;
    same(
        "last event",
        told.last().map(String::as_str),
        Some("DELETED Pending 0"),
    )
}

pub(super) async fn a_terminal_pod_goes_at_once(cluster: &Cluster) -> Verdict {
    let name = "delete-terminal";
    cluster.pod(name, |pod| pod.node("n1")).await?;
    let pod = set_phase(cluster, name, "Succeeded").await?;
    let pods = cluster.pods();
    pods.delete(name, &DeleteParams::default())
        .await
        .map_err(text)?;
    ensure(
        pods.get_opt(name).await.map_err(text)?.is_none(),
        "still there",
    )?;
    let told = story(cluster, &pod).await?;
    let told: Vec<&str> = told.iter().map(String::as_str).collect();
    same(
        "events",
        told,
        vec!["MODIFIED Succeeded 0", "DELETED Succeeded 0"],
    )
}

pub(super) async fn a_forced_deletion_keeps_the_phase(cluster: &Cluster) -> Verdict {
    let name = "delete-forced";
    cluster.pod(name, |pod| pod.node("n1")).await?;
    let pod = set_phase(cluster, name, "Running").await?;
    let now = DeleteParams::default().grace_period(0);
    cluster.pods().delete(name, &now).await.map_err(text)?;
    let told = story(cluster, &pod).await?;
    let told: Vec<&str> = told.iter().map(String::as_str).collect();
    same(
        "events",
        told,
        vec!["MODIFIED Running 0", "DELETED Running 0"],
    )
}

pub(super) async fn a_finalizer_holds_until_it_is_removed(cluster: &Cluster) -> Verdict {
    let name = "delete-held";
    cluster.pool(name, 1).await?;
    let api = cluster.pools();
    let patch = async |patch: Value| {
        let params = PatchParams::default();
        api.patch(name, &params, &Patch::Merge(patch))
            .await
            .map_err(text)
    };
    patch(json!({ "metadata": { "finalizers": ["ipgc.dev/conformance"] } })).await?;
    let held = api
        .delete(name, &DeleteParams::default())
        .await
        .map_err(text)?;
    ensure(held.left().is_some(), "a Status instead of the pool")?;
    let pool = api.get(name).await.map_err(text)?;
    ensure(
        pool.metadata.deletion_timestamp.is_some(),
        "no deletion timestamp",
    )?;
    patch(json!({ "metadata": { "finalizers": null } })).await?;
    ensure(
        api.get_opt(name).await.map_err(text)?.is_none(),
        "still there",
    )
}
