//! The usual objects as JSON, in a shape that a real API server accepts too.
//!
//! Builders only; nothing here touches a server. A real server drops some
//! fields on a POST (the status of a pod). [`crate::Server::put`] keeps them.

use serde_json::{Value, json};

/// Annotation in which multus tells what a pod got.
pub const NETWORK_STATUS: &str = "k8s.v1.cni.cncf.io/network-status";
/// Annotation by which a pod asks for networks.
pub const NETWORKS: &str = "k8s.v1.cni.cncf.io/networks";

/// A container id as runtimes make them: 64 hex digits, of which any 16 in a row are different for
/// each `number`, as if they were random.
pub fn sandbox(number: u64) -> String {
    format!("{number:016x}").repeat(4)
}

/// One entry of a network-status annotation, without `default`.
pub fn network(name: &str, interface: &str, ips: &[&str]) -> Value {
    json!({
        "name": name,
        "interface": interface,
        "ips": ips,
        "mac": "02:00:00:00:00:01",
        "dns": {},
    })
}

/// A pod; see [`PodBuilder`].
pub fn pod(namespace: &str, name: &str) -> PodBuilder {
    PodBuilder {
        value: json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": { "namespace": namespace, "name": name },
            "spec": {
                "automountServiceAccountToken": false,
                "containers": [{ "name": "main", "image": "registry.invalid/none:1" }],
                "restartPolicy": "Always",
                "terminationGracePeriodSeconds": 30,
            },
            "status": { "phase": "Pending" },
        }),
        networks: Vec::new(),
    }
}

/// Builds a pod. It begins as pending, unscheduled, with one container.
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing before `build`"]
pub struct PodBuilder {
    value: Value,
    networks: Vec<Value>,
}

impl PodBuilder {
    /// Scheduled to a node.
    pub fn node(mut self, node: &str) -> Self {
        self.value["spec"]["nodeName"] = node.into();
        self
    }

    /// With a uid of its own instead of one that the server makes.
    pub fn uid(mut self, uid: &str) -> Self {
        self.value["metadata"]["uid"] = uid.into();
        self
    }

    /// With a label.
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.value["metadata"]["labels"][key] = value.into();
        self
    }

    /// With an annotation.
    pub fn annotation(mut self, key: &str, value: &str) -> Self {
        self.value["metadata"]["annotations"][key] = value.into();
        self
    }

    /// Asks for networks: the text of the `networks` annotation.
    pub fn networks(self, request: &str) -> Self {
        self.annotation(NETWORKS, request)
    }

    /// Reports a network: one more entry of network-status.
    pub fn reports(mut self, name: &str, interface: &str, ips: &[&str]) -> Self {
        self.networks.push(network(name, interface, ips));
        self
    }

    /// Reports the cluster's default network.
    pub fn reports_default(mut self, ips: &[&str]) -> Self {
        let mut entry = network("cni0", "eth0", ips);
        entry["default"] = true.into();
        self.networks.push(entry);
        self
    }

    /// Controlled by another object.
    pub fn owner(mut self, kind: &str, name: &str) -> Self {
        let version = match kind {
            "Job" => "batch/v1",
            "Node" => "v1",
            "VirtualMachineInstance" => "kubevirt.io/v1",
            _ => "apps/v1",
        };
        self.value["metadata"]["ownerReferences"] = json!([{
            "apiVersion": version,
            "kind": kind,
            "name": name,
            "uid": "00000000-0000-4000-8000-ffffffffffff",
            "controller": true,
        }]);
        self
    }

    /// Held by a finalizer when deleted.
    pub fn finalizer(mut self, finalizer: &str) -> Self {
        self.value["metadata"]["finalizers"] = json!([finalizer]);
        self
    }

    /// With another termination grace.
    pub fn grace(mut self, seconds: u64) -> Self {
        self.value["spec"]["terminationGracePeriodSeconds"] = seconds.into();
        self
    }

    /// A mirror pod of the node's kubelet.
    pub fn mirror(self) -> Self {
        self.annotation("kubernetes.io/config.mirror", "0123456789abcdef")
    }

    /// Running, its sandbox up, its container started.
    pub fn running(mut self) -> Self {
        self.value["status"] = running_status();
        self
    }

    /// Ended by itself: terminal, every container terminated, the sandbox stopped.
    pub fn ended(mut self, phase: &str) -> Self {
        self.value["status"] = ended_status(phase);
        self
    }

    /// With exactly this status.
    pub fn status(mut self, status: Value) -> Self {
        self.value["status"] = status;
        self
    }

    /// Any other change.
    pub fn with(mut self, change: impl FnOnce(&mut Value)) -> Self {
        change(&mut self.value);
        self
    }

    /// The object.
    pub fn build(mut self) -> Value {
        if !self.networks.is_empty() {
            let status = Value::from(self.networks).to_string();
            self.value["metadata"]["annotations"][NETWORK_STATUS] = status.into();
        }
        self.value
    }
}

