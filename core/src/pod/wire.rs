//! The JSON of a pod, with nothing but what decides about its rows.
//!
//! All else, the environment of containers and the like, is skipped while it is read. Reading is total: every
//! field may be absent or null. The texts are a parameter, since those of a pod that is kept are owned and those
//! of a dump are borrowed from it.

use std::{net::IpAddr, sync::Arc, time::Duration};

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

/// The condition that is read.
const CONDITION: &str = "PodReadyToStartContainers";

/// A pod, stripped while it is read.
#[derive(Clone, Debug, Deserialize)]
#[serde(bound(deserialize = "T: Deserialize<'de>"))]
pub struct Wire<T> {
    /// Who it is.
    pub metadata: Option<Metadata<T>>,
    spec: Option<Spec<T>>,
    status: Option<PodStatus<T>>,
}

/// Who a pod is, and what is said of it there.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "T: Deserialize<'de>"))]
pub struct Metadata<T> {
    /// `metadata.name`.
    pub name: Option<T>,
    /// `metadata.namespace`.
    pub namespace: Option<T>,
    /// `metadata.uid`.
    pub uid: Option<T>,
    /// `metadata.resourceVersion`.
    pub resource_version: Option<T>,
    creation_timestamp: Option<T>,
    deletion_timestamp: Option<T>,
    annotations: Option<Annotations<T>>,
    owner_references: Option<Vec<Owner<T>>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Owner<T> {
    api_version: Option<T>,
    kind: Option<T>,
    controller: Option<bool>,
}

/// Only these are read; all others are skipped without being kept.
#[derive(Clone, Debug, Deserialize)]
struct Annotations<T> {
    #[serde(rename = "k8s.v1.cni.cncf.io/network-status")]
    status: Option<T>,
    #[serde(rename = "k8s.v1.cni.cncf.io/networks")]
    request: Option<T>,
    #[serde(rename = "v1.multus-cni.io/default-network")]
    default_network: Option<T>,
    #[serde(rename = "kubernetes.io/config.mirror")]
    mirror: Option<T>,
}

/// Where a pod is.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec<T> {
    node_name: Option<T>,
    host_network: Option<bool>,
    termination_grace_period_seconds: Option<i64>,
}

/// What a kubelet says of a pod.
#[derive(Clone, Debug, Deserialize)]
#[serde(bound(deserialize = "T: Deserialize<'de>"))]
struct PodStatus<T> {
    phase: Option<T>,
    #[serde(rename = "podIPs")]
    addresses: Option<Vec<PodIp<T>>>,
    conditions: Option<Vec<Condition<T>>>,
    #[serde(rename = "containerStatuses")]
    containers: Option<Vec<ContainerStatus<T>>>,
    #[serde(rename = "initContainerStatuses")]
    init_containers: Option<Vec<ContainerStatus<T>>>,
    #[serde(rename = "ephemeralContainerStatuses")]
    ephemeral_containers: Option<Vec<ContainerStatus<T>>>,
}

#[derive(Clone, Debug, Deserialize)]
struct Condition<T> {
    #[serde(rename = "type")]
    kind: Option<T>,
    status: Option<T>,
}

#[derive(Clone, Debug, Deserialize)]
struct PodIp<T> {
    ip: Option<T>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "T: Deserialize<'de>"))]
struct ContainerStatus<T> {
    name: Option<T>,
    #[serde(rename = "containerID")]
    id: Option<T>,
    state: Option<State<T>>,
    last_state: Option<State<T>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(bound(deserialize = "T: Deserialize<'de>"))]
