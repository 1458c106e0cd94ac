//! The JSON of a pod, with nothing but what decides about its rows.
//!
//! All else, the environment of containers and the like, is skipped while it is read. Reading is total: every
//! field may be absent or null.

use std::{net::IpAddr, time::Duration};

use jiff::Timestamp;
use serde::{Deserialize, de::IgnoredAny};

use super::{Container, ContainerState, Phase, PodState};
use crate::{
    id::IdTag,
    networks::{Request, Status, parse_address},
    podref::PodRef,
};

/// Controllers that make up a new name for each pod, by API group and kind. The group counts: other
/// groups have Jobs whose pods come back under their names.
const NAMES_NEVER_RETURN: [(&str, &str); 4] = [
    ("apps", "ReplicaSet"),
    ("apps", "DaemonSet"),
    ("batch", "Job"),
    // Its virt-launcher pods: each has a new suffix.
    ("kubevirt.io", "VirtualMachineInstance"),
];

const CONDITION: &str = "PodReadyToStartContainers";

/// A pod, stripped while it is read.
#[derive(Clone, Debug, Deserialize)]
pub struct Wire {
    /// Its name and its uid.
    pub metadata: Option<Metadata>,
    spec: Option<Spec>,
    status: Option<PodStatus>,
}

/// The name and the uid of a pod, and what else its metadata tells.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Metadata {
    /// `metadata.name`.
    pub name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    /// `metadata.resourceVersion`.
    pub resource_version: Option<String>,
    creation_timestamp: Option<String>,
    deletion_timestamp: Option<String>,
    deletion_grace_period_seconds: Option<i64>,
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
    restart_policy: Option<String>,
    containers: Option<Vec<ContainerSpec>>,
    init_containers: Option<Vec<ContainerSpec>>,
    resource_claims: Option<Vec<IgnoredAny>>,
}

/// A container as its pod asks for it.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ContainerSpec {
    name: Option<String>,
    restart_policy: Option<String>,
    liveness_probe: Option<Probe>,
    startup_probe: Option<Probe>,
}