fn condition(kind: &str, holds: bool) -> Value {
    json!({ "type": kind, "status": if holds { "True" } else { "False" } })
}

fn conditions(sandbox: bool, ready: bool) -> Value {
    json!([
        condition("PodReadyToStartContainers", sandbox),
        condition("Initialized", true),
        condition("Ready", ready),
        condition("ContainersReady", ready),
        condition("PodScheduled", true),
    ])
}

fn container(state: &Value, ready: bool) -> Value {
    json!([{
        "name": "main",
        "image": "registry.invalid/none:1",
        "imageID": "",
        // No row has this id.
        "containerID": format!("containerd://{}", sandbox(u64::MAX)),
        "ready": ready,
        "started": ready,
        "restartCount": 0,
        "state": state,
        "lastState": {},
    }])
}

/// The status of a pod whose container waits for its sandbox.
pub fn starting_status() -> Value {
    json!({
        "phase": "Pending",
        "conditions": conditions(false, false),
        "containerStatuses": container(&json!({ "waiting": { "reason": "ContainerCreating" } }), false),
    })
}

/// The status of a running pod.
pub fn running_status() -> Value {
    let state = json!({ "running": { "startedAt": "2026-01-01T00:00:00Z" } });
    json!({
        "phase": "Running",
        "conditions": conditions(true, true),
        "containerStatuses": container(&state, true),
    })
}

/// The status of a pod after its kubelet stopped it: `phase` is `Succeeded` or `Failed`.
pub fn ended_status(phase: &str) -> Value {
    let code = u8::from(phase != "Succeeded");
    let state = json!({ "terminated": {
        "exitCode": code,
        "reason": if code == 0 { "Completed" } else { "Error" },
        "startedAt": "2026-01-01T00:00:00Z",
        "finishedAt": "2026-01-01T00:00:01Z",
    } });
    json!({
        "phase": phase,
        "conditions": conditions(false, false),
        "containerStatuses": container(&state, false),
    })
}

/// A network attachment definition of type macvlan with whereabouts IPAM for one range.
pub fn nad(namespace: &str, name: &str, range: &str) -> Value {
    nad_with_ipam(
        namespace,
        name,
        &json!({ "type": "whereabouts", "range": range }),
    )
}

/// A network attachment definition of type macvlan with any IPAM.
pub fn nad_with_ipam(namespace: &str, name: &str, ipam: &Value) -> Value {
    let config = json!({
        "cniVersion": "0.3.1",
        "name": name,
        "type": "macvlan",
        "master": "eth0",
        "ipam": ipam,
    });
    nad_with_config(namespace, name, &config.to_string())
}

/// A network attachment definition with this text as its config.
pub fn nad_with_config(namespace: &str, name: &str, config: &str) -> Value {
    json!({
        "apiVersion": "k8s.cni.cncf.io/v1",
        "kind": "NetworkAttachmentDefinition",
        "metadata": { "namespace": namespace, "name": name },
        "spec": { "config": config },
    })
}

/// The name of the pool for a range written in its shortest form.
pub fn pool_name(range: &str) -> String {
    range.replace([':', '/'], "-")
}

/// An `IPPool` for a range; see [`PoolBuilder`].
pub fn pool(namespace: &str, range: &str) -> PoolBuilder {
    PoolBuilder {
        value: json!({
            "apiVersion": "whereabouts.cni.cncf.io/v1alpha1",
            "kind": "IPPool",
            "metadata": { "namespace": namespace, "name": pool_name(range) },
            "spec": { "range": range, "allocations": {} },
        }),
    }
}

/// Builds a pool. It begins without rows, named after its range.
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing before `build`"]
pub struct PoolBuilder {
    value: Value,
}

impl PoolBuilder {
    /// Named otherwise.
    pub fn name(mut self, name: &str) -> Self {
        self.value["metadata"]["name"] = name.into();
        self
    }