struct State<T> {
    running: Option<IgnoredAny>,
    terminated: Option<Terminated<T>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Terminated<T> {
    started_at: Option<T>,
    finished_at: Option<T>,
    #[serde(rename = "containerID")]
    id: Option<T>,
}

fn text<T: AsRef<str>>(text: Option<&T>) -> Option<&str> {
    text.map(AsRef::as_ref)
}

fn some<T: AsRef<str>>(it: Option<&T>) -> Option<Box<str>> {
    text(it).filter(|text| !text.is_empty()).map(Into::into)
}

impl<T: AsRef<str>> Wire<T> {
    /// The facts of this state; `None` for an object without namespace, name or uid.
    #[must_use]
    pub fn state(&self) -> Option<PodState> {
        let metadata = self.metadata.as_ref()?;
        let namespace = text(metadata.namespace.as_ref())?;
        let podref = PodRef::new(namespace, text(metadata.name.as_ref())?).ok()?;
        let uid = text(metadata.uid.as_ref())?.into();
        let annotations = metadata.annotations.as_ref();
        let mut owners = metadata.owner_references.iter().flatten();
        let controller = owners.find(|owner| owner.controller == Some(true));
        let spec = self.spec.as_ref();
        let status = self.status.as_ref();
        let is_ready = |condition: &&Condition<T>| text(condition.kind.as_ref()) == Some(CONDITION);
        let mut conditions = status.iter().flat_map(|it| it.conditions.iter().flatten());
        let sandbox_ready = conditions
            .find(is_ready)
            .map(|condition| text(condition.status.as_ref()) == Some("True"));
        let host_network = spec.and_then(|it| it.host_network).unwrap_or(false);
        let networks = text(annotations.and_then(|it| it.status.as_ref()))
            .map_or(Status::Missing, Status::parse);
        Some(PodState {
            uid,
            phase: text(status.and_then(|it| it.phase.as_ref()))
                .map_or(Phase::Unknown, Phase::parse),
            deleting: metadata.deletion_timestamp.is_some(),
            node: some(spec.and_then(|it| it.node_name.as_ref())),
            host_network,
            mirror: annotations.is_some_and(|it| it.mirror.is_some()),
            name_may_return: !controller.is_some_and(Owner::makes_up_names),
            termination_grace: spec
                .and_then(|it| it.termination_grace_period_seconds)
                .map(|seconds| Duration::from_secs(u64::try_from(seconds).unwrap_or(0))),
            status: match status {
                // With the host's network these are the node's.
                Some(status) if !host_network => networks.with_pod_ips(status.pod_ips()),
                _ => networks,
            },
            request: text(annotations.and_then(|it| it.request.as_ref()))
                .map_or_else(Request::default, |text| Request::parse(text, namespace)),
            default_network: some(annotations.and_then(|it| it.default_network.as_ref())),
            sandbox_ready,
            containers: status.map_or_else(Arc::default, PodStatus::all_containers),
            container_ids: status.map_or_else(Box::default, PodStatus::all_ids),
            since: metadata
                .times()
                .chain(status.into_iter().flat_map(PodStatus::ends))
                .max(),
            podref,
        })
    }
}

fn time<T: AsRef<str>>(text: &T) -> Option<Timestamp> {
    text.as_ref().parse().ok()
}

impl<T: AsRef<str>> Metadata<T> {
    fn times(&self) -> impl Iterator<Item = Timestamp> {
        let times = [&self.creation_timestamp, &self.deletion_timestamp];
        times.into_iter().flatten().filter_map(time)
    }
}

impl<T: AsRef<str>> PodStatus<T> {
    fn ends(&self) -> impl Iterator<Item = Timestamp> {
        self.statuses().filter_map(|status| {
            let end = status.state.as_ref()?.terminated.as_ref()?;
            end.finished_at.as_ref().and_then(time)
        })
    }

    fn statuses(&self) -> impl Iterator<Item = &ContainerStatus<T>> {
        let groups = [
            &self.containers,
            &self.init_containers,
            &self.ephemeral_containers,
        ];
        groups.into_iter().flatten().flatten()
    }

    fn all_containers(&self) -> Arc<[Container]> {
        self.statuses()
            .filter_map(ContainerStatus::container)
            .collect()
    }

    fn all_ids(&self) -> Box<[IdTag]> {
        let mut ids: Vec<_> = self.statuses().flat_map(ContainerStatus::ids).collect();
        ids.sort_unstable();
        ids.dedup();
        ids.into()
    }

    fn pod_ips(&self) -> impl Iterator<Item = IpAddr> {
        let ips = self.addresses.iter().flatten();
        ips.filter_map(|ip| parse_address(text(ip.ip.as_ref())?))
    }
}

impl<T: AsRef<str>> Owner<T> {
    fn makes_up_names(&self) -> bool {
        let version = text(self.api_version.as_ref()).unwrap_or_default();
        let group = version.split_once('/').map_or("", |(group, _)| group);
        let kind = text(self.kind.as_ref()).unwrap_or_default();
        NAMES_NEVER_RETURN.contains(&(group, kind))
    }
}

impl<T: AsRef<str>> ContainerStatus<T> {
    /// The ids of this run of the container and of the one before.
    fn ids(&self) -> impl Iterator<Item = IdTag> {
        let states = [&self.state, &self.last_state].into_iter().flatten();
        let ended = states.filter_map(|state| state.terminated.as_ref()?.id.as_ref());
        self.id.iter().chain(ended).filter_map(|id| {
            let id = id.as_ref();
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
                started: text(end.started_at.as_ref()).is_some_and(|at| !at.is_empty()),
            },
            _ => ContainerState::Waiting,
        };
        Some(Container {
            name: text(self.name.as_ref())?.into(),
            state,
        })
    }
}
