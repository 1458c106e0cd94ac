//! The settings of a run of the collector, and the rights that it needs for them.

use std::time::Duration;

use ipgc_core::{breaker::Limits, evidence::Policy};
use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{Node, Pod},
    events::v1::Event,
    resource::v1::ResourceClaim,
};

use crate::{
    access::{Right, Scope, on},
    api::{IpPool, NetworkAttachmentDefinition, NodeSlicePool, Reservation},
    leader::LEASE,
};

/// The namespace of the kubelets' heartbeats.
pub const NODE_LEASES: &str = "kube-node-lease";
/// The verbs that a dry run uses.
const READS: [&str; 3] = ["get", "list", "watch"];

/// Settings of a [`Collector`](crate::run::Collector).
#[derive(Clone)]
pub struct Config {
    /// Look for pools in this namespace only; everywhere if there is none.
    pub pool_namespace: Option<String>,
    /// Waits and exemptions.
    pub policy: Policy,
    /// How many pools are read at a time, beside sweeps.
    pub workers: usize,
    /// How often an incarnation is tried again after a failure.
    pub max_retries: u32,
    /// Wait after the first failure; it doubles with each.
    pub retry_from: Duration,
    /// Longest wait after a failure.
    pub retry_to: Duration,
    /// Most incarnations in work at a time; the rest is left to the sweep.
    pub queue_capacity: usize,
    /// Time between sweeps.
    pub sweep_interval: Duration,
    /// When the breaker opens.
    pub breaker: Limits,
    /// Whether rows of ResourceClaims that are gone are freed too.
    pub resource_claims: bool,
    /// Whether pools are deleted that have been empty and unreferenced for a day.
    pub collect_empty_pools: bool,
    /// Every decision is taken, nothing is written.
    pub dry_run: bool,
    /// Name of this process in the events it sends.
    pub instance: String,
    /// The namespace of the Lease of leader election; without it this is the only copy.
    pub lease_namespace: Option<String>,
}

impl Config {
    /// The namespace of the Lease by which it is decided whether this copy writes; `None` without an election. A dry
    /// run writes nothing, so it takes part in none.
    pub fn election(&self) -> Option<&str> {
        let namespace = self.lease_namespace.as_deref();
        namespace.filter(|_| !self.dry_run)
    }

    /// All rights that a run needs: those that `manifests/base/rbac.yaml` grants.
    pub fn rights(&self) -> Vec<Right> {
        let everywhere = &Scope::AllNamespaces;
        let beats = &Scope::Namespace(NODE_LEASES.to_owned());
        let namespace = |name: &str| Scope::Namespace(name.to_owned());
        let pools = self.pool_namespace.as_deref();
        let pools = &pools.map_or(Scope::AllNamespaces, namespace);
        let mut rights: Vec<_> = [
            on::<Pod>(everywhere, &READS),
            on::<Node>(&Scope::Cluster, &READS),
            on::<NetworkAttachmentDefinition>(everywhere, &["list", "watch"]),
            on::<Lease>(beats, &["list"]),
            on::<IpPool>(pools, &["get", "list", "patch"]),
            on::<Reservation>(pools, &["get", "list", "patch", "delete"]),
            on::<NodeSlicePool>(pools, &["list"]),
            on::<Event>(everywhere, &["create"]),
        ]
        .concat();
        if self.collect_empty_pools {
            rights.extend(on::<IpPool>(pools, &["delete"]));
        }
        if self.resource_claims {
            rights.extend(on::<ResourceClaim>(everywhere, &["list"]));
        }
        if let Some(name) = self.election() {
            let leases = &namespace(name);
            // RBAC cannot limit it to a name: that of what is not there yet is not known.
            rights.extend(on::<Lease>(leases, &["create"]));
            let of_ours = on::<Lease>(leases, &["get", "update"]);
            rights.extend(of_ours.into_iter().map(|right| Right {
                name: Some(LEASE.into()),
                ..right
            }));
        }
        if self.dry_run {
            rights.retain(|right| READS.contains(&right.verb));
        }
        rights
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            pool_namespace: None,
            policy: Policy::default(),
            workers: 4,
            max_retries: 5,
            sweep_interval: Duration::from_mins(5),
            breaker: Limits::default(),
            resource_claims: false,
            collect_empty_pools: false,
            dry_run: false,
            retry_from: Duration::from_millis(200),
            retry_to: Duration::from_secs(30),
            // More pods than the largest cluster that Kubernetes supports can lose at once.
            queue_capacity: 200_000,
            instance: "ipgc".to_owned(),
            lease_namespace: None,
        }
    }
}