    /// Within a `network_name`: the name gets it as a prefix.
    pub fn network_name(self, network: &str) -> Self {
        let name = self.value["metadata"]["name"].as_str().unwrap_or_default();
        let name = format!("{network}-{name}");
        self.name(&name)
    }

    /// With an annotation.
    pub fn annotation(mut self, key: &str, value: &str) -> Self {
        self.value["metadata"]["annotations"][key] = value.into();
        self
    }

    /// With a row: the offset, the sandbox, the pod as `namespace/name`, the interface.
    pub fn row(self, offset: u64, id: &str, podref: &str, ifname: &str) -> Self {
        self.raw_row(&offset.to_string(), row(id, podref, ifname))
    }

    /// With a row of this pod on `net1`, of a sandbox of the same number.
    pub fn row_of(self, offset: u64, podref: &str) -> Self {
        self.row(offset, &sandbox(offset), podref, "net1")
    }

    /// With any row under any key.
    pub fn raw_row(mut self, key: &str, row: Value) -> Self {
        self.value["spec"]["allocations"][key] = row;
        self
    }

    /// The object.
    pub fn build(self) -> Value {
        self.value
    }
}

impl From<PodBuilder> for Value {
    fn from(pod: PodBuilder) -> Self {
        pod.build()
    }
}

impl From<PoolBuilder> for Value {
    fn from(pool: PoolBuilder) -> Self {
        pool.build()
    }
}

/// A row of a pool; without an interface if `ifname` is empty.
pub fn row(id: &str, podref: &str, ifname: &str) -> Value {
    let mut row = json!({ "id": id, "podref": podref });
    if !ifname.is_empty() {
        row["ifname"] = ifname.into();
    }
    row
}

/// A reservation of an address across ranges; `name` is the address as an object name.
pub fn reservation(namespace: &str, name: &str, podref: &str, ifname: &str) -> Value {
    let mut spec = json!({ "podref": podref });
    if !ifname.is_empty() {
        spec["ifname"] = ifname.into();
    }
    json!({
        "apiVersion": "whereabouts.cni.cncf.io/v1alpha1",
        "kind": "OverlappingRangeIPReservation",
        "metadata": { "namespace": namespace, "name": name },
        "spec": spec,
    })
}

/// A `NodeSlicePool` with its slices as pairs of node and range.
pub fn node_slice_pool(
    namespace: &str,
    name: &str,
    range: &str,
    slice_size: &str,
    slices: &[(&str, &str)],
) -> Value {
    let allocations: Vec<Value> = slices
        .iter()
        .map(|(node, range)| json!({ "nodeName": node, "sliceRange": range }))
        .collect();
    json!({
        "apiVersion": "whereabouts.cni.cncf.io/v1alpha1",
        "kind": "NodeSlicePool",
        "metadata": { "namespace": namespace, "name": name },
        "spec": { "range": range, "sliceSize": slice_size },
        "status": { "allocations": allocations },
    })
}

/// A namespace.
pub fn namespace(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": { "name": name },
        "spec": { "finalizers": ["kubernetes"] },
        "status": { "phase": "Active" },
    })
}

/// A node with its Ready condition.
pub fn node(name: &str, ready: bool) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": { "name": name, "labels": { "kubernetes.io/hostname": name } },
        "spec": {},
        "status": { "conditions": [ready_condition(ready, "2026-01-01T00:00:00Z")] },
    })
}

/// The Ready condition of a node; a silent node has `Unknown`.
pub fn ready_condition(ready: bool, since: &str) -> Value {
    json!({
        "type": "Ready",
        "status": if ready { "True" } else { "Unknown" },
        "reason": if ready { "KubeletReady" } else { "NodeStatusUnknown" },
        "message": "",
        "lastHeartbeatTime": since,
        "lastTransitionTime": since,
    })
}

/// The taint that declares a node out of service.
pub fn out_of_service_taint() -> Value {
    json!({
        "key": "node.kubernetes.io/out-of-service",
        "value": "nodeshutdown",
        "effect": "NoExecute",
    })
}

/// A lease as a kubelet or a leader keeps it.
pub fn lease(namespace: &str, name: &str, holder: &str, renew_time: &str) -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": { "namespace": namespace, "name": name },
        "spec": {
            "holderIdentity": holder,
            "leaseDurationSeconds": 40,
            "renewTime": renew_time,
        },
    })
}
