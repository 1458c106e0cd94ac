//! A pod as it comes from the API server, with nothing but what decides about its rows.
//!
//! The type is deserialized in place of `Pod`, so that managed fields, environment and the rest of
//! a pod are skipped while they are read. Deserialization is total: every field may be absent or
//! null, because one item that failed would fail its whole page, for ever.

use std::{borrow::Cow, time::Duration};

use ipgc_core::{
    networks::{Request, Status},
    pod::{Container, ContainerState, Phase, PodState},
    podref::PodRef,
};
use k8s_openapi::{
    NamespaceResourceScope, api::core::v1::Pod, apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use serde::Deserialize;

/// Controllers that make up a new name for each pod, by API group and kind. The group counts: other
/// groups have Jobs whose pods come back under their names.
const NAMES_NEVER_RETURN: [(&str, &str); 3] = [
    ("apps", "ReplicaSet"),
    ("apps", "DaemonSet"),
    ("batch", "Job"),
];

/// A pod, stripped while it is read.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "Wire")]
pub struct LeanPod {
    meta: ObjectMeta,
    deleting: bool,
    annotations: Annotations,
    controller: Option<Owner>,
    spec: Spec,
    status: PodStatus,
}

impl LeanPod {
    /// The facts of this state; `None` for an object without namespace, name or uid.
    #[must_use]
    pub fn into_state(self) -> Option<PodState> {
        let namespace = self.meta.namespace?;
        let podref = PodRef::new(&namespace, &self.meta.name?).ok()?;
        let ready =
            |condition: &&Condition| condition.kind.as_deref() == Some("PodReadyToStartContainers");
        let sandbox_ready = self
            .status
            .conditions
            .as_deref()
            .unwrap_or_default()
            .iter()
            .find(ready)
            .map(|condition| condition.status.as_deref() == Some("True"));
        Some(PodState {
            uid: self.meta.uid?.into(),
            phase: self
                .status
                .phase
                .as_deref()
                .map_or(Phase::Unknown, Phase::parse),
            deleting: self.deleting,
            node: self
                .spec
                .node_name
                .filter(|node| !node.is_empty())
                .map(Into::into),
            host_network: self.spec.host_network.unwrap_or(false),
            mirror: self.annotations.mirror.is_some(),
            name_may_return: !self.controller.is_some_and(|owner| owner.makes_up_names()),
            termination_grace: self
                .spec
                .termination_grace_period_seconds
                .map(|seconds| Duration::from_secs(u64::try_from(seconds).unwrap_or(0))),
            status: self
                .annotations
                .status
                .as_deref()
                .map_or(Status::Missing, Status::parse),
            request: self
                .annotations
                .request
                .as_deref()
                .map_or_else(Request::default, |text| Request::parse(text, &namespace)),
            default_network: self
                .annotations
                .default_network
                .filter(|name| !name.is_empty())
                .map(Into::into),
            sandbox_ready,
            containers: self
                .status
                .containers
                .into_iter()
                .chain(self.status.init_containers)
                .chain(self.status.ephemeral_containers)
                .flatten()
                .filter_map(ContainerStatus::into_container)
                .collect(),
            podref,
        })
    }
}

/// The informer reads pods: same API, same paths, fewer fields.
impl kube::Resource for LeanPod {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind(dt: &()) -> Cow<'_, str> {
        Pod::kind(dt)
    }

    fn group(dt: &()) -> Cow<'_, str> {
        Pod::group(dt)
    }

    fn version(dt: &()) -> Cow<'_, str> {
        Pod::version(dt)
    }

    fn plural(dt: &()) -> Cow<'_, str> {
        Pod::plural(dt)
    }

    fn meta(&self) -> &ObjectMeta {
        &self.meta
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.meta
    }
}