/// A probe: if it fails, the kubelet stops the container.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Probe {
    termination_grace_period_seconds: Option<i64>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct PodStatus {
    phase: Option<Phase>,
    #[serde(rename = "podIPs")]
    addresses: Option<Vec<PodIp>>,
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
struct PodIp {
    ip: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ContainerStatus {
    name: Option<String>,
    #[serde(rename = "containerID")]
    id: Option<String>,
    state: Option<State>,
    last_state: Option<State>,
}

#[derive(Clone, Debug, Deserialize)]
struct State {
    running: Option<IgnoredAny>,
    terminated: Option<Terminated>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Terminated {
    started_at: Option<String>,
    finished_at: Option<String>,
    exit_code: Option<i64>,
    #[serde(rename = "containerID")]
    id: Option<String>,
}

fn kept(text: Option<&String>) -> Option<Box<str>> {
    let text = text.filter(|text| !text.is_empty())?;
    Some(text.as_str().into())
}

fn time(text: impl AsRef<str>) -> Option<Timestamp> {
    text.as_ref().parse().ok()
}

impl Wire {
    /// The facts of this state; `None` for an object without namespace, name or uid.
    pub fn state(&self) -> Option<PodState> {
        let metadata = self.metadata.as_ref()?;
        let namespace = metadata.namespace.as_deref()?;
        let podref = PodRef::new(namespace, metadata.name.as_deref()?)?;
        let uid = metadata.uid.as_deref()?.into();
        let (no_annotations, no_spec) = (Annotations::default(), Spec::default());
        let no_status = PodStatus::default();
        let annotations = metadata.annotations.as_ref().unwrap_or(&no_annotations);
        let mut owners = metadata.owner_references.iter().flatten();
        let controller = owners.find(|owner| owner.controller == Some(true));
        let spec = self.spec.as_ref().unwrap_or(&no_spec);
        let status = self.status.as_ref().unwrap_or(&no_status);
        let mut conditions = status.conditions.iter().flatten();
        let up = conditions.find(|condition| condition.kind.as_deref() == Some(CONDITION));
        let host_network = spec.host_network.unwrap_or(false);
        let networks = annotations.status.as_deref();
        let networks = networks.map_or(Status::Missing, Status::parse);
        let request = annotations.request.as_deref();
        // A deletion or a probe may ask for more.
        let asked = metadata.deletion_grace_period_seconds;
        let asked = spec.probe_graces().chain(asked).max().unwrap_or(0);
        let grace = spec.termination_grace_period_seconds;
        let born = metadata.creation_timestamp.iter();
        let times = born.chain(&metadata.deletion_timestamp).filter_map(time);
        // With the host's network these are the node's.
        let pod_ips = status.pod_ips().filter(|_| !host_network);
        Some(PodState {
            podref,
            uid,
            phase: status.phase.unwrap_or_default(),
            deleting: metadata.deletion_timestamp.is_some(),
            node: kept(spec.node_name.as_ref()),
            host_network,
            mirror: annotations.mirror.is_some(),
            name_may_return: !controller.is_some_and(Owner::makes_up_names),
            termination_grace: grace
                .map(|seconds| Duration::from_secs(u64::try_from(seconds.max(asked)).unwrap_or(0))),
            status: networks.with_pod_ips(pod_ips),
            request: request.map_or_else(Request::default, |it| Request::parse(it, namespace)),
            default_network: kept(annotations.default_network.as_ref()),
            sandbox_ready: up.map(|condition| condition.status.as_deref() == Some("True")),
            containers: status
                .statuses()
                .filter_map(ContainerStatus::container)
                .collect(),
            restarts: status.restarts(spec),
            container_ids: status.all_ids(),
            has_resource_claims: spec.resource_claims.iter().flatten().count() > 0,
            since: times.chain(status.ends()).max(),
        })
    }
}

impl Spec {
    /// How long the kubelet gives containers to stop whose probes failed, in seconds.
    fn probe_graces(&self) -> impl Iterator<Item = i64> {
        let all = self.containers.iter().chain(&self.init_containers);
        let all = all.flatten();
        let probes = all.flat_map(|it| it.liveness_probe.iter().chain(&it.startup_probe));
        probes.filter_map(|probe| probe.termination_grace_period_seconds)
    }
}

impl PodStatus {
    fn ends(&self) -> impl Iterator<Item = Timestamp> {
        self.statuses().filter_map(|status| {
            let end = status.state.as_ref()?.terminated.as_ref()?;
            end.finished_at.as_ref().and_then(time)
        })
    }

    /// Whether the kubelet may start a container anew that ended: those that serve are left, init containers after a
    /// failure, and those with a policy or rules of their own.
    fn restarts(&self, spec: &Spec) -> bool {
        let code = |it: &ContainerStatus| Some(it.state.as_ref()?.terminated.as_ref()?.exit_code);
        let own = [&spec.containers, &spec.init_containers];
        let own = own.into_iter().flatten().flatten();
        let mut own = own.filter(|it| it.restart_policy.is_some());
        let by_itself = own.any(|spec| {
            let mut same = self.statuses().filter(|it| it.name == spec.name);
            same.any(|it| code(it).is_some())
        });
        let failed = |it: &ContainerStatus| code(it).is_some_and(|code| code != Some(0));
        let mut serving = self.containers.iter().flatten();
        let mut init = self.init_containers.iter().flatten();
        let by_the_pod = match spec.restart_policy.as_deref() {
            Some("Never") => false,
            Some("OnFailure") => serving.any(failed) || init.any(failed),
            _ => serving.any(|it| code(it).is_some()) || init.any(failed),
        };
        by_itself || by_the_pod
    }

    fn statuses(&self) -> impl Iterator<Item = &ContainerStatus> {
        let groups = [
            &self.containers,
            &self.init_containers,
            &self.ephemeral_containers,
        ];
        groups.into_iter().flatten().flatten()
    }

    fn all_ids(&self) -> Box<[IdTag]> {
        let mut ids: Vec<_> = self.statuses().flat_map(ContainerStatus::ids).collect();
        ids.sort_unstable();
        ids.dedup();
        ids.into()
    }

    fn pod_ips(&self) -> impl Iterator<Item = IpAddr> {
        let ips = self.addresses.iter().flatten();
        ips.filter_map(|ip| parse_address(ip.ip.as_deref()?))
    }
}

impl Owner {
    fn makes_up_names(&self) -> bool {
        let version = self.api_version.as_deref().unwrap_or_default();
        let group = version.split_once('/').map_or("", |(group, _)| group);
        let kind = self.kind.as_deref().unwrap_or_default();
        NAMES_NEVER_RETURN.contains(&(group, kind))
    }
}

impl ContainerStatus {
    /// The ids of this run of the container and of the one before.
    fn ids(&self) -> impl Iterator<Item = IdTag> {
        let states = [&self.state, &self.last_state].into_iter().flatten();
        let ended = states.filter_map(|state| state.terminated.as_ref()?.id.as_ref());
        self.id.iter().chain(ended).filter_map(|id| {
            // The runtime stands before it: `containerd://<id>`.
            IdTag::of(id.split_once("://").map_or(id, |(_, id)| id))
        })
    }

    fn container(&self) -> Option<Container> {
        let state = match &self.state {
            Some(State {
                running: Some(_), ..
            }) => ContainerState::Running,
            Some(State {
                terminated: Some(end),
                ..
            }) => ContainerState::Terminated {
                started: end.started_at.as_ref().is_some_and(|at| !at.is_empty()),
            },
            _ => ContainerState::Waiting,
        };
        Some(Container {
            name: self.name.as_deref()?.into(),
            state,
        })
    }
}
