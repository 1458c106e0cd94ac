//! The few facts about a pod that decide about its rows.
//!
//! One [`PodState`] is one state of one incarnation, stripped. Where it comes from (a watch, a GET,
//! a file) is the caller's affair.

pub mod wire;

use std::{net::IpAddr, sync::Arc, time::Duration};

use jiff::Timestamp;
use serde::Deserialize;

use crate::{
    id::IdTag,
    networks::{Request, Status},
    podref::PodRef,
};

/// `status.phase`; what we do not know is [`Phase::Unknown`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
pub enum Phase {
    /// Not all of it has started.
    Pending,
    /// At least one container has started.
    Running,
    /// All containers ended well.
    Succeeded,
    /// All containers ended, at least one of them badly.
    Failed,
    /// Anything else, an absent phase included.
    #[default]
    #[serde(other)]
    Unknown,
}

impl Phase {
    /// Whether a pod in this phase never runs again.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }
}

/// The state of one container, init, sidecar and ephemeral ones included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ContainerState {
    /// Not started, or between two runs.
    Waiting,
    /// It runs.
    Running,
    /// It ended. The kubelet makes up such a state, without a start time, for a container that
    /// never ran.
    Terminated {
        /// Whether the state has a start time.
        started: bool,
    },
}

/// A container and its state.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Container {
    /// Its name, unique within the pod.
    pub name: Box<str>,
    /// Its state.
    pub state: ContainerState,
}

/// One state of one incarnation.
// Independent facts, not the states of a machine.
#[allow(clippy::struct_excessive_bools)]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PodState {
    /// Namespace and name.
    pub podref: PodRef,
    /// The incarnation.
    pub uid: Box<str>,
    /// `status.phase`.
    pub phase: Phase,
    /// Whether it has a deletionTimestamp.
    pub deleting: bool,
    /// `spec.nodeName`; none while it is not scheduled.
    pub node: Option<Box<str>>,
    /// `spec.hostNetwork`: it has no network of its own, so no rows.
    pub host_network: bool,
    /// A static pod's mirror: the sandbox does not end with this object.
    pub mirror: bool,
    /// Whether a pod of the same name may come back. False only for pods that a ReplicaSet,
    /// DaemonSet, Job or `VirtualMachineInstance` controls, which make up a new name each time.
    pub name_may_return: bool,
    /// `spec.terminationGracePeriodSeconds`, or what a deletion asked for if that is more.
    pub termination_grace: Option<Duration>,
    /// Its network-status annotation: the interfaces that multus reports.
    pub status: Status,
    /// Its networks annotation: the networks that it asks multus for.
    pub request: Request,
    /// The default network that it asked for in place of the cluster's, as multus names it.
    pub default_network: Option<Box<str>>,
    /// The condition `PodReadyToStartContainers`: the sandbox is up. None where the kubelet is too
    /// old to report it.
    pub sandbox_ready: Option<bool>,
    /// All container states reported.
    pub containers: Arc<[Container]>,
    /// Whether a container that ended is to be started anew, so that the kubelet may be at work on that. Of a pod that was
    /// seen before it was being deleted: whether it was so then.
    pub restarts: bool,
    /// The ids of its containers, those that run and those that ran last, init and ephemeral ones included.
    pub container_ids: Box<[IdTag]>,
    /// Whether `spec.resourceClaims` names some.
    pub has_resource_claims: bool,
    /// The latest of its creation, its deletionTimestamp and the ends of its containers. An audit tells by it whether a
    /// state is old; no rule judges by it, since the clocks of others differ.
    pub since: Option<Timestamp>,
}

impl PodState {
    /// Whether its row of this address shows that a pool is not the slice of `node`: it is on another node, and has
    /// the address as far as its network-status tells. A report that an earlier incarnation left there shows nothing.
    pub fn disproves_slice(&self, node: &str, address: IpAddr) -> bool {
        let is_elsewhere = self.node.as_deref().is_some_and(|own| own != node);
        let has_it = || self.status.has_address(address);
        is_elsewhere && (has_it() || !self.status.is_complete_for(&self.request))
    }

    /// Whether its kubelet may not come to stop its sandbox for long, though it is at work: it is `stuck`, or starting a
    /// container. It breaks off neither the pull of an image nor a postStart hook.
    pub fn may_outlast(&self, stuck: bool) -> bool {
        let mut states = self.containers.iter().map(|container| container.state);
        let is_starting = self.restarts
            || self.containers.is_empty()
            || states.any(|state| state == ContainerState::Waiting);
        (stuck || is_starting) && !self.kubelet_ended_it()
    }

    /// Whether it is in phase Running, and nobody deleted it.
    pub fn is_running(&self) -> bool {
        self.phase == Phase::Running && !self.deleting
    }

    /// Whether its kubelet may have written its terminal phase: while its sandbox is up or a container runs, another
    /// program did.
    pub fn kubelet_ended_it(&self) -> bool {
        self.phase.is_terminal() && self.sandbox_ready != Some(true) && !self.runs()
    }

    /// Whether one of its containers runs.
    pub fn runs(&self) -> bool {
        let mut containers = self.containers.iter();
        containers.any(|container| container.state == ContainerState::Running)
    }

    /// Whether the kubelet found none of the containers of a pod with this address when the pod entered a terminal phase,
    /// and made up how they ended. It does so when the runtime has removed them. If ipgc first sees the pod then, it never
    /// learns that a container started. The kubelet does the same for a set-up that was cut off and may go on; but then
    /// multus has not reported the address.
    pub fn is_end_made_up(&self, address: IpAddr) -> bool {
        let made_up = ContainerState::Terminated { started: false };
        let mut containers = self.containers.iter();
        !self.containers.is_empty()
            && containers.all(|container| container.state == made_up)
            && self.sandbox_ready != Some(true)
            && self.status.has_address(address)
    }

    /// Whether this is the id of one of its containers.
    pub fn shows(&self, id: &str) -> bool {
        IdTag::of(id).is_some_and(|id| self.container_ids.contains(&id))
    }

    /// Whether it tells all addresses that it uses: each network that it asked for has an entry in its
    /// status, or it has no network of its own.
    pub fn is_complete(&self) -> bool {
        self.host_network || self.status.is_complete_for(&self.request)
    }

    /// Whether it has, or had, a network of its own on some node.
    pub fn has_network(&self) -> bool {
        !self.host_network && self.node.is_some()
    }

    /// Whether the pod can have rows at all: it was scheduled, has a network of its own, and multus
    /// was asked for something or said something. For all others no request is ever made.
    pub fn can_have_rows(&self) -> bool {
        let asked = match &self.request {
            Request::Valid(networks) => !networks.is_empty(),
            Request::Malformed(_) => true,
        };
        let networked = asked || self.default_network.is_some() || self.status != Status::Missing;
        self.has_network() && networked
    }
}