#[derive(Deserialize)]
struct Wire {
    metadata: Option<Metadata>,
    spec: Option<Spec>,
    status: Option<PodStatus>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    deletion_timestamp: Option<String>,
    annotations: Option<Annotations>,
    owner_references: Option<Vec<Owner>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Owner {
    api_version: Option<String>,
    kind: Option<String>,
    controller: Option<bool>,
}

impl Owner {
    fn makes_up_names(&self) -> bool {
        let version = self.api_version.as_deref().unwrap_or_default();
        let group = version.split_once('/').map_or("", |(group, _)| group);
        let kind = self.kind.as_deref().unwrap_or_default();
        NAMES_NEVER_RETURN.contains(&(group, kind))
    }
}

/// Only these are read; all others are skipped without being kept.
#[derive(Clone, Debug, Default, Deserialize)]
struct Annotations {
    #[serde(rename = "k8s.v1.cni.cncf.io/network-status")]
    status: Option<String>,
    #[serde(rename = "k8s.v1.cni.cncf.io/networks")]
    request: Option<String>,
    #[serde(rename = "v1.multus-cni.io/default-network")]
    default_network: Option<String>,
    #[serde(rename = "kubernetes.io/config.mirror")]
    mirror: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    node_name: Option<String>,
    host_network: Option<bool>,
    termination_grace_period_seconds: Option<i64>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodStatus {
    phase: Option<String>,
    conditions: Option<Vec<Condition>>,
    #[serde(rename = "containerStatuses")]
    containers: Option<Vec<ContainerStatus>>,
    #[serde(rename = "initContainerStatuses")]
    init_containers: Option<Vec<ContainerStatus>>,
    #[serde(rename = "ephemeralContainerStatuses")]
    ephemeral_containers: Option<Vec<ContainerStatus>>,
}

#[derive(Clone, Debug, Deserialize)]
struct Condition {
    #[serde(rename = "type")]
    kind: Option<String>,
    status: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
struct ContainerStatus {
    name: Option<String>,
    state: Option<State>,
}

#[derive(Clone, Debug, Deserialize)]
struct State {
    running: Option<serde::de::IgnoredAny>,
    terminated: Option<Terminated>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Terminated {
    started_at: Option<String>,
}

impl ContainerStatus {
    fn into_container(self) -> Option<Container> {
        let state = match self.state {
            Some(State {
                running: Some(_), ..
            }) => ContainerState::Running,
            Some(State {
                terminated: Some(end),
                ..
            }) => ContainerState::Terminated {
                started: end.started_at.is_some_and(|at| !at.is_empty()),
            },
            _ => ContainerState::Waiting,
        };
        Some(Container {
            name: self.name?.into(),
            state,
        })
    }
}

impl From<Wire> for LeanPod {
    fn from(wire: Wire) -> Self {
        let metadata = wire.metadata.unwrap_or_default();
        let controller = metadata
            .owner_references
            .unwrap_or_default()
            .into_iter()
            .find(|owner| owner.controller == Some(true));
        Self {
            meta: ObjectMeta {
                name: metadata.name,
                namespace: metadata.namespace,
                uid: metadata.uid,
                // Without it the watch cannot go on.
                resource_version: metadata.resource_version,
                ..ObjectMeta::default()
            },
            deleting: metadata.deletion_timestamp.is_some(),
            annotations: metadata.annotations.unwrap_or_default(),
            controller,
            spec: wire.spec.unwrap_or_default(),
            status: wire.status.unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn a_pod_is_stripped_to_the_facts() {
        let pod: LeanPod = serde_json::from_value(json!({
            "metadata": {
                "name": "web-0", "namespace": "d", "uid": "u", "resourceVersion": "7",
                "deletionTimestamp": "2026-01-01T00:00:00Z",
                "annotations": {"x": "y", "k8s.v1.cni.cncf.io/networks": "net"},
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "s", "controller": true}],
                "managedFields": [{"manager": "kubelet"}]
            },
            "spec": {"nodeName": "n1", "terminationGracePeriodSeconds": 5, "containers": [{"name": "c"}]},
            "status": {
                "phase": "Failed",
                "conditions": [{"type": "PodReadyToStartContainers", "status": "False"}],
                "containerStatuses": [{"name": "c", "state": {"terminated": {"exitCode": 0, "startedAt": "2026-01-01T00:00:00Z"}}}],
                "initContainerStatuses": [{"name": "i", "state": {"terminated": {"exitCode": 137, "startedAt": null}}}],
                "ephemeralContainerStatuses": [{"name": "e", "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}]
            }
        }))
        .unwrap();
        let state = pod.into_state().unwrap();
        assert_eq!(state.podref.as_str(), "d/web-0");
        assert!(state.deleting && state.name_may_return && state.can_have_rows());
        assert_eq!(state.sandbox_ready, Some(false));
        assert_eq!(state.termination_grace, Some(Duration::from_secs(5)));
        let states: Vec<_> = state.containers.iter().map(|c| c.state).collect();
        assert_eq!(
            states,
            [
                ContainerState::Terminated { started: true },
                ContainerState::Terminated { started: false },
                ContainerState::Running
            ]
        );
        assert_eq!(&*state.request.networks()[0].network, "d/net");
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

    fn any_json() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<i64>().prop_map(Into::into),
            "\\PC{0,12}".prop_map(Into::into),
        ];
        leaf.prop_recursive(3, 16, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
                proptest::collection::hash_map("[a-z]{1,8}", inner, 0..4)
                    .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn no_pod_panics(odd in any_json(), place in 0..8_usize) {
            let mut pod = json!({
                "metadata": {"name": "p", "namespace": "d", "uid": "u", "annotations": {}},
                "spec": {"nodeName": "n"},
                "status": {"phase": "Running", "containerStatuses": []}
            });
            let pointer = [
                "/metadata/name", "/metadata/annotations", "/metadata/uid", "/spec",
                "/spec/nodeName", "/status", "/status/phase", "/status/containerStatuses",
            ][place];
            *pod.pointer_mut(pointer).unwrap() = odd;
            if let Ok(pod) = serde_json::from_value::<LeanPod>(pod) {
                let _ = pod.into_state().map(|state| state.can_have_rows());
            }
        }
    }
}
