//! A pod as it comes from the API server, with nothing but what decides about its rows.
//!
//! The type is deserialized in place of `Pod`, so that managed fields, environment and the rest of
//! a pod are skipped while they are read. Deserialization is total: every field may be absent or
//! null, because one item that failed would fail its whole page, for ever.

use ipgc_core::pod::{PodState, wire::Wire};
use k8s_openapi::{api::core::v1::Pod, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::Resource;
use serde::Deserialize;

/// A pod, stripped while it is read.
#[derive(Clone, Debug, Deserialize, Resource)]
#[serde(from = "Wire")]
#[resource(inherit = "Pod")]
pub struct LeanPod {
    /// Its name, and the version that a watch goes on from.
    metadata: ObjectMeta,
    /// All that decides.
    state: Option<PodState>,
}

impl LeanPod {
    /// The facts of this state; `None` for an object without namespace, name or uid.
    pub fn into_state(self) -> Option<PodState> {
        self.state
    }
}

impl From<Wire> for LeanPod {
    fn from(wire: Wire) -> Self {
        let state = wire.state();
        let mut metadata = ObjectMeta::default();
        if let Some(own) = wire.metadata {
            metadata.name = own.name;
            metadata.resource_version = own.resource_version;
        }
        Self { metadata, state }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use ipgc_core::pod::ContainerState;
    use serde_json::json;

    use super::*;

    #[test]
    fn containers_of_all_kinds_are_read() {
        let pod: LeanPod = serde_json::from_value(json!({
            "metadata": {"name": "web-0", "namespace": "d", "uid": "u"},
            "status": {
                "containerStatuses": [{"name": "c", "state": {"terminated": {"exitCode": 0, "startedAt": "2026-01-01T00:00:00Z"}}}],
                "initContainerStatuses": [{"name": "i", "state": {"terminated": {"exitCode": 137, "startedAt": null}}}],
                "ephemeralContainerStatuses": [{"name": "e", "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}]
            }
        }))
        .unwrap();
        let containers = pod.into_state().unwrap().containers;
        let states: Vec<_> = containers.iter().map(|c| c.state).collect();
        let of_container = ContainerState::Terminated { started: true };
        let of_init = ContainerState::Terminated { started: false };
        assert_eq!(states, [of_container, of_init, ContainerState::Running]);
    }

    #[test]
    fn every_field_may_be_null_or_absent() {
        let sparse = [
            json!({}),
            json!({"metadata": null, "spec": null, "status": null}),
            json!({"metadata": {"name": null, "annotations": null, "ownerReferences": null}}),
            json!({"metadata": {"annotations": {"k8s.v1.cni.cncf.io/networks": null}}}),
            json!({"spec": {"nodeName": null, "hostNetwork": null, "terminationGracePeriodSeconds": null}}),
            json!({"status": {"phase": null, "conditions": null, "containerStatuses": null}}),
            json!({"status": {"conditions": [{}], "containerStatuses": [{}, {"name": "c", "state": null}, {"name": "c", "state": {"running": null}}]}}),
        ];
        for text in sparse {
            let pod: LeanPod = serde_json::from_value(text.clone()).unwrap();
            assert!(pod.into_state().is_none(), "{text}");
        }
    }

    #[test]
    fn names_return_unless_the_controller_makes_them_up() {
        let named = |owner: serde_json::Value| {
            let pod: LeanPod = serde_json::from_value(json!({
                "metadata": {"name": "p", "namespace": "d", "uid": "u", "ownerReferences": [owner]}
            }))
            .unwrap();
            pod.into_state().unwrap().name_may_return
        };
        let owner = |kind: &str, controller: bool| json!({"apiVersion": "apps/v1", "kind": kind, "name": "o", "uid": "o", "controller": controller});
        assert!(!named(owner("ReplicaSet", true)));
        assert!(
            named(owner("Job", true)),
            "no Job of that group is Kubernetes'"
        );
        assert!(named(owner("ReplicaSet", false)));
        assert!(named(owner("StatefulSet", true)));
    }
}
