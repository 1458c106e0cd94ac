//! The answers to deletions, and the events of watches about them.

use serde_json::{Value, json};

use super::watches::Watch;
use super::{Cluster, Shown, ensure, refused_for, same, text, version};

pub(super) async fn preconditions_are_checked(cluster: &Cluster) -> Shown {
    let path = "ippools/delete-conditions";
    let pool = cluster.pool("delete-conditions", 1).await?;
    let delete = async |uid: Value, version: Value| {
        let conditions = json!({ "uid": uid, "resourceVersion": version });
        cluster
            .delete(path, &json!({ "preconditions": conditions }))
            .await
    };
    let uid = || pool["metadata"]["uid"].clone();
    let right = || delete(uid(), version(&pool).into());
    refused_for(delete("another".into(), Value::Null).await, 409, "Conflict")?;
    refused_for(delete(uid(), "1".into()).await, 409, "Conflict")?;
    same("status", &right().await?["status"], "Success")?;
    refused_for(right().await, 404, "NotFound")
}

/// The events of a watch about a pod until the pod is gone: type, phase, and grace of the deletion.
async fn story(cluster: &Cluster, pod: &Value) -> Shown<Vec<String>> {
    let field = format!("metadata.name={}", text(pod, "/metadata/name"));
    let options = [
        ("fieldSelector", &*field),
        ("resourceVersion", version(pod)),
    ];
    let mut watch = Watch::open(cluster, "pods", &options).await?;
    let mut lines = Vec::new();
    loop {
        let (kind, pod) = watch.next().await?;
        let grace = &pod["metadata"]["deletionGracePeriodSeconds"];
        lines.push(format!("{kind} {} {grace}", text(&pod, "/status/phase")));
        if kind == "DELETED" {
            return Ok(lines);
        }
        ensure(kind == "MODIFIED", format!("{kind} after {lines:?}"))?;
    }
}

/// Deletes a pod that has this phase and, if it has one, a node, with these options one after the other.
/// Returns the events of a watch about it.
async fn deleted(
    cluster: &Cluster,
    name: &str,
    phase: Option<&str>,
    options: &[Value],
) -> Shown<Vec<String>> {
    let node = |pod: crate::fixtures::PodBuilder| match phase {
        Some(_) => pod.node("n1"),
        None => pod,
    };
    let mut pod = cluster.pod(name, node).await?;
    if let Some(phase) = phase {
        let status = json!({ "status": { "phase": phase } });
        pod = cluster
            .merge(&format!("pods/{name}/status"), &status)
            .await?;
    }
    let path = format!("pods/{name}");
    for options in options {
        let answer = cluster.delete(&path, options).await?;
        same("answer", &answer["kind"], "Pod")?;
    }
    ensure(!cluster.is_there(&path).await?, "still there")?;
    story(cluster, &pod).await
}

pub(super) async fn a_scheduled_pod_is_deleted_in_two_steps(cluster: &Cluster) -> Shown {
    let name = "delete-scheduled";
    let steps = [json!({}), json!({}), json!({ "gracePeriodSeconds": 0 })];
    let told = deleted(cluster, name, Some("Running"), &steps).await?;
    let wanted = [
        "MODIFIED Running 30",
        "MODIFIED Running 0",
        "DELETED Running 0",
    ];
    // The second deletion changes nothing.
    same("events", &told, wanted)
}

pub(super) async fn an_unscheduled_pod_goes_at_once(cluster: &Cluster) -> Shown {
    let told = deleted(cluster, "delete-unscheduled", None, &[json!({})]).await?;
    let last = told.last().map(String::as_str);
    same("last event", &last, Some("DELETED Pending 0"))
}

pub(super) async fn a_terminal_pod_goes_at_once(cluster: &Cluster) -> Shown {
    let told = deleted(cluster, "delete-terminal", Some("Succeeded"), &[json!({})]).await?;
    same(
        "events",
        &told,
        ["MODIFIED Succeeded 0", "DELETED Succeeded 0"],
    )
}

pub(super) async fn a_forced_deletion_keeps_the_phase(cluster: &Cluster) -> Shown {
    let now = [json!({ "gracePeriodSeconds": 0 })];
    let told = deleted(cluster, "delete-forced", Some("Running"), &now).await?;
    same("events", &told, ["MODIFIED Running 0", "DELETED Running 0"])
}
